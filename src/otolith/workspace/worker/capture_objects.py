"""The capture of variables that are objects, and of classes: in pickles, one for each group.

Each is pickled by itself first, to see which objects it reaches; `capture.py` has the theory. A
*node* is a variable, a class, or something that a step has set in a library (`process_state.py`); a
*group* is the nodes of one pickle: those that share objects, and so have to be stored and fetched
together.

Only objects that can change count as shared. What many unrelated objects have in common by nature
does not: numbers and texts, types, functions of libraries, constants of classes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from otolith.codecs import Order
from otolith.core import digest
from otolith.state.tracker.fingerprints import is_fixed
from otolith.state.tracker.shared_objects import identity, is_array, levels, places_of
from otolith.types import Raw
from otolith.workspace.worker import pickle_context, pickler
from otolith.workspace.worker.classes import ClassDefinition, cycles
from otolith.workspace.worker.mapped_memory import overlapping_names
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickle_context import VariableReference, VariableReferences
from otolith.workspace.worker.pickler import PickleDump
from otolith.workspace.worker.value_summary import describe, hint, why
from otolith.workspace.worker.variables import Variables, python

_COMMON_TYPES = (
    tuple, frozenset, type, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ModuleType, types.CodeType, types.MappingProxyType, property,
    staticmethod, classmethod,
)  # fmt: skip
_COMMON_TYPE_NAMES = frozenset({
    "dtype", "cython_function_or_method", "fused_cython_function", "Pattern", "ufunc",
    "StringDtype", "CategoricalDtype", "DatetimeTZDtype", "Timestamp", "Timedelta", "Interval",
    "Period", "NaTType", "NAType", "_lru_list_elem", "DataType", "Tagged", "Raw",
})  # fmt: skip


def shareable(reached: Mapping[int, object], namespace: Namespace) -> dict[int, object]:
    """Return the objects that variables can share, by identity; arrays by that of their memory."""
    constants = _constants({type(thing) for thing in reached.values()})
    return {
        identity(thing) if is_array(thing) else id: thing
        for id, thing in reached.items()
        if id not in constants and _can_change(thing, namespace)
    }


def _can_change(thing: Any, namespace: Namespace) -> bool:
    """Tell whether an object can be changed and is not common to all."""
    kind = type(thing)
    if kind is types.FunctionType:
        return thing.__globals__ is namespace
    return not (_is_common(kind) or thing is namespace)


def _is_common(kind: type) -> bool:
    """Tell whether many unrelated objects refer to the same instances of a type."""
    known = _common_types.get(kind)
    if known is None:
        names = (parent.__name__ for parent in kind.__mro__)
        known = (
            is_fixed(kind)
            or issubclass(kind, _COMMON_TYPES)
            or not _COMMON_TYPE_NAMES.isdisjoint(names)
        )
        _common_types[kind] = known
    return known


_common_types: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _constants(kinds: Iterable[type]) -> set[int]:
    """Return the identities of what is in classes: it is the same for all their instances."""
    return {
        id(constant)
        for kind in kinds
        for parent in kind.__mro__
        for constant in vars(parent).values()
    }


def group_by_identity(shared: Mapping[str, Iterable[int]]) -> list[list[str]]:
    """Return names in groups: those that have an identity in common are in one."""
    leader: dict[str, str] = {name: name for name in shared}
    owner: dict[int, str] = {}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for name, identities in shared.items():
        for each in identities:
            other = owner.setdefault(each, name)
            leader[lead(name)] = lead(other)
    groups: dict[str, list[str]] = {}
    for name in sorted(shared):
        groups.setdefault(lead(name), []).append(name)
    return list(groups.values())


_SMALL_HEAD_BYTES = 1 << 20
_CLASS, _SETTING = "class ", "setting "  # no variable has a space in its name
_NOT_VARIABLES = (_CLASS, _SETTING)


@dataclass
class VariableChanges:
    """What a step did to the variables, and the pickles that were written."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    pickles: list[str] = field(default_factory=list)


@dataclass
class CaptureNotes:
    """What one capture has found out so far."""

    step: int
    changes: VariableChanges = field(default_factory=VariableChanges)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)  # of loaded variables
    summaries: dict[str, dict[str, Any]] = field(default_factory=dict)  # of new objects


class ObjectCapture:
    """Writes the pickles of a workspace that have changed."""

    def __init__(self, variables: Variables, notes: CaptureNotes) -> None:
        self._variables = variables
        self._state = variables.state
        self._notes = notes
        self._order: Order = variables.state.cells.encoding.key

    def run(self, objects: dict[str, Any]) -> None:
        """Store variables that are not data, and the classes that this process has seen."""
        for name, value in objects.items():
            self._state.remove_data(name)
            if name not in self._variables.index:
                # Before it is pickled: its repr may change what an object remembers of itself.
                self._notes.summaries[name] = describe(value)
        process = self._variables.context.process
        if process is not None:
            objects = objects | {_SETTING + name: each for name, each in process.objects.items()}
        dumps = self._dump_each(objects)
        if more := self._take_overlapping(dumps):
            objects |= more
            dumps = self._dump_each(objects)
        data = self._data_objects()
        shared = {
            node: shareable(dump.reached, self._variables.namespace) for node, dump in dumps.items()
        }
        stored = set[str]()
        for group in _merge_cycles(group_by_identity(shared), dumps):
            reached = set[int]().union(*(shared[node] for node in group))
            # A figure that referred to data would have to be fetched whenever that is used.
            has_figures = any(_reaches_figures(dumps[node]) for node in group)
            common = set() if has_figures else reached & data.keys()
            if self._store_group(group, objects, dumps, self._references(common, data)):
                stored.add(group_id(group))
        self._drop_groups(stored)

    def _take_overlapping(self, dumps: dict[str, PickleDump]) -> dict[str, Any]:
        """Take from the data what overlaps in memory that only a pickle can store."""
        held = self._held()
        reached = (thing for dump in dumps.values() for thing in dump.reached.values())
        names = overlapping_names(held, reached, self._order)
        for name in names:
            self._state.remove_data(name)
            self._notes.entries.pop(name, None)
        return {name: held[name] for name in names}

    # Pickling

    def _dump_each(self, objects: dict[str, Any]) -> dict[str, PickleDump]:
        """Pickle each object, and each class that this process has seen, by itself."""
        tried: dict[str, PickleDump | Exception] = {}
        for name in objects:
            if name not in tried:
                tried[name] = dump = self._try_dump([name], objects)
                tried |= dict.fromkeys(self._inside(dump, objects) - tried.keys(), dump)
        while waiting := [
            node for id in self._variables.classes.seen() if (node := _CLASS + id) not in tried
        ]:
            tried |= {node: self._try_dump([node], objects) for node in waiting}
        failed = {node for node, dump in tried.items() if not isinstance(dump, PickleDump)}
        found: dict[str, PickleDump] = {}
        for node, dump in tried.items():
            if not isinstance(dump, PickleDump):
                self._note_loss(node, objects, dump)
            elif broken := sorted(id for id in dump.classes if _CLASS + id in failed):
                error = TypeError(f"its class {broken[0]} cannot be stored")
                self._note_loss(node, objects, error)
            else:
                found[node] = dump
        return found

    def _inside(self, dump: PickleDump | Exception, objects: dict[str, Any]) -> set[str]:
        """Return the variables that are part of one: whatever they reach, it has reached."""
        if not isinstance(dump, PickleDump) or not (
            ids := dump.reached.keys() & set(map(id, objects.values()))
        ):
            return set()
        parts = shareable({each: dump.reached[each] for each in ids}, self._variables.namespace)
        return {name for name, value in objects.items() if id(value) in parts}

    def _try_dump(
        self,
        nodes: list[str],
        objects: dict[str, Any],
        references: VariableReferences | None = None,
        probes: list[PickleDump] | None = None,
    ) -> PickleDump | Exception:
        """Pickle variables and classes together, or return why not."""
        classes = self._variables.classes
        ids = [node.removeprefix(_CLASS) for node in nodes if node.startswith(_CLASS)]
        value: dict[str, Any] = {
            # Names are copied: one that is reached inside would be a reference to that object.
            "variables": {_copy(n): objects[n] for n in nodes if not n.startswith(_NOT_VARIABLES)},
            "classes": {id: ClassDefinition(classes.seen()[id]) for id in ids},
        }
        if settings := [node for node in nodes if node.startswith(_SETTING)]:
            value["settings"] = [
                SettingPickle(node.removeprefix(_SETTING), objects[node]) for node in settings
            ]
        try:
            return pickler.dump(
                value,
                self._variables.context,
                class_id=classes.id_of,
                references=references,
                defines=frozenset(classes.seen()[id] for id in ids),
                probes=probes,
            )
        except Exception as error:  # noqa: BLE001  # __reduce__ is the user's, and may raise anything
            return error

    # References to data

    def _held(self) -> dict[str, object]:
        """Return the variables that are data, without those that were deleted."""
        loaded = self._variables.namespace.loaded()
        return {name: value for name, value in self._state.held_data().items() if name in loaded}

    def _data_objects(self) -> dict[int, list[str]]:
        """Return the objects in data that can change, by identity, and the names that have them."""
        owners: dict[int, list[str]] = {}
        for name, value in self._held().items():
            seen: set[int] = set()
            for _ in levels([value], seen):
                pass
            for each in seen:
                owners.setdefault(each, []).append(name)
        return owners

    def _references(self, common: set[int], data: dict[int, list[str]]) -> VariableReferences:
        """Return the places in data of the objects in `common`."""
        found, held = VariableReferences(), self._held()
        for name in sorted({name for each in common for name in data[each]}):
            for steps, part in places_of(held[name], common, self._order):
                found.add(part, VariableReference(name, steps))
        return found

    # Storing

    def _store_group(
        self,
        group: list[str],
        objects: dict[str, Any],
        dumps: dict[str, PickleDump],
        references: VariableReferences,
    ) -> bool:
        """Write the pickle of a group; tell whether that was possible."""
        probes = [dumps[node] for node in group]
        dump: PickleDump | Exception = probes[0]
        if len(group) > 1 or references.things or pickler.needs_views(probes[0]):
            dump = self._try_dump(group, objects, references, probes)
        if not isinstance(dump, PickleDump):
            for node in group:
                self._note_loss(node, objects, dump)
            return False
        own = group_id(group)
        self._write_pickle(f"objects/{own}", dump, group, references)
        process = self._variables.context.process
        for node in group:
            if node.startswith(_SETTING) and process is not None:
                process.groups[node.removeprefix(_SETTING)] = own
            elif not node.startswith(_CLASS):
                self._notes.entries[node] = {"kind": "object", "group": own}
            elif self._state.entry("classes", id := node.removeprefix(_CLASS)) != own:
                self._state.put("classes", id, value=own)
        return True

    def _write_pickle(
        self, place: str, dump: PickleDump, group: list[str], references: VariableReferences
    ) -> None:
        """Write a pickle if it has changed, with the sources and references that it needs."""
        stored = self._variables.stored.get(place)
        for reference in dump.references:  # the variable has to know which pickles refer to it
            entry = self._notes.entries.setdefault(reference.name, {"kind": "data"})
            how = "leaning_in" if reference.steps else "leaning_on"
            entry[how] = sorted({*entry.get(how, ()), place})
        for source in dump.sources:
            if self._state.cell("code", source) is None:
                self._state.put("code", source, value=self._variables.sources.source(source))
        if stored is not None and self._is_unchanged(place, stored[0], dump, group, references):
            return
        entry = {
            "names": group,
            "head": Raw(dump.head),
            "buffers": [Raw(each) for each in dump.buffers],
            "python": python(),
            "bytecode": dump.has_bytecode,
        }
        imprinter = self._state.imprinter
        imprint = imprinter.encode(entry) if stored is None else imprinter.update(entry, stored[1])
        table, _, key = place.partition("/")
        before = self._state.cell(table, key)
        if before is None or not self._state.cells.same(before, imprint.cell):
            self._state.put_cell((table, key), imprint.cell)
            self._notes.changes.pickles.append(place)
        self._variables.stored[place] = dump.head, imprint

    def _is_unchanged(
        self,
        place: str,
        head: bytes,
        dump: PickleDump,
        group: list[str],
        references: VariableReferences,
    ) -> bool:
        """Tell whether a pickle with other bytes is that of an object that has not changed."""
        if head == dump.head or len(head) > _SMALL_HEAD_BYTES:
            return False  # the raw bytes are compared in any case
        table, _, key = place.partition("/")
        entry = self._state.pickle_entry(table, key)
        if any(node.startswith(_NOT_VARIABLES) for node in group) or entry is None:
            return False
        try:
            again = pickler.load(head, self._variables.buffers(entry))["variables"]
        except Exception:  # noqa: BLE001  # then it has changed in any case
            return False
        if again.keys() != set(group):
            return False
        second = self._try_dump(group, again, references, [])
        return (
            isinstance(second, PickleDump)
            and second.head == dump.head
            and second.buffers == dump.buffers
        )

    def _note_loss(self, node: str, objects: dict[str, Any], error: Exception) -> None:
        """Note that a variable, class or setting could not be stored, and why."""
        if node.startswith(_NOT_VARIABLES):
            self._notes.changes.lost[node.removeprefix(_SETTING)] = why(error)
            return
        value, known = objects[node], self._variables.index.get(node, {})
        entry = {
            **(self._notes.summaries.get(node) or describe(value)),
            "kind": "lost",
            "why": why(error),
            "hint": hint(node, value),
            "made": known.get("made") or self._notes.step,
        }
        self._notes.entries[node] = entry
        self._notes.changes.lost[node] = f"{entry['type']}: {entry['why']}"

    def _drop_groups(self, stored: set[str]) -> None:
        """Remove pickles whose variables are in others now."""
        for place in list(self._variables.stored):
            table, _, group = place.partition("/")
            if table == "objects" and group not in stored:
                self._state.remove("objects", group)
                del self._variables.stored[place]


class SettingPickle:
    """Something that a step has set, to be pickled: loading it reports it to `ProcessState`."""

    def __init__(self, node: str, thing: object) -> None:
        self._arguments = node, thing

    def __reduce__(self) -> Any:
        return pickle_context.placed, self._arguments


def group_id(names: list[str]) -> str:
    """Return the key that a group is stored under."""
    own = ",".join(names)
    return own if len(own) <= 80 else f"{own[:60]}-{digest(own.encode()).hex()[:12]}"


def _merge_cycles(groups: list[list[str]], dumps: dict[str, PickleDump]) -> list[list[str]]:
    """Merge groups that need classes of each other, so that each can be loaded by itself."""
    home = {node: str(number) for number, group in enumerate(groups) for node in group}
    needs = {
        str(number): {home[_CLASS + id] for node in group for id in dumps[node].classes}
        - {str(number)}
        for number, group in enumerate(groups)
    }
    return [sorted(node for at in circle for node in groups[int(at)]) for circle in cycles(needs)]


def _copy(name: str) -> str:
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def _reaches_figures(dump: PickleDump) -> bool:
    kinds = set(map(type, dump.reached.values()))
    return any(kind.__module__.partition(".")[0] == "matplotlib" for kind in kinds)
