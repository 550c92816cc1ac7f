"""A conversation that grows: one message and one commit at a time."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from typing import NamedTuple

import otolith
from bench.commits import label, short
from bench.disk import resting_bytes
from bench.ground import SESSION, Ground, tell
from bench.peers import attempt, start
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Samples, Step, alternate, ratio
from bench.words import MESSAGE_BYTES, Words

PEERS = {
    "kvgit": "kvgit",
    "agex": "agex",
    "pickle": "pickled",
    "LangGraph SqliteSaver": "langgraph",
    "stratadb standard": "strata:standard",
}
GROW_BY_MESSAGE = {"stratadb standard"}  # the others store the whole list again each time


class Log(NamedTuple):
    """What a log took: bytes stored per byte said, and the time of its first and last commits."""

    stored: Figure
    first: Samples
    last: Samples
    slowing: float


def appending(state: otolith.Branch, count: int, *, seed: int = 6) -> Step:
    """Return a step, to be taken `count` times, that appends one message and commits it."""
    log, said = state.list("events"), messages(count, seed)

    def step() -> None:
        log.append(next(said))
        state.commit()

    return step


def messages(count: int, seed: int) -> Iterator[str]:
    """Return messages that were made beforehand, so that making them is not measured."""
    words = Words(seed)
    return iter([words.message() for _ in range(count)])


def rows(ground: Ground) -> Iterator[Row]:
    for count, disk_limit in ((ground.sizes.some_messages, 3), (ground.sizes.many_messages, 2)):
        ours = _typical([_ours(ground, count) for _ in range(ground.sizes.logs)])
        yield from _against_budget(ours, count, disk_limit)
        for name in PEERS:
            yield from _against_peer(ground, ours, count, name)


def _ours(ground: Ground, count: int) -> Log:
    """Append; the last twentieth alternates with the first of another log, in a new store."""
    tell(f"{count:,} appends")
    end = max(1, count // 20)
    blocks = min(end, 10)
    place, young = ground.place("log"), ground.place("young")
    with (
        otolith.open(place, durability="fast") as repo,
        otolith.open(young, durability="fast") as fresh,
    ):
        empty = resting_bytes(place)
        old = appending(repo.session(SESSION), count)
        new = appending(fresh.session(SESSION), count, seed=7)
        for _ in range(count - end):
            old()
        took = alternate({"last": old, "first": new}, blocks=blocks, times=end // blocks)
        stored = (resting_bytes(place) - empty) / (count * MESSAGE_BYTES)
    slowing = ratio(took["last"], took["first"])
    return Log(Figure(stored, "x"), took["first"], took["last"], slowing)


def _typical(logs: list[Log]) -> Log:
    """Return the median of several logs: each store has a salt of its own, and so its own shape."""
    stored = sorted(log.stored.value for log in logs)
    first = Samples([block for log in logs for block in log.first.blocks])
    last = Samples([block for log in logs for block in log.last.blocks])
    disk = Figure(statistics.median(stored), "x", stored[0], stored[-1])
    return Log(disk, first, last, ratio(last, first))


def _against_budget(ours: Log, count: int, disk_limit: float) -> Iterator[Row]:
    name, work = f"append-{label(count)}", f"{label(count)} appends of {MESSAGE_BYTES} B"
    disk = Budget(disk_limit, "x")
    yield Row(f"{name}-disk", f"{work}: disk / message bytes", ours.stored, budget=disk)
    flat, slower = Budget(1.5, "x", of="ratio"), f"{work}: last 5 % over first"
    yield compared(f"{name}-latency", slower, ours.last, "first 5 %", ours.first, budget=flat)


def _against_peer(ground: Ground, ours: Log, count: int, name: str) -> Iterator[Row]:
    row, work = f"append-{label(count)}-{short(name)}", f"{label(count)} appends"
    theirs = attempt(_peer, ground, name, count)
    if isinstance(theirs, Absent):
        yield Row(row, f"{work}: disk / message bytes", ours.stored, name, theirs)
        return
    yield against(f"{row}-disk", f"{work}: disk / message bytes", ours.stored, name, theirs.stored)
    yield against(f"{row}-end", f"{work}: last 5 %", time_of(ours.last), name, time_of(theirs.last))
    slowing = Figure(ours.slowing, "x"), Figure(theirs.slowing, "x")
    yield against(f"{row}-slowing", f"{work}: last 5 % over first", slowing[0], name, slowing[1])


def _peer(ground: Ground, name: str, count: int) -> Log | Absent:
    if count > ground.sizes.some_messages and name not in GROW_BY_MESSAGE:
        return Absent(f"not run: grows with the square, see {label(ground.sizes.some_messages)}")
    room = PEERS[name]
    keeper = start(room, ground.place(room.replace(":", "-")))
    if isinstance(keeper, Absent):
        return keeper
    tell(f"{count:,} appends to {name}")
    said, end = messages(count, 6), max(1, count // 20)
    keeper.settle()
    empty = resting_bytes(keeper.place)
    first, last = Samples(), Samples()
    keeper.append(next(said))  # one that was settled opens again
    first.run(lambda: keeper.append(next(said)), end)
    for _ in range(count - 2 * end - 1):
        keeper.append(next(said))
    last.run(lambda: keeper.append(next(said)), end)
    keeper.settle()
    stored = (resting_bytes(keeper.place) - empty) / (count * MESSAGE_BYTES)
    keeper.close()
    shutil.rmtree(keeper.place, ignore_errors=True)
    return Log(Figure(stored, "x"), first, last, last.p50 / first.p50)
