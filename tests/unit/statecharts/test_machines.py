"""Machines: charts that run in a state, and share its commits, its past and its branches."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Memory, Versioned
from otolith.errors import (
    BadChart,
    ChartMismatch,
    IllegalTransition,
    Invalid,
    KeyNotFound,
    ReadOnly,
    StepFailed,
    Uncommitted,
)
from otolith.statecharts import AGENT, Chart, ChartClass, ChartEvent, Effect


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
    return Versioned(Disk(tmp_path / "a.db"), clock=clock)


ORDER = {
    "id": "order",
    "initial": "open",
    "context": {"paid": 0},
    "states": {
        "open": {
            "on": {"pay": {"target": "paid", "actions": ["add"], "guard": "has_amount"}},
            "after": {"60000": "expired"},
        },
        "paid": {"entry": ["receipt"], "on": {"refund": "open"}},
        "expired": {"type": "final"},
    },
}


def order() -> Chart:
    chart = Chart.from_data(ORDER)

    @chart.guard
    def has_amount(data: Any, event: ChartEvent) -> bool:
        return bool(event.data["amount"] > 0)

    @chart.action
    def add(data: Any, event: ChartEvent) -> dict[str, int]:
        return {"paid": data["paid"] + event.data["amount"]}

    return chart


# In the commits of a state


def test_a_machine_is_where_it_was_after_reopening(state: Versioned, tmp_path: Path) -> None:
    machine = state.lifecycle(AGENT)
    machine.send("new_task", goal="fly")
    state["note"] = "beside it"
    state.commit("planned")
    state.close()
    again = Versioned(Disk(tmp_path / "a.db"))
    assert again.lifecycle(AGENT).phase == "planning"
    assert again["note"] == "beside it"
    assert again.lifecycle(AGENT).log()[0][:2] == ("new_task", {"goal": "fly"})


def test_a_step_is_staged_until_the_state_commits(state: Versioned) -> None:
    machine = state.lifecycle(AGENT)
    state.commit("begun")
    machine.send("new_task")
    state.discard()
    assert machine.phase == "idle"


def test_a_step_costs_one_commit(state: Versioned) -> None:
    machine = state.lifecycle(AGENT)
    begun = state.commit("begun")
    machine.send("new_task")
    commit = state.commit("planned")
    assert commit.generation == begun.generation + 1


def test_an_illegal_event_says_what_is_allowed_and_changes_nothing(state: Versioned) -> None:
    machine = state.lifecycle(AGENT)
    machine.send("new_task")
    state.commit("planned")
    with pytest.raises(IllegalTransition, match="allowed: plan_ready, fail") as caught:
        machine.send("task_complete")
    assert caught.value.allowed == ("plan_ready", "fail")
    assert state.is_clean
    assert machine.allowed() == ("plan_ready", "fail")
    assert machine.can("plan_ready")
    assert not machine.can("task_complete")


def test_a_guard_that_raises_leaves_the_machine_where_it_was(state: Versioned) -> None:
    machine = state.lifecycle(order())
    state.commit("begun")
    with pytest.raises(StepFailed, match="has_amount"):
        machine.send("pay", money=3)
    assert machine.phase == "open"
    assert state.is_clean


def test_the_past_can_be_looked_at_and_takes_no_events(state: Versioned) -> None:
    machine = state.lifecycle(AGENT)
    begun = state.commit("begun")
    machine.send("new_task")
    state.commit("planned")
    then = state.at(begun).lifecycle(AGENT)
    assert (then.phase, machine.phase) == ("idle", "planning")
    with pytest.raises(ReadOnly):
        then.send("new_task")


def test_there_is_no_machine_before_it_was_begun(state: Versioned) -> None:
    state["a"] = 1
    before = state.commit("before")
    machine = state.lifecycle(AGENT)
    state.commit("begun")
    with pytest.raises(KeyNotFound, match="started after"):
        state.at(before).lifecycle(AGENT)
    state.rollback(before)
    with pytest.raises(KeyNotFound, match="any more"):
        machine.phase  # noqa: B018


def test_rollback_and_undo_take_a_machine_back(state: Versioned) -> None:
    machine = state.lifecycle(AGENT)
    begun = state.commit("begun")
    machine.send("new_task")
    state.commit("planned")
    state.undo()
    assert machine.phase == "idle"
    state.redo()
    assert machine.phase == "planning"
    state.rollback(begun)
    assert machine.phase == "idle"


def test_a_state_has_several_machines_by_name(state: Versioned) -> None:
    one, two = state.lifecycle(AGENT, name="one"), state.lifecycle(AGENT, name="two")
    one.send("new_task")
    assert (one.phase, two.phase) == ("planning", "idle")


def test_data_is_what_a_chart_begins_with(state: Versioned) -> None:
    machine = state.lifecycle(order(), data={"paid": 5})
    machine.send("pay", amount=2)
    assert machine.data["paid"] == 7
    with pytest.raises(Invalid, match="started already"):
        state.lifecycle(order(), data={"paid": 1})


def test_data_that_did_not_change_is_not_written_again(state: Versioned) -> None:
    machine = state.lifecycle(order(), data={"paid": 0, "notes": "x" * 200_000})
    state.commit("begun")
    machine.send("pay", amount=1)
    big: Any = state.commit("paid")
    machine.send("refund")
    small: Any = state.commit("refunded")
    assert small.stats.bytes < big.stats.bytes
    assert small.stats.bytes < 10_000


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_machine_needs_a_name_that_is_one(state: Versioned, name: str) -> None:
    with pytest.raises(Invalid, match="cannot name a machine"):
        state.lifecycle(AGENT, name=name)


# Other charts


def test_a_machine_of_another_chart_is_refused(state: Versioned) -> None:
    state.lifecycle(AGENT)
    with pytest.raises(ChartMismatch, match="no migration leads here"):
        state.lifecycle(order())


def test_a_migration_leads_to_the_new_chart(state: Versioned) -> None:
    old = order()
    state.lifecycle(old).send("pay", amount=4)
    config = json.loads(json.dumps(ORDER).replace('"paid": {', '"settled": {', 1))
    config["states"]["settled"] = config["states"].pop("settled", config["states"].get("paid"))
    config["states"]["open"]["on"]["pay"]["target"] = "settled"
    config["states"].pop("paid", None)
    new = Chart.from_data(config)
    new.migrate_from(old.hash, lambda was: was._replace(configuration=("settled",)))
    machine = state.lifecycle(new)
    assert machine.phase == "settled"
    machine.send("refund")
    assert machine.phase == "open"
    assert state.lifecycle(new).snapshot.chart == new.hash


# Time


def test_a_timer_outlives_the_process(state: Versioned, tmp_path: Path, clock: Clock) -> None:
    state.lifecycle(order())
    state.commit("begun")
    state.close()
    clock.wait(59)
    again = Versioned(Disk(tmp_path / "a.db"), clock=clock)
    machine = again.lifecycle(order())
    machine.advance()
    assert machine.phase == "open"
    assert again.is_clean
    assert machine.due is not None
    clock.wait(2)
    machine.advance()
    assert machine.phase == "expired"
    assert machine.is_done


def test_a_timer_that_came_due_goes_before_the_event(state: Versioned, clock: Clock) -> None:
    machine = state.lifecycle(order())
    clock.wait(61)
    with pytest.raises(IllegalTransition, match="accepts no more events"):
        machine.send("pay", amount=1)


# Effects


def test_effects_follow_commits(state: Versioned) -> None:
    chart, told = order(), list[str]()
    chart.effect(name="receipt")(lambda effect: told.append(effect.key))
    machine = state.lifecycle(chart)
    machine.send("pay", amount=1)
    with pytest.raises(Uncommitted, match="effects follow commits"):
        machine.carry_out()
    assert told == []
    state.commit("paid")
    assert [effect.name for effect in machine.carry_out().done] == ["receipt"]
    assert len(told) == 1
    assert machine.carry_out().done == ()
    assert machine.outbox() == []


def test_the_same_step_from_the_same_commit_has_the_same_keys(state: Versioned) -> None:
    machine = state.lifecycle(order())
    state.commit("begun")
    machine.send("pay", amount=1)
    first = machine.outbox()[0].effect.key
    state.discard()
    machine.send("pay", amount=1)
    assert machine.outbox()[0].effect.key == first
    state.discard()
    machine.send("pay", amount=2)
    assert machine.outbox()[0].effect.key != first


def test_branches_have_keys_of_their_own(state: Versioned) -> None:
    machine = state.lifecycle(order())
    state.commit("begun")
    other = state.fork("other").lifecycle(order())
    machine.send("pay", amount=1)
    other.send("pay", amount=1)
    assert machine.outbox()[0].effect.key != other.outbox()[0].effect.key


def test_an_effect_that_nobody_handles_waits(state: Versioned) -> None:
    machine = state.lifecycle(order())
    machine.send("pay", amount=1)
    state.commit("paid")
    assert [effect.name for effect in machine.carry_out().unhandled] == ["receipt"]
    told: list[Effect] = []
    assert machine.carry_out({"receipt": told.append}).done == tuple(told)
    assert len(told) == 1


def test_an_effect_that_fails_is_tried_again_next_time(state: Versioned) -> None:
    machine = state.lifecycle(order())
    machine.send("pay", amount=1)
    state.commit("paid")

    def fails(effect: Effect) -> None:
        raise OSError("no paper")

    failed = machine.carry_out({"receipt": fails}).failed
    assert [each.error for each in failed] == ["OSError: no paper"]
    assert [each.tries for each in machine.outbox()] == [1]
    assert state.is_clean
    assert machine.carry_out({"receipt": lambda effect: None}).failed == ()
    assert machine.outbox() == []


def test_retries_happen_within_one_round(state: Versioned) -> None:
    chart, tries = order(), list[int]()

    @chart.effect(retry=2)
    def receipt(effect: Effect) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError

    machine = state.lifecycle(chart)
    machine.send("pay", amount=1)
    state.commit("paid")
    assert len(machine.carry_out().done) == 1
    assert len(tries) == 3


SERVICE = {
    "id": "service",
    "initial": "asking",
    "states": {
        "asking": {
            "invoke": {
                "id": "model",
                "src": "ask",
                "onDone": {"target": "answered", "actions": ["keep"]},
                "onError": "failed",
            }
        },
        "answered": {},
        "failed": {"on": {"again": "asking"}},
    },
}


def service() -> Chart:
    chart = Chart.from_data(SERVICE)

    @chart.action
    def keep(data: Any, event: ChartEvent) -> dict[str, Any]:
        return {"answer": event.data}

    return chart


def test_what_a_service_returns_goes_back_to_the_chart(state: Versioned) -> None:
    machine = state.lifecycle(service())
    state.commit("begun")
    machine.carry_out({"ask": lambda effect: {"text": "hello"}})
    assert machine.phase == "answered"
    assert machine.data["answer"] == {"text": "hello"}
    assert state.is_clean


def test_a_service_that_has_answered_is_not_stopped(state: Versioned) -> None:
    machine = state.lifecycle(service())
    state.commit("begun")
    carried = machine.carry_out({"ask": lambda effect: 1})
    assert [effect.kind for effect in carried.done] == ["invoke"]


def test_a_service_may_be_only_a_name() -> None:
    chart = Chart.from_data({"id": "c", "initial": "x", "states": {"x": {"invoke": "bell"}}})
    assert [effect.name for effect in chart.start().effects] == ["bell"]


def test_a_language_that_is_no_word_is_refused() -> None:
    guard = {"@expr": "1", "@lang": ["python"]}
    states = {"x": {"on": {"go": {"target": "x", "guard": guard}}}}
    with pytest.raises(BadChart, match="are not supported"):
        Chart.from_data({"id": "c", "initial": "x", "states": states})


def test_a_service_may_be_awaited(state: Versioned) -> None:
    chart = service()

    @chart.effect(timeout=5)
    async def ask(effect: Effect) -> str:
        await asyncio.sleep(0)
        return "hello"

    machine = state.lifecycle(chart)
    state.commit("begun")
    machine.carry_out()
    assert machine.data["answer"] == "hello"


def test_a_service_that_takes_too_long_has_failed(state: Versioned) -> None:
    chart = service()

    @chart.effect(timeout=0.01)
    async def ask(effect: Effect) -> None:
        await asyncio.sleep(60)

    machine = state.lifecycle(chart)
    state.commit("begun")
    assert "TimeoutError" in machine.carry_out().failed[0].error
    assert machine.phase == "failed"


def test_a_timeout_needs_a_function_that_is_awaited() -> None:
    with pytest.raises(Invalid, match="cannot be stopped"):
        service().effect(name="ask", timeout=1.0)(print)


def test_an_answer_that_nobody_awaits_is_dropped(state: Versioned) -> None:
    chart = Chart.from_data(
        {
            "id": "c",
            "initial": "a",
            "states": {"a": {"invoke": {"id": "s", "src": "ask"}, "on": {"leave": "b"}}, "b": {}},
        }
    )
    machine = state.lifecycle(chart)
    machine.send("leave")
    state.commit("left")
    machine.carry_out({"ask": lambda effect: 1})
    assert machine.phase == "b"
    assert machine.outbox() == []


def test_what_must_not_be_repeated_is_unknown_after_a_crash(state: Versioned) -> None:
    chart, told = order(), list[str]()

    @chart.effect(is_repeatable=False)
    def receipt(effect: Effect) -> None:
        told.append(effect.key)
        raise KeyboardInterrupt  # the process ends here, for all the machine knows

    machine = state.lifecycle(chart)
    machine.send("pay", amount=1)
    state.commit("paid")
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()
    carried = machine.carry_out()
    assert [effect.key for effect in carried.unknown] == told
    machine.settle(told[0], happened=True)
    assert machine.outbox() == []
    assert len(told) == 1


def test_settling_as_not_happened_carries_it_out_again(state: Versioned) -> None:
    chart, told = order(), list[str]()

    @chart.effect(is_repeatable=False)
    def receipt(effect: Effect) -> None:
        told.append(effect.key)
        if len(told) == 1:
            raise KeyboardInterrupt

    machine = state.lifecycle(chart)
    machine.send("pay", amount=1)
    state.commit("paid")
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()
    machine.settle(told[0], happened=False)
    assert len(machine.carry_out().done) == 1
    assert told[0] == told[1]
    with pytest.raises(KeyNotFound, match="no effect"):
        machine.settle(told[0], happened=True)


def test_who_can_be_asked_is_asked_after_a_crash(state: Versioned) -> None:
    chart = service()
    happened: list[str] = []

    def ask(effect: Effect) -> str:
        happened.append(effect.key)
        raise KeyboardInterrupt

    def asks(effect: Effect) -> str | None:
        return "found" if effect.key in happened else None

    chart.effect(name="ask", is_repeatable=False, asks=asks)(ask)
    machine = state.lifecycle(chart)
    state.commit("begun")
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()
    machine.carry_out()
    assert machine.data["answer"] == "found"
    assert len(happened) == 1


def test_a_round_stops_at_its_limit(state: Versioned) -> None:
    chart = Chart.from_data(
        {
            "id": "for ever",
            "initial": "a",
            "states": {
                "a": {
                    "invoke": {"id": "s", "src": "ask", "onDone": {"target": "a", "reenter": True}}
                }
            },
        }
    )
    machine = state.lifecycle(chart)
    state.commit("begun")
    asked: list[Effect] = []
    machine.carry_out({"ask": asked.append}, limit=4)
    assert 2 <= len(asked) <= 4
    assert machine.outbox() != []


@pytest.mark.parametrize("chart", ["x", None, 5, {"id": "m"}, ChartClass], ids=repr)
def test_a_machine_runs_a_chart_and_nothing_else(chart):
    with pytest.raises(Invalid, match="a machine runs a Chart, got"):
        Versioned(Memory()).lifecycle(chart)
