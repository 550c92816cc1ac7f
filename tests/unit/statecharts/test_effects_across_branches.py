"""An effect that must not be repeated is called once, whatever becomes of the branches it is on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otolith import Disk, Memory, Versioned
from otolith.care import prune, verify
from otolith.errors import Busy, Conflict
from otolith.statecharts import Chart, Effect, Machine
from otolith.stores import KeyValueStore, KVStore
from tests.patience import HANG_SECONDS

PAYMENT = {
    "id": "payment",
    "initial": "open",
    "context": {"receipt": ""},
    "states": {
        "open": {"on": {"pay": {"target": "paid", "actions": ["charge"]}, "ask": "asking"}},
        "paid": {},
        "asking": {
            "invoke": {
                "id": "bank",
                "src": "bank",
                "onDone": {"target": "answered", "actions": ["note"]},
                "onError": "refused",
            }
        },
        "answered": {},
        "refused": {},
    },
}


class DictKV(KVStore):
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


@pytest.fixture(params=["memory", "disk", "key-value"])
def state(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Versioned]:
    makers: dict[str, Callable[[], Any]] = {
        "memory": Memory,
        "disk": lambda: Disk(tmp_path / "a.db"),
        "key-value": lambda: KeyValueStore(DictKV()),
    }
    with Versioned(makers[request.param]()) as opened:
        yield opened


def note(data: Any, event: Any) -> dict[str, Any]:
    return {"receipt": event.data}


def payment(
    handler: Callable[[Effect], Any], *, asks: Callable[[Effect], Any] | None = None
) -> Chart:
    chart = Chart.from_data(PAYMENT)
    chart.effect(name="charge", is_repeatable=False, asks=asks)(handler)
    chart.effect(name="bank", is_repeatable=False, asks=asks)(handler)
    chart.action(note)
    return chart


def waiting(state: Versioned, chart: Chart, event: str = "pay") -> Machine:
    """Return a machine with one effect in its outbox, committed."""
    machine = state.lifecycle(chart)
    state.commit("started")
    machine.send(event)
    state.commit(event)
    return machine


class Calls(list[str]):
    """A handler that notes its calls."""

    def __call__(self, effect: Effect) -> str:
        self.append(effect.key)
        return f"receipt {len(self)}"


def test_a_fork_does_not_repeat_an_effect_that_waited_when_it_was_made(state: Versioned) -> None:
    calls = Calls()
    chart = payment(calls)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)

    assert len(machine.carry_out().done) == 1
    assert len(fork.carry_out().done) == 1
    assert fork.outbox() == []
    assert len(calls) == 1


def test_a_fork_gets_the_answer_of_a_service_that_was_called_elsewhere(state: Versioned) -> None:
    calls = Calls()
    chart = payment(calls)
    machine = waiting(state, chart, "ask")
    fork = state.fork("other").lifecycle(chart)
    machine.carry_out()
    fork.carry_out()

    assert machine.data["receipt"] == fork.data["receipt"] == "receipt 1"
    assert fork.phase == "answered"
    assert len(calls) == 1


def test_a_fork_learns_that_an_effect_failed_elsewhere(state: Versioned) -> None:
    def refuse(effect: Effect) -> None:
        calls(effect)
        raise ConnectionError("no bank")

    calls = Calls()
    chart = payment(refuse)
    machine = waiting(state, chart, "ask")
    fork = state.fork("other").lifecycle(chart)

    for each in (machine, fork):
        assert [failed.error for failed in each.carry_out().failed] == ["ConnectionError: no bank"]
        assert each.phase == "refused"
    assert len(calls) == 1


def test_a_failed_call_is_not_tried_again_on_another_branch(state: Versioned) -> None:
    def refuse(effect: Effect) -> None:
        calls(effect)
        raise ConnectionError("no bank")

    calls = Calls()
    chart = payment(refuse)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)

    assert [len(each.carry_out().failed) for each in (machine, fork)] == [1, 1]
    assert [len(each.carry_out().unknown) for each in (machine, fork)] == [1, 1]
    assert len(calls) == 1


def test_a_merge_does_not_repeat_an_effect_of_the_merged_branch(state: Versioned) -> None:
    calls = Calls()
    chart = payment(calls)
    main = state.lifecycle(chart)
    state.commit("started")
    branch = state.fork("other")
    machine = branch.lifecycle(chart)
    machine.send("pay")
    branch.commit("pay")
    assert state.merge("other").ok
    assert len(main.carry_out().done) == len(machine.carry_out().done) == 1

    assert main.outbox() == machine.outbox() == []
    assert len(calls) == 1


@pytest.mark.parametrize("undos", [1, 2])
def test_an_undo_does_not_repeat_an_effect(state: Versioned, undos: int) -> None:
    calls = Calls()
    machine = waiting(state, payment(calls))
    machine.carry_out()
    for _ in range(undos):
        state.undo()
    if undos == 2:
        machine.send("pay")
        state.commit("pay")

    assert len(machine.carry_out().done) == 1
    assert machine.outbox() == []
    assert len(calls) == 1


def test_a_rollback_to_a_waiting_effect_does_not_repeat_it(state: Versioned) -> None:
    calls = Calls()
    machine = waiting(state, payment(calls))
    asked = state.head
    machine.carry_out()
    assert asked is not None
    state.rollback(asked)

    assert len(machine.outbox()) == 1
    assert len(machine.carry_out().done) == 1
    assert len(calls) == 1


def test_another_session_that_takes_over_a_branch_does_not_repeat_its_effects(
    state: Versioned,
) -> None:
    calls = Calls()
    chart = payment(calls)
    machine = waiting(state, chart)
    other = Versioned(state.repo, session="other")
    other["x"] = 1
    other.commit("mine")
    copied = other.fork("taken", at=machine.state.head).lifecycle(chart)  # type: ignore[attr-defined]
    machine.carry_out()
    copied.carry_out()

    assert len(calls) == 1


def test_a_new_step_may_ask_for_the_same_effect_again(state: Versioned) -> None:
    calls = Calls()
    machine = waiting(state, payment(calls))
    machine.carry_out()
    state.rollback("@~2")
    machine.send("pay")
    state.commit("pay again")
    machine.carry_out()

    assert len(set(calls)) == 2


def test_what_was_cut_off_is_unknown_on_every_branch(state: Versioned) -> None:
    def cut_off(effect: Effect) -> None:
        calls(effect)
        raise KeyboardInterrupt

    calls = Calls()
    chart = payment(cut_off)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()

    assert [each.is_begun for each in (*machine.outbox(), *fork.outbox())] == [True, True]
    assert [effect.key for effect in fork.carry_out().unknown] == calls
    assert [effect.key for effect in machine.carry_out().unknown] == calls
    fork.settle(calls[0], happened=True)
    assert fork.outbox() == []
    assert len(machine.carry_out().done) == 1
    assert len(calls) == 1


def test_what_is_settled_as_not_happened_is_called_on_one_branch(state: Versioned) -> None:
    def cut_off(effect: Effect) -> None:
        calls(effect)
        if len(calls) == 1:
            raise KeyboardInterrupt

    calls = Calls()
    chart = payment(cut_off)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()
    fork.settle(calls[0], happened=False)
    machine.carry_out()
    fork.carry_out()

    assert len(calls) == 2


def test_who_can_be_asked_is_asked_on_another_branch(state: Versioned) -> None:
    def cut_off(effect: Effect) -> None:
        calls(effect)
        raise KeyboardInterrupt

    calls = Calls()
    chart = payment(cut_off, asks=lambda effect: "found" if effect.key in calls else None)
    machine = waiting(state, chart, "ask")
    fork = state.fork("other").lifecycle(chart)
    with pytest.raises(KeyboardInterrupt):
        machine.carry_out()
    fork.carry_out()
    machine.carry_out()

    assert machine.data["receipt"] == fork.data["receipt"] == "found"
    assert len(calls) == 1


def test_an_effect_in_progress_is_busy_elsewhere_and_nobody_waits(state: Versioned) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(effect: Effect) -> None:
        calls(effect)
        entered.set()
        leave.wait(HANG_SECONDS)

    calls = Calls()
    chart = payment(slow, asks=lambda effect: False)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)
    thread = threading.Thread(target=machine.carry_out)
    thread.start()
    assert entered.wait(HANG_SECONDS)
    report = fork.carry_out()
    with pytest.raises(Busy, match="charge is being carried out"):
        fork.settle(calls[0], happened=False)
    leave.set()
    thread.join()

    assert [effect.key for effect in report.busy] == calls
    assert len(fork.carry_out().done) == 1
    assert len(calls) == 1


def test_an_effect_that_an_older_version_marked_on_the_branch_is_unknown(state: Versioned) -> None:
    calls = Calls()
    machine = waiting(state, payment(calls))
    pending = machine.outbox()[0]
    machine.change_outbox({pending.effect.key: pending._replace(is_begun=True)})
    state.commit("begin charge", kind="effect")

    assert len(machine.carry_out().unknown) == 1
    machine.settle(pending.effect.key, happened=False)
    assert len(machine.carry_out().done) == 1
    assert len(calls) == 1


def test_what_has_ended_elsewhere_cannot_be_settled(state: Versioned) -> None:
    calls = Calls()
    chart = payment(calls)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)
    machine.carry_out()

    with pytest.raises(Conflict, match="carried out or settled in the meantime"):
        fork.settle(calls[0], happened=False)
    fork.carry_out()
    assert len(calls) == 1


# Outcomes of several processes on one branch


def test_two_handles_that_carry_out_one_outbox_do_not_conflict(state: Versioned) -> None:
    """The second handle commits while the first is in its handler: the first is not left behind."""
    other = Versioned(state.repo)
    chart = Chart.from_data(PAYMENT)
    chart.action(note)
    calls: list[str] = []

    def ask(effect: Effect) -> str:
        calls.append(effect.key)
        if len(calls) == 1:
            second.carry_out()
        return "answer"

    chart.effect(name="bank")(ask)
    machine = waiting(state, chart, "ask")
    other.refresh()
    second = other.lifecycle(chart)
    machine.carry_out()

    assert state.is_clean
    assert machine.carry_out().done == ()
    assert machine.phase == second.phase == "answered"
    assert [event.event for event in machine.log()].count("done.invoke.bank") == 1


def test_what_a_handler_stages_is_committed_with_the_outcome(state: Versioned) -> None:
    other = Versioned(state.repo)
    chart = Chart.from_data(PAYMENT)

    @chart.effect
    def charge(effect: Effect) -> None:
        state["charged"] = effect.key
        other.refresh()
        other["news"] = 1
        other.commit("meanwhile")

    machine = waiting(state, chart)
    key = machine.outbox()[0].effect.key
    machine.carry_out()

    assert state.is_clean
    assert dict(state) == {"charged": key, "news": 1}
    assert machine.outbox() == []


# How long attempts last


def test_attempts_survive_a_collection_as_long_as_their_session(state: Versioned) -> None:
    calls = Calls()
    chart = payment(calls)
    machine = waiting(state, chart)
    fork = state.fork("other").lifecycle(chart)
    machine.carry_out()
    prune(state.repo, expire_seconds=0)

    fork.carry_out()
    assert len(calls) == 1
    assert verify(state.repo, level="deep").ok


def test_attempts_are_erased_with_their_session(state: Versioned) -> None:
    machine = waiting(state, payment(lambda effect: "a secret"), "ask")
    key = machine.outbox()[0].effect.key
    machine.carry_out()
    attempt = state.attempts().find(key)
    assert attempt is not None
    assert (attempt.status, attempt.result) == ("done", "a secret")
    repo = state.repo
    repo.delete_branch("main", "main")
    prune(repo)
    assert state.attempts().find(key) is not None  # the branch can still be taken back
    prune(repo, expire_seconds=0)

    assert state.attempts().find(key) is None
    assert list(repo.store.refs()) == [".config"]
