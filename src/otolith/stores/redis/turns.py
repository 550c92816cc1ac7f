"""Turns of writers that race for one ref: who has just won lets the others go first.

A writer that loses a race reads the new head, merges, and tries again: some round trips, in which
the winner could commit several times more, and so win for ever. So the server tells a winner that
somebody has lost, and the winner pauses before its next write to the same ref: twice as long each
time, until nobody waits. A writer alone never pauses.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from secrets import token_hex
from time import monotonic, sleep

from otolith.stores.base import Swap

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.002, 0.064


class Turns:
    """The pauses of the writers of one store; each thread is a writer of its own."""

    def __init__(self) -> None:
        self._store = token_hex(8)
        self._threads = threading.local()

    @property
    def writer(self) -> str:
        """The name of this thread as a writer."""
        return f"{self._store} {threading.get_ident()}"

    def wait(self, swaps: Sequence[Swap]) -> None:
        """Pause before a write, if somebody waits for one of its refs."""
        pauses = self._pauses()
        if not pauses:
            return
        until = max((pauses[swap.name][0] for swap in swaps if swap.name in pauses), default=0.0)
        left = until - monotonic()
        if left > 0:
            sleep(left)

    def landed(self, swaps: Sequence[Swap], *, others_wait: bool) -> None:
        """Note whether somebody has lost a race for one of the refs of a write that landed."""
        pauses = self._pauses()
        if not others_wait and not pauses:
            return
        for swap in swaps:
            _, last = pauses.pop(swap.name, (0.0, _FIRST_PAUSE_SECONDS / 2))
            if others_wait and swap.old != swap.new:
                pause = min(2 * last, _LONGEST_PAUSE_SECONDS)
                pauses[swap.name] = (monotonic() + pause, pause)

    def _pauses(self) -> dict[str, tuple[float, float]]:
        """Return until when this thread pauses, and how long that is, by ref."""
        found: dict[str, tuple[float, float]] = self._threads.__dict__.setdefault("pauses", {})
        return found
