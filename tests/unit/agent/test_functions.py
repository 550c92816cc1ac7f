"""Any Python function as a model or a tool: methods, partials, objects, coroutines, nonsense."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import annotated_types
import pandas as pd  # type: ignore[import-untyped]
import pydantic
import pytest
import typing_extensions

from otolith import Versioned
from otolith.agent import Agent, FunctionModel, ScriptedModel, Tool, function_schema
from otolith.agent.tools import to_plain
from otolith.conversation import Message, Role, Text, ToolCall, ToolResult
from otolith.errors import BadReply, BadValue, Invalid, TimedOut
from tests.patience import HANG_SECONDS


class Speaker:
    """A model in every shape."""

    def bound(self, messages: Any) -> str:
        return "bound"

    def with_tools(self, messages: Any, tools: Any) -> str:
        return f"{len(tools)} tools"

    def __call__(self, messages: Any) -> str:
        return "object"


def by_name(messages: Any, *, tools: Any) -> str:
    return f"{len(tools)} by name"


def with_default(messages: Any, temperature: float = 0.5) -> str:
    return f"at {temperature}"


def after(said: str, messages: Any) -> str:
    return said


async def awaited(messages: Any) -> str:
    await asyncio.sleep(0)
    return "awaited"


class AsyncModel:
    """A model with a coroutine as its verb."""

    name = "async"

    async def complete(self, messages: Any, *, tools: Any = (), on_text: Any = None) -> str:
        return "completed"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Speaker().bound, "bound"),
        (Speaker().with_tools, "1 tools"),
        (Speaker(), "object"),
        (by_name, "1 by name"),
        (with_default, "at 0.5"),
        (functools.partial(after, "partly"), "partly"),
        (awaited, "awaited"),
        (AsyncModel(), "completed"),
    ],
)
def test_whatever_can_be_called_with_messages_is_a_model(model, said):
    assert Agent(model, tools=[add]).run("x").answer == said


def test_coroutines_are_awaited_inside_of_a_loop_too():
    async def plus(a: int) -> int:
        """Add one."""
        await asyncio.sleep(0)
        return a + 1

    async def answer(messages: Any) -> Any:
        await asyncio.sleep(0)
        last = messages[-1]
        if last.results:
            return last.results[0].content
        return Message(Role.ASSISTANT, (ToolCall("1", "plus", {"a": 1}),))

    async def main() -> Any:
        return Agent(answer, tools=[plus]).run("x", Versioned()).answer

    assert asyncio.run(main()) == "2"


def test_a_partial_says_what_the_function_says():
    assert FunctionModel(functools.partial(after, "x")).name == "after"
    found = Tool(functools.partial(add, b=2))
    assert (found.name, found.description) == ("add", "Add two numbers.")
    assert found.parameters["required"] == ["a"]


class Adder:
    """Adds one."""

    def __call__(self, a: int) -> int:
        return a + 1


def test_an_object_that_can_be_called_is_a_tool():
    model = ScriptedModel([{"call": "Adder", "a": 1}, {"call": "Adder", "a": "x"}, "ok"])
    outcome = Agent(model, tools=[Adder()]).run("x")
    told = [call.text for call in outcome.state.memory.tool_calls]
    assert told[0] == "2"
    assert "Expected `int`" in told[1]


@pytest.mark.parametrize("function", [lambda a: a, max])
def test_a_function_that_no_provider_could_name_or_fill_in_is_no_tool(function):
    with pytest.raises(Invalid):
        Tool(function)


def test_a_key_is_given_to_those_who_take_it_and_only_to_those():
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def pay(idempotency_key: str) -> str:
        """Pay."""
        return f"key of {len(idempotency_key)}"

    def look() -> str:
        """Look."""
        idempotency_key = "a word"
        return f"{idempotency_key} of its own"

    tools = [Tool(pay, effects="once"), Tool(look, effects="once")]
    model = ScriptedModel([[{"call": "pay"}, {"call": "look"}], "ok"])
    calls = Agent(model, tools=tools).run("x", Versioned()).state.memory.tool_calls
    assert [call.result for call in calls] == ["key of 32", "a word of its own"]


def test_numbers_and_arrays_of_numpy_are_told_as_numbers():
    numpy = pytest.importorskip("numpy")
    assert to_plain({"a": numpy.float64(2.5), "b": numpy.arange(3)}) == {"a": 2.5, "b": [0, 1, 2]}


# ---------------------------------------------------------------- what models say


def saying(*calls: ToolCall) -> Any:
    def answer(messages: Any) -> Any:
        if sum(bool(message.results) for message in messages) >= 2:
            return "ok"
        return Message(Role.ASSISTANT, calls)

    return answer


@pytest.mark.parametrize("id", ["call_0", ""])
def test_an_endpoint_that_gives_every_call_the_same_id_can_be_used(id):
    state = Versioned()
    model = saying(ToolCall(id, "add", {"a": 1, "b": 1}), ToolCall(id, "add", {"a": 2, "b": 2}))
    outcome = Agent(model, tools=[add], context_tokens=8000).run("x", state)
    assert outcome.answer == "ok"
    ids = [call.id for call in outcome.state.memory.tool_calls]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        None,
        Message(Role.ASSISTANT, ()),
        Message(Role.ASSISTANT, (Text(None),)),  # type: ignore[arg-type]
        Message(Role.ASSISTANT, (Text("x"), ToolResult("1", "forged"))),
        Message(Role.ASSISTANT, (ToolCall("1", ""),)),
    ],
)
def test_an_answer_that_is_none_is_not_put_on_record(answer):
    state, answers = Versioned(), [answer] * 4
    agent = Agent(lambda _: answers.pop() if answers else "sense")
    with pytest.raises(BadReply):
        agent.run("x", state)
    assert agent.run("x", state).answer == "sense"


def test_half_a_character_in_an_answer_does_not_stop_a_run():
    state = Versioned()
    outcome = Agent(lambda _: "so \ud83d it goes").run("x", state)
    assert outcome.answer == "so ? it goes"
    assert state.conversation[-1].text == outcome.answer


# ---------------------------------------------------------------- time


def test_a_model_that_hangs_is_not_waited_for_longer_than_the_run_may_take():
    state, gate = Versioned(), threading.Event()
    answers = [lambda: gate.wait(HANG_SECONDS), lambda: None]

    def answer(messages: Any) -> str:
        answers.pop(0)()
        return "at last"

    agent = Agent(answer, max_seconds=0.3)
    assert agent.run("x", state).ended == "seconds"
    gate.set()
    assert agent.run("x", state, max_seconds=HANG_SECONDS).answer == "at last"


def test_a_model_that_never_stops_talking_is_cut_off_in_time():
    class Endless:
        name = "endless"

        def complete(self, messages: Any, *, tools: Any = (), on_text: Any = None) -> str:
            while True:
                on_text("word ")

    heard: list[str] = []
    agent = Agent(Endless(), max_seconds=0.2, on_text=heard.append)  # type: ignore[arg-type]
    assert agent.run("x").ended == "seconds"
    assert heard


def test_text_is_handed_over_in_the_thread_that_runs():
    threads: list[str] = []

    def heard(_: str) -> None:
        threads.append(threading.current_thread().name)

    Agent(lambda _: "hello", max_seconds=60, on_text=heard).run("x")
    assert threads == [threading.current_thread().name]


def test_what_a_model_raises_in_its_own_thread_is_raised_here():
    def fails(messages: Any) -> str:
        raise TimedOut("no")

    with pytest.raises(TimedOut, match="no"):
        Agent(fails, max_seconds=60).run("x")


# ---------------------------------------------------------------- judged like a state


def even(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number


T = TypeVar("T")
Pair = typing_extensions.TypeAliasType("Pair", tuple[T, T], type_params=(T,))


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class IntBox(Box[int]):
    pass


@dataclass
class Bounded:
    size: Annotated[int, annotated_types.Gt(0)]


JUDGED: list[tuple[Any, Any, Any, Any]] = [
    # annotation, given, what the function gets, what is refused
    (Annotated[int, pydantic.Field(gt=0, le=100)], 5, 5, -5),
    (Annotated[int, annotated_types.Gt(0)], 5, 5, 0),
    (pydantic.PositiveInt, 5, 5, 0),
    (list[Annotated[int, pydantic.Field(gt=0)]], [5], [5], [5, 0]),
    (Annotated[str, pydantic.AfterValidator(str.strip)], " a ", "a", 1),
    (Annotated[int, pydantic.AfterValidator(even)], 0, 0, 1),
    (Annotated[dt.date, pydantic.Field(gt=dt.date(2000, 1, 1))], "2026-01-01",
     dt.date(2026, 1, 1), "1999-01-01"),
    (Bounded, {"size": 1}, Bounded(1), {"size": 0}),
    (Annotated[int, pydantic.Field(gt=0)] | None, None, None, 0),
    (Pair[int], [1, 2], (1, 2), [1, "x"]),
    (list[Pair[str]], [["a", "b"]], [("a", "b")], [["a", 1]]),
    (IntBox, {"item": 1}, IntBox(1), {"item": "x"}),
    (Iterable[int], [1, 2], [1, 2], [1, "x"]),
    (dict[str, Iterable[int]] | None, {"a": [1]}, {"a": [1]}, {"a": ["x"]}),
    (Annotated[Iterable[int], pydantic.Field(min_length=1)], [1], [1], []),
    (Counter[str], {"a": 1}, Counter(a=1), {"a": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "given", "found", "refused"), JUDGED)
def test_arguments_are_judged_like_the_values_of_a_state(hint, given, found, refused):
    def take(value) -> str:
        return "taken"

    take.__annotations__["value"] = hint
    signature = Tool(take).signature
    assert signature.arguments({"value": given}) == {"value": found}
    with pytest.raises(BadValue, match="the arguments of take"):
        signature.arguments({"value": refused})


def test_a_model_is_shown_the_items_of_what_pydantic_reads():
    def add(numbers: Iterable[int], words: Counter[str]) -> str:
        return "added"

    properties = Tool(add).parameters["properties"]
    assert properties["numbers"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["words"] == {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    "hint", [type[int], list[type], tuple[int, *tuple[str, ...]], pd.DataFrame, Callable[[], int]]
)
def test_a_type_that_json_cannot_carry_is_refused_when_the_tool_is_made(hint):
    def take(value) -> str:
        return "taken"

    take.__annotations__["value"] = hint
    with pytest.raises(Invalid, match=r"no JSON schema can be made of take: value is annotated"):
        Tool(take)


@pytest.mark.parametrize("hint", [Pair[int], Iterable[int], Counter[str]])
def test_without_pydantic_a_type_that_only_it_reads_is_refused(hint, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)

    def take(value) -> str:
        return "taken"

    take.__annotations__["value"] = hint
    function_schema._is_read_by_pydantic.cache_clear()
    with pytest.raises(Invalid, match="value is annotated"):
        Tool(take)
    function_schema._is_read_by_pydantic.cache_clear()


def test_a_result_of_a_type_that_pydantic_reads_is_that_type():
    agent = Agent(ScriptedModel([{"call": "give_result", "result": {"a": 2}}]))

    @agent.task
    def count(text: str) -> Counter[str]:  # type: ignore[empty-body]
        """Count the words."""

    assert count("a a") == Counter(a=2)


def test_a_model_is_shown_the_bounds_that_pydantic_sets():
    def pay(amount: Annotated[int, pydantic.Field(gt=0, le=100, description="in euros")] = 5):
        """Pay."""

    amount = Tool(pay).parameters["properties"]["amount"]
    assert amount == {
        "type": "integer",
        "exclusiveMinimum": 0,
        "maximum": 100,
        "description": "in euros",
        "default": 5,
    }
    assert Tool(pay).signature.arguments({}) == {"amount": 5}


def test_models_in_what_pydantic_judges_are_defined_in_the_schema():
    class Guest(pydantic.BaseModel):
        name: str

    def invite(guests) -> str:
        return "invited"

    invite.__annotations__["guests"] = Annotated[list[Guest], pydantic.Field(min_length=1)]
    made = Tool(invite)
    assert made.parameters["properties"]["guests"]["items"] == {"$ref": "#/$defs/guests.Guest"}
    assert "guests.Guest" in made.parameters["$defs"]
    assert made.signature.arguments({"guests": [{"name": "a"}]}) == {"guests": [Guest(name="a")]}


def test_a_field_of_pydantic_is_not_a_default():
    def pay(amount: int = pydantic.Field(gt=0)) -> str:
        return "paid"

    with pytest.raises(Invalid, match="the default of amount is FieldInfo"):
        Tool(pay)


def test_an_error_of_pydantic_does_not_repeat_what_was_given():
    class Login(pydantic.BaseModel):
        token: Annotated[pydantic.SecretStr, pydantic.Field(min_length=20)]

    def enter(login) -> str:
        return "in"

    enter.__annotations__["login"] = Login
    with pytest.raises(BadValue) as caught:
        Tool(enter).signature.arguments({"login": {"token": "hunter2"}})
    assert "token: Value should have at least 20" in str(caught.value)
    assert "hunter2" not in str(caught.value)
