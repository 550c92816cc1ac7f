"""Rates: never more tasks than they say begin in any such time, and no clock holds them up."""

from __future__ import annotations

import time
from random import Random

import pytest

import otolith
from otolith.flows import Flow
from otolith.flows.rate_limits import RateLimits
from otolith.flows.storage import StoredFlow

SECOND = 1_000_000


class Times:
    """A store of what began, and two clocks that go on together, or not."""

    def __init__(self, repo):
        self.stored = StoredFlow(repo.session("rates"), "f")
        self.wall = self.process = 1_000 * SECOND
        self.limits = self.worker()

    def worker(self):
        return RateLimits(lambda: self.process / SECOND)

    def pass_time(self, microseconds):
        self.wall += microseconds
        self.process += microseconds

    def begin(self, rate, *, limits=None, latency=0):
        """Begin a task if it may; return how long it would have to wait."""
        limits = limits or self.limits
        limits.look(self.stored, {"api": rate}, self.wall)
        left = limits.seconds_to_wait(["api"])
        if not left:
            limits.use(["api"])
            limits.put(self.stored)
            self.pass_time(latency)
            limits.began(["api"])
        return left


@pytest.fixture
def times(repo):
    return Times(repo)


@pytest.mark.parametrize("rate", [(5, SECOND), (1, SECOND), (300, SECOND)])
@pytest.mark.parametrize("latency", [0, 90_000])
def test_never_more_begin_in_any_such_time(times, rate, latency):
    chance, count = Random(1), rate[0]
    began = []
    for _ in range(6 * count):
        while left := times.begin(rate, latency=chance.randint(0, latency)):
            times.pass_time(max(1, round(left * SECOND)))
        began.append(times.process)
        times.pass_time(chance.choice([0, 0, chance.randint(0, 2 * SECOND // count)]))

    gaps = [after - before for before, after in zip(began, began[count:], strict=False)]
    assert min(gaps) >= SECOND - 1


@pytest.mark.parametrize("count", [5, 300])
def test_as_many_begin_as_the_rate_allows(times, count):
    began = times.process
    for _ in range(4 * count + 1):
        while left := times.begin((count, SECOND)):
            times.pass_time(max(1, round(left * SECOND)))
        times.pass_time(SECOND // count // 2)

    assert times.process - began <= 4.2 * SECOND


def test_several_workers_keep_a_rate_together(times):
    other = times.worker()
    begun = 0
    for _ in range(40):
        begun += not times.begin((3, SECOND))
        begun += not times.begin((3, SECOND), limits=other)
        times.pass_time(SECOND // 20)

    assert begun == 6


@pytest.mark.parametrize("shift", [-3600, 3600])
def test_a_clock_that_is_set_holds_no_rate_up(times, shift):
    """The time of a run never goes back: after the clock has, it stays where it was."""
    rate = 2, SECOND
    assert [times.begin(rate) for _ in range(2)] == [0, 0]
    if shift > 0:  # it goes ahead for a moment
        times.wall += shift * SECOND
        times.begin(rate)
    begun = 0
    for _ in range(30):  # three seconds of the process
        times.process += SECOND // 10
        begun += not times.begin(rate)
    assert begun in (4, 5, 6)


def test_what_begins_by_a_rate_takes_its_time(state):
    flow, begun = Flow("f", resources={"api": 9}, rates={"api": "4/250ms"}), []
    for number in range(9):
        flow.task(lambda: begun.append(1), name=f"t{number}", needs={"api": 1})
    began = time.monotonic()

    assert state.flow(flow).work(4).status == "done"
    assert time.monotonic() - began >= 0.5
    assert len(begun) == 9


def test_what_an_earlier_version_has_stored_of_a_rate_is_not_read(repo):
    stored = StoredFlow(repo.session("rates"), "f")
    stored.put(1 << 50, "rates", "api")

    assert stored.starts("api") == []


def test_runs_on_two_branches_merge_what_began_there(repo):
    flow = Flow("f", resources={"api": 9}, rates={"api": "100/s"})
    flow.task(lambda task: task.ask("left?"), name="left", needs={"api": 1})
    flow.task(lambda task: task.ask("right?"), name="right", needs={"api": 1})
    state = repo.session("s")
    run = state.flow(flow)
    run.work()
    fork = state.fork("try")
    other = fork.flow(flow)
    run.answer("left", 1)
    other.answer("right", 2)
    run.work()
    other.work()

    assert state.merge(fork).ok
    assert run.work().status == "done"


def test_a_rate_may_be_as_high_as_you_like():
    flow = Flow("f", resources={"api": 99}, rates={"api": "100000/s"})
    for number in range(40):
        flow.task(lambda: None, name=f"t{number}", needs={"api": 1})
    with otolith.open("memory:") as repo:
        assert repo.session("s").flow(flow).work(4).status == "done"
