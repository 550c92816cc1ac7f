"""Two branches of one memory become one: steps by what became of them, notes by their time."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import pytest

from otolith import Versioned
from otolith.memory import (
    Note,
    NoteVersion,
    PlanStep,
    StepState,
    ToolRecord,
    merge_notes,
    merge_plans,
)


def note(value, time, **fields):
    return Note("", value, time=time, **fields).to_data()


def step(state="pending", time=0, text="a", place=0):
    return PlanStep("", text, StepState(state), place, time).to_data()


def test_the_newer_note_wins_and_the_older_is_linked():
    merged = merge_notes(note("old", 1), note("Delta", 5), note("United", 9))

    assert merged["value"] == "United"
    assert merged["versions"] == [["Delta", 5, ""]]


def test_uses_on_both_sides_add_up():
    base = note("v", 1, uses=2, used=3)
    merged = merge_notes(base, note("v", 1, uses=3, used=7), note("v", 1, uses=5, used=6))

    assert (merged["uses"], merged["used"]) == (6, 7)


def test_a_pin_on_one_side_is_kept_beside_a_use_on_the_other():
    base = note("v", 1)
    merged = merge_notes(base, note("v", 1, is_pinned=True), note("v", 1, uses=1, used=5))

    assert merged["is_pinned"]
    assert merged["uses"] == 1


def test_forgetting_is_a_change_like_any_other():
    forgotten = note(None, 8, is_forgotten=True)

    assert merge_notes(note("v", 1), forgotten, note("w", 5))["is_forgotten"]
    assert merge_notes(note("v", 1), forgotten, note("w", 9))["value"] == "w"


def test_whoever_merges_whom_gets_the_same_note():
    sides = [
        note("a", 5),
        note("b", 5, uses=2, used=9),
        note("c", 7),
        note(None, 6, is_forgotten=True),
    ]
    for ours, theirs in itertools.permutations(sides, 2):
        assert merge_notes(note("z", 1), ours, theirs) == merge_notes(note("z", 1), theirs, ours)


def test_what_is_no_note_is_left_to_the_user():
    assert merge_notes(None, 3, note("a", 1)) is NotImplemented
    assert merge_plans({}, {"a": 3}, {}) is NotImplemented


def test_versions_are_the_newest_first_and_each_once():
    ours = Note("", "b", time=5, versions=(NoteVersion("a", 1, ""),)).to_data()
    theirs = Note("", "c", time=9, versions=(NoteVersion("a", 1, ""),)).to_data()

    assert merge_notes(note("a", 1), ours, theirs)["versions"] == [["b", 5, ""], ["a", 1, ""]]


@pytest.mark.parametrize(
    ("mine", "yours", "expected"),
    [
        (step("done", 5), step("active", 9), "done"),
        (step("active", 5), step("pending", 3), "active"),
        (step("done", 5), step("failed", 6), "failed"),
        (step("skipped", 7), step("failed", 6), "skipped"),
    ],
)
def test_a_step_that_is_settled_stays_settled(mine, yours, expected):
    for ours, theirs in ((mine, yours), (yours, mine)):
        merged = merge_plans({"a": step()}, {"a": ours}, {"a": theirs})
        assert merged["a"][1] == expected


def test_steps_of_both_plans_are_in_the_merged_one():
    ours = {"a": step(), "b": step(text="b", place=1)}
    theirs = {"a": step(), "c": step(text="c", place=1)}

    assert sorted(merge_plans({"a": step()}, ours, theirs)) == ["a", "b", "c"]


def test_a_step_that_one_side_dropped_is_gone_unless_the_other_did_it():
    base = {"a": step(), "b": step(place=1)}

    assert merge_plans(base, {"b": step(place=1)}, {**base, "b": step("active", 4)}).keys() == {"b"}
    assert merge_plans(base, {"b": step(place=1)}, {**base, "a": step("done", 4)}).keys() == {
        "a",
        "b",
    }


# ---------------------------------------------------------------- in a state


@pytest.fixture
def branches():
    """Two branches of a state with a plan and a note, and the memory of each."""
    ticks = itertools.count(1_000_000, 1_000_000)
    state = Versioned(clock=lambda: next(ticks))
    memory = state.memory
    memory.goal = "fly"
    memory.plan(["search", "compare", "book"])
    memory.note("airline", "Delta")
    state.commit("base")
    other = state.fork("other")
    return state, memory, other, other.memory


def test_two_agents_that_worked_on_one_memory_do_not_conflict(branches):
    state, mine, other, yours = branches
    mine.done("search")
    mine.note("airline", "United")
    mine.use("airline")
    mine.record(ToolRecord("c1", "search"))
    mine.gather(destination="NYC")
    state.commit("mine")
    yours.begin("search")
    yours.plan(["search", "compare", "book", "pay"])
    yours.note("airline", "Lufthansa")
    yours.note("seat", "aisle")
    yours.record(ToolRecord("c2", "compare"))
    yours.gather(dates="May")
    yours.goal = "fly cheaply"
    other.commit("yours")
    merge = state.merge(other)

    assert merge.commit is not None
    assert mine.goal == "fly cheaply"
    assert (mine.steps[0].id, str(mine.steps[0].state)) == ("search", "done")
    assert {s.id for s in mine.steps} == {"search", "compare", "book", "pay"}
    assert mine.notes["airline"].value == "Lufthansa"
    assert "United" in [old.value for old in mine.notes["airline"].versions]
    assert mine.notes["airline"].uses == 1
    assert mine.notes["seat"].value == "aisle"
    assert {call.id for call in mine.tool_calls} == {"c1", "c2"}
    assert dict(mine.task.data) == {"destination": "NYC", "dates": "May"}


def test_a_note_forgotten_here_and_used_there_stays_forgotten(branches):
    state, mine, other, yours = branches
    yours.use("airline")
    other.commit("used")
    mine.forget("airline")
    state.commit("forgotten")
    state.merge(other)

    assert "airline" not in mine.notes


def test_a_task_that_was_begun_here_and_a_step_done_there_do_not_conflict(branches):
    state, mine, other, yours = branches
    mine.start("take the train")
    state.commit("begun")
    yours.done("search")
    other.commit("searched")

    assert state.merge(other).ok

    assert mine.goal == "take the train"
    assert [(step.id, str(step.state)) for step in mine.steps] == [("search", "done")]


def test_a_note_that_both_sides_forgot_was_not_used_less_than_never(branches):
    state, mine, other, yours = branches
    mine.use("airline")
    state.commit("used")
    other.merge(state)
    for memory, branch in ((mine, state), (yours, other)):
        memory.forget("airline")
        branch.commit("forgotten")
    mine.note("airline", "Delta")
    state.commit("noted")

    assert state.merge(other).ok

    assert mine.notes["airline"].uses == 0


def test_of_two_long_arrays_that_look_alike_none_is_lost():
    numpy = pytest.importorskip("numpy")
    mine, yours = numpy.arange(5000), numpy.arange(5000)
    mine[2500], yours[2501] = -1, -2

    merged = merge_notes(note(numpy.arange(5000), 1), note(mine, 5), note(yours, 9))

    assert merged["value"] is yours
    assert [value is mine for value, *_ in merged["versions"]] == [True]


@pytest.fixture
def state():
    ticks = itertools.count(1_000_000, 1_000_000)
    return Versioned(clock=lambda: next(ticks))


def test_a_step_that_one_side_reopened_is_open_whatever_else_the_other_did(state):
    memory = state.memory
    memory.plan(["book flight", "book hotel"])
    memory.done("book flight")
    state.commit("base")
    other = state.fork("other")
    state.memory.reopen("book flight")
    state.commit("the flight was cancelled")
    other.memory.begin("book hotel")
    other.memory.plan(["find a date", "book flight", "book hotel"])  # it has another place now
    other.commit("elsewhere")

    state.merge(other)

    found = {step.text: str(step.state) for step in state.memory.steps}
    assert found == {"find a date": "pending", "book flight": "pending", "book hotel": "active"}


def test_a_note_that_was_replaced_does_not_bring_back_an_old_value(state):
    state.memory.note("hotel", "Ritz")
    state.commit("base")
    other = state.fork("other")
    state.memory.note("hotel", "Hilton, room 12")
    state.commit("moved")
    other.memory.note("place", "Savoy", replaces="hotel")
    other.commit("elsewhere")

    state.merge(other)

    assert state.memory.notes["hotel"].value == "Hilton, room 12"
    assert [each.value for each in state.memory.recall("")] == ["Savoy"]


def test_a_note_that_was_written_since_is_not_replaced_any_more(state):
    state.memory.note("hotel", "Ritz")
    state.commit("base")
    other = state.fork("other")
    other.memory.note("place", "Savoy", replaces="hotel")
    other.commit("elsewhere")
    state.memory.note("hotel", "Hilton, after all")
    state.commit("moved")

    state.merge(other)

    recalled = {each.value for each in state.memory.recall("")}
    assert recalled == {"Hilton, after all", "Savoy"}


def test_of_notes_that_replace_each_other_the_last_one_is_recalled(state):
    state.memory.note("hotel", "Ritz is booked", 1.0)
    state.memory.note("stay", "Hilton is booked", 1.0)
    state.commit("base")
    other = state.fork("other")
    state.memory.note("hotel", "Ritz is confirmed by phone", 1.0, replaces="stay")
    state.commit("ours")
    other.memory.note("stay", "Hilton is confirmed by mail", 1.0, replaces="hotel")
    other.commit("theirs")

    state.merge(other)

    recalled = state.memory.recall("which booking is confirmed?")
    assert [each.value for each in recalled] == ["Hilton is confirmed by mail"]
    assert state.memory.notes["hotel"].value == "Ritz is confirmed by phone"


def test_equal_times_are_ordered_alike_in_every_process():
    code = (
        "from otolith.memory import merge_notes; "
        "note = lambda *words: {'value': {'words': set(words)}, 'time': 5}; "
        "merged = merge_notes(None, note('a', 'b', 'c'), note('b', 'c', 'd')); "
        "print(sorted(merged['value']['words']), len(merged['versions']))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(told) == 1


def test_equal_sets_and_arrays_are_one_value():
    numpy = pytest.importorskip("numpy")
    one, other = {"x", "y", "z"}, {"z", "y", "x"}
    assert "versions" not in merge_notes(None, note(one, 5), note(other, 6))
    first, second = numpy.arange(5000), numpy.arange(5000)
    assert "versions" not in merge_notes(None, note(first, 5), note(second, 6))
    second[2500] = 0
    merged = [
        merge_notes(None, note(a, 5), note(b, 5)) for a, b in ((first, second), (second, first))
    ]
    assert (merged[0]["value"] == merged[1]["value"]).all()
    assert len(merged[0]["versions"]) == 1


@pytest.mark.parametrize("count", [len, lambda text: 3 * len(text), lambda text: len(text.split())])
def test_the_goal_is_among_what_is_relevant_by_any_counter(state, count):
    state.memory.goal = "Plan the trip to Rome, book the flight, the hotel and the museum for all"
    state.memory.note("k", "v")

    choice = state.memory.relevant("next?", 60, count=count)

    assert choice.items[0].kind == "goal"
    assert choice.items[0].text.startswith("Goal: Plan")
    assert choice.tokens <= 60
