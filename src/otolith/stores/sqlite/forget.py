"""Forgetting old moves, from the old end of each ref's history."""

from __future__ import annotations

from collections.abc import Callable

from otolith.stores.sqlite.connections import Connections
from otolith.stores.sqlite.history import History, MoveRow
from otolith.stores.sqlite.refs import Refs, Row
from otolith.stores.sqlite.steps import Steps


class Forgetting:
    """Cuts histories before a time.

    Clocks jump, so times need not ascend along a history; it is cut below its lowest move that is
    young enough, and never gets a hole.
    """

    def __init__(self, connections: Connections, refs: Refs, history: History, before: int) -> None:
        self._connections = connections
        self._refs = refs
        self._history = history
        self._before = before

    def doomed(self) -> set[int]:
        """Return the moves that would go."""
        return {move.seq for row in self._rows() for move in self._old_end(row)[1]}

    def run(self, steps: Steps, tell: Callable[[str, int, int], None]) -> int:
        """Forget them; return how many went."""
        rows = self._rows()
        forgotten = 0
        for place, row in enumerate(rows):
            forgotten += self._shorten(steps, row)
            tell("forget", place + 1, len(rows))
        return forgotten

    def _rows(self) -> list[Row]:
        if self._before <= 0:
            return []
        with self._connections.reading() as connection:
            return self._refs.rows(connection)

    def _old_end(self, row: Row) -> tuple[MoveRow | None, list[MoveRow]]:
        """Return the lowest move that stays, and those below it, newest first."""
        with self._connections.reading() as connection:
            chain = self._history.chain(connection, row.last, None)
        keep = 0
        for place, move in enumerate(chain):
            if move.time >= self._before:
                keep = place + 1
        return (chain[keep - 1] if keep else None), chain[keep:]

    def _shorten(self, steps: Steps, row: Row) -> int:
        lowest, old = self._old_end(row)
        forgotten = 0
        while old:
            with steps.step() as size:
                some = old[-size:]
                rest = old[: len(old) - len(some)]
                above = rest[-1] if rest else lowest
                if above is not None:
                    self._history.cut(steps.connection, above, some[0])
                elif not self._release(steps, row):
                    break
                steps.connection.executemany(
                    "delete from move where seq=?", [(move.seq,) for move in reversed(some)]
                )
            old = rest
            forgotten += len(some)
        return forgotten

    def _release(self, steps: Steps, row: Row) -> bool:
        """Let a ref forget its last move, unless it has moved again meanwhile."""
        connection = steps.connection
        now = self._refs.get(connection, row.name)
        if now is None or now.last != row.last:
            return False
        if now.hash is None:
            change = self._refs.drop(connection, now)
        else:
            change = self._refs.put(connection, now, now.name, now.hash, 0)
        self._refs.add_to_total(connection, change)
        return True
