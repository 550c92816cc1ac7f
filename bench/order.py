"""The order of a large dict: what one that is not in key order costs, beside one that is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import otolith
from bench.commits import label
from bench.disk import resting_bytes
from bench.ground import SESSION, Ground, tell
from bench.table import Figure, Row, against, compared
from bench.timing import Samples, Step, alternate, once

_KINDS = ("random", "sorted")
_BESIDE = "in key order"


def rows(ground: Ground) -> Iterator[Row]:
    size = ground.sizes.many_keys // 10
    tell(f"dicts of {size:,} keys, in two orders")
    table = {f"k{number:06d}": number for number in range(size)}
    keys = list(table)
    random.Random(1).shuffle(keys)
    dicts = {"random": {key: table[key] for key in keys}, "sorted": table}
    work = f"a dict of {label(size)} keys in random order"
    first, steps, written = {}, dict[str, dict[str, Step]](), dict[str, float]()
    repos = []
    for kind in _KINDS:
        place = ground.place(f"order-{kind}")
        repos.append(otolith.open(place, durability="fast"))
        state = repos[-1].session(SESSION)
        state["dict"] = dicts[kind]
        first[kind] = Samples([[once(state.commit)]])
        written[kind] = resting_bytes(place)
        steps[kind] = _steps(repos[-1].session(SESSION), size)
    yield compared("order-store", f"{work}, stored", first["random"], _BESIDE, first["sorted"])
    ours, theirs = (Figure(written[kind], "B") for kind in _KINDS)
    yield against("order-bytes", f"{work}, on disk", ours, _BESIDE, theirs)
    for verb in steps["sorted"]:
        turns = {kind: steps[kind][verb] for kind in _KINDS}
        some = min(ground.sizes.blocks, 10)
        samples = alternate(turns, blocks=some, times=1 if verb == "read" else 10)
        what = f"{work}, {verb}"
        name = f"order-{verb.partition(' ')[0]}"
        yield compared(name, what, samples["random"], _BESIDE, samples["sorted"])
    for repo in repos:
        repo.close()


def _steps(state: Any, size: int) -> dict[str, Step]:
    """Return what is done to a dict again and again, each a commit but the first."""
    chance, numbers = random.Random(2), count()
    gone = iter(random.Random(3).sample(range(size), size))

    def put() -> None:
        state[f"dict/k{chance.randrange(size):06d}"] = next(numbers)
        state.commit()

    def add() -> None:
        state[f"dict/k{chance.randrange(size):06d} {next(numbers)}"] = 0
        state.commit()

    def remove() -> None:
        name = f"dict/k{next(gone):06d}"
        if name in state:
            del state[name]
            state.commit()

    def read() -> None:
        state.at("@")["dict"]

    return {"read": read, "set a key": put, "add a key": add, "remove a key": remove}
