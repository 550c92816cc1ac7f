"""Classes that were defined in steps: each has an id of its own, and is there once in a process.

A class is kept apart from its instances. So two pickles with instances of it find one class, and
what is changed in a class later is not undone by loading an instance that was pickled before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudpickle import cloudpickle  # type: ignore[import-untyped]

from otolith.agent.workspace.worker.world import World
from otolith.core import digest


class Classes:
    """The classes of a session that this process has seen."""

    def __init__(self, world: World, stored: set[str]) -> None:
        self._world = world
        self._stored = stored
        self._ids: dict[type, str] = {}
        self._by_id: dict[str, type] = {}
        self.step = ""  # the key of the source that runs now

    def id_of(self, kind: type) -> str | None:
        """Return the id of a class of the session; None for one that is imported."""
        known = self._ids.get(kind)
        if known is None and getattr(kind, "__module__", None) == "__main__":
            known = self._new_id(kind)
            self.remember(known, kind)
        return known

    def remember(self, id: str, kind: type) -> None:
        """Note that this class is the one with this id."""
        self._ids[kind] = id
        self._by_id[id] = kind
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS[kind] = id  # noqa: SLF001
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[id] = kind  # noqa: SLF001

    def get(self, id: str) -> type | None:
        """Return a class that this process has seen."""
        return self._by_id.get(id)

    def seen(self) -> dict[str, type]:
        """Return all classes that this process has seen."""
        return dict(self._by_id)

    def _new_id(self, kind: type) -> str:
        """Return an id that tells the source of a class; of two with one source, another one."""
        said = f"{kind.__qualname__}\0{self.step}".encode("utf-8", "surrogatepass")
        base = f"{kind.__name__}-{digest(said).hex()[:8]}"
        id, number = base, 1
        while id in self._by_id or id in self._stored:
            number += 1
            id = f"{base}-{number}"
        return id


class Definition:
    """A class as something to be pickled: what makes it, not a reference to it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return _defined, (self.kind,)


def _defined(kind: type) -> type:
    return kind


def circles(needs: Mapping[str, set[str]]) -> list[list[str]]:
    """Return ids in groups: those that need each other, if by way of others, are in one."""
    reach = {id: _reached(id, needs) for id in needs}
    groups: dict[str, list[str]] = {}
    for id in sorted(needs):
        first = min([id, *(other for other in reach[id] if id in reach.get(other, ()))])
        groups.setdefault(first, []).append(id)
    return list(groups.values())


def _reached(id: str, needs: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [id]
    while waiting:
        for other in needs.get(waiting.pop(), ()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
