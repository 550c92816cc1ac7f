"""A layer that tries again what failed for a moment.

Rules
1. Only `Unavailable` and its kin mean that another try may help; a full store, and every refusal,
   is raised at once.
2. Reads are repeated as they are. A batch may have landed although there was no reply, so before it
   is repeated the history of its refs is read (`has_landed`). If the first try lands only after
   that, the second is refused as stale, and the history is read once more: no batch counts twice.
   Batches of several writers that make the same move, with one time and note, count as one.
3. The pauses double, and each is a random part of that: writers that failed together do not come
   back together. A pause holds up no other session of `otolith.aio`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import random
from time import monotonic
from typing import TypeVar

from otolith import greenlets
from otolith.errors import Full, Invalid, StaleRef, Unavailable
from otolith.stores.base import Batch, Lease, Move, Store, Usage, has_landed
from otolith.stores.layers.layer import Layer
from otolith.types import Hash

_T = TypeVar("_T")
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0


class RetryingStore(Layer):
    """A store that repeats what fails, for up to `patience_seconds`.

    `wait` is called with the seconds of each pause.
    """

    awaits = True

    def __init__(
        self,
        inner: Store,
        *,
        patience_seconds: float = 30.0,
        wait: Callable[[float], None] = greenlets.pause,
    ) -> None:
        if not patience_seconds >= 0:
            raise Invalid(f"patience_seconds must be 0 or more, got {patience_seconds!r}")
        super().__init__(inner)
        self._patience_seconds = patience_seconds
        self._wait = wait
        self.retries = 0

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        return self._repeated(lambda: self.inner.read(hashes))

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically, once, however often it has to be sent."""
        is_sent = False

        def send() -> None:
            nonlocal is_sent
            if is_sent and has_landed(self.inner, batch):
                return
            try:
                self.inner.write(batch)
            except Unavailable:
                is_sent = True
                raise
            except StaleRef:
                if not is_sent or not has_landed(self.inner, batch):
                    raise

        self._repeated(send)

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        return self._repeated(lambda: self.inner.ref(name))

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        return self._repeated(lambda: self.inner.refs(prefix))

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        return self._repeated(lambda: self.inner.moves(name, limit=limit))

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        return self._repeated(lambda: self.inner.find(prefix, limit=limit))

    def usage(self) -> Usage:
        """Return how much the inner store holds."""
        return self._repeated(self.inner.usage)

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there."""
        return self._repeated(lambda: super(RetryingStore, self).holds(hashes))

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire or renew a lease; None if somebody else has it."""
        ask = super().lease
        return self._repeated(lambda: ask(name, holder, ttl_seconds=ttl_seconds))

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now."""
        ask = super().leased
        return self._repeated(lambda: ask(name))

    def _repeated(self, call: Callable[[], _T]) -> _T:
        """Return the result of a call, which is repeated while there is patience left."""
        deadline = monotonic() + self._patience_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return call()
            except Full:
                raise
            except Unavailable:
                left = deadline - monotonic()
                if left <= 0:
                    raise
            self.retries += 1
            self._wait(min(left, pause * (0.5 + random() / 2)))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
