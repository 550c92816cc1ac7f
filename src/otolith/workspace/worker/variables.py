"""The variables of a session in a worker: fetched when touched, captured when a step is over.

A variable is one of these, and its entry in `vars` says which:

    data        kept as a value in `data`, readable by anyone
    object      part of a pickle in `objects`, with all variables that it shares objects with
    module      imported again, by name
    resource    made again, by its factory
    lost        could not be kept; what it was, why, and what to do

What an object shares with a variable that is data, it refers to. A *group* is what one pickle
holds: touching one of its names fetches all of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

from otolith.codecs import Codecs
from otolith.errors import Untrusted
from otolith.types import Piece, Raw
from otolith.workspace.protocol import Host
from otolith.workspace.worker import pickler
from otolith.workspace.worker.classes import Classes
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.pickle_context import World
from otolith.workspace.worker.remote_state import Shadow
from otolith.workspace.worker.sources import Sources


class Variables:
    """A namespace, and the tables that it is fetched from."""

    def __init__(
        self, shadow: Shadow, host: Host, codecs: Codecs, resources: dict[str, str]
    ) -> None:
        self.shadow = shadow
        self._host = host
        self.resources = resources
        self.index: dict[str, dict[str, Any]] = shadow.entry("vars") or {}
        self.namespace = Namespace(set(self.index), self._fetch)
        self.sources = Sources(lambda key: shadow.entry("code", key))
        self.world = World(self.namespace, self.sources, codecs)
        self.world.variable = self._variable
        self.world.class_of = self._class_of
        self.classes = Classes(self.world, set(shadow.table("classes")))
        self.stored: dict[str, tuple[bytes, Any]] = {}  # heads and imprints of pickles, by place
        self._loading: set[str] = set()
        self.made: dict[str, object] = {}  # what factories made
        self.old: dict[str, object] = {}  # data that names no longer stand for, being fetched

    # Fetching

    def _fetch(self, name: str) -> dict[str, object]:
        entry = self.index.get(name)
        if entry is None:
            raise KeyError(name)
        found: dict[str, object] = _FETCH[entry["kind"]](self, name, entry)
        for place in self.unloaded(self.index[name].get("leaning_in", ())):
            found |= self.load(place)
        return found

    def unloaded(self, places: Iterable[str]) -> list[str]:
        """Return those of some pickles that are kept, and not loaded."""
        return [
            place
            for place in places
            if place not in self.stored and self.shadow.cell(*place.split("/", 1)) is not None
        ]

    def bring(self, place: str) -> None:
        """Load a pickle, and bind those of its names that are still cold."""
        for name, value in self.load(place).items():
            if name in self.namespace.cold:
                self.namespace.cold.discard(name)
                if not dict.__contains__(self.namespace, name):
                    dict.__setitem__(self.namespace, name, value)

    def _fetch_data(self, name: str, entry: dict[str, Any]) -> dict[str, object]:
        return self.shadow.load_data(name)

    def _fetch_object(self, name: str, entry: dict[str, Any]) -> dict[str, object]:
        return self.load(f"objects/{entry['group']}")

    def _fetch_module(self, name: str, entry: dict[str, Any]) -> dict[str, object]:
        return {name: module(entry["module"], entry.get("version"))}

    def _fetch_resource(self, name: str, entry: dict[str, Any]) -> dict[str, object]:
        if name not in self.made:
            place, _, attribute = entry["factory"].partition(":")
            self.made[name] = getattr(importlib.import_module(place), attribute)()
        return {name: self.made[name]}

    def _fetch_lost(self, name: str, entry: dict[str, Any]) -> dict[str, object]:
        raise LostVariable(
            f"{name} could not be kept: it was a {entry['type']}, made in step"
            f" {entry.get('made', '?')}, and {entry['why']}; {entry.get('hint') or 'make it again'}"
        )

    def load(self, place: str) -> dict[str, object]:
        """Load a pickle; return its variables. One that is being loaded already has none yet."""
        if place in self._loading:
            return {}
        self._loading.add(place)
        try:
            made = self._load(place)
        finally:
            self._loading.discard(place)
        for id, kind in made["classes"].items():
            self.classes.remember(id, kind)
        variables: dict[str, object] = made["variables"]
        return variables

    def _variable(self, name: str) -> object:
        """Return a variable that a pickle refers to, as it was when the pickle was written."""
        if name in self.old:
            return self.old[name]
        if self.shadow.is_held(name):
            return self.shadow.held_data()[name]
        found = self.shadow.load_data(name)
        for each, value in found.items():
            if each in self.namespace.cold and not dict.__contains__(self.namespace, each):
                self.namespace.cold.discard(each)
                dict.__setitem__(self.namespace, each, value)
        return found[name]

    def _class_of(self, id: str) -> type:
        if self.classes.get(id) is None:
            self.bring(f"objects/{self.shadow.entry('classes', id)}")
        known = self.classes.get(id)
        if known is None:
            raise LookupError(f"the class {id} needs itself to be made")
        return known

    def _load(self, place: str) -> Any:
        table, _, key = place.partition("/")
        cell = self.shadow.cell(table, key)
        signature = self.shadow.entry("signatures", place)
        if cell is None:
            raise LostVariable(f"{place} is not kept here: the workspace is damaged, run fsck")
        if not isinstance(signature, bytes) or not self._host.is_signed(place, cell, signature):
            raise Untrusted(
                f"{place} was not signed by this repo: it was not loaded",
                hint="bring the key that it was signed with (OTOLITH_KEY)",
            )
        entry = self.shadow.entry_with_raw(table, key)
        check_python(entry, place)
        buffers = self.buffers(entry)
        head = bytes(memory(entry["head"]))
        kept = {**entry, "head": Raw(head), "buffers": [Raw(each) for each in buffers]}
        made = pickler.load(head, buffers)
        # Only now: what could not be loaded must not be taken for what nobody needs.
        self.stored[place] = head, self.shadow.imprinter.take(kept, cell)
        return made

    def buffers(self, entry: dict[str, Any]) -> list[memoryview]:
        """Return the raw bytes of a pickle."""
        return [memory(each) for each in entry["buffers"]]


_FETCH: dict[str, Any] = {
    "data": Variables._fetch_data,  # noqa: SLF001
    "object": Variables._fetch_object,  # noqa: SLF001
    "module": Variables._fetch_module,  # noqa: SLF001
    "resource": Variables._fetch_resource,  # noqa: SLF001
    "lost": Variables._fetch_lost,  # noqa: SLF001
}


def memory(raw: Any) -> memoryview:
    """Return raw bytes, as they are read back, as memory that can be written to."""
    return raw.view if type(raw) is Piece else memoryview(bytearray().join(raw))


def python() -> str:
    """Return the version of Python that bytecode belongs to."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def check_python(entry: dict[str, Any], place: str) -> None:
    """Refuse a pickle with bytecode of another Python.

    Raises:
        LostVariable: it has some.
    """
    if entry.get("bytecode") and entry["python"] != python():
        raise LostVariable(
            f"{place} has code of Python {entry['python']}, and this is {python()}:"
            " run the step that defined it again, or use that version of Python"
        )


class LostVariable(NameError):
    """A variable was here and could not be kept. It is no KeyError, which Python would swallow."""


def module(name: str, version: str | None) -> Any:
    """Import a module that a step had imported.

    Raises:
        ImportError: it is not here.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        wanted = f" {version}" if version else ""
        raise ImportError(
            f"{name} was imported before, and cannot be imported here: {error};"
            f" install {name.partition('.')[0]}{wanted} where the steps run"
        ) from error
