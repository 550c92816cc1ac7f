"""Users whose taste changes: how well it is followed, and what a profile costs as it grows.

A simulated user chooses among four options, 600 times. Each taste is drawn from a distribution that
makes some users decided and others not; it changes twice, at random, and nobody says when. An
*oracle* knows the taste of the moment and always names its best option: more cannot be reached.
Beside the learner stand what people write first: the last choice, counts of all choices, a choice
at random, and counts that fade with a half-life of ten, the best that is known to need no
parameter of its own. Seeds are fixed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from statistics import mean
from time import process_time
from typing import NamedTuple, Protocol

import otolith
from bench.ground import Ground, tell
from bench.table import Budget, Figure, Row, compared
from bench.timing import alternate
from otolith.profiles import Learner, Profile

_OPTIONS, _EVENTS, _AFTER = 4, 600, 60
_FADING = 0.5 ** (1 / 10)
_EVIDENCE = 10_000
_MICROSECOND = 1e-6


class Choice(NamedTuple):
    """What a simulated user chose, what an oracle would have named, and events since a change."""

    option: str
    oracle: str
    since_change: int


class Guess(Protocol):
    """Something that guesses the next choice."""

    def best(self) -> str | None:
        """Return the guess."""
        ...

    def add(self, option: str) -> None:
        """Take note of a choice."""
        ...


class Learned:
    """The learner of a profile."""

    def __init__(self) -> None:
        self.learner = Learner()

    def best(self) -> str | None:
        found = self.learner.best()
        return None if found is None else found.text

    def add(self, option: str) -> None:
        self.learner.add(option)


class LastChoice:
    def __init__(self) -> None:
        self._last: str | None = None

    def best(self) -> str | None:
        return self._last

    def add(self, option: str) -> None:
        self._last = option


class Counts:
    """Counts of choices, which fade by a factor with each."""

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor
        self._counts: defaultdict[str, float] = defaultdict(float)

    def best(self) -> str | None:
        return max(self._counts, key=self._counts.__getitem__, default=None)

    def add(self, option: str) -> None:
        for each in self._counts:
            self._counts[each] *= self._factor
        self._counts[option] += 1


class Random:
    def __init__(self) -> None:
        self._chance = random.Random(1)

    def best(self) -> str | None:
        return str(self._chance.randrange(_OPTIONS))

    def add(self, option: str) -> None:
        pass


def simulated_user(chance: random.Random) -> Iterator[Choice]:
    """Yield the choices of one user."""
    changes = sorted(chance.sample(range(_AFTER, _EVENTS - _AFTER), 2))
    tastes = [[chance.gammavariate(0.5, 1) for _ in range(_OPTIONS)] for _ in range(3)]
    for at in range(_EVENTS):
        number = sum(at >= change for change in changes)
        taste = tastes[number]
        option = chance.choices(range(_OPTIONS), taste)[0]
        since = at - changes[number - 1] if number else _EVENTS
        yield Choice(str(option), str(taste.index(max(taste))), since)


def rows(ground: Ground) -> Iterator[Row]:
    """Yield how well users are known, then what it costs."""
    users = ground.sizes.simulated_users
    tell(f"{users} simulated users")
    lives = [list(simulated_user(random.Random(seed))) for seed in range(users)]
    yield from _accuracy(lives)
    yield _calibration(lives)
    yield from _promises(ground)
    yield from _costs(ground)


def _accuracy(lives: list[list[Choice]]) -> Iterator[Row]:
    oracle = mean(each.oracle == each.option for life in lives for each in life[1:])
    work = f"{len(lives)} simulated users: next choice named"
    ours = 0.0
    guesses: dict[str, Callable[[], Guess]] = {
        "": Learned,
        ", counts that fade": lambda: Counts(_FADING),
        ", counts of all": Counts,
        ", the last choice": LastChoice,
        ", at random": Random,
    }
    for name, make in guesses.items():
        right, after = _right(lives, make)
        ours = ours or right
        budget = Budget(0.97, "x", of="ratio", at_least=True) if not name else None
        yield Row(
            f"user-named{name.replace(', ', '-').replace(' ', '-')}",
            f"{work}{name}",
            Figure(100 * right, "%"),
            "an oracle",
            Figure(100 * oracle, "%"),
            right / oracle,
            budget=budget,
        )
        yield Row(
            f"user-changed{name.replace(', ', '-').replace(' ', '-')}",
            f"the same{name}: in the {_AFTER} choices after a change",
            Figure(100 * after, "%"),
        )


def _right(lives: list[list[Choice]], make: Callable[[], Guess]) -> tuple[float, float]:
    """Return the share of choices that were named, of all and of those after a change."""
    named: list[bool] = []
    after: list[bool] = []
    for life in lives:
        guess = make()
        guess.add(life[0].option)
        for choice in life[1:]:
            is_right = guess.best() == choice.option
            named.append(is_right)
            if choice.since_change < _AFTER:
                after.append(is_right)
            guess.add(choice.option)
    return mean(named), mean(after)


def _calibration(lives: list[list[Choice]]) -> Row:
    """Return how far confidence is from how often it is right, by tenths."""
    said: defaultdict[int, list[tuple[float, bool]]] = defaultdict(list)
    for life in lives[: max(len(lives) // 3, 1)]:
        learner = Learner()
        for choice in life:
            best = learner.best()
            if best is not None:
                tenth = min(int(best.confidence * 10), 9)
                said[tenth].append((best.confidence, best.text == choice.option))
            learner.add(choice.option)
    total = sum(map(len, said.values()))
    off = sum(
        len(pairs) * abs(mean(p for p, _ in pairs) - mean(right for _, right in pairs))
        for pairs in said.values()
    )
    return Row(
        "user-confidence",
        "confidence and how often it is right, mean difference by tenths",
        Figure(100 * off / total, "%"),
        budget=Budget(5, "%"),
    )


def _promises(ground: Ground) -> Iterator[Row]:
    """Yield what must never happen."""
    settings = ground.sizes.explicit_settings
    ann = _profile()
    chance = random.Random(2)
    overridden = 0
    for number in range(settings):
        key = f"key {number % 100}"
        if number < 100:
            ann.set(key, "mine")
        ann.observe(key, f"other {chance.randrange(3)}")
        overridden += ann.prefer(key).value != "mine"
    yield Row(
        "user-explicit",
        f"{settings:,} pieces of evidence against what was set: overridden",
        Figure(overridden, ""),
        budget=Budget(0, ""),
    )
    lost = 0
    for number in range(100):
        for value in ("coke", "coffee", "coke"):
            ann.observe(f"drink {number}", value)
        found = ann.prefer(f"drink {number}")
        lost += found.value != "coke" or len(ann.history(f"drink {number}")) != 3
    yield Row(
        "user-again",
        "100 times a, then b, then a again: not a, or not three pieces of evidence",
        Figure(lost, ""),
        budget=Budget(0, ""),
    )


def _profile(url: str = "memory:") -> Profile:
    durability = "full" if url == "memory:" else "fast"
    return otolith.open(url, durability=durability).user("ann").profile


def _costs(ground: Ground) -> Iterator[Row]:
    """Yield what evidence costs beside much and beside little of it."""
    count = min(_EVIDENCE, ground.sizes.explicit_settings)
    tell(f"{count:,} pieces of evidence of one key")
    chance = random.Random(3)
    profiles = {}
    for name, before in (("many", count), ("few", 10)):
        ann = _profile(str(ground.place(name)))
        for number in range(before):
            ann.observe("seat", chance.choice(["aisle", "window", "aisle"]), source=f"m{number}")
            if number % 100 == 99:
                ann.commit("evidence")
        ann.commit("evidence")
        profiles[name] = ann
    numbers = iter(range(1 << 30))

    def learn(ann: Profile) -> None:
        ann.observe("seat", chance.choice(["aisle", "window"]), source=f"n{next(numbers)}")
        ann.commit("one more")

    took = alternate(
        {name: lambda ann=ann: learn(ann) for name, ann in profiles.items()},  # type: ignore[misc]
        blocks=20,
        times=10,
        clock=process_time,
    )
    yield compared(
        "user-observe",
        f"observe and commit, beside {count:,} pieces of evidence, processor",
        took["many"],
        "beside 10",
        took["few"],
        budget=Budget(1.5, "x", of="ratio"),
    )
    many = profiles["many"]
    many.set("meal", "vegetarian")
    began = process_time()
    for _ in range(1_000):
        many.prefer("seat")
        many.prefer("meal")
    yield Row(
        "user-prefer",
        f"prefer, beside {count:,} pieces of evidence, processor",
        Figure((process_time() - began) / 2_000, "s"),
        budget=Budget(50 * _MICROSECOND, "s"),
    )
    many.commit("a meal")
    began = process_time()
    many.state.repo.user("ann").profile.prefer("seat")  # type: ignore[attr-defined]
    yield Row(
        "user-open",
        f"open the profile and prefer, {count:,} pieces of evidence, processor",
        Figure(process_time() - began, "s"),
    )
    for ann in profiles.values():
        ann.state.close()  # type: ignore[attr-defined]
