"""Variables that are not data, and classes: in pickles, one for those that share objects.

Each is pickled by itself first, to see what it meets; `capture` has the theory. In here, a *node*
is a variable, a class, or something that a step has set in a library (`ambience`), and a *group* is
the nodes of one pickle.

Which variables share objects: those have to be kept, and fetched, together.

Only objects that can change count. What many unrelated objects have in common by nature does not:
numbers and texts, types, functions of libraries, constants of classes.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from otolith.core import digest
from otolith.state.tracking.fingerprints import is_fixed
from otolith.state.tracking.shared_objects import Order, identity, is_array, levels, places_of
from otolith.types import Raw
from otolith.workspace.worker import pickle_context, pickler
from otolith.workspace.worker.captured import Notes, describe, hint, why
from otolith.workspace.worker.classes import Definition, circles
from otolith.workspace.worker.mapped_memory import adrift
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickle_context import Reference, References
from otolith.workspace.worker.pickler import Dump
from otolith.workspace.worker.variables import Variables, python

_APART_TYPES = (
    tuple,
    frozenset,
    type,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.ModuleType,
    types.CodeType,
    types.MappingProxyType,
    property,
    staticmethod,
    classmethod,
)
_APART_BY_NAME = frozenset({
    "dtype", "cython_function_or_method", "fused_cython_function", "Pattern", "ufunc",
    "StringDtype", "CategoricalDtype", "DatetimeTZDtype", "Timestamp", "Timedelta", "Interval",
    "Period", "NaTType", "NAType", "_lru_list_elem", "DataType", "Tagged", "Raw",
})  # fmt: skip


def shareable(met: Mapping[int, object], namespace: Namespace) -> dict[int, object]:
    """Return what can be shared between variables, by identity; arrays by that of their memory."""
    constants = _constants({type(thing) for thing in met.values()})
    return {
        identity(thing) if is_array(thing) else id: thing
        for id, thing in met.items()
        if id not in constants and _can_change(thing, namespace)
    }


def _can_change(thing: Any, namespace: Namespace) -> bool:
    kind = type(thing)
    if kind is types.FunctionType:
        return thing.__globals__ is namespace
    return not (_is_apart(kind) or thing is namespace)


def _is_apart(kind: type) -> bool:
    """Tell whether instances of a type are in many unrelated objects by nature."""
    known = _known.get(kind)
    if known is None:
        names = (parent.__name__ for parent in kind.__mro__)
        known = (
            is_fixed(kind) or issubclass(kind, _APART_TYPES) or not _APART_BY_NAME.isdisjoint(names)
        )
        _known[kind] = known
    return known


_known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _constants(kinds: Iterable[type]) -> set[int]:
    """Return the identities of what is in classes: it is the same for all their instances."""
    return {
        id(constant)
        for kind in kinds
        for parent in kind.__mro__
        for constant in vars(parent).values()
    }


def united(shared: Mapping[str, Iterable[int]]) -> list[list[str]]:
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


_SMALL_HEAD = 1 << 20
_CLASS, _SETTING = "class ", "setting "  # no variable has a space in its name
_APART = (_CLASS, _SETTING)


class Pickles:
    """The pickles of a workspace, written anew where they changed."""

    def __init__(self, variables: Variables, notes: Notes) -> None:
        self._variables = variables
        self._shadow = variables.shadow
        self._notes = notes
        self._order: Order = variables.shadow.cells.encoding.key

    def keep(self, objects: dict[str, Any]) -> None:
        """Keep variables that are not data, and the classes that this process has seen."""
        for name, value in objects.items():
            self._shadow.forget(name)
            if name not in self._variables.index:
                # Before it is pickled: to be shown may change what an object remembers of itself.
                self._notes.about[name] = describe(value)
        objects = objects | self._set_around()
        found = self._dumps(objects)
        if more := self._adrift(found):
            objects |= more
            found = self._dumps(objects)
        namespace, data = self._variables.namespace, self._data_objects()
        shared = {node: shareable(dump.met, namespace) for node, dump in found.items()}
        kept = set[str]()
        for group in _without_circles(united(shared), found):
            met = set[int]().union(*(shared[node] for node in group))
            # A figure that referred to data would have to be fetched whenever that is touched.
            is_picture = any(_has_pictures(found[node]) for node in group)
            references = self._references(set() if is_picture else met & data.keys(), data)
            if self._keep_group(group, objects, found, references):
                kept.add(group_id(group))
        self._drop_groups(kept)

    def _set_around(self) -> dict[str, Any]:
        around = self._variables.world.around
        return {} if around is None else {_SETTING + n: v for n, v in around.things.items()}

    def _adrift(self, found: dict[str, Dump]) -> dict[str, Any]:
        """Take from the data what overlaps in memory that only a pickle can keep."""
        held = self._held()
        met = (thing for dump in found.values() for thing in dump.met.values())
        names = adrift(held, met, self._order)
        for name in names:
            self._shadow.forget(name)
            self._notes.entries.pop(name, None)
        return {name: held[name] for name in names}

    def _dumps(self, objects: dict[str, Any]) -> dict[str, Dump]:
        """Pickle each object, and each class that this process has seen, by itself."""
        tried: dict[str, Dump | Exception] = {}
        for name in objects:
            if name not in tried:
                tried[name] = dump = self._try_dump([name], objects)
                tried |= dict.fromkeys(self._inside(dump, objects) - tried.keys(), dump)
        while waiting := [
            node for id in self._variables.classes.seen() if (node := _CLASS + id) not in tried
        ]:
            tried |= {node: self._try_dump([node], objects) for node in waiting}
        missing = {node for node, dump in tried.items() if not isinstance(dump, Dump)}
        found: dict[str, Dump] = {}
        for node, dump in tried.items():
            if not isinstance(dump, Dump):
                self._lose(node, objects, dump)
            elif broken := sorted(id for id in dump.classes if _CLASS + id in missing):
                self._lose(node, objects, TypeError(f"its class {broken[0]} cannot be kept"))
            else:
                found[node] = dump
        return found

    def _inside(self, dump: Dump | Exception, objects: dict[str, Any]) -> set[str]:
        """Return the variables that are part of one: whatever they meet, it has met."""
        if not isinstance(dump, Dump) or not (
            ids := dump.met.keys() & set(map(id, objects.values()))
        ):
            return set()
        met = shareable({each: dump.met[each] for each in ids}, self._variables.namespace)
        return {name for name, value in objects.items() if id(value) in met}

    def _try_dump(
        self,
        nodes: list[str],
        objects: dict[str, Any],
        references: References | None = None,
        probes: list[Dump] | None = None,
    ) -> Dump | Exception:
        """Pickle variables and classes together, or say why not."""
        classes = self._variables.classes
        ids = [node.removeprefix(_CLASS) for node in nodes if node.startswith(_CLASS)]
        value: dict[str, Any] = {
            # The names are strings of their own: one that is met inside would be referred to.
            "variables": {_fresh(n): objects[n] for n in nodes if not n.startswith(_APART)},
            "classes": {id: Definition(classes.seen()[id]) for id in ids},
        }
        if settings := [node for node in nodes if node.startswith(_SETTING)]:
            value["settings"] = [Placed(_name(node), objects[node]) for node in settings]
        try:
            return pickler.dump(
                value,
                self._variables.world,
                class_id=classes.id_of,
                references=references,
                defines=frozenset(classes.seen()[id] for id in ids),
                probes=probes,
            )
        except Exception as error:  # noqa: BLE001  # __reduce__ is the user's, and may raise anything
            return error

    def _held(self) -> dict[str, object]:
        """Return the variables that are data: not those that were deleted, and are held still."""
        here = self._variables.namespace.here()
        return {name: value for name, value in self._shadow.held_data().items() if name in here}

    def _data_objects(self) -> dict[int, list[str]]:
        """Return the objects that can change in variables that are data, and whose they are."""
        owners: dict[int, list[str]] = {}
        for name, value in self._held().items():
            seen: set[int] = set()
            for _ in levels([value], seen):
                pass
            for each in seen:
                owners.setdefault(each, []).append(name)
        return owners

    def _references(self, common: set[int], data: dict[int, list[str]]) -> References:
        found, held = References(), self._held()
        for name in sorted({name for each in common for name in data[each]}):
            for steps, part in places_of(held[name], common, self._order):
                found.add(part, Reference(name, steps))
        return found

    def _keep_group(
        self,
        group: list[str],
        objects: dict[str, Any],
        found: dict[str, Dump],
        references: References,
    ) -> bool:
        probes = [found[node] for node in group]
        dump: Dump | Exception = probes[0]
        if len(group) > 1 or references.things or pickler.needs_views(probes[0]):
            dump = self._try_dump(group, objects, references, probes)
        if not isinstance(dump, Dump):
            for node in group:
                self._lose(node, objects, dump)
            return False
        own = group_id(group)
        self._write_pickle(f"objects/{own}", dump, group, references)
        around = self._variables.world.around
        for node in group:
            if node.startswith(_SETTING) and around is not None:
                around.groups[_name(node)] = own
            elif not node.startswith(_CLASS):
                self._notes.entries[node] = {"kind": "object", "group": own}
            elif self._shadow.entry("classes", id := node.removeprefix(_CLASS)) != own:
                self._shadow.keep("classes", id, value=own)
        return True

    def _lean(self, place: str, reference: Reference) -> None:
        """Note that a pickle refers to a variable that is data."""
        entry = self._notes.entries.setdefault(reference.name, {"kind": "data"})
        how = "leaning_in" if reference.steps else "leaning_on"
        entry[how] = sorted({*entry.get(how, ()), place})

    def _write_pickle(
        self, place: str, dump: Dump, group: list[str], references: References
    ) -> None:
        stored = self._variables.stored.get(place)
        for reference in dump.references:
            self._lean(place, reference)
        for source in dump.sources:
            if self._shadow.cell("code", source) is None:
                self._shadow.keep("code", source, value=self._variables.sources.source(source))
        if stored is not None and self._is_same(place, stored[0], dump, group, references):
            return
        entry = {
            "names": group,
            "head": Raw(dump.head),
            "buffers": [Raw(each) for each in dump.buffers],
            "python": python(),
            "bytecode": dump.has_bytecode,
        }
        imprinter = self._shadow.imprinter
        old = None if stored is None else stored[1]
        imprint = imprinter.encode(entry) if old is None else imprinter.update(entry, old)
        path = _path(place)
        before = self._shadow.cell(*path)
        if before is None or not self._shadow.cells.same(before, imprint.cell):
            self._shadow.write(path, imprint.cell)
            self._notes.done.pickles.append(place)
        self._variables.stored[place] = dump.head, imprint

    def _is_same(
        self, place: str, head: bytes, dump: Dump, group: list[str], references: References
    ) -> bool:
        """Tell whether a pickle that reads differently is that of an object that did not change."""
        if head == dump.head or len(head) > _SMALL_HEAD:
            return False  # if nothing else, the raw bytes are compared
        entry = self._shadow.entry_with_raw(*_path(place))
        if any(node.startswith(_APART) for node in group) or entry is None:
            return False
        try:
            again = pickler.load(head, self._variables.buffers(entry))["variables"]
        except Exception:  # noqa: BLE001  # then it is another one, in any case
            return False
        if again.keys() != set(group):
            return False
        second = self._try_dump(group, again, references, [])
        return (
            isinstance(second, Dump) and second.head == dump.head and second.buffers == dump.buffers
        )

    def _lose(self, node: str, objects: dict[str, Any], error: Exception) -> None:
        if node.startswith(_APART):
            self._notes.done.lost[_name(node)] = why(error)
            return
        value, known = objects[node], self._variables.index.get(node, {})
        entry = {
            **(self._notes.about.get(node) or describe(value)),
            "kind": "lost",
            "why": why(error),
            "hint": hint(value),
            "made": known.get("made") or self._notes.step,
        }
        self._notes.entries[node] = entry
        self._notes.done.lost[node] = f"{entry['type']}: {entry['why']}"

    def _drop_groups(self, kept: set[str]) -> None:
        """Remove pickles whose variables are in others now."""
        stored = self._variables.stored
        for place in [place for place in stored if place.startswith("objects/")]:
            group = place.removeprefix("objects/")
            if group not in kept:
                self._shadow.drop("objects", group)
                del stored[place]


class Placed:
    """Something that a step has set, as something to be pickled: it is told when it is loaded."""

    def __init__(self, node: str, thing: object) -> None:
        self._made = node, thing

    def __reduce__(self) -> Any:
        return pickle_context.placed, self._made


def group_id(names: list[str]) -> str:
    """Return what a group is kept under."""
    own = ",".join(names)
    return own if len(own) <= 80 else f"{own[:60]}-{digest(own.encode()).hex()[:12]}"


def _without_circles(groups: list[list[str]], found: dict[str, Dump]) -> list[list[str]]:
    """Return groups of which none needs a class of another that needs a class of it."""
    home = {node: str(number) for number, group in enumerate(groups) for node in group}
    needs = {
        str(number): {home[_CLASS + id] for node in group for id in found[node].classes}
        - {str(number)}
        for number, group in enumerate(groups)
    }
    return [sorted(node for at in circle for node in groups[int(at)]) for circle in circles(needs)]


def _fresh(name: str) -> str:
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def _name(node: str) -> str:
    return node.removeprefix(_SETTING)


def _path(place: str) -> tuple[str, str]:
    table, _, key = place.partition("/")
    return table, key


def _has_pictures(dump: Dump) -> bool:
    kinds = set(map(type, dump.met.values()))
    return any(kind.__module__.partition(".")[0] == "matplotlib" for kind in kinds)
