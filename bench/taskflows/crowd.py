"""Many trivial tasks at once: how many are done in a second, each result committed, none twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median
from time import perf_counter, process_time

import otolith
from bench.ground import Ground, tell
from bench.peers import attempt
from bench.table import Absent, Budget, Figure, Row, against
from otolith.flows import Flow, FlowTask, ThreadExecutor

SLOTS = 4


def rows(ground: Ground) -> Iterator[Row]:
    count, rounds = ground.sizes.crowd_tasks, ground.sizes.races
    work = f"{count:,} trivial tasks, {SLOTS} threads, every result committed"
    for durability in ("full", "fast"):
        tell(f"a crowd of {count:,} tasks, SQLite {durability}")
        found = [_done(str(ground.place("crowd")), count, durability) for _ in range(rounds)]
        rates, cpu, commits, again = zip(*found, strict=True)
        where = f"{work}, SQLite {durability}"
        rate = Figure(median(rates), "/s", min(rates), max(rates))
        budget = Budget(2000, "/s", at_least=True)
        yield Row(f"crowd-{durability}", where, rate, budget=budget)
        yield Row(f"crowd-cpu-{durability}", f"{where}: processor, each", Figure(median(cpu), "s"))
        yield Row(f"crowd-commits-{durability}", f"{where}: commits", Figure(median(commits), ""))
        name, twice = f"crowd-twice-{durability}", Figure(sum(again), "")
        yield Row(name, f"{where}: done twice", twice, budget=Budget(0, ""))
        if durability == "fast":
            continue
        tell("the same tasks in Dask")
        theirs = attempt(_dask, count, rounds)
        yield against("crowd-dask", where, rate, "Dask, nothing stored", theirs)


def _done(place: str, count: int, durability: str) -> tuple[float, float, int, int]:
    """Return tasks a second, seconds of the processor for each, commits, and tasks done twice."""
    calls: Counter[int] = Counter()

    def one(number: int) -> int:
        calls[number] += 1
        return number + 1

    flow = Flow("crowd")
    first = flow.add(FlowTask("t0", function=one, inputs={"number": 0}))
    for number in range(1, count):
        flow.add(FlowTask(f"t{number}", call=first, inputs={"number": number}))
    with otolith.open(place, durability=durability) as repo, ThreadExecutor(SLOTS) as executor:
        state = repo.session("bench")
        run = state.flow(flow)
        began, spent = perf_counter(), process_time()
        run.work(executor=executor)
        took, spent = perf_counter() - began, process_time() - spent
        commits = len(list(state.log()))
    with otolith.open(place) as repo:
        results = repo.session("bench").flow(key="crowd").results()
        assert results == {f"t{number}": number + 1 for number in range(count)}
    return count / took, spent / count, commits, sum(calls.values()) - count


def _dask(count: int, rounds: int) -> Figure | Absent:
    """Return how many of the same tasks Dask does in a second."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        return Absent(f"not installed ({error.name or error})")
    rates = []
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=SLOTS // 2, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for turn in range(rounds):
            began = perf_counter()
            futures = [client.submit(_plus_one, each, turn) for each in range(count)]
            assert client.gather(futures) == [each + 1 for each in range(count)]
            rates.append(count / (perf_counter() - began))
    return Figure(median(rates), "/s", min(rates), max(rates))


def _plus_one(number: int, _: int) -> int:
    return number + 1
