"""Modules from the work folder: as they were when they were imported, not as their files are now.

In one process, a module is what it was imported as until it is reloaded, whatever becomes of its
file. So the text that it was made of is kept, where the file has another by now.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


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
