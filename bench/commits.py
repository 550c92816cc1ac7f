"""Commits of one small change: how long they take as a state grows, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import otolith
from bench.disk import resting_bytes
from bench.ground import SESSION, Changes, Ground, items, tell
from bench.peers import Keeper, attempt, start
from bench.peers.bare import BLOB_BYTES, Bare
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Samples, Step, alternate

# Beside us at the same durability: what each peer promises when a change returns.
PEERS = {
    "full": {"stratadb always": "strata:always"},
    "fast": {"kvgit": "kvgit", "stratadb standard": "strata:standard"},
}
SLOW = {"agex": "agex", "pickle": "pickled", "LangGraph SqliteSaver": "langgraph"}


def committing(state: otolith.Branch, changes: Changes) -> Step:
    """Return a step that makes one change and commits it."""

    def step() -> None:
        key, value = changes.next()
        state[key] = value
        state.commit()

    return step


def changing(keeper: Keeper, changes: Changes) -> Step:
    return lambda: keeper.change(*changes.next())


def label(keys: int) -> str:
    """Write a number of keys the short way."""
    return (
        f"{keys // 1_000_000}M"
        if keys >= 1_000_000
        else f"{keys // 1000}k"
        if keys >= 1000
        else str(keys)
    )


def short(name: str) -> str:
    """Return a peer's name as part of the name of a row."""
    return name.split(maxsplit=1)[0].lower()


def rows(ground: Ground) -> Iterator[Row]:
    for durability in ("full", "fast"):
        yield from _timed(ground, durability)
    yield from _stored(ground)


def _timed(ground: Ground, durability: str) -> Iterator[Row]:
    sizes = ground.sizes
    few, some, many = sizes.few_keys, sizes.some_keys, sizes.many_keys
    with ExitStack() as stack:
        steps: dict[str, Step] = {}
        for keys in (few, some, many):
            state = _opened(stack, ground.keyed(keys), durability)
            steps[f"{keys} random"] = committing(state, Changes(keys))
            steps[f"{keys} warm"] = committing(state, Changes(keys, warm=True))
        bare = Bare(ground.place("bare"), durability=durability)
        stack.callback(bare.close)
        steps["bare"] = lambda: bare.insert(b"b" * BLOB_BYTES)
        peers = _started(stack, ground, PEERS[durability], some)
        others = _started(stack, ground, SLOW, some) if durability == "fast" else {}
        found = {**peers, **others}
        steps |= {
            n: changing(k, Changes(some)) for n, k in found.items() if not isinstance(k, Absent)
        }
        tell(f"commits, durability {durability}")
        for name, step in steps.items():
            Samples().run(step, _warm_up(name, sizes.warm_up))
        lengths = {name: 2 if name in SLOW else sizes.block_steps for name in steps}
        took = alternate(steps, blocks=sizes.blocks, times=lengths)
    yield from _beside_bare(took, durability, (few, some, many))
    yield from _growth(took, durability, few, many)
    yield from _beside_peers(took, durability, some, found)


def _warm_up(name: str, steps: int) -> int:
    """A bare transaction writes a page or two: it takes more of them to fill and reuse a WAL."""
    return (
        steps * 5
        if name == "bare"
        else 1
        if name in SLOW
        else steps // 5
        if name == "kvgit"
        else steps
    )


def _opened(stack: ExitStack, place: Path, durability: str) -> otolith.Branch:
    return stack.enter_context(otolith.open(place, durability=durability)).session(SESSION)


def _started(
    stack: ExitStack, ground: Ground, names: dict[str, str], keys: int
) -> dict[str, Keeper | Absent]:
    started = {}
    for name, peer in names.items():
        keeper = started[name] = attempt(_filled, peer, ground, keys)
        if not isinstance(keeper, Absent):
            stack.callback(keeper.close)
    return started


def _filled(peer: str, ground: Ground, keys: int) -> Keeper | Absent:
    keeper = start(peer, ground.place(peer.replace(":", "-")))
    if not isinstance(keeper, Absent):
        keeper.fill(items(keys))
    return keeper


def _beside_bare(
    took: dict[str, Samples], durability: str, sizes: tuple[int, ...]
) -> Iterator[Row]:
    bare = took["bare"]
    for keys in sizes:
        for path in ("random", "warm"):
            ours = took[f"{keys} {path}"]
            yield compared(
                f"commit-{label(keys).lower()}-{durability}-{path}",
                f"commit, 1 of {label(keys)} keys, {path}, {durability}",
                ours,
                "bare SQLite",
                bare,
                budget=Budget(3, "x", of="ratio"),
            )


def _growth(took: dict[str, Samples], durability: str, few: int, many: int) -> Iterator[Row]:
    for path, limit in (("random", 3), ("warm", 2)):
        large, small = took[f"{many} {path}"], took[f"{few} {path}"]
        yield compared(
            f"commit-growth-{durability}-{path}",
            f"commit at {label(many)} keys over {label(few)}, {path}, {durability}",
            large,
            f"at {label(few)}",
            small,
            budget=Budget(limit, "x", of="ratio"),
        )


def _beside_peers(
    took: dict[str, Samples], durability: str, keys: int, found: dict[str, Keeper | Absent]
) -> Iterator[Row]:
    ours = took[f"{keys} random"]
    for name, keeper in found.items():
        work = f"commit, 1 of {label(keys)} keys, random, {durability}"
        row = f"commit-{label(keys).lower()}-{durability}-{short(name)}"
        budget = Budget(0.2, "x", of="ratio") if name == "kvgit" else None
        if isinstance(keeper, Absent):
            yield Row(row, work, time_of(ours), name, keeper, None, budget)
        else:
            yield compared(row, work, ours, name, took[name], budget=budget)


def _stored(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    tell(f"disk taken by {sizes.counted_commits} commits")
    for keys in (sizes.few_keys, sizes.some_keys, sizes.many_keys):
        place = ground.keyed(keys)
        with otolith.open(place, durability="fast") as repo:
            step = committing(repo.session(SESSION), Changes(keys, seed=5))
            ours = _bytes_each(step, place, sizes.counted_commits)
        name = f"commit-disk-{label(keys).lower()}"
        work = f"disk per commit, 1 of {label(keys)} keys"
        yield Row(name, work, ours, budget=Budget(1024, "B"))
        if keys == sizes.some_keys:
            for peer, room in {**PEERS["fast"], **SLOW}.items():
                few = max(2, sizes.counted_commits // (40 if peer in SLOW else 4))
                theirs = attempt(_peer_bytes_each, ground, room, keys, few)
                yield against(f"{name}-{short(peer)}", work, ours, peer, theirs)


def _peer_bytes_each(ground: Ground, room: str, keys: int, commits: int) -> Figure | Absent:
    keeper = start(room, ground.place(room.replace(":", "-")))
    if isinstance(keeper, Absent):
        return keeper
    keeper.fill(items(keys))
    keeper.settle()
    before, step = resting_bytes(keeper.place), changing(keeper, Changes(keys, seed=5))
    for _ in range(commits):
        step()
    keeper.settle()
    grown = resting_bytes(keeper.place) - before
    keeper.close()
    return Figure(grown / commits, "B")


def _bytes_each(step: Callable[[], object], place: Path, commits: int) -> Figure:
    before = resting_bytes(place)
    for _ in range(commits):
        step()
    return Figure((resting_bytes(place) - before) / commits, "B")
