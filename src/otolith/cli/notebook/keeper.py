"""The variables of a kernel in a state: what changed is committed, what was there comes back.

The code runs in the user's own process. What it defines (functions, classes, modules) is not kept,
only data is; what cannot be kept is named once, and stays in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from otolith.agent import Versioned
from otolith.core import Commit
from otolith.errors import Error

Namespace = dict[str, Any]
Say = Callable[[str], None]

_CODE = (ModuleType, FunctionType, BuiltinFunctionType, MethodType, type)


class Keeper:
    """A namespace and a state that follow each other."""

    def __init__(self, state: Versioned, namespace: Namespace, hidden: Namespace, say: Say) -> None:
        self.state = state
        self.unkept: dict[str, str] = {}
        self._namespace = namespace
        self._hidden = hidden
        self._say = say
        self._bound: Namespace = {}  # what the state holds, by name, as the very objects

    def variables(self) -> Namespace:
        """Return the variables of the user that may be data, the latest objects they name."""
        nothing = object()
        return {
            name: value
            for name, value in self._namespace.items()
            if _is_own(name)
            and self._hidden.get(name, nothing) is not value
            and not isinstance(value, _CODE)
        }

    def resume(self) -> list[str]:
        """Bring in what the state has; return the names for which the kernel has its own value."""
        mine = self.variables()
        theirs = dict(self._values(name for name in self.state if name not in mine))
        self._namespace.update(theirs)
        self._bound = theirs
        return [name for name in self.state if name in mine]

    def keep(self, message: str, *, is_ok: bool = True) -> Commit | None:
        """Commit what changed; return the commit, or None if nothing did.

        Raises:
            MergeConflict: somebody else has changed the same variables.
        """
        self._stage()
        before, count = self.state.head, len(self.state.events)
        commit = self.state.commit(message, kind="cell", meta={"ok": is_ok}, skip_unstorable=True)
        for event in self.state.events[count:]:
            if event.kind == "skipped":
                self.unkept[event.data["path"]] = event.data["why"]
                self._say(f"not kept: {event.data['path']}, {event.data['why']}")
        return None if commit == before else commit

    def _stage(self) -> None:
        mine = self.variables()
        for name in self._bound.keys() - mine.keys():
            if name in self.state:
                del self.state[name]
        for name, value in mine.items():
            if name not in self._bound or self._bound[name] is not value:
                self.unkept.pop(name, None)
                self.state[name] = value
        self.unkept = {name: why for name, why in self.unkept.items() if name in mine}
        self._bound = mine

    def bring_back(self) -> None:
        """Make the variables those of the state, which has moved; others are gone."""
        found = dict(self._values(self.state))
        for name in self._bound.keys() - found.keys():
            self._namespace.pop(name, None)
        self._namespace.update(found)
        self._bound = found
        self.unkept = {name: why for name, why in self.unkept.items() if name in found}

    def go_on(self, state: Versioned) -> None:
        """Go on with another branch, which is at the same commit."""
        self.state = state
        # What cannot be kept has its note there already; the rest has to be held there as well.
        self._bound = {name: value for name, value in self._bound.items() if name in self.unkept}

    def _values(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        for name in list(filter(_is_own, names)):
            try:
                yield name, self.state[name]
            except Error as error:  # it was lost, or its class is not defined in this kernel
                self._say(f"not brought back: {error.message}")


def _is_own(name: str) -> bool:
    """Tell whether a name can be a variable of the user's; the others are IPython's."""
    return name.isidentifier() and not name.startswith("_")
