"""Engines that run the same chart: ours and four others, one file each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import ParamSpec, Protocol, TypeVar

from bench.lifecycle.charts import Drawing
from bench.peers import attempt
from bench.table import Absent

Run = Callable[[], None]

OURS = "otolith"
ROOMS = {
    "transitions": "transitions",
    "python-statemachine": "statemachine",
    "sismic": "sismic",
    "xstate-statemachine": "xstate",
}


MODULES = {
    "transitions": "transitions",
    "python-statemachine": "statemachine",
    "sismic": "sismic",
    "xstate-statemachine": "xstate_statemachine",
}

P = ParamSpec("P")
R = TypeVar("R")


class Engine(Protocol):
    """A running chart."""

    def run(self, events: Sequence[str]) -> Run:
        """Return what sends these events, one by one; whatever can be made ahead is made."""

    def places(self) -> set[str]:
        """Return the names of the active states that have no active state inside."""

    def count(self) -> int:
        """Return what the chart has counted."""


def tried(name: str, measure: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R | Absent:
    """Measure an engine; a peer that fails is told so in the table, while we may not."""
    if name == OURS:
        return measure(*arguments, **named)
    if find_spec(MODULES[name]) is None:
        return Absent("not installed")
    return attempt(measure, *arguments, **named)


def made(name: str, drawing: Drawing) -> Engine:
    """Return an engine that runs a drawing."""
    module = import_module(f"bench.lifecycle.engines.{ROOMS.get(name, 'ours')}")
    engine: Engine = module.make(drawing)
    return engine
