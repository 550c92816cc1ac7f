"""What a step finds around it and may change: random numbers, folder, environment, settings.

A run in one process carries these from step to step by itself; here they are part of the state.
What is data is in the table `ambient`; what is not is pickled as variables are (`pickles`), and may
share objects with them.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from otolith.workspace.worker.library_settings import (
    SETTINGS,
    Values,
    changed,
    is_constant,
    is_plain,
)
from otolith.workspace.worker.module_state import ABSENT, Arrivals, Homemade, Patches
from otolith.workspace.worker.namespace import Namespace
from otolith.workspace.worker.sources import Sources

_NOT_OURS = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
_INSIDE = "/"  # between the name of a setting and one of its entries; no place of a patch has it


class Session(Protocol):
    """What is needed of the variables of a session."""

    index: dict[str, dict[str, Any]]
    namespace: Namespace
    sources: Sources

    def bring(self, place: str) -> None: ...


class Ambience:
    """The surroundings as they were when a worker began, and what a session has made of them."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._numpy: Any = None
        self._homemade = Homemade(work)
        self._arrivals = Arrivals()
        self._fresh: dict[str, Values] = {}  # settings as they are after an import
        self.patches = Patches(self._arrivals)
        self.things: dict[str, object] = {}  # what is set and is no data, for `pickles` to keep
        self.groups: dict[str, str] = {}  # the pickles that they are in
        self.arrived: dict[str, object] = {}  # what was in pickles that were loaded
        self._missing: dict[str, str] = {}  # pickles of what could not be set here, and is kept
        self._unmet: dict[str, Any] = {}  # data of the same kind
        self._data: dict[str, Any] = {}
        self._installed: tuple[int, list[str]] = (0, [])
        self._arrivals.expect("numpy.random", self._meet_numpy)
        for name, setting in SETTINGS.items():
            self._arrivals.expect(setting.module, partial(self._meet, name))

    def restore(self, kept: dict[str, Any], session: Session) -> None:
        """Make the surroundings those of a session."""
        if "random" in kept:
            random.setstate(_tuples(kept["random"]))
        self._numpy = kept.get("numpy")
        self._arrivals.expect("numpy.random", self._meet_numpy)
        os.environ.update(kept.get("environment", {}))
        for name in kept.get("unset", ()):
            os.environ.pop(name, None)
        if "TZ" in kept.get("environment", {}):
            time.tzset()
        sys.path[:] = [*kept["path"]] if "path" in kept else self._path
        folder = Path(self._work) / kept.get("folder", "")
        os.chdir(folder if folder.is_dir() else self._work)
        self._homemade.restore(kept.get("homemade", {}), partial(_fetch_objects, session))
        self.patches.enter(partial(_imported, session))
        session.sources.expect = self.patches.expect
        self._restore_settings(kept, session.bring)

    def _restore_settings(self, kept: dict[str, Any], bring: Callable[[str], None]) -> None:
        for name, fresh in self._fresh.items():
            if other := changed(_read(name, fresh), fresh):
                self._set(name, {key: fresh.get(key) for key in other})
        values: dict[str, Values] = {name: {**v} for name, v in kept.get("settings", {}).items()}
        patches = {**kept.get("patches", {}), **dict.fromkeys(kept.get("removed", ()), ABSENT)}
        groups = dict(kept.get("groups", {}))
        for node, thing in self._brought(groups, bring).items():
            name, is_setting, key = node.partition(_INSIDE)
            if is_setting:
                values.setdefault(name, {})[key] = thing
            else:
                patches[node] = thing
        unmet = {place for place, value in patches.items() if not self._patch(place, value)}
        unmet |= {name for name, some in values.items() if not self._set(name, some)}
        self._unmet = _only(kept, unmet)
        self._missing |= {
            node: at for node, at in groups.items() if node.partition(_INSIDE)[0] in unmet
        }

    def _patch(self, place: str, value: object) -> bool:
        return _does(partial(self.patches.apply, {place: value}), place)

    def _set(self, name: str, values: Values) -> bool:
        setting = SETTINGS.get(name)  # a later version may know more of them
        if setting is None or not _does(partial(import_module, setting.module), name):
            return False
        return _does(partial(setting.write, values), name)

    def _brought(self, groups: dict[str, str], bring: Callable[[str], None]) -> dict[str, object]:
        """Return what is set and was pickled; what cannot be loaded stays where it is."""
        self.arrived.clear()
        for group in sorted(set(groups.values())):
            _does(partial(bring, f"objects/{group}"), group)
        self._missing = {node: at for node, at in groups.items() if node not in self.arrived}
        return dict(self.arrived)

    def _meet(self, name: str) -> None:
        if found := _read(name, {}):
            self._fresh[name] = found

    def _meet_numpy(self) -> None:
        """Give numpy its state back as soon as it is imported."""
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and self._numpy is not None:
            numpy.set_state(_legacy(self._numpy))
            self._numpy = None

    def look(self) -> None:
        """See what is set that was not before: `things` has what is no data."""
        settings = {
            name: found
            for name, fresh in self._fresh.items()
            if (found := changed(_read(name, fresh), fresh))
        }
        patches = self.patches.values()
        constants = {place: value for place, value in patches.items() if is_constant(value)}
        removed = {place for place, value in patches.items() if value is ABSENT}
        self._data = {
            "settings": {**self._unmet.get("settings", {}), **_where(settings, is_plain)},
            "patches": {**self._unmet.get("patches", {}), **constants},
            "removed": sorted(removed.union(self._unmet.get("removed", ()))),
        }
        self.things = {
            f"{name}{_INSIDE}{key}": value
            for name, some in settings.items()
            for key, value in some.items()
            if not is_plain(value)
        } | {
            place: value
            for place, value in patches.items()
            if value is not ABSENT and not is_constant(value)
        }
        self.groups = {node: at for node, at in self._missing.items() if node not in self.things}

    def capture(self) -> dict[str, Any]:
        """Return the surroundings as data."""
        now = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
        was = {name: v for name, v in self._environment.items() if name not in _NOT_OURS}
        found: dict[str, Any] = {
            "random": random.getstate(),
            "environment": {name: value for name, value in now.items() if was.get(name) != value},
            "unset": sorted(was.keys() - now.keys()),
            "modules": self.modules(),
        }
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and self._numpy is None:
            found["numpy"] = _plain(numpy.get_state(legacy=False))
        elif self._numpy is not None:
            found["numpy"] = self._numpy
        if sys.path != self._path:
            found["path"] = list(sys.path)
        folder = _inside(self._work)
        around = {**self._data, "groups": self.groups, "folder": folder}
        around["homemade"] = self._homemade.capture()
        return found | {name: value for name, value in around.items() if value}

    def modules(self) -> list[str]:
        """Return the packages that are imported and come from outside of the work folder."""
        if self._installed[0] != len(sys.modules):
            self._installed = len(sys.modules), self._find_installed()
        return self._installed[1]

    def _find_installed(self) -> list[str]:
        return sorted(
            name
            for name, module in list(sys.modules.items())
            if (name.count(".") <= 1 and _is_installed(module, self._work))
            or name.startswith("otolith.codecs.")
        )


def _does(act: Callable[[], object], what: str) -> bool:
    """Do what is somebody else's business; if it fails, say so, and go on."""
    try:
        act()
    except Exception as error:  # noqa: BLE001  # libraries and pickles may raise anything
        print(f"{what} could not be set as it was: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True


def _read(name: str, fresh: Values) -> Values:
    try:
        return SETTINGS[name].read()
    except Exception:  # noqa: BLE001  # code may have done anything to a module
        return fresh


def _only(kept: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return what is kept as data of some settings and patches."""
    return {
        "settings": {k: v for k, v in kept.get("settings", {}).items() if k in names},
        "patches": {k: v for k, v in kept.get("patches", {}).items() if k in names},
        "removed": [place for place in kept.get("removed", ()) if place in names],
    }


def _imported(session: Session, name: str, may_fetch: bool) -> object:  # noqa: FBT001
    """Return the module or class that a name stands for; None if it stands for anything else."""
    entry = session.index.get(name, {})
    if may_fetch and entry.get("type") in ("module", "type"):
        session.namespace.warm_if_cold(name)
    elif name in session.namespace.cold:
        return sys.modules.get(entry.get("module", ""))
    found = session.namespace.here().get(name)
    return found if isinstance(found, ModuleType | type) else None


def _fetch_objects(session: Session) -> None:
    for name in sorted(session.namespace.cold):
        if session.index.get(name, {}).get("kind") == "object":
            with suppress(Exception):  # it is lost for now, as it will be when it is asked for
                session.namespace.warm_if_cold(name)


def _where(settings: dict[str, Values], is_kept: Callable[[object], bool]) -> dict[str, Values]:
    kept = {
        name: {key: value for key, value in some.items() if is_kept(value)}
        for name, some in settings.items()
    }
    return {name: some for name, some in kept.items() if some}


def _is_installed(module: Any, work: str) -> bool:
    place = getattr(module, "__file__", None)
    return isinstance(place, str) and "site-packages" in place and not place.startswith(work)


def _inside(work: str) -> str:
    try:
        folder = os.path.relpath(Path.cwd(), work)
    except OSError:  # it was deleted
        return ""
    return "" if folder == "." or folder.startswith("..") else folder


def _tuples(state: Any) -> Any:
    version, numbers, gauss = state
    return version, tuple(numbers), gauss


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    inner = state["state"]
    return {
        "bit_generator": state["bit_generator"],
        "key": inner["key"],
        "pos": int(inner["pos"]),
        "has_gauss": int(state["has_gauss"]),
        "gauss": float(state["gauss"]),
    }


def _legacy(kept: dict[str, Any]) -> dict[str, Any]:
    return {
        "bit_generator": kept["bit_generator"],
        "state": {"key": kept["key"], "pos": kept["pos"]},
        "has_gauss": kept["has_gauss"],
        "gauss": kept["gauss"],
    }
