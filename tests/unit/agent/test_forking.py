"""A step that is under way on a fork, or in two places, does to the world what one step does."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from otolith import Live, Versioned
from otolith.agent import AgentState, Observation, Orchestrator, Tool, ledger_in
from otolith.agent.journal import Journal
from otolith.errors import Busy, Conflict, EffectUnknown, Full
from tests.patience import HANG_SECONDS


class Payer(Orchestrator):
    """Pays in one step."""

    def step(self, s: AgentState) -> AgentState:
        return s.to_executing().to_done(self.call("pay", amount=1).text)


def paying(state: Versioned, paid: list[str], *, dies: bool, can_ask: bool = True) -> Payer:
    def pay(amount: int, idempotency_key: str) -> str:
        paid.append(idempotency_key)
        if dies:
            raise KeyboardInterrupt
        return "paid"

    def asks(key: str, arguments: object) -> bool:
        return key in paid

    return Payer(state, tools=[Tool(pay, effects="once", asks=asks if can_ask else None)])


def died(paid: list[str]) -> Versioned:
    state = Versioned()
    with pytest.raises(KeyboardInterrupt):
        paying(state, paid, dies=True).run("go")
    return state


def test_a_fork_in_the_middle_of_a_step_asks_whether_it_happened():
    paid: list[str] = []
    fork = died(paid).fork("retry")

    assert paying(fork, paid, dies=False).run("go").ended == "done"
    assert len(paid) == 1


def test_a_fork_in_the_middle_of_a_step_tells_if_nobody_can_be_asked():
    paid: list[str] = []
    fork = died(paid).fork("retry")

    with pytest.raises(EffectUnknown):
        paying(fork, paid, dies=False, can_ask=False).run("go")
    assert len(paid) == 1


def look() -> str:
    return "seen"


class Looker(Payer):
    """Looks before it pays: the step is under way, the payment is not begun."""

    def step(self, s: AgentState) -> AgentState:
        self.call("look")
        return super().step(s)


def under_way(paid: list[str]) -> Versioned:
    """Return a state in the middle of a step that has not begun to pay."""

    class Cut(Looker):
        def call(self, tool: Any, /, **arguments: Any) -> Observation:
            if tool == "pay":
                raise KeyboardInterrupt
            return super().call(tool, **arguments)

    state = Versioned()
    with pytest.raises(KeyboardInterrupt):
        Cut(state, tools=tools(paid)).run("go")
    return state


def tools(paid: list[str]) -> list[Tool]:
    def pay(amount: int, idempotency_key: str) -> str:
        paid.append(idempotency_key)
        return f"receipt {len(paid)}"

    return [Tool(pay, effects="once"), Tool(look, effects="idempotent")]


def test_forks_in_the_middle_of_a_step_pay_once_and_have_the_same_receipt():
    paid: list[str] = []
    state = under_way(paid)
    states = [state.fork("a"), state.fork("b"), state]

    ends = [Looker(each, tools=tools(paid)).run("go") for each in states]
    assert [end.answer for end in ends] == ["receipt 1"] * 3
    assert len(paid) == 1
    assert [entry.status for each in states for entry in ledger_in(each)] == ["done"] * 6


def test_an_undo_does_not_repeat_a_call():
    paid: list[str] = []
    state = under_way(paid)
    Looker(state, tools=tools(paid)).run("go")
    while len(ledger_in(state)) == 2:
        state.undo()

    assert Looker(state, tools=tools(paid)).run("go").answer == "receipt 1"
    assert len(paid) == 1


def test_a_fork_from_before_a_call_that_was_cut_off_can_settle_it():
    paid: list[str] = []
    state = under_way(paid)
    fork = state.fork("other")
    with pytest.raises(KeyboardInterrupt):
        paying(state, paid, dies=True, can_ask=False).run("go")

    run = paying(fork, paid, dies=False, can_ask=False)
    with pytest.raises(EffectUnknown) as caught:
        run.run("go")
    run.settle(caught.value.key, happened=True, result="settled")
    assert run.run("go").answer == "settled"
    assert paying(state, paid, dies=False, can_ask=False).run("go").answer == "settled"
    assert len(paid) == 1


def test_a_call_in_progress_on_another_branch_is_busy():
    paid: list[str] = []
    state = under_way(paid)
    fork = state.fork("other")

    def pay(amount: int, idempotency_key: str) -> str:
        paid.append(idempotency_key)
        with pytest.raises(Busy, match="in the middle of pay"):
            paying(fork, paid, dies=False).run("go")
        return "paid"

    assert Payer(state, tools=[Tool(pay, effects="once")]).run("go").answer == "paid"
    assert paying(fork, paid, dies=False).run("go").answer == "paid"
    assert len(paid) == 1


def test_a_call_that_could_not_be_recorded_was_not_begun(monkeypatch):
    paid: list[str] = []
    state = under_way(paid)
    fork = state.fork("other")

    def refuse(*args: object) -> None:
        raise Full("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_begin_in_ledger", refuse)
        with pytest.raises(Full):
            Looker(state, tools=tools(paid)).run("go")

    assert Looker(fork, tools=tools(paid)).run("go").answer == "receipt 1"


def test_two_forks_of_a_step_that_has_not_begun_act_by_themselves():
    paid: list[str] = []
    state = Versioned()
    paying(state, paid, dies=False).run("go", max_steps=0)
    for name in ("a", "b"):
        paying(state.fork(name), paid, dies=False).run("go")

    assert len(set(paid)) == 2


def test_a_sub_agent_goes_on_on_a_fork_of_the_run_that_asked_it():
    paid: list[str] = []
    state = Versioned()

    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            payer = paying(state, paid, dies=not paid)
            return s.to_executing().to_done(self.delegate(payer, "pay", name="payer").answer)

    with pytest.raises(KeyboardInterrupt):
        Boss(state).run("go")
    assert Boss(state.fork("retry")).run("go").ended == "done"
    assert len(paid) == 1


def test_two_orchestrators_do_not_share_a_state_unnoticed():
    state = Versioned()
    ended: list[str] = []
    entered = threading.Event()
    leave = threading.Event()

    def step(s: AgentState) -> AgentState:
        entered.set()
        leave.wait(HANG_SECONDS)
        return s.to_executing().to_done("ok")

    def work() -> None:
        ended.append(Orchestrator(state, step=step).run("go").ended)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(HANG_SECONDS)
    with pytest.raises(Busy, match="this state object"):
        Orchestrator(state, step=step).run("go")
    leave.set()
    thread.join()

    assert ended == ["done"]
    assert [commit.message for commit in state.log()] == ["step 1", "begin main"]


def test_a_state_that_goes_back_in_the_middle_of_a_step_is_a_conflict():
    state = Versioned()

    def step(s: AgentState) -> AgentState:
        if s.iteration == 3:
            state.rollback("@~2")
        return s if s.phase == "executing" else s.to_executing()

    with pytest.raises(Conflict, match="rolled it back"):
        Orchestrator(state, step=step).run("go", max_steps=5)
    found = Orchestrator(state, step=step).load()
    assert found is not None
    assert found.iteration == 1


def test_a_live_state_remembers_what_was_done_to_the_world():
    paid: list[int] = []
    fails = [True]

    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    class Top(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            seen = self.call("pay", amount=1)
            if fails:
                fails.clear()
                raise ConnectionError("later")
            return s.to_executing().to_done(seen.text)

    live = Live()
    made = Top(live, tools=[Tool(pay, effects="once")])
    with pytest.raises(ConnectionError):
        made.run("go")

    assert made.run("go").answer == "paid"
    assert paid == [1]


def test_what_a_tool_may_have_done_is_known_in_a_live_state():
    done = threading.Event()
    tool = Tool(lambda: done.wait(HANG_SECONDS), name="slow", effects="once", timeout_seconds=0.05)

    class Top(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.call("slow").text)

    made = Top(Live(), tools=[tool])
    made.run("go")

    assert [entry.status for entry in made.unknown_effects()] == ["unknown"]
    done.set()
