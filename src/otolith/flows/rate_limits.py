"""RateLimits: which tasks may begin now that need a resource with a rate, such as 10/s.

    .flows / <key> / rates / <name>    [[time, number of tasks], ...]: those that began last

Rules
1. Never more than n tasks begin in any such time, wherever it is cut. So what began in the last
   second is known, not only how many: several that began almost together are one entry, under the
   time of its last.
2. Several workers keep a rate together, by the time of the commit that begins a task. What one
   worker begins, it also counts by the clock of its process: a commit may take a while to land.
3. Time passes by either clock, that of the repo or that of the process: one that was set back holds
   nothing up. Times that are stored never go back, so they may be ahead of a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from otolith.flows.storage import RATES, StoredFlow

Rate = tuple[int, int]
"""How many tasks, and in how many microseconds."""

_ENTRIES = 64  # a rate of thousands is counted in so many parts of its time
_MICROSECONDS = 1_000_000


class RateLimits:
    """The rates of one run, as one worker keeps them."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Make it; `clock` is that of the process, in seconds."""
        self._clock = clock
        self._rates: Mapping[str, Rate] = {}
        self._starts: dict[str, list[list[int]]] = {}  # as they are staged now
        self._now: dict[str, int] = {}
        self._seen: dict[str, tuple[list[list[int]], float]] = {}  # since when, by our clock
        self._own: dict[str, deque[float]] = {}
        self._added: set[str] = set()

    def __repr__(self) -> str:
        return f"<RateLimits {', '.join(self._rates) or 'none'}>"

    def look(self, stored: StoredFlow, rates: Mapping[str, Rate], now: int) -> None:
        """Read what has begun, at the begin of a transaction."""
        self._rates, self._added = rates, set()
        for name in rates:
            starts = stored.starts(name)
            last = max([at for at, _ in starts], default=0)
            before, since = self._seen.get(name, ([], 0.0))
            if name not in self._seen or before != starts:
                since = self._clock()
                self._seen[name] = [[*each] for each in starts], since
            passed = round((self._clock() - since) * _MICROSECONDS)
            self._starts[name] = starts
            self._now[name] = max(now, last + passed)

    def limited(self, needs: Iterable[str]) -> list[str]:
        """Return the resources among these that have a rate."""
        return [name for name in needs if name in self._rates] if self._rates else []

    def seconds_to_wait(self, needs: Iterable[str]) -> float:
        """Return how long a task has to wait that needs these; 0 if it may begin."""
        return max([0.0, *(self._seconds(name) for name in self.limited(needs))])

    def _seconds(self, name: str) -> float:
        count, unit = self._rates[name]
        now, left, wait = self._now[name], count, 0
        for at, number in reversed(self._starts[name]):
            left -= number
            if left <= 0:
                wait = at + unit - now
                break
        own = self._own.get(name, deque())
        mine = own[0] + unit / _MICROSECONDS - self._clock() if len(own) == count else 0.0
        return max(0.0, wait / _MICROSECONDS, mine)

    def use(self, needs: Iterable[str]) -> None:
        """Note that a task begins in this transaction."""
        for name in self.limited(needs):
            count, unit = self._rates[name]
            now, starts = self._now[name], self._starts[name]
            self._added.add(name)
            step = max(1, unit // _ENTRIES)
            if starts and now // step == starts[-1][0] // step:
                starts[-1] = [now, starts[-1][1] + 1]
            else:
                starts.append([now, 1])
            self._starts[name] = [each for each in starts if each[0] > now - unit][-count:]

    def put(self, stored: StoredFlow) -> None:
        """Stage what begins in this transaction."""
        for name in sorted(self._added):
            stored.put(self._starts[name], RATES, name)
        self._added = set()

    def began(self, needs: Iterable[str]) -> None:
        """Note that a task runs from now on, by the clock of the process."""
        for name in self.limited(needs):
            count, _ = self._rates[name]
            own = self._own.setdefault(name, deque(maxlen=count))
            own.append(self._clock())


def rates_in_seconds(rates: Mapping[str, Rate]) -> dict[str, tuple[int, float]]:
    """Return rates with their times in seconds."""
    return {name: (count, unit / _MICROSECONDS) for name, (count, unit) in rates.items()}
