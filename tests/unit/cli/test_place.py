"""The session at hand: a name that is not there is told, and those that are there are named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

import otolith
from otolith import Disk, Versioned
from otolith.cli import program
from tests.unit.cli.terminal import run


def typed(*words: object) -> Result:
    """Return what a verb comes to in this directory, with nothing before it."""
    return CliRunner().invoke(program, list(map(str, words)))


@pytest.fixture
def sessions(said):
    """A store with a session of an agent, and six of nobody."""
    for name in ("trap", "k1", "k2", "k3", "k4", "k5"):
        with Versioned(Disk("a.db"), session=name) as state:
            state.commit("begin", allow_empty=True)
    return said


@pytest.mark.parametrize(
    "words",
    [
        ["resume", "tripp"],
        ["resume", "tripp", "--with", "bot.py:agent"],
        ["resume", "tripp", "--abandon"],
        ["events", "tripp"],
        ["effects", "tripp"],
        ["replay", "tripp"],
        ["replay", "tripp", "--with", "bot.py:agent"],
        ["-s", "tripp", "chat", "show"],
        ["chat", "show", "--session", "tripp"],
        ["-s", "tripp", "log"],
    ],
)
def test_a_session_that_is_mistyped_is_told_with_those_that_are_there(sessions, words):
    result = typed("--store", "a.db", *words)
    assert result.exit_code == 3
    assert "there is no session tripp" in result.stderr
    hint = result.stderr.splitlines()[-1]
    assert hint.startswith("hint: did you mean trip? the sessions are: trip, trap, ")
    assert hint.count(", k") == 3
    assert hint.endswith(", …")


def test_a_session_that_is_like_no_other_is_told_with_how_to_begin_it(said):
    told = typed("--store", "a.db", "events", "zzz").stderr
    assert "hint: the sessions are: trip; `otolith exec zzz -c CODE` begins one" in told


def test_a_run_of_a_mistyped_session_does_not_begin_it(sessions):
    typed("--store", "a.db", "resume", "tripp", "--with", "bot.py:agent")
    assert "tripp" not in run("sessions").output


def test_the_only_session_is_named_where_the_one_at_hand_is_empty(place):
    typed("init")
    typed("run", "bot.py:agent", "Pay", "--session", "k1")
    empty = typed("chat", "show")
    assert empty.exit_code == 3
    assert "session default has no commit yet" in empty.stderr
    assert "the sessions are: k1; `otolith switch -s k1` switches to it" in empty.stderr
    assert "Pay" in typed("chat", "show", "--session", "k1").output
    assert typed("switch", "--session", "k1").exit_code == 0
    assert "Pay" in typed("chat", "show").output


@pytest.mark.parametrize(
    "words", [["show"], ["search", "flight"], ["topics"], ["context", "--budget", "500"]]
)
def test_every_verb_of_a_chat_takes_a_session(said, words):
    with Versioned(Disk("a.db"), session="other") as state:
        state.commit("begin", allow_empty=True)
    shown = typed("--store", "a.db", "chat", *words, "--session", "trip")
    assert shown.exit_code == 0
    assert shown.output == run("chat", *words).output


def test_what_is_staged_does_not_hide_what_an_agent_did_since(said):
    run("set", "note", "1")
    run("resume", "trip", "--with", "bot.py:agent")
    assert "main: done" in run("resume", "trip").output
    assert "Paid 5" in run("chat", "show").output


def test_no_events_are_told_as_none(said):
    assert run("events", "--agent", "nobody").output == "no events\n"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "missing.py"],
        ["run", "missing.py:agent", "Pay"],
        ["exec", "trip", "missing.py"],
        ["resume", "trip", "--with", "missing.py:agent"],
        ["replay", "trip", "--with", "missing.py:agent"],
    ],
)
def test_a_file_that_is_not_there_is_a_wrong_call(said, words):
    result = run(*words)
    assert (result.exit_code, "there is no file" in result.stderr) == (2, True)


ON_A_SESSION = {
    "status": [],
    "log": [],
    "show": [],
    "diff": ["@~1", "@"],
    "cat": [":"],
    "ls": [],
    "blame": [],
    "branch": [],
    "tag": [],
    "memory": [],
    "events": [],
    "effects": [],
    "resume": [],
    "replay": [],
    "vars": [],
    "chat threads": [],
}
"""Verbs that only read, with the words that they need."""


def place_words(verb, words, *, where):
    """Return a command line that names the session before the verb, after it, or by a word."""
    name, store = verb.split(), ["--store", "a.db"]
    if where == "before":
        return [*store, "-s", "trip", *name, *words]
    if where == "word":
        return [*store, *name, "trip", *words]
    return [*store, *name, *words, where, "trip"]


@pytest.mark.parametrize("verb", ON_A_SESSION)
def test_a_session_is_named_before_a_verb_or_after_it(sessions, verb):
    words = ON_A_SESSION[verb]
    before = typed(*place_words(verb, words, where="before"))
    assert before.exit_code in (0, 8), before.stderr
    for where in ("-s", "--session"):
        after = typed(*place_words(verb, words, where=where))
        assert (after.exit_code, after.output) == (before.exit_code, before.output)


@pytest.mark.parametrize(
    "verb", ["status", "memory", "events", "effects", "resume", "replay", "vars"]
)
def test_a_session_is_the_first_word_where_nothing_else_can_be(sessions, verb):
    before = typed(*place_words(verb, [], where="before"))
    assert typed(*place_words(verb, [], where="word")).output == before.output


@pytest.mark.parametrize(
    "words",
    [
        ["set", "note", "1", "--session", "trip"],
        ["rm", "note", "-s", "trip"],
        ["restore", "--all", "-s", "trip"],
        ["commit", "-m", "noted", "--allow-empty", "-s", "trip"],
        ["rollback", "@~1", "-s", "trip"],
        ["undo", "-s", "trip"],
        ["redo", "-s", "trip"],
        ["merge", "main", "-s", "trip"],
        ["exec", "-c", "1", "-s", "trip", "--sandbox", "limits"],
        ["exec", "trip", "-c", "1", "--sandbox", "limits"],
        ["-s", "trip", "exec", "-c", "1", "--sandbox", "limits"],
        ["shell", "-s", "trip", "--sandbox", "limits"],
        ["run", "cells.py", "-s", "trip", "--sandbox", "limits"],
    ],
)
def test_a_verb_that_writes_takes_its_session_too(sessions, words):
    (sessions / "cells.py").write_text("x = 1\n")
    run("set", "note", "0")
    if words[0] == "redo":
        run("commit", "-m", "x")
        run("undo")
    elif words[0] not in ("rm", "restore", "set"):
        run("commit", "-m", "x")
    heads = {name: typed("--store", "a.db", "-s", name, "log", "--json").output for name in OTHERS}
    done = typed("--store", "a.db", *words)
    assert done.exit_code == 0, done.stderr
    assert heads == {
        name: typed("--store", "a.db", "-s", name, "log", "--json").output for name in OTHERS
    }


OTHERS = ("trap", "k1")


def test_after_a_named_session_a_word_is_a_variable(sessions):
    typed("--store", "a.db", "exec", "trip", "-c", "best = 1", "--sandbox", "limits")
    for words in (["vars", "trip", "best"], ["-s", "trip", "vars", "best"]):
        assert "best: int" in typed("--store", "a.db", *words).output
    assert "best: int" in typed("--store", "a.db", "vars", "best", "-s", "trip").output


def test_a_word_that_is_no_session_is_a_variable_of_the_current_one(place):
    typed("init", "-s", "trip")
    typed("exec", "-c", "best = 1; other = 2", "--sandbox", "limits")
    typed("exec", "other", "-c", "best = 3", "--sandbox", "limits")
    assert "best: int" in typed("vars", "best").output
    assert typed("vars", "other").output.startswith("best  int")
    missing = typed("vars", "bets")
    assert missing.exit_code == 3
    assert "there is no session or variable bets" in missing.stderr
    assert "did you mean best?" in missing.stderr


def test_a_session_that_is_named_twice_must_be_the_same(sessions):
    same = typed("--store", "a.db", "-s", "trip", "memory", "trip", "--session", "trip")
    assert same.exit_code == 0
    other = typed("--store", "a.db", "-s", "trip", "memory", "trap")
    assert other.exit_code == 2
    assert "the session is named twice: trip and trap" in other.stderr


def test_a_value_may_begin_with_a_hyphen(sessions):
    assert run("set", "mood", "-sad").exit_code == 0
    assert run("cat", "mood").output == "-sad\n"


def test_a_key_that_is_not_text_is_a_path(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state["rows"] = {42: "forty-two"}
        state[(7,)] = "seven"
        state.commit("rows")
    assert run("cat", "rows/~:42").output == "forty-two\n"
    assert run("cat", "~:7").output == "seven\n"
    assert run("cat", "@:~:7").output == "seven\n"
    assert run("cat", "main:rows/~:42").output == "forty-two\n"
    missing = run("cat", "~:8")
    assert missing.exit_code == 3
    assert "nothing at ~:8" in missing.stderr


def test_a_branch_with_a_colon_is_told_from_a_path(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.update({"b": 1, "b:c": 2})
        state.commit("first")
        other = state.fork("main:b")
        other["c"] = 3
        other.commit("on main:b")
    assert "on main:b" in run("show", "main:b").output
    assert run("cat", "main:b:c").output == "3\n"
    assert run("cat", "main~0:b:c").output == "2\n"
    assert run("cat", "main~0:b").output == "1\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HEAD", "HEAD stands for the current commit"),
        ("a.lock", "names that end with .lock are reserved"),
        ("a..b", "leave out .."),
        ("x y", "use letters, digits"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_its_reason(place, name, hint):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.commit("first", allow_empty=True)
    for verb in ("branch", "tag"):
        refused = run(verb, name)
        assert (refused.exit_code, hint in refused.stderr) == (2, True)


def test_a_ref_that_is_nowhere_gets_commands_as_its_hint(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.commit("first", allow_empty=True)
    refused = run("show", "zzz")
    assert refused.exit_code == 3
    assert "`otolith branch` lists branches, `otolith tag` lists tags" in refused.stderr


def test_a_new_session_may_begin_on_any_branch(sessions):
    assert typed("--store", "a.db", "-s", "new", "-b", "dev", "set", "x", "1").exit_code == 0
    assert typed("--store", "a.db", "-s", "new", "-b", "dev", "status").exit_code == 0


@pytest.fixture
def shared(place):
    """A store with a session, and the user and the application that it shares with others."""
    with otolith.open("a.db") as repo:
        shop, ann = repo.app("shop"), repo.user("ann")
        shop["currency"], ann["seat"] = "EUR", "aisle"
        shop.commit("set up")
        ann.commit("asked")
        trip = repo.session("trip", user="ann", app="shop")
        trip["offer"] = 1
        trip.commit("offered")
    return place


def test_users_and_applications_are_listed_and_read(shared):
    assert typed("--store", "a.db", "users").output.startswith("ann  1 branch  ")
    assert typed("--store", "a.db", "apps").output.startswith("shop  1 branch  ")
    ann, shop = ("--store", "a.db", "--user", "ann"), ("--store", "a.db", "--app", "shop")
    assert typed(*ann, "ls").output == "seat\n"
    assert typed(*shop, "cat", "currency").output == "EUR\n"
    assert typed(*ann, "status").output.splitlines()[0] == "User ann, branch main"
    assert "asked" in typed(*ann, "log").output
    assert "offered" not in typed(*ann, "log", "--all").output


def test_the_state_of_a_user_is_changed_from_a_terminal(shared):
    ann = ("--store", "a.db", "--user", "ann")
    for words in (["set", "seat", "window"], ["commit", "-m", "changed"], ["branch", "try"]):
        assert typed(*ann, *words).exit_code == 0
    with otolith.open("a.db") as repo:
        assert repo.user("ann")["seat"] == "window"
        assert list(repo.branches("ann", scope="user")) == ["main", "try"]
    assert typed(*ann, "branch", "-d", "try").exit_code == 0
    assert typed(*ann, "set", "seat", "none").exit_code == 0
    assert "(staged edits)" in typed(*ann, "branch").output
    assert typed(*ann, "restore", "--all").exit_code == 0
    assert typed(*ann, "rollback", "@~1").exit_code == 0
    assert typed(*ann, "cat", "seat").output == "aisle\n"


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (["--user", "anna", "ls"], 3, "did you mean ann?"),
        (["--app", "x", "status"], 3, "`otolith apps` lists them"),
        (["--user", "ann", "-s", "trip", "ls"], 2, "name one"),
        (["--user", "ann", "--app", "shop", "ls"], 2, "name one"),
        (["--user", "ann", "log", "-s", "trip"], 2, "name one"),
        (["--user", "ann", "exec", "-c", "1"], 2, "name one: -s ID"),
        (["--user", "ann", "migrate", "plan", "--module", "x"], 2, "name one: -s ID"),
        (["--user", "ann", "-b", "mian", "log"], 3, "did you mean main?"),
    ],
)
def test_a_user_that_cannot_be_meant_is_refused(shared, words, code, hint):
    done = typed("--store", "a.db", *words)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (code, f"hint: {hint}")


def test_events_are_listed_in_columns(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.events.append("note", n=1)
        state.events.append("tool_call", agent="planner", tool="search")
        state.commit("noted")
    lines = run("events").output.splitlines()
    assert lines[0].index("note") == lines[1].index("tool_call")
    assert lines[0].index("{n: 1}") == lines[1].index('{tool: "search"}')
