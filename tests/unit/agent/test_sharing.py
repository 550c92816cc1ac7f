"""What an agent has in mind while it works is in `state.memory`, and says how it ended."""

from __future__ import annotations

from otolith import Versioned
from otolith.agent import AgentState, Orchestrator


def worker(state: Versioned, *steps: str) -> Orchestrator:
    """Return an orchestrator that plans steps, then does one at a time."""

    def step(s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.remember(s.memory.plan(list(steps))).to_executing()
        if s.memory.pending:
            return s.remember(s.memory.done(s.memory.pending[0]).note("last", s.iteration))
        return s.to_done("all done")

    return Orchestrator(state, step=step)


def test_goal_plan_and_notes_are_shown_as_they_change():
    state = Versioned()
    worker(state, "search", "book").run("Fly", max_steps=2)

    assert state.memory.goal == "Fly"
    assert [(step.text, str(step.state)) for step in state.memory.steps] == [
        ("search", "done"),
        ("book", "pending"),
    ]
    assert state.memory.notes["last"].value == 1
    assert state.memory.task.status == "in_progress"


def test_the_task_is_done_when_the_run_is():
    state = Versioned()
    worker(state, "search").run("Fly")

    assert state.memory.task.status == "done"


def test_the_task_has_failed_when_the_run_has():
    state = Versioned()
    Orchestrator(state, step=lambda s: s.to_error("no flights")).run("Fly")

    assert state.memory.task.status == "failed"


def test_a_plan_that_somebody_else_has_changed_does_not_stop_the_run():
    state = Versioned()
    work = worker(state, "search", "book")
    work.run("Fly", max_steps=1)
    state.memory.plan(["walk"])
    state.commit("a person plans something else")

    assert work.run("Fly").ended == "done"
    assert [step.text for step in state.memory.steps] == ["walk"]


def test_a_plan_that_is_dropped_is_dropped_for_all():
    state = Versioned()

    def step(s: AgentState) -> AgentState:
        return s.plan("a", "b").to_executing() if s.phase == "planning" else s.plan().to_done("x")

    Orchestrator(state, step=step).run("Fly")
    assert state.memory.task.steps_left == ()


def test_the_next_task_has_no_plan_of_the_one_before():
    state = Versioned()
    work = worker(state, "search")
    work.run("Fly")
    work.run("Sleep", max_steps=0)

    assert (state.memory.goal, state.memory.steps) == ("Sleep", ())
    assert state.memory.task.status == "pending"


def test_the_same_task_done_again_begins_anew():
    state = Versioned()
    work = worker(state, "search")
    work.run("Fly")
    work.run("Fly", again=True, max_steps=1)

    assert [str(step.state) for step in state.memory.steps] == ["pending"]


def test_a_plan_that_was_made_ahead_for_the_goal_is_kept():
    state = Versioned()
    state.memory.goal = "Fly"
    state.memory.plan(["ask for the date"])
    state.commit("prepared")
    worker(state).run("Fly", max_steps=0)

    assert [step.text for step in state.memory.steps] == ["ask for the date"]
