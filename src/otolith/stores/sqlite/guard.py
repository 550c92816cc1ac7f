"""Connections to files that may come from anywhere: nothing in them runs, no look at them lasts.

A file of a few pages can be made so that a scan of it never ends: pages of a tree that lead to each
other, each many times. So the steps of every statement are counted, and one that takes more than
any sound file of this length could need is ended. SQLite's own checks do the rest: cells must lie
inside of their page, a tree is at most twenty pages deep, no row is longer than an object.
"""

from __future__ import annotations

import os

import apsw

from otolith.stores.base import OBJECT_LIMIT_BYTES

_SAFER = {
    apsw.SQLITE_DBCONFIG_DEFENSIVE: 1,
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER: 0,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW: 0,
}
_ROW_BYTES = OBJECT_LIMIT_BYTES + (1 << 20)
_EVERY_STEPS = 100_000
_FREE_STEPS = 2_000_000  # well below a second
# A scan takes about 15 steps for a row of at least 15 bytes; a rebuild or a check, 60.
_STEPS_PER_BYTE = 8


class GuardedConnection(apsw.Connection):
    """A connection whose statements come to an end. `begin` is to be called before each."""

    def __init__(self, path: str, *, flags: int, vfs: str | None, file: str) -> None:
        super().__init__(path, flags=flags, vfs=vfs)
        for setting, value in _SAFER.items():
            self.config(setting, value)
        self.limit(apsw.SQLITE_LIMIT_LENGTH, _ROW_BYTES)
        # Not a method of this object: SQLite would then keep it, and its file, open for ever.
        self._steps = _Steps(file)
        self.set_progress_handler(self._steps.count, _EVERY_STEPS)

    def begin(self) -> None:
        """Count the steps of another statement."""
        self._steps.taken = 0


class _Steps:
    """The steps of one statement."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.taken = 0

    def count(self) -> bool:
        """Count some more; tell whether they are too many."""
        self.taken += _EVERY_STEPS
        return self.taken > _FREE_STEPS and self.taken > _STEPS_PER_BYTE * _bytes(self._file)


def _bytes(path: str) -> int:
    """Return the length of a file and its WAL; of one that cannot be seen, more than any has."""
    total = 0
    for name in (path, path + "-wal"):
        try:
            total += os.stat(name).st_size  # noqa: PTH116 - asked in the middle of a statement
        except FileNotFoundError:
            continue
        except OSError:
            return 1 << 62
    return total or 1 << 62
