"""python-statemachine: a class made of a definition, as its own readers of documents make it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statemachine.io import create_machine_class_from_definition

from bench.lifecycle.charts import LIMIT, Drawing, Place
from bench.lifecycle.engines import Run


def make(drawing: Drawing) -> StateMachine:
    return StateMachine(drawing)


class Model:
    """Where guards and actions are found."""

    def __init__(self) -> None:
        self.counted = 0
        self.state: Any = None

    def may(self) -> bool:
        return self.counted < LIMIT

    def add(self) -> None:
        self.counted += 1


class StateMachine:
    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        states = _states(drawing.root, is_counting=drawing.is_counting)
        self.model = Model()
        made = create_machine_class_from_definition(drawing.name.title(), states)
        self.machine = made(self.model)

    def run(self, events: Sequence[str]) -> Run:
        triggers = {event: getattr(self.machine, event) for event in set(events)}
        sent = [triggers[event] for event in events]

        def run() -> None:
            for send in sent:
                send()

        return run

    def places(self) -> set[str]:
        leaves = {place.name for place in self.drawing.places if not place.inside}
        return {str(state.id) for state in self.machine.configuration} & leaves

    def count(self) -> int:
        return self.model.counted


def _states(root: Place, *, is_counting: bool) -> dict[str, Any]:
    told = {"cond": "may", "on": "add"} if is_counting else {}
    found: dict[str, Any] = {}
    for place in root.inside:
        state: dict[str, Any] = {"initial": place is root.inside[0] and not root.is_parallel}
        if place.is_parallel:
            state["parallel"] = True
        if place.inside:
            state["states"] = _states(place, is_counting=is_counting)
        if place.on:
            state["on"] = {event: [{"target": to, **told}] for event, to in place.on.items()}
        found[place.name] = state
    return found
