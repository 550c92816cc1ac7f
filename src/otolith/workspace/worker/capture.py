"""The capture of a step: its variables are stored where they have changed, and nowhere else.

Theory of operation. Only *loaded* names are looked at: unloaded ones were not used. Of those

1. what can be data is data. The state holds the objects and finds what changed in them, by the
   means of any state: fingerprints, chunks, pages. Names that share parts are recorded as aliases.
2. the rest is pickled (`capture_objects.py`), each name by itself first, to see which objects it
   reaches. Names that reach the same object are one group, and pickled together. Where a group
   reaches an object that is part of data, it is pickled again and refers to it.
3. a group is fetched whole if one of its names was used, rebound or deleted, so that the names that
   shared with that one keep what they had.

A pickle that differs from the stored one need not mean a change: a set may be written in another
order after it was loaded. The stored one is then loaded and pickled again; if that is the same,
nothing has changed.
"""

from __future__ import annotations

import types
from contextlib import suppress
from typing import Any

from otolith.workspace.worker import value_layout
from otolith.workspace.worker.capture_objects import CaptureNotes, ObjectCapture, VariableChanges
from otolith.workspace.worker.value_summary import describe, is_summary_of, value_id
from otolith.workspace.worker.variables import Variables

_NEVER_DATA = (types.FunctionType, types.BuiltinFunctionType, type, types.MethodType)
_RELATIONS = ("leaning_in", "leaning_on", *value_layout.NAMES)


class Capture:
    """The capture of all loaded variables after one step."""

    def __init__(self, variables: Variables, step: int) -> None:
        self._variables = variables
        self._state = variables.state
        self._notes = CaptureNotes(step)
        self._cells: dict[str, bytes | None] = {}  # of data, before the capture

    def run(self) -> VariableChanges:
        """Store everything that has changed."""
        self._fetch_partners()
        loaded = self._session_variables()
        data, objects = self._sort(loaded)
        objects |= self._store_data(data)
        ObjectCapture(self._variables, self._notes).run(objects)
        self._write_index(loaded)
        return self._notes.changes

    def _session_variables(self) -> dict[str, Any]:
        """Return the loaded variables without those of Python, such as `__builtins__`."""
        found = self._variables.namespace.loaded()
        return {
            name: value
            for name, value in found.items()
            if not (name.startswith("__") and name.endswith("__"))
        }

    # Names that share objects

    def _fetch_partners(self) -> None:
        """Fetch the names that share with one that was rebound or deleted, while it exists."""
        loaded, unloaded = self._session_variables(), self._variables.namespace.unloaded
        for name, entry in self._variables.index.items():
            is_used = name in loaded or name not in unloaded
            is_kept = name in loaded and name not in unloaded
            if is_used and not (is_kept and self._state.holds(name, loaded[name])):
                self._fetch_sharing_with(name, entry)

    def _fetch_sharing_with(self, name: str, entry: dict[str, Any]) -> None:
        """Load the pickles that share objects with a variable."""
        variables = self._variables
        groups = [f"objects/{entry['group']}"] if entry["kind"] == "object" else []
        leaning = [*entry.get("leaning_in", ()), *entry.get("leaning_on", ())]
        waiting = variables.unloaded_pickles([*groups, *leaning])
        if waiting and entry["kind"] == "data":
            variables.old[name] = self._state.load_data(name)[name]
        for place in waiting:
            with suppress(Exception):  # what cannot be loaded shares nothing, and stays stored
                variables.load_and_bind(place)
        variables.old.pop(name, None)

    # Data

    def _sort(self, loaded: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what may be data, and objects; note the entries of modules and resources."""
        data, objects = dict[str, Any](), dict[str, Any]()
        for name, value in loaded.items():
            if (factory := self._variables.resources.get(name)) is not None:
                entry = {"kind": "resource", "type": "resource", "factory": factory}
                self._notes.entries[name] = entry
            elif isinstance(value, types.ModuleType):
                self._notes.entries[name] = _module_entry(value)
            elif isinstance(value, _NEVER_DATA) or type(value).__module__ == "__main__":
                objects[name] = value
            else:
                data[name] = value
        return data, objects

    def _store_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Store what is data; return what is not."""
        state = self._state
        for name, value in data.items():
            self._cells[name] = state.cell("data", name)
            if not state.holds(name, value):
                state.assign_data(name, value)
            elif "order" in self._variables.index.get(name, ()):
                state.encode_anew(name)  # with its order, which is only noted beside it so far
        failures = state.stage_changes()
        for name in failures:
            state.remove_data(name)
        for name in data.keys() - failures.keys():
            layout = value_layout.layout_of(data[name], state.cells.encoding.key)
            self._notes.entries[name] = {"kind": "data", **layout}
        return {name: data[name] for name in failures if name in data}

    # The index

    def _write_index(self, loaded: dict[str, Any]) -> None:
        """Write the entries of variables that have changed, and drop those of deleted ones."""
        index, namespace = self._variables.index, self._variables.namespace
        for name in sorted(index.keys() - loaded.keys() - namespace.unloaded):
            self._notes.changes.deleted.append(name)
            self._state.remove_data(name)
            self._state.remove("vars", name)
            del index[name]
        for name, entry in sorted(self._notes.entries.items()):
            self._write_entry(name, entry, loaded)
        namespace.unloaded -= loaded.keys()

    def _write_entry(self, name: str, entry: dict[str, Any], loaded: dict[str, Any]) -> None:
        """Write the entry of a variable; a changed one gets a new summary and step."""
        old, changes = self._variables.index.get(name), self._notes.changes
        data = self._state.cell("data", name) if entry["kind"] == "data" else None
        is_changed = old is None or self._is_changed(name, entry, old)
        if is_changed:
            (changes.created if old is None else changes.changed).append(name)
        known = {} if old is None or is_changed else old
        if name in loaded and (is_changed or not (data is None or is_summary_of(known, data))):
            summary = self._notes.summaries.get(name) or describe(loaded[name])
            of = {} if data is None else {"of": value_id(data)}
            known = {**summary, **of, "step": known.get("step", self._notes.step)}
        entry = {**{key: known[key] for key in known if key not in _RELATIONS}, **entry}
        if entry != old:
            self._state.put("vars", name, value=entry)
            self._variables.index[name] = entry

    def _is_changed(self, name: str, entry: dict[str, Any], old: dict[str, Any]) -> bool:
        """Tell whether a step has changed a variable, and not only what refers to it."""
        if old["kind"] != entry["kind"]:
            return True
        if entry["kind"] == "data":
            if name not in self._cells:
                return False  # an object refers to it, and it is not loaded
            if any(entry.get(each) != old.get(each) for each in value_layout.NAMES):
                return True
            return not self._state.cells.same(self._cells[name], self._state.cell("data", name))
        if entry["kind"] == "object":
            is_written = f"objects/{entry['group']}" in self._notes.changes.pickles
            return old["group"] != entry["group"] or is_written
        return {**old, **entry} != old


def _module_entry(module: types.ModuleType) -> dict[str, Any]:
    """Return the entry of a variable that is a module."""
    version = getattr(module, "__version__", None)
    entry = {"kind": "module", "type": "module", "module": module.__name__, "bytes": 0}
    known = {"version": version} if isinstance(version, str) else {}
    return {**entry, **known, "preview": " ".join([module.__name__, *known.values()])}
