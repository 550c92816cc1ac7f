"""Stand-ins for values that cannot be stored or read, and the errors that explain why.

    Lost          left by a commit in the place of a value that could not be stored
    Opaque        a stored value whose type is not known here; storing it again loses nothing
    InertCodecs   codecs that lift plain data, and everything else to an Opaque

Form (it never changes, see `docs/reference/format-v1.md`)

    LOST  [type name, why, hint]    three texts; the hint may be empty

`InertCodecs` are for checking a store. Tuples, sets, dates and the like are lifted, so that they
can be lowered again and compared. Of everything else only the outline is checked: a model may be
migrated, an array copied and a pickle loaded when they are read, and a check must do none of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from traceback import format_exception_only
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from otolith.codecs.base import VERIFY, Lowering, identical, parts, starts_with
from otolith.codecs.plain import PlainCodec
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged


@dataclass(frozen=True, slots=True)
class Lost:
    """The placeholder of a value that was skipped when its state was committed."""

    type_name: str
    why: str
    hint: str = ""

    @classmethod
    def of(cls, value: object, error: BadValue) -> Lost:
        """Return the placeholder of a value that was refused."""
        kind = type(value)
        return cls(f"{kind.__module__}:{kind.__qualname__}", error.message, error.hint)

    def __repr__(self) -> str:
        return f"<lost: {self.type_name.replace(':', '.')}, {self.why}>"


class LostCodec:
    """The codec of `Lost`."""

    codes: frozenset[int] = frozenset({Tag.LOST})

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers a Lost."""
        return _lower_lost if kind is Lost else None

    def lift(self, code: int, data: object) -> object:
        """Return the placeholder."""
        return Lost(*parts(data, "a lost value", str, str, str))


def _lower_lost(value: Lost) -> Tagged:
    return Tagged(Tag.LOST, [value.type_name, value.why, value.hint])


@dataclass(frozen=True, eq=False)
class Opaque:
    """The stored form of a value of an unknown type; lowering it returns exactly that.

    Two of them are equal only if they would be stored alike, and all can be keys of a dict,
    because the value may have been one.
    """

    tagged: Tagged

    @property
    def type_name(self) -> str:
        """The stored name of the type: "module:Qualname", or as registered."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.STATE, Tag.ENUM, Tag.CUSTOM, Tag.PICKLE) and isinstance(
            data, list
        ):
            return str(data[0])
        return Tag(code).name.lower() if code in Tag.__members__.values() else f"tag {code}"

    @property
    def version(self) -> int:
        """The schema version it was stored with."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.STATE, Tag.CUSTOM) and isinstance(data, list):
            return int(data[1])
        return 1

    @property
    def fields(self) -> object:
        """The content: of a model a dict of its fields, of anything else its stored form."""
        code, data = self.tagged
        if code in (Tag.MODEL, Tag.STATE, Tag.CUSTOM) and isinstance(data, list):
            return data[2]
        return data[1:] if code == Tag.ENUM and isinstance(data, list) else data

    @property
    def is_pickled(self) -> bool:
        """Whether it is a pickle, which may not be loaded here."""
        return self.tagged.code == Tag.PICKLE

    @property
    def size_bytes(self) -> int:
        """The length of all raw bytes in it."""
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
    """Return the stored form."""
    return value.tagged


def _size(data: object) -> int:
    if isinstance(data, bytes):
        return len(data)
    if isinstance(data, dict):
        return sum(map(_size, data.values()))
    return sum(map(_size, data)) if isinstance(data, list) else 0


def _hash(value: object) -> int:
    """Return a hash that is the same for all values that are stored alike."""
    if isinstance(value, dict):
        return hash(frozenset((_hash(key), _hash(part)) for key, part in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(map(_hash, value)))
    if isinstance(value, set | frozenset):
        return hash(frozenset(map(_hash, value)))
    # A NaN hashes by its address; two that are stored alike must hash alike.
    if isinstance(value, Decimal):
        return hash(value.as_tuple())
    if isinstance(value, float | complex):
        return hash(str(value))
    try:
        return hash(value)
    except TypeError:
        return hash(type(value))


_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
_PLAIN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, bool, int, float, complex)
_CONVERT = "convert it to plain data, make its class a dataclass, or register a codec for it"
_ALLOW = ', or allow pickle="signed"'
_RESULT = "store the result, not the handle: what was read, or what is needed to open it again"
_REASON_LIMIT = 300


def cannot_store(kind: type) -> BadValue:
    """Return the error for values of a type that no codec takes."""
    hint = _only_hint(kind) or _hint(kind) + _ALLOW
    return BadValue(f"cannot store a {_name(kind)}", hint=hint)


def refuse_handles(kind: type) -> None:
    """Raise BadValue for handles of otolith, such as sessions."""
    if str(kind.__module__).startswith("otolith.") and not issubclass(kind, BaseException):
        raise BadValue(
            f"cannot store a {_name(kind)}",
            hint="store the values in it, or its name, not a handle",
        )


def cannot_pickle(kind: type, error: Exception) -> BadValue:
    """Return the error for a value that could not be pickled."""
    return BadValue(f"cannot store a {_name(kind)}: {_reason(error)}", hint=_advice(kind, error))


def cannot_unpickle(type_name: str, error: Exception) -> UnknownType:
    """Return the error for a pickle that could not be loaded."""
    return UnknownType(
        f"a pickled value of type {type_name} could not be loaded: {_reason(error)}",
        hint="install or restore what it was made with, or read with opaque=True",
    )


def _advice(kind: type, error: Exception) -> str:
    """Return what to do about a value that could not be pickled."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or has no end: store its parts in a list or a dict"
    if isinstance(error, RuntimeError) and "changed" in _reason(error):
        return "it was changed concurrently: store a copy, or commit when nothing changes it"
    if issubclass(kind, (type, FunctionType)):
        return "only what has a name at the top level of its module can be stored: define it there"
    return _only_hint(kind) or (
        "leave what cannot be stored out of its __getstate__, convert it to plain data,"
        " or register a codec for it"
    )


def _only_hint(kind: type) -> str | None:
    """Return what to do about values that cannot even be pickled, or None."""
    names = {base.__name__ for base in kind.__mro__}
    if names & _HANDLES or hasattr(kind, "__next__") or hasattr(kind, "__await__"):
        return _RESULT
    if kind is memoryview:
        return "convert it with bytes(...)"
    if issubclass(kind, ModuleType):
        return "store its name, not the object"
    return None


def _hint(kind: type) -> str:
    """Return what to do about values that could be pickled, if that were allowed."""
    if str(kind.__module__).partition(".")[0] == "numpy":
        return "store the arrays and numbers it is made of"
    if issubclass(kind, BaseException):
        return "store its text: str(error), or a dict of what matters"
    if issubclass(kind, _NAMED):
        return "store its name, not the object"
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
    text = format_exception_only(error)[0].partition("\n")[0]
    return text if len(text) <= _REASON_LIMIT else text[: _REASON_LIMIT - 1] + "…"


_HANDLES = {
    "_IOBase", "socket", "lock", "RLock", "Lock", "_RLock", "Condition", "Event", "Semaphore",
    "Thread", "Popen", "Process", "Connection", "Cursor", "async_generator",
}  # fmt: skip


# The types at the start of the list that these are stored as.
_OUTLINES: dict[int, tuple[type, ...]] = {
    Tag.ENUM: (str,),
    Tag.MODEL: (str, int, dict),
    Tag.CUSTOM: (str, int, object),
    Tag.STATE: (str, int, object),
    Tag.PICKLE: (str, bytes, list, list),
    Tag.LOST: (str, str, str),
}


class InertCodecs:
    """Codecs that lift a stored form to a value that is lowered to exactly that form again."""

    def __init__(self) -> None:
        self._plain = PlainCodec()

    def lower(self, value: object) -> Tagged:
        """Return the value one step plainer."""
        if isinstance(value, Opaque):
            return lower_opaque(value)
        lowering = self._plain.lowering(type(value))
        if lowering is None:
            raise cannot_store(type(value))
        return lowering(value)

    def lift(self, code: int, data: object) -> object:
        """Return the value if it is plain, an Opaque otherwise.

        Raises:
            Corrupt: no value has this form.
        """
        if code in self._plain.codes:
            return self._plain.lift(code, data)
        if code == Tag.ORDERED:
            raise Corrupt("a dict with an order of its own has no tree", hint=VERIFY)
        outline = _OUTLINES.get(code)
        if outline is not None and not (
            type(data) is list and len(data) >= len(outline) and starts_with(data, outline)
        ):
            raise Corrupt(f"the data of a {Tag(code).name.lower()} is incomplete", hint=VERIFY)
        return Opaque(Tagged(code, data))

    def opaque(self) -> InertCodecs:
        """Return these codecs: they know no type."""
        return self

    def validator(self, name: str) -> None:
        """Return None: no class is known."""
