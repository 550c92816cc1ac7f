"""All codecs as one: the object that the core is given to lower and lift with.

`Codecs` asks its codecs in order which one takes a type, once for each type; afterwards lowering is
one lookup in a dict. The order is: plain values, lost values, registered types, enumerations,
models, other libraries, and last pickles, which take everything.

Registered types have a form that never changes (`docs/reference/format-v1.md`)

    CUSTOM  [registered name, version, data]    version is an int, 1 or more

The codec of a library is imported when a value of that library is first stored or read
(`LazyCodec`). A value whose class comes from `numpy` can only exist where numpy is imported
already, so asking for its lowering never imports a library that was not in use. Lifting may.

Frames of pandas, Arrow and polars can be read one column at a time (`column`, `labels`): a frame is
lowered to a dict with its columns in a list under "columns"; the rest is its *head*.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar, cast

from otolith.codecs.base import VERIFY, Codec, Lowering, parts
from otolith.codecs.class_names import ClassNames
from otolith.codecs.documents import DocumentCodec
from otolith.codecs.graphs import GraphCodec
from otolith.codecs.models import ModelCodec, Upgrade, fields_of
from otolith.codecs.pickles import Key, PickleCodec
from otolith.codecs.placeholders import Lost, LostCodec, Opaque, cannot_store, lower_opaque
from otolith.codecs.plain import EnumCodec, PlainCodec
from otolith.codecs.validators import Validator, validator_of
from otolith.errors import (
    BadValue,
    Corrupt,
    Denied,
    Error,
    Exists,
    Invalid,
    MissingExtra,
    UnknownType,
)
from otolith.types import Tag, Tagged

# What code that meets unexpected data raises; anything else is a defect that should be seen.
_MISFITS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


class CustomType(NamedTuple):
    """A registered type: its stored name and version, and the functions of its codec."""

    kind: type
    name: str
    version: int
    lower: Callable[[Any], object]
    lifts: Mapping[int, Callable[[Any], object]]


class CustomCodec:
    """The codec of registered types."""

    codes: frozenset[int] = frozenset({Tag.CUSTOM})

    def __init__(self) -> None:
        self._by_kind: dict[type, CustomType] = {}
        self._by_name: dict[str, CustomType] = {}

    def __repr__(self) -> str:
        """Show the registered names."""
        return f"registered: {', '.join(self._by_name) or 'none'}"

    def register(self, entry: CustomType) -> None:
        """Store values of this type from now on.

        Raises:
            Exists: the name or the type is already registered.
            Invalid: the version is not an int, 1 or more, or the name is empty.
        """
        if entry.name in self._by_name or entry.kind in self._by_kind:
            raise Exists(
                f"{entry.name!r} or its type {entry.kind.__qualname__} is already registered",
                hint="register each type once, under a different name",
            )
        if not entry.name or any(type(each) is not int or each < 1 for each in entry.lifts):
            raise Invalid(
                f"cannot register {entry.name!r} with versions {sorted(entry.lifts)}",
                hint="give it a name, and versions that are ints, 1 or more",
            )
        self._by_name[entry.name] = self._by_kind[entry.kind] = entry

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers values of a registered type."""
        entry = self._by_kind.get(kind)
        return None if entry is None else _lowering(entry)

    def lift(self, code: int, data: object) -> object:
        """Return the value, read by the function that was registered for its version."""
        name, version, content = parts(data, "a value of a registered type", str, int, object)
        if version < 1:
            raise Corrupt(f"a value of {name!r} has the version {version}", hint=VERIFY)
        lift = self._lift(name, version)
        try:
            return lift(content)
        except Error:
            raise
        except _MISFITS as error:
            raise Corrupt(
                f"the codec registered as {name!r} could not read what is stored: {error!r}",
                hint="verify the store; if it is sound, the codec's lift is at fault",
            ) from error

    def current_type(self, name: str, version: int) -> tuple[str, int] | None:
        """Return the name and version such a value would get now, None if it has them.

        Raises:
            UnknownType: it is not registered, or not for this version.
        """
        self._lift(name, version)
        today = self._by_name[name].version
        return (name, today) if today != version else None

    def _lift(self, name: str, version: int) -> Callable[[Any], object]:
        entry = self._by_name.get(name)
        if entry is None:
            raise UnknownType(
                f"the type {name!r} is not registered here",
                hint="register its codec before reading, or read with opaque=True",
            )
        if version not in entry.lifts:
            raise UnknownType(
                f"{name!r} is registered as version {entry.version}, stored as version {version}",
                hint="register it with older={version: lift}, or read with opaque=True",
            )
        return entry.lifts[version]


def _lowering(entry: CustomType) -> Lowering:
    def lower(value: object) -> Tagged:
        try:
            data = entry.lower(value)
        except Error:
            raise
        except _MISFITS as error:
            raise BadValue(
                f"the codec registered as {entry.name!r} could not lower a value: {error!r}",
                hint="correct the codec's lower, or the value",
            ) from error
        return Tagged(Tag.CUSTOM, [entry.name, entry.version, data])

    return lower


class LazyCodec(NamedTuple):
    """The codec of a library, imported when it is first needed."""

    library: str
    module: str
    code: Tag
    extra: str

    @property
    def codes(self) -> frozenset[int]:
        """The one code of the library."""
        return frozenset({self.code})

    def lowering(self, kind: type) -> Lowering | None:
        """Ask the codec of the library, if the type is from there."""
        if kind.__module__.partition(".")[0] != self.library:
            return None
        return self._codec().lowering(kind)

    def lift(self, code: int, data: object) -> object:
        """Import the codec, and let it lift."""
        return self._codec().lift(code, data)

    def _codec(self) -> Codec:
        try:
            module = import_module(self.module)
        except ImportError as error:
            raise MissingExtra(
                f"a value of {self.library} needs {self.library} to be read: {error}",
                hint=f"pip install 'otolith[{self.extra}]', or read with opaque=True",
            ) from error
        return cast("Codec", module.CODEC)


LIBRARIES: tuple[LazyCodec, ...] = (
    LazyCodec("numpy", "otolith.codecs.numpy", Tag.ARRAY, "data"),
    LazyCodec("pandas", "otolith.codecs.pandas", Tag.FRAME, "data"),
    LazyCodec("pyarrow", "otolith.codecs.arrow", Tag.TABLE, "data"),
    LazyCodec("polars", "otolith.codecs.polars", Tag.POLARS, "data"),
    LazyCodec("scipy", "otolith.codecs.scipy", Tag.SPARSE, "data"),
    LazyCodec("torch", "otolith.codecs.torch", Tag.TENSOR, "torch"),
    LazyCodec("PIL", "otolith.codecs.pillow", Tag.IMAGE, "images"),
)


T = TypeVar("T")

_STORED_BY_CORE = (type(None), bool, int, float, str, bytes, list, dict)


class Codecs:
    """Lowers and lifts every value that can be stored.

    With `opaque`, a value whose type is not known here is lifted to an `Opaque` instead of raising
    UnknownType: for tools that read what they did not write. Pickles that may not be loaded are
    lifted to one as well, and values that contain themselves, so that walking through them ends.

    With `pickle="signed"`, an object that no other codec takes is pickled and signed with the 32
    bytes that `key` returns when they are first needed; only what they signed is ever unpickled. If
    it returns several keys, the first one signs, and what any of them signed is unpickled.

        codecs = Codecs()
        codecs.register(Money, name="money", lower=lambda m: m.cents, lift=Money)
    """

    def __init__(
        self,
        *,
        opaque: bool = False,
        pickle: Literal["never", "signed"] = "never",
        key: Key | None = None,
    ) -> None:
        self._opaque = opaque
        self._names = ClassNames()
        self._models = ModelCodec(self._names)
        self._customs = CustomCodec()
        plain = PlainCodec()
        self._reserved = plain
        self._codecs: tuple[Codec, ...] = (
            plain,
            LostCodec(),
            self._customs,
            GraphCodec(),  # its references are dataclasses
            EnumCodec(self._names),
            self._models,
            DocumentCodec(),
            *LIBRARIES,
            pickles := PickleCodec(_pickle_key(pickle, key)),
        )
        self._pickles = pickles
        self._by_code = {code: codec for codec in self._codecs for code in codec.codes}
        self._lowerings: dict[type, Lowering] = {Opaque: lower_opaque}
        self._pickled: set[type] = set()

    def __repr__(self) -> str:
        """Show how much is registered."""
        return f"<Codecs of {len(self._by_code)} codes, {self._customs!r}>"

    def opaque(self) -> Codecs:
        """Return the same codecs with `opaque`."""
        other = copy(self)
        other._opaque = True  # noqa: SLF001 - of this class
        return other

    @property
    def codes(self) -> frozenset[int]:
        """Every code that is known here."""
        return frozenset(self._by_code)

    def lower(self, value: object) -> Tagged:
        """Return the value one step plainer.

        Raises:
            BadValue: it cannot be stored; the message says why and what to do.
        """
        kind = type(value)
        lowering = self._lowerings.get(kind) or self.lowering(kind)
        if lowering is None:
            raise cannot_store(kind)
        return lowering(value)

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers values of exactly this type, or None if there is none.

        Raises:
            BadValue: the type is of a known family but its values cannot be stored.
        """
        for codec in self._codecs:
            if lowering := codec.lowering(kind):
                self._lowerings[kind] = lowering
                if codec is self._pickles:
                    self._pickled.add(kind)
                return lowering
        return None

    def is_pickled(self, kind: type) -> bool:
        """Tell whether values of exactly this type are stored as pickles."""
        if kind in _STORED_BY_CORE:
            return False
        try:
            return (kind in self._lowerings or bool(self.lowering(kind))) and kind in self._pickled
        except BadValue:
            return False

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this, given data that is lifted already.

        Raises:
            UnknownType: its type is not known here, or has changed.
            Denied, Untrusted: it is a pickle that may not be loaded.
            Corrupt: the data does not fit the code.
        """
        codec = self._by_code.get(code)
        try:
            if code == Tag.ORDERED:
                raise Corrupt("a dict with an order of its own has no tree", hint=VERIFY)
            if codec is None:
                raise UnknownType(
                    f"values with the code {code} are not known here",
                    hint="upgrade otolith: a newer one wrote this",
                )
            if self._opaque and code == Tag.GRAPH:
                return Opaque(Tagged(code, data))  # a tool that prints it must come to an end
            return codec.lift(code, data)
        except (UnknownType, MissingExtra, Denied):
            if not self._opaque:
                raise
            return Opaque(Tagged(code, data))

    @property
    def can_pickle(self) -> bool:
        """Whether there is a key, so that pickles are made and loaded."""
        return self._pickles.has_key

    def renewed_signature(self, data: object) -> bytes | None:
        """Return the signature of a stored pickle by the current key; None if it has that already.

        Raises:
            Denied: nothing may be pickled here.
            Untrusted: none of the keys has signed it.
        """
        return self._pickles.renewed_signature(data)

    def find(self, name: str) -> type:
        """Return the class that is stored under this name.

        Raises:
            UnknownType: it is neither registered, nor declared to have moved, nor imported.
        """
        return self._names.find(name)

    def current_type(
        self, code: int, name: str, version: int, *, fields: Collection[str], has_rest: bool = False
    ) -> tuple[str, int] | None:
        """Return the name and version that a stored model or custom value would get now.

        None means that it would be stored just the same. `fields` are the names of the fields of a
        model; `has_rest` is whether more was stored.

        Raises:
            UnknownType: it could not be lifted: its type is not known here, or has changed.
        """
        if code == Tag.CUSTOM:
            return self._customs.current_type(name, version)
        if code == Tag.STATE:
            return self._models.current_state_type(name, version)
        return self._models.current_type(name, version, fields, has_rest=has_rest)

    def validator(self, name: str) -> Validator | None:
        """Return what checks models of the class with this name; None if nothing does.

        With `opaque`, no code of a class is run.
        """
        try:
            kind = None if self._opaque else self._names.find(name)
        except UnknownType:
            return None
        return None if kind is None or fields_of(kind) is None else validator_of(kind)

    def register(
        self,
        kind: type[T],
        *,
        name: str,
        lower: Callable[[T], object],
        lift: Callable[[Any], T],
        version: int = 1,
        older: Mapping[int, Callable[[Any], T]] | None = None,
    ) -> None:
        """Store values of exactly this type as what `lower` returns for them.

        `name` is stored with each value and never changes; raise `version` when `lower` returns
        another form than before, and pass functions that read the former versions in `older`.

        Raises:
            Invalid: otolith stores this type itself, or the name or a version is bad.
            Exists: the name or the type is already registered.
        """
        if kind in _STORED_BY_CORE or self._reserved.lowering(kind) or kind in (Opaque, Lost):
            raise Invalid(
                f"{kind.__qualname__} is stored by otolith itself",
                hint="register a type of your own",
            )
        lifts = {**(older or {}), version: lift}
        self._customs.register(CustomType(kind, name, version, lower, lifts))
        self._lowerings.pop(kind, None)
        self._pickled.discard(kind)

    def register_model(
        self,
        kind: type,
        *,
        name: str | None = None,
        formerly: Iterable[str] = (),
        upgrade: Upgrade | None = None,
    ) -> None:
        """Declare the stored name, former names or upgrade of a model class or an enumeration.

        `name` is what it is stored under instead of "module:Qualname"; `formerly` are names it is
        found under as well; `upgrade(version, fields)` returns the current fields of an instance
        that was stored with an older version or other fields; migrations are then not used.

        Raises:
            Exists: one of the names belongs to another class.
        """
        default = f"{kind.__module__}:{kind.__qualname__}"
        self._names.register(kind, name=name or default, formerly=formerly)
        if upgrade is not None:
            self._models.upgrade(kind, upgrade)
        self._lowerings.pop(kind, None)


def _pickle_key(pickle: str, key: Key | None) -> Key | None:
    """Return the key to pickle with, or None if nothing may be pickled."""
    if pickle not in ("never", "signed"):
        raise Invalid(f"pickle={pickle!r} is not known", hint="use 'never' or 'signed'")
    if pickle == "never":
        return None
    if key is None:
        raise Invalid(
            'pickle="signed" needs a key to sign with',
            hint="give key=, a function that returns 32 bytes",
        )
    return key


FRAMES = frozenset({Tag.FRAME, Tag.TABLE, Tag.POLARS})
"""The codes of values that have columns."""

_FRAME_MODULES = {codec.code: codec.module for codec in LIBRARIES if codec.code in FRAMES}


def labels(code: int, head: dict[str, Any]) -> list[Any]:
    """Return the labels of the columns of a frame, in order."""
    return cast("list[Any]", import_module(_FRAME_MODULES[Tag(code)]).labels(head))


def column(code: int, head: dict[str, Any], position: int, data: object) -> object:
    """Return one column of a frame: a Series of pandas or polars, or a ChunkedArray of Arrow.

    Raises:
        Corrupt: the data does not fit the head.
    """
    return cast("object", import_module(_FRAME_MODULES[Tag(code)]).column(head, position, data))


def content_of(value: Any) -> object | None:
    """Return the immutable object that has all of a value's content, if there is one.

    Strings that Arrow holds are such: pandas replaces the Arrow array when a string is set, so the
    same array means the same strings. Numbers are not: numpy may write to their memory.
    """
    kind = type(value)
    if kind.__module__ != "pandas.arrays" and not kind.__module__.startswith("pandas.core.arrays"):
        return None
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.arrays.ArrowStringArray):
        return None
    content: object = value.__arrow_array__()
    return content
