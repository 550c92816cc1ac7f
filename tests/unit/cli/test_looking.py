"""`otolith diff` and `show`: what differs is told, whatever kind it is of."""

from __future__ import annotations

from typing import Any

import pytest

import otolith
from otolith import Disk, Versioned
from otolith.cli.format.state_difference import StateDifference
from otolith.stores import SqliteStore
from otolith.views import ChangeLine
from tests.unit.cli.terminal import data, run


def test_the_places_of_what_an_agent_has_in_mind_are_named(place):
    with Versioned(Disk(place / "a.db"), session="trip") as state:
        state.commit("begin", allow_empty=True)
        state.memory.goal = "fly"
        state.commit("goal")
        state.memory.gather(seat=2)
        state.memory.finish("done")
        state.commit("end")

    told = data("diff", "@~2", "@")["agent"]
    assert "task" in [each["what"] for each in told]
    named = run("diff", "--name-only", "@~2", "@")
    assert (named.exit_code, named.output) == (0, ".memory\n")


def test_staged_messages_are_shown_as_committed_ones_are(place):
    with Versioned(Disk(place / "a.db"), session="trip") as state:
        state.commit("begin", allow_empty=True)
        state.conversation.user("Hello")
        state.stash()

    status = run("status").output
    assert (
        "Staged: 1 message\nConversation, memory and runs:\n+ message main[0]: user: Hello"
        in status
    )
    assert "`otolith commit -m …` commits them" in status
    assert data("status")["agent"] == data("diff")["agent"] != []
    assert run("diff", "@").output == run("diff").output
    assert run("commit", "-m", "hello").output.splitlines()[1] == " 1 message"
    assert "Nothing staged" in run("status").output


def test_a_kind_that_is_new_has_a_place():
    assert StateDifference([], agent=[ChangeLine("wish", "w", "added", "a window")]).paths() == [
        ".memory"
    ]


def test_the_log_of_a_run_is_folded_to_its_steps(place):
    with Versioned(Disk("a.db"), session="trip") as state:
        state.commit("before", allow_empty=True)
    assert run("run", "bot.py:agent", "Pay for the flight").exit_code == 0
    run("set", "note", "1")
    run("commit", "-m", "after")

    lines = run("log", "--steps").output.splitlines()
    assert [line.split(" ", 1)[1].split("  ")[0] for line in lines] == [
        "(@ main) after", "step 2, done", "step 1", "begin main", "before",
    ]  # fmt: skip
    assert "Paid 5 to the" in lines[1]
    assert "pay(amount=5)" in lines[2]
    assert lines[2].endswith("[4 commits]")
    assert len(run("log", "--steps", "-n", "2").output.splitlines()) == 2

    every = [commit["id"] for commit in data("log")["commits"]]
    folded = data("log", "--steps")["commits"]
    assert [id for each in folded for id in (each["id"], *each["folded"])] == every


def test_a_step_that_did_not_end_is_folded_by_itself(unsure):
    lines = run("log", "--steps").output.splitlines()
    assert len(lines) == 2
    assert "begun pay" in lines[0]
    assert lines[0].endswith("[2 commits]")


def test_stats_reads_the_refs_of_many_sessions_a_fixed_number_of_times(place, monkeypatch):
    with otolith.open(place / "a.db") as repo:
        for number in range(30):
            state = repo.session(f"s{number}")
            state["x"] = number
            state.commit("one")
        repo.session("s0").fork("other")
    calls, refs = [], SqliteStore.refs

    def counted(self: SqliteStore, prefix: str = "") -> Any:
        calls.append(prefix)
        return refs(self, prefix)

    monkeypatch.setattr(SqliteStore, "refs", counted)
    found = data("stats")
    assert (found["sessions"], found["branches"], found["commits"]) == (30, 31, 30)
    assert len(calls) < 10


@pytest.mark.parametrize("command", ["log", "show", "diff"])
def test_a_session_is_a_word_where_a_commit_is(place, command):
    for name in ("trip", "other"):
        with Versioned(Disk("a.db"), session=name) as state:
            state[name] = 1
            state.commit(f"of the {name}")

    found = run("-s", "trip", command, "other")

    assert found.exit_code == 0
    assert ("- other" if command == "diff" else "of the other") in found.output
