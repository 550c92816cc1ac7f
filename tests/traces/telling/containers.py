"""Lists, dicts, sets, bytes and whatever is made from one of Python's own types."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import fractions
import io
import pathlib
import types
from typing import Any

from tests.traces.telling.instances import attributes_of
from tests.traces.telling.teller import Teller, Telling

_BASES = (
    int, float, complex, str, bytes, decimal.Decimal, fractions.Fraction,
    dt.datetime, dt.date, dt.time, dt.timedelta, pathlib.PurePath,
)  # fmt: skip


def _list(teller: Teller, value: Any) -> str:
    return with_attributes(teller, value, list, f"[{teller.many(value)}]")


def _tuple(teller: Teller, value: Any) -> str:
    return with_attributes(teller, value, tuple, f"({teller.many(value)},)")


def _set(teller: Teller, value: Any) -> str:
    told = ", ".join(sorted(map(teller.tell, value)))
    return with_attributes(teller, value, set, f"{{{told}}}")


def _dict(teller: Teller, value: Any) -> str:
    text = f"{{{teller.pairs(value)}}}"
    if isinstance(value, collections.defaultdict):
        text += f" else {teller.tell(value.default_factory)}"
    return with_attributes(teller, value, dict, text)


def _deque(teller: Teller, value: Any) -> str:
    return with_attributes(teller, value, None, f"[{teller.many(value)}] of {value.maxlen}")


def _proxy(teller: Teller, value: Any) -> str:
    return f"<{type(value).__qualname__} {{{teller.pairs(value)}}}>"


def _bytes(teller: Teller, value: Any) -> str:
    return with_attributes(teller, value, None, repr(bytes(value)))


def _number_array(_: Teller, value: Any) -> str:
    return f"<array {value.typecode} {value.tolist()}>"


def _memory_file(_: Teller, value: Any) -> str:
    if value.closed:
        return f"<{type(value).__qualname__} closed>"
    return f"<{type(value).__qualname__} {value.getvalue()!r} at {value.tell()}>"


def _payload(teller: Teller, value: Any) -> str:
    """Tell an instance of a class that is made from a number, a string or a date."""
    base = next(kind for kind in _BASES if isinstance(value, kind))
    return with_attributes(teller, value, None, base.__repr__(value))


def with_attributes(teller: Teller, value: Any, kind: type | None, text: str) -> str:
    if type(value) is kind:
        return text
    attributes = attributes_of(value)
    more = f" {{{teller.named(attributes)}}}" if attributes else ""
    return f"{teller.kind(value)}{text}{more}"


KINDS: tuple[tuple[Any, Telling], ...] = (
    (list, _list),
    (tuple, _tuple),
    (dict, _dict),
    (set | frozenset, _set),
    (collections.deque, _deque),
    (types.MappingProxyType, _proxy),
    (_BASES, _payload),
    (bytearray | memoryview, _bytes),
    (array.array, _number_array),
    ((io.StringIO, io.BytesIO), _memory_file),
)
