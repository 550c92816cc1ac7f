"""`otolith profile`: what is known about a user, why, and what the user controls, in a terminal."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest
from click.testing import CliRunner, Result

import otolith
from otolith.cli import program


class Answers:
    length: Literal["short", "long"] = "short"
    emojis: bool = False
    room: str = ""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A store with a user, what is known about her, and a session in which she says more."""
    monkeypatch.chdir(tmp_path)
    with otolith.open("a.db") as repo:
        ann = repo.user("ann").profile
        ann.set("seat", "aisle")
        ann.observe("seat", "window", source="booking 17")
        ann.observe("drink", "tea", weight=3)
        ann.declare(Answers)
        ann.commit("first trip")
        trip = repo.session("trip", user="ann")
        trip.conversation.user("I always want a vegetarian meal.")
        trip.commit("said")
    return tmp_path


def run(*words: str, input: str = "") -> Result:
    return CliRunner().invoke(program, ["--store", "a.db", *words], input=input)


def done(*words: str, input: str = "") -> str:
    result = run(*words, input=input)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout


def data(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done(*words, "--json"))
    return found


def refused(*words: str, code: int, input: str = "") -> str:
    """Return the error and the hint of a command that is refused."""
    result = run(*words, input=input)
    assert (result.exit_code, result.stdout) == (code, ""), (words, result.output)
    return result.stderr


def messages(user: str = "ann") -> list[str]:
    """Return the messages of the commits of a user, the newest first."""
    return [each["message"] for each in data("--user", user, "log")["commits"]]


# ---------------------------------------------------------------- whose profile


def test_the_user_is_the_first_word_or_named_by_an_option(place):
    why = done("profile", "why", "ann", "seat")
    assert why == done("--user", "ann", "profile", "why", "seat")
    assert why == done("profile", "why", "seat", "--user", "ann")
    assert why == done("profile", "why", "seat", "--user=ann")


def test_the_only_user_of_a_store_needs_no_name_to_be_looked_at(place):
    assert done("profile", "show") == done("profile", "show", "ann")
    done("profile", "set", "bob", "seat", "window")
    told = refused("profile", "show", code=2)
    assert "the store has 2 users: ann, bob\nhint: choose one: `--user ID`" in told


def test_a_store_without_users_says_how_one_begins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    otolith.open("a.db").close()
    told = refused("profile", "show", code=2)
    assert "no user yet\nhint: `otolith profile set USER KEY VALUE` begins one" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("-s trip profile show", "on a user, not on a session"),
        ("--team research profile show", "on a user, not on a team"),
        ("-s trip profile show ann", "session trip and user ann are both named"),
        ("--user ann profile set ann seat aisle", "--user names the user: omit the first word"),
        ("profile set seat aisle", "missing argument 'VALUE'"),
        ("-b draft profile erase ann --yes", "all branches of a user are erased"),
        ("profile consent ann learning perhaps", "'perhaps' is not one of"),
    ],
)
def test_what_does_not_name_one_user_is_refused(place, words, told):
    assert told in refused(*words.split(), code=2)


@pytest.mark.parametrize(
    "words",
    [
        "show anm",
        "why anm seat",
        "unset anm seat",
        "forget anm seat",
        "history anm",
        "prompt anm",
        "export anm -",
        "erase anm --yes",
    ],
)
def test_a_mistyped_user_is_told_and_not_begun(place, words):
    told = refused("profile", *words.split(), code=3)
    assert "there is no user anm\nhint: did you mean ann?" in told
    assert [each["id"] for each in data("users")["users"]] == ["ann"]


@pytest.mark.parametrize("verb", ["why", "forget", "unset", "history", "show"])
def test_a_mistyped_key_is_told(place, verb):
    told = refused("profile", verb, "ann", "saet", code=3)
    assert "nothing is known of 'saet' of ann\nhint: did you mean seat?" in told


# ---------------------------------------------------------------- what is known, and why


def test_the_page_of_a_profile(place):
    done("profile", "set", "ann", "seat", "window", "--context", "business trips")
    done("profile", "consent", "ann", "learning", "yes")
    shown = done("profile", "show", "ann")
    assert shown.startswith("Profile of ann: 3 preferences\nHead ")
    rows = [line.split()[:3] for line in shown.splitlines()]
    assert ["seat", '"aisle"', "set"] in rows
    assert ["drink", '"tea"', "learned"] in rows
    assert ["length", '"short"', "default"] in rows
    assert "business trip" in shown
    assert "Agreed to: learning" in shown

    found = data("profile", "show", "ann")
    assert [each["key"] for each in found["preferences"]] == ["seat", "seat", "drink"]
    assert [each["name"] for each in found["settings"]] == ["emojis", "length", "room"]
    assert [each["name"] for each in found["purposes"]] == ["learning"]
    assert found["head"]["message"] == "consent to learning: yes"


def test_one_key_and_one_context(place):
    done("profile", "set", "ann", "seat", "window", "--context", "business trips")
    assert done("profile", "show", "ann", "seat").startswith('seat: "aisle", set; then "window", ')
    on_business = data("profile", "show", "ann", "seat", "--context", "on a business trip")
    assert on_business["preference"]["value"] == "window"
    assert len(on_business["preference"]["commits"]) == 1
    page = data("profile", "show", "ann", "--context", "on a business trip")
    assert {each["key"]: each["value"] for each in page["preferences"]} == {
        "seat": "window",
        "drink": "tea",
    }
    assert done("profile", "show", "ann", "length") == 'length: "short", default\n'


def test_a_profile_is_shown_as_it_was(place):
    done("profile", "set", "ann", "seat", "window")
    assert data("profile", "show", "ann", "seat", "--at", "@~1")["preference"]["value"] == "aisle"
    assert data("profile", "why", "ann", "seat", "--at", "@~1")["count"] == 2
    assert "aisle" in done("profile", "prompt", "ann", "--at", "@~1")


def test_why_shows_each_piece_of_evidence_with_its_commit(place):
    done("profile", "set", "ann", "seat", "window")
    (last, first) = data("--user", "ann", "log")["commits"]
    head, *lines = done("profile", "why", "ann", "seat").splitlines()
    assert head == 'seat: "window", set'
    assert [line.split()[3:5] for line in lines] == [
        ["set", '"window"'],
        ["choice", '"window"'],
        ["set", '"aisle"'],
    ]
    assert "+1  from booking 17" in lines[1]
    assert [line.split()[-1] for line in lines] == [last["id"][:10], *[first["id"][:10]] * 2]
    evidence = data("profile", "why", "ann", "seat")["evidence"]
    assert [each["commit"] for each in evidence] == [last["id"], first["id"], first["id"]]
    assert all(each["counts"] for each in evidence)


def test_why_shows_the_newest_twenty_unless_all_are_asked_for(place):
    with otolith.open("a.db") as repo:
        ann = repo.user("ann").profile
        for number in range(30):
            ann.observe("drink", f"tea {number}")
        ann.commit("many")
    shown = done("profile", "why", "ann", "drink").splitlines()
    assert len(shown) == 22
    assert '"tea 29"' in shown[1]
    assert shown[-1] == "  … 11 older: --all lists them"
    assert len(done("profile", "why", "ann", "drink", "--all").splitlines()) == 32
    assert len(data("profile", "why", "ann", "drink")["evidence"]) == 20
    assert data("profile", "why", "ann", "drink", "--all")["count"] == 31


def test_evidence_without_consent_is_marked_as_not_used(place):
    done("profile", "consent", "ann", "learning", "no")
    shown = done("profile", "why", "ann", "seat")
    assert shown.count("(not used)") == 1
    assert [each["counts"] for each in data("profile", "why", "ann", "seat")["evidence"]] == [
        False,
        True,
    ]


def test_history_lists_changes_or_the_evidence_of_a_key(place):
    done("profile", "set", "ann", "seat", "window")
    done("profile", "unset", "ann", "seat")
    shown = done("profile", "history", "ann")
    assert [line.split()[3:] for line in shown.splitlines()] == [
        ["seat", "nothing", "->", '"aisle"', "set"],
        ["seat", '"aisle"', "->", '"window"', "set"],
        ["seat", '"window"', "->", "nothing", "unset"],
    ]
    found = data("profile", "history", "ann")["changes"]
    assert [(each["old"], each["new"]) for each in found] == [
        (None, "aisle"),
        ("aisle", "window"),
        ("window", None),
    ]
    kinds = [each["kind"] for each in data("profile", "history", "ann", "seat")["evidence"]]
    assert kinds == ["set", "choice", "set", "unset"]


def test_history_begins_at_a_time_a_duration_or_a_commit(place):
    first = data("--user", "ann", "log")["commits"][0]["id"]
    done("profile", "set", "ann", "seat", "window")
    for since, count in (("30d", 2), ("0s", 0), (first, 1), ("2020-01-01", 2), ("2999-01-01", 0)):
        found = data("profile", "history", "ann", "--since", since)
        assert len(found["changes"]) == count, since
    assert len(data("profile", "history", "ann", "seat", "--since", first)["evidence"]) == 1
    assert done("profile", "history", "ann", "--since", "0s") == "Nothing has changed.\n"
    assert refused("profile", "history", "ann", "--since", "yesterday", code=3)
    assert "is not a time" in refused("profile", "history", "ann", "--since", "2020-99-01", code=2)


# ---------------------------------------------------------------- changes, committed at once


def test_a_change_is_committed_at_once_with_a_message_that_has_no_value(place):
    done("profile", "set", "ann", "seat", "a secret seat")
    done("profile", "unset", "ann", "seat")
    done("profile", "observe", "ann", "seat", "a secret seat")
    done("profile", "consent", "ann", "health", "yes")
    done("profile", "retain", "ann", "learning", "365d")
    done("profile", "learn", "ann", "trip")
    done("profile", "forget", "ann", "seat")
    assert messages() == [
        "forget a key",
        "learn from trip",
        "retain learning: 365d",
        "consent to health: yes",
        "observe seat",
        "unset seat",
        "set seat",
        "first trip",
    ]
    assert data("--user", "ann", "status")["clean"]


def test_what_is_staged_stays_staged(place):
    done("--user", "ann", "set", "note", "mine")
    done("profile", "set", "ann", "seat", "window")
    assert [each["path"] for each in data("--user", "ann", "status")["changes"]] == ["note"]
    done("--user", "ann", "commit", "-m", "a note")
    assert done("--user", "ann", "cat", "note") == "mine\n"
    assert data("profile", "show", "ann", "seat")["preference"]["value"] == "window"


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (["aisle"], "aisle"),
        (["5"], 5),
        (["-5"], -5),
        (["-sad"], "-sad"),
        (["5", "--type", "str"], "5"),
        (['{"row": [1, 2]}'], {"row": [1, 2]}),
        (["null"], None),
        (["-"], "typed"),
    ],
)
def test_a_value_is_read_as_by_set(place, typed, value):
    done("profile", "set", "ann", "x", *typed, input="typed")
    assert data("profile", "show", "ann", "x")["preference"]["value"] == value


def test_the_value_of_a_declared_setting_is_read_as_it_says(place):
    for key, typed, value in (
        ("emojis", "yes", True),
        ("room", "17", "17"),
        ("length", "long", "long"),
    ):
        done("profile", "set", "ann", key, typed)
        assert data("profile", "show", "ann", key)["preference"]["value"] == value
    told = refused("profile", "set", "ann", "length", "endless", code=2)
    assert 'must be one of "short", "long", got "endless"' in told
    assert "hint: `otolith profile settings USER` describes it" in told
    shown = done("profile", "settings", "ann")
    assert '"long"  set' in shown
    found = {each["name"]: each for each in data("profile", "settings", "ann")["settings"]}
    assert found["length"]["choices"] == ["short", "long"]
    assert (found["emojis"]["type"], found["emojis"]["value"]) == ("yes or no", True)


def test_what_is_observed_never_overrides_what_was_set(place):
    for number in range(5):
        done("profile", "observe", "ann", "seat", "window", "--source", f"b{number}")
    told = done("profile", "observe", "ann", "seat", "window", "--source", "b4")
    assert told.startswith('seat: "aisle", set; then "window"')
    assert told.endswith("(nothing new)\n")
    assert done("profile", "contradictions", "ann") == (
        'You set seat: "aisle", and chose "window" since. Which holds?\n'
    )
    (doubt,) = data("profile", "contradictions", "ann")["contradictions"]
    assert doubt["values"] == ["aisle", "window"]
    assert "1 question to ask: `otolith profile contradictions ann`" in done("profile", "show")
    assert done("profile", "unset", "ann", "seat").startswith('seat: "window", learned')


def test_a_liking_and_a_weight(place):
    done("profile", "observe", "ann", "tone", "formal", "--disliked")
    done("profile", "observe", "ann", "tone", "warm", "--liked", "--weight", "3")
    done("profile", "consent", "ann", "ads", "yes")
    done("profile", "observe", "ann", "tone", "warm", "--purpose", "ads", "--context", "at work")
    found = data("profile", "history", "ann", "tone")["evidence"]
    assert [(each["kind"], each["weight"], each["purpose"]) for each in found] == [
        ("feedback", -2.0, "learning"),
        ("feedback", 3.0, "learning"),
        ("choice", 1.0, "ads"),
    ]
    told = refused("profile", "observe", "ann", "tone", "x", "--weight", "0", code=2)
    assert "`--disliked` speaks against a value" in told


def test_a_session_is_read_once(place):
    found = data("profile", "learn", "ann", "trip")
    assert (found["messages"], found["session"]) == (1, "trip")
    (meal,) = found["learned"]
    assert (meal["key"], meal["value"], meal["kind"]) == ("meal", "vegetarian", "statement")
    assert meal["quote"] == "I always want a vegetarian meal"
    assert done("profile", "learn", "ann", "trip") == "0 statements from 0 messages\n"
    assert messages()[:2] == ["learn from trip", "first trip"]
    assert "did you mean trip?" in refused("profile", "learn", "ann", "tripp", code=3)
    told = refused("profile", "learn", "ann", "trip", "--thread", "side", code=3)
    assert "session trip has no thread 'side'" in told


def test_a_prompt_fits_its_budget_and_its_question(place):
    assert '- "seat": "aisle"' in done("profile", "prompt", "ann")
    found = data("profile", "prompt", "ann", "--budget", "40", "--about", "What shall I drink?")
    assert [each["key"] for each in found["preferences"]][:1] == ["drink"]
    assert found["tokens"] <= 40
    small = run("profile", "prompt", "ann", "--budget", "5")
    assert small.stdout == ""
    assert "2 preferences did not fit into 5 tokens." in small.stderr


# ---------------------------------------------------------------- what the user controls


def test_evidence_without_consent_is_refused_and_says_how_to_agree(place):
    assert "was not asked about learning" in done("profile", "consent", "ann", "learning")
    told = done("profile", "consent", "ann", "learning", "no")
    assert told == ("ann did not agree to learning: evidence for it is neither stored nor used.\n")
    for words in (["observe", "ann", "seat", "window"], ["learn", "ann", "trip"]):
        told = refused("profile", *words, code=4)
        assert "`otolith --store a.db profile consent ann learning yes`" in told
    done("profile", "set", "ann", "seat", "window")  # needs none
    done("profile", "consent", "ann", "learning", "yes")
    done("profile", "observe", "ann", "seat", "window")


def test_sensitive_subjects_need_a_consent_of_their_own(place):
    told = refused("profile", "observe", "ann", "diet", "kosher", code=4)
    assert "profile consent ann religion yes" in told
    done("profile", "consent", "ann", "religion", "yes")
    done("profile", "observe", "ann", "diet", "kosher")


def test_purposes_are_listed_and_a_new_one_that_is_nearly_known_is_told(place):
    done("profile", "retain", "ann", "ads", "12h", "--about", "what is shown beside")
    listed = {each["name"]: each for each in data("profile", "consent", "ann")["purposes"]}
    assert listed["ads"]["retention_seconds"] == 12 * 3600
    assert listed["health"]["allowed"] is False
    rows = [line.split()[:5] for line in done("profile", "consent", "ann").splitlines()]
    assert ["ads", "no", "was", "not", "asked"] in rows
    assert re.search(r"12h +what is shown beside", done("profile", "consent", "ann"))
    done("profile", "retain", "ann", "ads", "forever")
    assert data("profile", "consent", "ann", "ads")["purpose"]["retention_seconds"] is None
    mistyped = run("profile", "consent", "ann", "learnig", "no")
    assert "learnig is new; did you mean learning?" in mistyped.stderr
    assert "must be a time" in refused("profile", "retain", "ann", "ads", "soon", code=2)


def test_an_export_is_a_file_that_another_user_or_store_imports(place):
    assert done("profile", "export", "ann", "ann.json") == "Wrote ann.json: 3 pieces of evidence.\n"
    written = json.loads((place / "ann.json").read_text())
    assert written["format"] == "otolith profile 1"
    assert json.loads(done("profile", "export", "ann", "-"))["evidence"] == written["evidence"]
    told = done("profile", "import", "bob", "ann.json")
    assert told.startswith("3 pieces of evidence are new  [")
    assert data("profile", "show", "bob", "seat")["preference"]["value"] == "aisle"
    assert done("profile", "import", "bob", "-", input=json.dumps(written)).startswith("0 pieces")
    assert messages("bob") == ["import 3 pieces of evidence"]


@pytest.mark.parametrize(
    ("typed", "told"), [("[]", "not an export"), ("{}", "not an export"), ("x", "not JSON")]
)
def test_something_else_is_not_imported(place, typed, told):
    assert told in refused("profile", "import", "bob", "-", code=2, input=typed)
    missing = refused("profile", "import", "bob", "none.json", code=2)
    assert "error: 'none.json' cannot be read" in missing
    assert [each["id"] for each in data("users")["users"]] == ["ann"]


def test_a_file_that_may_not_be_written_is_told(place):
    (place / "folder").mkdir()
    assert "is a directory" in refused("profile", "export", "ann", "folder", code=2)


def test_a_forgotten_key_is_gone_from_the_page_and_the_export(place):
    assert done("profile", "forget", "ann", "seat").startswith("Nothing is known of seat  [")
    assert "seat" not in done("profile", "show", "ann").partition("\n\n")[2]
    assert "seat" not in done("profile", "export", "ann", "-")
    assert data("profile", "show", "ann", "seat", "--at", "@~1")["preference"]["value"] == "aisle"


# ---------------------------------------------------------------- erasure


def test_erasing_asks_for_the_name_to_be_typed(place):
    told = refused("profile", "erase", "ann", "--sessions", "keep", code=2, input="anna\n")
    assert "Type ann to erase all of this user:" in told
    assert "the name was not typed: nothing is erased" in told
    assert data("users")["users"]
    done("profile", "erase", "ann", "--sessions", "keep", input="ann\n")
    assert data("users")["users"] == []


def test_linked_sessions_must_be_decided_about(place):
    told = refused("profile", "erase", "ann", "--yes", code=2)
    assert "hint: `--sessions delete` deletes them, `--sessions keep` leaves them" in told
    shown = done("profile", "erase", "ann", "--yes", "--sessions", "delete")
    assert "Deleted sessions: trip" in shown
    assert data("sessions")["sessions"] == []


def test_the_receipt_of_an_erasure(place):
    shown = done("profile", "erase", "ann", "--yes", "--sessions", "keep")
    assert shown.splitlines() == [
        "ann is erased, and stays erased: 1 branch, stash or tag removed.",
        "Linked sessions that stay: trip",
        "Not erased from the files: 1 of its commits are part of other histories: trip",
    ]
    again = data(
        "profile", "erase", "ann", "--yes", "--sessions", "keep"
    )  # finishes what was cut off
    assert (again["refs"], again["erased"], again["kept_sessions"]) == (0, False, ["trip"])
    assert again["when"] > 0
    assert b"booking 17" not in (place / "a.db").read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        "profile show ann",
        "profile set ann seat aisle",
        "profile learn ann trip",
        "profile import ann ann.json",
        "--user ann show",
        "--user ann status",
        "--user ann log",
        "--user ann diff",
        "--user ann set seat aisle",
    ],
)
def test_an_erased_user_is_erased_and_not_missing(place, words):
    done("profile", "export", "ann", "ann.json")
    done("profile", "erase", "ann", "--yes", "--sessions", "keep")
    told = refused(*words.split(), code=9)
    assert "user ann was erased from this store, and stays erased" in told
    assert "hint: if they come back, begin anew with another id" in told


def test_a_user_with_staged_edits_only_can_be_erased(place):
    done("--user", "eve", "set", "seat", "aisle")
    assert "eve is erased" in done("profile", "erase", "eve", "--yes")
    assert refused("--user", "eve", "status", code=9)


# ---------------------------------------------------------------- the other commands on a user


def test_the_commands_on_a_state_tell_of_a_profile(place):
    done("profile", "set", "ann", "seat", "window")
    shown = done("--user", "ann", "show")
    assert "Profile:\n~ profile seat: set " in shown
    assert 'Preferences:\n  seat: "window", set\n' in shown
    assert "`otolith profile show ann` shows what is known" in shown
    assert '  seat: "aisle", set' in done("--user", "ann", "show", "@~1")
    known = data("--user", "ann", "show", "@~1")["preferences"]
    assert [(each["key"], each["value"]) for each in known] == [("seat", "aisle"), ("drink", "tea")]
    assert "~ profile seat" in done("--user", "ann", "diff", "@~1", "@")
    (change,) = data("--user", "ann", "diff", "@~1", "@")["agent"]
    assert (change["what"], change["name"], change["how"]) == ("profile", "seat", "changed")
    assert done("--user", "ann", "diff", "@~1", "@", "--name-only") == ".profile\n"
    assert "Preferences" not in done("-s", "trip", "show")


def test_staged_changes_of_a_profile_are_in_the_status(place):
    with otolith.open("a.db") as repo:
        state = repo.user("ann")
        state.profile.set("seat", "window")
        state.stash()
    shown = done("--user", "ann", "status")
    assert "Staged: 1 profile" in shown
    assert "~ profile seat: set " in shown


def test_nothing_that_is_stored_reaches_the_terminal_as_control_characters(place):
    evil = "\x1b]0;owned\x07\u202e\x9b2J\nerror: "
    with otolith.open("a.db") as repo:
        ann = repo.user("ann").profile
        ann.declare(type("Evil", (), {"__annotations__": {"tone": str}, "tone": evil}))
        ann.set("seat", evil)
        ann.consent("ads", granted=True)
        ann.observe("drink", {evil: [evil]}, purpose="ads")
        ann.retain("ads", "3d", about=evil)
        ann.commit(evil)
        trip = repo.session(evil.replace("\n", " "), user="ann")
        trip.conversation.user(f"I always want a {evil} meal. I prefer the {evil}.")
        trip.commit("said")
    verbs = ["show", "why", "history", "settings", "contradictions", "prompt", "consent"]
    for verb in verbs:
        key = ["seat"] if verb == "why" else []
        for how in ([], ["--json"]):
            shown = run("profile", verb, "ann", *key, *how).output
            assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(shown), (verb, how)
    shown = done("profile", "export", "ann", "-") + run("--user", "ann", "show").output
    shown += run("profile", "learn", "ann", evil.replace("\n", " ")).output
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(shown)
    assert "\nerror: " not in done("profile", "why", "ann", "seat")
