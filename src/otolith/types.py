"""Names for the small values that every room shares."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, NewType, TypeAlias

Hash = NewType("Hash", bytes)
"""The 32-byte BLAKE3 digest that names an immutable object."""

Clock: TypeAlias = Callable[[], int]
"""Microseconds since 1970-01-01 UTC. Clocks are arguments; only `opening` picks a real one."""


class Tag(IntEnum):
    """The closed table of value types beyond plain data. Codes are part of the format: append only.

    Plain data (None, bool, 64-bit int, float, str, bytes, list, dict) needs no tag.
    A tagged value is a code and plainer data; `codecs` knows what the data of each code means.
    """

    BIGINT = 1  # bytes: two's complement, big endian, shortest
    TUPLE = 2  # list
    SET = 3  # dict: element -> None
    FROZENSET = 4  # dict: element -> None
    TEXT = 5  # bytes: a str with lone surrogates, UTF-8 with surrogatepass
    DATETIME = 6
    DATE = 7
    TIME = 8
    TIMEDELTA = 9
    DECIMAL = 10
    UUID = 11
    PATH = 12
    ENUM = 13
    COMPLEX = 14
    BYTEARRAY = 15
    MODEL = 20  # [type name, schema version, fields]
    CUSTOM = 21  # [registered name, version, data]


class Tagged(NamedTuple):
    """A value lowered by one step: its code, and data whose parts may need lowering too."""

    code: int
    data: object
