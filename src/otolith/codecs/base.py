"""The Codec contract: values of one family, lowered to plainer data and lifted back.

The core keeps *plain data* by itself: None, bool, int of 64 bits, float, str, bytes, list, and
dict with any plain hashable key. Everything else is lowered one step at a time to a `Tagged`:
a code and data that is plainer than the value. The parts of that data may need lowering again;
whoever asked does the walking, and lifts bottom up, so that a codec sees parts already lifted.

Which codec a value belongs to is decided by its exact type and once per type: `lowering` gives
the function that lowers all values of a type, and whoever asks keeps it.

Whether two values are the same in every respect, and whether data has the form it must have.

`==` is too generous: `1 == True == 1.0` and `0.0 == -0.0`; and NaN is not even equal to itself. For
data that must come back as it went in, all of these matter. Order matters in lists and tuples, not
in dicts and sets.

Codecs whose data is a dict that names its type, one form for each type of a library.

The form of a type is the set of its keys: all of them are there, nothing else is, and each has data
of the kind that is expected. A library's constructors are forgiving and bend what they are given
into shape; what is bent would not be lowered to what was stored, so forms are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, time, timezone
from decimal import Decimal
from enum import Enum, Flag
from math import copysign
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith.errors import Corrupt, MissingExtra, UnknownType
from otolith.types import Tag, Tagged

Lowering: TypeAlias = Callable[[Any], Tagged]
"""Lowers a value of the one type it was made for. Raises BadValue if that value cannot be kept."""


class Codec(Protocol):
    """Lowers and lifts the values of one family."""

    @property
    def codes(self) -> frozenset[int]:
        """The codes this codec lowers to and lifts from; no two codecs share one."""
        ...

    def lowering(self, kind: type) -> Lowering | None:
        """Return what lowers values of exactly this type, or None if it is another codec's.

        Lowering is canonical: equal values of one type give the same data, whatever their history.

        Raises:
            BadValue: the type is of this family but its values cannot be kept; says why.
        """
        ...

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this. `data` has been lifted already.

        Raises:
            UnknownType: the type it names is not known here, or has changed.
            Corrupt: the data is not what this code needs.
        """
        ...


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


Form: TypeAlias = dict[str, Any]
Forming: TypeAlias = Callable[[Any], Form]
"""Gives the form of a value of the one type it was made for."""

Reading: TypeAlias = Callable[[Form], object]
"""Gives the value of a form."""

# What constructors raise for data they were not made for.
_MISFITS = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)


class Forms:
    """The codec of one library."""

    def __init__(
        self, code: Tag, lower: Mapping[type, Forming], lift: Mapping[str, Reading]
    ) -> None:
        self._code = code
        self._lower = lower
        self._lift = lift

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({self._code})

    def lowering(self, kind: type) -> Lowering | None:
        form = self._lower.get(kind)
        if form is None:
            return None
        code = self._code

        def lower(value: object) -> Tagged:
            return Tagged(code, form(value))

        return lower

    def lift(self, code: int, data: object) -> object:
        name = data.get("type") if type(data) is dict else None
        if type(data) is not dict or type(name) is not str:
            raise Corrupt(f"a value with the code {code} does not name its type", hint=VERIFY)
        read = self._lift.get(name)
        if read is None:
            raise UnknownType(
                f"values of the type {name[:80]!r} with the code {code} are not known here",
                hint="upgrade otolith: a newer one wrote this",
            )
        try:
            return read(data)
        except ImportError as error:
            raise MissingExtra(
                f"a {name} needs more than is installed: {error}",
                hint="pip install 'otolith[data]', or read with opaque=True",
            ) from error
        except _MISFITS as error:
            raise Corrupt(f"the data of a {name} does not fit: {error}", hint=VERIFY) from error


def check(form: Form, **kinds: type | tuple[type, ...]) -> list[Any]:
    """Return the parts of a form in this order, `object` meaning any kind.

    Raises:
        Corrupt: a part is missing, or of another kind, or one too many is there.
    """
    if form.keys() != {"type", *kinds}:
        raise Corrupt(f"a {form['type']} is kept with {sorted(map(str, form))}", hint=VERIFY)
    for name, kind in kinds.items():
        if not isinstance(form[name], kind) or (kind is int and type(form[name]) is not int):
            raise Corrupt(
                f"the {name} of a {form['type']} is a {type(form[name]).__name__}", hint=VERIFY
            )
    return [form[name] for name in kinds]


def demand(holds: object, what: str) -> None:
    """Refuse data of which something that must hold does not.

    Raises:
        Corrupt: it does not hold.
    """
    if not holds:
        raise Corrupt(what, hint=VERIFY)
