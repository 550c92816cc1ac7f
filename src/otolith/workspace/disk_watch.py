"""How much a step has written to its work folder, watched while it runs and checked at its end.

The kernel limits the length of one file, and nobody limits how many there are. So the host looks,
at little cost: ten times a second it asks the file system how much is free, which is one call. Only
when so much is gone that the limit may be reached it walks the folder, and now and then in case
somebody else has freed as much meanwhile. A walk is done in short turns, and rests for longer than
it took. A file that was removed and is still open takes space and is in no folder, so at the end of
a walk the open files of the step are looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import monotonic

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system
_ENTRY_BYTES = 1024  # a name and an inode take space as well
FOLDER_BYTES = 4096
_LOOK_SECONDS = 0.1
_TURN_SECONDS = 0.01
_WALK_SECONDS = 5.0
_REST_FACTOR = 20


def taken_bytes(status: os.stat_result, *, kept_bytes: int) -> int:
    """Return what a file costs: what it takes on the disk, or will take in a state.

    Files up to `kept_bytes` are kept in a state, with their holes.
    """
    length = status.st_size if status.st_size <= kept_bytes else 0
    on_disk: int = getattr(status, "st_blocks", 0) * _BLOCK_BYTES
    return max(on_disk, length) + _ENTRY_BYTES


class DiskWatch:
    """Looks at a folder that took `before_bytes`, and may grow by `limit_bytes`."""

    def __init__(
        self,
        folder: Path,
        *,
        before_bytes: int,
        limit_bytes: int,
        kept_bytes: int,
        processes: Callable[[], Iterable[int]],
    ) -> None:
        self._folder = folder
        self._before = before_bytes
        self._limit = limit_bytes
        self._kept_bytes = kept_bytes
        self._processes = processes
        self._free_then = _free_bytes(folder)
        self._grown = 0  # at the end of the last walk
        self._walk: Iterator[int] | None = None
        self._walked = 0
        now = monotonic()
        self._began = now
        self.next_look = now + _LOOK_SECONDS
        self._next_walk = now + _WALK_SECONDS
        self._no_walk_before = now

    def is_over(self) -> bool:
        """Look, if it is time to; tell whether the step has written more than it may."""
        now = monotonic()
        if now < self.next_look:
            return False
        self.next_look = now + _LOOK_SECONDS
        if self._walk is None and self._is_due(now):
            self._walk, self._walked, self._began = self._sizes(), 0, now
        return self._walk is not None and self._take_turn(self._walk, now + _TURN_SECONDS)

    def _is_due(self, now: float) -> bool:
        if now < self._no_walk_before:
            return False
        is_suspicious = self._free_then - _free_bytes(self._folder) >= self._limit - self._grown
        return is_suspicious or now >= self._next_walk

    def _take_turn(self, walk: Iterator[int], until: float) -> bool:
        for size in walk:
            self._walked += size
            if self._walked - self._before > self._limit:
                return True
            if monotonic() > until:
                return False
        return self._finish()

    def _finish(self) -> bool:
        now, free = monotonic(), _free_bytes(self._folder)
        self._walk = None
        self._grown = max(0, self._walked - self._before) + self._removed_bytes()
        rest = _REST_FACTOR * (now - self._began)
        self._no_walk_before, self._next_walk = now + rest, now + max(_WALK_SECONDS, rest)
        self._free_then = free
        return self._grown > self._limit

    def _sizes(self) -> Iterator[int]:
        """Yield what everything in the folder takes; a file with two names once."""
        seen: set[int] = set()
        for status in _statuses(self._folder):
            if status is None:
                yield FOLDER_BYTES
            elif status.st_nlink < 2 or status.st_ino not in seen:
                yield taken_bytes(status, kept_bytes=self._kept_bytes)
                seen.add(status.st_ino)

    def _removed_bytes(self) -> int:
        """Return what removed files take that the step still holds open."""
        device = self._folder.stat().st_dev
        opened = (entry for pid in self._processes() for entry in _entries(f"/proc/{pid}/fd"))
        found: dict[int, int] = {}
        for entry in opened:
            status = _status(entry, follows=True)
            if status is None or status.st_nlink or status.st_dev != device:
                continue
            if stat.S_ISREG(status.st_mode):
                found[status.st_ino] = status.st_blocks * _BLOCK_BYTES
        return sum(found.values())


def _statuses(folder: Path) -> Iterator[os.stat_result | None]:
    """Yield what is known of everything in a folder that is no folder, and None for each folder."""
    waiting = [os.fspath(folder)]
    while waiting:
        yield None
        for entry in _entries(waiting.pop()):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif (status := _status(entry)) is not None:
                yield status


def _status(entry: os.DirEntry[str], *, follows: bool = False) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=follows)
    except OSError:  # the step is at work there
        return None


def _free_bytes(folder: Path) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bfree * status.f_frsize


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []
