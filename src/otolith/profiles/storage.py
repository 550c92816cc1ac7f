"""The stored form of a profile: one reserved subtree of the state of a user.

    .profile / set / KEY / STAMP        what the user set and unset, see `evidence.py`
               evidence / KEY / STAMP   what was said, chosen and liked
               forgotten / DIGEST       the time up to which nothing of a key is known any more
               purposes / NAME          consent, retention and description of a purpose
               settings / NAME          a setting of the application: its type and default
               read / THREAD            how far a conversation was read

Evidence is a map by stamp: two branches that learn at once have the evidence of both after a merge,
in the same order whichever is merged into which. What was set is apart, so that it is found beside
any amount of evidence. A forgotten key leaves no name behind, but a digest of it; of two times the
later holds, so what one branch forgot stays forgotten. Of two edits of a purpose or a setting the
later one holds; a consent that one side took back is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.core import PROFILE, Path, StateReader, digest
from otolith.errors import BadValue, Corrupt, Erased
from otolith.profiles.evidence import Evidence, stamp_time
from otolith.shapes import fits

SET, EVIDENCE, FORGOTTEN = "set", "evidence", "forgotten"
PURPOSES, SETTINGS, READ = "purposes", "settings", "read"


def key_digest(key: str) -> str:
    """Return the name under which is stored that a key was forgotten."""
    return digest(f"profile\0{key}".encode())[:16].hex()


class StoredProfile:
    """Reads and stages the parts of a profile. Callers hold the lock of the state."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self.is_erased = False

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a path below `.profile`; None if there is none.

        Raises:
            Erased: this handle has erased the user.
        """
        if self.is_erased:
            raise Erased("this user was erased", hint="if they come back, begin with another id")
        return self._state.cell_at((PROFILE, *path))

    def value(self, *path: str) -> Any:
        """Return the value at a path below `.profile`; None if there is none."""
        cell = self.cell(*path)
        return None if cell is None else self._state.cells.load(cell)

    def names(self, table: str) -> list[str]:
        """Return the names in a table, in their order."""
        cell, cells = self.cell(table), self._state.cells
        if cell is None:
            return []
        return [str(cells.encoding.unkey(key)) for key, _ in cells.entries(cell)]

    def put(self, value: Any, *path: str) -> None:
        """Stage a value at a path; an equal value is not written again.

        Raises:
            BadValue: the value cannot be stored.
            ReadOnly: the state is a snapshot.
        """
        where: Path = (PROFILE, *path)
        try:
            cell = self._state.cells.put(value)
        except BadValue as error:
            raise BadValue(f"{'/'.join(path)}: {error.message}", hint=error.hint) from None
        if self._state.cell_at(where) != cell:
            self._state.write_reserved(where, cell)

    def remove(self, *path: str) -> None:
        """Stage the removal of a path; a path without a value is left alone."""
        if self.cell(*path) is not None:
            self._state.write_reserved((PROFILE, *path), None)

    # Evidence

    def known_keys(self) -> list[str]:
        """Return the keys of which anything is known, in their order."""
        return sorted({*self.names(SET), *self.names(EVIDENCE)})

    def knows(self, key: str) -> bool:
        """Tell whether anything is known of a key."""
        return any(self.cell(table, key) is not None for table in (SET, EVIDENCE))

    def add(self, evidence: Evidence) -> None:
        """Stage a piece of evidence."""
        self.put(evidence.to_data(), _table(evidence), evidence.key, evidence.stamp)

    def drop(self, evidence: Evidence) -> None:
        """Stage the removal of a piece of evidence."""
        table, key = _table(evidence), evidence.key
        self.remove(table, key, evidence.stamp)
        cell = self.cell(table, key)
        if cell is not None and not self._state.cells.length(cell):
            self.remove(table, key)

    def forget(self, key: str, time: int) -> None:
        """Stage the removal of all that is known of a key up to a time."""
        self.remove(SET, key)
        self.remove(EVIDENCE, key)
        self.put(time, FORGOTTEN, key_digest(key))

    def history(self, key: str) -> list[Evidence]:
        """Return all evidence of a key, the oldest first."""
        forgotten = self.forgotten(key)  # a branch that did not know may have brought it back
        found = [
            each for each in (*self.settled(key), *self.evidence(key)) if each.time > forgotten
        ]
        return sorted(found, key=lambda each: each.stamp)

    def settled(self, key: str) -> list[Evidence]:
        """Return what was set and unset, the oldest first."""
        return list(self._read_all(SET, key))

    def evidence(self, key: str) -> Iterator[Evidence]:
        """Yield what was said, chosen and liked, the oldest first."""
        return self._read_all(EVIDENCE, key)

    def newest(self, key: str, count: int) -> list[Evidence]:
        """Return the newest of what was said, chosen and liked, the oldest of it first."""
        return [self._read(EVIDENCE, key, *entry) for entry in self._last(EVIDENCE, key, count)]

    def count(self, key: str) -> int:
        """Return how much was said, chosen and liked."""
        cell = self.cell(EVIDENCE, key)
        return 0 if cell is None else self._state.cells.length(cell)

    def ids(self, key: str) -> set[str]:
        """Return the ids of what was said, chosen and liked."""
        cells, cell = self._state.cells, self.cell(EVIDENCE, key)
        names = () if cell is None else (name for name, _ in cells.entries(cell))
        return {str(cells.encoding.unkey(name)).partition(".")[2] for name in names}

    def last_time(self, key: str) -> int:
        """Return the time of the last evidence of a key; -1 without any."""
        unkey = self._state.cells.encoding.unkey
        last = [entry for table in (SET, EVIDENCE) for entry in self._last(table, key, 1)]
        return max((stamp_time(str(unkey(name))) for name, _ in last), default=-1)

    def _last(self, table: str, key: str, count: int) -> list[tuple[bytes, bytes]]:
        """Return the last stamps and cells of a key, in order."""
        cells, cell = self._state.cells, self.cell(table, key)
        if cell is None or not count:
            return []
        link = cells.tree(cell)
        if link is None:
            return sorted(cells.entries(cell))[-count:]
        return cells.maps.last_items(link, count)

    def _read_all(self, table: str, key: str) -> Iterator[Evidence]:
        cells, cell = self._state.cells, self.cell(table, key)
        for name, stored in () if cell is None else cells.entries_from(cell, b""):
            yield self._read(table, key, name, stored)

    def _read(self, table: str, key: str, name: bytes, stored: bytes) -> Evidence:
        cells = self._state.cells
        found = Evidence.from_data(key, str(cells.encoding.unkey(name)), cells.load(stored))
        if _table(found) != table:
            raise Corrupt(
                f".profile/{table}/{key} has a {found.kind}", hint="run otolith fsck, or forget it"
            )
        return found

    def forgotten(self, key: str) -> int:
        """Return the time up to which nothing of a key is known any more; -1 if it never was."""
        found = self.value(FORGOTTEN, key_digest(key))
        return found if fits(found, int) else -1


def _table(evidence: Evidence) -> str:
    """Return the table that evidence is in."""
    return SET if evidence.is_explicit else EVIDENCE
