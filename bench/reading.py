"""Reading: opening a large state, looking at the past, and what changed between two commits."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import otolith
from bench.commits import committing, label
from bench.ground import SESSION, Changes, Ground, items, key, tell
from bench.peers import Maker, Missing, attempt, peer, start
from bench.table import Absent, Budget, Figure, Row, against, time_of
from bench.timing import Samples, Step, once

_FRESH = """
import sys
from time import perf_counter
import otolith
otolith.open
began = perf_counter()
otolith.open(sys.argv[1]).session(sys.argv[2])[sys.argv[3]]
print(perf_counter() - began)
"""


def rows(ground: Ground) -> Iterator[Row]:
    yield from _opening(ground)
    yield from _past(ground)
    yield from _differences(ground)


# Opening


def _opening(ground: Ground) -> Iterator[Row]:
    keys = ground.sizes.many_keys
    place = ground.keyed(keys)
    tell(f"opening a store of {keys:,} keys")
    chance = random.Random(8)
    warm, fresh = Samples(), Samples()
    for _ in range(ground.sizes.opens):
        warm.blocks.append([_open_and_read(place, key(chance.randrange(keys)))])
    for _ in range(min(ground.sizes.opens, 10)):
        fresh.blocks.append([_in_a_fresh_process(place, key(chance.randrange(keys)))])
    work = f"open + read 1 of {label(keys)} keys"
    yield Row("open", work, time_of(warm), budget=Budget(0.010, "s"))
    yield Row("open-process", f"{work}, in a new process", time_of(fresh))
    some = ground.sizes.some_keys
    theirs = attempt(_open_kvgit, ground, some)
    yield against("open-kvgit", f"{work}; kvgit: of {label(some)}", time_of(warm), "kvgit", theirs)


def _open_and_read(place: Path, name: str) -> float:
    repos = []

    def read() -> None:
        repos.append(otolith.open(place))
        repos[0].session(SESSION)[name]

    took = once(read)
    repos[0].close()
    return took


def _in_a_fresh_process(place: Path, name: str) -> float:
    command = [sys.executable, "-c", _FRESH, str(place), SESSION, name]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _open_kvgit(ground: Ground, keys: int) -> Figure | Absent:
    try:
        maker = peer("kvgit")
    except Missing as why:
        return Absent(str(why))
    place = ground.place("kvgit")
    keeper = maker(place)
    keeper.fill(items(keys))
    keeper.close()
    samples = Samples()
    for number in range(min(ground.sizes.opens, 5)):
        samples.blocks.append([_reopen_kvgit(maker, place, key(number))])
    return time_of(samples)


def _reopen_kvgit(maker: Maker, place: Path, name: str) -> float:
    opened: list[Any] = []

    def read() -> None:
        opened.append(maker(place))
        opened[0].tree[name]

    took = once(read)
    opened[0].close()
    return took


# The past


def _past(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    tell(f"{sizes.deep_commits:,} commits to look back on")
    with otolith.open(ground.place("deep"), durability="fast") as repo:
        state = repo.session(SESSION)
        state.update(items(sizes.some_keys))
        state.commit()
        step = committing(state, Changes(sizes.some_keys, seed=9))
        for _ in range(sizes.deep_commits):
            step()
        ids = [commit.id for commit in state.log()]
        chosen = random.Random(10).sample(ids, min(sizes.reads, len(ids)))
        names = [key(number * 7 % sizes.some_keys) for number in range(len(chosen))]
        steps = [_at(repo, *where) for where in zip(chosen, names, strict=True)]
        first, again = _each(steps), _each(steps)
        back = sizes.deep_commits // 2
        far = _each([lambda: state.at(f"main~{back}")[key(1)]] * 5)
    work = f"read 1 key at 1 of {label(sizes.deep_commits)} commits"
    yield Row("past-warm", f"{work}, again", time_of(again), budget=Budget(0.001, "s"))
    yield Row("past-first", f"{work}, first time", time_of(first), budget=Budget(0.001, "s"))
    theirs = attempt(_kvgit_past, ground)
    yield against("past-kvgit", f"{work}, again; kvgit: of 100", time_of(again), "kvgit", theirs)
    yield Row("past-steps", f"read 1 key at main~{sizes.deep_commits // 2}", time_of(far))


def _at(repo: otolith.Repo, commit: str, name: str) -> Step:
    return lambda: repo.at(commit)[name]


def _each(steps: Iterable[Step]) -> Samples:
    samples = Samples()
    for step in steps:
        samples.run(step, 1)
    return samples


def _kvgit_past(ground: Ground) -> Figure | Absent:
    keeper: Any = start("kvgit", ground.place("kvgit"))
    if isinstance(keeper, Absent):
        return keeper
    keeper.fill(items(ground.sizes.some_keys))
    changes, heads = Changes(ground.sizes.some_keys), []
    for _ in range(min(100, ground.sizes.deep_commits)):
        keeper.change(*changes.next())
        heads.append(keeper.tree.head)
    steps = [lambda head=head: keeper.repo.snapshot(commit=head)[key(7)] for head in heads]
    _each(steps)
    again = _each(steps)
    keeper.close()
    return time_of(again)


# Differences


def _differences(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    keys, apart = sizes.many_keys, sizes.changes
    place = ground.keyed(keys)
    tell(f"a difference of {apart} among {keys:,} keys")
    with otolith.open(place, durability="fast") as repo:
        state = repo.session(SESSION)
        before = state.head
        changes = Changes(keys, seed=11)
        for name, value in (changes.next() for _ in range(apart)):
            state[name] = value
        after = state.commit()
    cold, warm = Samples(), Samples()
    for _ in range(5):
        with otolith.open(place, durability="fast") as repo:
            step = _diff(repo.session(SESSION), before.id if before else "", after.id)
            cold.run(step, 1)
            warm.run(step, 1)
    work = f"diff {apart} changes among {label(keys)} keys"
    yield Row("diff-cold", f"{work}, newly opened", time_of(cold), budget=Budget(0.1, "s"))
    yield Row("diff-warm", f"{work}, again", time_of(warm), budget=Budget(0.1, "s"))


def _diff(state: otolith.Branch, before: str, after: str) -> Step:
    return lambda: state.diff(before, after)
