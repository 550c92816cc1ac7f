"""Many threads, one branch: disjoint commits that race, and how many get through."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import otolith
from bench.ground import SESSION, Ground, tell
from bench.peers import attempt, start
from bench.table import Absent, Budget, Figure, Row, against

Work = Callable[[int], Callable[[int], object]]
"""Given the number of a thread, what commits its n-th change."""


class Race(NamedTuple):
    """How a race went."""

    landed: int
    raised: int
    seconds: float

    @property
    def rate(self) -> Figure:
        return Figure(self.landed / self.seconds, "/s")


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    everything = sizes.threads * sizes.commits_per_thread
    work = f"{sizes.threads} threads x {sizes.commits_per_thread} commits on one branch"
    tell(work)
    races = {durability: _typical(ground, durability) for durability in ("full", "fast")}
    theirs = attempt(_kvgit, ground)
    for durability, race in races.items():
        landed = Figure(race.landed, "")
        name = f"threads-{durability}"
        budget = Budget(everything, "", at_least=True)
        yield Row(f"{name}-landed", f"{work}: landed, {durability}", landed, budget=budget)
        raised = Figure(race.raised, "")
        yield Row(f"{name}-raised", f"{work}: raised, {durability}", raised, budget=Budget(0, ""))
        rate = Absent(theirs.reason) if isinstance(theirs, Absent) else theirs.rate
        yield against(f"{name}-rate", f"{work}: per second, {durability}", race.rate, "kvgit", rate)
    if not isinstance(theirs, Absent):
        fast = races["fast"]
        them = Figure(theirs.raised, "")
        yield against("threads-kvgit", f"{work}: raised", Figure(fast.raised, ""), "kvgit", them)


def race(work: Work, *, threads: int, commits: int) -> Race:
    """Let all threads go at once; an error ends one commit, not the thread."""
    gate = threading.Barrier(threads + 1)
    landed, raised = [0] * threads, [0] * threads

    def run(number: int) -> None:
        commit = work(number)
        gate.wait()
        for turn in range(commits):
            try:
                commit(turn)
                landed[number] += 1
            except Exception:
                raised[number] += 1

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    gate.wait()
    began = perf_counter()
    for thread in running:
        thread.join()
    return Race(sum(landed), sum(raised), perf_counter() - began)


def _typical(ground: Ground, durability: str) -> Race:
    """Race a few times: the fewest that landed, the most that raised, the median time."""
    races = [_ours(ground, durability) for _ in range(ground.sizes.races)]
    landed, raised = min(each.landed for each in races), max(each.raised for each in races)
    return Race(landed, raised, statistics.median(each.seconds for each in races))


def _ours(ground: Ground, durability: str) -> Race:
    sizes = ground.sizes
    with otolith.open(ground.place("race"), durability=durability) as repo:
        first = repo.session(SESSION)
        first["begun"] = True
        first.commit()

        def work(number: int) -> Callable[[int], object]:
            state = repo.session(SESSION)

            def commit(turn: int) -> None:
                state[f"{number}-{turn}"] = turn
                state.commit()

            return commit

        done = race(work, threads=sizes.threads, commits=sizes.commits_per_thread)
        there = repo.session(SESSION)
        kept = sum(name != "begun" for name in there)
        assert kept >= done.landed, "acknowledged commits are missing"
    return done


def _kvgit(ground: Ground) -> Race | Absent:
    keeper = start("kvgit", ground.place("kvgit"))
    if isinstance(keeper, Absent):
        return keeper
    keeper.fill({"begun": True})

    def work(number: int) -> Callable[[int], object]:
        tree = keeper.repo.worktree("main")  # type: ignore[attr-defined]

        def commit(turn: int) -> None:
            tree[f"{number}-{turn}"] = turn
            tree.commit()

        return commit

    sizes = ground.sizes
    done = race(work, threads=sizes.threads, commits=sizes.commits_per_thread)
    keeper.close()
    return done
