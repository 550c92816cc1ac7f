"""The Codec contract: values of one family, lowered to plainer data and lifted back.

The core stores *plain data* by itself: None, bool, int of 64 bits, float, str, bytes, list, and
dict with any plain hashable key. Everything else is lowered one step at a time to a `Tagged`: a
code and data that is plainer than the value. The parts of that data may need lowering again; the
caller walks over them, and lifts bottom up, so that a codec sees parts already lifted.

Rules for every codec
1. The exact type of a value decides which codec it belongs to, once per type: `lowering` returns
   the function that lowers all values of a type, and the caller caches it.
2. What is lifted equals what was lowered, in type and content (`identical`).
3. Lowering is canonical: equal values of one type give the same data, whatever their history.
4. Stored data may be damaged or hostile. It is checked before a library sees it; what does not fit
   raises Corrupt, and nothing in it makes code run or memory be allocated.
5. What a code is lowered to never changes: hashes depend on it (`docs/reference/format-v1.md`).

`FormCodec` is the codec of a library: a table of `FormLayout`s, one for each type. A *form* is a
dict that names its type and has exactly the parts of its layout, each of the expected kind. The
constructors of libraries are forgiving and bend what they are given into shape; what is bent would
not be lowered to what was stored, so forms are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time, timezone
from decimal import Decimal
from enum import Enum, Flag
from functools import partial
from math import copysign
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from otolith.errors import Corrupt, MissingExtra, UnknownType
from otolith.types import Tag, Tagged

Lowering: TypeAlias = Callable[[Any], Tagged]
Same: TypeAlias = Callable[[Any, Any], bool]
"""Lowers a value of the one type it was made for; raises BadValue if it cannot be stored."""


class Codec(Protocol):
    """Lowers and lifts the values of one family."""

    @property
    def codes(self) -> frozenset[int]:
        """The codes this codec lowers to and lifts from; no two codecs share one."""
        ...

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers values of exactly this type, or None if not this family.

        Raises:
            BadValue: the type is of this family but its values cannot be stored.
        """
        ...

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this code and data; its parts are lifted already.

        Raises:
            UnknownType: the type it names is not known here, or has changed.
            Corrupt: the data does not fit the code.
        """
        ...


VERIFY = "run fsck, then restore or repair the store"

# Left on instances by attrs and by typing.Generic; both can be made again.
CACHED_HASH = "_attrs_cached_hash"
DERIVED = frozenset({CACHED_HASH, "__orig_class__"})


def identical(left: object, right: object, *, ordered: bool = True) -> bool:
    """Return whether two values have the same type and content, all the way down.

    `==` is too generous: `1 == True == 1.0` and `0.0 == -0.0`; and NaN is not even equal to itself.
    Order matters in lists and tuples, not in sets; in dicts if `ordered`.
    """
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and ordered:
        return _in_same_order(left, right) and _same_dict(left, right)  # type: ignore[arg-type]
    same = partial(identical, ordered=ordered)
    for kinds, rule in _RULES:
        if isinstance(left, kinds):
            return bool(rule(left, right, same))
    mine, other = _attributes(left), _attributes(right)
    return _same_dict(mine, other, same) if mine or other else bool(left == right)


def _same_float(left: float, right: float) -> bool:
    """Return whether two floats are the same: NaN is itself, and -0.0 is not 0.0."""
    if left != left:
        return right != right
    return left == right and copysign(1.0, left) == copysign(1.0, right)


def _in_same_order(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    return len(left) == len(right) and all(map(identical, left, right))


def _same_dict(left: dict[Any, Any], right: dict[Any, Any], same: Same = identical) -> bool:
    """Return whether two dicts have identical keys and values, in any order."""
    if len(left) != len(right):
        return False
    keys = {key: key for key in right}
    for key, value in left.items():
        other = keys.get(key, _ABSENT)
        if other is _ABSENT or not same(key, other):
            # A key with a NaN in it is not found by hash, though the same key may be there.
            other = next((each for each in right if same(key, each)), _ABSENT)
        if other is _ABSENT or not same(value, right[other]):
            return False
    return True


def _same_clock(left: Any, right: Any) -> bool:
    same_time = left.replace(tzinfo=None) == right.replace(tzinfo=None)
    return same_time and left.fold == right.fold and identical(left.tzinfo, right.tzinfo)


def in_key_order(form: dict[str, Any]) -> dict[str, Any]:
    """Return a dict inside the form of a value with its keys sorted, as such a dict is stored.

    What a user put into a value has its own order. What a codec makes has none: equal values have
    equal bytes, however their dicts came about.
    """
    return {
        name: in_key_order(part) if type(part) is dict else part
        for name, part in sorted(form.items())
    }


def _attributes(value: object) -> dict[str, object]:
    """Return the attributes of an object, from its dict, slots or struct fields."""
    names: set[str] = set(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    names.update(getattr(value, "__struct_fields__", ()))
    names -= DERIVED | {"__dict__", "__weakref__"}
    return {name: getattr(value, name, _ABSENT) for name in names}


_ABSENT = object()
_RULES: tuple[tuple[Any, Any], ...] = (
    (Flag, lambda a, b, _: a.value == b.value),  # unknown bits make a new one
    (Enum, lambda *_: False),
    (float, lambda a, b, _: _same_float(a, b)),
    (complex, lambda a, b, _: _same_float(a.real, b.real) and _same_float(a.imag, b.imag)),
    ((list, tuple), lambda a, b, same: len(a) == len(b) and all(map(same, a, b))),
    (dict, _same_dict),
    ((set, frozenset), lambda a, b, same: _same_dict(dict.fromkeys(a), dict.fromkeys(b), same)),
    ((datetime, time), lambda a, b, _: _same_clock(a, b)),
    (timezone, lambda a, b, _: a.__getinitargs__() == b.__getinitargs__()),
    (Decimal, lambda a, b, _: a.as_tuple() == b.as_tuple()),
    # The text of a path, because Windows paths are equal whatever the case of their letters.
    (PurePath, lambda a, b, _: str(a) == str(b)),
    (ZoneInfo, lambda a, b, _: a.key == b.key),
    ((bool, int, str, bytes, bytearray, UUID), lambda a, b, _: a == b),
)


def parts(data: object, what: str, *kinds: type) -> list[Any]:
    """Return data as a list whose parts are of exactly these types, `object` meaning any.

    Raises:
        Corrupt: it is something else.
    """
    if type(data) is list and len(data) == len(kinds) and starts_with(data, kinds):
        return data
    names = ", ".join("any" if kind is object else kind.__name__ for kind in kinds)
    raise Corrupt(f"{what} is not stored as [{names}]", hint=VERIFY)


def starts_with(data: list[Any], kinds: Iterable[type]) -> bool:
    """Return whether the first parts of a list are of exactly these types."""
    return all(kind is object or type(part) is kind for part, kind in zip(data, kinds))  # noqa: B905


def require(holds: object, problem: str) -> None:
    """Raise Corrupt with this message, unless something holds of stored data."""
    if not holds:
        raise Corrupt(problem, hint=VERIFY)


Form: TypeAlias = dict[str, Any]
Kind: TypeAlias = type | tuple[type, ...]

# What constructors raise for data they were not made for.
_MISFITS: tuple[type[BaseException], ...] = (
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


class FormLayout(NamedTuple):
    """How values of one type of a library are stored, and made again.

    `parts` are the names and kinds of the parts of a form. By default they are read from attributes
    of the same names; otherwise `lower` returns them for a value. `lift` is called with them, in
    this order, after they were checked; without `parts`, it is called with the whole form. The form
    is named like the type, or `name`. With `subclasses`, values of derived types are stored so too.

    The order of the keys of a form is stored, and never changes: "type" is the first. It is added
    to what `lower` returns, unless it is there already, which is faster.

        FormLayout(pd.Interval, pd.Interval, {"left": object, "right": object, "closed": str})
    """

    kind: Kind
    lift: Callable[..., object]
    parts: Mapping[str, Kind] | None = None
    lower: Callable[[Any], Form] | None = None
    name: str = ""
    subclasses: bool = False

    def lowering(self, code: int) -> Lowering:
        """Return the function that lowers values to this code."""
        name, lower, parts = self.form_name, self.lower, tuple(self.parts or ())

        def lower_parts(value: object) -> Tagged:
            form = lower(value) if lower else {part: getattr(value, part) for part in parts}
            return Tagged(code, form if "type" in form else {"type": name, **form})

        return lower_parts

    @property
    def form_name(self) -> str:
        """The name under "type" in a form."""
        return self.name or self.kinds[0].__name__

    @property
    def kinds(self) -> tuple[type, ...]:
        """The types whose values are stored so."""
        return self.kind if isinstance(self.kind, tuple) else (self.kind,)

    def read(self, form: Form) -> object:
        """Return the value of a form."""
        return self.lift(form) if self.parts is None else self.lift(*check(form, **self.parts))


class FormCodec:
    """The codec of one library: a layout for each of its types."""

    def __init__(
        self,
        code: Tag,
        layouts: Iterable[FormLayout],
        *,
        misfits: tuple[type[BaseException], ...] = (),
    ) -> None:
        self.codes: frozenset[int] = frozenset({code})
        self._code = code
        self._layouts = tuple(layouts)
        self._by_kind = {kind: layout for layout in self._layouts for kind in layout.kinds}
        self._by_name = {layout.form_name: layout for layout in self._layouts}
        self._misfits = _MISFITS + misfits

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers values of this type, if it has a layout."""
        layout = self._by_kind.get(kind)
        if layout is None:
            derived = (each for each in self._layouts if each.subclasses)
            layout = next((each for each in derived if issubclass(kind, each.kind)), None)
        return None if layout is None else layout.lowering(self._code)

    def lift(self, code: int, data: object) -> object:
        """Return the value of a form."""
        name = data.get("type") if type(data) is dict else None
        if type(data) is not dict or type(name) is not str:
            raise Corrupt(f"a value with the code {code} does not name its type", hint=VERIFY)
        layout = self._by_name.get(name)
        if layout is None:
            raise UnknownType(
                f"values of the type {name[:80]!r} with the code {code} are not known here",
                hint="upgrade otolith: a newer one wrote this",
            )
        try:
            return layout.read(data)
        except ImportError as error:
            raise MissingExtra(
                f"a {name} needs more than is installed: {error}",
                hint="pip install 'otolith[data]', or read with opaque=True",
            ) from error
        except self._misfits as error:
            raise Corrupt(
                f"the data of a {name} does not fit: {error!s:.200}", hint=VERIFY
            ) from error


def check(form: Form, **kinds: Kind) -> list[Any]:
    """Return the parts of a form in this order, `object` meaning any kind.

    Raises:
        Corrupt: a part is missing, of another kind, or too many.
    """
    if form.keys() != {"type", *kinds}:
        raise Corrupt(
            f"a {form['type']} is stored with the parts {sorted(map(str, form))}", hint=VERIFY
        )
    for name, kind in kinds.items():
        if not isinstance(form[name], kind) or (kind is int and type(form[name]) is not int):
            raise Corrupt(
                f"the {name} of a {form['type']} is a {type(form[name]).__name__}", hint=VERIFY
            )
    return [form[name] for name in kinds]
