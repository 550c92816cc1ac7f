"""Tells when a module is imported, so that it can be looked at before anyone changes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeAlias

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
