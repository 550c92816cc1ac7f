"""Small values that every room shares: hashes, clocks, tags, raw bytes; and how values look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from reprlib import Repr
from struct import Struct
from typing import NamedTuple, NewType, TypeAlias, TypeVar

T = TypeVar("T")

Hash = NewType("Hash", bytes)
"""The 32-byte BLAKE3 digest that names an immutable object."""

Clock: TypeAlias = Callable[[], int]
"""Microseconds since 1970-01-01 UTC. Clocks are arguments; only `session.Repo` uses a real one."""

Pauses: TypeAlias = Callable[[float], Iterable[None]]
"""Called with a number of seconds, waits before each element that it yields, until they are over.
Pauses are arguments too: `session.Repo` waits, a repo without defaults does not."""


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
    DOCUMENT = 35  # dict: run -> edits, of a text that several edit at once


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


class RunKey(NamedTuple):
    """The edits of a document that one writer made, from number `start` up to `stop`.

    A writer is one process that edits; an inserted or deleted character is one edit. Runs are
    stored under their keys as bytes, so they are in order of their writers, and then as they were
    made.
    """

    writer: int
    start: int
    stop: int

    @classmethod
    def load(cls, key: object) -> RunKey | None:
        """Return the run of a stored key; None if it is not one."""
        if type(key) is not bytes or len(key) != _RUN_KEY.size:
            return None
        found = cls(*_RUN_KEY.unpack(key))
        return found if found.start < found.stop <= MOST_EDITS else None

    def dump(self) -> bytes:
        """Return the key as it is stored: 8 bytes of the writer, 4 of each number, big endian."""
        return _RUN_KEY.pack(*self)


_RUN_KEY = Struct(">QII")

MOST_EDITS = 2**31 - 1
"""So many characters can one writer insert and delete."""


class Tagged(NamedTuple):
    """A value lowered by one step: its code, and data whose parts may need lowering too."""

    code: int
    data: object


_REPR_LETTERS, _FIELD_LETTERS = 160, 60
_short = Repr()
_short.maxlevel, _short.maxstring, _short.maxother = 3, _FIELD_LETTERS, _FIELD_LETTERS
_short.maxlist = _short.maxtuple = _short.maxdict = _short.maxset = 4


def short_repr(*names: str) -> Callable[[type[T]], type[T]]:
    """Give a class a repr on one line: its name, and those of these attributes that say something.

    The first one stands by itself. Long values are cut, and empty ones left out.

        @short_repr("key", "value")         # <Note seat value='aisle'>
    """

    def decorate(kind: type[T]) -> type[T]:
        def describe(self: T) -> str:
            shown = [(name, getattr(self, name)) for name in names]
            parts = [
                _bare(value) if at == 0 else f"{name}={_field(value)}"
                for at, (name, value) in enumerate(shown)
                if value is not None and value is not False and not _is_empty(value)
            ]
            return f"<{' '.join([type(self).__name__, cut_line(' '.join(parts), _REPR_LETTERS)])}>"

        describe.__name__, describe.__qualname__ = "__repr__", f"{kind.__qualname__}.__repr__"
        kind.__repr__ = describe  # type: ignore[assignment]
        return kind

    return decorate


def _is_empty(value: object) -> bool:
    return isinstance(value, str | bytes | list | tuple | dict | set | Mapping) and not value


def _bare(value: object) -> str:
    """Return a value that stands by itself: a word without quotes."""
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return cut_line(value, _FIELD_LETTERS)
    return _field(value)


def _field(value: object) -> str:
    value = dict(value) if isinstance(value, Mapping) else value
    return cut_line(_short.repr(value), _FIELD_LETTERS)


def cut_line(text: str, limit: int = _REPR_LETTERS) -> str:
    """Return a text on one line for a repr, cut where it is too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
