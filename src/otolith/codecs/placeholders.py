"""What is said about a value that cannot be kept, or not be read: its type, and the way out.

What stands where a value could not be kept: its type, why, and what to do instead.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    LOST  [type name, why, hint]    three texts; the hint may be empty

A value whose type is not known here, held so that nothing of it is lost.

Values as they are stored, for whoever checks a store: no class is looked up, no code is run.

What is made of plain data alone (tuples, sets, dates and the like) is lifted, so that it can be
lowered again and compared. Everything else is an Opaque of which only the outline is looked at:
a model may be migrated, an array copied and a pickle loaded when they are read, and none of this
has a place in a check.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from traceback import format_exception_only
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from otolith.codecs.base import VERIFY, Lowering, identical, parts
from otolith.codecs.plain import Plain
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that was skipped when its state was committed; only this is left of it."""

    type_name: str
    why: str
    hint: str = ""

    @classmethod
    def of(cls, value: object, error: BadValue) -> Lost:
        """Return what stands for a value that was refused."""
        kind = type(value)
        return cls(f"{kind.__module__}:{kind.__qualname__}", error.message, error.hint)

    def __repr__(self) -> str:
        return f"<lost: {self.type_name.replace(':', '.')}, {self.why}>"


class Losses:
    """Lowers and lifts what stands for lost values."""

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.LOST})

    def lowering(self, kind: type) -> Lowering | None:
        return _lower if kind is Lost else None

    def lift(self, code: int, data: object) -> object:
        return Lost(*parts(data, "a lost value", str, str, str))


def _lower(value: Lost) -> Tagged:
    return Tagged(Tag.LOST, [value.type_name, value.why, value.hint])


@dataclass(frozen=True, eq=False)
class Opaque:
    """What was stored for a value of an unknown type; lowering it gives exactly that again.

    Two of them are equal only if they would be stored alike, and all can be keys of a dict,
    because the value each one stands for may have been one.
    """

    tagged: Tagged

    @property
    def type_name(self) -> str:
        """The stored name of the type: "module:Qualname", or as it was registered."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.ENUM, Tag.CUSTOM, Tag.PICKLE) and isinstance(data, list):
            return str(data[0])
        return Tag(code).name.lower() if code in Tag.__members__.values() else f"tag {code}"

    @property
    def version(self) -> int:
        """The schema version it was stored with."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.CUSTOM) and isinstance(data, list):
            return int(data[1])
        return 1

    @property
    def fields(self) -> object:
        """The content: of a model a dict of its fields, of anything else what it was lowered to."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.CUSTOM) and isinstance(data, list):
            return data[2]
        return data[1:] if code == Tag.ENUM and isinstance(data, list) else data

    @property
    def is_pickled(self) -> bool:
        """Whether it is a pickle, which may not be loaded here."""
        return self.tagged.code == Tag.PICKLE

    @property
    def size_bytes(self) -> int:
        """How long the raw bytes in it are, taken together."""
        return _size(self.tagged.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and identical(self.tagged, other.tagged)

    def __hash__(self) -> int:
        return _hash(self.tagged)

    def __repr__(self) -> str:
        if self.is_pickled:
            return f"Opaque({self.type_name!r}, pickled, {self.size_bytes:,} bytes)"
        return f"Opaque({self.type_name!r}, version={self.version}, fields={self.fields!r})"


def lower_opaque(value: Opaque) -> Tagged:
    """Return what was stored."""
    return value.tagged


def _size(data: object) -> int:
    if isinstance(data, bytes):
        return len(data)
    if isinstance(data, dict):
        return sum(map(_size, data.values()))
    return sum(map(_size, data)) if isinstance(data, list) else 0


def _hash(value: object) -> int:
    if isinstance(value, dict):
        return hash(frozenset((_hash(key), _hash(part)) for key, part in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(_hashes(value)))
    if isinstance(value, set | frozenset):
        return hash(frozenset(_hashes(value)))
    # A NaN hashes by its address; two that are stored alike must hash alike.
    if isinstance(value, Decimal):
        return hash(value.as_tuple())
    if isinstance(value, float | complex):
        return hash(str(value))
    try:
        return hash(value)
    except TypeError:
        return hash(type(value))


def _hashes(parts: Iterable[object]) -> Iterable[int]:
    return (_hash(part) for part in parts)


_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, bool, int, float, complex)
_CONVERT = "convert it to plain data, make its class a dataclass, or register a codec for it"
_ALLOW = ', or allow pickle="signed"'
_RESULT = "keep the result, not the handle: what was read, or what is needed to open it again"
_OWN = "otolith."
_LONGEST_REASON = 300


def refuse(kind: type) -> BadValue:
    """Return the error for values of a type that nobody keeps."""
    way_out = _only_way_out(kind)
    hint = _way_out(kind) + _ALLOW if way_out is None else way_out
    return BadValue(f"cannot keep a {_name(kind)}", hint=hint)


def refuse_own(kind: type) -> None:
    """Refuse what otolith hands out to work with: a state does not contain its own store."""
    if str(kind.__module__).startswith(_OWN) and not issubclass(kind, BaseException):
        raise BadValue(
            f"cannot keep a {_name(kind)}", hint="keep the values in it, or its name, not a handle"
        )


def unpicklable(kind: type, error: Exception) -> BadValue:
    """Return the error for a value that could not be pickled."""
    return BadValue(f"cannot keep a {_name(kind)}: {_reason(error)}", hint=_advice(kind, error))


def unloadable(type_name: str, error: Exception) -> UnknownType:
    """Return the error for a pickle that could not be loaded."""
    return UnknownType(
        f"a pickled value of type {type_name} could not be loaded: {_reason(error)}",
        hint="install or restore what it was made with, or read with opaque=True",
    )


def _advice(kind: type, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or has no end: keep its parts in a list or a dict"
    if isinstance(error, RuntimeError) and "changed" in _reason(error):
        return "something else changed it meanwhile: keep a copy, or commit when it is at rest"
    if issubclass(kind, (type, FunctionType)):
        return "only what has a name at the top level of its module can be kept: define it there"
    return _only_way_out(kind) or (
        "leave what cannot be kept out of its __getstate__, convert it to plain data,"
        " or register a codec for it"
    )


def _only_way_out(kind: type) -> str | None:
    """Return what to do about values that not even a pickle can keep."""
    if _is_handle(kind):
        return _RESULT
    if kind is memoryview:
        return "convert it with bytes(...)"
    if issubclass(kind, ModuleType):
        return "keep its name, not the thing itself"
    return None


def _way_out(kind: type) -> str:
    if str(kind.__module__).partition(".")[0] == "numpy":
        return "keep the arrays and numbers it is made of"
    if issubclass(kind, BaseException):
        return "keep what it says: str(error), or a dict of what matters"
    if issubclass(kind, _NAMED):
        return "keep its name, not the thing itself"
    for plain in _PLAIN:
        if issubclass(kind, plain):
            return (
                f"it is a subclass of {plain.__name__}: convert it with {plain.__name__}(...),"
                " or register a codec for it"
            )
    return _CONVERT


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _reason(error: Exception) -> str:
    # Not str(error): the exception is the user's, and its __str__ may raise as well.
    said = format_exception_only(error)[0].partition("\n")[0]
    return said if len(said) <= _LONGEST_REASON else said[: _LONGEST_REASON - 1] + "…"


def _is_handle(kind: type) -> bool:
    names = {base.__name__ for base in kind.__mro__}
    return bool(names & _HANDLES) or hasattr(kind, "__next__") or hasattr(kind, "__await__")


_HANDLES = {
    "_IOBase", "socket", "lock", "RLock", "Lock", "_RLock", "Condition", "Event", "Semaphore",
    "Thread", "Popen", "Process", "Connection", "Cursor", "async_generator",
}  # fmt: skip


# What the list that these are kept as begins with.
_OUTLINES: dict[int, tuple[type, ...]] = {
    Tag.ENUM: (str,),
    Tag.MODEL: (str, int, dict),
    Tag.CUSTOM: (str, int, object),
    Tag.PICKLE: (str, bytes, list, list),
    Tag.LOST: (str, str, str),
}


class AsStored:
    """Lifts what is stored to something that is lowered to exactly that again, or refuses it."""

    def __init__(self) -> None:
        self._plain = Plain()

    def lower(self, value: object) -> Tagged:
        """Return the value one step plainer."""
        if isinstance(value, Opaque):
            return lower_opaque(value)
        lowering = self._plain.lowering(type(value))
        if lowering is None:
            raise refuse(type(value))
        return lowering(value)

    def lift(self, code: int, data: object) -> object:
        """Return what stands for the value.

        Raises:
            Corrupt: no value is kept like this.
        """
        if code in self._plain.codes:
            return self._plain.lift(code, data)
        _check_outline(code, data)
        return Opaque(Tagged(code, data))


def _check_outline(code: int, data: object) -> None:
    outline = _OUTLINES.get(code, ())
    if not outline:
        return
    if type(data) is not list or len(data) < len(outline) or not all(map(_is_a, data, outline)):
        raise Corrupt(f"the data of a {Tag(code).name.lower()} is not whole", hint=VERIFY)


def _is_a(part: object, kind: type) -> bool:
    return kind is object or type(part) is kind
