"""A plain Python list of many dicts that grows by one at every step."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from bench.commits import label
from bench.disk import resting_bytes
from bench.ground import Ground, tell
from bench.state.contest import Contest, Taken, Work, ours, sized, timed
from bench.state.holders import ASSIGNED_AGAIN, SYNCED, Holder, start
from bench.table import Absent, Budget, Figure, Row, time_of
from bench.words import Words

TIME_LIMIT = Budget(0.010, "s")
FLAT = Budget(1.5, "x", of="ratio")
BLOCK = 10
LONGER = 10  # so many times more appends, for a file grows by pages and not by bytes


def entry(number: int, words: str) -> dict[str, Any]:
    at = number * 37 % (len(words) - 60)
    return {"number": number, "kind": "asked", "text": words[at : at + 60], "cost": number / 7}


def entries(count: int) -> list[dict[str, Any]]:
    words = Words(41).text(10_000)
    return [entry(number, words) for number in range(count)]


def appending(count: int) -> Work:
    """Return work that appends one dict a step to a list that had this many."""
    words = Words(42).text(10_000)

    def work(holder: Holder, step: int) -> dict[str, Any]:
        log = holder.get("log")
        log.append(entry(count + step, words))
        return {"log": log}

    return work


def rows(ground: Ground) -> Iterator[Row]:
    sizes = ground.sizes
    count, steps = sizes.listed_dicts, sizes.list_steps
    contest = Contest(
        f"a list of {count:,} dicts",
        lambda: {"log": entries(count)},
        appending(count),
        steps // BLOCK,
        BLOCK,
    )
    taken = contest.run(ground)
    said = f"list of {label(count)} dicts, 1 appended x {steps}"
    yield Row("list", f"{said}: commit", time_of(ours(taken).commit), budget=TIME_LIMIT)
    yield from timed("list", f"{said}: commit", taken, note=f"{ASSIGNED_AGAIN} {SYNCED}")
    dict_bytes = len(pickle.dumps(entry(count, Words(42).text(10_000)), protocol=5))
    note = f"One dict takes {dict_bytes} bytes as a pickle of its own."

    def each(found: Taken) -> Figure:
        return Figure(found.grown_bytes / steps, "B")

    yield from sized("list-disk", f"{said}: stored per step", taken, each, note=note)
    yield from _flat(ground, count, steps * LONGER)


def _flat(ground: Ground, count: int, steps: int) -> Iterator[Row]:
    """Does what an append stores depend on how long the list is, or on how often it has grown?"""
    short = count // 10
    tell(f"what appends store at {short:,} and at {count:,}")
    few, many = (_stored_by_tenth(ground, each, steps) for each in (short, count))
    said = f"list of {label(count)} dicts, stored per append"
    mean = [sum(tenths) / len(tenths) for tenths in (many, few)]
    for name, work, large, beside, small in (
        (
            "length",
            f"{said}, over a list of {label(short)}",
            mean[0],
            f"at {label(short)}",
            mean[1],
        ),
        ("tenths", f"{said}, last tenth over first", many[-1], "first tenth", many[0]),
    ):
        figures = Figure(large, "B"), Figure(small, "B")
        ratio = large / small if small else None
        yield Row(f"list-{name}", work, figures[0], beside, figures[1], ratio, FLAT)


def _stored_by_tenth(ground: Ground, count: int, steps: int) -> list[float]:
    holder = start("ours", ground.place("list"))
    assert not isinstance(holder, Absent)
    holder.set("log", entries(count))
    holder.commit()
    work, sizes = appending(count), [resting_bytes(holder.place)]
    for step in range(steps):
        work(holder, step)
        holder.commit()
        if (step + 1) % max(1, steps // 10) == 0:
            sizes.append(resting_bytes(holder.place))
    holder.close()
    return [(after - before) / (steps // 10) for before, after in pairwise(sizes)]
