"""What a step finds around it and may change: random numbers, the folder, the environment.

A run in one process carries these from step to step by itself; here they are part of the state.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

_NOT_OURS = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})


class Ambience:
    """The surroundings as they were when a worker began, and what a session has made of them."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._environment = dict(os.environ)
        self._path = list(sys.path)
        self._numpy: Any = None

    def restore(self, kept: dict[str, Any]) -> None:
        """Make the surroundings those of a session."""
        if "random" in kept:
            random.setstate(_tuples(kept["random"]))
        self._numpy = kept.get("numpy")
        self.meet_numpy()
        os.environ.update(kept.get("environment", {}))
        for name in kept.get("unset", ()):
            os.environ.pop(name, None)
        sys.path[:] = [*kept["path"]] if "path" in kept else self._path
        folder = Path(self._work) / kept.get("folder", "")
        os.chdir(folder if folder.is_dir() else self._work)

    def meet_numpy(self) -> None:
        """Give numpy its state back as soon as it is imported."""
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and self._numpy is not None:
            numpy.set_state(_legacy(self._numpy))
            self._numpy = None

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
        if folder:
            found["folder"] = folder
        return found

    def modules(self) -> list[str]:
        """Return the packages that are imported and come from outside of the work folder."""
        return sorted(
            name
            for name, module in list(sys.modules.items())
            if (name.count(".") <= 1 and _is_installed(module, self._work))
            or name.startswith("otolith.codecs.")
        )


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
