"""What steps put into modules and classes of others, and what was there before.

A patch is found by the code that makes it (`targets`). What it replaced is remembered: code that
wraps something has it in a variable, and under its name there is the wrapper now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeAlias

from otolith.agent.workspace.worker.arrivals import Arrivals
from otolith.agent.workspace.worker.targets import Target

Place: TypeAlias = str
"""`module.name`, or `module:Class.name`."""

Imported: TypeAlias = Callable[[str, bool], object]
"""Returns the module or class that a name stands for, fetched if it may be, or None."""

ABSENT = object()
_UNKNOWN = object()  # it was set before it was seen

_NAMED = (FunctionType, BuiltinFunctionType, type)
_NOT_KEPT = frozenset({
    "os.environ", "sys.modules", "sys.path", "sys.stderr", "sys.stdin", "sys.stdout",
    "warnings.filters",
})  # fmt: skip


class Patches:
    """The attributes that code of a session sets in what is not its own."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._before: dict[Place, object] = {}
        self.replaced: dict[int, Place] = {}  # what is found by its name, by its identity
        self._unseen: list[Target] = []
        self._imported: Imported = lambda *_: None

    def enter(self, imported: Imported) -> None:
        """Put back what a session before this one replaced; `imported` looks up names."""
        for place, value in self._before.items():
            if value is not _UNKNOWN:
                _set(place, value)
        self._before.clear()
        self._unseen.clear()
        self._imported = imported

    def expect(self, targets: Iterable[Target], may_fetch: bool) -> None:  # noqa: FBT001
        """Look at what code will replace, before it does."""
        for target in targets:
            if self._meet(target, may_fetch=may_fetch) is None:
                self._unseen.append(target)
                if target.imported is not None:
                    self._arrivals.expect(target.imported[0], partial(self._meet, target))

    def apply(self, values: Mapping[Place, object]) -> None:
        """Set attributes as they were left; ABSENT stands for one that was deleted."""
        for place, value in values.items():
            owner, name = _owner(place)
            self._before.setdefault(place, vars(owner).get(name, ABSENT))
            _set(place, value)

    def values(self) -> dict[Place, object]:
        """Return what is there now and was not before; ABSENT for what was deleted."""
        self.replaced.clear()
        for target in self._unseen:
            self._meet(target, before=_UNKNOWN)
        found: dict[Place, object] = {}
        for place, before in self._before.items():
            try:
                owner, name = _owner(place)
            except Exception:  # noqa: BLE001, S112  # its module is gone
                continue
            value = vars(owner).get(name, ABSENT)
            if value is not before and (value, before) != (ABSENT, _UNKNOWN):
                found[place] = value
                if isinstance(before, _NAMED):
                    self.replaced[id(before)] = place
        return found

    def before(self, place: Place) -> object:
        """Return what was somewhere before it was replaced."""
        return self._before[place] if place in self._before else named(place)

    def _meet(
        self, target: Target, *, may_fetch: bool = False, before: object = None
    ) -> Place | None:
        owner = self._find(target, may_fetch)
        home = None if owner is None else _name(owner)
        place = f"{home}.{target.name}"
        if owner is None or home is None or place in _NOT_KEPT:
            return None
        self._before.setdefault(place, before or vars(owner).get(target.name, ABSENT))
        return place

    def _find(self, target: Target, may_fetch: bool) -> Any:  # noqa: FBT001
        """Return the module or class that a target is an attribute of."""
        found: Any = self._imported(target.path[0], may_fetch)
        if found is None and target.imported is not None:
            home, name = target.imported
            found = sys.modules.get(home)
            found = _part(found, name) if name and found is not None else found
        for step in target.path[1:]:
            found = _part(found, step) if found is not None else None
        return found


def named(place: Place) -> object:
    """Return what is somewhere now."""
    owner, name = _owner(place)
    return vars(owner)[name]


def _part(owner: Any, name: str) -> Any:
    if not isinstance(owner, ModuleType | type):
        return None
    found = vars(owner).get(name)
    return sys.modules.get(f"{owner.__name__}.{name}") if found is None else found


def _name(owner: Any) -> str | None:
    """Return the name that a module or class is found under, if it is not the session's."""
    if isinstance(owner, ModuleType):
        name = owner.__name__
        return name if name != "__main__" and sys.modules.get(name) is owner else None
    if not isinstance(owner, type) or owner.__module__ == "__main__":
        return None
    name = f"{owner.__module__}:{owner.__qualname__}"
    return name if owner.__module__ in sys.modules and _at(name) is owner else None


def _at(name: str) -> Any:
    module, _, inside = name.partition(":")
    found: Any = import_module(module)
    for step in inside.split(".") if inside else ():
        found = getattr(found, step, None)
    return found


def _owner(place: Place) -> tuple[Any, str]:
    home, _, name = place.rpartition(".")
    return _at(home), name


def _set(place: Place, value: object) -> None:
    owner, name = _owner(place)
    if value is not ABSENT:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)
