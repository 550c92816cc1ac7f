"""Small values that every room shares: hashes, clocks, tags, raw bytes."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple, NewType, TypeAlias

Hash = NewType("Hash", bytes)
"""The 32-byte BLAKE3 digest that names an immutable object."""

Clock: TypeAlias = Callable[[], int]
"""Microseconds since 1970-01-01 UTC. Clocks are arguments; only `session.Repo` uses a real one."""


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
    ARRAY = 22  # numpy
    FRAME = 23  # pandas
    TABLE = 24  # Arrow
    POLARS = 25
    SPARSE = 26  # scipy
    TENSOR = 27  # torch
    IMAGE = 28  # Pillow
    PICKLE = 29  # signed bytes of an arbitrary object
    LOST = 30  # in place of a value that could not be stored
    STATE = 31  # [type name, schema version, what __getstate__ returned]
    GRAPH = 32  # a value that contains itself, each object in it once
    SAME = 33  # list of steps: in a GRAPH, the object that they lead to from its top
    ORDERED = 34  # a dict with a tree that is not in key order; only the core reads and writes it


CHUNK_BYTES = 65_520
"""The length of the chunks of raw bytes: the most that fits one object, a multiple of 16."""


class Raw:
    """Raw bytes that a codec lowers to without copying them; stored as a list of chunks.

    Chunks are of one length but for the last, so that a change in place, or at the end, touches
    the chunks it falls in and no others. What is lifted is a list of bytes.
    """

    __slots__ = ("view",)

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.view = memoryview(data).cast("B")

    def chunks(self) -> list[memoryview]:
        """Return the chunks."""
        starts = range(0, len(self.view), CHUNK_BYTES)
        return [self.view[start : start + CHUNK_BYTES] for start in starts]


class Piece:
    """Raw bytes that were read into one writable piece of memory.

    The codec that lifts them may use the memory itself: nothing else does.
    """

    __slots__ = ("view",)

    def __init__(self, memory: memoryview) -> None:
        self.view = memory


class Tagged(NamedTuple):
    """A value lowered by one step: its code, and data whose parts may need lowering too."""

    code: int
    data: object
