"""The files of a folder and of a state: compared, staged into the state, and written back.

    files/PATH    {"data": bytes, "mode": int}       a file; of its mode, whether it is executable
                  {"link": text}                     a symbolic link
                  {"folder": true}                   a folder with nothing in it

Files are read without following links: a link that leads out of the folder is stored as a link and
nothing more, and never written back. A file whose size, time, inode and mode are those of the last
comparison is not read again, unless it changed so recently that the clock may not show it. What
cannot be stored (a socket, a file that is too long) stays where it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from otolith.core import WORKSPACE, Branch, StateReader
from otolith.errors import Corrupt, Invalid
from otolith.workspace.disk_watch import STORED_FILE_BYTES, walk
from otolith.workspace.step import FileChanges

FILES = (WORKSPACE, "files")

FileContent: TypeAlias = tuple[bytes, bool] | str | None
"""Bytes and whether they are executable; the target of a link; or None for an empty folder."""

_RACY_NANOSECONDS = 50_000_000
_LONGEST_LINK = 8192
CACHE_FOLDER = ".otolith-cache"
"""Where libraries store, in a work folder, what they can make again: sandboxes can write there."""
_CACHE_FOLDERS = frozenset({"__pycache__", ".ipynb_checkpoints", CACHE_FOLDER})


class FileStamp(NamedTuple):
    """The status of a file when its content was the one of a cell."""

    size: int
    modified: int
    inode: int
    mode: int
    noted: int
    cell: bytes

    def is_current(self, status: os.stat_result) -> bool:
        """Tell whether a file with this status certainly has the same content."""
        now = status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode
        return now == self[:4] and self.modified < self.noted - _RACY_NANOSECONDS


class FolderEntries(NamedTuple):
    """Everything in a folder but folders that have something in them, and what it takes."""

    entries: dict[str, os.stat_result]
    disk_bytes: int


class FolderComparison(NamedTuple):
    """The files of a state and of a folder, as cells by path; `skipped` cannot be stored."""

    stored: dict[str, bytes]
    found: dict[str, bytes]
    skipped: dict[str, str]
    cached: dict[str, os.stat_result]  # below folders that are never stored
    disk_bytes: int

    @property
    def changes(self) -> FileChanges:
        """What differs in the folder."""
        stored, found, skipped = self[:3]
        changed = (name for name in found.keys() & stored.keys() if found[name] != stored[name])
        return FileChanges(
            tuple(sorted(found.keys() - stored.keys())),
            tuple(sorted(changed)),
            tuple(sorted(stored.keys() - found.keys() - skipped.keys())),
            skipped,
        )


class FolderFiles:
    """A folder, and the status of its files when they were last equal to those of a state."""

    def __init__(self, path: Path, *, limit_bytes: int = STORED_FILE_BYTES) -> None:
        self.path = path
        self._limit = limit_bytes
        self._stamps: dict[str, FileStamp] = {}

    def listing(self) -> FolderEntries:
        """List the folder without reading any file."""
        entries: dict[str, os.stat_result] = {}
        root, disk_bytes = os.fspath(self.path), 0
        for path, status, cost in walk(root, stored_bytes=self._limit):
            disk_bytes += cost
            if status is not None and path != root:
                entries[path[len(root) + 1 :].replace(os.sep, "/")] = status
        return FolderEntries(entries, disk_bytes)

    def compare(self, state: Branch, listing: FolderEntries | None = None) -> FolderComparison:
        """Compare the folder with what a state has of it."""
        entries, disk_bytes = listing or self.listing()
        cached = {name: status for name, status in entries.items() if _is_cached(name, status)}
        stored = files_in(state)
        found: dict[str, bytes] = {}
        skipped: dict[str, str] = {}
        for name, status in entries.items():
            if name not in cached:
                cell = self._cell(state, name, status, skipped, stored.get(name))
                if cell is not None:
                    found[name] = cell
        for name in stored.keys() - found.keys() - skipped.keys():
            if _is_outside_link(state, name, stored[name]):
                found[name] = stored[name]  # it was never written to the folder
            elif why := _why_unseen(self.path, name):
                skipped[name] = why  # it may be there: not a removal
                for parent in PurePosixPath(name).parents:
                    found.pop(str(parent), None)  # it only looks empty
        return FolderComparison(stored, found, skipped, cached, disk_bytes)

    def stage(self, state: Branch, comparison: FolderComparison) -> FileChanges:
        """Make a state have the files of the folder; return what differs."""
        changes = comparison.changes
        for name in changes.removed:
            state.write_reserved((*FILES, name), None)
        for name in (*changes.added, *changes.changed):
            state.write_reserved((*FILES, name), comparison.found[name])
        return changes

    def restore(
        self,
        state: Branch,
        *,
        keep: Mapping[str, bytes] | None = None,
        aside: Path | None = None,
        unstored: Collection[str] | None = None,
    ) -> FileChanges:
        """Make the folder what a state says, except for `keep`, which stays as it is.

        What has to go is moved to `aside`, if given. What no state stores stays where it is; if
        `unstored` names all of that which is to stay, the rest of it goes as well.
        """
        wanted = files_in(state) | dict(keep or {})
        check_paths(state, wanted)
        entries = self.listing().entries
        here = {name: status for name, status in entries.items() if not _is_cached(name, status)}
        unknown = sorted(here.keys() - wanted.keys(), reverse=True)
        removed = [name for name in unknown if _skip_reason(name, here[name], self._limit) is None]
        if unstored is not None:
            gone = entries.keys() - wanted.keys() - set(unstored) - set(removed)
            for name in sorted(gone, reverse=True):
                _remove(self.path / name, entries[name], self.path, None)
        for name in removed:
            _remove(self.path / name, here[name], self.path, aside)
        added, changed = list[str](), list[str]()
        for name, cell in sorted(wanted.items()):
            if name in here and self._cell(state, name, here[name], {}, cell) == cell:
                continue
            content = _parse(name, state.cells.load(cell))
            if isinstance(content, str) and _leads_outside(name, content):
                continue  # it stays in the state, and is not written
            (changed if name in here else added).append(name)
            if name in here and aside is not None:
                _remove(self.path / name, here[name], self.path, aside)
            _write(self.path / name, content, self.path)
            self._note(name, os.lstat(self.path / name), cell)
        return FileChanges(tuple(added), tuple(changed), tuple(sorted(removed)))

    def _cell(
        self,
        state: Branch,
        name: str,
        status: os.stat_result,
        skipped: dict[str, str],
        stored: bytes | None,
    ) -> bytes | None:
        """Return the cell of a file in the folder; `stored` is the one that the state has."""
        stamp = self._stamps.get(name)
        # A cell that is not in the state may have been dropped with its content since.
        if stamp is not None and stamp.cell == stored and stamp.is_current(status):
            return stamp.cell
        why = _skip_reason(name, status, self._limit)
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
        """Read a file, link or empty folder in the form in which it is stored."""
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
        self._stamps[name] = FileStamp(
            status.st_size, status.st_mtime_ns, status.st_ino, status.st_mode, time.time_ns(), cell
        )


def files_in(state: StateReader) -> dict[str, bytes]:
    """Return the cells of the files that a state has, by path.

    Raises:
        Corrupt: a path leads out of the work folder. A store may come from anywhere.
    """
    cell = state.cell_at(FILES)
    if cell is None:
        return {}
    cells, unkey = state.cells, state.cells.encoding.unkey
    return {_checked_path(unkey(key)): cells.settle(part) for key, part in cells.entries(cell)}


def check_paths(state: Branch, files: Mapping[str, bytes]) -> None:
    """Refuse files that a folder cannot hold together, as after a merge of a file and a folder.

    Raises:
        Invalid: a file would have to be a folder as well.
    """
    for name in files:
        for parent in map(str, PurePosixPath(name).parents):
            cell = files.get(parent)
            if cell is not None and _parse(parent, state.cells.load(cell)) is not None:
                raise Invalid(
                    f"{parent} is a file on one branch and a folder with {name} on the other",
                    hint="undo the merge, rename one of the two, and merge again",
                )


def _checked_path(name: object) -> str:
    """Return the path of a file if it can only mean something below the work folder."""
    parts = name.split("/") if isinstance(name, str) else [""]
    is_safe = not any(part in ("", ".", "..") or "\0" in part for part in parts)
    if os.sep != "/" or os.altsep:
        is_safe = is_safe and not any({os.sep, ":"}.intersection(part) for part in parts)
    if not isinstance(name, str) or not is_safe:
        raise Corrupt(
            f"the state names a file {name!r}, which would be outside of the work folder",
            hint="do not trust this store; remove the entry, or go back to a commit without it",
        )
    return name


def _is_cached(name: str, status: os.stat_result) -> bool:
    """Tell whether something is in, or is, a folder of caches, which is never stored."""
    folders = name.split("/")
    if not stat.S_ISDIR(status.st_mode):
        folders.pop()
    return not _CACHE_FOLDERS.isdisjoint(folders)


def _why_unseen(root: Path, name: str) -> str:
    """Return why a stored file cannot be seen in a folder; nothing if it is not there."""
    folder = root
    try:
        for part in PurePosixPath(name).parts[:-1]:
            folder = folder / part
            if not stat.S_ISDIR(folder.lstat().st_mode):
                return ""
            with os.scandir(folder):
                pass
        (root / name).lstat()
    except PermissionError as error:
        return str(error.strerror)
    except OSError:
        return ""
    return ""


def _is_outside_link(state: StateReader, name: str, cell: bytes) -> bool:
    if state.cells.full_size(cell) > _LONGEST_LINK:
        return False
    content = _parse(name, state.cells.load(cell))
    return isinstance(content, str) and _leads_outside(name, content)


def _leads_outside(name: str, target: str) -> bool:
    """Tell whether a link leads out of the work folder."""
    depth = 0
    for part in name.split("/")[:-1] + target.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return target.startswith("/") or "\0" in target


def _skip_reason(name: str, status: os.stat_result, limit_bytes: int) -> str | None:
    """Return why something cannot be stored; None if it can."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its name is not valid text"
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return "it is neither a file nor a link"
    return f"it is longer than {limit_bytes:,} bytes" if status.st_size > limit_bytes else None


def _parse(name: str, content: object) -> FileContent:
    """Return the content that a state has for a file.

    Raises:
        Corrupt: it is something else.
    """
    match content:
        case {"folder": True}:
            return None
        case {"link": str(target)}:
            return target
        case {"data": bytes(data), "mode": int(mode)}:
            return data, bool(mode & 0o100)
    raise Corrupt(f"the entry of {name!r} is not a file", hint="run `otolith fsck --level deep`")


def _remove(path: Path, status: os.stat_result, root: Path, aside: Path | None) -> None:
    """Remove something, or move it aside, and the folders that become empty by that."""
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
            (root / parent).rmdir()  # fails if something is left in it
    except OSError:
        return


def _write(path: Path, content: FileContent, root: Path) -> None:
    """Write a file; whatever is in its way, and links on the way to it, are removed first."""
    for parent in reversed(path.relative_to(root).parents[:-1]):
        folder = root / parent
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
    if isinstance(content, str):
        path.symlink_to(content)
        return
    data, is_executable = content
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o755 if is_executable else 0o644), "wb") as file:
        file.write(data)
