"""Values that never change: nobody needs to look at them again."""

from __future__ import annotations

import sys
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, ModuleType
from uuid import UUID
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

_FIXED = frozenset({
    type(None), bool, int, float, complex, str, bytes, range, slice, type, Decimal, UUID,
    date, datetime, time, timedelta, timezone, ZoneInfo,
    FunctionType, BuiltinFunctionType, ModuleType,
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
    return isinstance(value, tuple | frozenset) and all(map(never_changes, value))


def _is_fixed(kind: type) -> bool:
    if kind in _FIXED or issubclass(kind, Enum | PurePath | type):
        return True
    numpy = sys.modules.get("numpy")
    return (
        numpy is not None and issubclass(kind, numpy.generic) and not issubclass(kind, numpy.void)
    )
