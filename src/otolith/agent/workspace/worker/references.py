"""Objects that are data of their own: a pickle that meets one of them refers to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from otolith.agent.tracking.views import identity, is_array, view_in
from otolith.core import Path


class Reference(NamedTuple):
    """Where an object is among the variables that are data."""

    name: str
    steps: Path
    view: list[Any] | None = None


@dataclass
class References:
    """Objects that are data of their own, by identity; arrays also by that of their memory."""

    things: dict[int, Reference] = field(default_factory=dict)
    memory: dict[int, list[tuple[Any, Reference]]] = field(default_factory=dict)

    def add(self, thing: object, reference: Reference) -> None:
        """Note where an object is."""
        self.things.setdefault(id(thing), reference)
        if is_array(thing):
            self.memory.setdefault(identity(thing), []).append((thing, reference))

    def find(self, thing: Any) -> Reference | None:
        """Return where an object is, or the array that it is a view of."""
        found = self.things.get(id(thing))
        if found is not None or not is_array(thing):
            return found
        for whole, reference in self.memory.get(identity(thing), ()):
            view = view_in(whole, thing)
            if view is not None:
                return Reference(reference.name, reference.steps, view.dump())
        return None
