"""A call of the public interface with a wrong type is refused by name, not by a raw error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import otolith
from otolith import Agent, Cache, Chart, Disk, Live, Memory, Versioned, care, view
from otolith.agent import (
    AnthropicModel,
    OpenAIModel,
    ScriptedModel,
    Toolbox,
    ledger_in,
    list_runs,
    load_run,
)
from otolith.errors import Error


def _state() -> Any:
    state = Versioned(Memory())
    state["x"] = 1
    state.commit("first")
    return state


def _chat() -> Any:
    return _state().conversation


def _chart() -> Any:
    return Chart.from_table({("red", "go"): "green", ("green", "stop"): "red"}, initial="red")


def _agent(**arguments: Any) -> Agent:
    return Agent(ScriptedModel(["hello"]), **arguments)


ANY: Any = None
CALLS: dict[str, Callable[[], object]] = {
    "transact: edit must be a function": lambda: _state().transact(5),
    "limit must be a whole number": lambda: list(_state().log(limit="x")),
    "is not a merge policy": lambda: _state().policy("x", ANY),
    "folder must be a path": lambda: _state().workspace(folder=5),
    "cannot name a resolver": lambda: _state().repo.resolver(ANY, len),
    "limit must be": lambda: _state().events.list(limit="x"),
    "messages must be a list of messages": lambda: _chat().extend(ANY),
    "message must be a whole number": lambda: _chat().pin("first"),
    "unknown format": lambda: _chat().dump([1]),
    "steps must be a list": lambda: _state().memory.plan(5),
    "max_tokens must be": lambda: view(_state(), max_tokens=ANY),
    "path must be a path": lambda: Disk(ANY),
    "max_bytes must be": lambda: Cache(Memory(), max_bytes=ANY),
    "clock must be a function": lambda: otolith.open("memory:", clock=5),  # type: ignore[arg-type]
    "cache_bytes must be": lambda: otolith.open("memory:", cache_bytes=ANY),
    "values must be a mapping": lambda: Live(5),  # type: ignore[arg-type]
    "plan_migration needs a repo": lambda: care.plan_migration(ANY),
    "sign_anew needs a repo": lambda: care.sign_anew("a.db"),  # type: ignore[arg-type]
    "a chart is read by": lambda: Chart({"initial": "a", "states": {"a": {}}}),  # type: ignore[arg-type]
    "a chart in a dict is read by": lambda: Chart.load({"states": {}}),  # type: ignore[arg-type]
    "table must be a mapping": lambda: Chart.from_table([1], initial="a"),  # type: ignore[arg-type]
    "data must be a mapping": lambda: _chart().start(data=5),
    "events must be a list": lambda: _chart().simulate(5),
    "tools must be a list": lambda: Toolbox(5),  # type: ignore[arg-type]
    "lines must be a list": lambda: ScriptedModel(ANY),
    "base_url must be a text": lambda: OpenAIModel(ANY, "m"),
    "api_key must be a text": lambda: AnthropicModel("m", api_key=b"x"),  # type: ignore[arg-type]
    "state must be a state": lambda: load_run(ANY),
    "a state, got 'a.db'": lambda: list_runs("a.db"),  # type: ignore[arg-type]
    "a state, got NoneType": lambda: ledger_in(ANY),
    "name must be a text": lambda: _agent(name=5),
    "instructions must be a text": lambda: _agent(instructions=5),
    "max_steps must be": lambda: _agent(max_steps="ten"),
    "max_seconds must be": lambda: _agent(max_seconds="1m"),
}


@pytest.mark.parametrize("says", CALLS)
def test_a_wrong_type_is_refused_by_name(says):
    with pytest.raises(Error, match=says):
        CALLS[says]()


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("instruction", "instructions"), ("max_step", "max_steps"), ("can_asks", "can_ask")],
)
def test_a_misspelt_argument_of_an_agent_is_refused_with_the_nearest_one(wrong, right):
    with pytest.raises(Error, match=f"Agent has no argument {wrong}.*did you mean {right}"):
        _agent(**{wrong: 1})


def test_calls_of_an_assistant_may_be_none():
    assert _chat().assistant("hello", tool_calls=None).calls == ()
