"""The n-th call of a commit, a merge or a collection fails, for every n: of a store, of a disk, or
any line of our own code. What must be true afterwards is in `trials`, what is done in `scenarios`.

The default run takes some of the points, evenly spread; `--long` takes every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from otolith.stores import Store
from otolith.testing import Fault, FaultyStore
from tests.fault.injection import Countdown, DiskFault, FailingDisk, PointsOfCode
from tests.fault.scenarios import SCENARIOS
from tests.fault.trials import (
    InCachedSqlite,
    InKeyValue,
    InMemory,
    InSqlite,
    Place,
    Trial,
    at_point,
    evenly,
    prepared,
)

PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": lambda folder: InMemory(),
    "key-value": lambda folder: InKeyValue(),
    "sqlite": InSqlite,
    "cached": InCachedSqlite,
}
each_scenario = pytest.mark.parametrize("name", list(SCENARIOS))


@each_scenario
@pytest.mark.parametrize("where", ["memory", "key-value", "sqlite"])
def test_whatever_line_is_interrupted_nothing_is_lost_or_done_twice(tmp_path, name, where):
    error = KeyboardInterrupt if where == "sqlite" else MemoryError
    interrupt(name, PLACES[where](tmp_path), error, most=10)


@pytest.mark.long
@each_scenario
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("where", list(PLACES))
def test_whatever_is_raised_at_whatever_line_of_whatever_store(tmp_path, name, where, error):
    interrupt(name, PLACES[where](tmp_path), error, most=None)


def interrupt(name: str, place: Place, error: type[BaseException], *, most: int | None) -> None:
    scenario = SCENARIOS[name]
    code = PointsOfCode(error)
    trial = Trial(scenario, prepared(scenario, place), (error,))
    counted = Countdown()
    trial.run(lambda store: code.armed(counted))
    everything = range(1, counted.count + 1)
    numbers = list(everything if most is None else evenly(counted.turns(), most))
    unreached = 0
    for number in numbers:
        countdown = Countdown(at=number)
        with at_point(number, counted):
            trial.run(lambda store: code.armed(countdown))  # noqa: B023 - it is called at once
        # How many steps a collection takes depends on how long they take. Who was interrupted in
        # the line for a race leaves no line to the next one, whose run ends some steps earlier.
        unreached += not countdown.fired and not scenario.collects
    assert unreached <= len(numbers) // 5


class FaultyCalls:
    """Makes one of the calls fail that a store gets from now on."""

    def __init__(self, kind: Literal["refuse", "lose"], number: int = 0) -> None:
        self._kind, self._number = kind, number
        self.calls = 0

    @contextmanager
    def armed(self, store: Store) -> Iterator[None]:
        assert isinstance(store, FaultyStore)
        before = store.calls.total()
        if self._number:
            store.plan = [Fault("*", at=before + self._number, kind=self._kind)]
        try:
            yield
        finally:
            self.calls = store.calls.total() - before
            store.plan = []


without_collection = pytest.mark.parametrize(
    "name", [name for name, each in SCENARIOS.items() if not each.collects]
)


@without_collection
@pytest.mark.parametrize("kind", ["refuse", "lose"])
@pytest.mark.parametrize("where", ["memory", "key-value", "sqlite"])
def test_whatever_call_of_a_store_fails_nothing_is_lost_or_done_twice(
    tmp_path, rounds, name, where, kind
):
    scenario = SCENARIOS[name]
    trial = Trial(scenario, prepared(scenario, PLACES[where](tmp_path)))
    counted = FaultyCalls(kind)
    trial.run(counted.armed, wrap=FaultyStore)
    most = rounds(30 if where == "memory" else 3, 1 << 30)
    for number in evenly(range(1, counted.calls + 1), most):
        faulty = FaultyCalls(kind, number)
        with at_point(number, None):
            trial.run(faulty.armed, wrap=FaultyStore)


@each_scenario
@pytest.mark.parametrize("fault", ["error", "full", "short write", "lost"])
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "from then on"])
def test_whatever_call_of_the_disk_fails_nothing_is_lost_or_done_twice(
    tmp_path, rounds, name, fault, persistent
):
    scenario = SCENARIOS[name]
    with FailingDisk() as disk:
        place = InSqlite(tmp_path, vfs=disk.name, durability="full")
        trial = Trial(scenario, prepared(scenario, place), may_give_up=True)
        counted = Countdown()
        trial.run(lambda store: disk.armed(counted, fault))
        for number in evenly(affected(counted, fault), rounds(2, 1 << 30)):
            countdown = Countdown(at=number, persistent=persistent)
            with at_point(number, counted):
                trial.run(lambda store: disk.armed(countdown, fault))  # noqa: B023
            assert countdown.fired or scenario.collects


def affected(counted: Countdown, fault: DiskFault) -> list[int]:
    """Return the calls that can fail so."""
    calls = {"lost": ("xSync",), "short write": ("xWrite",), "full": ("xWrite", "xTruncate")}
    only = calls.get(fault, ("x",))
    return [number for number, call in enumerate(counted.log, 1) if call.startswith(only)]
