"""A work folder that the user names: nothing in it may be lost because a session knows better.

A workspace makes its folder what the state says. In a folder of its own that is right; in one of
the user's it would remove what it does not know, and undo what was edited there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from otolith.core import WORKSPACE, Branch
from otolith.errors import Invalid

_FILES = (WORKSPACE, "files")
_NOT_KEPT = frozenset({"__pycache__", ".ipynb_checkpoints"})
_SHOWN = 5


def check_folder(state: Branch, folder: Path, store: str | None) -> None:
    """Refuse a folder in which something would be lost. `store` is the file of the store, if any.

    Raises:
        Invalid: the store is inside of it, or it has files that are not those of the state.
    """
    if store is not None and folder.resolve() in Path(store).resolve().parents:
        raise Invalid(
            f"the store is inside of {folder}, and cannot be part of itself",
            hint="choose a folder that does not hold it, or leave out --folder",
        )
    strangers = list(_strangers(state, folder))
    if strangers:
        shown = ", ".join(strangers[:_SHOWN]) + (", …" if len(strangers) > _SHOWN else "")
        raise Invalid(
            f"{folder} has files that are not those of the session: {shown}",
            hint="they would be lost: move them away, choose an empty folder, or leave it out",
        )


def _strangers(state: Branch, folder: Path) -> Iterator[str]:
    """Yield the names of files that a workspace would remove or replace."""
    cell = state.cell_at(_FILES)
    if cell is None:
        return  # nothing is kept yet: what is there becomes part of the state
    unkey = state.cells.encoding.unkey
    kept = {str(unkey(key)): part for key, part in state.cells.entries(cell)}
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_KEPT)
        for path in (Path(place, name) for name in sorted(files)):
            name = path.relative_to(folder).as_posix()
            if name not in kept or not _is_same(path, state.cells.load(kept[name])):
                yield name


def _is_same(path: Path, kept: Any) -> bool:
    if path.is_symlink():
        return bool(kept.get("link") == str(path.readlink()))
    return path.is_file() and bool(kept.get("data") == path.read_bytes())
