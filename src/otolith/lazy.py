"""Lazy doors: a room's `__init__.py` whose names are imported when they are first used.

    _HOME = {"Live": "live", "Schema": "schema.schema"}
    __getattr__ = door(__name__, _HOME)

Importing such a room costs next to nothing, however many optional parts are behind it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def door(room: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a room; `homes` maps each name to a module of the room.

    A home that begins with "otolith." is a module of a floor below. `dir(room)` then lists these
    names, and nothing else.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        home = homes[name] if homes[name].startswith("otolith.") else f"{room}.{homes[name]}"
        module = __import__(home, fromlist=[name])
        found: object = getattr(module, name)
        setattr(sys.modules[room], name, found)
        return found

    vars(sys.modules[room])["__dir__"] = lambda: sorted(homes)
    return find
