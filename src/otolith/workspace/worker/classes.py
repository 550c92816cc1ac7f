"""Classes that were defined in steps: each has an id, and exists once in a process.

A class is stored apart from its instances. So two pickles with instances of it find one class, and
a later change of the class is not undone by loading an instance that was pickled before.

cloudpickle does most of the pickling. It makes a class again as any program would: then
`__init_subclass__` of a base would run a second time, for a class that it has seen already. Here
that is prevented.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

from cloudpickle import cloudpickle  # type: ignore[import-untyped]

from otolith.core import digest


class Classes:
    """The classes of a session that this process has seen."""

    def __init__(self, stored: set[str]) -> None:
        self._stored = stored
        self._ids: dict[type, str] = {}
        self._by_id: dict[str, type] = {}
        self.step = ""  # identifies the source that runs now

    def id_of(self, kind: type) -> str | None:
        """Return the id of a class of the session; None for an imported class."""
        known = self._ids.get(kind)
        if known is None and getattr(kind, "__module__", None) == "__main__":
            known = self._new_id(kind)
            self.remember(known, kind)
        return known

    def remember(self, id: str, kind: type) -> None:
        """Note the id of a class."""
        self._ids[kind] = id
        self._by_id[id] = kind
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS[kind] = id  # noqa: SLF001
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID[id] = kind  # noqa: SLF001

    def get(self, id: str) -> type | None:
        """Return the class with this id, if this process has seen it."""
        return self._by_id.get(id)

    def seen(self) -> dict[str, type]:
        """Return all classes that this process has seen."""
        return dict(self._by_id)

    def _new_id(self, kind: type) -> str:
        """Return an id that depends on the name and source of a class, with a number if needed."""
        source = f"{kind.__qualname__}\0{self.step}".encode("utf-8", "surrogatepass")
        base = f"{kind.__name__}-{digest(source).hex()[:8]}"
        id, number = base, 1
        while id in self._by_id or id in self._stored:
            number += 1
            id = f"{base}-{number}"
        return id


class ClassDefinition:
    """A class to be pickled by its definition, not by a reference to it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return _defined, (self.kind,)


def _defined(kind: type) -> type:
    return kind


def cycles(needs: Mapping[str, set[str]]) -> list[list[str]]:
    """Return ids in groups: those that need each other, even through others, are in one."""
    reach = {id: _reached(id, needs) for id in needs}
    groups: dict[str, list[str]] = {}
    for id in sorted(needs):
        first = min([id, *(other for other in reach[id] if id in reach.get(other, ()))])
        groups.setdefault(first, []).append(id)
    return list(groups.values())


def _reached(id: str, needs: Mapping[str, set[str]]) -> set[str]:
    """Return all ids that one needs, directly or through others."""
    reached: set[str] = set()
    waiting = [id]
    while waiting:
        for other in needs.get(waiting.pop(), ()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


CACHES = frozenset({"__msgspec_cache__"})
"""Attributes that libraries set on classes, that cannot be pickled and are made again."""


def definition(kind: type) -> Any:
    """Return how a class is made, in the form that `reducer_override` returns."""
    _, made, (found, slots), *rest = cloudpickle._dynamic_class_reduce(kind)  # noqa: SLF001
    attributes = {name: value for name, value in found.items() if name not in CACHES}
    if not issubclass(kind, Enum):
        if "__slots__" in vars(kind) and not issubclass(kind, tuple):  # whose slots are their own
            # Slots have to be given when a class is made: later it cannot get any.
            meta, name, bases, body, *others = made
            made = meta, name, bases, {**body, "__slots__": attributes.pop("__slots__")}, *others
        return class_made, made, (attributes, slots), *rest
    # Members may have several names; only making an enum can give them.
    bases, name, qualname, _, *others = made
    members = {each: member.value for each, member in kind.__members__.items()}
    kept = {each: value for each, value in attributes.items() if each not in members}
    return enum_made, (bases, name, qualname, members, *others), (kept, slots), *rest


# What pickles call. The names are in stored pickles and never change.


def class_made(*made: Any) -> type:
    """Return an empty class, to be filled."""
    with _without_subclass_hooks(made[2]):
        found: type = cloudpickle._make_skeleton_class(*made)  # noqa: SLF001
    return found


def enum_made(*made: Any) -> type:
    """Return an enumeration, to be filled."""
    with _without_subclass_hooks(made[0]):
        found: type = cloudpickle._make_skeleton_enum(*made)  # noqa: SLF001
    return found


@contextmanager
def _without_subclass_hooks(bases: tuple[Any, ...]) -> Iterator[None]:
    """Disable `__init_subclass__` of classes of the session for a while."""
    parents = {parent for base in bases for parent in getattr(base, "__mro__", ())}
    hooks = [
        (parent, vars(parent)["__init_subclass__"])
        for parent in parents
        if parent.__module__ == "__main__" and "__init_subclass__" in vars(parent)
    ]
    for parent, _ in hooks:
        parent.__init_subclass__ = classmethod(lambda cls, /, **_: None)
    try:
        yield
    finally:
        for parent, hook in hooks:
            parent.__init_subclass__ = hook
