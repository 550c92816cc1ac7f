"""What providers counted, and what that says about estimates.

    usage    [how many messages there were, tokens of the input, tokens of the output,
              the estimate of the input, the index of the first message that was sent]

Between two requests that began alike, the difference of what was counted belongs to the messages
that came in between: estimates of these are scaled to it. All others are scaled as the last request
says as a whole. Factors are rounded up to sixteenths, so that a context does not shift with each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_LEAST, _MOST = 0.25, 4.0
LATEST = 64
"""How many requests back are looked at."""


class Anchor(NamedTuple):
    """What a provider counted for one request."""

    stop: int
    input: int
    output: int
    estimate: int
    start: int = 0


class Scale:
    """By what an estimate is to be multiplied, depending on where its message is."""

    def __init__(self, anchors: Sequence[Anchor] = ()) -> None:
        usable = [anchor for anchor in anchors if anchor.estimate > 0 and anchor.input > 0]
        self._stops: list[int] = []
        self._factors: list[float] = []
        for before, after in pairwise(usable):
            counted, estimated = after.input - before.input, after.estimate - before.estimate
            alike = before.start == after.start and before.stop < after.stop
            if alike and counted > 0 and estimated > 0 and before.stop >= self._end():
                self._stops += [before.stop, after.stop]
                self._factors.append(_rounded(counted / estimated))
        last = usable[-1] if usable else None
        self.whole = 1.0 if last is None else _rounded(last.input / last.estimate)

    def _end(self) -> int:
        return self._stops[-1] if self._stops else 0

    def at(self, index: int) -> float:
        """Return the factor for a message."""
        place = bisect_right(self._stops, index)
        return self._factors[place // 2] if place % 2 else self.whole

    def apply(self, index: int, tokens: int) -> int:
        """Return an estimate as the providers' counts would have it."""
        factor = self.at(index)
        return tokens if factor == 1.0 else -int(-tokens * factor // 1)


def _rounded(factor: float) -> float:
    return -(-min(max(factor, _LEAST), _MOST) * 16 // 1) / 16
