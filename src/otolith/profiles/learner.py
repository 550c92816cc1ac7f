"""The learner: what somebody prefers now, from evidence in the order of its time.

Taste stays the same for a while and then changes. When it changes nobody says. So the learner holds
several answers to "since when is taste what it is now?", each with a probability:

1. A *stretch* begins at one piece of evidence and lasts until now. In a stretch, options are chosen
   with frequencies that do not change: what was counted since its beginning estimates them.
2. With each piece of evidence, every stretch is made as much more or less probable as it has
   predicted that evidence, and one more stretch begins, with the probability `CHANGE_RATE`.
3. The confidence of an option is what all stretches together expect of it. Where taste has just
   changed, short stretches are probable; where it has not, long ones are, and they are more sure.
4. The most probable stretch tells when taste has last changed: that marks a shift. Values do not
   follow marks, but all stretches.

Counts are not copied for each stretch: there is one running total per option, and a stretch knows
where it begins. The least probable stretches are dropped, so evidence costs the same at any length.
The result is a function of the evidence alone: whoever has the same evidence learns the same.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

CHANGE_RATE = 1 / 100
"""How probable it is, before any evidence, that taste changes from one piece to the next."""
_MAX_STRETCHES = 12
_PRIOR = 0.6
"""What every option counts before there is evidence for it; one that was refused counts less."""
_CERTAIN = 1e-9
_MOST_SURE = 10.0
"""A weight beyond this makes a stretch no more or less probable."""


class Option(NamedTuple):
    """An option, by its text, and how probable it is that it is chosen next."""

    text: str
    confidence: float


class Shift(NamedTuple):
    """A change of taste: the option before and after, and the evidence from which it holds."""

    at: int
    old: str
    new: str


@dataclass(slots=True)
class _Totals:
    """The evidence for one option: at which places, and its running total up to each."""

    places: list[int] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    def before(self, place: int) -> float:
        """Return the total of what is before a place."""
        at = bisect_left(self.places, place)
        return self.totals[at - 1] if at else 0.0

    def add(self, place: int, weight: float) -> None:
        total = self.totals[-1] if self.totals else 0.0
        self.places.append(place)
        self.totals.append(total + weight)


class Learner:
    """Learns which of several options somebody prefers.

    learner = Learner()
    learner.add("aisle")
    learner.best()          # Option("aisle", 0.73)
    """

    def __init__(self) -> None:
        self._options: dict[str, _Totals] = {}
        self._all = _Totals()
        self._stretches: dict[int, float] = {0: 1.0}
        self._begun = [0]
        self._count = 0
        self._ranking: list[Option] | None = None

    def __len__(self) -> int:
        """Return how much evidence there is."""
        return self._count

    def add(self, option: str, weight: float = 1.0) -> None:
        """Learn that an option was chosen, or with a weight below zero that it was refused."""
        totals = self._options.setdefault(option, _Totals())
        place, size = self._count, max(len(self._options) + 1, 2)
        fits = {0: 1.0} if not place else self._updated(totals, weight, size)
        totals.add(place, weight)
        self._all.add(place, max(weight, 0.0))
        self._stretches = fits
        self._count += 1
        self._ranking = None
        self._mark()

    def _updated(self, totals: _Totals, weight: float, size: int) -> dict[int, float]:
        """Return the probabilities of stretches after a piece of evidence."""
        now = {
            start: probability
            * (1 - CHANGE_RATE)
            * self._likelihood(self._share(totals, start, size), weight)
            for start, probability in self._stretches.items()
        }
        now[self._count] = CHANGE_RATE * self._likelihood(1 / size, weight)
        best = sorted(now.items(), key=lambda pair: (-pair[1], -pair[0]))[:_MAX_STRETCHES]
        total = sum(probability for _, probability in best)
        if total <= 0.0:  # nothing expected this: taste begins here
            return {self._count: 1.0}
        return {start: probability / total for start, probability in best}

    @staticmethod
    def _likelihood(share: float, weight: float) -> float:
        """Return how probable the evidence is where an option has this share of the choices."""
        expected = share if weight > 0 else 1 - share
        return float(max(expected, _CERTAIN) ** min(abs(weight), _MOST_SURE))

    def _share(self, totals: _Totals, start: int, size: int) -> float:
        """Return which share of the choices of a stretch an option is expected to have."""
        mine = totals.totals[-1] if totals.totals else 0.0
        counted = mine - totals.before(start)
        chosen = counted + _PRIOR if counted >= 0 else _PRIOR / (1 - counted)
        everything = self._all.totals[-1] - self._all.before(start)
        return chosen / (max(everything, counted) + _PRIOR * size)

    def ranking(self) -> list[Option]:
        """Return the options, the best first; of equal ones, the one that was chosen last.

        What has been refused as often as chosen since taste last changed has no confidence.
        """
        if self._ranking is None:
            size = max(len(self._options) + 1, 2)
            found = [
                Option(
                    text,
                    sum(
                        probability * self._share(totals, start, size)
                        for start, probability in self._stretches.items()
                        if totals.totals[-1] > totals.before(self._begun[-1])
                    ),
                )
                for text, totals in self._options.items()
            ]
            last = {text: totals.places[-1] for text, totals in self._options.items()}
            found.sort(key=lambda option: (-round(option.confidence, 9), -last[option.text]))
            self._ranking = found
        return self._ranking

    def best(self) -> Option | None:
        """Return the option that is most probably chosen next; None without evidence."""
        return self.ranking()[0] if self._count else None

    def since(self, option: str) -> int:
        """Return the place of the first evidence for an option since taste has last changed."""
        places = self._options[option].places
        at = bisect_left(places, self._begun[-1])
        return places[min(at, len(places) - 1)]

    # Shifts

    def _mark(self) -> None:
        """Note where the most probable stretch begins; what it contradicts was a false alarm."""
        likely = max(self._stretches.items(), key=lambda pair: (pair[1], -pair[0]))[0]
        while self._begun[-1] > likely:
            self._begun.pop()
        if self._begun[-1] != likely:
            self._begun.append(likely)

    def shifts(self) -> list[Shift]:
        """Return the changes of taste that are known by now, the oldest first."""
        ends = [*self._begun[1:], self._count]
        tops = [self._top(start, end) for start, end in zip(self._begun, ends, strict=True)]
        return [
            Shift(at, old, new)
            for at, old, new in zip(self._begun[1:], tops, tops[1:], strict=False)
            if old is not None and new is not None and old != new
        ]

    def _top(self, start: int, end: int) -> str | None:
        """Return the option with most evidence between two places."""
        sums = {text: each.before(end) - each.before(start) for text, each in self._options.items()}
        best = max(sums.items(), key=lambda pair: (pair[1], pair[0]), default=None)
        return best[0] if best is not None and best[1] > 0 else None
