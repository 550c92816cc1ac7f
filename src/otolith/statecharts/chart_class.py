"""Charts written as a class: nested classes are states, attributes are the keys of XState.

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


class TransitionAttribute:
    """A transition as an attribute of a state's class; the attribute's name is the event."""

    def __init__(self, target: str | list[str] | None, **config: Any) -> None:
        self.config = {"target": target, **config}

    def __repr__(self) -> str:
        return f"to({self.config['target']!r})"


def to(target: str | list[str] | None = None, **config: Any) -> TransitionAttribute:
    """Return a transition to a state, with `guard`, `actions` and `reenter` as in XState."""
    return TransitionAttribute(target, **config)


def guard(function: F) -> F:
    """Mark a function in a chart class as the guard of its name."""
    setattr(function, _ROLE, "guard")
    return function


def action(function: F) -> F:
    """Mark a function in a chart class as the pure action of its name."""
    setattr(function, _ROLE, "action")
    return function


def effect(function: F) -> F:
    """Mark a function in a chart class as the handler for the effects of its name."""
    setattr(function, _ROLE, "effect")
    return function


class ChartClass:
    """A class whose body is a chart: subclass it, and use the subclass's `chart`."""

    chart: ClassVar[Chart]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.chart = Chart.from_data({"id": cls.__name__, **_xstate_config(vars(cls))})
        for value in vars(cls).values():
            role = getattr(value, _ROLE, None)
            if role is not None:
                getattr(cls.chart, role)(value)


def _xstate_config(body: Any) -> dict[str, Any]:
    """Return the body of a class as XState's config: classes are states, `to` is `on`."""
    config: dict[str, Any] = {}
    states: dict[str, Any] = {}
    on: dict[str, Any] = {}
    for name, value in body.items():
        if name.startswith("__") or hasattr(value, _ROLE):
            continue
        if isinstance(value, type):
            states[name] = _xstate_config(vars(value))
        elif isinstance(value, TransitionAttribute):
            on[name] = value.config
        else:
            config[name] = value
    if states:
        config["states"] = states
    if on:
        config["on"] = {**on, **config.get("on", {})}
    return config
