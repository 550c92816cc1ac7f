"""The names of classes in stored data, and the way back without importing anything.

A class is named "module:Qualname", or as registered; one that a migration declares to have
moved is found by its former name too. Any other is looked up in modules that are already imported,
through their dictionaries only: neither an import nor a module's `__getattr__` can run because of a
name that was read from a store.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType

from otolith.codecs.migrations import full_name, moved_class
from otolith.errors import BadValue, Exists, UnknownType
from otolith.former_names import today


class ClassNames:
    """The names of classes: registered ones, then those of imported modules."""

    def __init__(self) -> None:
        self._kinds: dict[str, type] = {}
        self._names: dict[type, str] = {}

    def register(self, kind: type, *, name: str, formerly: Iterable[str] = ()) -> None:
        """Store a class under this name, and find it under its former names too.

        Raises:
            Exists: one of the names belongs to another class.
        """
        names = (name, *formerly)
        for taken in names:
            if self._kinds.get(taken, kind) is not kind:
                raise Exists(f"{taken} is registered for another class", hint="choose another name")
        self._kinds.update(dict.fromkeys(names, kind))
        self._names[kind] = name

    def name_of(self, kind: type) -> str:
        """Return the name a class is stored under.

        Raises:
            BadValue: it could not be found again by that name.
        """
        if registered := self._names.get(kind):
            return registered
        name = full_name(kind)
        heir = moved_class(name) or kind
        if "<locals>" not in name and heir is kind and _imported(name) is not None:
            return name
        why = "is local to a function" if "<locals>" in name else "is not found by that name"
        if heir is not kind:
            why = f"has the name that {full_name(heir)} had formerly"
        raise BadValue(
            f"cannot store a {name}: the class {why}",
            hint="define it at the top level of its module, or give it a name with register_model",
        )

    def find(self, name: str) -> type:
        """Return the class that is stored under this name.

        Raises:
            UnknownType: it is neither registered nor imported.
        """
        found = self._kinds.get(name) or moved_class(name) or _imported(name)
        if found is None:
            name = today(name)
            found = _imported(name)
        if found is not None:
            return found
        raise UnknownType(
            f"the type {name} is not known here",
            hint=f"import {name.partition(':')[0]} before reading, or read with opaque=True",
        )


def _imported(name: str) -> type | None:
    """Return a class of a module that is imported already, or None."""
    module_name, _, qualname = name.partition(":")
    module = sys.modules.get(module_name)
    if not isinstance(module, ModuleType):
        return None
    first, *rest = qualname.split(".")
    # Not by getattr: it would load a lazily loaded module.
    found = ModuleType.__getattribute__(module, "__dict__").get(first)
    for part in rest:
        found = vars(found).get(part) if isinstance(found, type) else None
    return found if isinstance(found, type) else None
