"""What arguments, inputs and results become when they are stored: the same for the same value."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pydantic
import pytest

from otolith import Disk, Versioned
from otolith.agent import Agent, AgentState, Orchestrator, ScriptedModel, Tool, ledger_in, replay
from otolith.agent.tools import PlainForm, to_plain
from otolith.conversation import Message, Role, ToolCall
from otolith.errors import BadValue, Conflict

_VALUES = """
import collections, dataclasses, enum, functools, msgspec, attrs, numpy, pandas, pydantic, types
from otolith.agent.tools import to_plain

@dataclasses.dataclass(frozen=True)
class Order:
    item: str
    tags: frozenset

class Parcel(msgspec.Struct, frozen=True, tag=True, rename="camel"):
    order_inside: Order
    marks: set

@attrs.frozen
class Note:
    words: set

class Basket(pydantic.BaseModel):
    colours: set[str]

class Shop:
    def __repr__(self):
        return f"Shop({words}, {{'open': {words}}})"

words = {"red", "blue", "green", "gold", "grey"}
Kind = enum.Enum("Kind", {"ALL": frozenset(words)})
long_words = {word * 9 for word in words}
order = Order("book", frozenset(words))
print(to_plain([
    order, Parcel(order, {1, "one", (1, "one"), None}), Note(words), Basket(colours=words),
    {Order("a", frozenset({"x", "y"})), Order("b", frozenset({"z", "w"}))},
    {frozenset({"a", "b"}), frozenset({"c", "d"})},
    collections.deque([words]), collections.UserDict(k=words), collections.UserList([words]),
    collections.ChainMap({"k": words}), types.MappingProxyType({"k": words}),
    {frozenset(words): 1, ("a", frozenset(words)): 2}, Kind.ALL,
    numpy.array([words, 1], dtype=object), pandas.Series([words]),
]))
print(to_plain([
    Shop(), types.SimpleNamespace(s=words), ValueError(words), functools.partial(max, words),
    pandas.DataFrame({"a": [words]}), pandas.DataFrame({"a": [long_words], "b": [1]}),
]))
"""

_CHARGES = """
import os, sys
from dataclasses import dataclass, field
from otolith.agent import Orchestrator, tool

folder = sys.argv[1]

@dataclass
class Order:
    item: str
    tags: set[str] = field(default_factory=set)

@tool(effects="once")
def charge(order: Order) -> str:
    with open(f"{folder}/charged", "a") as log:
        log.write("charged\\n")
    os._exit(9)

def step(o, s):
    o.call("charge", order=Order("book", {"red", "blue", "green", "gold", "grey"}))

Orchestrator(f"{folder}/a.db", step=step, tools=[charge]).run("buy", session="s")
"""


def run_with_seed(code: str, seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_sets_have_one_order_in_every_process_wherever_they_are():
    made = [run_with_seed(_VALUES, seed) for seed in (1, 2, 3)]
    assert not made[0].stderr
    structures, reprs = made[0].stdout.splitlines()
    assert structures.count("gold") == 14
    assert "{" not in structures.replace("{'", "")  # no set is left
    assert reprs.count("gold") == 6
    assert "{blue, gold, green, grey, red}" in reprs
    assert "{…" in reprs
    assert len({each.stdout for each in made}) == 1


def test_an_effect_with_a_set_in_a_dataclass_does_not_happen_twice_after_a_crash(tmp_path):
    ended = [run_with_seed(_CHARGES, seed, str(tmp_path)) for seed in (1, 2, 3)]
    assert [each.returncode for each in ended] == [9, 1, 1]
    assert "EffectUnknown" in ended[2].stderr
    assert (tmp_path / "charged").read_text() == "charged\n"


# ---------------------------------------------------------------- models of pydantic


class City(pydantic.BaseModel):
    city_name: str = pydantic.Field(alias="cityName")


class Login(pydantic.BaseModel):
    user: str
    token: pydantic.SecretStr


def login_with(token: str) -> Login:
    return Login(user="ann", token=pydantic.SecretStr(token))


class Odd(pydantic.BaseModel):
    """Reads and writes its fields in different ways."""

    size: int = pydantic.Field(validation_alias="in", serialization_alias="out")
    hidden: int = pydantic.Field(0, exclude=True)
    token: pydantic.SecretStr = pydantic.SecretStr("")
    raw: bytes = b""

    @pydantic.field_serializer("size")
    def _written(self, value: int) -> str:
        return f"{value} cm"

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.size**2


def task_with(result: type, given: Any) -> Any:
    agent = Agent(ScriptedModel([{"call": "give_result", "result": given}]))

    @agent.task
    def find(q: str) -> Any:
        """Find it."""

    find._result_type = result
    return find


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (City, {"cityName": "Rome"}),
        (list[City], [{"cityName": "Rome"}, {"cityName": "Bari"}]),
        (Login, {"user": "ann", "token": "hunter2"}),
        (Odd, {"in": 3, "hidden": 4, "token": "hunter2", "raw": "abc"}),
    ],
)
def test_a_caller_gets_the_model_that_was_validated_now_and_from_the_record(kind, given):
    state = Versioned()
    find = task_with(kind, given)
    wanted = pydantic.TypeAdapter(kind).validate_python(given)
    assert find("x", state=state) == wanted
    assert pydantic.TypeAdapter(kind).validate_python(find.resume(state).answer) == wanted


def test_a_result_is_stored_with_its_defaults():
    class Box(pydantic.BaseModel):
        width: float
        colour: str = "red"

    state = Versioned()
    find = task_with(Box, {"width": 1})
    assert find.run("x", state=state).answer == {"width": 1.0, "colour": "red"}


def test_a_tool_gets_the_objects_that_a_step_gives_it():
    got: list[Any] = []

    def login(who: Login, tags: set[str], rest) -> str:
        got.extend([who, tags, rest])
        return "ok"

    given = login_with("hunter2"), {"a"}, object()

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        who, tags, rest = given
        return s.to_executing().to_done(o.call("login", who=who, tags=tags, rest=rest).text)

    state = Versioned()
    made = Orchestrator(state, step=step, tools=[Tool(login, effects="once")])
    assert made.run("x").answer == "ok"
    assert [a is b for a, b in zip(got, given, strict=True)] == [True, True, True]
    assert ledger_in(state)[0].arguments["who"] == {"user": "ann", "token": "**********"}


def test_a_tool_gets_what_its_types_make_of_other_values():
    got: list[Any] = []

    def save(numbers: list[float], city: City) -> str:
        got.extend([numbers, city])
        return "ok"

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = o.call("save", numbers=(1, 2), city={"cityName": "Rome"})
        return s.to_executing().to_done(seen.text)

    assert Orchestrator(step=step, tools=[Tool(save)]).run("x").answer == "ok"
    assert got == [[1.0, 2.0], City(cityName="Rome")]


def test_an_argument_of_another_class_is_refused():
    def login(who: Login) -> str:
        return "ok"

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call("login", who=City(cityName="Rome")).text)

    answer = Orchestrator(step=step, tools=[Tool(login)]).run("x").answer
    assert "the arguments of login" in answer


def test_a_secret_that_a_program_gives_is_in_no_byte_of_the_store(tmp_path):
    def login(who: Login) -> Login:
        return who

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = o.call("login", who=login_with("hunter2"))
        return s.record_observation(seen).to_executing().to_done(seen.result)

    file = tmp_path / "a.db"
    made = Orchestrator(
        Versioned(Disk(str(file))), step=step, tools=[Tool(login, effects="once")]
    ).run("x")
    assert made.answer == {"user": "ann", "token": "**********"}
    stored = b"".join(each.read_bytes() for each in Path(tmp_path).iterdir())
    assert b"hunter2" not in stored


def test_calls_that_differ_in_a_secret_alone_are_the_same_call():
    tokens = ["old", "new"]
    used: list[str] = []

    def login(who: Login) -> str:
        used.append(who.token.get_secret_value())
        return "in"

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = o.call("login", who=login_with(tokens.pop(0)))
        if tokens:
            raise KeyboardInterrupt
        return s.to_executing().to_done(seen.result)

    made = Orchestrator(Versioned(), step=step, tools=[Tool(login, effects="once")])
    with pytest.raises(KeyboardInterrupt):
        made.run("x")
    assert made.run("x").answer == "in"
    assert used == ["old"]


@pytest.mark.parametrize("by", ["model", "program"])
def test_a_replay_finds_a_call_whose_arguments_have_aliases(by):
    booked: list[str] = []

    def book(city: City) -> str:
        booked.append(city.city_name)
        return f"booked {city.city_name}"

    tools = [Tool(book, effects="once")]
    state = Versioned()
    if by == "model":
        model = ScriptedModel(
            [{"call": "book", "city": {"cityName": "Rome"}}, lambda m: m[-1].results[0].content]
        )
        made: Orchestrator = Agent(model, tools=tools).orchestrator(state)
    else:

        def step(o: Orchestrator, s: AgentState) -> AgentState:
            return s.to_executing().to_done(o.call("book", city=City(cityName="Rome")).text)

        made = Orchestrator(state, step=step, tools=tools)
    assert made.run("x").answer == "booked Rome"
    began = next(each for each in state.log() if each.message == "begin main")
    assert replay(made, state, at=began, branch="again").outcome.answer == "booked Rome"
    assert booked == ["Rome"]


def test_a_program_and_a_model_give_the_same_arguments():
    """Otherwise the same call, once by each, would be two calls: of the ledger and of a replay."""
    assert to_plain(City(cityName="Rome")) == {"cityName": "Rome"}


def test_types_of_pydantic_become_text():
    class Site(pydantic.BaseModel):
        url: pydantic.AnyUrl
        address: pydantic.IPvAnyAddress
        file: Path

    site = Site.model_validate({"url": "http://a.b/c", "address": "10.0.0.1", "file": "x/y"})
    assert to_plain(site) == {"url": "http://a.b/c", "address": "10.0.0.1", "file": str(site.file)}


def test_a_variable_with_a_secret_is_not_handed_over():
    form = PlainForm([{"login": login_with("hunter2")}])
    assert form.has_secret
    assert "hunter2" not in repr(form)


# ---------------------------------------------------------------- values that are not plain data


def test_a_task_with_another_frame_does_not_go_on_with_the_first():
    fails = [True]

    def reply(_: Any) -> dict[str, Any]:
        if fails:
            raise RuntimeError("network")
        return {"call": "run_code", "code": "total = float(df['x'].sum())"}

    agent = Agent(ScriptedModel([reply, {"call": "give_variable", "name": "total"}]), acts="code")

    @agent.task
    def total(df: pd.DataFrame) -> float:  # type: ignore[empty-body]
        """Add up the column x."""

    first = pd.DataFrame({"x": [1.0] * 1000})
    second = first.copy()
    second.loc[500, "x"] = 1_000_000.0
    assert repr(first) == repr(second)
    state = Versioned()
    with pytest.raises(RuntimeError):
        total(first, state=state)
    fails.clear()
    with pytest.raises(Conflict, match="in the middle of"):
        total(second, state=state)
    assert total(first.copy(), state=state) == 1000.0


def test_calls_with_different_frames_are_different_calls():
    frames = [pd.DataFrame({"x": range(n, n + 1000)}) for n in (0, 0, 1)]
    frames[2].iloc[:10] = frames[0].iloc[:10]
    frames[2].iloc[-10:] = frames[0].iloc[-10:]
    assert repr(frames[0]) == repr(frames[2])
    plain = list(map(to_plain, frames))
    assert plain[0] == plain[1] != plain[2]


def test_an_argument_that_is_not_plain_data_reaches_the_tool_whole():
    got: list[Any] = []

    def save(df) -> str:
        got.append(df)
        return "saved"

    frame = pd.DataFrame({"a": [1]})

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call("save", df=frame).text)

    made = Orchestrator(Versioned(), step=step, tools=[Tool(save, effects="once")])
    assert made.run("x").answer == "saved"
    assert got[0] is frame


def save_frame(df: pd.DataFrame, n: int = 1, rest: pd.DataFrame | None = None) -> str:
    """Save it."""
    return f"{type(df).__name__} of {df['x'].sum()}, {n}, {rest}"


def test_a_tool_for_programs_has_parameters_of_any_type_and_checks_them():
    frame, other = pd.DataFrame({"x": [1] * 999}), pd.DataFrame({"x": [2] * 999})

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        seen = [o.call("save_frame", df=each, n=5) for each in (frame, other, "no frame", 3)]
        seen.append(o.call("save_frame", df=frame, n="five"))
        return s.to_executing().to_done([each.text for each in seen])

    saving = Tool(save_frame, effects="once", for_model=False)
    answer = Orchestrator(Versioned(), step=step, tools=[saving]).run("x").answer
    assert answer[:2] == ["DataFrame of 999, 5, None", "DataFrame of 1998, 5, None"]
    assert "expected pandas.DataFrame, found str" in answer[2].replace(".core.frame", "")
    assert "found int" in answer[3]
    assert "Expected `int`, got `str`" in answer[4]


def test_a_tool_for_programs_is_not_shown_to_a_model_which_cannot_call_it():
    shown: list[list[str]] = []
    made: list[int] = []

    class Careless:
        name = "careless"

        def complete(self, messages: Any, *, tools: Any = (), on_text: Any = None) -> Any:
            shown.append([each.name for each in tools])
            if len(shown) == 1:
                return Message(Role.ASSISTANT, (ToolCall("c1", "wipe", {}),))
            return messages[-1].results[0].content

    wipe = Tool(lambda: made.append(1), name="wipe", effects="once", for_model=False)
    look = Tool(lambda: "seen", name="look")
    outcome = Agent(Careless(), tools=[wipe, look]).run("x", Versioned())
    assert "there is no tool 'wipe'" in outcome.answer

    def step(o: Orchestrator, s: AgentState) -> AgentState:
        return s.to_executing().to_done(o.call(o.complete(s.messages).message.calls[0]).text)

    shown.clear()
    answer = Orchestrator(step=step, model=Careless(), tools=[wipe, look]).run("x").answer
    assert "there is no tool 'wipe'" in answer
    assert shown == [["look"]]
    assert made == []


def test_a_value_that_cannot_be_looked_into_is_its_repr():
    class Hostile:
        def __getattr__(self, name: str) -> Any:
            raise BadValue(name)

        def __repr__(self) -> str:
            return "Hostile"

    assert to_plain({"a": Hostile()}) in ({"a": "Hostile"}, "{'a': Hostile}")
