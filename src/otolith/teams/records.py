"""The stored form of a team: one reserved subtree of its state.

    .team / members / NAME     a member, see `members.py`
            mail / NAME        what a member has not read, the oldest first, see `messages.py`
            read / NAME        how many the member has read
            proposals / ID     a proposal with its votes, see `proposals.py`
            inbox / ID         a conflict to decide, see `inbox.py`
            settled            conflicts that were decided, the oldest first
            sessions / ID      who works on a session, see `handoff.py`

When two branches merge, messages and decided conflicts of both stay. Of who works on a session the
later record holds, of other records the later writer's fields.

What members put into records, messages and notes, is of any type. Where it cannot be read (a class
of the sender that is missing here, a pickle of another user) it is an `Opaque`, and all else is
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.core import TEAM, Path, StateReader
from otolith.errors import BadValue

MEMBERS, MAIL, READ, PROPOSALS = "members", "mail", "read", "proposals"
INBOX, SETTLED, SESSIONS = "inbox", "settled", "sessions"


class TeamRecords:
    """Reads and stages what a team stores of itself. Callers hold the lock of the state."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self.cells = state.cells

    def cell(self, *path: str) -> bytes | None:
        """Return the cell at a path below `.team`; None if there is none."""
        return self._state.cell_at((TEAM, *path))

    def outside(self, path: Path) -> bytes | None:
        """Return the cell at a path of the state."""
        return self._state.cell_at(path)

    def value(self, *path: str) -> Any:
        """Return the value at a path below `.team`; None if there is none."""
        cell = self.cell(*path)
        return None if cell is None else self.cells.load_readable(cell)

    def items(self, *path: str) -> Iterator[tuple[str, Any]]:
        """Yield the names and values of a table, in the order of the names."""
        cell = self.cell(*path)
        for key, stored in () if cell is None else self.cells.entries(cell):
            yield str(self.cells.encoding.unkey(key)), self.cells.load_readable(stored)

    def put(self, value: Any, *path: str) -> None:
        """Stage a value at a path."""
        where: Path = (TEAM, *path)
        try:
            cell = self.cells.put(value)
        except BadValue as error:
            raise BadValue(f"{'/'.join(path)}: {error.message}", hint=error.hint) from None
        self._state.write_reserved(where, cell)

    def put_cell(self, cell: bytes, *path: str) -> None:
        """Stage a cell at a path."""
        self._state.write_reserved((TEAM, *path), self.cells.loosen(cell))

    def remove(self, *path: str) -> None:
        """Stage the removal of a path; a path without a value is left alone."""
        if self.cell(*path) is not None:
            self._state.write_reserved((TEAM, *path), None)

    def append(self, value: Any, *path: str) -> int:
        """Stage an element at the end of a list; return how long it is then."""
        where: Path = (TEAM, *path)
        if self._state.cell_at(where) is None:
            self._state.write_reserved(where, self.cells.put([]))
        return self._state.extend_reserved(where, [self.cells.put(value)])

    def length(self, *path: str) -> int:
        """Return the length of a list; 0 if there is none."""
        cell = self.cell(*path)
        return 0 if cell is None else self.cells.length(cell)

    def elements(self, *path: str, start: int = 0) -> list[Any]:
        """Return the elements of a list from an index on."""
        cell = self.cell(*path)
        found = [] if cell is None else list(self.cells.elements(cell, start))
        self.cells.prefetch(found)
        return [self.cells.load_readable(each) for each in found]
