"""A run that is repeated lives from its record, with all that it delegates and undoes."""

from __future__ import annotations

from typing import Any

import pytest

from otolith import Versioned
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel, Tool, list_runs, replay
from otolith.agent.state import text_message
from otolith.conversation import Message, Role, ToolCall
from otolith.core import Commit
from otolith.errors import Invalid


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
        got = [*s.data.get("got", []), self.complete([text_message(Role.USER, "next?")]).text]
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


def test_what_a_person_answered_is_answered_again_and_nobody_is_asked(state):
    def step(s: AgentState) -> AgentState:
        if s.phase == "planning":
            return s.to_executing().ask("which?")
        return s.ask("sure?") if s.iteration == 1 else s.to_done(s.messages[-1].text)

    answers = iter(["this", "yes"])
    Orchestrator(state, step=step, human=lambda question: next(answers)).run("go")
    twin = Orchestrator(step=step, human=pytest.fail)
    again = replay(twin, state, at=begun(state), branch="again")
    assert again.outcome.answer == "yes"
    words = [each.text for each in again.outcome.state.messages if each.role == "user"]
    assert words == ["go", "this", "yes"]


def asking(question: str) -> Orchestrator:
    def step(s: AgentState) -> AgentState:
        return s.to_executing().ask(question) if s.phase == "planning" else s.to_done("ok")

    return Orchestrator(step=step, human=lambda question: "this")


def test_a_question_that_nobody_has_answered_pauses_a_replay(state):
    first, other = asking("which?"), asking("another?")
    first.where = state
    first.run("go")
    assert replay(other, state, at=begun(state), branch="one").outcome.ended == "paused"
    answered = replay(other, state, at=begun(state), branch="two", human=lambda question: "that")
    assert answered.outcome.ended == "done"


def test_a_replay_begins_at_any_commit_also_in_the_middle_of_a_call(state):
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "receipt"

    agent = Agent(
        ScriptedModel([{"call": "pay", "amount": 5}, "paid"]), tools=[Tool(pay, effects="once")]
    )
    agent.run("go", state)
    commits = [each for each in state.log() if list_runs(state.at(each))]
    assert "begun pay" in [each.message for each in commits]
    for number, commit in enumerate(commits):
        again = replay(agent.orchestrator(), state, at=commit, branch=f"again-{number}")
        assert (again.outcome.answer, again.asked) == ("paid", 0), commit.message
    assert paid == [5]


class Speaker:
    """Asks for two calls at a time, twice."""

    name, message_format = "m", "anthropic"

    def complete(self, messages: Any, *, tools: Any = (), on_text: Any = None) -> Any:
        calls = tuple(ToolCall(f"{len(messages)}-{at}", "look", {}) for at in range(2))
        return Message(Role.ASSISTANT, calls) if len(messages) < 6 else "done"


def test_a_replay_sends_what_the_model_of_the_run_was_sent(state):
    def look() -> str:
        """Look."""
        return "nothing"

    agent = Agent(Speaker(), tools=[look], context_tokens=2000, instructions="Be good.")
    agent.run("go", state)
    again = replay(agent.orchestrator(), state, at=begun(state), branch="again")
    assert again.asked == 0
    assert again.replayed >= 2


class Fetching(Orchestrator):
    """Lets a sub-agent fetch something in each of three steps, and asks its model each time."""

    def step(self, s: AgentState) -> AgentState:
        if s.iteration == 3:
            return s.to_done(" ".join(map(str, s.memory.notes.values())))
        found = self.delegate(self.sub, "fetch", name="fetcher")
        return s.note(f"n{s.iteration}", found.answer).to_executing()

    sub: Orchestrator


def test_each_thing_on_record_is_recalled_once_by_whoever_did_it(state):
    numbers, replies = iter(range(1, 9)), iter("abcdefgh")

    def ticket() -> int:
        """Draw a number."""
        return next(numbers)

    def fetch(runs: Orchestrator, s: AgentState) -> AgentState:
        said = runs.complete([said_by_user("the same question each time")]).text
        seen = runs.call("ticket")
        return s.record_observation(seen).to_executing().to_done(f"{said}{seen.result}")

    tools = [Tool(ticket, effects="once")]
    boss = Fetching(state)
    boss.sub = Orchestrator(step=fetch, model=lambda messages: next(replies), tools=tools)
    assert boss.run("go").answer == "a1 b2 c3"
    again = replay(boss, state, at=begun(state), branch="again")
    assert (again.outcome.answer, again.replayed, again.asked) == ("a1 b2 c3", 3, 0)

    class Grasping(Fetching):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.call("ticket").error)

    other = Grasping(state, tools=tools)
    refused = replay(other, state, at=begun(state), branch="other").outcome.answer
    assert "this is a replay" in refused  # its sub-agents did that, it did not
    assert next(numbers) == 4


def said_by_user(text: str) -> Message:
    return text_message(Role.USER, text)


class Asker(Orchestrator):
    """Asks for a colour."""

    def step(self, s: AgentState) -> AgentState:
        planning = s.phase == "planning"
        return s.to_executing().ask("colour?") if planning else s.to_done(s.messages[-1].text)


class Handing(Orchestrator):
    """Hands on what its sub-agent wants to know, and what is answered."""

    def step(self, s: AgentState) -> AgentState:
        told = s.messages[-1].text if s.iteration else None
        found = self.delegate(Asker(), "x", name="asker", answer=told)
        if found.ended == "paused":
            return s.to_executing().ask(f"it asks: {found.question}")
        return s.to_done(f"{found.answer} after {s.iteration + 1} steps")


def test_what_was_answered_on_behalf_of_a_sub_agent_is_answered_so_again(state):
    runs = Handing(state)
    assert runs.run("go").ended == "paused"
    assert runs.run(answer="red").answer == "red after 2 steps"
    again = replay(Handing(), state, at=begun(state), branch="again")
    assert again.outcome.answer == "red after 2 steps"


def test_nobody_goes_back_to_a_commit_of_a_sub_agent(state):
    boss = Delegating(state)
    boss.sub = Orchestrator(step=lambda s: s.to_executing().to_done("x"))
    boss.run("go")
    inside = next(commit for commit in state.log() if commit.meta.get("run") == "sub")
    with pytest.raises(Invalid, match="of the sub-agent sub"):
        boss.rollback(inside)
    with pytest.raises(Invalid, match="of the sub-agent sub"):
        replay(boss, state, at=inside, branch="again")
