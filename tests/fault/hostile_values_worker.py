"""Reads stored values of one family that somebody prepared, and tells what came of each.

A process of its own: what is prepared may crash a library, or ask it for all the memory there is.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith import Repo, core
from otolith.codecs import Codecs
from otolith.core import Encoding
from otolith.errors import Error
from otolith.stores import MemoryStore
from otolith.types import Tagged
from tests.fault.hostile import NASTY_NAMES, Hang, within

MOST_MEMORY = 3 << 30
SECONDS = 30
NOT_IMPORTED = ("antigravity", "this", "turtledemo", "idlelib")


@dataclass
class Model:
    """A class that can be named by a store."""

    x: int
    y: str = ""


class Colour(Enum):
    """Another."""

    RED = 1


def plain() -> list[Any]:
    """Return values of Python's own types."""
    zone = ZoneInfo("Europe/Berlin")
    return [
        2**200, (1, "a"), {1, 2}, frozenset({"a"}), "a\ud800", datetime(2026, 1, 2, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=zone), date(2026, 1, 2), time(1, 2, 3), timedelta(1, 2),
        Decimal("1.5"), UUID(int=5), PurePosixPath("a/b"), Colour.RED, 1 + 2j, bytearray(b"x"),
        Model(1, "a"),
    ]  # fmt: skip


def numpy() -> list[Any]:
    """Return arrays."""
    import numpy as np

    return [
        np.arange(6).reshape(2, 3), np.array(["a", None], dtype=object), np.array(["ab", "c"]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.float32(1.5),
        np.array(["2026-01-02"], dtype="M8[D]"), np.dtype("f4"), np.zeros((0, 3)),
        np.array([True, False]), np.array(5), np.ma.array([1, 2], mask=[False, True]),
    ]  # fmt: skip


def pandas() -> list[Any]:
    """Return frames."""
    import pandas as pd  # type: ignore[import-untyped]

    kinds = pd.Categorical(["a", "b", "a"])
    return [
        pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "c": kinds}),
        pd.Series([1.0, None], name="s"), pd.date_range("2026-01-02", periods=3, freq="D"),
        pd.Timestamp("2026-01-02", tz="UTC"), pd.Timedelta("1D"), pd.Index(["a", "b"]),
        pd.MultiIndex.from_tuples([(1, "a"), (2, "b")]), pd.Series([1, None], dtype="Int64"),
        pd.Interval(1, 2), pd.Period("2026-01"), pd.Series(kinds), pd.NaT, pd.NA,
    ]  # fmt: skip


def arrow() -> list[Any]:
    """Return tables."""
    import pyarrow as pa  # type: ignore[import-untyped]

    return [
        pa.table({"a": [1, 2, None], "b": ["x", None, "zz"]}), pa.array([[1], [2, 3], None]),
        pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([{"a": 1}, {"a": 2}]),
        pa.chunked_array([[1], [2]]), pa.schema([("a", pa.int8())]), pa.scalar(5),
        pa.array([b"ab"], pa.large_binary()),
    ]  # fmt: skip


def polars() -> list[Any]:
    """Return frames of another library."""
    import polars as pl

    return [
        pl.DataFrame({"a": [1, 2], "b": ["x", None]}), pl.Series("s", [1.0, None]),
        pl.Series("c", ["a", "b", "a"], dtype=pl.Categorical), pl.Series("l", [[1], [2, 3]]),
        pl.Series("t", [datetime(2026, 1, 2)]), pl.Series("s", [{"a": 1}]),  # noqa: DTZ001
    ]  # fmt: skip


def scipy() -> list[Any]:
    """Return sparse matrices."""
    from scipy import sparse  # type: ignore[import-untyped]

    dense = [[0, 1, 0], [2, 0, 3]]
    return [
        kind(dense) for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix,
                                 sparse.dia_matrix, sparse.bsr_matrix, sparse.lil_matrix,
                                 sparse.dok_matrix)
    ]  # fmt: skip


def torch() -> list[Any]:
    """Return tensors."""
    import torch as t  # type: ignore[import-not-found]

    return [t.arange(6).reshape(2, 3), t.tensor(1.5), t.zeros(0), t.float32, t.tensor([True])]


def images() -> list[Any]:
    """Return pictures."""
    from PIL import Image

    palette = Image.new("P", (3, 3))
    palette.putpalette(list(range(12)))
    return [Image.new("RGB", (3, 2), (1, 2, 3)), Image.new("1", (9, 2)), palette]


FAMILIES = {
    family.__name__: family
    for family in (plain, numpy, pandas, arrow, polars, scipy, torch, images)
}
NAMES = [
    *NASTY_NAMES.values(),
    "object",
    "O",
    "|O8",
    "V1000000000",
    "S2147483647",
    "U536870911",
    "os:system",
    "builtins:eval",
    "subprocess:Popen",
    "antigravity:x",
    "this:s",
    "turtledemo:x",
    "idlelib:x",
    "otolith:open",
    "collections:OrderedDict",
    "builtins:object",
    "<f8",
    ">i8",
    "category",
    "int64",
    "large_string",
    "dictionary",
    "union",
    "pickle",
]
ODD_DATA: list[Any] = [b"", [], {}, ["builtins:object", 1, {}], b"\x80" * 40]
NASTY: list[Any] = [
    None, True, 0, 1, -1, 7, 2**31, 2**63, 2**64 - 1, -(2**63), 1.5, float("nan"), float("inf"),
    1e308, b"", b"x", b"\xff" * 64, b"\0" * 5000, [], {}, [[]], [0], [-1], [2**62, 2**62],
    [b"x" * 10], [2**40], {"type": "array"}, {"a": 1}, {1: 2}, {None: None},
    *[Tagged(code, data) for code in (1, 2, 3, 5, 6, 10, 12, 13, 20, 21, 22, 23, 24, 27, 28, 29,
                                      30, 31, 99, -1)
      for data in ODD_DATA],
]  # fmt: skip


class _AsStored:
    """Stores what is tagged as it is, and lifts nothing."""

    def lower(self, value: object) -> Tagged:
        return value if isinstance(value, Tagged) else Codecs().lower(value)

    def lift(self, code: int, data: object) -> object:
        return Tagged(code, data)

    def opaque(self) -> _AsStored:
        return self

    def validator(self, name: str) -> None:
        return None


def stored(value: object) -> Any:
    """Return a value as it is stored, tags and all."""
    return Encoding(_AsStored()).decode(Encoding(Codecs()).encode(value))


def _places(value: Any, put: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each part of stored data, with what puts another in its place."""
    yield value, put
    if isinstance(value, Tagged):
        yield from _places(value.data, lambda new: put(Tagged(value.code, new)))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _places(
                each, lambda new, at=at: put([*value[:at], *new, *value[at + 1 :]])
                if isinstance(new, tuple) and not isinstance(new, Tagged)
                else put([*value[:at], new, *value[at + 1 :]])
            )  # fmt: skip
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _places(each, lambda new, key=key: put({**value, key: new}))


def changed(value: Any, chance: random.Random) -> Any:
    """Return stored data of which one or two parts are something else."""
    for _ in range(chance.randrange(1, 3)):
        found: list[Any] = []
        part, put = chance.choice(list(_places(value, found.append)))
        put(_other(part, chance))
        value = found[0]
    return value


def _other(part: Any, chance: random.Random) -> Any:
    what = chance.random()
    if isinstance(part, bytes) and part and what < 0.6:
        at = chance.randrange(len(part))
        if what < 0.3:
            return part[:at]
        return part[:at] + bytes((chance.randrange(256),)) + part[at + 1 :]
    if isinstance(part, str) and what < 0.6:
        return chance.choice(NAMES)
    if type(part) is int and what < 0.6:
        other = part + chance.choice([1, -1, 2**31, 2**40, -(2**33)])
        return other if -(2**63) <= other < 2**64 else 0
    if isinstance(part, list) and part and what < 0.4:
        return part[:-1] if what < 0.2 else [*part, part[-1]]
    return chance.choice(NASTY)


def forged(data: object) -> Repo:
    """Return a repo with a commit whose value under "a" is stored so; all hashes are right."""
    store = MemoryStore()
    prepared = core.BareRepo(
        store,
        codec=_AsStored(),
        clock=lambda: 1,
        author="mallory",
        entropy=bytes,
    )
    branch = prepared.session("job")
    branch["a"] = data
    branch.commit()
    return Repo(store, author="test")


def read(data: object) -> str:
    """Return what comes of reading a value: a kind of error, "ok", or what should not be."""
    try:
        repo = forged(data)
    except (Error, TypeError):
        return "unwritable"
    try:
        with within(SECONDS):
            repr(repo.session("job")["a"])[:100]
    except Error as error:
        return error.kind
    except Hang:
        return "HANG"
    except BaseException as error:  # noqa: BLE001 - a panic of a library is no Exception
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"RAW {type(error).__name__}: {str(error)[:100]} at {last.filename}:{last.lineno}"
    return "ok"


def main(family: str, seed: int, count: int) -> None:
    values = FAMILIES[family]()
    samples = [stored(value) for value in values]
    first = [read(sample) for sample in samples]
    resource.setrlimit(resource.RLIMIT_AS, (_now() + MOST_MEMORY, resource.RLIM_INFINITY))
    chance, found = random.Random(seed), Counter[str]()
    for at in range(count):
        data = changed(samples[at % len(samples)], chance)
        print(repr(data)[:10_000], file=sys.stderr, flush=True)  # what a crash leaves behind
        found[read(data)] += 1
    imported = [name for name in NOT_IMPORTED if name in sys.modules]
    print(json.dumps({"first": first, "found": found, "imported": imported}))


def _now() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - not a file
        return int(file.read().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
