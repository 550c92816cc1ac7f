"""The values in the golden store: every type, in every place a value can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
from blake3 import blake3

from otolith.codecs import Codecs
from otolith.core import Encoding


class Phase(Enum):
    IDLE = "idle"
    DONE = "done"


class Rights(Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Point:
    x: int
    y: float


class Pair(NamedTuple):
    left: str
    right: str


class Turn(msgspec.Struct):
    role: str
    tokens: int


@attrs.define
class Step:
    name: str
    done: bool = False


class Profile(pydantic.BaseModel):
    name: str
    age: int = 0


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


def in_key_order(value: Any) -> Any:
    """Return a value as it was written before dicts had an order: theirs is that of their keys."""
    if type(value) is list:
        return [in_key_order(part) for part in value]
    if type(value) is not dict:
        return value
    keys: list[Any] = sorted(value, key=Encoding(codecs()).key)
    return {key: in_key_order(value[key]) for key in keys}


def codecs() -> Codecs:
    """Return codecs that know the classes above by names that do not depend on where they are."""
    known = Codecs()
    for kind in (Phase, Rights, Point, Pair, Turn, Step, Profile):
        known.register_model(kind, name=f"golden:{kind.__name__}")
    known.register(
        Celsius, name="celsius", lower=lambda value: value.degrees, lift=Celsius, version=2
    )
    return known


def chunk_end() -> bytes:
    """Return sixteen bytes after which a chunk may end; the first number that gives some."""
    return blake3(b"56206").digest(16)


def blob_of_many_chunks() -> bytes:
    """Return 48 chunks of a little over 16 KiB, each with a number and almost no content."""
    end = chunk_end()
    return b"".join(b"%06d" % number + bytes(16 << 10) + end for number in range(48))


def log_line(number: int) -> dict[str, Any]:
    """Return an element of a log, longer than what is kept inline now and then."""
    return {"number": number, "text": f"message {number} " * (3 + number % 5 * 6)}


def _texts(count: int, size: int) -> list[str]:
    return [f"{number:05d} " + "lorem ipsum " * (size // 12) for number in range(count)]


SCALARS: dict[str, Any] = {
    "none": None,
    "bool": [True, False],
    "int": [0, 1, -1, 127, 128, -32, -33, 255, 256, 65535, 65536, 2**32, 2**63, 2**64 - 1],
    "lowest int": -(2**63),
    "bigint": [2**64, -(2**63) - 1, 10**40, -(10**40)],
    "float": [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 5e-324],
    "str": ["", "a", "ä", "汉字", "🙂", "x" * 31, "x" * 32, "\0", "e\u0301"],
    "surrogates": "lone \ud800 surrogate",
    "bytes": [b"", b"\0\xff", b"x" * 200],
    "bytearray": bytearray(b"mutable"),
    "tuple": (1, ("nested", ()), [2]),
    "set": {1, "two", (3,)},
    "frozenset": frozenset({b"a", None}),
    "complex": complex(1.0, -0.0),
    "decimal": [Decimal(text) for text in ("1.50", "-0", "1E+5", "NaN", "Infinity")],
    "uuid": UUID(int=0x12345678123456781234567812345678),
    "path": [PurePosixPath("a/b"), PureWindowsPath("C:\\a")],
}

MOMENTS: dict[str, Any] = {
    "date": date(2026, 2, 28),
    "timedelta": timedelta(days=-1, seconds=5, microseconds=7),
    "time": [time(1, 2, 3), time(1, 2, 3, 4, tzinfo=UTC), time(1, fold=1)],
    "naive": datetime(2026, 2, 28, 12, 30),  # noqa: DTZ001 - a value like any other
    "utc": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "offset": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "named": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5), "EST")),
    "zone": datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
}

MODELS: dict[str, Any] = {
    "enum": [Phase.IDLE, Phase.DONE],
    "flag": [Rights.READ, Rights.READ | Rights.WRITE],
    "dataclass": Point(1, 2.5),
    "namedtuple": Pair("a", "b"),
    "msgspec": Turn("user", 12),
    "attrs": Step("search"),
    "pydantic": Profile(name="Ada"),
    "custom": Celsius(21.5),
}

KEYS: dict[Any, Any] = {
    "text": 1, 2: "int", -2: "negative", 2.5: "float", None: "none", True: "bool", b"b": "bytes",
    (1, "t"): "tuple", frozenset({1}): "frozenset", date(2026, 1, 1): "date", 2**70: "big",
    "ä": "not ascii", "a/b~c": "needs escapes", Phase.IDLE: "enum",
}  # fmt: skip

VALUES: dict[str, Any] = in_key_order({
    "number": 500,
    "scalars": SCALARS,
    "moments": MOMENTS,
    "models": MODELS,
    "keys": KEYS,
    "inline": {"dict": {"a": 1}, "list": [1, 2], "str": "short", "empty": [{}, [], "", b""]},
    "packed": {
        "dict": {f"key {number}": "x" * 20 for number in range(20)},
        "list": _texts(5, 240),
        "str": "s" * 5000,
        "bytes": b"b" * 60_000,
        "bytearray": bytearray(b"a" * 10_000),
        "model": Point(10**300, 0.5),
    },
    "edges": {
        "inline": ["", "x" * 253],
        "256": "x" * 254,
        "257": "x" * 255,
        "16384": "x" * 16_381,
        "16385": "x" * 16_382,
        "65536": "x" * 65_533,
        "65537": "x" * 65_534,
    },
    "map": {f"k{number:04d}": number % 7 for number in range(3000)},
    "list": list(range(6000)),
    "nested": {"deep": {"deeper": [{"text": text} for text in _texts(80, 300)]}},
    "long set": set(range(6000)),
    "long frozenset": frozenset(f"element {number}" for number in range(1200)),
    "long tuple": tuple(range(6000)),
    "long model": Turn("user " * 2000, 3),
    "long bytes": bytes(300_000),
    "many chunks": blob_of_many_chunks(),
    "long text": "öö" * 20_000 + "end",
    "long surrogates": "\ud800" * 30_000,
    "long bytearray": bytearray(b"\1" * 70_000),
    "mixed keys": {**{number: number for number in range(1600)}, **{str(n): n for n in range(50)}},
    "events": [log_line(number) for number in range(-30, 0)],
})  # fmt: skip

CHANGES: dict[str, dict[str, Any]] = {
    "one small change": {"number": 400},
    "into a tree": {"map/k0700": "changed", "map/k9999": "new"},
    "into a packed value": {"packed/dict/key 3": "y" * 20, "packed/list/2": "another"},
    "rewrite": {"packed/list": [text.upper() for text in _texts(5, 240)]},
    "shrink a tree": {"nested": {"deep": {"deeper": [{"text": "little"}]}}},
    "grow an inline value": {
        "inline/dict": in_key_order({f"key {number}": number for number in range(1800)})
    },
}
