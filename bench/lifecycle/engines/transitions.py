"""transitions: the plain machine for a flat chart, the hierarchical one for all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transitions import Machine
from transitions.extensions import HierarchicalMachine

from bench.lifecycle.charts import LIMIT, Drawing, Place
from bench.lifecycle.engines import Run


def make(drawing: Drawing) -> Transitions:
    return Transitions(drawing)


class Model:
    """What the machine moves, and where guards and actions are found."""

    state: Any

    def __init__(self) -> None:
        self.counted = 0

    def may(self) -> bool:
        return self.counted < LIMIT

    def add(self) -> None:
        self.counted += 1


class Transitions:
    def __init__(self, drawing: Drawing) -> None:
        self.model: Any = Model()
        is_flat = not any(place.inside for place in drawing.root.inside)
        kind = Machine if is_flat else HierarchicalMachine
        kind(
            self.model,
            states=[_state(place) for place in drawing.root.inside],
            transitions=_arrows(drawing),
            initial=drawing.root.inside[0].name,
            auto_transitions=False,
        )

    def run(self, events: Sequence[str]) -> Run:
        triggers = {event: getattr(self.model, event) for event in set(events)}
        sent = [triggers[event] for event in events]

        def run() -> None:
            for send in sent:
                send()

        return run

    def places(self) -> set[str]:
        state = self.model.state
        return {name.rpartition("_")[2] for name in ([state] if isinstance(state, str) else state)}

    def count(self) -> int:
        counted: int = self.model.counted
        return counted


def _state(place: Place) -> str | dict[str, Any]:
    if not place.inside:
        return place.name
    inside = [_state(each) for each in place.inside]
    if place.is_parallel:
        return {"name": place.name, "parallel": inside}
    return {"name": place.name, "children": inside, "initial": place.inside[0].name}


def _arrows(drawing: Drawing) -> list[dict[str, Any]]:
    told = {"conditions": "may", "after": "add"} if drawing.is_counting else {}
    return [
        {"trigger": event, "source": _path(drawing, place), "dest": _path(drawing, to), **told}
        for place in drawing.places
        for event, to in place.on.items()
    ]


def _path(drawing: Drawing, place: Place | str) -> str:
    return "_".join(drawing.paths[place if isinstance(place, str) else place.name])
