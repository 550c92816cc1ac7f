"""How a class of the session is written down and made again, without its bases taking notice.

cloudpickle does most of it. It makes a class anew as any program would: `__init_subclass__` of a
base would run once more, for a class that it knows of already. Here that is kept from happening.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from cloudpickle import cloudpickle  # type: ignore[import-untyped]

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
