"""Sub-agents: their effects, limits and questions are those of the run that they are part of."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import AgentState, Orchestrator, Tool, effects_after, replay
from otolith.errors import Conflict, EffectUnknown, Invalid
from tests.patience import HANG_SECONDS


@pytest.fixture
def state() -> Versioned:
    return Versioned()


class Boss(Orchestrator):
    """Lets a function delegate, and ends with what it returns."""

    def ask(self, s: AgentState) -> Any:
        raise NotImplementedError

    def step(self, s: AgentState) -> AgentState:
        return s.to_executing().to_done(self.ask(s))


class Payer(Orchestrator):
    """Pays in one step."""

    def step(self, s: AgentState) -> AgentState:
        return s.to_executing().to_done(self.call("pay", amount=1).result)


def dying_payer(paid: list[int], dies: list[bool]) -> Payer:
    def pay(amount: int) -> str:
        paid.append(amount)
        if dies:
            dies.clear()
            raise KeyboardInterrupt
        return "paid"

    return Payer(tools=[Tool(pay, effects="once")])


def test_what_a_sub_agent_may_have_done_is_listed_and_settled_by_the_one_above(state):
    paid: list[int] = []
    sub = dying_payer(paid, [True])

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            return self.delegate(sub, "pay", name="payer").answer

    boss = Asks(state)
    with pytest.raises(KeyboardInterrupt):
        boss.run("x")
    began = list(state.log())[-1]
    with pytest.raises(EffectUnknown):
        boss.run("x")
    with pytest.raises(EffectUnknown) as caught:  # that it failed is a commit: the fork is the same
        boss.run("x")
    assert [entry.key for entry in boss.unknown_effects()] == [caught.value.key]
    assert [entry.key for entry in effects_after(state, began)] == [caught.value.key]
    boss.settle(caught.value.key, happened=True, result="paid")
    assert boss.run("x").answer == "paid"
    assert paid == [1]


def test_going_back_lists_what_sub_agents_of_sub_agents_did(state):
    sub = dying_payer([], [])

    class Middle(Boss):
        def ask(self, s: AgentState) -> Any:
            self.delegate(sub, "pay", name="payer")
            raise KeyboardInterrupt

    class Top(Boss):
        def ask(self, s: AgentState) -> Any:
            return self.delegate(Middle(), "let it be paid", name="middle").answer

    top = Top(state)
    with pytest.raises(KeyboardInterrupt):
        top.run("x")
    began = list(state.log())[-1]
    assert [entry.tool for entry in top.rollback(began)] == ["pay"]
    assert [entry.tool for entry in effects_after(state, began)] == ["pay"]


def test_a_sub_agent_does_the_same_task_anew_in_another_step(state):
    made = []

    def sub(s: AgentState) -> AgentState:
        made.append(1)
        return s.to_executing().to_done(len(made))

    def step(s: AgentState) -> AgentState:
        s = s.to_executing()
        answer = boss.delegate(Orchestrator(step=sub), "review", name="reviewer").answer
        return s.to_done(answer) if answer == 3 else s

    boss = Orchestrator(state, step=step)
    assert boss.run("x").answer == 3


def test_one_name_is_for_one_task_in_a_step(state):
    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            for task in ("a", "b"):
                self.delegate(
                    Orchestrator(step=lambda s: s.to_executing().to_done(1)), task, name="f"
                )

    with pytest.raises(Invalid, match="another task in this step"):
        Asks(state).run("x")


def test_a_question_of_a_sub_agent_can_be_answered_through_the_one_above(state):
    def sub(s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing().ask("which?")
        return s.to_done(f"took {s.messages[-1].text}")

    def step(s: AgentState) -> AgentState:
        if s.phase == "planning":
            paused = boss.delegate(Orchestrator(step=sub), "choose", name="chooser")
            return s.to_executing().ask(paused.question)
        told = s.messages[-1].text
        found = boss.delegate(Orchestrator(step=sub), "choose", name="chooser", answer=told)
        return s.to_done(found.answer)

    boss = Orchestrator(state, step=step)
    assert boss.run("x").question == "which?"
    assert boss.run(answer="blue").answer == "took blue"


def test_limits_and_stops_reach_sub_agents(state):
    begun = threading.Event()

    def sub(s: AgentState) -> AgentState:
        begun.set()
        return s.to_executing()

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            self.delegate(Orchestrator(step=sub), "work", name="worker", max_steps=None)

    boss = Asks(state)
    assert boss.run("x", max_seconds=0.2).ended == "seconds"
    begun.clear()

    def stop() -> None:
        begun.wait(HANG_SECONDS)
        boss.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    outcome = boss.run("x")
    thread.join()
    assert (outcome.ended, outcome.state.iteration) == ("stopped", 0)


def test_a_replay_has_sub_agents_of_its_own(state):
    answers = ["then", "now"]

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            def sub(s: AgentState) -> AgentState:
                return s.to_executing().to_done(answers.pop(0))

            return self.delegate(Orchestrator(step=sub), "say", name="sayer").answer

    boss = Asks(state)
    assert boss.run("x").answer == "then"
    began = next(commit for commit in state.log() if commit.message == "begin main")
    assert replay(boss, state, at=began, branch="again").outcome.answer == "now"


def test_a_sub_agent_that_is_at_work_above_cannot_be_asked_below(state):
    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            name = {"main": "a", "a": "b", "b": "a"}[self.name]
            return self.delegate(Asks(), f"for {self.name}", name=name).answer

    with pytest.raises(Conflict, match="in the middle of 'for main'"):
        Asks(state).run("x")


def test_what_a_sub_agent_notes_comes_back_with_the_rest(state):
    class Finder(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["flights"] = ["DL 1"]
            assert isinstance(self.state, Versioned)
            self.state.memory.note("cheapest", "DL 1")
            return s.to_executing().to_done("found")

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            return self.delegate(Finder(), "find", name="finder").answer

    Asks(state).run("plan")

    assert state.memory.notes["cheapest"].value == "DL 1"
    assert state.memory.goal == "plan"


def test_a_step_function_is_given_the_orchestrator_that_runs_it_on_a_fork_and_in_a_replay():
    def work(runs: Orchestrator, s: AgentState) -> AgentState:
        seen = runs.call("look")
        said = runs.complete(s.messages).text
        return s.to_executing().to_done(f"{said} {seen.result} {runs.name}")

    def look() -> str:
        """Look."""
        return "DL 1"

    sub = Orchestrator(step=work, model=lambda messages: "found", tools=[look])

    def lead(runs: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(runs.delegate(sub, "find", name="finder").answer)

    state = Versioned()
    leader = Orchestrator(state, step=lead)
    assert leader.run("go").answer == "found DL 1 finder"
    began = next(commit for commit in state.log() if commit.message == "begin main")
    again = replay(leader, state, at=began, branch="again")
    assert (again.outcome.answer, again.asked) == ("found DL 1 finder", 0)


def test_what_belongs_to_a_step_is_refused_outside_of_one():
    def work(s: AgentState) -> AgentState:
        return s.to_executing().to_done("ok")

    runner = Orchestrator(Versioned(), step=work, model=lambda messages: "hi")
    runner.run("go")
    for ask in (lambda: runner.complete([]), lambda: runner.call("look"), lambda: runner.key("x")):
        with pytest.raises(Invalid, match="step"):
            ask()


# ---------------------------------------------------------------- sub-agents that are not over


def endless(s: AgentState) -> AgentState:
    return s.to_executing()


class Digs(Boss):
    """Lets a sub-agent dig for its own task, two steps at most."""

    sub = staticmethod(endless)

    def ask(self, s: AgentState) -> Any:
        sub = Orchestrator(step=self.sub)
        found = self.delegate(sub, f"dig for {s.task}", name="digger", max_steps=2)
        return found.answer or found.ended


def test_a_sub_agent_that_is_not_over_does_not_block_the_next_task(state):
    boss = Digs(state)
    assert boss.run("gold").answer == "steps"
    assert boss.run("silver").answer == "steps"
    digger = Orchestrator(state, name="digger").load()
    assert digger is not None
    assert digger.task == "dig for silver"
    assert not digger.is_over


def test_a_sub_agent_begins_the_same_task_anew_for_another_task_of_its_parent(state):
    seen: list[int] = []

    def sub(s: AgentState) -> AgentState:
        seen.append(len(s.memory.notes))
        return s.note(f"step {len(seen)}", 1).to_executing()

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            return self.delegate(Orchestrator(step=sub), "dig", name="digger", max_steps=2).ended

    boss = Asks(state)
    boss.run("first")
    boss.run("second")
    assert seen == [0, 1, 0, 1]


def test_abandoning_a_task_ends_those_of_its_sub_agents(state):
    class Fails(Digs):
        def step(self, s: AgentState) -> AgentState:
            if s.phase == "planning":
                self.ask(s)
                return s.to_executing()
            raise RuntimeError("trouble")

    boss = Fails(state)
    with pytest.raises(RuntimeError):
        boss.run("gold")
    boss.abandon()
    digger = Orchestrator(state, name="digger").load()
    assert digger is not None
    assert digger.error == "abandoned"


def test_a_sub_agent_that_died_on_its_fork_does_not_block_the_next_task(state):
    fails = [True]

    class Dies(Digs):
        @staticmethod
        def sub(s: AgentState) -> AgentState:
            if fails:
                raise KeyboardInterrupt
            return s.to_executing().to_done(s.task)

    boss = Dies(state)
    with pytest.raises(KeyboardInterrupt):
        boss.run("gold")
    [fork] = [name for name in state.repo.branches(state.session) if name.startswith("main.digger")]
    boss.abandon()
    on_fork = Versioned(state.repo, session=state.session, branch=fork)
    ended = Orchestrator(on_fork, name="digger").load()
    assert ended is not None
    assert ended.error == "abandoned"
    fails.clear()
    assert boss.run("silver").answer == "dig for silver"


def test_another_task_replaces_the_one_that_a_sub_agent_has_not_finished(state):
    def sub(s: AgentState) -> AgentState:
        return s.to_executing().ask("sure?") if s.task == "ask" else s.to_executing().to_done("ok")

    class Asks(Boss):
        def step(self, s: AgentState) -> AgentState:
            task = "ask" if s.phase == "planning" else "act"
            outcome = self.delegate(Orchestrator(step=sub), task, name="helper")
            s = s.to_executing()
            return s.to_done(outcome.answer) if outcome.answer else s

    assert Asks(state).run("x").answer == "ok"


def test_a_run_at_work_above_is_not_ended_by_one_that_begins_below(state):
    """`b` delegated to `a` once; when it begins below `a`, the task of `a` is not left over."""

    class Asks(Boss):
        def ask(self, s: AgentState) -> Any:
            order = {"first": "main b a", "second": "main a b"}[s.task].split()
            if self.name == order[-1]:
                return self.name
            below = order[order.index(self.name) + 1]
            return self.delegate(Asks(), s.task, name=below).answer

    boss = Asks(state)
    assert boss.run("first").answer == "a"
    assert boss.run("second").answer == "b"


def test_a_sub_agent_that_another_process_merges_at_the_same_time_is_merged_once(
    state, monkeypatch
):
    def step(o: Orchestrator, s: AgentState) -> AgentState:
        sub = Orchestrator(step=lambda s: s.to_executing().to_done("x"))
        s = s.to_executing()
        o.delegate(sub, "help", name=f"helper {s.iteration}")
        return s.to_done("ok") if s.iteration else s

    real, others = Versioned.merge, [True]

    def merge(self: Versioned, *args: Any, **more: Any) -> Any:
        if others:
            others.clear()  # another process does all that is left, the next step included
            other = Versioned(state.repo, session=state.session)
            assert Orchestrator(other, step=step).run("x").answer == "ok"
        return real(self, *args, **more)

    monkeypatch.setattr(Versioned, "merge", merge)
    with pytest.raises(Conflict):
        Orchestrator(state, step=step).run("x")
    assert Orchestrator(state, step=step).run("x").answer == "ok"
