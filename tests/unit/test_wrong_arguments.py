"""Wrong arguments: every public method refuses them in words of ours, not from somewhere inside.

Each parameter of each method gets None, 5, an object, an empty list and an empty text, with right
values for the others. A call may accept them. If not, it raises an `Error`, another error by
a `raise` of ours, or Python's own TypeError for the call itself: an AttributeError that comes up in
an inner frame says nothing to a user.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith import Agent, AgentState, Chart, Disk, Live, Message, Versioned
from otolith.agent import ScriptedModel
from otolith.aio.mirror import NOT_MIRRORED
from otolith.conversation import Role, Text, entities_of, resolve, topics_of
from otolith.errors import Error

WRONG: list[Any] = [None, 5, object(), [], ""]
CHART = Chart.from_table({("idle", "go"): "busy", ("busy", "stop"): "idle"}, initial="idle")
MESSAGES = [Message(Role.USER, (Text("Find a hotel"),))]
MESSAGE = MESSAGES[0]

RIGHT: dict[str, Any] = {
    "action": "done", "answer": "x", "at": 0, "branch": "main", "chart": CHART, "data": {},
    "event": "go", "function": lambda *_, **__: None, "input": "go", "kind": "note", "key": "x",
    "message": "said", "messages": MESSAGES, "name": "x", "now": 1, "old_hash": "0" * 32,
    "other": "main", "path": "x", "phrase": "it", "question": "which?", "ref": "HEAD",
    "snapshot": CHART.start().snapshot, "state": "idle", "steps": ["a"], "text": "hotel",
    "tool": "t", "type": "mail", "value": 1,
}  # fmt: skip
"""A right value for a parameter, by its name; what has none gets the wrong value too."""


def of_a_chart(_: Path, __: ExitStack) -> Any:
    return Chart.from_table({("idle", "go"): "busy", ("busy", "stop"): "idle"}, initial="idle")


def of_a_state(folder: Path, stack: ExitStack) -> Any:
    state = stack.enter_context(Versioned(Disk(folder.with_suffix(".db"), durability="fast")))
    state["x"] = 1
    state.conversation.extend(MESSAGES)
    state.commit("first")
    return state


PLACES: dict[str, Callable[[Path, ExitStack], Any]] = {
    "Chart": of_a_chart,
    "Versioned": of_a_state,
    "Live": lambda *_: Live(),
    "Conversation": lambda *given: of_a_state(*given).conversation,
    "Memory": lambda *given: of_a_state(*given).memory,
    "EventLog": lambda *given: of_a_state(*given).events,
    "Machine": lambda *given: of_a_state(*given).lifecycle(CHART),
    "Repo": lambda *given: of_a_state(*given).repo,
    "Snapshot": lambda *given: of_a_state(*given).at("HEAD"),
    "AgentState": lambda *_: AgentState.from_user_input("go"),
    "Agent": lambda *_: Agent(ScriptedModel(["done"])),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "AgentState": AgentState,
    "Message": Message,
    "entities_of": entities_of,
    "resolve": resolve,
    "topics_of": topics_of,
    "view": otolith.view,
}
NOT_FOR_USERS = {name.rpartition(".")[2] for name in NOT_MIRRORED} | {"of", "index"}
"""What handles and effects need of a state, and `index`, which Python gives every sequence."""


def _methods(kind: type) -> Iterator[str]:
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        is_method = inspect.isfunction(found) or isinstance(found, classmethod | staticmethod)
        if is_method and not name.startswith("_") and name not in NOT_FOR_USERS:
            yield name


def _calls(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each parameter with the arguments of a call in which it is wrong."""
    taken = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    for wrong in WRONG:
        for parameter in taken:
            needed = [each.name for each in taken if each.default is each.empty]
            given = {name: RIGHT.get(name, wrong) for name in needed} | {parameter.name: wrong}
            yield f"{parameter.name}={wrong!r:.12}", given


def _complaint(function: Callable[..., Any], given: dict[str, Any]) -> str:
    """Return what is wrong with how a call is refused; empty if nothing is."""
    try:
        found = function(**given)
        if inspect.isgenerator(found):
            next(found, None)
        elif hasattr(found, "close"):
            found.close()
    except Error:
        return ""
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        frames = traceback.extract_tb(error.__traceback__)
        is_own_call = isinstance(error, TypeError) and len(frames) == 1
        is_sentence = "otolith" in frames[-1].filename and str(frames[-1].line).startswith("raise")
        return "" if is_own_call or is_sentence else f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("place", PLACES)
def test_a_method_refuses_a_wrong_argument_in_words_of_ours(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some names are those of files
    complaints = []
    with ExitStack() as stack:
        kind = type(PLACES[place](tmp_path / "kind", stack))
    for number, name in enumerate(_methods(kind)):
        with ExitStack() as stack:
            made = PLACES[place](tmp_path / str(number), stack)
            found = [
                (what, _complaint(getattr(made, name), given))
                for what, given in _calls(getattr(made, name))
            ]
        complaints += [f"{name}({what}): {complaint}" for what, complaint in found if complaint]
    assert complaints == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_refuses_a_wrong_argument_in_words_of_ours(name):
    calls = _calls(FUNCTIONS[name])
    found = {what: _complaint(FUNCTIONS[name], given) for what, given in calls}

    assert {what: complaint for what, complaint in found.items() if complaint} == {}
