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
from dataclasses import dataclass, field
from typing import Any

from otolith.agent.tracking.sharing import Order, levels, places_of
from otolith.agent.workspace.worker import pickling, traits
from otolith.agent.workspace.worker.classes import circles
from otolith.agent.workspace.worker.describing import describe
from otolith.agent.workspace.worker.links import shareable, united
from otolith.agent.workspace.worker.pickling import Dump, Reference, References
from otolith.agent.workspace.worker.traits import traits_of
from otolith.agent.workspace.worker.variables import Variables, python
from otolith.core import digest
from otolith.types import Raw

_OURS = frozenset({"__builtins__", "__name__", "__doc__", "__annotations__"})
_NEVER_DATA = (types.FunctionType, types.BuiltinFunctionType, type, types.MethodType)
_SMALL_HEAD = 1 << 20


@dataclass
class Captured:
    """What became of the variables."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    pickles: list[str] = field(default_factory=list)


class Capture:
    """One look at all variables that are here."""

    def __init__(self, variables: Variables, step: int) -> None:
        self._variables = variables
        self._shadow = variables.shadow
        self._step = step
        self._order: Order = variables.shadow.cells.encoding.key
        self._done = Captured()
        self._entries: dict[str, dict[str, Any]] = {}  # of what is here
        self._cells: dict[str, bytes | None] = {}  # of data, before this look
        self._about: dict[str, dict[str, Any]] = {}  # what is known of new objects

    def run(self) -> Captured:
        """Write everything down that changed."""
        self._fetch_partners()
        here = self._here()
        plain, objects = self._sorted(here)
        objects |= self._keep_data(plain)
        self._keep_objects(objects)
        self._write_index(here)
        return self._done

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
            variables.bring(place)
        variables.old.pop(name, None)

    # Data

    def _sorted(self, here: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        plain, objects = dict[str, Any](), dict[str, Any]()
        for name, value in here.items():
            if name in self._variables.resources:
                factory = self._variables.resources[name]
                self._entries[name] = {"kind": "resource", "type": "resource", "factory": factory}
            elif isinstance(value, types.ModuleType):
                self._entries[name] = _module_entry(value)
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
            self._entries[name] = {"kind": "data", **traits_of(plain[name], self._order)}
        return {name: plain[name] for name in failures if name in plain}

    # Objects

    def _keep_objects(self, objects: dict[str, Any]) -> None:
        for name, value in objects.items():
            self._shadow.forget(name)
            if name not in self._variables.index:
                # Before it is pickled: to be shown may change what an object remembers of itself.
                self._about[name] = describe(value)
        dumps = {name: self._try_dump({name: value}) for name, value in objects.items()}
        found = {name: dump for name, dump in dumps.items() if isinstance(dump, Dump)}
        for name, problem in dumps.items():
            if not isinstance(problem, Dump):
                self._lose(name, objects[name], problem)
        namespace = self._variables.namespace
        shared = {name: shareable(dump.met, namespace) for name, dump in found.items()}
        pictures = {name for name, dump in found.items() if _has_pictures(dump)}
        data = self._data_objects()
        kept = set[str]()
        for group in united(shared):
            met = set[int]().union(*(shared[name] for name in group))
            # A figure that referred to data would have to be fetched whenever that is touched.
            common = set() if pictures & set(group) else met & data.keys()
            if self._keep_group(group, objects, found, self._references(common, data)):
                kept.add(group_id(group))
        self._keep_classes(data)
        self._drop_groups(kept)

    def _try_dump(
        self, value: dict[str, Any], references: References | None = None
    ) -> Dump | Exception:
        variables = self._variables
        try:
            return pickling.dump(
                value, variables.world, class_id=variables.classes.id_of, references=references
            )
        except Exception as error:  # noqa: BLE001  # __reduce__ is the user's, and may raise anything
            return error

    def _data_objects(self) -> dict[int, list[str]]:
        """Return the objects that can change in variables that are data, and whose they are."""
        owners: dict[int, list[str]] = {}
        for name, value in self._shadow.held_data().items():
            seen: set[int] = set()
            for _ in levels([value], seen):
                pass
            for each in seen:
                owners.setdefault(each, []).append(name)
        return owners

    def _references(self, common: set[int], data: dict[int, list[str]]) -> References:
        found = References()
        held = self._shadow.held_data()
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
        dump: Dump | Exception = found[group[0]]
        if len(group) > 1 or references.things:
            dump = self._try_dump({name: objects[name] for name in group}, references)
        if not isinstance(dump, Dump):
            for name in group:
                self._lose(name, objects[name], dump)
            return False
        own = group_id(group)
        self._write_pickle(f"objects/{own}", dump, {"names": group}, references)
        for name in group:
            self._entries[name] = {"kind": "object", "group": own}
        return True

    def _lean(self, place: str, reference: Reference) -> None:
        """Note that a pickle refers to a variable that is data."""
        entry = self._entries.setdefault(reference.name, {"kind": "data"})
        how = "leaning_in" if reference.steps else "leaning_on"
        entry[how] = sorted({*entry.get(how, ()), place})

    def _keep_classes(self, data: dict[int, list[str]]) -> None:
        """Keep the classes that this process has seen; those that need each other in one pickle."""
        classes, needs = self._variables.classes, dict[str, set[str]]()
        dumps: dict[str, Dump] = {}
        while waiting := classes.seen().keys() - needs.keys():
            for id in sorted(waiting):
                found = self._try_class([id])
                needs[id] = found.classes if isinstance(found, Dump) else set()
                if isinstance(found, Dump):
                    dumps[id] = found
        self._add_sharing(needs, dumps)
        for group in circles(needs):
            if all(id in dumps for id in group):
                self._keep_class(group, dumps, data)

    def _add_sharing(self, needs: dict[str, set[str]], dumps: dict[str, Dump]) -> None:
        """Let classes need each other that have objects in common, as functions."""
        namespace = self._variables.namespace
        shared = {id: shareable(dump.met, namespace).keys() for id, dump in dumps.items()}
        for group in united(shared):
            for id in group:
                needs[id] |= set(group) - {id}

    def _keep_class(
        self, group: list[str], dumps: dict[str, Dump], data: dict[int, list[str]]
    ) -> None:
        namespace = self._variables.namespace
        met = set[int]().union(*(shareable(dumps[id].met, namespace) for id in group))
        references = self._references(met & data.keys(), data)
        dump: Dump | Exception = dumps[group[0]]
        if len(group) > 1 or references.things:
            dump = self._try_class(group, references)
        if not isinstance(dump, Dump):
            return
        own = group[0] if len(group) == 1 else group_id(group)
        self._write_pickle(f"classes/{own}", dump, {"names": group}, references)
        for id in group:
            if id != own and self._shadow.entry("classes", id) != {"group": own}:
                self._shadow.keep("classes", id, value={"group": own})

    def _try_class(self, ids: list[str], references: References | None = None) -> Dump | Exception:
        classes = self._variables.classes
        try:
            return classes.dump(ids, references)
        except Exception as error:  # noqa: BLE001  # as for any object
            for id in ids:
                self._done.lost[f"class {classes.seen()[id].__qualname__}"] = _why(error)
            return error

    def _write_pickle(
        self, place: str, dump: Dump, about: dict[str, Any], references: References
    ) -> None:
        table, _, key = place.partition("/")
        stored = self._variables.stored.get(place)
        for reference in dump.references:
            self._lean(place, reference)
        for source in dump.sources:
            if self._shadow.cell("code", source) is None:
                self._shadow.keep("code", source, value=self._variables.sources.source(source))
        if stored is not None and self._is_same(place, stored[0], dump, about, references):
            return
        entry = {
            **about,
            "head": Raw(dump.head),
            "buffers": [Raw(each) for each in dump.buffers],
            "python": python(),
            "bytecode": dump.has_bytecode,
        }
        imprints = self._shadow.imprints
        old = None if stored is None else stored[1]
        imprint = imprints.fresh(entry) if old is None else imprints.again(entry, old)
        before = self._shadow.cell(table, key)
        if before is None or not self._shadow.cells.same(before, imprint.cell):
            self._shadow.write((table, key), imprint.cell)
            self._done.pickles.append(place)
        self._variables.stored[place] = dump.head, imprint

    def _is_same(
        self, place: str, head: bytes, dump: Dump, about: dict[str, Any], references: References
    ) -> bool:
        """Tell whether a pickle that reads differently is that of an object that did not change."""
        if head == dump.head or len(head) > _SMALL_HEAD:
            return False  # if nothing else, the raw bytes are compared
        table, _, key = place.partition("/")
        if table != "objects":
            return False
        entry = self._shadow.entry(table, key)
        if entry is None or entry["names"] != about["names"]:
            return False
        try:
            again = pickling.load(head, self._variables.buffers(entry))
        except Exception:  # noqa: BLE001  # then it is another one, in any case
            return False
        second = self._try_dump(again, references)
        return (
            isinstance(second, Dump) and second.head == dump.head and second.buffers == dump.buffers
        )

    def _lose(self, name: str, value: Any, error: Exception) -> None:
        known = self._variables.index.get(name, {})
        entry = {
            **(self._about.get(name) or describe(value)),
            "kind": "lost",
            "why": _why(error),
            "hint": _hint(value),
            "made": known.get("made", self._step) if known.get("kind") == "lost" else self._step,
        }
        self._entries[name] = entry
        self._done.lost[name] = f"{entry['type']}: {entry['why']}"

    def _drop_groups(self, kept: set[str]) -> None:
        """Remove pickles whose variables are in others now."""
        stored = self._variables.stored
        for place in [place for place in stored if place.startswith("objects/")]:
            group = place.removeprefix("objects/")
            if group not in kept:
                self._shadow.drop("objects", group)
                del stored[place]

    # The index

    def _write_index(self, here: dict[str, Any]) -> None:
        index, namespace = self._variables.index, self._variables.namespace
        for name in sorted(index.keys() - here.keys() - namespace.cold):
            self._done.deleted.append(name)
            self._shadow.forget(name)
            self._shadow.drop("vars", name)
            del index[name]
        for name, entry in sorted(self._entries.items()):
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
                about = self._about.get(name) or describe(here[name])
                entry = {**about, "step": self._step, **entry}
            (self._done.created if old is None else self._done.changed).append(name)
        if entry != old:
            self._shadow.keep("vars", name, value=entry)
            self._variables.index[name] = entry

    def _is_changed(self, name: str, entry: dict[str, Any], old: dict[str, Any] | None) -> bool:
        if old is None or old["kind"] != entry["kind"]:
            return True
        if entry["kind"] == "data":
            if name not in self._cells:
                return False  # it is leaned on, and not here
            if any(entry.get(trait) != old.get(trait) for trait in traits.NAMES):
                return True
            return not self._shadow.cells.same(self._cells[name], self._shadow.cell("data", name))
        if entry["kind"] == "object":
            place = f"objects/{entry['group']}"
            return old["group"] != entry["group"] or place in self._done.pickles
        return {**old, **entry} != old


_RELATIONS = ("leaning_in", "leaning_on", *traits.NAMES)


def group_id(names: list[str]) -> str:
    """Return what a group is kept under."""
    own = ",".join(names)
    return own if len(own) <= 80 else f"{own[:60]}-{digest(own.encode()).hex()[:12]}"


def _is_ours(name: str) -> bool:
    return name in _OURS or (name.startswith("__") and name.endswith("__"))


def _has_pictures(dump: Dump) -> bool:
    kinds = set(map(type, dump.met.values()))
    return any(kind.__module__.partition(".")[0] == "matplotlib" for kind in kinds)


def _module_entry(module: types.ModuleType) -> dict[str, Any]:
    version = getattr(module, "__version__", None)
    entry = {"kind": "module", "type": "module", "module": module.__name__}
    return {**entry, "version": version} if isinstance(version, str) else entry


def _why(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:200]}" if first else type(error).__name__


def _hint(value: object) -> str:
    name = type(value).__name__.lower()
    for word, hint in _HINTS.items():
        if word in name:
            return hint
    return "keep what it is made from, and make it again"


_HINTS = {
    "generator": "consume it, and keep the list",
    "iterator": "consume it, and keep the list",
    "textiowrapper": "keep the path, and open it again",
    "buffered": "keep the path, and open it again",
    "connection": 'register it: workspace.resource("name", factory="module:function")',
    "cursor": "fetch the rows, and keep them",
    "socket": 'register it: workspace.resource("name", factory="module:function")',
    "lock": "make a new one; nothing holds it after a restart",
    "thread": "join it, and keep the result",
    "match": "keep match.groups() or match.groupdict()",
    "coroutine": "await it, and keep the result",
}
