"""Bindings: the Python callables that the names of a chart stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Bindings:
    """Guards, pure actions and effects by name, and what may be invoked or sent through."""

    guards: dict[str, Callable[..., Any]] = field(default_factory=dict)
    actions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    effects: dict[str, Effective] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)
    """What `invoke` finds by name: the compiled models of child charts."""
    outlets: set[str] = field(default_factory=set)
    """Types of `send` that the host carries out."""


@dataclass(frozen=True, slots=True)
class Effective:
    """A function that the host calls after the step, and how to."""

    function: Callable[..., Any]
    retry: int = 0
    timeout: float | None = None
    is_repeatable: bool = True
    """Whether it may be called again with the same key, if nobody knows whether it was."""
    asks: Callable[..., Any] | None = None
    """Tells whether an effect that was begun has happened: None or False if not, or its answer."""
