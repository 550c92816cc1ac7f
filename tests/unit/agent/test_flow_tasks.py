"""Agents, tools and steps of code as tasks of a flow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

import otolith
from otolith.agent import (
    Agent,
    AgentState,
    Orchestrator,
    ScriptedModel,
    WorkspaceStep,
    effects_after,
    ledger_in,
    load_run,
    tool,
)
from otolith.errors import CodeEdited, Invalid, ModelFailed
from otolith.flows import Flow


@dataclass
class Offer:
    """A flight."""

    city: str
    price: int


@pytest.fixture
def repo():
    with otolith.open("memory:") as found:
        yield found


@pytest.fixture
def state(repo):
    return repo.session("trip")


@pytest.fixture
def calls():
    return Counter()


@pytest.fixture
def pay(calls):
    @tool(effects="once")
    def charge(amount: int) -> str:
        """Pay."""
        calls[amount] += 1
        if calls["fails"] > 0:
            calls["fails"] -= 1
            raise OSError("refused")
        return f"paid {amount}"

    return charge


def flow_of(made, name="book", **options):
    flow = Flow("trip")
    flow.task(made, name=name, pause="1ms", **options)
    return flow


def booker(*lines, tools=(), **options):
    model = ScriptedModel(lines)
    agent = Agent(model, tools=tools, **options)

    @agent.task
    def book(dest: str) -> Offer:  # type: ignore[empty-body]
        """Find a flight and book it."""

    return book, model


def test_a_task_of_an_agent_is_a_task_of_a_flow(state):
    flow = Flow("trip")

    @flow.task
    def dest(where: str) -> str:
        return where.upper()

    book, model = booker({"call": "give_result", "result": {"city": "NYC", "price": 300}})
    flow.task(book, after=dest)
    run = state.flow(flow, where="nyc")
    run.work()

    assert run.result("book") == Offer("NYC", 300)
    assert 'dest = "NYC"' in model.asked[0][0].text
    state.refresh()
    found = load_run(state, "trip.book")
    assert found is not None
    assert found.is_over


def test_its_steps_land_in_the_commit_of_its_result(state, pay):
    agent = Agent(ScriptedModel([{"call": "charge", "amount": 3}, "done"]), tools=[pay])

    @agent.task
    def buy() -> str:  # type: ignore[empty-body]
        """Buy it."""

    run = state.flow(flow_of(buy, "buy"))
    run.work()
    state.refresh()

    (landed,) = [commit for commit in state.log() if len(commit.parents) == 2]
    assert load_run(state.at(landed.parents[0]), "trip.buy") is None
    assert load_run(state.at(landed), "trip.buy") is not None
    assert [entry.tool for entry in ledger_in(state)] == ["charge"]


def test_what_is_refused_is_told_to_the_agent_which_remembers(state):
    agent = Agent(ScriptedModel(["for 700", "for 300"]))

    @agent.task
    def book(dest: str) -> str:  # type: ignore[empty-body]
        """Book a flight."""

    flow = flow_of(book, retries=1, validate=lambda found: "300" in found or "it costs\n\ntoo much")
    run = state.flow(flow, dest="NYC")
    run.work()
    state.refresh()

    assert run.result("book") == "for 300"
    said = [message.text for message in state.conversation.thread("trip.book").messages()]
    assert [text for text in said if text.startswith("for")] == ["for 700", "for 300"]
    assert "not good enough:\n  it costs\n  \n  too much" in said[2]


def test_a_model_that_cannot_be_reached_costs_no_step(state, pay, calls):
    def down(messages):
        calls["down"] += 1
        if calls["down"] == 1:
            raise ModelFailed("the endpoint is down")
        return "done"

    agent = Agent(ScriptedModel([{"call": "charge", "amount": 3}, down]), tools=[pay])

    @agent.task
    def buy() -> str:  # type: ignore[empty-body]
        """Buy it."""

    run = state.flow(flow_of(buy, "buy", retries=1))
    run.work()

    assert run.result("buy") == "done"
    assert calls[3] == 1
    assert len([name for name in state.repo.branches("trip") if name.startswith("flow.")]) == 1


def test_a_limit_is_one_attempt_and_the_next_goes_on(state):
    lines: list[Any] = [{"call": "look"}, {"call": "look"}, {"call": "look"}, "seen"]
    agent = Agent(ScriptedModel(lines), max_steps=2)
    agent.tool(lambda: "nothing", name="look")

    @agent.task
    def search() -> str:  # type: ignore[empty-body]
        """Look three times."""

    run = state.flow(flow_of(search, "search", retries=2))
    run.work()

    assert run.result("search") == "seen"
    assert run.task("search").record.attempt == 2


def test_agents_beside_each_other_do_not_meet(state, pay):
    flow = Flow("trip")
    for name in ("a", "b", "c"):
        agent = Agent(ScriptedModel([{"call": "charge", "amount": 1}, f"I am {name}"]), tools=[pay])

        def buy() -> str:  # type: ignore[empty-body]
            """Buy it."""

        flow.task(agent.task(buy), name=name)
    run = state.flow(flow)
    run.work(workers=3)
    state.refresh()

    assert run.results() == {name: f"I am {name}" for name in "abc"}
    assert len(ledger_in(state)) == 3


def test_a_question_of_an_agent_is_one_of_its_task(state, calls):
    lines: list[Any] = [{"call": "ask_user", "question": "Aisle?"}, "an aisle seat"]
    agent = Agent(ScriptedModel(lines), can_ask=True)

    @agent.task
    def book(dest: str) -> str:  # type: ignore[empty-body]
        """Book a flight."""

    run = state.flow(flow_of(book), dest="NYC")
    assert run.work().questions == {"book": "Aisle?"}
    run.answer("book", "Yes, please")
    run.work()
    state.refresh()

    assert run.result("book") == "an aisle seat"
    said = [str(each.to_data()) for each in state.conversation.thread("trip.book").messages()]
    assert any("Yes, please" in text for text in said)


def test_a_part_of_a_task_can_be_an_agent_or_an_orchestrator(state):
    class Counting(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            self.state["counted"] = self.state.get("counted", 0) + 1
            return s.to_executing().to_done(f"{s.task}!")

    book, _ = booker({"call": "give_result", "result": {"city": "NYC", "price": 300}})
    chat = Agent(ScriptedModel(["Hello"]), name="chat")

    def plan(task):
        offer = task.call(book, dest="NYC")
        said = task.call(chat, input="Say hello")
        counted = [task.call(Counting(), input="count") for _ in range(2)]
        return [offer.price, said, *counted]

    run = state.flow(flow_of(plan, "plan"))
    run.work()
    state.refresh()

    assert run.result("plan") == [300, "Hello", "count!", "count!"]
    assert state["counted"] == 2
    nowhere: Any = None
    with pytest.raises(Invalid, match="task must be the context of a task"):
        chat.run_in_task(nowhere, {"input": "no"})


def test_an_agent_that_is_called_with_something_else_is_told_what_it_takes(state):
    chat = Agent(ScriptedModel(["Hello"]), name="chat")
    refusals = []

    def plan(task):
        try:
            task.call(chat, text="Say hello")
        except Invalid as error:
            refusals.append(error.message)
        return "done"

    state.flow(flow_of(plan, "plan")).work()

    assert refusals == ["an agent is called with input=, a text, got text"]


def test_work_that_was_sent_back_is_one_more_turn(state):
    flow = Flow("trip")
    agent = Agent(ScriptedModel(["for 700", "for 300"]))

    @agent.task
    def book(dest: str) -> str:  # type: ignore[empty-body]
        """Book a flight."""

    flow.task(book)
    flow.task(
        lambda book: book, name="check", after="book", back_to="book",
        validate=lambda found: "300" in found or "too much",
    )  # fmt: skip
    run = state.flow(flow, dest="NYC")
    run.work()
    state.refresh()

    assert run.results() == {"book": "for 300", "check": "for 300"}
    said = [message.text for message in state.conversation.thread("trip.book").messages()]
    assert "too much" in said[2]


def test_a_task_that_is_done_again_asks_the_agent_again(state):
    book, _ = booker(
        *[{"call": "give_result", "result": {"city": "NYC", "price": n}} for n in (3, 4)]
    )
    run = state.flow(flow_of(book), dest="NYC")
    run.work()
    run.retry("book")
    run.work()

    assert run.result("book") == Offer("NYC", 4)


def test_editing_what_an_agent_is_told_is_an_edit(state):
    def book_with(text):
        def book(dest: str) -> str:  # type: ignore[empty-body]
            pass

        book.__doc__ = text
        return Agent(ScriptedModel(["booked"])).task(book)

    state.flow(flow_of(book_with("Book it.")), dest="NYC").work()

    assert state.flow(flow_of(book_with("Book it.")), dest="NYC").work().status == "done"
    with pytest.raises(CodeEdited):
        state.flow(flow_of(book_with("Book it cheaply.")), dest="NYC").work()


# Tools


def test_a_tool_that_must_not_happen_twice_happens_once_over_attempts(state, pay, calls):
    def buy(task):
        both = [task.call(pay, amount=3), task.call(pay, amount=3)]
        if task.attempt < 3:
            raise OSError("down")
        return both

    run = state.flow(flow_of(buy, "buy", retries=2))
    before = state.head
    run.work()
    state.refresh()

    assert run.result("buy") == ["paid 3", "paid 3"]
    assert calls[3] == 2  # asked for twice, and tried three times
    assert [entry.status for entry in ledger_in(state)] == ["done", "done"]
    assert len(effects_after(state, before)) == 2


def test_a_tool_happens_once_over_forks(state, pay, calls):
    flow = flow_of(lambda task: task.call(pay, amount=3), "buy")
    state.flow(flow)
    fork = state.fork("other")
    fork.flow(flow).work()
    state.flow(flow).work()

    assert fork.flow(flow).result("buy") == state.flow(flow).result("buy") == "paid 3"
    assert calls[3] == 1


def test_a_tool_that_failed_is_called_by_the_next_attempt(state, pay, calls):
    calls["fails"] = 1
    run = state.flow(flow_of(lambda task: task.call(pay, amount=3), "buy", retries=1))

    assert run.work().status == "done"
    assert calls[3] == 2
    state.refresh()
    assert [entry.status for entry in ledger_in(state)] == ["done"]


@pytest.mark.parametrize(("happened", "times"), [(True, 1), (False, 2)])
def test_a_tool_that_timed_out_is_settled_by_the_run(state, calls, happened, times):
    @tool(effects="once")
    def charge(amount: int) -> str:
        calls[amount] += 1
        if calls[amount] == 1:
            raise TimeoutError("slow")
        return "paid"

    run = state.flow(flow_of(lambda task: task.call(charge, amount=3), "buy", retries=1))
    error = run.work().failures["buy"]
    assert "may have happened" in error
    state.refresh()
    (entry,) = ledger_in(state)
    run.settle(entry.key, happened=happened, result="a receipt")
    run.retry("buy")
    run.work()

    assert calls[3] == times
    assert run.result("buy") == ("a receipt" if happened else "paid")


def test_the_unknown_effect_of_an_agent_in_a_task_is_settled_by_the_run(state, calls):
    @tool(effects="once", asks=lambda key, arguments: calls["asked"] or None)
    def charge(amount: int) -> str:
        calls[amount] += 1
        raise KeyboardInterrupt  # as if the process died in the middle

    agent = Agent(ScriptedModel([{"call": "charge", "amount": 3}, "done"]), tools=[charge])

    @agent.task
    def buy() -> str:  # type: ignore[empty-body]
        """Buy it."""

    run = state.flow(flow_of(buy, "buy"))
    with pytest.raises(KeyboardInterrupt):
        run.work()
    calls["asked"] = 1
    run = state.flow(flow_of(buy, "buy"))
    run.work()

    assert run.result("buy") == "done"
    assert calls[3] == 1


def test_effects_of_work_that_was_refused_are_not_forgotten(state, pay):
    agent = Agent(ScriptedModel([{"call": "charge", "amount": 3}, "bad"]), tools=[pay])

    @agent.task
    def buy() -> str:  # type: ignore[empty-body]
        """Buy it."""

    before = state.commit("begin", allow_empty=True)
    run = state.flow(flow_of(buy, "buy", validate=lambda found: found == "good"))
    run.work()
    state.refresh()

    assert run.status == "failed"
    assert ledger_in(state) == []
    assert [entry.tool for entry in effects_after(state, before)] == ["charge"]


def test_a_tool_is_given_what_fits_or_it_is_not_called(state, pay, calls):
    run = state.flow(flow_of(lambda task: task.call(pay, amount="three"), "buy"))

    assert "the arguments of charge" in run.work().failures["buy"]
    assert calls == {}


# Code


def test_a_step_of_code_is_a_task(state):
    flow = Flow("sums")
    flow.task(lambda: [1, 2, 3], name="prices")
    add = WorkspaceStep("total = sum(prices)", takes=["prices"], returns="total")
    flow.task(add, name="add", after="prices")
    flow.task(WorkspaceStep("max(prices)", takes=["prices"]), name="top", after="prices")
    run = state.flow(flow)
    run.work(workers=2)
    state.refresh()

    assert (run.result("add"), run.result("top")) == (6, 3)
    with state.workspace() as workspace:
        assert {each.name for each in workspace.vars()} == {"prices", "total"}


def test_code_that_fails_leaves_nothing_and_says_why(state):
    flow = flow_of(WorkspaceStep("left = 1\n1/0"), "divide")
    progress = state.flow(flow).work()
    state.refresh()

    assert "ZeroDivisionError" in progress.failures["divide"]
    with state.workspace() as workspace:
        assert list(workspace) == []
    with pytest.raises(Invalid, match="runs in a flow"):
        WorkspaceStep("1")()
