"""The session at hand: a name that is not there is told, and those that are there are named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

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
    assert "the sessions are: k1; `otolith checkout --session k1` switches to it" in empty.stderr
    assert "Pay" in typed("chat", "show", "--session", "k1").output
    assert typed("checkout", "--session", "k1").exit_code == 0
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
