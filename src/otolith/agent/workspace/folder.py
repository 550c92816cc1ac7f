"""The work folder as part of a state: what is in it is kept, and put back.

    files/PATH    {"data": bytes, "mode": int}       a file; of its mode, whether it can be run
                  {"link": text}                     a symbolic link
                  {"folder": true}                   a folder with nothing in it

Files are read without following links, so a link that leads out of the folder is kept as a link
and nothing more. A file whose size, time, number and kind are those of the last look is not read
again, unless it changed so recently that the clock may not tell.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from otolith.agent.workspace.step import Files
from otolith.core import Branch

PLACE = (".workspace", "files")
_RACY_NANOSECONDS = 50_000_000
_SKIPPED = frozenset({"__pycache__", ".ipynb_checkpoints"})


class Seen(NamedTuple):
    """What a file looked like, and the cell that its content has."""

    size: int
    changed: int
    number: int
    mode: int
    when: int
    cell: bytes


class Folder:
    """A folder, and what it looked like when it was last the same as a state."""

    def __init__(self, path: Path, *, limit_bytes: int = 1 << 30) -> None:
        self.path = path
        self._limit = limit_bytes
        self._seen: dict[str, Seen] = {}

    def capture(self, state: Branch) -> Files:
        """Stage what is in the folder; return what is different from what was staged before."""
        before = self._kept(state)
        found: dict[str, bytes] = {}
        skipped: dict[str, str] = {}
        for name, status in self._walk():
            cell = self._cell(state, name, status, skipped)
            if cell is not None:
                found[name] = cell
        return self._stage(state, before, found, skipped)

    def restore(self, state: Branch) -> Files:
        """Make the folder what a state says."""
        wanted = self._kept(state)
        here = dict(self._walk())
        files = Files(removed=tuple(sorted(here.keys() - wanted.keys())))
        for name in sorted(files.removed, reverse=True):
            _remove(self.path / name, here[name])
        added, changed = list[str](), list[str]()
        for name, cell in sorted(wanted.items()):
            if name in here and self._is_same(state, name, here[name], cell):
                continue
            (changed if name in here else added).append(name)
            _write(self.path / name, state.cells.load(cell), self.path)
            self._note(name, os.lstat(self.path / name), cell)
        return Files(tuple(added), tuple(changed), files.removed)

    def _kept(self, state: Branch) -> dict[str, bytes]:
        cell = state.cell_at(PLACE)
        if cell is None:
            return {}
        cells, unkey = state.cells, state.cells.encoding.unkey
        return {str(unkey(key)): cells.settle(part) for key, part in cells.entries(cell)}

    def _stage(
        self,
        state: Branch,
        before: dict[str, bytes],
        found: dict[str, bytes],
        skipped: dict[str, str],
    ) -> Files:
        gone = sorted(before.keys() - found.keys() - skipped.keys())
        added = sorted(found.keys() - before.keys())
        common = sorted(found.keys() & before.keys())
        changed = [name for name in common if found[name] != before[name]]
        for name in gone:
            state.write_reserved((*PLACE, name), None)
        for name in (*added, *changed):
            state.write_reserved((*PLACE, name), found[name])
        return Files(tuple(added), tuple(changed), tuple(gone), skipped)

    def _walk(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield everything in the folder but folders that have something in them."""
        waiting = [self.path]
        while waiting:
            folder = waiting.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            if not entries and folder != self.path:
                yield self._name(folder), os.lstat(folder)
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            waiting += [Path(entry.path) for entry in folders if entry.name not in _SKIPPED]
            for entry in entries:
                if entry not in folders:
                    yield self._name(Path(entry.path)), entry.stat(follow_symlinks=False)

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _cell(
        self, state: Branch, name: str, status: os.stat_result, skipped: dict[str, str]
    ) -> bytes | None:
        seen = self._seen.get(name)
        if seen is not None and _is_unchanged(seen, status):
            return seen.cell
        try:
            content = self._content(name, status)
        except OSError as error:
            skipped[name] = str(error.strerror)
            return None
        if isinstance(content, str):
            skipped[name] = content
            return None
        try:
            cell = state.cells.settle(state.cells.put(content))
            name.encode()
        except UnicodeEncodeError:
            skipped[name] = "its name is no text"
            return None
        self._note(name, status, cell)
        return cell

    def _content(self, name: str, status: os.stat_result) -> dict[str, Any] | str:
        path = self.path / name
        if stat.S_ISLNK(status.st_mode):
            return {"link": str(path.readlink())}
        if stat.S_ISDIR(status.st_mode):
            return {"folder": True}
        if not stat.S_ISREG(status.st_mode):
            return "it is neither a file nor a link"
        if status.st_size > self._limit:
            return f"it is longer than {self._limit:,} bytes"
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(self._limit + 1)
        return {"data": data, "mode": 0o755 if status.st_mode & 0o100 else 0o644}

    def _note(self, name: str, status: os.stat_result, cell: bytes) -> None:
        self._seen[name] = Seen(
            status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode, time.time_ns(), cell
        )

    def _is_same(self, state: Branch, name: str, status: os.stat_result, wanted: bytes) -> bool:
        return self._cell(state, name, status, {}) == wanted


def _is_unchanged(seen: Seen, status: os.stat_result) -> bool:
    looks = status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode
    is_settled = seen.changed < seen.when - _RACY_NANOSECONDS
    return looks == (seen.size, seen.changed, seen.number, seen.mode) and is_settled


def _remove(path: Path, status: os.stat_result) -> None:
    try:
        if stat.S_ISDIR(status.st_mode):
            path.rmdir()
        else:
            path.unlink()
        for parent in path.parents:
            parent.rmdir()  # only if nothing is left in it
    except OSError:
        return


def _write(path: Path, content: Any, root: Path) -> None:
    """Put a file back; what is in its way, and links on the way, are removed first."""
    _clear_way(path, root)
    if "folder" in content:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.exists():
        _remove_all(path)
    if "link" in content:
        path.symlink_to(content["link"])
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, content["mode"]), "wb") as file:
        file.write(content["data"])


def _clear_way(path: Path, root: Path) -> None:
    for parent in reversed(path.relative_to(root).parents[:-1]):
        here = root / parent
        if here.is_symlink() or (here.exists() and not here.is_dir()):
            here.unlink()


def _remove_all(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
