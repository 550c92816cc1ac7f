"""A flat table of transitions, read into a definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from otolith.agent.lifecycle.definition import Datum, Definition, Kind, Literal, State, Transition
from otolith.errors import BadChart

ANY = "*"


def read_table(
    table: Mapping[tuple[Any, str], Any],
    *,
    initial: Any,
    final: Collection[Any] = (),
    name: str = "table",
    data: Mapping[str, Any] | None = None,
    version: str = "",
) -> Definition:
    """Return the definition of `{(state, event): next state}`.

    The state `*` stands for every state that is not final. States are strings, or members of an
    enum whose values are strings.

    Raises:
        BadChart: a key is not a pair, or the initial state does not occur.
    """
    ends = {_word(state) for state in final}
    ways: dict[str, list[Transition]] = {_word(initial): []}
    anywhere: list[Transition] = []
    for key, target in table.items():
        source, transition = _row(key, _word(target))
        ways.setdefault(transition.targets[0], [])
        (anywhere if source == ANY else ways.setdefault(source, [])).append(transition)
    for end in ends:
        ways.setdefault(end, [])
    root = State(
        id=f"#{name}",
        kind="compound",
        children=tuple(_state(state, found, ends) for state, found in ways.items()),
        initial=Transition((), (_word(initial),), is_internal=False, place=name),
        transitions=tuple(anywhere),
        data=tuple(Datum(key, Literal(value)) for key, value in (data or {}).items()),
        place=name,
    )
    return Definition(name=name, root=root, version=version)


def _row(key: Any, target: str) -> tuple[str, Transition]:
    if not isinstance(key, tuple) or len(key) != 2:
        raise BadChart(f"{key!r} is not a pair of a state and an event", place="the table")
    source, event = _word(key[0]), _word(key[1])
    place = f"({source}, {event})"
    return source, Transition((event,), (target,), is_internal=False, place=place)


def _state(name: str, transitions: list[Transition], ends: set[str]) -> State:
    kind: Kind = "final" if name in ends else "atomic"
    return State(id=name, kind=kind, transitions=tuple(transitions), place=f"state {name}")


def _word(value: Any) -> str:
    found = value.value if isinstance(value, Enum) else value
    if not isinstance(found, str) or not found:
        raise BadChart(f"{value!r} is not a name", place="the table")
    return found
