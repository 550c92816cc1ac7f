"""Values as text: JSON that loses nothing, and one line for a person.

JSON has no word for most of what a state can hold. Such a value is an object with a `$type`:

    {"$type": "datetime", "value": "2026-01-02T03:04:05+00:00"}     likewise date, time
    {"$type": "bytes", "value": "aGk="}                             base64; likewise bytearray
    {"$type": "tuple", "value": [1, 2]}                             likewise set, frozenset
    {"$type": "dict", "value": [[1, "one"]]}                        keys that are not str
    {"$type": "decimal", "value": "1.10"}                           likewise uuid, path, timedelta
    {"$type": "float", "value": "nan"}                              likewise inf, -inf
    {"$type": "complex", "value": [1.0, 2.0]}
    {"$type": "document", "value": "The text."}                     a text that several edit
    {"$type": "shop:Order", "version": 1, "value": {"id": 7}}       a class of the user's
    {"$type": "pickle", "value": "shop:Model", "bytes": 1234}       its type and size: never loaded
    {"$type": "lost", "value": "builtins:generator", "why": "…", "hint": "…"}
    {"$type": "numpy:ndarray", "is": "<ndarray 2 x 2 of int64>", "value": [[1, 2], [3, 4]]}

`otolith set` reads the same, except for documents, classes and the last three.

Arrays, frames and tables as text: what they are on one line, and their content as JSON.

No library is imported here. A value of one is told by what it can do, and only asked for its
content by the names that these libraries share.
"""

from __future__ import annotations

import json
import math
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith.codecs import Document, Lost, Opaque
from otolith.errors import BadValue
from otolith.text import bracketed, clip_pieces, dotted_name, printable, quoted

_LIBRARIES = frozenset({"numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "PIL"})


def is_data(value: object) -> bool:
    """Tell whether a value is an array, a frame or the like."""
    return type(value).__module__.partition(".")[0] in _LIBRARIES


def describe(value: Any) -> str:
    """Return what it is, on one line: its type, its shape, and the types in it."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or not shape:
        return " ".join(str(value).split())
    size = " x ".join(map(str, shape))
    return f"<{kind} {size}{_types(value)}>"


def _types(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return f" of {dtype}"
    labels = getattr(value, "column_names", None) or getattr(value, "columns", None)
    if labels is None or not all(hasattr(label, "__hash__") for label in labels):
        return ""
    return ": " + ", ".join(map(str, labels))


def content(value: Any) -> object:
    """Return the content as lists and dicts, or as text where a library offers neither."""
    if hasattr(value, "to_pydict"):  # Arrow's tables
        return value.to_pydict()
    if hasattr(value, "to_pylist"):  # Arrow's arrays
        return value.to_pylist()
    if hasattr(value, "iloc") and hasattr(value, "columns"):  # pandas; labels may occur twice
        names, width = list(value.columns), len(value.columns)
        return [[names[at], value.iloc[:, at].tolist()] for at in range(width)]
    if hasattr(value, "get_columns"):  # polars
        return [[column.name, column.to_list()] for column in value.get_columns()]
    for name in ("tolist", "to_list"):
        if hasattr(value, name):
            return getattr(value, name)()
    return str(value)


TYPE, VALUE = "$type", "value"


def to_json(value: object) -> Any:
    """Return a value as what JSON can say."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else _typed("float", repr(value))
    if type(value) is list:
        return [to_json(part) for part in value]
    if type(value) is dict:
        return _dict_to_json(value)
    if isinstance(value, Opaque):
        return _opaque_to_json(value)
    if isinstance(value, Lost):
        return _typed("lost", value.type_name) | {"why": value.why, "hint": value.hint}
    return _other_to_json(value)


def _typed(name: str, value: object) -> dict[str, object]:
    return {TYPE: name, VALUE: value}


def _opaque_to_json(value: Opaque) -> dict[str, object]:
    if value.is_pickled:
        return _typed("pickle", value.type_name) | {"bytes": value.size_bytes}
    return {TYPE: value.type_name, "version": value.version, VALUE: to_json(value.fields)}


def _dict_to_json(value: dict[object, object]) -> Any:
    if TYPE not in value and all(type(key) is str for key in value):
        return {key: to_json(part) for key, part in value.items()}
    return _typed("dict", [[to_json(key), to_json(part)] for key, part in value.items()])


def _other_to_json(value: object) -> dict[str, object]:
    for kind, name, write in _WRITERS:
        if isinstance(value, kind):
            typed = _typed(name, write(value))
            zone = getattr(value, "tzinfo", None)
            if isinstance(zone, ZoneInfo) and zone.key:
                typed |= {"zone": zone.key}
            return typed | ({"fold": 1} if getattr(value, "fold", 0) else {})
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if is_data(value):
        return {TYPE: name, "is": describe(value), VALUE: to_json(content(value))}
    return _typed(name, repr(value))


def _sorted(value: Any) -> list[Any]:
    """Return the elements of a set in an order that does not change from run to run."""
    return sorted(map(to_json, value), key=lambda part: (type(part).__name__, json.dumps(part)))


def _seconds(value: timedelta) -> str:
    microseconds = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    return str(Decimal(microseconds).scaleb(-6).normalize() + 0)


_WRITERS: tuple[tuple[type, str, Callable[[Any], object]], ...] = (
    (bytes, "bytes", lambda value: b64encode(value).decode()),
    (bytearray, "bytearray", lambda value: b64encode(value).decode()),
    (tuple, "tuple", lambda value: [to_json(part) for part in value]),
    (set, "set", _sorted),
    (frozenset, "frozenset", _sorted),
    (datetime, "datetime", lambda value: value.isoformat()),
    (date, "date", lambda value: value.isoformat()),
    (time, "time", lambda value: value.isoformat()),
    (timedelta, "timedelta", _seconds),
    (Decimal, "decimal", str),
    (UUID, "uuid", str),
    (PurePath, "path", str),
    (complex, "complex", lambda value: [to_json(value.real), to_json(value.imag)]),
    (Document, "document", str),
)


def from_json(value: Any) -> object:
    """Return the value that JSON stands for.

    Raises:
        BadValue: a `$type` is not known, or its value does not fit.
    """
    if isinstance(value, list):
        return [from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if TYPE not in value:
        return {key: from_json(part) for key, part in value.items()}
    name = value[TYPE]
    reader = _READERS.get(name) if isinstance(name, str) else None
    if reader is None:
        raise BadValue(
            f"$type {name!r} cannot be written from a terminal", hint=f"use {', '.join(_READERS)}"
        )
    try:
        read = reader(value[VALUE])
        return _zoned(read, value) if isinstance(read, datetime | time) else read
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise BadValue(f"this is not a {name}: {value.get(VALUE)!r} ({error})") from None


def _zoned(read: datetime | time, value: dict[str, Any]) -> datetime | time:
    if "zone" in value:
        read = read.replace(tzinfo=ZoneInfo(value["zone"]))
    return read.replace(fold=int(value.get("fold", 0)))


_READERS: dict[str, Callable[[Any], object]] = {
    "bytes": lambda value: b64decode(value, validate=True),
    "bytearray": lambda value: bytearray(b64decode(value, validate=True)),
    "tuple": lambda value: tuple(map(from_json, value)),
    "set": lambda value: set(map(from_json, value)),
    "frozenset": lambda value: frozenset(map(from_json, value)),
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda value: timedelta(microseconds=int(Decimal(value).scaleb(6))),
    "decimal": Decimal,
    "uuid": UUID,
    "path": Path,
    "complex": lambda value: complex(*map(float, map(from_json, value))),  # type: ignore[arg-type]
    "float": float,
    "dict": lambda value: {from_json(key): from_json(part) for key, part in value},
}


def parse_value(text: str, kind: str = "auto") -> object:
    """Return the value that a user typed: as JSON, as text, or as JSON if it is valid JSON.

    `-` stands for what is on standard input.

    Raises:
        BadValue: it must be JSON and is not, or JSON names a type that does not fit its value.
    """
    text = sys.stdin.read() if text == "-" else text
    if kind == "str":
        return text
    try:
        data = json.loads(text)
    except RecursionError:
        raise BadValue("this JSON is nested too deep", hint="set parts of it by path") from None
    except ValueError as error:
        if kind == "json":
            raise BadValue(f"this is not JSON: {error}", hint="quote it, or --type str") from None
        return text
    return from_json(data)


def one_line(value: object, limit: int = 160) -> str:
    """Return a value on one line for a person; a long one is cut."""
    return clip_pieces(_pieces(value), limit)


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield quoted(value[:1000])
    elif isinstance(value, bytes | bytearray):
        yield f"{bytes(value[:40])!r}" + (f"… {len(value)} bytes" if len(value) > 40 else "")
    elif isinstance(value, dict):
        yield from bracketed("{", "}", (_entry(key, part) for key, part in value.items()))
    elif isinstance(value, list):
        yield from bracketed("[", "]", map(_pieces, value))
    elif isinstance(value, tuple):
        yield from bracketed("(", ")", map(_pieces, value))
    elif isinstance(value, set | frozenset):
        yield from bracketed("{", "}", ([line] for line in sorted(map(one_line, value))))
    elif isinstance(value, Opaque | Lost):
        yield from _stand_in(value)
    elif isinstance(value, Document):
        text = value.readable
        yield printable(repr(value)) if text is None else quoted(text[:1000])
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    else:
        yield printable(describe(value) if is_data(value) else str(value))


def _stand_in(value: Opaque | Lost) -> Iterator[str]:
    if isinstance(value, Lost):
        yield printable(f"<lost: {dotted_name(value.type_name)}, {value.why}>")
    elif value.is_pickled:
        yield f"<pickled {dotted_name(value.type_name)}, {value.size_bytes:,} bytes>"
    else:
        yield printable(value.type_name.rpartition(":")[2])
        yield from bracketed("(", ")", [_pieces(value.fields)])


def _entry(key: object, value: object) -> Iterator[str]:
    yield key if isinstance(key, str) and key.isidentifier() else one_line(key)
    yield ": "
    yield from _pieces(value)
