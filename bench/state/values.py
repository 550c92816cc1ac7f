"""Many values, of which one changes in place at every step."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator
from typing import Any

from bench.ground import Ground, key
from bench.state.contest import Contest, Taken, Work, megabytes, ours, sized, timed
from bench.state.holders import ASSIGNED_AGAIN, SYNCED, Holder
from bench.table import Absent, Budget, Figure, Row, time_of
from bench.words import Words

DISK_LIMIT = 2.2 / 2.0  # of the bytes of information
ONE_READ, ALL_READ = Budget(0.001, "s"), Budget(0.005, "s")
BLOCK = 10
BY_VALUE = ("kvgit", "agex", "diskcache")
VERSIONED = ("kvgit", "agex")


def contents(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Return values of some ten thousand bytes, as pickle counts: most are numbers at random."""
    chance, words = random.Random(seed), Words(seed)
    return [
        {
            "id": number,
            "tags": ["new", "open"],
            "owner": None,
            "scores": [chance.random() for _ in range(500)],
            "counts": [chance.getrandbits(62) for _ in range(100)],
            "rows": [{"at": chance.random(), "n": chance.getrandbits(62)} for _ in range(120)],
            "text": words.text(1000),
        }
        for number in range(count)
    ]


def renew(value: dict[str, Any], content: dict[str, Any]) -> None:
    """Change all that a value holds, in its own lists and dicts."""
    value["scores"][:] = content["scores"]
    value["counts"][:] = content["counts"]
    for row, new in zip(value["rows"], content["rows"], strict=True):
        row.update(new)
    value["text"] = content["text"]


def renewing(count: int, steps: int, *, reads_all: bool) -> Work:
    """Return work that changes all of one value a step."""
    new = contents(steps, seed=31)

    def work(holder: Holder, step: int) -> dict[str, Any]:
        names = [key(number) for number in range(count)] if reads_all else [key(step % count)]
        values = {name: holder.get(name) for name in names}
        name = key(step % count)
        renew(values[name], new[step])
        return {name: values[name]}

    return work


def touching(count: int) -> Work:
    """Return work that changes one number in one value a step, where all were read."""

    def work(holder: Holder, step: int) -> dict[str, Any]:
        values = {key(number): holder.get(key(number)) for number in range(count)}
        name = key(step * 7 % count)
        values[name]["counts"][0] = step
        return {name: values[name]}

    return work


def large(count: int) -> dict[str, Any]:
    """Return keys with values of ten thousand bytes."""
    return {key(number): value for number, value in enumerate(contents(count, seed=30))}


def small(count: int) -> dict[str, Any]:
    """Return keys with small values that can change in place."""
    return {
        key(number): {"name": f"item {number}", "counts": [0, number], "tags": ["a", "b"]}
        for number in range(count)
    }


def rows(ground: Ground) -> Iterator[Row]:
    for reads_all, budget in ((False, ONE_READ), (True, ALL_READ)):
        yield from _renewed(ground, budget, reads_all=reads_all)
    yield from _touched(ground)
    yield from _small(ground)


def _renewed(ground: Ground, budget: Budget, *, reads_all: bool) -> Iterator[Row]:
    count, steps = ground.sizes.held_values, ground.sizes.value_steps
    work, first = renewing(count, steps, reads_all=reads_all), large(count)
    how = "all read, one changed" if reads_all else "one read and changed"
    contest = Contest(f"values, {how}", lambda: copy.deepcopy(first), work, steps // BLOCK, BLOCK)
    if reads_all:
        contest.peers = BY_VALUE
    taken: dict[str, Taken | Absent] = contest.run(ground)
    name = f"values-{'all' if reads_all else 'one'}"
    said = f"{count} values of 10 KB, {how} x {steps}"
    told = sum(_pickled_bytes(value) for value in contents(steps, seed=31))
    note = (
        f"What {steps} steps added, for {told / 1e6:.2f} MB of information: each changes all that"
        f" a value holds. The first {count} values are not counted."
    )
    grown, limit = _grown(ours(taken)), Budget(told * DISK_LIMIT / 1e6, "MB")
    yield Row(f"{name}-disk", f"{said}: stored", grown, budget=limit, note=note)
    yield from sized(f"{name}-disk", f"{said}: stored", taken, _grown, note=note)
    yield Row(name, f"{said}: commit", time_of(ours(taken).commit), budget=budget)
    yield from timed(name, f"{said}: commit", taken, note=f"{ASSIGNED_AGAIN} {SYNCED}")
    if reads_all:
        yield from timed(f"{name}-whole", f"{said}: whole step", taken, whole=True)


def _touched(ground: Ground) -> Iterator[Row]:
    count, steps = ground.sizes.held_values, ground.sizes.value_steps // 2
    first = large(count)
    contest = Contest(
        "values, one number", lambda: copy.deepcopy(first), touching(count), steps // BLOCK, BLOCK
    )
    contest.peers = BY_VALUE
    taken = contest.run(ground)
    said = f"{count} values of 10 KB, all read, one number in one changed"

    def each(found: Taken) -> Figure:
        return Figure(found.grown_bytes / steps, "B")

    yield from sized("values-number-disk", f"{said}: stored per step", taken, each)
    yield from timed("values-number", f"{said}: commit", taken)


def _small(ground: Ground) -> Iterator[Row]:
    count, steps = ground.sizes.held_values, ground.sizes.value_steps
    contest = Contest(
        "small values", lambda: small(count), touching(count), steps // BLOCK, BLOCK, VERSIONED
    )
    taken = contest.run(ground)
    said = f"{count} small values held, one changed"

    def each(found: Taken) -> Figure:
        return Figure(found.grown_bytes / steps, "B")

    yield from timed("small", f"{said}: commit", taken, note=f"{ASSIGNED_AGAIN} {SYNCED}")
    yield from sized("small-disk", f"{said}: stored per step", taken, each)


def _grown(taken: Taken) -> Figure:
    return megabytes(taken.grown_bytes)


def _pickled_bytes(value: object) -> int:
    return len(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
