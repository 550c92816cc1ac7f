"""Tools: what a signature tells a model, which arguments fit, and how long a call may take."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import msgspec
import pydantic
import pytest

from otolith import Versioned
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel, Tool, Toolbox, tool
from otolith.agent.function_schema import read_docstring
from otolith.agent.timeouts import call_with_retries
from otolith.agent.tools import result_text, to_plain
from otolith.errors import BadValue, Invalid, KeyNotFound, TimedOut
from tests.patience import HANG_SECONDS


class Cabin(Enum):
    ECONOMY = "economy"
    FIRST = "first"


@dataclass
class Seat:
    row: int
    letter: Literal["A", "B", "C"] = "A"


class Passenger(pydantic.BaseModel):
    name: str
    age: int = 0


def book(
    to: str,
    seats: list[Seat],
    cabin: Cabin = Cabin.ECONOMY,
    price: Annotated[float, msgspec.Meta(ge=0)] = 0.0,
    day: Optional[date] = None,  # noqa: UP045  # the old spelling is used, too
    notes: dict[str, Any] = {},  # noqa: B006  # a tool may be written so, and must not share it
) -> dict[str, Any]:
    """Book seats on a flight.

    Pays nothing yet.

    Args:
        to: The airport, by its
            three letters.
        seats: Which seats.

    Returns:
        The booking.
    """
    notes["seen"] = True
    return {"to": to, "seats": seats, "cabin": cabin, "price": price, "day": day, "notes": notes}


def test_the_schema_is_that_of_the_signature():
    made = Tool(book)
    properties = made.parameters["properties"]
    assert made.name == "book"
    assert made.description == "Book seats on a flight.\n\nPays nothing yet."
    assert made.parameters["required"] == ["to", "seats"]
    assert made.parameters["additionalProperties"] is False
    assert properties["to"] == {
        "type": "string",
        "description": "The airport, by its three letters.",
    }
    assert properties["price"]["minimum"] == 0
    assert made.parameters["$defs"]["Cabin"]["enum"] == ["economy", "first"]
    assert made.parameters["$defs"]["Seat"]["properties"]["letter"]["enum"] == ["A", "B", "C"]


def test_arguments_arrive_as_the_types_they_are_declared_as():
    made = Tool(book)
    given = made.signature.arguments(
        {"to": "JFK", "seats": [{"row": 3}], "cabin": "first", "day": "2026-11-16"}
    )
    assert given["seats"] == [Seat(3, "A")]
    assert given["cabin"] is Cabin.FIRST
    assert given["day"] == date(2026, 11, 16)


def test_a_default_that_can_change_is_not_shared_between_calls():
    made = Tool(book)
    made.function(**made.signature.arguments({"to": "JFK", "seats": []}))
    assert made.signature.arguments({"to": "JFK", "seats": []})["notes"] == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "to"),
        ({"to": 3, "seats": []}, r"\$\.to"),
        ({"to": "JFK", "seats": [{"row": "x"}]}, r"\$\.seats\[0\]\.row|seats"),
        ({"to": "JFK", "seats": [], "price": -1}, "price"),
        ({"to": "JFK", "seats": [], "cabin": "second"}, "second"),
        ({"to": "JFK", "seats": [], "meal": "fish"}, "meal"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_and_the_place_is_named(arguments, said):
    with pytest.raises(BadValue, match=said):
        Tool(book).signature.arguments(arguments)


def test_models_of_pydantic_are_taken_too():
    def greet(who: Passenger) -> str:
        """Greet."""
        return who.name

    made = Tool(greet)
    assert made.signature.arguments({"who": {"name": "Ann"}})["who"] == Passenger(name="Ann")
    with pytest.raises(BadValue):
        made.signature.arguments({"who": {"age": 3}})


def test_the_key_of_a_call_is_not_shown_to_a_model():
    @tool(effects="idempotent")
    def pay(amount: int, idempotency_key: str) -> None:
        """Pay."""

    assert pay.takes_key
    assert list(pay.parameters["properties"]) == ["amount"]


@pytest.mark.parametrize("settings", [{"effects": "some"}, {"effects": "once", "retries": 1}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(Invalid):
        Tool(book, **settings)


def test_a_function_that_cannot_be_called_by_name_is_no_tool():
    def many(*numbers: int) -> int:
        return sum(numbers)

    def odd(thing: threading.Lock) -> None:
        """Take what JSON cannot carry."""

    for function in (many, odd):
        with pytest.raises(Invalid):
            Tool(function)


def test_an_unknown_tool_is_told_with_the_nearest_name():
    box = Toolbox([book])
    with pytest.raises(KeyNotFound, match="did you mean book"):
        box.find("boook")
    with pytest.raises(KeyNotFound, match="the tools are: book"):
        box.find("xyz")


def test_two_tools_cannot_have_one_name():
    with pytest.raises(Invalid, match="already"):
        Toolbox([Tool(book), Tool(lambda: None, name="book")])


def test_a_result_is_told_as_text_or_json():
    assert result_text("as it is") == "as it is"
    assert result_text({"seat": Seat(1), "at": date(2026, 1, 2)}) == (
        '{"seat":{"row":1,"letter":"A"},"at":"2026-01-02"}'
    )
    assert to_plain({1: {2}, "nan": float("nan")}) == {"1": [2], "nan": "nan"}
    assert "object" in result_text({"x": object()})


def test_a_docstring_without_arguments_is_all_description():
    assert read_docstring("Do it.\n\nThoroughly.") == ("Do it.\n\nThoroughly.", {})


def test_a_call_that_blocks_is_left_after_its_time():
    gate = threading.Event()
    with pytest.raises(TimedOut, match=r"0\.05 s"):
        call_with_retries(gate.wait, {}, timeout_seconds=0.05)
    gate.set()


def test_a_coroutine_is_awaited_and_cancelled_in_time():
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def quick() -> int:
        return 3

    assert call_with_retries(quick, {}) == 3
    with pytest.raises(TimedOut):
        call_with_retries(slow, {}, timeout_seconds=0.05)
    assert cancelled.wait(HANG_SECONDS)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_time_out_of_the_tool_itself_is_told_in_its_own_words(is_async):
    async def later() -> None:
        raise TimeoutError("the database did not answer in 1 s")

    def now() -> None:
        raise TimeoutError("the database did not answer in 1 s")

    with pytest.raises(TimeoutError, match="the database"):
        call_with_retries(later if is_async else now, {}, timeout_seconds=60)


def test_a_call_is_tried_again_as_often_as_it_may():
    tries: list[int] = []
    pauses: list[float] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return "ok"

    assert call_with_retries(flaky, {}, retries=2, sleep=pauses.append) == "ok"
    assert pauses == sorted(pauses)
    assert len(pauses) == 2
    tries.clear()
    with pytest.raises(OSError, match="not yet"):
        call_with_retries(flaky, {}, retries=1, sleep=pauses.append)


def test_numbers_of_any_length_can_be_asked_for():
    agent = Agent(ScriptedModel([{"call": "double", "number": 10**30}, "done"]))
    done: list[int] = []

    @agent.tool(effects="once")
    def double(number: int) -> int:
        """Double a number."""
        done.append(number)
        return 2 * number

    assert agent.run("go", Versioned()).ended == "done"
    assert done == [10**30]


def test_keys_of_json_are_texts_and_fit_other_keys():
    def label(names: dict[int, str]) -> str:
        """Label."""
        return ""

    assert Tool(label).signature.arguments({"names": {"1": "a"}}) == {"names": {1: "a"}}


def test_the_schema_of_a_nested_pydantic_model_can_be_followed():
    class Inner(pydantic.BaseModel):
        x: int

    class Outer(pydantic.BaseModel):
        inner: Inner

    def take(outer: Outer, other: list[Outer]) -> str:
        """Take it."""
        return ""

    take.__annotations__ |= {"outer": Outer, "other": list[Outer]}
    schema = Tool(take).parameters
    found = re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema))
    assert found
    assert set(found) <= set(schema["$defs"])


def test_what_is_changed_of_a_default_is_not_there_the_next_time():
    def grow(rows: dict[str, list[int]] = {"a": []}) -> int:  # noqa: B006  # that is what is tried
        """Grow."""
        rows["a"].append(1)
        return len(rows["a"])

    tool = Tool(grow)
    assert [tool.function(**tool.signature.arguments({})) for _ in range(2)] == [1, 1]


def test_a_tool_that_yields_is_refused():
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(Invalid, match="is a generator"):
        Tool(numbers)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_is_cancelled_is_a_tool_that_failed(is_async):
    agent = Agent(ScriptedModel([{"call": "fetch"}, "done"]))

    async def later() -> str:
        """Fetch."""
        raise asyncio.CancelledError

    def now() -> str:
        """Fetch."""
        raise asyncio.CancelledError

    agent.tool(name="fetch")(later if is_async else now)
    outcome = agent.run("go", Versioned())
    assert outcome.ended == "done"
    assert "CancelledError" in outcome.state.memory.tool_calls[0].error


def test_a_tool_that_exits_is_a_tool_that_failed():
    def quit() -> None:
        """Quit."""
        raise SystemExit(3)

    state = Versioned()
    outcome = Agent(ScriptedModel([{"call": "quit"}, "done"]), tools=[quit]).run("go", state)
    assert outcome.ended == "done"
    assert outcome.state.memory.tool_calls[0].error == "SystemExit: 3"


def test_a_parameter_whose_default_is_none_may_be_null():
    def search(q: str, limit: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
        """Search."""

    made = Tool(search)
    assert made.signature.arguments({"q": "x", "limit": None}) == {"q": "x", "limit": None}
    assert made.signature.arguments({"q": "x", "limit": 3})["limit"] == 3


@pytest.mark.parametrize(
    ("parts", "called", "near"),
    [({"acts": "code"}, "run_pyhton", "run_code"), ({"can_ask": True}, "ask_usr", "ask_user")],
)
def test_a_model_that_mistakes_a_tool_is_told_of_those_of_the_loop_too(parts, called, near):
    agent = Agent(ScriptedModel([{"call": called}, "done"]), **parts)
    outcome = agent.run("go", Versioned())
    assert near in outcome.state.memory.tool_calls[0].error


def test_a_set_is_told_in_one_order_and_a_thing_without_its_address():
    class Thing:
        pass

    assert to_plain({"b", "a", "c"}) == ["a", "b", "c"]
    assert to_plain(Thing()) == to_plain(Thing())


def test_a_step_may_call_a_tool_with_the_types_it_takes():
    seen: list[date] = []

    def book(day: date) -> str:
        """Book."""
        seen.append(day)
        return "ok"

    class Caller(Orchestrator):
        def step(self, s: AgentState) -> AgentState:
            return s.to_executing().to_done(self.call("book", day=date(2026, 5, 1)).text)

    assert Caller(tools=[Tool(book)]).run("x").answer == "ok"
    assert seen == [date(2026, 5, 1)]


@pytest.mark.parametrize(
    ("asks", "effects", "said"),
    [
        ("yes", "once", "must be a function, got 'yes'"),
        (lambda key: True, "once", "must take the key and the arguments"),
        (lambda: None, "idempotent", "must take the key and the arguments"),
        (lambda key, arguments, more: None, "once", "must take the key and the arguments"),
        (lambda key, arguments: None, "none", "is for tools with effects"),
    ],
)
def test_a_function_that_cannot_be_asked_after_a_crash_is_refused_at_once(asks, effects, said):
    with pytest.raises(Invalid, match=said):
        Tool(lambda: None, name="pay", effects=effects, asks=asks)


@pytest.mark.parametrize(
    "asks", [lambda key, arguments: None, lambda *given: None, {}.get, lambda k, a, more=1: None]
)
def test_a_function_of_a_key_and_arguments_can_be_asked(asks):
    assert Tool(lambda: None, name="pay", effects="once", asks=asks).asks is asks
