"""The work folder as part of a state: what is in it is kept, and put back.

    files/PATH    {"data": bytes, "mode": int}       a file; of its mode, whether it can be run
                  {"link": text}                     a symbolic link
                  {"folder": true}                   a folder with nothing in it

Files are read without following links, so a link that leads out of the folder is kept as a link
and nothing more. A file whose size, time, number and kind are those of the last look is not read
again, unless it changed so recently that the clock may not tell. What cannot be kept (a socket, a
file that is too long) is left where it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from otolith.agent.workspace.step import Files
from otolith.core import WORKSPACE, Branch, Reading

PLACE = (WORKSPACE, "files")
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


class Look(NamedTuple):
    """What a state has of a folder, and what is in it: cells by name; and what cannot be kept."""

    before: dict[str, bytes]
    found: dict[str, bytes]
    skipped: dict[str, str]

    @property
    def files(self) -> Files:
        """What is different."""
        before, found, skipped = self
        changed = (name for name in found.keys() & before.keys() if found[name] != before[name])
        return Files(
            tuple(sorted(found.keys() - before.keys())),
            tuple(sorted(changed)),
            tuple(sorted(before.keys() - found.keys() - skipped.keys())),
            skipped,
        )


class Folder:
    """A folder, and what it looked like when it was last the same as a state."""

    def __init__(self, path: Path, *, limit_bytes: int = 1 << 30) -> None:
        self.path = path
        self._limit = limit_bytes
        self._seen: dict[str, Seen] = {}

    def capture(self, state: Branch) -> Files:
        """Stage what is in the folder; return what is different from what was staged before."""
        return self.stage(state, self.look(state))

    def look(self, state: Branch) -> Look:
        """Compare what is in the folder with what a state has of it."""
        look = Look(files_in(state), {}, {})
        for name, status in self._walk():
            cell = self._cell(state, name, status, look.skipped, look.before.get(name))
            if cell is not None:
                look.found[name] = cell
        return look

    def stage(self, state: Branch, look: Look) -> Files:
        """Make a state have what was found; return what is different."""
        files = look.files
        for name in files.removed:
            state.write_reserved((*PLACE, name), None)
        for name in (*files.added, *files.changed):
            state.write_reserved((*PLACE, name), look.found[name])
        return files

    def restore(
        self, state: Branch, *, keep: Mapping[str, bytes] | None = None, aside: Path | None = None
    ) -> Files:
        """Make the folder what a state says; `keep` stays as it is there, whatever a state says.

        What has to go is moved `aside`, if there is such a place.
        """
        wanted = files_in(state) | dict(keep or {})
        here = dict(self._walk())
        unknown = sorted(here.keys() - wanted.keys(), reverse=True)
        removed = [name for name in unknown if _unkept(name, here[name], self._limit) is None]
        added, changed = list[str](), list[str]()
        for name in removed:
            _remove(self.path / name, here[name], self.path, aside)
        for name, cell in sorted(wanted.items()):
            if name in here and self._cell(state, name, here[name], {}, cell) == cell:
                continue
            (changed if name in here else added).append(name)
            if name in here and aside is not None:
                _remove(self.path / name, here[name], self.path, aside)
            _write(self.path / name, state.cells.load(cell), self.path)
            self._note(name, os.lstat(self.path / name), cell)
        return Files(tuple(added), tuple(changed), tuple(sorted(removed)))

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
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield from self._seen_there(entry)
                elif entry.name not in _SKIPPED:
                    waiting.append(Path(entry.path))

    def _seen_there(self, entry: os.DirEntry[str]) -> Iterator[tuple[str, os.stat_result]]:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # somebody is at work there
            return
        yield self._name(Path(entry.path)), status

    def _name(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()

    def _cell(
        self,
        state: Branch,
        name: str,
        status: os.stat_result,
        skipped: dict[str, str],
        kept: bytes | None,
    ) -> bytes | None:
        """Return the cell of what is in the folder; `kept` is the one that is in the state."""
        seen = self._seen.get(name)
        # A cell that is not in the state may have been dropped with its content since.
        if seen is not None and seen.cell == kept and _is_unchanged(seen, status):
            return seen.cell
        why = _unkept(name, status, self._limit)
        if why is not None:
            skipped[name] = why
            return None
        try:
            content = self._content(name, status)
        except OSError as error:
            skipped[name] = str(error.strerror)
            return None
        cell = state.cells.settle(state.cells.put(content))
        self._note(name, status, cell)
        return cell

    def _content(self, name: str, status: os.stat_result) -> dict[str, Any]:
        path = self.path / name
        if stat.S_ISLNK(status.st_mode):
            return {"link": str(path.readlink())}
        if stat.S_ISDIR(status.st_mode):
            return {"folder": True}
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(self._limit + 1)
        return {"data": data, "mode": 0o755 if status.st_mode & 0o100 else 0o644}

    def _note(self, name: str, status: os.stat_result, cell: bytes) -> None:
        self._seen[name] = Seen(
            status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode, time.time_ns(), cell
        )


def files_in(state: Reading) -> dict[str, bytes]:
    """Return the cells of the files that a state has."""
    cell = state.cell_at(PLACE)
    if cell is None:
        return {}
    cells, unkey = state.cells, state.cells.encoding.unkey
    return {str(unkey(key)): cells.settle(part) for key, part in cells.entries(cell)}


def _unkept(name: str, status: os.stat_result, limit_bytes: int) -> str | None:
    """Say why something is not kept; None if it can be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is no text"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "it is neither a file nor a link"
    if status.st_size > limit_bytes:
        return f"it is longer than {limit_bytes:,} bytes"
    return None


def _is_unchanged(seen: Seen, status: os.stat_result) -> bool:
    looks = status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode
    is_settled = seen.changed < seen.when - _RACY_NANOSECONDS
    return looks == (seen.size, seen.changed, seen.number, seen.mode) and is_settled


def _remove(path: Path, status: os.stat_result, root: Path, aside: Path | None) -> None:
    try:
        if stat.S_ISDIR(status.st_mode):
            path.rmdir()
        elif aside is None:
            path.unlink()
        else:
            goal = aside / path.relative_to(root)
            goal.parent.mkdir(parents=True, exist_ok=True)
            path.replace(goal)
        for parent in path.relative_to(root).parents[:-1]:
            (root / parent).rmdir()  # only if nothing is left in it
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
