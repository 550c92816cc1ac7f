"""The disk limit of a step: its work folder is measured while the step runs and at its end.

The kernel limits the length of one file, but not the number of files. So the host measures, at
little cost: ten times a second it asks the file system how much is free, which is one call. It
walks the folder only when so much is gone that the limit may be reached, and now and then in case
another program has freed as much at the same time. A walk is done in short turns, and rests for
longer than it took. A file that was removed and is still open takes space and is in no folder, so
at the end of a walk the open files of the step are added.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic

STORED_FILE_BYTES = 1 << 30
"""Longer files stay in the work folder and are not stored in any state."""

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system
_ENTRY_BYTES = 1024  # a name and an inode take space as well
_FOLDER_BYTES = 4096
_LOOK_SECONDS = 0.1
_TURN_SECONDS = 0.01
_WALK_SECONDS = 5.0
_REST_FACTOR = 20


def walk(
    folder: str | Path, *, stored_bytes: int = STORED_FILE_BYTES
) -> Iterator[tuple[str, os.stat_result | None, int]]:
    """Yield everything below a folder as its path, its status without following links, its cost.

    The cost is what it takes on the disk, or will take in a state: files up to `stored_bytes` are
    stored, with their holes. A file with two names costs once. A folder with something in it has
    no status.
    """
    seen: set[int] = set()
    waiting = [os.fspath(folder)]
    while waiting:
        path = waiting.pop()
        entries = _scan(path)
        yield path, None if entries else _status(path), _FOLDER_BYTES
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif (status := _status(entry.path)) is not None:
                is_counted = status.st_nlink > 1 and status.st_ino in seen
                seen.add(status.st_ino)
                length = status.st_size if status.st_size <= stored_bytes else 0
                on_disk: int = getattr(status, "st_blocks", 0) * _BLOCK_BYTES
                yield entry.path, status, 0 if is_counted else max(on_disk, length) + _ENTRY_BYTES


class DiskWatch:
    """Measures a folder that took `before_bytes` and may grow by `limit_bytes`.

    `processes` returns the processes whose open files count.
    """

    def __init__(
        self,
        folder: Path,
        *,
        before_bytes: int,
        limit_bytes: int,
        processes: Callable[[], Iterable[int]],
    ) -> None:
        self._folder = folder
        self._before = before_bytes
        self._limit = limit_bytes
        self._processes = processes
        self._free_then = _free_bytes(folder)
        self._grown = 0  # at the end of the last walk
        self._walk: Iterator[tuple[str, os.stat_result | None, int]] | None = None
        self._walked = 0
        now = monotonic()
        self._began = now
        self.next_look = now + _LOOK_SECONDS
        self._next_walk = now + _WALK_SECONDS
        self._no_walk_before = now

    def is_over(self) -> bool:
        """Measure, if it is time to; tell whether the step has written more than it may."""
        now = monotonic()
        if now < self.next_look:
            return False
        self.next_look = now + _LOOK_SECONDS
        if self._walk is None and now >= self._no_walk_before:
            lost_bytes = self._free_then - _free_bytes(self._folder)
            if lost_bytes >= self._limit - self._grown or now >= self._next_walk:
                self._walk, self._walked, self._began = walk(self._folder), 0, now
        return self._walk is not None and self._continue_walk(now + _TURN_SECONDS)

    def _continue_walk(self, until: float) -> bool:
        """Walk until a moment; tell whether the limit is exceeded."""
        for _, _, cost in self._walk or ():
            self._walked += cost
            if self._walked - self._before > self._limit:
                return True
            if monotonic() > until:
                return False
        now, self._walk = monotonic(), None
        self._free_then = _free_bytes(self._folder)
        self._grown = max(0, self._walked - self._before) + self._removed_bytes()
        rest = _REST_FACTOR * (now - self._began)
        self._no_walk_before, self._next_walk = now + rest, now + max(_WALK_SECONDS, rest)
        return self._grown > self._limit

    def _removed_bytes(self) -> int:
        """Return the size of removed files that the step still holds open."""
        device = self._folder.stat().st_dev
        found: dict[int, int] = {}
        for pid in self._processes():
            for entry in _scan(f"/proc/{pid}/fd"):
                status = _status(entry.path, follow=True)
                if status is None or status.st_nlink or status.st_dev != device:
                    continue
                if stat.S_ISREG(status.st_mode):
                    found[status.st_ino] = status.st_blocks * _BLOCK_BYTES
        return sum(found.values())


def _status(path: str, *, follow: bool = False) -> os.stat_result | None:
    """Return the status of a file; None if it cannot be read."""
    try:
        return os.stat(path, follow_symlinks=follow)  # noqa: PTH116  a Path would cost more
    except OSError:  # the step has removed it
        return None


def _free_bytes(folder: Path) -> int:
    """Return the free space of a file system; 0 if that is unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bfree * status.f_frsize


def _scan(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
