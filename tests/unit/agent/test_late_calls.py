"""Calls that outlive their time limit: none is made twice, and none of their results is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from otolith import Live, Versioned
from otolith.agent import (
    Agent,
    AgentState,
    Orchestrator,
    ScriptedModel,
    Tool,
    effects_after,
    ledger_in,
)
from otolith.agent.timeouts import ThreadCall, call_with_retries
from otolith.errors import Busy, TimedOut
from tests.patience import HANG_SECONDS

SHORT = 0.05


class Bank:
    """Pays when it is let; a call of `pay` takes as long as that."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.calls = 0
        self.let = threading.Event()
        self.fails = False

    def pay(self, amount: int) -> str:
        self.calls += 1
        assert self.let.wait(HANG_SECONDS)
        if self.fails:
            raise RuntimeError("no money")
        self.paid.append(amount)
        return f"paid {len(self.paid)}"

    def tool(self, **settings: Any) -> Tool:
        return Tool(self.pay, name="pay", effects="once", timeout_seconds=SHORT, **settings)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def paying(bank: Bank, *more: Any, **settings: Any) -> Agent:
    """Return an agent whose model pays, and pays again because it does not know."""
    pay = {"call": "pay", "amount": 300}
    tell: Any = lambda messages: messages[-1].results[0].content  # noqa: E731
    return Agent(ScriptedModel([pay, *more, pay, tell]), tools=[bank.tool(**settings)])


@pytest.fixture(params=[Versioned, Live])
def state(request) -> Any:
    return request.param()


def test_a_call_that_still_runs_is_not_made_again(state):
    bank = Bank()
    agent = paying(bank)
    assert "before this one still runs" in agent.run("pay", state).answer
    assert (bank.calls, bank.paid) == (1, [])
    assert [each.status for each in agent.unknown_effects(state)] == ["unknown"]
    bank.let.set()
    wait_until(lambda: not agent.unknown_effects(state))
    assert bank.paid == [300]


def test_the_late_result_is_recorded_and_told_to_the_same_call(state):
    bank = Bank()

    def let(_: Any) -> dict[str, str]:
        bank.let.set()
        wait_until(lambda: not agent.unknown_effects(state))
        return {"call": "wait"}

    agent = paying(bank, let)
    agent.tool(name="wait")(lambda: "waited")
    assert agent.run("pay", state).answer == "paid 1"
    assert bank.paid == [300]


def test_a_call_is_new_once_the_outcome_of_the_last_was_told(state):
    bank = Bank()

    def let(_: Any) -> dict[str, Any]:
        bank.let.set()
        wait_until(lambda: not agent.unknown_effects(state))
        return {"call": "pay", "amount": 300}

    agent = paying(bank, let)
    assert agent.run("pay", state).answer == "paid 2"
    assert bank.paid == [300, 300]


def test_a_call_that_failed_late_may_be_made_again(state):
    bank = Bank()
    bank.fails = True

    def let(_: Any) -> dict[str, str]:
        bank.let.set()
        wait_until(lambda: not agent.unknown_effects(state))
        bank.fails = False
        return {"call": "wait"}

    agent = paying(bank, let)
    agent.tool(name="wait")(lambda: "waited")
    assert agent.run("pay", state).answer == "paid 1"


def test_another_call_of_the_same_tool_is_made(state):
    bank = Bank()
    replies: list[Any] = [{"call": "pay", "amount": n} for n in (300, 5)]
    agent = Agent(ScriptedModel([*replies, "done"]), tools=[bank.tool()])
    agent.run("pay", state)
    bank.let.set()
    wait_until(lambda: sorted(bank.paid) == [5, 300])


def test_what_the_user_settles_is_told_to_the_same_call(state):
    bank = Bank()

    def timed_out(amount: int) -> str:
        bank.calls += 1
        raise TimeoutError("the gateway")

    bank.pay = timed_out  # type: ignore[method-assign]

    def settle(_: Any) -> dict[str, str]:
        [entry] = agent.unknown_effects(state)
        agent.settle(entry.key, state, happened=True, result="paid by hand")
        return {"call": "wait"}

    agent = paying(bank, settle)
    agent.tool(name="wait")(lambda: "waited")
    assert agent.run("pay", state).answer == "paid by hand"
    assert bank.calls == 1


@pytest.mark.parametrize(("happened", "answer", "calls"), [(True, "null", 1), (False, "now", 2)])
def test_a_tool_that_can_be_asked_is_asked_before_it_is_called_again(
    state, happened, answer, calls
):
    made: list[int] = []

    def pay(amount: int) -> str:
        made.append(amount)
        if len(made) == 1:
            raise TimeoutError("the gateway")
        return "now"

    tool = Tool(pay, effects="once", asks=lambda key, arguments: happened)
    replies: list[Any] = [{"call": "pay", "amount": 300}] * 2
    agent = Agent(ScriptedModel([*replies, lambda m: m[-1].results[0].content]), tools=[tool])
    assert agent.run("pay", state).answer == answer
    assert len(made) == calls


_PAYS_SLOWLY = """
import sys
from otolith import Versioned
from otolith.agent import Agent, ScriptedModel, Tool

def pay(amount: int) -> str:
    sys.stdin.read()
    return "late"

tool = Tool(pay, effects="once", timeout_seconds=0.05)
agent = Agent(ScriptedModel([{"call": "pay", "amount": 300}]), tools=[tool])
agent.run("pay", Versioned(sys.argv[1], session="s"), max_steps=1)
print("timed out", flush=True)
sys.stdin.read()
"""


def test_a_call_that_still_runs_in_another_process_is_not_made_again(tmp_path):
    """A tool that is asked then says "not yet", which is not "it did not happen"."""
    made: list[int] = []

    def pay(amount: int) -> str:
        made.append(amount)
        return "again"

    tool = Tool(pay, effects="once", asks=lambda key, arguments: False)
    tell: Any = lambda messages: messages[-1].results[0].content  # noqa: E731
    paid = {"call": "pay", "amount": 300}
    agent = Agent(ScriptedModel([paid, paid, tell, paid, tell]), tools=[tool])
    command = [sys.executable, "-c", _PAYS_SLOWLY, str(tmp_path / "a.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"timed out\n"
        state = Versioned(tmp_path / "a.db", session="s")
        assert "before this one still runs" in agent.run("pay", state).answer
        assert made == []
        other.kill()
    assert agent.run("pay it now", state).answer == "again"
    assert made == [300]


def test_a_step_that_was_told_the_outcome_is_told_it_again_when_it_runs_again():
    state = Versioned()
    made: list[int] = []
    dies = [True]

    def pay(amount: int) -> str:
        made.append(amount)
        raise TimeoutError("the gateway")

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = o.call("pay", amount=300)
        if s.phase == "planning":
            return s.to_executing()
        if dies:
            dies.clear()
            raise KeyboardInterrupt
        return s.to_done(seen.result)

    made_of = Orchestrator(state, step=step, tools=[Tool(pay, effects="once")])
    made_of.run("x", max_steps=1)
    [entry] = made_of.unknown_effects()
    made_of.settle(entry.key, happened=True, result="by hand")
    with pytest.raises(KeyboardInterrupt):
        made_of.run("x")
    assert made_of.run("x").answer == "by hand"
    assert made == [300]
    assert len(effects_after(state)) == 1


def test_a_late_end_does_not_move_the_state_under_its_reader():
    state = Versioned()
    bank = Bank()
    agent = paying(bank)
    agent.run("pay", state)
    head = state.head
    bank.let.set()
    wait_until(lambda: not agent.unknown_effects(Versioned(state.repo, session=state.session)))
    assert state.head == head
    state["note"] = 1
    state.commit("mine")
    assert [each.status for each in ledger_in(state)] == ["done"]


def test_a_sub_agents_late_result_is_known_after_its_fork_was_merged():
    state = Versioned()
    bank = Bank()

    def sub(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call("pay", amount=300).text)

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        payer = Orchestrator(step=sub, tools=[bank.tool()])
        answer = o.delegate(payer, "pay", name="payer").answer
        s = s.to_executing()
        return s if s.iteration == 0 else s.to_done(answer)

    boss = Orchestrator(state, step=step)
    boss.run("x", max_steps=1)
    bank.let.set()
    wait_until(lambda: bool(bank.paid))
    wait_until(lambda: "paid 1" in boss.run("x", again=True).answer)  # its thread has recorded it
    assert bank.paid == [300]


def test_a_call_that_was_begun_in_an_abandoned_step_is_not_made_by_the_next_task():
    made: list[int] = []

    def pay(amount: int) -> str:
        made.append(amount)
        raise KeyboardInterrupt

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call("pay", amount=300).text)

    runner = Orchestrator(Versioned(), step=step, tools=[Tool(pay, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        runner.run("first")
    runner.abandon()
    assert [each.status for each in runner.unknown_effects()] == ["unknown"]
    assert "must not happen twice" in runner.run("second").answer
    [entry] = runner.unknown_effects()
    runner.settle(entry.key, happened=False)
    with pytest.raises(KeyboardInterrupt):
        runner.run("third")
    assert made == [300, 300]


# ---------------------------------------------------------------- attempts


def test_a_retry_waits_for_the_call_that_still_runs_and_takes_its_result():
    begun, let = [0], threading.Event()

    def slow() -> str:
        begun[0] += 1
        if begun[0] == 1:
            threading.Timer(1.5 * seconds, let.set).start()
        assert let.wait(HANG_SECONDS)
        return f"call {begun[0]}"

    seconds = 0.4
    assert call_with_retries(slow, {}, timeout_seconds=seconds, retries=2) == "call 1"


def test_no_attempt_begins_while_another_still_runs():
    let = threading.Event()
    begun: list[int] = []

    def stuck() -> str:
        begun.append(1)
        assert let.wait(HANG_SECONDS)
        return "late"

    with pytest.raises(TimedOut):
        call_with_retries(stuck, {}, timeout_seconds=SHORT, retries=3)
    let.set()
    assert begun == [1]


def test_a_coroutine_that_times_out_is_cancelled_and_tried_again():
    begun: list[int] = []

    async def slow() -> str:
        begun.append(1)
        if len(begun) == 1:
            await asyncio.sleep(HANG_SECONDS)
        return "second"

    assert call_with_retries(slow, {}, timeout_seconds=2.0, retries=1) == "second"


def test_a_call_that_outlives_an_interrupt_is_not_made_again_and_its_result_is_found(monkeypatch):
    state = Versioned()
    bank = Bank()
    tool = Tool(bank.pay, effects="idempotent", timeout_seconds=HANG_SECONDS)

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call("pay", amount=300).text)

    runner = Orchestrator(state, step=step, tools=[tool])
    real = ThreadCall.result

    def interrupted(self: Any, *_: Any) -> Any:
        monkeypatch.setattr(ThreadCall, "result", real)
        wait_until(lambda: bank.calls == 1)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadCall, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.run("x")
    with pytest.raises(Busy, match="still runs in this process"):
        runner.run("x")
    bank.let.set()
    wait_until(lambda: not runner.unknown_effects())
    assert runner.run("x").answer == "paid 1"
    assert bank.calls == 1
