"""What an agent said, planned and did is told between any two commits, and shown by a view."""

from __future__ import annotations

import pytest

from otolith import Versioned, view
from otolith.agent import AgentState, Orchestrator
from otolith.conversation import ToolCall
from otolith.memory import ToolRecord
from otolith.views import change_report


@pytest.fixture
def state() -> Versioned:
    """A state in which something was said and planned, in one commit."""
    state = Versioned(session="trip")
    chat, mem = state.conversation, state.memory
    chat.user("Find me a flight")
    chat.assistant("I look.", tool_calls=[ToolCall("c1", "search", {"to": "NYC"})])
    mem.goal = "fly"
    mem.plan(["search", "book"])
    mem.note("seat", "aisle")
    state.commit("asked")
    return state


def lines(state: Versioned, *commits: str) -> list[str]:
    return [
        f"{each.how} {each.what} {each.name}: {each.text}"
        for each in change_report(state, *commits)
    ]


def test_what_the_last_commit_brought_is_told(state):
    assert lines(state) == [
        "added message main[0]: user: Find me a flight",
        "added message main[1]: assistant: I look. -> search(to='NYC')",
        "added goal goal: fly",
        "added step search: pending",
        "added step book: pending",
        "added note seat: aisle",
    ]


def test_only_what_changed_is_told(state):
    state.conversation.tool("c1", {"found": 2})
    mem = state.memory
    mem.done("search")
    mem.note("seat", "window")
    mem.note("bag", "one")
    mem.record(ToolRecord("c1", "search", {"to": "NYC"}, error="slow", duration_ms=41.7))
    state.commit("searched")
    mem.forget("bag")
    mem.plan([])
    state.commit("forgot")

    assert lines(state, "@~2", "@~1") == [
        'added message main[2]: tool: <- {"found":2}',
        "changed step search: done",
        "added note bag: one",
        "changed note seat: window",
        "added call c1: search(to='NYC') 42 ms: slow",
    ]
    assert lines(state) == ["removed step book: pending", "removed note bag: one"]


def test_what_a_rollback_took_back_is_told(state):
    state.conversation.tool("c1", "two")
    state.commit("searched")
    state.rollback("@~1")

    assert lines(state) == ["removed message main[2]: tool: <- two"]


def test_what_was_said_of_the_task_and_its_notes_is_told(state):
    mem = state.memory
    mem.finish("cancelled")
    mem.gather(price=482)
    mem.pin("seat")
    mem.use("seat")
    mem.record(ToolRecord("c9", "search", {"to": "N" * 500}))
    state.commit("ended")

    assert lines(state) == [
        "changed task status: cancelled",
        "added task price: 482",
        "changed note seat: pinned, used once",
        f"added call c9: search(to='{'N' * 155}…)",
    ]
    state.rollback("@~1")
    assert lines(state)[-1].startswith("removed call c9: search(to='NNN")


def test_a_note_is_compared_by_what_is_kept_of_it(state):
    numbers = pytest.importorskip("numpy").arange(5000)
    mem = state.memory
    mem.note("rows", numbers)
    state.commit("noted")
    numbers = numbers.copy()
    numbers[2500] = -1
    mem.note("rows", numbers)
    state.commit("corrected")

    assert [line.split(":")[0] for line in lines(state)] == ["changed note rows"]
    assert [version.value[2500] for version in mem.notes["rows"].versions] == [2500]


def test_of_many_messages_the_others_are_counted(state):
    for number in range(50):
        state.conversation.user(f"number {number}")
    state.commit("talked")

    told = lines(state)

    assert len(told) == 21
    assert told[-1] == "changed message main: and 30 more"


def test_what_two_branches_said_alike_is_not_told(state):
    """A run and its replay differ in when things were said, and how long calls took."""
    start = state.head
    forks = [state.fork("one", at=start), state.fork("two", at=start)]
    for number, fork in enumerate(forks):
        fork.conversation.tool("c1", "DL 1")
        fork.conversation.assistant("There is one.")
        fork.memory.record(ToolRecord("c1", "search", {"to": "NYC"}, "DL 1", duration_ms=number))
        fork.memory.record(ToolRecord("c2", ("look", "pay")[number], {}, duration_ms=1))
        fork.commit("went on")
    assert lines(state, "one", "two") == ["changed call c2: pay() 1 ms"]


def test_where_a_run_is_now_is_told(state):
    worker = Orchestrator(state, step=lambda s: s.to_executing().to_done("booked"))
    assert worker.run("Book a flight", session="trip").ended == "done"

    assert "changed run main: step 1, done: Book a flight" in lines(state)
    assert "added run main: step 0, planning: Book a flight" in lines(state, "@~2", "@~1")


def test_nothing_is_told_of_a_state_without_any(state):
    plain = Versioned()
    plain["a"] = 1
    plain.commit()

    assert change_report(plain) == []


@pytest.mark.parametrize("focus", ["recent", "full"])
def test_a_view_shows_what_is_in_mind(state, focus):
    shown = view(state, focus)

    assert '(goal): pending = "fly"' in shown
    assert '(plan): 0 done, 2 left = {search: "pending", book: "pending"}' in shown
    assert '(notes): 1 note = {seat: "aisle"}' in shown
    assert "(conversation main): 2 messages = " in shown
    assert '"[0] user": "Find me a flight"' in shown


def test_a_view_shows_where_a_run_is_and_what_it_asks(state):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("Aisle?")

    assert Orchestrator(state, step=step).run("Book", session="trip").ended == "paused"

    assert '(run main): waiting_feedback, step 1 = "Aisle?"' in view(state)


@pytest.mark.parametrize("tokens", [1, 20, 60, 200])
def test_a_view_of_a_long_conversation_keeps_its_budget(state, tokens):
    for number in range(40):
        state.conversation.user(f"number {number} " * 30)
    state.commit("talked")

    shown = view(state, "full", max_tokens=tokens)

    assert len(shown) <= 8 * tokens
    assert "number 1 " not in shown
