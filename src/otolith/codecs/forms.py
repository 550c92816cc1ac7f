"""Codecs whose data is a dict that names its type, one form for each type of a library.

The form of a type is the set of its keys: all of them are there, nothing else is, and each has data
of the kind that is expected. A library's constructors are forgiving and bend what they are given
into shape; what is bent would not be lowered to what was stored, so forms are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from otolith.codecs.base import Lowering
from otolith.codecs.exact import VERIFY
from otolith.errors import Corrupt, MissingExtra, UnknownType
from otolith.types import Tag, Tagged

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
