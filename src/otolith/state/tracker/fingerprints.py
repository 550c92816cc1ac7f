"""Fingerprints: a number for what a value holds now, at the speed of C.

Equal fingerprints prove equal content. Different ones prove nothing: a dict may have been
reordered, or a set grown and shrunk. Encoding decides then.

`fingerprint` lets the C pickler walk the value. Whatever is not plain data is lowered by the codecs
first, so a fingerprint sees exactly what would be stored, and the type of every part. The pickle
is written to memory, hashed and dropped: nothing is ever unpickled. Raw bytes are hashed in place.

A long container has *marks*: a fingerprint for each run of up to 64 parts. When the container is
compared again, the parts before and after an insertion or removal are found by identity; their
runs are marked again, and where a mark differs some part has changed (`compare_runs`).

Also here: which types never change (`is_fixed`).
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from operator import is_
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from xxhash import xxh3_128_intdigest

from otolith.codecs import Document
from otolith.errors import BadValue
from otolith.types import Raw, Tagged

Lower: TypeAlias = Callable[[object], Tagged]

_PICKLER_ERRORS = (RuntimeError, RecursionError, ValueError, BufferError)
"""What the pickler raises for a value that is changing, contains itself or is too deep."""


def fingerprint(value: object, lower: Lower) -> int | None:
    """Return the fingerprint, or None if the value has none; encoding it reports what is wrong.

    Raises:
        BadValue: a part of it cannot be stored.
    """
    sink = io.BytesIO()
    try:
        _Walk(sink, lower).dump(value)
    except BadValue as error:
        if isinstance(error.__cause__, RecursionError):  # it may contain itself
            return None
        raise
    except _PICKLER_ERRORS:
        return None
    return xxh3_128_intdigest(sink.getbuffer())


class _Walk(pickle.Pickler):
    """A pickler for one fingerprint. Without its memo, it sees content and not identity."""

    def __init__(self, sink: io.BytesIO, lower: Lower) -> None:
        super().__init__(sink, protocol=5)
        self.fast = True
        self._lower = lower

    def reducer_override(self, value: Any) -> Any:
        """Reduce what the pickler does not know to a code and plainer data."""
        if value is complex:
            return NotImplemented  # the pickler asks about what a reduction calls, too
        if type(value) is Raw:
            return complex, (value.view.nbytes, xxh3_128_intdigest(value.view))
        code, data = self._lower(value)
        return complex, (int(code), data)


RUN = 64
"""The number of parts that have one mark."""

MarkOf: TypeAlias = Callable[[int, int], "int | None"]
"""Returns the fingerprint of the parts from one position to another."""


class Mark(NamedTuple):
    """The fingerprint of a run of parts; without one, the run counts as changed."""

    length: int
    fingerprint: int | None


class DirtyRun(NamedTuple):
    """Parts that may have changed: where they were, where they are, and their marks now."""

    start: int
    stop: int
    new_start: int
    new_stop: int
    marks: list[Mark]


def marks(start: int, stop: int, mark_of: MarkOf) -> list[Mark]:
    """Return the marks of the parts from one position to another."""
    ends = [(at, min(at + RUN, stop)) for at in range(start, stop, RUN)]
    return [Mark(end - at, mark_of(at, end)) for at, end in ends]


def forget_marks(old: list[Mark], positions: Collection[int]) -> list[Mark]:
    """Return the marks without the fingerprints of runs that cover these positions."""
    if not positions:
        return old
    fresh: list[Mark] = []
    start = 0
    for mark in old:
        stop = start + mark.length
        hit = any(start <= at < stop for at in positions)
        fresh.append(Mark(mark.length, None) if hit else mark)
        start = stop
    return fresh


def common_ends(old: list[object], new: list[object]) -> tuple[int, int]:
    """Return how many parts are the same at the beginning and, of the rest, at the end."""
    shorter = min(len(old), len(new))
    start = _same(old, new, shorter)
    end = _same(old[::-1], new[::-1], shorter - start) if start < shorter else 0
    return start, end


def _same(old: list[object], new: list[object], most: int) -> int:
    found = list(map(is_, old[:most], new[:most]))
    return found.index(False) if False in found else most


def compare_runs(
    old: list[Mark], ends: tuple[int, int], lengths: tuple[int, int], mark_of: MarkOf
) -> tuple[list[Mark], list[DirtyRun]]:
    """Return the current marks, and the parts that may have changed, in order.

    `ends` are the parts known to be the same objects at the beginning and at the end, `lengths`
    the number of all parts then and now.
    """
    (start, end), (before, now) = ends, lengths
    if start == before == now <= RUN and len(old) == 1:
        today = Mark(now, mark_of(0, now))
        if today == old[0] and today.fingerprint is not None:
            return old, []  # the most frequent case
    shift = now - before
    is_edited = start + end < max(before, now)
    head, tail = list[tuple[int, Mark]](), list[tuple[int, Mark]]()
    first, last = start, before - end
    at = 0
    for mark in old:
        stop = at + mark.length
        # A short run next to an edit joins it, or appending one by one would leave runs of one.
        is_short = is_edited and stop == start and mark.length < RUN // 2
        if stop <= start and not is_short:
            head.append((at, mark))
        elif at >= before - end:
            tail.append((at, mark))
        else:
            first, last = min(first, at), max(last, stop)
        at = stop
    fresh, dirt = list[Mark](), list[DirtyRun]()
    _compare(head, 0, mark_of, fresh, dirt)
    if is_edited:
        middle = marks(first, last + shift, mark_of)
        fresh += middle
        dirt.append(DirtyRun(first, last, first, last + shift, middle))
    _compare(tail, shift, mark_of, fresh, dirt)
    return fresh, dirt


def _compare(
    old: list[tuple[int, Mark]],
    shift: int,
    mark_of: MarkOf,
    fresh: list[Mark],
    dirt: list[DirtyRun],
) -> None:
    """Compare runs that moved by `shift`, and collect those that changed."""
    for at, mark in old:
        start, stop = at + shift, at + shift + mark.length
        today = Mark(mark.length, mark_of(start, stop))
        fresh.append(today)
        if today.fingerprint is None or today != mark:
            dirt.append(DirtyRun(at, at + mark.length, start, stop, [today]))


_FIXED = frozenset({
    type(None), bool, int, float, complex, str, bytes, range, slice, type, Decimal, UUID,
    date, datetime, time, timedelta, timezone, ZoneInfo,
    FunctionType, ModuleType, Document,
})  # fmt: skip

_known: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def is_fixed(kind: type) -> bool:
    """Tell whether instances of exactly this type never change, nor anything in them."""
    known = _known.get(kind)
    if known is None:
        known = _known[kind] = _is_fixed(kind)
    return known


def never_changes(value: object) -> bool:
    """Tell whether nothing in a value can change: as is_fixed, and for tuples of what is fixed."""
    if is_fixed(type(value)):
        return True
    if type(value) is BuiltinFunctionType:  # a function, or the method of a list
        return isinstance(value.__self__, ModuleType | type | None)
    return isinstance(value, tuple | frozenset) and all(map(never_changes, value))


def _is_fixed(kind: type) -> bool:
    """Return whether values of a type never change."""
    if kind in _FIXED or issubclass(kind, Enum | PurePath | type):
        return True
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None and issubclass(kind, numpy.generic) and not issubclass(kind, numpy.void)
    )
