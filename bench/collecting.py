"""Garbage collection beside writers: how long it takes, and how long it keeps them waiting."""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import otolith
from bench.commits import committing
from bench.ground import ROOT, SESSION, Changes, Ground, items, tell
from bench.peers import attempt, start
from bench.table import Absent, Budget, Figure, Row, against
from otolith.core import BareRepo, links
from otolith.stores import CollectionReport, Collector

CALM_SECONDS = 1.0
PAUSE_SECONDS = 0.002  # between the commits of a writer; without, two of them fill the disk's time
KEYS = 200


class Waits(NamedTuple):
    """When each commit began and how long it took; the clock is one for all processes."""

    thread: list[tuple[float, float]]
    process: list[tuple[float, float]]

    def longest(self, start: float, stop: float) -> tuple[float, float]:
        """Return the longest commit that was under way between two moments, on both sides."""
        return _longest(self.thread, start, stop), _longest(self.process, start, stop)


class Round(NamedTuple):
    """One collection."""

    seconds: float
    calm: tuple[float, float]
    during: tuple[float, float]
    collected: CollectionReport


def rows(ground: Ground) -> Iterator[Row]:
    count, times = ground.sizes.dropped_commits, ground.sizes.collections
    rounds = [_round(ground, count, PAUSE_SECONDS) for _ in range(times)]
    busy = [_round(ground, count, 0) for _ in range(times)]
    work = f"gc of {count:,} dropped commits"
    taken = _figure([each.seconds for each in rounds])
    yield Row("gc", f"{work}, beside 2 writers", taken, budget=Budget(1, "s"))
    yield from _waits("gc-wait", "", rounds, Budget(0.05, "s"))
    held = _figure([each.collected.longest_block_seconds for each in (*rounds, *busy)])
    yield Row("gc-held", "longest time gc held the write lock", held, budget=Budget(0.05, "s"))
    without_rest = _figure([each.seconds for each in busy])
    yield Row("gc-busy", f"{work}, beside 2 restless writers", without_rest)
    yield from _waits("gc-busy-wait", ", restless", busy, None)
    result = attempt(_kvgit, ground, count)
    theirs, wait = (result, result) if isinstance(result, Absent) else result
    yield against("gc-kvgit", work, taken, "kvgit", theirs)
    ours = _figure([each.during[0] for each in rounds])
    waiting = "longest commit of another thread during gc"
    yield against("gc-wait-kvgit", waiting, ours, "kvgit", wait)


def _waits(name: str, how: str, rounds: list[Round], budget: Budget | None) -> Iterator[Row]:
    for side, who in enumerate(("thread", "process")):
        during = _figure([each.during[side] for each in rounds])
        calm = _figure([each.calm[side] for each in rounds])
        work = f"longest commit of another {who} during gc{how}"
        ratio = during.value / calm.value if calm.value else None
        yield Row(f"{name}-{who}", work, during, "without gc", calm, ratio, budget)


def collect(repo: BareRepo) -> CollectionReport:
    """Drop all that nothing names."""
    if importlib.util.find_spec("otolith.care") is not None:
        care = import_module("otolith.care")
        if hasattr(care, "prune"):
            pruned: CollectionReport = care.prune(repo, expire_seconds=0)
            return pruned
    if not isinstance(repo.store, Collector):
        raise TypeError("this store does not collect")
    return repo.store.collect(links, forget_moves_before=repo.clock())


def littered(place: Path, commits: int) -> None:
    """Make a store and drop a branch of many commits in it."""
    with otolith.open(place, durability="fast") as repo:
        state = repo.session(SESSION)
        state.update(items(KEYS))
        state.commit()
        step = committing(state.fork("scratch"), Changes(KEYS, seed=12))
        for _ in range(commits):
            step()
        repo.delete_branch(SESSION, "scratch")


def _round(ground: Ground, commits: int, pause_seconds: float) -> Round:
    place = ground.place("litter")
    littered(place, commits)
    tell(f"gc of {commits:,} dropped commits")
    with otolith.open(place) as repo, _writers(repo, place, pause_seconds) as finish:
        began = time.monotonic()
        time.sleep(CALM_SECONDS)
        start = time.monotonic()
        collected = collect(repo)
        stop = time.monotonic()
        time.sleep(CALM_SECONDS / 4)
        waits = finish()
    return Round(stop - start, waits.longest(began, start), waits.longest(start, stop), collected)


@contextmanager
def _writers(repo: BareRepo, place: Path, pause_seconds: float) -> Iterator[Callable[[], Waits]]:
    """Keep a thread and a process committing until asked to finish."""
    stop, mine = threading.Event(), []
    thread = threading.Thread(
        target=lambda: mine.extend(keep_committing(repo, "thread", pause_seconds, stop))
    )
    command = [sys.executable, "-m", "bench.collecting", str(place), str(pause_seconds)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is committing
    thread.start()

    def finish() -> Waits:
        stop.set()
        thread.join()
        theirs, _ = process.communicate("stop\n")
        return Waits(mine, [(began, took) for began, took in json.loads(theirs)])

    try:
        yield finish
    finally:
        stop.set()
        thread.join()
        if process.poll() is None:
            process.kill()
        process.communicate()


def keep_committing(
    repo: BareRepo, session: str, pause_seconds: float, over: threading.Event
) -> list[tuple[float, float]]:
    """Commit small changes until it is over; return when each began and what it took."""
    step = committing(repo.session(session), Changes(KEYS))
    waits = []
    while not over.wait(pause_seconds):
        began = time.monotonic()
        step()
        waits.append((began, time.monotonic() - began))
    return waits


def _longest(waits: list[tuple[float, float]], start: float, stop: float) -> float:
    return max(
        (took for began, took in waits if began < stop and began + took > start), default=0.0
    )


def _figure(values: list[float]) -> Figure:
    return Figure(statistics.median(values), "s", min(values), max(values))


def _kvgit(ground: Ground, commits: int) -> tuple[Figure | Absent, Figure | Absent]:
    keeper = start("kvgit", ground.place("kvgit"))
    if isinstance(keeper, Absent):
        return keeper, keeper
    tell(f"gc of {commits} dropped commits in kvgit")
    keeper.fill(items(KEYS))
    repo = keeper.repo  # type: ignore[attr-defined]
    repo.branches.create("scratch", at=keeper.tree.head)  # type: ignore[attr-defined]
    scratch, changes = repo.worktree("scratch"), Changes(KEYS, seed=12)
    for _ in range(commits):
        name, value = changes.next()
        scratch[name] = value
        scratch.commit()
    repo.branches.delete("scratch")
    stop, waits = threading.Event(), []
    changes = Changes(KEYS)

    def write() -> None:
        while not stop.is_set():
            began = time.monotonic()
            keeper.change(*changes.next())
            waits.append((began, time.monotonic() - began))

    thread = threading.Thread(target=write)
    thread.start()
    began = time.monotonic()
    try:
        repo.gc(min_age=0)
    finally:
        took = time.monotonic() - began
        stop.set()
        thread.join()
    keeper.close()
    return Figure(took, "s"), Figure(_longest(waits, began, began + took), "s")


def _child(place: Path, pause_seconds: float) -> None:
    over = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        over.set()

    with otolith.open(place) as repo:
        threading.Thread(target=listen, daemon=True).start()
        print("ready", flush=True)
        print(json.dumps(keep_committing(repo, "process", pause_seconds, over)))


if __name__ == "__main__":
    _child(Path(sys.argv[1]), float(sys.argv[2]))
