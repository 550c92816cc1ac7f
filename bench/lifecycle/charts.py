"""The charts that all run, drawn once in our own words and written in those of each engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

LIMIT = 1 << 53
"""What a count stays below, so that its guard always says yes."""


@dataclass(frozen=True)
class Place:
    """A state: its name is its own in all of the chart, and the first inside is where it begins."""

    name: str
    inside: tuple[Place, ...] = ()
    on: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[int, str] = field(default_factory=dict)
    """Where it leads by itself, by milliseconds."""
    is_parallel: bool = False
    history: str = ""
    """"shallow" or "deep"; it is no state then, but what remembers one."""


@dataclass(frozen=True)
class Drawing:
    """A chart, and events that lead round in it."""

    name: str
    root: Place
    round: tuple[str, ...]
    is_counting: bool = False
    """Every transition has a guard that asks for the count, and an action that adds one to it."""

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The names from the first state inside the root down to each state."""
        return {path[-1]: path for path in _paths(self.root, ())}

    @property
    def places(self) -> list[Place]:
        """All states below the root, and what remembers some of them."""
        return list(_below(self.root))

    @property
    def begin(self) -> frozenset[str]:
        """Where it rests once it is entered."""
        return frozenset(_entered(self.root))

    def after(self, places: frozenset[str], event: str) -> frozenset[str]:
        """Return where an event leads; all arrows must lead from one innermost state to another.

        This is what the engines are judged by, ours among them.
        """
        on = {place.name: place.on for place in self.places}
        return frozenset(on[name].get(event, name) for name in places)

    def counting(self) -> Drawing:
        return Drawing(self.name, self.root, self.round, is_counting=True)

    def xstate(self, *, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return it as XState's config."""
        context = {"count": 0, "limit": LIMIT} if self.is_counting else dict(data or {})
        return {"id": self.name, "context": context, **self._config(self.root)}

    def _config(self, place: Place) -> dict[str, Any]:
        if place.history:
            return {"type": "history", "history": place.history}
        config: dict[str, Any] = {}
        if place.is_parallel:
            config["type"] = "parallel"
        elif place.inside:
            config["initial"] = place.inside[0].name
        if place.inside:
            config["states"] = {each.name: self._config(each) for each in place.inside}
        if place.on:
            config["on"] = {event: self._arrow(to) for event, to in place.on.items()}
        if place.after:
            config["after"] = {wait: self._arrow(to) for wait, to in place.after.items()}
        return config

    def _arrow(self, target: str) -> dict[str, Any]:
        arrow: dict[str, Any] = {"target": f"#{'.'.join((self.name, *self.paths[target]))}"}
        return arrow | {"guard": "may", "actions": ["add"]} if self.is_counting else arrow


def _below(place: Place) -> Iterator[Place]:
    for each in place.inside:
        yield each
        yield from _below(each)


def _entered(place: Place) -> list[str]:
    if not place.inside:
        return [place.name]
    entered = place.inside if place.is_parallel else place.inside[:1]
    return [name for each in entered for name in _entered(each)]


def _paths(place: Place, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for each in place.inside:
        path = (*above, each.name)
        yield path
        yield from _paths(each, path)


def _leading(name: str, **on: str) -> Place:
    return Place(name, on=on)


def _pair(name: str, *, go: str) -> Place:
    first, second = f"{name}a", f"{name}b"
    return Place(name, (_leading(first, go=go, turn=second), _leading(second, go=go, turn=first)))


FLAT = Drawing(
    "flat",
    Place(
        "flat",
        (
            _leading("idle", begin="busy"),
            _leading("busy", finish="ready"),
            _leading("ready", reset="idle"),
        ),
    ),
    ("begin", "finish", "reset"),
)

# Three levels. Of six events two change the branch at the first level, two at the second.
NESTED = Drawing(
    "nested",
    Place(
        "nested",
        (
            Place("a", (_pair("aa", go="aba"), _pair("ab", go="baa"))),
            Place("b", (_pair("ba", go="bba"), _pair("bb", go="aaa"))),
        ),
    ),
    ("go", "go", "go", "go", "turn", "turn"),
)

# Two regions; an event for each, and one that both take.
PARALLEL = Drawing(
    "parallel",
    Place(
        "parallel",
        (
            Place(
                "work",
                (
                    Place(
                        "left",
                        (
                            _leading("up", lift="down", both="down"),
                            _leading("down", lift="up", both="up"),
                        ),
                    ),
                    Place(
                        "right",
                        (
                            _leading("on", press="off", both="off"),
                            _leading("off", press="on", both="on"),
                        ),
                    ),
                ),
                is_parallel=True,
            ),
        ),
    ),
    ("lift", "press", "both"),
)

DRAWINGS = (FLAT, NESTED, PARALLEL)
