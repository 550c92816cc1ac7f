"""A run that is repeated lives from its record, with all that it delegates and undoes."""

from __future__ import annotations

from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import AgentState, Orchestrator, Role, Tool, replay
from otolith.agent.loop.state import said
from otolith.core import Commit


@pytest.fixture
def state() -> Versioned:
    return Versioned()


def begun(state: Versioned) -> Commit:
    return next(commit for commit in state.log() if commit.message == "begin main")


class Delegating(Orchestrator):
    """Lets another one pay, and ends with what that says."""

    sub: Orchestrator

    def step(self, s: AgentState) -> AgentState:
        return s.to_executing().to_done(self.delegate(self.sub, "pay", name="sub").answer)


class Paying(Orchestrator):
    """Asks its model how much, and pays that."""

    def step(self, s: AgentState) -> AgentState:
        much = int(self.complete(s.messages).text)
        return s.to_executing().to_done(self.call("pay", amount=much).text)


def delegating(paid: list[int], asked: list[Any], state: Versioned | None = None) -> Delegating:
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    def model(messages: Any) -> str:
        asked.append(messages)
        return str(len(asked))

    made = Delegating(state)
    made.sub = Paying(tools=[Tool(pay, effects="once")], model=model)
    return made


def test_sub_agents_live_from_the_record_too(state):
    paid: list[int] = []
    asked: list[Any] = []
    assert delegating(paid, asked, state).run("go").answer == "paid 1"

    again = replay(delegating(paid, asked), state, at=begun(state), branch="again")

    assert again.outcome.answer == "paid 1"
    assert (paid, len(asked)) == ([1], 1)
    assert (again.replayed, again.asked) == (1, 0)


class Counting(Orchestrator):
    """Asks the same four times."""

    def step(self, s: AgentState) -> AgentState:
        s = s.to_executing()
        got = [*s.data.get("got", []), self.complete([said(Role.USER, "next?")]).text]
        s = s.with_data(got=got)
        return s.to_done(got) if len(got) == 4 else s


def test_the_answers_are_those_that_came_after_the_commit(state):
    count = iter(range(1, 100))
    made = Counting(state, model=lambda messages: str(next(count)))
    assert made.run("go").answer == ["1", "2", "3", "4"]
    middle = next(commit for commit in state.log() if commit.message == "step 2")

    again = replay(Counting(model=made.model), state, at=middle, branch="again")
    assert (again.outcome.answer, again.asked) == (["1", "2", "3", "4"], 0)

    state.rollback(middle)  # what was rolled back is still on record
    again = replay(Counting(model=made.model), state, at=middle, branch="once-more")
    assert (again.outcome.answer, again.asked) == (["1", "2", "3", "4"], 0)


def test_what_failed_then_fails_at_once_however_often_it_may_be_tried(state):
    tried: list[int] = []

    def post(number: int) -> str:
        tried.append(number)
        raise ValueError("no such thing")

    class Posting(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.call("post", number=3).text)

    tools = [Tool(post, effects="idempotent", retries=1)]
    assert Posting(state, tools=tools).run("go").answer == "ValueError: no such thing"
    again = replay(Posting(tools=tools), state, at=begun(state), branch="again")

    assert "no such thing" in again.outcome.answer
    assert tried == [3, 3]


def test_nobody_is_asked_in_a_replay(state):
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask("which?") if s.phase == "planning" else s.to_done("ok")

    Orchestrator(state, step=step, human=lambda question: "this").run("go")
    twin = Orchestrator(step=step, human=pytest.fail)

    assert replay(twin, state, at=begun(state), branch="again").outcome.ended == "paused"
