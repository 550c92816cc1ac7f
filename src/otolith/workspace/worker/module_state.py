"""What steps put into modules and classes of others, and what was there before.

A patch is found by the code that makes it (`targets`). What it replaced is remembered: code that
wraps something has it in a variable, and under its name there is the wrapper now.

Modules from the work folder: as they were when they were imported, not as their files are now.

In one process, a module is what it was imported as until it is reloaded, whatever becomes of its
file. So the text that it was made of is kept, where the file has another by now.

Tells when a module is imported, so that it can be looked at before anyone changes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from otolith.workspace.worker.sources import Target


class Text(NamedTuple):
    """What a module was made of, and where."""

    path: str
    source: bytes


class Homemade:
    """Finds no module itself: it sees what those in the work folder are made of, or says it."""

    def __init__(self, work: str) -> None:
        self._work = Path(work)
        self._texts: dict[str, Text] = {}
        self._imported: set[str] = set()  # in this process
        self._fetch_all: Callable[[], None] = lambda: None
        sys.meta_path.insert(0, self)

    def restore(self, kept: dict[str, list[Any]], fetch_all: Callable[[], None]) -> None:
        """Take the modules of a session for imported: each as its file is, or as it was.

        `fetch_all` fetches what refers to modules: what is to become of it when one is reloaded
        has to be there before.
        """
        self._fetch_all = fetch_all
        self._texts.clear()
        for name, (place, source) in kept.items():
            path = str(self._work / place)
            found = _read(path) if source is None else source.encode()
            if found is not None:
                self._texts[name] = Text(path, found)

    def capture(self) -> dict[str, list[Any]]:
        """Return the modules that a session has imported, and what they were if it differs."""
        gone = {name for name in self._imported if name not in sys.modules}
        return {
            name: [str(Path(text.path).relative_to(self._work)), _other(text)]
            for name, text in sorted(self._texts.items())
            if name not in gone
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what another finder has found for a module in the work folder; else None."""
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None) or self._spec(name)
        origin = spec.origin if spec is not None else None
        if spec is not None and origin is not None and self._is_home(origin):
            self._watch(spec.loader, name, origin, is_again=target is not None)
        return spec

    def _spec(self, name: str) -> ModuleSpec | None:
        """Return how a module is imported whose file is gone."""
        text = self._texts.get(name)
        if text is None or name in self._imported:
            return None
        folder = [str(Path(text.path).parent)] if text.path.endswith("__init__.py") else None
        return spec_from_file_location(name, text.path, submodule_search_locations=folder)

    def _is_home(self, origin: str) -> bool:
        return origin.endswith(".py") and Path(origin).is_relative_to(self._work)

    def _watch(self, loader: Any, name: str, path: str, *, is_again: bool) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            if is_again:
                self._fetch_all()
            kept = None if is_again or name in self._imported else self._texts.get(name)
            source = _read(path)
            if kept is None or kept.source == source:
                execute(module)
            else:
                source = kept.source
                exec(loader.source_to_code(source, path), vars(module))  # noqa: S102  # as imports do
            self._imported.add(name)
            if source is not None:
                self._texts[name] = Text(path, source)

        loader.exec_module = exec_module


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _other(text: Text) -> str | None:
    return None if _read(text.path) == text.source else text.source.decode("utf-8", "replace")


Act: TypeAlias = Callable[[], object]


class Arrivals:
    """Finds no module itself: it asks the other finders, and does something when all is loaded."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Act]] = {}
        sys.meta_path.insert(0, self)

    def expect(self, name: str, act: Act) -> None:
        """Do something when a module has been imported; at once, if it has been."""
        if name in sys.modules:
            act()
        else:
            self._waiting.setdefault(name, []).append(act)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what another finder has found for a module that is expected; else None."""
        if name not in self._waiting:
            return None
        others = [each for each in sys.meta_path if each is not self]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader, name)
        return spec

    def _watch(self, loader: Any, name: str) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            for act in self._waiting.pop(name, ()):
                act()

        loader.exec_module = exec_module


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
