"""Changes that steps make to modules: attributes they set, and modules of the work folder.

`ModulePatches` finds the attributes that code sets in modules and classes of others. It knows them
from the source of the code (`sources.py`), and remembers what each replaced: code that wraps
something has the original in a variable, and its name now leads to the wrapper.

`WorkFolderModules` restores modules of the work folder as they were imported, not as their files
are now. In one process, a module stays what it was imported as until it is reloaded, whatever
becomes of its file. So its source is stored, if the file is another by now.

`ImportWatcher` calls functions when a module is imported, before any code can change it.
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

from otolith.workspace.worker.sources import AttributeTarget


class ModuleSource(NamedTuple):
    """The path and the source that a module was imported from."""

    path: str
    source: bytes


class WorkFolderModules:
    """An import hook that notes the source of modules in the work folder, or replaces it.

    It finds modules through the other hooks.
    """

    def __init__(self, work: str) -> None:
        self._work = Path(work)
        self._sources: dict[str, ModuleSource] = {}
        self._imported: set[str] = set()  # in this process
        self._fetch_all: Callable[[], None] = lambda: None
        sys.meta_path.insert(0, self)

    def restore(self, stored: dict[str, list[Any]], fetch_all: Callable[[], None]) -> None:
        """Treat the modules of a session as imported: each as its file is, or as it was.

        `fetch_all` fetches the variables that refer to modules, before one is reloaded: later they
        could not find the old module.
        """
        self._fetch_all = fetch_all
        self._sources.clear()
        for name, (place, source) in stored.items():
            path = str(self._work / place)
            found = _read(path) if source is None else source.encode()
            if found is not None:
                self._sources[name] = ModuleSource(path, found)

    def capture(self) -> dict[str, list[Any]]:
        """Return the modules that a session has imported, with their source if the file differs."""
        gone = {name for name in self._imported if name not in sys.modules}
        return {
            name: [
                str(Path(path).relative_to(self._work)),
                None if _read(path) == source else source.decode("utf-8", "replace"),
            ]
            for name, (path, source) in sorted(self._sources.items())
            if name not in gone
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that another finder has for a module, which is watched if it is ours."""
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        spec = spec or self._missing_file_spec(name)
        origin = (spec.origin if spec is not None else None) or ""
        if spec and origin.endswith(".py") and Path(origin).is_relative_to(self._work):
            self._watch(spec.loader, name, origin, is_reload=target is not None)
        return spec

    def _missing_file_spec(self, name: str) -> ModuleSpec | None:
        """Return the spec of a module whose file is gone."""
        text = self._sources.get(name)
        if text is None or name in self._imported:
            return None
        folder = [str(Path(text.path).parent)] if text.path.endswith("__init__.py") else None
        return spec_from_file_location(name, text.path, submodule_search_locations=folder)

    def _watch(self, loader: Any, name: str, path: str, *, is_reload: bool) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            if is_reload:
                self._fetch_all()
            stored = None if is_reload or name in self._imported else self._sources.get(name)
            source = _read(path)
            if stored is None or stored.source == source:
                execute(module)
            else:
                source = stored.source
                exec(loader.source_to_code(source, path), vars(module))  # noqa: S102  # as imports do
            self._imported.add(name)
            if source is not None:
                self._sources[name] = ModuleSource(path, source)

        loader.exec_module = exec_module


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


Act: TypeAlias = Callable[[], object]


class ImportWatcher:
    """An import hook that finds no module itself, and calls functions when one was imported."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Act]] = {}
        sys.meta_path.insert(0, self)

    def expect(self, name: str, act: Act) -> None:
        """Call a function when a module has been imported; at once, if it has been."""
        if name in sys.modules:
            act()
        else:
            self._waiting.setdefault(name, []).append(act)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that another finder has for an expected module; else None."""
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
_UNKNOWN = object()  # it was set before it could be looked at

_FOUND_BY_NAME = (FunctionType, BuiltinFunctionType, type)
_NOT_STORED = frozenset({
    "os.environ", "sys.modules", "sys.path", "sys.stderr", "sys.stdin", "sys.stdout",
    "warnings.filters",
})  # fmt: skip


class ModulePatches:
    """The attributes that code of a session sets in modules and classes of others."""

    def __init__(self, imports: ImportWatcher) -> None:
        self._imports = imports
        self._before: dict[Place, object] = {}
        self.replaced: dict[int, Place] = {}  # by the identity of what was replaced
        self._unresolved: list[AttributeTarget] = []
        self._imported: Imported = lambda *_: None

    def enter(self, imported: Imported) -> None:
        """Undo the changes of an earlier session; `imported` looks up names."""
        for place, value in self._before.items():
            if value is not _UNKNOWN:
                _set(place, value)
        self._before.clear()
        self._unresolved.clear()
        self._imported = imported

    def expect(self, targets: Iterable[AttributeTarget], may_fetch: bool) -> None:  # noqa: FBT001
        """Remember what code will replace, before it runs."""
        for target in targets:
            if self._remember(target, may_fetch=may_fetch) is None:
                self._unresolved.append(target)
                if target.imported is not None:
                    self._imports.expect(target.imported[0], partial(self._remember, target))

    def apply(self, values: Mapping[Place, object]) -> None:
        """Set attributes; ABSENT stands for one that was deleted."""
        for place, value in values.items():
            owner, name = _owner(place)
            self._before.setdefault(place, vars(owner).get(name, ABSENT))
            _set(place, value)

    def values(self) -> dict[Place, object]:
        """Return the attributes that were set; ABSENT for those that were deleted."""
        self.replaced.clear()
        for target in self._unresolved:
            self._remember(target, before=_UNKNOWN)
        found: dict[Place, object] = {}
        for place, before in self._before.items():
            try:
                owner, name = _owner(place)
            except Exception:  # noqa: BLE001, S112  # its module is gone
                continue
            value = vars(owner).get(name, ABSENT)
            if value is not before and (value, before) != (ABSENT, _UNKNOWN):
                found[place] = value
                if isinstance(before, _FOUND_BY_NAME):
                    self.replaced[id(before)] = place
        return found

    def before(self, place: Place) -> object:
        """Return an attribute as it was before it was replaced."""
        return self._before[place] if place in self._before else attribute_at(place)

    def _remember(
        self, target: AttributeTarget, *, may_fetch: bool = False, before: object = None
    ) -> Place | None:
        """Remember the value of an attribute before it is set; return its place if it is known."""
        owner = self._find(target, may_fetch)
        home = None if owner is None else _owner_name(owner)
        place = f"{home}.{target.name}"
        if owner is None or home is None or place in _NOT_STORED:
            return None
        self._before.setdefault(place, before or vars(owner).get(target.name, ABSENT))
        return place

    def _find(self, target: AttributeTarget, may_fetch: bool) -> Any:  # noqa: FBT001
        """Return the module or class that a target is an attribute of."""
        found: Any = self._imported(target.path[0], may_fetch)
        if found is None and target.imported is not None:
            home, name = target.imported
            found = sys.modules.get(home)
            found = _attribute(found, name) if name and found is not None else found
        for step in target.path[1:]:
            found = _attribute(found, step) if found is not None else None
        return found


def attribute_at(place: Place) -> object:
    """Return the attribute at a place."""
    owner, name = _owner(place)
    return vars(owner)[name]


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a module or class, or a submodule; None for anything else."""
    if not isinstance(owner, ModuleType | type):
        return None
    found = vars(owner).get(name)
    return sys.modules.get(f"{owner.__name__}.{name}") if found is None else found


def _owner_name(owner: Any) -> str | None:
    """Return the name by which a module or class is found, if it is not the session's."""
    if isinstance(owner, ModuleType):
        name = owner.__name__
        return name if name != "__main__" and sys.modules.get(name) is owner else None
    if not isinstance(owner, type) or owner.__module__ == "__main__":
        return None
    name = f"{owner.__module__}:{owner.__qualname__}"
    return name if owner.__module__ in sys.modules and _at(name) is owner else None


def _at(name: str) -> Any:
    """Return the module or class with a name such as `module:Class`."""
    module, _, inside = name.partition(":")
    found: Any = import_module(module)
    for step in inside.split(".") if inside else ():
        found = getattr(found, step, None)
    return found


def _owner(place: Place) -> tuple[Any, str]:
    home, _, name = place.rpartition(".")
    return _at(home), name


def _set(place: Place, value: object) -> None:
    """Set or delete the attribute at a place."""
    owner, name = _owner(place)
    if value is not ABSENT:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)
