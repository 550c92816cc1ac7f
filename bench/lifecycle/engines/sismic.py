"""sismic: its interpreter on a simulated clock, with guards and actions as texts of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sismic.interpreter import Interpreter
from sismic.io.datadict import import_from_dict
from sismic.model import Event

from bench.lifecycle.charts import LIMIT, Drawing, Place
from bench.lifecycle.engines import Run


def make(drawing: Drawing) -> Sismic:
    return Sismic(drawing)


class Sismic:
    def __init__(self, drawing: Drawing, *, data: Mapping[str, Any] | None = None) -> None:
        self.leaves = {place.name for place in drawing.places if not place.inside}
        told = {"guard": "count < limit", "action": "count += 1"} if drawing.is_counting else {}
        root = _state(drawing.root, told)
        chart = import_from_dict({"statechart": {"name": drawing.name, "root state": root}})
        context = {"count": 0, "limit": LIMIT} if drawing.is_counting else dict(data or {})
        self.interpreter = Interpreter(chart, initial_context=context)
        self.interpreter.execute()

    def run(self, events: Sequence[str]) -> Run:
        queue, execute = self.interpreter.queue, self.interpreter.execute_once
        made = {event: Event(event) for event in set(events)}
        sent = [made[event] for event in events]

        def run() -> None:
            for event in sent:
                queue(event)
                execute()

        return run

    def places(self) -> set[str]:
        return set(self.interpreter.configuration) & self.leaves

    def count(self) -> int:
        counted: int = self.interpreter.context.get("count", 0)
        return counted


def _state(place: Place, told: dict[str, str], first: str = "") -> dict[str, Any]:
    """Return a state as sismic's document has it; history leads to the first if it has none."""
    state: dict[str, Any] = {"name": place.name}
    if place.history:
        return state | {"type": f"{place.history} history", "memory": first}
    if place.inside:
        held = "parallel states" if place.is_parallel else "states"
        state[held] = [_state(each, told, place.inside[0].name) for each in place.inside]
        if not place.is_parallel:
            state["initial"] = place.inside[0].name
    arrows: list[dict[str, Any]] = [
        {"target": to, "event": event, **told} for event, to in place.on.items()
    ]
    arrows += [{"target": to, "guard": f"after({wait / 1000})"} for wait, to in place.after.items()]
    return state | {"transitions": arrows} if arrows else state
