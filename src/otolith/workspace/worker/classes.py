"""Classes that were defined in steps: each has an id of its own, and is there once in a process.

A class is kept apart from its instances. So two pickles with instances of it find one class, and
what is changed in a class later is not undone by loading an instance that was pickled before.

How a class of the session is written down and made again, without its bases taking notice.

cloudpickle does most of it. It makes a class anew as any program would: `__init_subclass__` of a
base would run once more, for a class that it knows of already. Here that is kept from happening.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from cloudpickle import cloudpickle  # type: ignore[import-untyped]

from otolith.core import digest
from otolith.workspace.worker.pickle_context import World


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


CACHES = frozenset({"__msgspec_cache__"})
"""What libraries keep on classes for themselves, cannot be pickled, and is made again."""


def definition(kind: type) -> Any:
    """Return how a class is made, as a pickler wants to be told."""
    _, made, (found, slots), *rest = cloudpickle._dynamic_class_reduce(kind)  # noqa: SLF001
    attributes = {name: value for name, value in found.items() if name not in CACHES}
    if not issubclass(kind, Enum):
        if "__slots__" in vars(kind) and not issubclass(kind, tuple):  # whose slots are their own
            made, attributes = _with_slots(kind, made), _without_slots(attributes)
        return class_made, made, (attributes, slots), *rest
    # Members may have several names; only making an enum can give them.
    bases, name, qualname, _, *others = made
    members = {each: member.value for each, member in kind.__members__.items()}
    kept = {each: value for each, value in attributes.items() if each not in members}
    return enum_made, (bases, name, qualname, members, *others), (kept, slots), *rest


def _with_slots(kind: type, made: tuple[Any, ...]) -> tuple[Any, ...]:
    """Say which slots a class has when it is made: later it cannot get any."""
    meta, name, bases, body, *others = made
    return meta, name, bases, {**body, "__slots__": vars(kind)["__slots__"]}, *others


def _without_slots(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name != "__slots__"}


# What pickles call. The names are in stored pickles and never change.


def class_made(*made: Any) -> type:
    """Return a class that is to be filled."""
    with _quiet(made[2]):
        found: type = cloudpickle._make_skeleton_class(*made)  # noqa: SLF001
    return found


def enum_made(*made: Any) -> type:
    """Return an enumeration that is to be filled."""
    with _quiet(made[0]):
        found: type = cloudpickle._make_skeleton_enum(*made)  # noqa: SLF001
    return found


@contextmanager
def _quiet(bases: tuple[Any, ...]) -> Iterator[None]:
    """Keep classes of the session from hearing of a new subclass."""
    parents = {parent for base in bases for parent in getattr(base, "__mro__", ())}
    loud = [
        (parent, vars(parent)["__init_subclass__"])
        for parent in parents
        if parent.__module__ == "__main__" and "__init_subclass__" in vars(parent)
    ]
    for parent, _ in loud:
        parent.__init_subclass__ = classmethod(_nothing)
    try:
        yield
    finally:
        for parent, own in loud:
            parent.__init_subclass__ = own


def _nothing(cls: type, /, **_: Any) -> None:
    return None
