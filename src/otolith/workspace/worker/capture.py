"""What a step did to its variables, written down: what changed, and nothing else.

Theory of operation. Only names that are *here* are looked at: cold ones were not touched. Of those

1. what can be data is data. The shadow holds the objects and finds what changed in them, with the
   means of any state: fingerprints, chunks, pages. Names that share parts are recorded as aliases.
2. the rest is pickled, each name by itself first, to see what it meets. Names that meet the same
   object are one group, and pickled together. Where a group meets an object that is part of data,
   it is pickled again and refers to it.
3. a group is fetched whole if one of its names was touched, rebound or deleted, so that whoever
   shared with that name keeps what it had.

A pickle that differs from the stored one need not mean a change: a set may be written in another
order after it was loaded. The stored one is loaded and pickled again then; if that is the same,
nothing has changed.
"""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

from otolith.workspace.worker import value_traits
from otolith.workspace.worker.captured import Captured, Notes, describe
from otolith.workspace.worker.pickle_groups import Pickles
from otolith.workspace.worker.value_traits import traits_of
from otolith.workspace.worker.variables import Variables

_OURS = frozenset({"__builtins__", "__name__", "__doc__", "__annotations__"})
_NEVER_DATA = (types.FunctionType, types.BuiltinFunctionType, type, types.MethodType)


class Capture:
    """One look at all variables that are here."""

    def __init__(self, variables: Variables, step: int) -> None:
        self._variables = variables
        self._shadow = variables.shadow
        self._notes = Notes(step)
        self._cells: dict[str, bytes | None] = {}  # of data, before this look

    def run(self) -> Captured:
        """Write everything down that changed."""
        self._fetch_partners()
        here = self._here()
        plain, objects = self._sorted(here)
        objects |= self._keep_data(plain)
        Pickles(self._variables, self._notes).keep(objects)
        self._write_index(here)
        return self._notes.done

    def _here(self) -> dict[str, Any]:
        found = self._variables.namespace.here()
        return {name: value for name, value in found.items() if not _is_ours(name)}

    # Who has to be here

    def _fetch_partners(self) -> None:
        """Fetch those that share with what was rebound or deleted, while that still exists."""
        here, cold = self._here(), self._variables.namespace.cold
        for name, entry in self._variables.index.items():
            if name in cold and name not in here:
                continue
            if self._is_replaced(name, here, cold):
                self._part_from(name, entry)

    def _is_replaced(self, name: str, here: dict[str, Any], cold: set[str]) -> bool:
        if name not in here or name in cold:
            return True
        return not self._shadow.holds(name, here[name])

    def _part_from(self, name: str, entry: dict[str, Any]) -> None:
        variables = self._variables
        groups = [f"objects/{entry['group']}"] if entry["kind"] == "object" else []
        leaning = [*entry.get("leaning_in", ()), *entry.get("leaning_on", ())]
        waiting = variables.unloaded([*groups, *leaning])
        if waiting and entry["kind"] == "data":
            variables.old[name] = self._shadow.load_data(name)[name]
        for place in waiting:
            with suppress(Exception):  # what cannot be loaded has nothing to part from, and stays
                variables.bring(place)
        variables.old.pop(name, None)

    # Data

    def _sorted(self, here: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        plain, objects = dict[str, Any](), dict[str, Any]()
        for name, value in here.items():
            if name in self._variables.resources:
                factory = self._variables.resources[name]
                self._notes.entries[name] = {
                    "kind": "resource",
                    "type": "resource",
                    "factory": factory,
                }
            elif isinstance(value, types.ModuleType):
                self._notes.entries[name] = _module_entry(value)
            elif isinstance(value, _NEVER_DATA) or type(value).__module__ == "__main__":
                objects[name] = value
            else:
                plain[name] = value
        return plain, objects

    def _keep_data(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Keep what is data; return what is not."""
        shadow = self._shadow
        for name, value in plain.items():
            self._cells[name] = shadow.cell("data", name)
            if not shadow.holds(name, value):
                shadow[("data", name)] = value
        failures = shadow.look()
        for name in failures:
            shadow.forget(name)
        for name in plain.keys() - failures.keys():
            kept = traits_of(plain[name], shadow.cells.encoding.key)
            self._notes.entries[name] = {"kind": "data", **kept}
        return {name: plain[name] for name in failures if name in plain}

    # The index

    def _write_index(self, here: dict[str, Any]) -> None:
        index, namespace = self._variables.index, self._variables.namespace
        for name in sorted(index.keys() - here.keys() - namespace.cold):
            self._notes.done.deleted.append(name)
            self._shadow.forget(name)
            self._shadow.drop("vars", name)
            del index[name]
        for name, entry in sorted(self._notes.entries.items()):
            self._write_entry(name, entry, here)
        namespace.cold -= here.keys()

    def _write_entry(self, name: str, entry: dict[str, Any], here: dict[str, Any]) -> None:
        old = self._variables.index.get(name)
        is_changed = self._is_changed(name, entry, old)
        if old is not None and not is_changed:
            about = {key: old[key] for key in old if key not in _RELATIONS}
            entry = {**about, **entry}
        else:
            if name in here:
                about = self._notes.about.get(name) or describe(here[name])
                entry = {**about, "step": self._notes.step, **entry}
            (self._notes.done.created if old is None else self._notes.done.changed).append(name)
        if entry != old:
            self._shadow.keep("vars", name, value=entry)
            self._variables.index[name] = entry

    def _is_changed(self, name: str, entry: dict[str, Any], old: dict[str, Any] | None) -> bool:
        if old is None or old["kind"] != entry["kind"]:
            return True
        if entry["kind"] == "data":
            if name not in self._cells:
                return False  # it is leaned on, and not here
            if any(entry.get(trait) != old.get(trait) for trait in value_traits.NAMES):
                return True
            return not self._shadow.cells.same(self._cells[name], self._shadow.cell("data", name))
        if entry["kind"] == "object":
            place = f"objects/{entry['group']}"
            return old["group"] != entry["group"] or place in self._notes.done.pickles
        return {**old, **entry} != old


_RELATIONS = ("leaning_in", "leaning_on", *value_traits.NAMES)


def _is_ours(name: str) -> bool:
    return name in _OURS or (name.startswith("__") and name.endswith("__"))


def _module_entry(module: types.ModuleType) -> dict[str, Any]:
    version = getattr(module, "__version__", None)
    entry = {"kind": "module", "type": "module", "module": module.__name__, "bytes": 0}
    known = {"version": version} if isinstance(version, str) else {}
    return {**entry, **known, "preview": " ".join([module.__name__, *known.values()])}
