"""Objects that arrive while a step is still being captured, made ready beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from otolith.agent.workspace.handover import Look, Seen
from otolith.agent.workspace.sealed import cut
from otolith.core import Cells
from otolith.errors import Invalid
from otolith.stores import Expectant

_THREADS = 2


class Arrivals:
    """What has arrived of one step. Two threads look at it and let the store get ready for it."""

    def __init__(self, cells: Cells, *, limit_bytes: int) -> None:
        self._look = Look(cells.salt)
        self._store = cells.objects.stored.store
        self._left_bytes = limit_bytes
        self._pool: ThreadPoolExecutor | None = None
        self._coming: list[Future[list[Seen]]] = []

    def add(self, descriptor: int, sizes: Sequence[int]) -> None:
        """Take objects from sealed memory.

        Raises:
            Invalid: there are more than one step may hand over.
        """
        self._left_bytes -= sum(map(abs, sizes))
        if self._left_bytes < 0:
            os.close(descriptor)
            raise Invalid("a step hands over too much", hint="keep less in one step")
        self._pool = self._pool or ThreadPoolExecutor(_THREADS, "otolith-arrivals")
        self._coming.append(self._pool.submit(self._take, descriptor, sizes))

    def all(self) -> list[Seen]:
        """Return everything, in the order in which it came.

        Raises:
            Invalid: something was not what a worker may hand over.
        """
        return [seen for each in self._coming for seen in each.result()]

    def close(self) -> None:
        """Wait for the threads, and end them."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=False)

    def _take(self, descriptor: int, sizes: Sequence[int]) -> list[Seen]:
        try:
            pieces = cut(descriptor, sizes)
        except (OSError, ValueError) as error:
            raise Invalid(f"{error}", hint="nothing was committed") from None
        finally:
            os.close(descriptor)
        if isinstance(self._store, Expectant):
            return list(map(self._look, pieces, self._store.expect(pieces)))
        return list(map(self._look, pieces))
