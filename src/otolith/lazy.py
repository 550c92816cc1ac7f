"""Doors of rooms whose names are loaded when they are first asked for."""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def door(room: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a room: `homes` says in which of its modules each name is."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module = __import__(f"{room}.{homes[name]}", fromlist=[name])
        found: object = getattr(module, name)
        setattr(sys.modules[room], name, found)
        return found

    return find
