"""Runs after a rollback to any of their commits: nothing that was taken back is taken for done."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith import Versioned
from otolith.agent import (
    Agent,
    AgentState,
    Orchestrator,
    ScriptedModel,
    Tool,
    effects_after,
    ledger_in,
)
from otolith.agent.history import effective_history, is_in_effect
from otolith.conversation import Message, Role, ToolCall
from otolith.errors import Busy
from tests.patience import HANG_SECONDS


class Finder(Orchestrator):
    def step(self, s: AgentState) -> AgentState:
        self.state["flights"] = ["DL 1"]
        self.state.memory.note("seen", 1)
        return s.to_executing().to_done("found")


class Planner(Orchestrator):
    def step(self, s: AgentState) -> AgentState:
        if s.phase == "planning":
            self.state["own"] = 1
            found = self.delegate(Finder(), "find", name="finder")
            return s.with_data(found=found.answer).to_executing()
        return s.to_done("planned")


def test_what_a_sub_agent_did_comes_back_from_wherever_a_run_goes_on():
    first = Versioned()
    Planner(first).run("go")
    assert len(list(first.log())) > 6
    for commit in first.log():
        state = Versioned(first.repo)
        state.rollback(commit)
        assert Planner(state).run("go").answer == "planned", commit.message
        assert (state["flights"], state["own"]) == (["DL 1"], 1), commit.message
        assert list(state.memory.notes) == ["seen"], commit.message


def adding(messages: list[Message]) -> Any:
    if messages[-1].role == "user":
        call = ToolCall("a", "run_code", {"code": "total = sum(data); print(total)"})
        return Message(Role.ASSISTANT, (call,))
    return messages[-1].results[0].content


def test_code_runs_again_where_a_rollback_has_taken_back_what_it_did():
    agent = Agent(adding, acts="code")

    @agent.task
    def total(data: list[int]) -> str:  # type: ignore[empty-body]
        """Sum up."""

    state = Versioned()
    assert total([1, 2, 3], state=state) == "6"
    for commit in list(state.log()):
        state.rollback(commit)
        assert total([1, 2, 3], state=state) == "6", commit.message
        with state.workspace() as workspace:
            assert workspace["total"] == 6, commit.message


def test_a_state_stands_on_what_no_rollback_has_left_behind():
    state = Versioned()
    made = []
    for number in range(4):
        state["n"] = number
        made.append(state.commit(str(number)))
    back = state.rollback(made[1])
    state["n"] = 9
    on = state.commit("on")
    assert [each.id for each in effective_history(state)] == [
        each.id for each in (on, back, *made[1::-1])
    ]
    again = state.rollback(made[3])
    assert [each.id for each in effective_history(state)] == [
        each.id for each in (again, *made[::-1])
    ]
    assert is_in_effect(state, made[3])
    assert not is_in_effect(state, on)


BOOKING = """
    import os, sys
    from otolith import Disk, Versioned
    from otolith.agent import Agent, Tool
    from otolith.conversation import Message, Role, ToolCall

    def pay(amount: int) -> str:
        "Pay."
        open("paid", "a").write("x")
        return "ok"

    def model(messages):
        if messages[-1].role == "user":
            return Message(Role.ASSISTANT, (ToolCall("c", "pay", {"amount": 1}),))
        return "booked"

    def die(state):
        if state.is_over and "die" in sys.argv:
            os.kill(os.getpid(), 9)

    agent = Agent(model, tools=[Tool(pay, effects="once")], on_step=die)

    @agent.task
    def book(to: str) -> str:
        "Book a flight."

    print(book("NYC", state=Versioned(Disk("a.db"))))
"""


def test_a_task_that_was_over_when_its_process_died_is_not_done_again(tmp_path: Path):
    script = tmp_path / "book.py"
    script.write_text(textwrap.dedent(BOOKING))

    def run(*words: str) -> tuple[int, str]:
        command = [sys.executable, str(script), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    assert run("die") == (-9, "")
    assert run() == (0, "booked\n")
    assert (tmp_path / "paid").read_text() == "x"
    assert run() == (0, "booked\n")
    assert (tmp_path / "paid").read_text() == "xx"  # asked for once more: done once more


def test_code_that_had_run_before_a_crash_is_told_with_its_value_and_its_traceback():
    codes = ["41 + 1", "print('out'); 1 / 0", "raise SystemExit"]
    calls = [{"call": "run_code", "code": code} for code in codes]
    dies = [True]

    def halt() -> None:
        """Die once."""
        if dies:
            dies.clear()
            raise KeyboardInterrupt

    def told(tools: list[Any]) -> list[Any]:
        state = Versioned()
        model = ScriptedModel([[*calls, {"call": "halt"}], "end"])
        agent = Agent(model, acts="code", tools=tools)
        try:
            agent.run("go", state)
        except KeyboardInterrupt:
            agent.run("go", state)
        results = (result for each in state.conversation for result in each.results)
        return [result.content for result in results][:3]

    cut_off, at_once = told([halt]), told([halt])
    assert cut_off == at_once
    assert cut_off[0] == "42"
    assert "ZeroDivisionError" in cut_off[1]
    assert "out" in cut_off[1]


def test_calls_from_several_threads_are_all_in_the_ledger():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            state = _paid_in_parallel()
            assert [entry.status for entry in ledger_in(state)] == ["done"] * 12
    finally:
        sys.setswitchinterval(interval)


def _paid_in_parallel() -> Versioned:
    class Payer(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda n: self.call("pay", n=n), range(12)))
            return s.to_executing().to_done("ok")

    def pay(n: int) -> int:
        """Pay."""
        return n

    state = otolith.open("memory:").session("s")
    Payer(state, tools=[Tool(pay, effects="once")]).run("go", session="s")
    return state


def test_an_agent_can_be_stopped_while_it_does_a_task():
    started, stopped = threading.Event(), threading.Event()

    def wait() -> None:
        """Wait."""
        started.set()
        assert stopped.wait(HANG_SECONDS)

    agent = Agent(ScriptedModel([{"call": "wait"}, "never"]), tools=[wait])

    def stop() -> None:
        assert started.wait(HANG_SECONDS)
        agent.stop()
        stopped.set()

    thread = threading.Thread(target=stop)
    thread.start()
    outcome = agent.run("go", Versioned())
    thread.join()
    assert (outcome.ended, outcome.steps) == ("stopped", 1)


@pytest.mark.parametrize("happened", [True, False])
def test_an_agent_settles_what_it_does_not_know(happened):
    paid: list[str] = []

    def pay() -> str:
        """Pay."""
        paid.append("x")
        if len(paid) == 1:
            raise KeyboardInterrupt
        return "paid"

    state = Versioned()
    agent = Agent(ScriptedModel([{"call": "pay"}, "done"]), tools=[Tool(pay, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        agent.run("go", state)
    (entry,) = agent.unknown_effects(state)
    agent.settle(entry.key, state, happened=happened)
    assert agent.run("go", state).answer == "done"
    assert len(paid) == (1 if happened else 2)
    start = list(state.log())[-1]
    assert [each.tool for each in agent.rollback(start, state)] == ["pay"]


def test_an_agent_gives_up_a_task():
    state = Versioned()
    agent = Agent(ScriptedModel([{"call": "ask_user", "question": "?"}, "ok"]), can_ask=True)
    assert agent.run("one", state).ended == "paused"
    agent.abandon(state)
    assert agent.run("two", state).ended == "done"


def test_a_task_that_was_gone_on_with_or_given_up_begins_anew_when_it_is_called():
    lines: list[Any] = [{"call": "ask_user", "question": "?"}, "first", "second"]
    lines += [{"call": "ask_user", "question": "?"}, "third"]
    agent = Agent(ScriptedModel(lines), can_ask=True)

    @agent.task
    def job(x: int) -> str:  # type: ignore[empty-body]
        """Do it."""

    state = Versioned()
    with pytest.raises(Busy):
        job(1, state=state)
    assert job.resume(state, "yes").answer == "first"
    assert job(1, state=state) == "second"
    with pytest.raises(Busy):
        job(1, state=state)
    agent.abandon(state)
    assert job(1, state=state) == "third"


def paying(state: Versioned, times: int) -> Orchestrator:
    def step(runs: Orchestrator, s: AgentState) -> AgentState:
        s = s.record_observation(runs.call("pay", n=s.iteration)).to_executing()
        return s.to_done("paid") if s.iteration == times - 1 else s

    return Orchestrator(state, step=step, tools=[Tool(lambda n: n, name="pay", effects="once")])


def test_what_was_rolled_back_is_listed_also_after_an_older_branch_was_merged():
    state = Versioned()
    state["a"] = 1
    state.commit("one")
    old = state.fork("old")
    for number in range(9):
        state["a"] = number
        state.commit(str(number))
    goal = state.head
    assert goal is not None
    paying(state, 3).run("go")
    state.rollback(goal)
    old["b"] = 2
    old.commit("later, and of a lower generation")
    state.merge("old")
    assert len(effects_after(state, goal)) == 3
    assert len(effects_after(state)) == 3


def test_what_a_sub_agent_does_after_a_commit_in_the_middle_of_a_step_is_listed():
    class Breaking(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.delegate(paying(Versioned(), 1), "pay", name="payer")
            raise RuntimeError("before it was merged")

    state = Versioned()
    with pytest.raises(RuntimeError):
        Breaking(state).run("go")
    forked = next(commit for commit in state.log() if commit.message == "delegate to payer")
    assert [each.tool for each in effects_after(state, forked)] == ["pay"]
    assert effects_after(state, state.head) == []


def test_a_step_function_may_have_parameters_of_its_own():
    def plain(s: AgentState, verbose: bool = False) -> AgentState:
        assert verbose is False
        return s.to_executing().to_done("ok")

    def wrapped(*args: Any, **kwargs: Any) -> AgentState:
        return plain(*args, **kwargs)

    for step in (plain, wrapped, lambda s, n=3: plain(s), partial(plain, verbose=False)):
        assert Orchestrator(Versioned(), step=step).run("x").answer == "ok"
