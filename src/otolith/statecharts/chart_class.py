"""Charts written as a class: nested classes are states, attributes are what XState calls keys.

class Booking(ChartClass):
    initial = "idle"
    context = {"tries": 0}

    class idle:
        new_task = to("planning", guard="has_goal", actions=["count"])

    class planning:
        on = {"plan.ready": "done"}

    class done:
        type = "final"

    @guard
    def has_goal(data, event): return bool(event.data)

    @action
    def count(data, event): return {"tries": data["tries"] + 1}

Booking.chart.start()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from otolith.statecharts.chart import Chart

F = TypeVar("F", bound=Callable[..., Any])
_ROLE = "__otolith_role__"


class To:
    """A transition, written as an attribute whose name is the event's."""

    def __init__(self, target: str | list[str] | None, **config: Any) -> None:
        self.config = {"target": target, **config}


def to(target: str | list[str] | None = None, **config: Any) -> To:
    """Return a transition to a state, with `guard`, `actions` and `reenter` as in XState."""
    return To(target, **config)


def guard(function: F) -> F:
    """Mark a function of a chart's class as the guard of its name."""
    setattr(function, _ROLE, "guard")
    return function


def action(function: F) -> F:
    """Mark a function of a chart's class as the pure action of its name."""
    setattr(function, _ROLE, "action")
    return function


def effect(function: F) -> F:
    """Mark a function of a chart's class as what the host calls for the effects of its name."""
    setattr(function, _ROLE, "effect")
    return function


class ChartClass:
    """A class whose body is a chart; `chart` is what it says."""

    chart: ClassVar[Chart]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.chart = Chart.from_data({"id": cls.__name__, **_config(vars(cls))})
        for value in vars(cls).values():
            role = getattr(value, _ROLE, None)
            if role is not None:
                getattr(cls.chart, role)(value)


def _config(body: Any) -> dict[str, Any]:
    """Return a class body as XState's config."""
    found: dict[str, Any] = {}
    states: dict[str, Any] = {}
    on: dict[str, Any] = {}
    for name, value in body.items():
        if name.startswith("__") or hasattr(value, _ROLE):
            continue
        if isinstance(value, type):
            states[name] = _config(vars(value))
        elif isinstance(value, To):
            on[name] = value.config
        else:
            found[name] = value
    if states:
        found["states"] = states
    if on:
        found["on"] = {**on, **found.get("on", {})}
    return found
