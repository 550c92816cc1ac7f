"""Effects of tasks: each happens once, and what nobody knows is never guessed."""

from __future__ import annotations

from threading import Event

import pytest

from otolith.core import Attempt
from otolith.errors import Busy, Invalid, KeyNotFound
from otolith.flows import Flow
from otolith.owners import register_owner
from tests.patience import HANG_SECONDS

QUICK = {"pause": "1ms"}


@pytest.fixture
def paid(calls):
    """Return a function with an effect, which notes that it happened."""

    def pay(what="it", error=None):
        calls[what] += 1
        if error is not None:
            raise error
        return f"paid {what}"

    return pay


def one_task(function, **options):
    flow = Flow("shop")
    flow.task(function, name="buy", **QUICK, **options)
    return flow


def unknown_key(run):
    """Return the key in the error of a task whose effect is unknown."""
    return run.task("buy").record.error.partition("run.settle('")[2].partition("'")[0]


def test_an_effect_is_not_repeated_by_the_next_attempt(state, calls, paid):
    def buy(task):
        receipt = task.once("pay", paid)
        if task.attempt < 3:
            raise OSError("the network is down")
        return receipt

    run = state.flow(one_task(buy, retries=3))

    assert run.work().status == "done"
    assert run.result("buy") == "paid it"
    assert calls == {"it": 1}


def test_an_effect_is_not_repeated_on_a_fork_or_after_a_rollback(state, calls, paid):
    flow = one_task(lambda task: task.once("pay", paid))
    run = state.flow(flow)
    begin = state.head
    fork = state.fork("other")
    run.work()
    fork.flow(flow).work()
    state.rollback(begin)
    run.work()

    assert fork.flow(flow).result("buy") == run.result("buy") == "paid it"
    assert calls == {"it": 1}


def test_a_task_that_failed_is_the_same_work_when_it_is_tried_again(state, calls, paid):
    def buy(task):
        task.once("pay", paid)
        if calls["tries"] < 1:
            calls["tries"] += 1
            raise OSError("no more")
        return task.key

    run = state.flow(one_task(buy))
    assert run.work().status == "failed"
    run.retry("buy")

    assert run.work().status == "done"
    assert calls["it"] == 1


def test_a_task_that_was_done_is_other_work_when_it_is_asked_for_again(state, calls, paid):
    run = state.flow(one_task(lambda task: task.once("pay", paid)))
    run.work()
    run.retry("buy")
    run.work()

    assert calls == {"it": 2}


def test_work_that_is_made_from_something_else_is_other_work(state, calls, paid):
    """What a check has sent back is made anew, and what is made from that is paid for anew."""
    flow = Flow("shop")
    prices = iter([700, 300])
    flow.task(lambda: next(prices), name="search")
    flow.task(lambda task, search: task.once("pay", paid, search), name="buy", after="search")
    flow.task(
        lambda buy: buy, name="check", after="buy", back_to="search",
        validate=lambda found: "300" in found,
    )  # fmt: skip
    run = state.flow(flow)

    assert run.work().status == "done"
    assert calls == {700: 1, 300: 1}


def test_an_error_says_that_it_did_not_happen(state, calls, paid):
    def buy(task):
        return task.once("pay", paid, error=None if task.attempt > 1 else OSError("refused"))

    run = state.flow(one_task(buy, retries=1))

    assert run.work().status == "done"
    assert calls == {"it": 2}


@pytest.mark.parametrize(("happened", "times"), [(True, 1), (False, 2)])
def test_nobody_knows_after_a_time_out_until_it_is_settled(state, calls, paid, happened, times):
    def buy(task):
        return task.once("pay", paid, error=TimeoutError("slow") if not calls["it"] else None)

    run = state.flow(one_task(buy, retries=2))
    assert run.work().status == "failed"
    assert calls["it"] == 1
    run.settle(unknown_key(run), happened=happened, result="a receipt")
    run.retry("buy")
    run.work()

    assert calls["it"] == times
    assert run.result("buy") == ("a receipt" if happened else "paid it")


def test_asks_tells_what_happened(state, calls, paid):
    def buy(task):
        error = TimeoutError("slow") if task.attempt == 1 else None
        return task.once("pay", paid, error=error, asks=lambda key: f"found {key[-4:]}")

    run = state.flow(one_task(buy, retries=1))

    assert run.work().status == "done"
    assert run.result("buy") == "found /pay"
    assert calls == {"it": 1}


def test_a_call_that_nobody_waits_for_is_not_made_beside_itself(state, calls):
    """The attempt took too long, and its thread is still in the middle of the call."""
    goes_on, has_ended = Event(), Event()

    def pay():
        calls["began"] += 1
        goes_on.wait(HANG_SECONDS)
        has_ended.set()
        return "paid"

    def buy(task):
        return task.once("pay", pay, asks=lambda key: None)

    run = state.flow(one_task(buy, retries=1, timeout=0.1))
    progress = run.work(workers=2)
    assert progress.status == "failed"
    assert "still in the middle" in progress.failures["buy"]
    with pytest.raises(Busy, match="in the middle"):
        run.settle(unknown_key(run), happened=True)
    goes_on.set()
    assert has_ended.wait(HANG_SECONDS)
    run.retry("buy")
    run.work()

    assert calls == {"began": 1}
    assert run.result("buy") == "paid"


def test_an_effect_whose_owner_has_died_is_unknown(state, calls, paid):
    def buy(task):
        return task.once("pay", paid)

    run = state.flow(one_task(lambda task: task.key, retries=0))
    run.work()
    with register_owner() as owner:
        pass
    key = f"{run.result('buy')}/pay"
    state.attempts().swap(key, None, Attempt("begun", by=owner))
    flow = Flow("shop", edited="keep")
    flow.task(buy, name="buy")
    fork = state.fork("again", at=next(c for c in state.log() if "a run of" in c.message))
    run = fork.flow(flow)

    assert "has died" in run.work().failures["buy"]
    assert unknown_key(run) == key
    assert calls == {}


def test_a_result_that_cannot_be_stored_is_not_forgotten(state, calls):
    def buy(task):
        return task.once("pay", lambda: calls.update(["it"]) or (each for each in "ab"))

    run = state.flow(one_task(buy, retries=1))

    assert "has happened, and its result cannot be stored" in run.work().failures["buy"]
    assert calls == {"it": 1}


def test_a_question_inside_is_asked_before_it_happens(state, calls, paid):
    def buy(task):
        return task.once("pay", lambda: paid(task.ask("By card?")))

    run = state.flow(one_task(buy))
    assert run.work().questions == {"buy": "By card?"}
    run.answer("buy", "yes")

    assert run.work().status == "done"
    assert calls == {"yes": 1}


def test_a_name_is_for_one_call(state, calls, paid):
    def buy(task):
        task.once("pay", paid)
        task.once("pay", paid, "another")

    run = state.flow(one_task(buy))

    assert "has called 'pay' once already" in run.work().failures["buy"]
    assert calls == {"it": 1}


def test_a_coroutine_is_awaited_inside_of_one(state, calls, paid):
    async def pay():
        return paid()

    async def buy(task):
        return task.once("pay", pay)

    run = state.flow(one_task(buy))
    run.work()

    assert run.result("buy") == "paid it"


def test_only_what_is_unknown_can_be_settled(state, paid):
    run = state.flow(one_task(lambda task: task.once("pay", paid) and task.key))
    run.work()

    with pytest.raises(KeyNotFound, match="nothing was begun"):
        run.settle("another", happened=True)
    with pytest.raises(Invalid, match="its outcome is known: done"):
        run.settle(f"{run.result('buy')}/pay", happened=True)
