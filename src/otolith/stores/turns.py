"""Turns of writers that race for one ref: who has just won lets the others go first.

A writer that loses a race reads the new head, merges, and tries again: some round trips, in which
the winner could commit several times more, and so win for ever. So the server tells a winner who
has lost, and the winner pauses before its next write to the same ref: twice as long each time that
the same writer has lost to it again. A writer alone never pauses.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from secrets import token_hex
from time import monotonic
from typing import NamedTuple

from otolith import greenlets
from otolith.stores.base import Swap

_FIRST_SECONDS, _LONGEST_SECONDS = 0.004, 0.064


class _Pause(NamedTuple):
    """How long a writer pauses, until when, and for whom."""

    seconds: float
    until: float
    loser: bytes


class WriterTurns:
    """The pauses of the writers of one store; each thread is a writer of its own.

    A store asks `wait` before each write and names its `writer` to the server; it tells `landed`
    who has lost a race for the same ref a moment ago, if the server knows somebody.
    """

    def __init__(self) -> None:
        self._store = token_hex(8).encode()
        self._threads = threading.local()

    @property
    def writer(self) -> bytes:
        """The name of this thread as a writer."""
        return b"%s %d" % (self._store, threading.get_ident())

    def wait(self, swaps: Sequence[Swap]) -> None:
        """Pause before a write, if somebody waits for one of its refs."""
        pauses = self._pauses()
        if not pauses:
            return
        until = max((pauses[swap.name].until for swap in swaps if swap.name in pauses), default=0.0)
        left = until - monotonic()
        if left <= 0:
            return
        greenlets.pause(left)

    def landed(self, swaps: Sequence[Swap], *, loser: bytes | None) -> None:
        """Note who has lost a race for one of the refs of a write that landed, if anybody."""
        pauses = self._pauses()
        if not loser and not pauses:
            return
        for swap in swaps:
            last = pauses.pop(swap.name, None)
            if loser and swap.old != swap.new:
                pause = _FIRST_SECONDS
                if last is not None and last.loser == loser:
                    pause = min(2 * last.seconds, _LONGEST_SECONDS)
                pauses[swap.name] = _Pause(pause, monotonic() + pause, loser)

    def _pauses(self) -> dict[str, _Pause]:
        """Return the pauses of this thread, by ref."""
        found: dict[str, _Pause] = self._threads.__dict__.setdefault("pauses", {})
        return found
