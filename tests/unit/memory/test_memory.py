"""Memory: a view of a state whose goal, plan, notes and calls share its commits and its past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned
from otolith.errors import BadValue, KeyNotFound, ReadOnly
from otolith.memory import RESOLVERS, Memory, StepState, ToolRecord

DAY = 24 * 3600


class Clock:
    """A clock that is set by hand, in microseconds."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, clock: Clock) -> Versioned:
    state = Versioned(Disk(tmp_path / "a.db"), clock=clock)
    state.repo.backend.resolvers.update(RESOLVERS)
    return state


@pytest.fixture
def memory(state: Versioned, clock: Clock) -> Memory:
    return Memory(state, clock=clock)


# ---------------------------------------------------------------- the task


def test_an_empty_memory_says_nothing(memory):
    assert memory.goal == ""
    assert memory.steps == ()
    assert dict(memory.notes) == {}
    assert len(memory.tool_calls) == 0
    assert memory.task.status == "idle"


def test_a_plan_goes_on_step_by_step(memory):
    memory.goal = "fly to NYC"
    memory.plan(["search", "compare prices", "book"])
    assert memory.task.status == "pending"

    memory.done("search", "3 flights")
    memory.begin("compare-prices")
    task = memory.task

    assert task.status == "in_progress"
    assert [str(step) for step in task.steps_done] == ["search"]
    assert [str(step) for step in memory.pending()] == ["compare prices", "book"]
    assert task.current_step is not None
    assert task.current_step.text == "compare prices"
    assert memory.steps[0].why == "3 flights"


def test_the_task_is_the_dict_that_everybody_knows(memory):
    memory.start("Book flight to NYC", id="123")
    memory.plan(["search", "compare", "choose", "book", "pay"])
    memory.done("search")
    memory.done("compare")
    memory.gather(destination="NYC", dates="2024-02-05")

    assert memory.task.to_dict() == {
        "task_id": "123",
        "goal": "Book flight to NYC",
        "status": "in_progress",
        "steps_completed": 2,
        "steps_remaining": 3,
        "current_step": "choose",
        "data": {"destination": "NYC", "dates": "2024-02-05"},
    }


def test_a_new_plan_keeps_what_is_settled(memory):
    memory.plan(["search", "compare", "book"])
    memory.done("search")
    memory.plan(["ask the user", "book"])

    assert [(step.text, str(step.state)) for step in memory.steps] == [
        ("search", "done"),
        ("ask the user", "pending"),
        ("book", "pending"),
    ]


def test_equal_texts_get_ids_of_their_own(memory):
    assert [step.id for step in memory.plan(["try", "try", "try"])] == ["try", "try-2", "try-3"]


def test_a_task_is_over_when_every_step_is(memory):
    memory.plan(["a", "b"])
    memory.done("a")
    memory.skip("b", "not needed")
    assert memory.task.status == "done"
    memory.reopen("b")
    assert memory.task.status == "in_progress"
    memory.fail("b", "no seats")
    assert memory.task.status == "failed"
    memory.finish("cancelled")
    assert memory.task.status == "cancelled"


def test_a_step_that_is_not_planned_is_an_error_that_names_those_that_are(memory):
    memory.plan(["search"])

    with pytest.raises(KeyNotFound, match="search"):
        memory.done("sleep")


@pytest.mark.parametrize(
    "steps", ["search", [""], [3], [{"id": "a"}], [{"id": "a", "text": "x"}] * 2]
)
def test_what_is_no_plan_is_refused(memory, steps):
    with pytest.raises(BadValue):
        memory.plan(steps)
    assert memory.steps == ()


def test_starting_another_task_keeps_notes_and_calls(memory):
    memory.start("one")
    memory.plan(["a"])
    memory.note("k", 1)
    memory.record(ToolRecord("c1", "search"))
    memory.gather(x=1)
    memory.start("two")

    assert (memory.goal, memory.steps, dict(memory.task.data)) == ("two", (), {})
    assert memory.notes["k"].value == 1
    assert len(memory.tool_calls) == 1


# ---------------------------------------------------------------- notes


def test_the_newest_note_wins_and_links_the_older(memory):
    memory.note("airline", "Delta", importance=0.9, source="user")
    memory.note("airline", "United", source="tool")
    note = memory.notes["airline"]

    assert note.value == "United"
    assert note.importance == 0.9
    assert [(old.value, old.source) for old in note.versions] == [("Delta", "user")]


def test_a_note_that_contradicts_another_hides_it_from_recall(memory):
    memory.note("seat", "aisle seat")
    memory.note("new seat", "window seat", replaces="seat")

    assert [found.key for found in memory.recall("which seat?")] == ["new seat"]
    assert memory.notes["seat"].replaced_by == "new seat"


def test_a_note_fades_by_half_in_its_half_life(memory, clock):
    memory.note("k", "v", importance=0.8, half_life_seconds=DAY)
    written = memory.notes["k"].time

    assert memory.strength("k", now=written) == 0.8
    assert memory.strength("k", now=written + DAY * 1_000_000) == pytest.approx(0.4)


def test_using_a_note_makes_it_strong_again_and_slower_to_fade(memory, clock):
    memory.note("k", "v", importance=1.0, half_life_seconds=DAY)
    clock.wait(2 * DAY)
    faded = memory.strength("k")
    memory.use("k")
    used = memory.notes["k"].used

    assert faded == pytest.approx(0.25)
    assert memory.strength("k", now=used) == 1.0
    assert memory.strength("k", now=used + 2 * DAY * 1_000_000) == pytest.approx(0.5)


def test_recalling_is_not_using(memory, state):
    memory.note("airline", "Delta")
    state.commit()
    memory.recall("airline")

    assert state.is_clean


def test_what_is_pinned_never_fades(memory, clock):
    memory.note("allergy", "nuts", importance=0.7, pinned=True)
    clock.wait(1000 * DAY)
    assert memory.strength("allergy") == 0.7
    memory.unpin("allergy")
    assert memory.strength("allergy") == pytest.approx(0.7)
    clock.wait(1000 * DAY)
    assert memory.strength("allergy") < 0.001


def test_writing_a_pinned_note_anew_keeps_it_pinned(memory):
    memory.note("allergy", "nuts", importance=0.7, pinned=True)
    memory.note("allergy", "peanuts")

    assert memory.notes["allergy"].is_pinned


def test_a_forgotten_note_is_gone_from_view_and_there_in_history(memory, state):
    memory.note("phone", "555-1234")
    known = state.commit()
    memory.forget("phone")
    state.commit()

    assert "phone" not in memory.notes
    assert memory.recall("phone") == []
    assert memory.to_dict()["notes"] == {}
    assert Memory(state.at(known)).notes["phone"].value == "555-1234"
    with pytest.raises(KeyNotFound):
        memory.use("phone")


def test_recall_ranks_by_relevance_and_strength(memory, clock):
    memory.note("preferred airline", "Delta", importance=0.9)
    memory.note("airline of last year", "Ryanair", importance=0.2)
    memory.note("hotel", "Astoria", importance=1.0)
    found = memory.recall("which airline?", k=3)

    assert [each.value for each in found] == ["Delta", "Ryanair"]
    assert found[0].score == pytest.approx(found[0].relevance * found[0].strength)


def test_recall_without_a_word_to_go_by_gives_the_strongest(memory):
    memory.note("a", 1, importance=0.2)
    memory.note("b", 2, importance=0.8)

    assert [each.key for each in memory.recall("what is it?", k=1)] == ["b"]


def test_a_judge_of_ones_own_decides_about_relevance(state, clock):
    memory = Memory(state, clock=clock, relevance=lambda query, note: float(note.key == query))
    memory.note("x", "about y")
    memory.note("y", "about x")

    assert [each.key for each in memory.recall("y")] == ["y"]


@pytest.mark.parametrize("importance", [-0.1, 1.1, float("nan"), "high", True])
def test_an_importance_that_is_none_is_refused(memory, importance):
    with pytest.raises(BadValue):
        memory.note("k", "v", importance=importance)
    assert "k" not in memory.notes


def test_a_value_that_cannot_be_kept_is_an_error_that_names_the_note(memory):
    with pytest.raises(BadValue, match="k"):
        memory.note("k", (number for number in [1]))


# ---------------------------------------------------------------- calls


def test_calls_are_read_like_a_list(memory):
    for number in range(200):
        memory.record(ToolRecord(f"c{number}", "search", {"n": number}, result=[number]))
    memory.record(ToolRecord("bad", "book", error="sold out", duration_ms=12.5))
    calls = memory.tool_calls

    assert len(calls) == 201
    assert calls[-1].error == "sold out"
    assert calls[-1].duration_ms == 12.5
    assert not calls[-1].succeeded
    assert [call.id for call in calls[198:]] == ["c198", "c199", "bad"]
    assert [call.id for call in calls][:2] == ["c0", "c1"]
    assert calls[0].arguments == {"n": 0}
    assert calls[0].time > 0
    with pytest.raises(IndexError):
        calls[201]


def test_a_call_with_a_false_result_comes_back_as_it_was(memory):
    results: list[Any] = [0, False, "", [], {}, None]
    for result in results:
        kept = memory.record(ToolRecord("c", "t", result=result))
        found = memory.tool_calls[-1]
        assert found == kept
        assert type(found.result) is type(result)


# ---------------------------------------------------------------- what fits


def test_what_is_relevant_fits_the_budget_and_begins_with_the_goal(memory):
    memory.goal = "fly to NYC under 500"
    memory.plan(["search", "book"])
    memory.note("airline", "Delta", importance=0.9)
    memory.note("allergy", "nuts", pinned=True)
    memory.note("weather", "rain in Oslo", importance=0.9)
    memory.record(ToolRecord("c1", "search_flights", {"to": "NYC"}, result="DL 47 at 640"))
    choice = memory.relevant("which airline should I book?", 1000)

    assert [item.kind for item in choice.items][:2] == ["goal", "step"]
    assert choice.items[2].name == "allergy"
    assert "airline" in choice.used
    assert "weather" not in choice.used
    assert choice.left_out == ()


@pytest.mark.parametrize("budget", [0, 1, 5, 12, 30, 100])
def test_what_is_relevant_never_costs_more_than_the_budget(memory, budget):
    memory.goal = "fly to NYC under 500"
    memory.plan(["search", "compare", "book"])
    for number in range(20):
        memory.note(f"fact {number}", "about flights " * number, importance=number / 20)
    choice = memory.relevant("which flights?", budget)

    assert choice.tokens <= budget


# ---------------------------------------------------------------- history


def test_a_memory_is_read_as_it_was(memory, state):
    memory.goal = "one"
    memory.plan(["a"])
    memory.note("k", 1)
    first = state.commit()
    memory.goal = "two"
    memory.done("a")
    memory.note("k", 2)
    state.commit()
    then = Memory(state.at(first))

    assert (then.goal, str(then.steps[0].state), then.notes["k"].value) == ("one", "pending", 1)
    with pytest.raises(ReadOnly):
        then.note("k", 3)
    with pytest.raises(ReadOnly):
        then.record(ToolRecord("c", "t"))


def test_a_rollback_takes_the_memory_back(memory, state):
    memory.note("k", 1)
    first = state.commit()
    memory.note("k", 2)
    memory.record(ToolRecord("c", "t"))
    state.commit()
    state.rollback(first)

    assert memory.notes["k"].value == 1
    assert len(memory.tool_calls) == 0


def test_another_process_finds_what_was_committed(tmp_path, clock):
    state = Versioned(Disk(tmp_path / "b.db"), clock=clock)
    memory = Memory(state, clock=clock)
    memory.goal = "g"
    memory.plan(["a", "b"])
    memory.done("a")
    state.commit()
    state.close()
    again = Memory(Versioned(Disk(tmp_path / "b.db")))

    assert again.goal == "g"
    assert [step.state for step in again.steps] == [StepState.DONE, StepState.PENDING]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda memory: memory.recall(7),
        lambda memory: memory.record(ToolRecord("c1", "search", [1])),  # type: ignore[arg-type]
        lambda memory: memory.record({"id": "c1"}),
        lambda memory: memory.note("k", "v", importance=2),
        lambda memory: memory.plan([7]),
    ],
)
def test_what_makes_no_sense_is_refused(memory, wrong):
    with pytest.raises(BadValue):
        wrong(memory)
    assert (len(memory.tool_calls), list(memory.notes), memory.steps) == (0, [], ())


def test_a_memory_without_a_clock_goes_by_that_of_the_repo(state, clock):
    Memory(state, relevance=lambda question, note: 1.0).note("seat", "aisle", importance=0.9)

    assert abs(clock.now - state.memory.notes["seat"].time) < 10
    assert state.memory.strength("seat") > 0.89


def test_a_task_that_goes_on_is_not_over_any_more(memory):
    memory.goal = "fly"
    memory.plan(["search", "book"])
    memory.done("search")
    memory.done("book")
    memory.finish("done")

    memory.reopen("book")
    assert (memory.task.status, memory.task.current_step.text) == ("in_progress", "book")

    memory.finish("cancelled")
    memory.goal = "take a train"
    assert memory.task.status == "in_progress"


def test_of_two_steps_with_one_text_the_one_that_is_left_is_meant(memory):
    memory.plan(["check", "check"])
    memory.done("check")
    memory.done("check")

    assert [step.state for step in memory.steps] == ["done", "done"]


def test_a_note_is_recalled_again_when_what_replaced_it_is_forgotten(memory):
    memory.note("seat", "aisle")
    memory.note("window", "12A", replaces="seat")
    memory.forget("window")

    assert [found.key for found in memory.recall("seat")] == ["seat"]


def test_steps_without_an_id_get_one(memory):
    steps = memory.plan([{"id": None, "text": "search"}, {"id": None, "text": "book"}])

    assert [step.id for step in steps] == ["search", "book"]


def test_an_empty_error_is_none():
    assert ToolRecord("c", "search", error="").succeeded


def test_a_long_goal_is_cut_rather_than_left_out(memory):
    memory.goal = "fly to New York in May " * 30
    memory.note("seat", "aisle", pinned=True)

    choice = memory.relevant("which seat?", budget=40)

    assert choice.items[0].text.startswith("Goal: fly to New York")
    assert choice.tokens <= 40


def test_what_is_looked_at_is_shown_in_short(memory):
    memory.note("seat", "aisle")
    memory.record(ToolRecord("c1", "search"))
    assert (repr(memory.notes), repr(memory.tool_calls)) == ("<Notes seat>", "<ToolLog 1 calls>")
