"""Short turns with the write lock, sized so that no writer waits long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

import apsw

from otolith.stores.sqlite.sql import roll_back

_TARGET_SECONDS = 0.012
_FIRST_SIZE = 100
_LARGEST_SIZE = 4000
_PAUSE_SECONDS = 0.006  # longer than a waiting writer sleeps between two tries


class Steps:
    """Runs transactions, learns how much fits into one, and leaves room for others between."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._size = _FIRST_SIZE
        self.longest_seconds = 0.0

    def reset(self) -> None:
        """Start small again, for another kind of work."""
        self._size = _FIRST_SIZE

    @contextmanager
    def step(self) -> Iterator[int]:
        """Hold the write lock; the number is how many things to do with it."""
        self.connection.execute("begin immediate")
        started = perf_counter()
        try:
            yield self._size
            if self.connection.in_transaction:
                self.connection.execute("commit")
        except BaseException:
            roll_back(self.connection)
            raise
        held = perf_counter() - started
        self.longest_seconds = max(self.longest_seconds, held)
        self._learn(held)
        sleep(_PAUSE_SECONDS)

    def _learn(self, held: float) -> None:
        if held > _TARGET_SECONDS:
            self._size = max(10, self._size // 2)
        elif held < _TARGET_SECONDS / 2:
            self._size = min(_LARGEST_SIZE, self._size * 3 // 2)
