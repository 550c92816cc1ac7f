"""The variables of a session in a worker: each is fetched when it is first used.

A variable is of one of these kinds, as its entry in the table `vars` says:

    data        stored as a value in `data`, readable by anyone
    object      part of a pickle in `objects`, with all variables that it shares objects with
    module      imported again, by name
    resource    made again, by its factory
    lost        could not be stored; the entry says what it was, why, and what to do

An object refers to what it shares with a variable that is data. A *group* is what one pickle holds:
using one of its names fetches all of them. The entry of a variable that is data lists the pickles
that refer to it: `leaning_on` those that refer to the whole value, `leaning_in` those that refer to
a part of it.
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
from otolith.workspace.worker.pickle_context import PickleContext
from otolith.workspace.worker.remote_state import RemoteState
from otolith.workspace.worker.sources import Sources


class Variables:
    """A namespace, and the tables that its variables are fetched from."""

    def __init__(
        self, state: RemoteState, host: Host, codecs: Codecs, resources: dict[str, str]
    ) -> None:
        self.state = state
        self._host = host
        self.resources = resources
        self.index: dict[str, dict[str, Any]] = state.entry("vars") or {}
        self.namespace = Namespace(set(self.index), self._fetch)
        self.sources = Sources(lambda key: state.entry("code", key))
        self.context = PickleContext(self.namespace, self.sources, codecs)
        self.context.variable = self._referenced_variable
        self.context.class_of = self._class_of
        self.classes = Classes(set(state.names("classes")))
        self.stored: dict[str, tuple[bytes, Any]] = {}  # heads and imprints of pickles, by place
        self._loading: set[str] = set()
        self._made_resources: dict[str, object] = {}
        self.old: dict[str, object] = {}  # values of data that names no longer stand for

    def _fetch(self, name: str) -> dict[str, object]:
        """Return a variable and those that belong to it, by its kind."""
        entry = self.index.get(name)
        if entry is None:
            raise KeyError(name)
        match entry["kind"]:
            case "data":
                found = self.state.load_data(name)
            case "object":
                found = self.load(f"objects/{entry['group']}")
            case "module":
                found = {name: import_again(entry["module"], entry.get("version"))}
            case "resource":
                found = {name: self._resource(name, entry["factory"])}
            case _:
                raise LostVariable(
                    f"{name} could not be stored: it was a {entry['type']}, made in step"
                    f" {entry.get('made', '?')}, and {entry['why']};"
                    f" {entry.get('hint') or 'make it again'}"
                )
        for place in self.unloaded_pickles(self.index[name].get("leaning_in", ())):
            found |= self.load(place)
        return found

    def _resource(self, name: str, factory: str) -> object:
        """Return the value of a resource, made by its factory once in this process."""
        if name not in self._made_resources:
            module, _, function = factory.partition(":")
            self._made_resources[name] = getattr(importlib.import_module(module), function)()
        return self._made_resources[name]

    def unloaded_pickles(self, places: Iterable[str]) -> list[str]:
        """Return those of some pickles that are stored and not loaded."""
        return [
            place
            for place in places
            if place not in self.stored and self.state.cell(*place.split("/", 1)) is not None
        ]

    def load_and_bind(self, place: str) -> None:
        """Load a pickle, and bind those of its names that are still unloaded."""
        self.namespace.bind(self.load(place))

    def load(self, place: str) -> dict[str, object]:
        """Load a pickle; return its variables, or none if it is being loaded already.

        Raises:
            LostVariable: it is not stored, or has bytecode of another Python.
            Untrusted: this repo has not signed it.
        """
        if place in self._loading:
            return {}
        self._loading.add(place)
        try:
            loaded = self._unpickle(place)
        finally:
            self._loading.discard(place)
        for id, kind in loaded["classes"].items():
            self.classes.remember(id, kind)
        variables: dict[str, object] = loaded["variables"]
        return variables

    def _unpickle(self, place: str) -> Any:
        """Load a pickle after its signature and its version of Python were checked."""
        table, _, key = place.partition("/")
        cell = self.state.cell(table, key)
        signature = self.state.entry("signatures", place)
        if cell is None:
            raise LostVariable(f"{place} is not stored: the workspace is damaged, run fsck")
        if not isinstance(signature, bytes) or not self._host.is_signed(place, cell, signature):
            raise Untrusted(
                f"{place} was not signed by this repo: it was not loaded",
                hint="bring the key that it was signed with (OTOLITH_KEY)",
            )
        entry = self.state.pickle_entry(table, key)
        if entry.get("bytecode") and entry["python"] != python():
            raise LostVariable(
                f"{place} has code of Python {entry['python']}, and this is {python()}:"
                " run the step that defined it again, or use that version of Python"
            )
        buffers = self.buffers(entry)
        head = bytes(_writable(entry["head"]))
        stored = {**entry, "head": Raw(head), "buffers": [Raw(each) for each in buffers]}
        loaded = pickler.load(head, buffers)
        # Only now: what could not be loaded must not look as if no variable needed it.
        self.stored[place] = head, self.state.imprinter.take(stored, cell)
        return loaded

    def buffers(self, entry: dict[str, Any]) -> list[memoryview]:
        """Return the raw bytes of a pickle."""
        return [_writable(each) for each in entry["buffers"]]

    def _referenced_variable(self, name: str) -> object:
        """Return a variable that a pickle refers to, as it was when the pickle was written."""
        if name in self.old:
            return self.old[name]
        if self.state.is_held(name):
            return self.state.held_data()[name]
        found = self.state.load_data(name)
        bound = self.namespace.loaded()
        self.namespace.bind({each: found[each] for each in found if each not in bound})
        return found[name]

    def _class_of(self, id: str) -> type:
        """Return the class with an id, loaded if necessary."""
        if self.classes.get(id) is None:
            self.load_and_bind(f"objects/{self.state.entry('classes', id)}")
        known = self.classes.get(id)
        if known is None:
            raise LookupError(f"the class {id} needs itself to be made")
        return known


def _writable(raw: Any) -> memoryview:
    """Return raw bytes that were read as memory that can be written to."""
    return raw.view if type(raw) is Piece else memoryview(bytearray().join(raw))


def python() -> str:
    """Return the version of Python that bytecode belongs to."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


class LostVariable(NameError):
    """A variable could not be stored. This is not a KeyError, which Python would swallow."""


def import_again(name: str, version: str | None) -> Any:
    """Import a module that a step had imported.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        wanted = f" {version}" if version else ""
        raise ImportError(
            f"{name} was imported before, and cannot be imported here: {error};"
            f" install {name.partition('.')[0]}{wanted} where the steps run"
        ) from error
