"""Values without parts: what can be written down in one go and has no identity that matters."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import hashlib
import logging
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from typing import Any, TypeAlias

Module: TypeAlias = Any
"""A library that is looked up when it is loaded, and never imported from here."""

_PLAIN = (
    bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType,
    types.NotImplementedType, range, slice, decimal.Decimal, fractions.Fraction, uuid.UUID,
    dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone,
    zoneinfo.ZoneInfo, pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath,
    pathlib.PureWindowsPath, types.GenericAlias, types.UnionType,
)  # fmt: skip
PLAIN = frozenset(_PLAIN)
"""The types whose `repr` says everything, and says of which type it is."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}\b")


def loaded(name: str) -> Module | None:
    """Return a library that somebody else has imported, or None."""
    return sys.modules.get(name)


def masked(text: str) -> str:
    """Return a text without the addresses in it."""
    return _ADDRESS.sub("0x…", text)


def digest(data: str | bytes | bytearray | memoryview) -> str:
    """Return a short hash of a text or of bytes."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def folded(text: str, limit: int) -> str:
    """Return a text as it is, or the head of a long one with the hash of all of it."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}… {len(text)} characters #{digest(text)}"


def atom(value: object) -> str | None:
    """Return the text of a value without parts, or None for a value that has some."""
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if isinstance(value, enum.Enum):
        return masked(f"{kind.__qualname__}.{value.name}({value.value!r})")
    if kind is re.Pattern:
        assert isinstance(value, re.Pattern)
        return f"re.compile({value.pattern!r}, {value.flags})"
    if isinstance(value, types.ModuleType):
        return f"<module {value.__name__}>"
    if isinstance(value, logging.Logger):
        return f"<Logger {value.name}>"
    if kind.__module__ == "typing":
        return masked(repr(value))
    return _numpy_atom(value) or _pandas_atom(value) or _sympy_atom(value)


def _numpy_atom(value: object) -> str | None:
    np = loaded("numpy")
    if np is None:
        return None
    if isinstance(value, np.generic):
        if value.dtype.kind == "V":
            return f"numpy.{type(value).__name__}({value.dtype!r}, {value.item()!r})"
        return f"numpy.{type(value).__name__}({value.dtype}, {value!r})"
    if isinstance(value, np.dtype):
        return f"dtype {value!r}"
    if isinstance(value, np.ufunc):
        return f"<ufunc {value.__name__}>"
    return None


def _pandas_atom(value: object) -> str | None:
    pd = loaded("pandas")
    if pd is None or not hasattr(pd, "DateOffset"):  # still being imported
        return None
    if value is pd.NaT or value is pd.NA:
        return f"pandas.{value!r}"
    if isinstance(value, pd.Timestamp | pd.Timedelta):
        return f"{value!r} in {value.unit}"
    if isinstance(value, pd.Period | pd.Interval | pd.offsets.BaseOffset):
        return f"{type(value).__qualname__} {value!r}"
    if isinstance(value, pd.api.extensions.ExtensionDtype):
        return f"dtype {value!r} {getattr(value, 'storage', '')}"
    return None


def _sympy_atom(value: object) -> str | None:
    sympy = loaded("sympy")
    if sympy is None or not hasattr(sympy, "Basic") or isinstance(value, type):
        return None
    if isinstance(value, sympy.Basic):
        return f"sympy {sympy.srepr(value)}"
    return None
