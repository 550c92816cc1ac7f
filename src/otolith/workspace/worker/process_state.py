"""The state of the process outside of its variables: random numbers, folder, environment, settings.

A run in one process carries these from step to step by itself; here they are part of the state.
What is data is in the table `ambient`; what is not is pickled like variables
(`capture_objects.py`), and may share objects with them.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from otolith.workspace.worker.library_settings import (
    SETTINGS,
    Values,
    changed,
    is_constant,
    is_plain,
)
from otolith.workspace.worker.module_changes import (
    ABSENT,
    ImportWatcher,
    ModulePatches,
    WorkFolderModules,
)
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.sources import Sources

_SHELL_VARIABLES = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_INSIDE = "/"  # between the name of a setting and one of its entries; no path of a patch has it

Index = Mapping[str, Mapping[str, Any]]
"""The entries of the table `vars`."""


class ProcessState:
    """The process as it was when a worker began, and what a session has changed in it.

    `objects` are values that were set and are not data, `groups` the pickles that they are in, and
    `loaded` those that came out of pickles.
    """

    def __init__(self, work: str) -> None:
        self._work = work
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._numpy: Any = None
        self._modules = WorkFolderModules(work)
        self._imports = ImportWatcher()
        self._defaults: dict[str, Values] = {}  # settings just after the import of their module
        self.patches = ModulePatches(self._imports)
        self.objects: dict[str, object] = {}
        self.groups: dict[str, str] = {}
        self.loaded: dict[str, object] = {}
        self._unset_groups: dict[
            str, str
        ] = {}  # pickles of what could not be set, and stays stored
        self._unset_data: dict[str, Any] = {}  # data of the same kind
        self._data: dict[str, Any] = {}
        self._installed: tuple[int, list[str]] = (0, [])
        self._imports.expect("numpy.random", self._restore_numpy)
        for name, setting in SETTINGS.items():
            self._imports.expect(setting.module, partial(self._note_defaults, name))

    def restore(
        self,
        stored: dict[str, Any],
        *,
        namespace: Namespace,
        index: Index,
        sources: Sources,
        load: Callable[[str], None],
    ) -> None:
        """Make the process that of a session; `load` loads the pickle at a place."""
        if "random" in stored:
            version, numbers, gauss = stored["random"]
            random.setstate((version, tuple(numbers), gauss))
        self._numpy = stored.get("numpy")
        self._imports.expect("numpy.random", self._restore_numpy)
        os.environ.update(stored.get("environment", {}))
        for name in stored.get("unset", ()):
            os.environ.pop(name, None)
        if "TZ" in stored.get("environment", {}):
            time.tzset()
        sys.path[:] = [*stored["path"]] if "path" in stored else self._path
        folder = Path(self._work) / stored.get("folder", "")
        os.chdir(folder if folder.is_dir() else self._work)
        fetch_objects = partial(_fetch_objects, namespace, index)
        self._modules.restore(stored.get("homemade", {}), fetch_objects)
        self.patches.enter(partial(_imported, namespace, index))
        sources.expect = self.patches.expect
        self._restore_settings(stored, load)

    def _restore_settings(self, stored: dict[str, Any], load: Callable[[str], None]) -> None:
        """Set what a session has set in libraries and modules; what fails stays stored."""
        for name, defaults in self._defaults.items():
            if other := changed(_read(name, defaults), defaults):
                self._set(name, {key: defaults.get(key) for key in other})
        values: dict[str, Values] = {
            name: dict(some) for name, some in stored.get("settings", {}).items()
        }
        patches = {**stored.get("patches", {}), **dict.fromkeys(stored.get("removed", ()), ABSENT)}
        groups = dict(stored.get("groups", {}))
        self.loaded.clear()
        for group in sorted(set(groups.values())):  # what cannot be loaded stays stored
            _attempt(partial(load, f"objects/{group}"), group)
        for node, thing in self.loaded.items():
            name, is_setting, key = node.partition(_INSIDE)
            if is_setting:
                values.setdefault(name, {})[key] = thing
            else:
                patches[node] = thing
        unset = {
            place
            for place, value in patches.items()
            if not _attempt(partial(self.patches.apply, {place: value}), place)
        }
        unset |= {name for name, some in values.items() if not self._set(name, some)}
        self._unset_data = {
            "settings": {k: v for k, v in stored.get("settings", {}).items() if k in unset},
            "patches": {k: v for k, v in stored.get("patches", {}).items() if k in unset},
            "removed": [place for place in stored.get("removed", ()) if place in unset],
        }
        self._unset_groups = {
            node: group
            for node, group in groups.items()
            if node not in self.loaded or node.partition(_INSIDE)[0] in unset
        }

    def _set(self, name: str, values: Values) -> bool:
        """Set some settings of a library; tell whether that was possible."""
        setting = SETTINGS.get(name)  # a later version may know more of them
        if setting is None or not _attempt(partial(import_module, setting.module), name):
            return False
        return _attempt(partial(setting.write, values), name)

    def _note_defaults(self, name: str) -> None:
        if found := _read(name, {}):
            self._defaults[name] = found

    def _restore_numpy(self) -> None:
        """Give numpy its random state back as soon as it is imported."""
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and (stored := self._numpy) is not None:
            numpy.set_state(
                {
                    "bit_generator": stored["bit_generator"],
                    "state": {"key": stored["key"], "pos": stored["pos"]},
                    "has_gauss": stored["has_gauss"],
                    "gauss": stored["gauss"],
                }
            )
            self._numpy = None

    def collect_changes(self) -> None:
        """Find out what was set since the worker began; `objects` has what is not data."""
        settings = {
            name: found
            for name, defaults in self._defaults.items()
            if (found := changed(_read(name, defaults), defaults))
        }
        plain = {
            name: kept
            for name, some in settings.items()
            if (kept := {key: value for key, value in some.items() if is_plain(value)})
        }
        patches = self.patches.values()
        constants = {place: value for place, value in patches.items() if is_constant(value)}
        removed = {place for place, value in patches.items() if value is ABSENT}
        self._data = {
            "settings": {**self._unset_data.get("settings", {}), **plain},
            "patches": {**self._unset_data.get("patches", {}), **constants},
            "removed": sorted(removed.union(self._unset_data.get("removed", ()))),
        }
        self.objects = {
            f"{name}{_INSIDE}{key}": value
            for name, some in settings.items()
            for key, value in some.items()
            if not is_plain(value)
        } | {
            place: value
            for place, value in patches.items()
            if place not in removed and place not in constants
        }
        self.groups = {
            node: group for node, group in self._unset_groups.items() if node not in self.objects
        }

    def capture(self) -> dict[str, Any]:
        """Return the state of the process as data."""
        now = {name: v for name, v in os.environ.items() if name not in _SHELL_VARIABLES}
        was = {name: v for name, v in self._environment.items() if name not in _SHELL_VARIABLES}
        found: dict[str, Any] = {
            "random": random.getstate(),
            "environment": {name: value for name, value in now.items() if was.get(name) != value},
            "unset": sorted(was.keys() - now.keys()),
            "modules": self.modules(),
        }
        numpy = sys.modules.get("numpy.random")
        if self._numpy is not None:
            found["numpy"] = self._numpy
        elif numpy is not None:
            found["numpy"] = _numpy_data(numpy.get_state(legacy=False))
        if sys.path != self._path:
            found["path"] = list(sys.path)
        more = {
            **self._data,
            "groups": self.groups,
            "folder": _current_folder(self._work),
            "homemade": self._modules.capture(),
        }
        return found | {name: value for name, value in more.items() if value}

    def modules(self) -> list[str]:
        """Return the packages that are imported and come from outside of the work folder."""
        if self._installed[0] != len(sys.modules):
            found = sorted(
                name
                for name, module in list(sys.modules.items())
                if (name.count(".") <= 1 and _is_installed(module, self._work))
                or name.startswith("otolith.codecs.")
            )
            self._installed = len(sys.modules), found
        return self._installed[1]


def _attempt(act: Callable[[], object], what: str) -> bool:
    """Do something that may raise anything; if it fails, print why and continue."""
    try:
        act()
    except Exception as error:  # noqa: BLE001  # libraries and pickles may raise anything
        print(f"{what} could not be set as it was: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def _read(name: str, defaults: Values) -> Values:
    try:
        return SETTINGS[name].read()
    except Exception:  # noqa: BLE001  # code may have done anything to a module
        return defaults


def _imported(namespace: Namespace, index: Index, name: str, may_fetch: bool) -> object:  # noqa: FBT001
    """Return the module or class that a name stands for; None for anything else."""
    entry = index.get(name, {})
    if may_fetch and entry.get("type") in ("module", "type"):
        namespace.fetch_if_unloaded(name)
    elif name in namespace.unloaded:
        return sys.modules.get(entry.get("module", ""))
    found = namespace.loaded().get(name)
    return found if isinstance(found, ModuleType | type) else None


def _fetch_objects(namespace: Namespace, index: Index) -> None:
    for name in sorted(namespace.unloaded):
        if index.get(name, {}).get("kind") == "object":
            with suppress(Exception):  # using it will raise the same
                namespace.fetch_if_unloaded(name)


def _is_installed(module: Any, work: str) -> bool:
    path = getattr(module, "__file__", None)
    return isinstance(path, str) and "site-packages" in path and not path.startswith(work)


def _current_folder(work: str) -> str:
    """Return the current folder, relative to the work folder; "" if it is outside."""
    try:
        folder = os.path.relpath(Path.cwd(), work)
    except OSError:  # it was deleted
        return ""
    return "" if folder == "." or folder.startswith("..") else folder


def _numpy_data(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the generator of numpy as data."""
    inner = state["state"]
    return {
        "bit_generator": state["bit_generator"],
        "key": inner["key"],
        "pos": int(inner["pos"]),
        "has_gauss": int(state["has_gauss"]),
        "gauss": float(state["gauss"]),
    }
