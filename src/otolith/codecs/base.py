"""Whether two values are the same in every respect, and whether data has the form it must have.

`==` is too generous: `1 == True == 1.0` and `0.0 == -0.0`; and NaN is not even equal to itself. For
data that must come back as it went in, all of these matter. Order matters in lists and tuples, not
in dicts and sets.
"""

from __future__ import annotations

from datetime import datetime, time, timezone
from decimal import Decimal
from enum import Enum, Flag
from math import copysign
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith.errors import Corrupt

VERIFY = "run fsck, then restore or repair the store"

# Left on instances by attrs and by typing.Generic; both can be made again.
CACHED_HASH = "_attrs_cached_hash"
DERIVED = frozenset({CACHED_HASH, "__orig_class__"})


def identical(left: object, right: object) -> bool:
    """Tell whether both have the same type and content, all the way down."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    for kinds, same in _RULES:
        if isinstance(left, kinds):
            return bool(same(left, right))
    return _same_object(left, right)


def parts(data: object, what: str, *kinds: type) -> list[Any]:
    """Return data as a list whose parts are of exactly these types, `object` meaning any.

    Raises:
        Corrupt: it is something else.
    """
    if type(data) is list and len(data) == len(kinds) and all(map(_is_a, data, kinds)):
        return data
    names = ", ".join("any" if kind is object else kind.__name__ for kind in kinds)
    raise Corrupt(f"{what} is not kept as [{names}]", hint=VERIFY)


def _is_a(part: object, kind: type) -> bool:
    return kind is object or type(part) is kind


def _same_float(left: float, right: float) -> bool:
    if left != left:
        return right != right
    return left == right and copysign(1.0, left) == copysign(1.0, right)


def _same_complex(left: complex, right: complex) -> bool:
    return _same_float(left.real, right.real) and _same_float(left.imag, right.imag)


def _same_sequence(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(map(identical, left, right))


def _same_dict(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    keys = {key: key for key in right}
    for key, value in left.items():
        other = keys.get(key, _ABSENT)
        if other is _ABSENT or not identical(key, other):
            # A key with a NaN in it is not found by hash, though the same key may be there.
            other = next((each for each in right if identical(key, each)), _ABSENT)
        if other is _ABSENT or not identical(value, right[other]):
            return False
    return True


def _same_set(left: Any, right: Any) -> bool:
    return _same_dict(dict.fromkeys(left), dict.fromkeys(right))


def _same_clock(left: Any, right: Any) -> bool:
    shown = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return shown and left.fold == right.fold and identical(left.tzinfo, right.tzinfo)


def _same_timezone(left: Any, right: Any) -> bool:
    return bool(left.__getinitargs__() == right.__getinitargs__())


def _same_decimal(left: Decimal, right: Decimal) -> bool:
    return left.as_tuple() == right.as_tuple()


def _same_object(left: object, right: object) -> bool:
    mine, other = _attributes(left), _attributes(right)
    return _same_dict(mine, other) if mine or other else left == right


def _attributes(value: object) -> dict[str, object]:
    names: set[str] = set(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    names.update(getattr(value, "__struct_fields__", ()))
    names -= DERIVED | {"__dict__", "__weakref__"}
    return {name: getattr(value, name, _ABSENT) for name in names}


_ABSENT = object()
_RULES: tuple[tuple[Any, Any], ...] = (
    (Flag, lambda left, right: left.value == right.value),  # unknown bits make a new one
    (Enum, lambda *_: False),
    (float, _same_float),
    (complex, _same_complex),
    ((list, tuple), _same_sequence),
    (dict, _same_dict),
    ((set, frozenset), _same_set),
    ((datetime, time), _same_clock),
    (timezone, _same_timezone),
    (Decimal, _same_decimal),
    # The text of a path, because Windows paths are equal whatever the case of their letters.
    (PurePath, lambda left, right: str(left) == str(right)),
    (ZoneInfo, lambda left, right: left.key == right.key),
    ((bool, int, str, bytes, bytearray, UUID), lambda left, right: left == right),
)
