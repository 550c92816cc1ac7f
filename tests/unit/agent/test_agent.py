"""Agents: typed tasks done by a model, by tool calls or by code, in any kind of state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from otolith import Disk, Live, Versioned, events, view
from otolith.agent import (
    Agent,
    AgentState,
    Orchestrator,
    Reply,
    ScriptedModel,
    Tool,
    load_run,
    replay,
)
from otolith.agent.models.base import TokenUsage, as_model
from otolith.agent.state import text_message
from otolith.conversation import Message, Role, Text, ToolCall
from otolith.errors import (
    BadReply,
    Busy,
    Invalid,
    ModelFailed,
    RefExists,
    TimedOut,
)
from otolith.text.tokens import estimate_tokens


@dataclass
class Summary:
    mean: float
    mood: Literal["good", "bad"] = "good"


def agent_saying(*lines, **parts) -> Any:
    return Agent(model=ScriptedModel(lines), **parts)


def analysing(agent: Any) -> Any:
    @agent.task
    def analyse(data: list[float], name: str = "it") -> Summary:  # type: ignore[empty-body]
        """Describe the data."""

    return analyse


def _run(state: Versioned) -> AgentState:
    found = load_run(state)
    assert found is not None
    return found


GIVEN = {"call": "give_result", "result": {"mean": 2.0}}


# ---------------------------------------------------------------- tasks


def test_a_task_returns_what_its_annotation_says():
    assert analysing(agent_saying(GIVEN))([1, 2, 3]) == Summary(2.0, "good")


def test_the_model_is_told_what_to_do_and_with_what():
    agent = agent_saying(GIVEN, instructions="You are exact.")
    analysing(agent)([1, 2], name="rain")
    system, asked = agent.model.asked[0]
    assert (system.role, system.text) == (Role.SYSTEM, "You are exact.")
    assert asked.text == 'Describe the data.\n\nTask: analyse\ndata = [1,2]\nname = "rain"'


def test_a_result_that_does_not_fit_goes_back_to_the_model():
    wrong = {"call": "give_result", "result": {"mean": "two"}}
    agent = agent_saying(wrong, GIVEN)
    assert analysing(agent)([1]) == Summary(2.0)
    told = agent.model.asked[1][-1].results[0]
    assert told.is_error
    assert "mean" in told.content


def test_a_result_may_be_said_as_json():
    assert analysing(agent_saying('```json\n{"mean": 3, "mood": "bad"}\n```'))([1]) == Summary(
        3.0, "bad"
    )
    agent = agent_saying("It is two.", GIVEN)
    assert analysing(agent)([1]) == Summary(2.0)
    assert "not the result" in agent.model.asked[1][-1].text


def test_a_model_that_never_gives_what_fits_is_an_error_in_the_end():
    state = Versioned()
    task = analysing(agent_saying(*["nonsense"] * 9, max_repairs=2))
    with pytest.raises(BadReply, match="3 attempts"):
        task([1], state=state)
    assert _run(state).phase == "error"
    assert events(state, kind="error")


def test_a_task_of_text_ends_with_the_text():
    agent = agent_saying("Hello Ann")

    @agent.task
    def greet(name: str) -> str:  # type: ignore[empty-body]
        """Greet somebody."""

    assert greet("Ann") == "Hello Ann"
    assert greet.__doc__ == "Greet somebody."
    assert greet.__name__ == "greet"


def test_a_task_must_say_what_to_do_and_be_called_as_it_is_written():
    agent = agent_saying(GIVEN)
    with pytest.raises(Invalid, match="docstring"):
        agent.task(lambda x: None)
    with pytest.raises(Invalid, match="analyse"):
        analysing(agent)()
    with pytest.raises(Invalid, match="state must be"):
        analysing(agent)([1], state={})
    with pytest.raises(Invalid, match="acts"):
        Agent(model=ScriptedModel([]), acts="magic")  # type: ignore[arg-type]


# ---------------------------------------------------------------- tools


def with_add(*lines, **parts) -> Any:
    agent = agent_saying(*lines, **parts)

    @agent.tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    @agent.tool
    def fail() -> None:
        """Fail."""
        raise RuntimeError("out of order")

    return agent


def test_tools_are_called_and_their_results_are_told():
    agent = with_add([{"call": "add", "a": 1}, {"call": "add", "a": 5, "b": 5}], "done")
    outcome = agent.run("add", Versioned())
    assert [call.result for call in outcome.state.memory.tool_calls] == [2, 10]
    assert [m.results[0].content for m in agent.model.asked[1][-2:]] == ["2", "10"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"call": "ad", "a": 1}, "did you mean add"),
        ({"call": "add", "a": "one"}, "Expected `int`"),
        ({"call": "add"}, "missing required"),
        ({"call": "add", "a": 1, "c": 2}, "unknown field"),
        ({"call": "fail"}, "RuntimeError: out of order"),
        (
            Message(Role.ASSISTANT, (ToolCall("x", "add", raw="{not json"),)),
            "not a JSON object",
        ),
    ],
)
def test_what_goes_wrong_with_a_call_is_told_to_the_model_and_the_run_goes_on(call, said):
    agent = with_add(call, "sorry")
    state = Versioned()
    assert agent.run("add", state).answer == "sorry"
    told = agent.model.asked[1][-1].results[0]
    assert told.is_error
    assert said in told.content
    assert said in events(state, kind="tool_call")[0].data["error"]


def test_a_reply_that_is_none_is_an_event_and_asked_for_again():
    failing = iter([BadReply("nonsense"), BadReply("nonsense")])

    def model(messages):
        error = next(failing, None)
        if error is not None:
            raise error
        return "sense"

    state = Versioned()
    assert Agent(model=model).run("x", state).answer == "sense"
    assert [event.data["error"] for event in events(state, kind="error")] == ["nonsense"] * 2


def test_a_model_that_only_talks_nonsense_leaves_a_run_that_can_go_on():
    state = Versioned()

    def model(messages):
        raise BadReply("nonsense")

    with pytest.raises(BadReply):
        Agent(model=model, max_repairs=1).run("x", state)
    assert Agent(model=lambda messages: "sense").run("x", state).answer == "sense"


def test_a_model_that_never_stops_calling_reaches_the_limit():
    agent = with_add(*[{"call": "add", "a": 1}] * 20, max_steps=5)

    @agent.task
    def forever() -> str:  # type: ignore[empty-body]
        """Go on."""

    state = Versioned()
    with pytest.raises(TimedOut, match="5 steps"):
        forever(state=state)
    assert forever.run(state=state).state.iteration == 10


# ---------------------------------------------------------------- asking a person


def test_a_model_can_ask_the_user():
    asks = {"call": "ask_user", "question": "Which seat?"}
    agent = agent_saying(asks, lambda messages: f"took {messages[-1].text}", can_ask=True)

    @agent.task
    def book() -> str:  # type: ignore[empty-body]
        """Book."""

    state = Versioned()
    with pytest.raises(Busy, match="Which seat"):
        book(state=state)
    assert book.resume(state, "12A").answer == "took 12A"
    at_once = agent_saying(asks, lambda m: f"took {m[-1].text}", human=lambda question: "1B")
    assert at_once.run("book").answer == "took 1B"


# ---------------------------------------------------------------- states


def test_every_kind_of_state_will_do():
    task = analysing(agent_saying(GIVEN, GIVEN))
    for state in (None, Live(), Versioned()):
        assert task([1], state=state) == Summary(2.0)
    live = Live()
    task([1], state=live)
    task([2], state=live)
    assert [event.kind for event in live.events].count("success") == 2


def test_every_step_is_a_commit_with_its_events():
    state = Versioned()
    with_add({"call": "add", "a": 1}, "done").run("add", state)
    kinds = {
        commit.message: [e.kind for e in state.events if e.commit == commit.id]
        for commit in state.log()
    }
    assert kinds["step 1"] == ["output", "tool_call", "phase"]
    assert kinds["step 2"] == ["output", "phase", "success"]


def test_a_call_that_was_cut_off_goes_on_when_it_is_made_again(tmp_path):
    asked: list[int] = []

    def line(number):
        def say(messages):
            asked.append(number)
            if number == 1 and asked.count(1) == 1:
                raise KeyboardInterrupt
            return Message(Role.ASSISTANT, (ToolCall(f"c{number}", "add", {"a": number}),))

        return say

    def run() -> Any:
        with Versioned(Disk(tmp_path / "a.db")) as state:
            return analysing(with_add(line(0), line(1), GIVEN))([1], state=state)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run() == Summary(2.0)
    assert asked == [0, 1, 1]


def test_a_long_conversation_is_cut_to_what_the_model_takes():
    lines = [f"{'word ' * 300}{number}" for number in range(12)]
    agent = agent_saying(*lines, context_tokens=2000)
    state = Versioned()
    model = agent.model
    model.complete, whole = _by_count(model, lines), model.complete
    for number in range(12):
        agent.run(f"question {number}", state)
    assert whole is not None
    sizes = [sum(len(m.text) for m in asked) for asked in model.asked]
    assert max(sizes) < 10_000 < sum(len(line) for line in lines)
    assert model.asked[-1][-1].text == "question 11"


def _by_count(model, lines):
    def complete(messages, *, tools=(), on_text=None):
        model.asked.append(tuple(messages))
        return Reply(Message(Role.ASSISTANT, (Text(lines[len(model.asked) - 1]),)))

    return complete


# ---------------------------------------------------------------- code


def test_an_agent_can_act_by_code():
    state = Versioned()
    agent = agent_saying(
        {"call": "run_code", "code": "total = sum(data)\nprint('is', total)"},
        {"call": "run_code", "code": "1 / 0"},
        {"call": "run_code", "code": "total + 1"},
        {"call": "give_variable", "name": "nothing"},
        {"call": "give_variable", "name": "total"},
        acts="code",
    )

    @agent.task
    def total(data: list[int]) -> int:  # type: ignore[empty-body]
        """Sum up."""

    assert total([1, 2, 3], state=state) == 6
    told = [asked[-1].results[0] for asked in agent.model.asked[1:]]
    assert told[0].content == "is 6"
    assert told[1].is_error
    assert "ZeroDivisionError" in told[1].content
    assert told[2].content == "7"
    assert "no variable" in told[3].content
    with state.workspace() as workspace:
        assert workspace["total"] == 6


def test_code_is_not_run_twice_by_a_step_that_was_cut_off(tmp_path):
    code = {"call": "run_code", "code": "n = globals().get('n', 0) + 1; print(n)"}
    dies = [True]

    def add() -> None:
        """Die once."""
        if dies:
            dies.clear()
            raise KeyboardInterrupt

    def run() -> Any:
        agent = agent_saying(
            [code, {"call": "add"}],
            {"call": "give_variable", "name": "n"},
            acts="code",
            tools=[add],
        )

        @agent.task
        def count() -> int:  # type: ignore[empty-body]
            """Count."""

        with Versioned(Disk(tmp_path / "a.db")) as state:
            return count(state=state)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run() == 1


def test_code_runs_in_a_live_state_which_remembers_its_variables():
    agent = agent_saying(
        {"call": "run_code", "code": "total = sum(parts)"},
        {"call": "give_variable", "name": "total"},
        {"call": "run_code", "code": "total += sum(parts)"},
        {"call": "give_variable", "name": "total"},
        acts="code",
    )

    @agent.task
    def add(parts: list[int]) -> int:  # type: ignore[empty-body]
        """Add the parts to the total."""

    state = Live()
    assert (add([1, 2], state=state), add([10], state=state)) == (3, 13)
    with state.workspace() as lab:
        assert (lab["total"], lab["parts"]) == (13, [10])


def test_a_live_state_has_the_messages_and_the_memory_of_its_tasks():
    agent = agent_saying({"call": "look", "city": "NYC"}, "sunny", "it was sunny")

    @agent.tool
    def look(city: str) -> str:
        """Look out of the window."""
        return "sun"

    state = Live()
    state.conversation.user("I am Ada.")
    assert agent.run("The weather?", state).answer == "sunny"

    assert [message.text for message in state.conversation if message.text] == [
        "I am Ada.",
        "The weather?",
        "sunny",
    ]
    assert (state.memory.goal, state.memory.task.status) == ("The weather?", "done")
    assert [call.name for call in state.memory.tool_calls] == ["look"]
    shown = view(state, "full")
    assert "(conversation main): 5 messages" in shown
    assert "(goal): done" in shown

    assert agent.run("And before?", state).answer == "it was sunny"
    assert "I am Ada." in [message.text for message in agent.model.asked[-1]]


def test_sessions_in_one_live_state_have_threads_of_their_own():
    agent = agent_saying("one")
    state = Live()
    agent.run("first", state, session="a")
    agent_saying("two").run("second", state, session="b")

    assert len(state.conversation) == 0
    assert sorted(state.conversation.threads()) == ["a.main", "b.main"]
    assert state.memory.goal == ""


# ---------------------------------------------------------------- replay


def paying(*lines, log):
    agent = agent_saying(*lines)

    @agent.tool(effects="once")
    def pay(amount: int) -> str:
        """Pay."""
        log.append(amount)
        return f"receipt {amount}"

    return agent


def begun(state: Versioned):
    return next(commit for commit in state.log() if commit.message == "begin main")


def test_a_run_can_be_repeated_from_its_record_without_touching_the_world():
    state, log = Versioned(), list[int]()
    agent = paying({"call": "pay", "amount": 5}, "paid", log=log)
    agent.run("pay", state)
    again = agent.orchestrator()
    again.model = None
    repeated = replay(again, state, at=begun(state), branch="again")
    assert repeated.outcome.answer == "paid"
    assert (repeated.replayed, repeated.asked) == (2, 0)
    assert log == [5]
    assert repeated.outcome.state.memory.tool_calls[0].result == "receipt 5"
    assert repeated.state.name == "again"
    with pytest.raises(RefExists):
        replay(again, state, at=begun(state), branch="again")


def test_a_run_can_be_repeated_with_another_model_from_any_commit():
    state, log = Versioned(), list[int]()
    agent = paying({"call": "pay", "amount": 5}, "paid", log=log)
    agent.run("pay", state)
    first = next(commit for commit in state.log() if commit.message == "step 1")
    other = as_model(lambda messages: "I would rather not have")
    repeated = replay(agent.orchestrator(), state, at=first, branch="other", model=other)
    assert repeated.outcome.answer == "I would rather not have"
    assert (repeated.replayed, repeated.asked) == (0, 1)
    assert _run(state).final_answer == "paid"


def test_a_replay_does_nothing_new_to_the_world_unless_it_may():
    state, log = Versioned(), list[int]()
    agent = paying({"call": "pay", "amount": 5}, "paid", log=log)
    agent.run("pay", state)
    other = ScriptedModel([{"call": "pay", "amount": 6}, "paid more"])
    repeated = replay(agent.orchestrator(), state, at=begun(state), branch="a", model=other)
    assert log == [5]
    assert "replay" in repeated.outcome.state.memory.tool_calls[0].error
    replay(agent.orchestrator(), state, at=begun(state), branch="b", model=other, may_act=True)
    assert log == [5, 6]


def test_another_prompt_is_another_question():
    state = Versioned()
    Agent(model=lambda messages: "one", instructions="a").run("x", state)
    prompted = Agent(model=lambda messages: "two", instructions="b").orchestrator()
    repeated = replay(prompted, state, at=begun(state), branch="b")
    assert repeated.outcome.answer == "two"
    assert repeated.asked == 1


def test_a_replay_recalls_calls_in_their_order_and_also_those_that_failed():
    state, made = Versioned(), []

    def draw() -> int:
        """Draw a number."""
        made.append(1)
        if len(made) == 1:
            raise ValueError("the first fails")
        return len(made)

    agent = agent_saying({"call": "draw"}, {"call": "draw"}, {"call": "draw"}, "ok")
    agent.tools.add(Tool(draw, effects="once"))
    then = agent.run("x", state).state.memory.tool_calls
    began = next(commit for commit in state.log() if commit.message == "begin main")
    again = replay(agent.orchestrator(), state, at=began, branch="again")
    now = again.outcome.state.memory.tool_calls
    assert [(call.result, call.error) for call in now] == [(c.result, c.error) for c in then]
    assert (again.replayed, again.asked, len(made)) == (4, 0, 3)


def test_a_replay_from_the_middle_does_not_recall_what_came_before():
    state = Versioned()

    def draw() -> int:
        """Draw a number."""
        made.append(1)
        return len(made)

    made: list[int] = []
    agent = agent_saying({"call": "draw"}, {"call": "draw"}, "ok")
    agent.tools.add(Tool(draw, effects="once"))
    agent.run("x", state)
    first = next(commit for commit in state.log() if commit.message == "step 1")
    again = replay(agent.orchestrator(), state, at=first, branch="again")
    assert [call.result for call in again.outcome.state.memory.tool_calls] == [1, 2]


def test_two_questions_at_once_are_both_asked():
    state = Versioned()
    agent = agent_saying(
        [{"call": "ask_user", "question": "A?"}, {"call": "ask_user", "question": "B?"}],
        "thanks",
        can_ask=True,
    )
    assert agent.run("x", state).question == "A?\nB?"
    assert agent.orchestrator(state).run(answer="yes").answer == "thanks"


def test_what_code_made_of_an_input_is_there_after_a_pause():
    state = Versioned()
    agent = agent_saying(
        {"call": "run_code", "code": "data = [9]"},
        {"call": "ask_user", "question": "go on?"},
        {"call": "give_variable", "name": "data"},
        acts="code",
        can_ask=True,
    )

    @agent.task
    def work(data: list[int]) -> list[int]:  # type: ignore[empty-body]
        """Work."""

    assert work.run([1, 2], state=state).ended == "paused"
    assert work.resume(state, "yes").answer == [9]


def test_an_input_is_there_even_if_the_code_comes_after_a_pause():
    state = Versioned()
    agent = agent_saying(
        {"call": "ask_user", "question": "go on?"},
        {"call": "give_variable", "name": "data"},
        acts="code",
        can_ask=True,
    )

    @agent.task
    def work(data: list[int]) -> list[int]:  # type: ignore[empty-body]
        """Work."""

    assert work.run([1, 2], state=state).ended == "paused"
    assert work.resume(state, "yes").answer == [1, 2]


class Odd:
    """Nothing that a schema can be made of."""


def test_an_input_of_any_type_is_a_variable_of_the_code():
    agent = agent_saying(
        {"call": "run_code", "code": "n = len(data)"},
        {"call": "give_variable", "name": "n"},
        acts="code",
    )

    @agent.task
    def measure(data: bytes | Odd) -> int:  # type: ignore[empty-body]
        """Measure."""

    assert measure(b"\x00\x01", state=Versioned()) == 2


def children() -> set[str]:
    """Return the processes that this one has begun."""
    lists = Path("/proc/self/task").glob("*/children")
    return {child for each in lists for child in each.read_text().split()}


def test_a_run_by_code_can_be_repeated_and_no_process_outlives_its_run():
    state, before = Versioned(), children()
    agent = agent_saying({"call": "run_code", "code": "print(1)"}, "ok", acts="code")
    agent.run("x", state)
    assert children() <= before
    began = next(commit for commit in state.log() if commit.message == "begin main")
    again = replay(agent.orchestrator(), state, at=began, branch="again")
    assert [call.result for call in again.outcome.state.memory.tool_calls] == ["1"]
    assert children() <= before


@pytest.mark.parametrize("name", ["ask_user", "give_result", "give_variable"])
def test_a_tool_may_have_a_name_that_the_loop_does_not_use(name):
    agent = Agent(ScriptedModel([{"call": name, "text": "hm"}, "done"]))

    def own(text: str) -> str:
        """Say something."""
        return "blue"

    agent.tool(name=name)(own)
    outcome = agent.run("go", Versioned())
    assert (outcome.ended, outcome.state.memory.tool_calls[0].text) == ("done", "blue")


def test_a_tool_with_a_name_that_the_loop_uses_is_refused():
    agent = Agent(ScriptedModel(["done"]), can_ask=True)
    agent.tool(name="ask_user")(lambda: "x")
    with pytest.raises(Invalid, match="tool of the loop itself"):
        agent.run("go", Versioned())


def test_an_answer_that_was_cut_off_is_asked_for_again():
    def cut(messages: Any) -> Reply:
        return Reply(text_message(Role.ASSISTANT, "It was a dark"), stop_reason="length")

    outcome = Agent(ScriptedModel([cut, "Short."])).run("tell", Versioned())
    assert outcome.answer == "Short."


def test_the_same_request_is_answered_again_if_that_is_said():
    state = Versioned()
    agent = Agent(ScriptedModel(["one", "two"]))
    assert [agent.run("go on", state).answer for _ in range(2)] == ["one", "one"]
    assert agent.run("go on", state, again=True).answer == "two"


def test_an_agent_can_be_delegated_to():
    class Boss(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            found = self.delegate(Agent(ScriptedModel(["two"])), "find", name="finder")
            return s.to_executing().to_done(found.answer)

    assert Boss(Versioned()).run("x").answer == "two"


def test_the_same_code_twice_in_one_answer_runs_twice():
    more = {"call": "run_code", "code": "x += 1"}
    agent = agent_saying(
        {"call": "run_code", "code": "x = 0"},
        [more, more],
        {"call": "give_variable", "name": "x"},
        acts="code",
    )

    @agent.task
    def count() -> int:  # type: ignore[empty-body]
        """Count."""

    assert count(state=Versioned()) == 2


def test_inputs_are_there_when_a_task_goes_on_that_failed_in_its_first_step():
    fails = [True]

    def first(messages: Any) -> Message:
        if fails:
            fails.clear()
            raise ModelFailed("down")
        return Message(Role.ASSISTANT, (ToolCall("a", "run_code", {"code": "sum(data)"}),))

    agent = agent_saying(first, "done", acts="code")

    @agent.task
    def add(data: list[int]) -> str:  # type: ignore[empty-body]
        """Add."""

    state = Versioned()
    with pytest.raises(ModelFailed):
        add([1, 2], state=state)
    outcome = add.resume(state)
    assert [call.text for call in outcome.state.memory.tool_calls] == ["3"]


@pytest.mark.parametrize(("counts", "most"), [(0, 2000), (3, 2000 / 3)])
def test_what_a_provider_counts_makes_the_next_contexts_fit(counts, most):
    """One that counts three times what was estimated is sent a third of it."""
    sent: list[int] = []

    def model(messages: list[Message]) -> Reply:
        estimate = sum(estimate_tokens(message.text) for message in messages)
        sent.append(estimate)
        text = Text("words and more words " * 20)
        return Reply(Message(Role.ASSISTANT, (text,)), TokenUsage(counts * estimate, 100))

    state = Versioned()
    agent = Agent(model, context_tokens=2000)
    for number in range(20):
        agent.run(f"question {number} " + "with many words " * 20, state)
    assert 0.7 * most < max(sent) <= most


def test_a_provider_that_counts_as_we_do_changes_nothing():
    """Instructions and tools are part of what it counts, and of what was estimated."""
    state = Versioned()

    def look(place: str) -> str:
        """Look at a place, and at everything that is there to be seen."""
        return place

    def model(messages: list[Message], tools: Any) -> Reply:
        told = [[each.name, each.description, each.parameters] for each in tools]
        beside = estimate_tokens(msgspec.json.encode(told).decode()) + estimate_tokens(
            "Be brief. " * 40
        )
        said = state.conversation.context(10**6, "openai").tokens
        text = Text("words and more words " * 5)
        return Reply(Message(Role.ASSISTANT, (text,)), TokenUsage(said + beside, 100))

    agent = Agent(model, tools=[look], context_tokens=8000, instructions="Be brief. " * 40)
    for number in range(5):
        agent.run(f"question {number} " + "with many words " * 20, state)
    everything = state.conversation.context(10**6, "openai").tokens
    assert everything == pytest.approx(state.conversation.tokens, rel=0.15)


@dataclass
class Parcel:
    """What a task is given."""

    weight: int

    def doubled(self) -> int:
        return 2 * self.weight


def weighing(annotation: Any) -> Any:
    agent = agent_saying(
        {"call": "run_code", "code": "w = parcels[0].doubled()"},
        {"call": "give_variable", "name": "w"},
        acts="code",
    )

    def weigh(parcels):
        """Weigh."""

    weigh.__annotations__ = {"parcels": annotation, "return": int}
    return agent.task(weigh)


def test_a_code_task_is_gone_on_with_and_replayed_by_what_its_prompt_tells():
    state = Versioned()
    weigh = weighing(list[Parcel])
    parcels = [Parcel(4)]
    begun_only = weigh.orchestrator(state, inputs={"parcels": parcels})
    begun_only.run(weigh.prompt({"parcels": parcels}), max_steps=0)
    assert weigh.resume(state).answer == 8
    began = next(commit for commit in state.log() if commit.message == "begin main")
    again = replay(weighing(list[Parcel]).orchestrator(), state, at=began, branch="again")
    assert again.outcome.answer == 8


def test_inputs_that_could_be_anything_are_not_guessed():
    state = Versioned()
    weigh = weighing(Any)
    prompt = weigh.prompt({"parcels": [Parcel(4)]})
    weigh.orchestrator(state, inputs={"parcels": [Parcel(4)]}).run(prompt, max_steps=0)
    with pytest.raises(Invalid, match="unknown to this process"):
        weigh.resume(state)
