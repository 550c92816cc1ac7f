"""Python's own value types beyond plain data, each in one canonical form.

The forms are seen by hashes and never change (`docs/reference/format-v1.md`):

    BIGINT     bytes        an int outside -2**63 .. 2**64-1: two's complement, big endian, shortest
    TEXT       bytes        a str with lone surrogates: UTF-8 that lets each surrogate pass
    TUPLE      list         the elements
    SET        dict         element -> None
    FROZENSET  dict         element -> None
    DECIMAL    str          scientific string of the General Decimal Arithmetic, with a capital E:
                            "1.50", "-0", "1E+5", "Infinity", "NaN", "-sNaN12"; digits are ASCII
    UUID       bytes        16 bytes, big endian
    PATH       [int, str]   0 PurePosixPath, 1 PureWindowsPath, 2 PosixPath, 3 WindowsPath; its str
    COMPLEX    [float, float]   real, imaginary
    BYTEARRAY  bytes        the content

Moments (DATETIME, DATE, TIME, TIMEDELTA) are in `moments`.

Only exact types are taken: a subclass may carry more than its base can hold. What a UUID says about
how it was generated (`is_safe`) is not kept, being no part of its value. A concrete path of the
other platform comes back as the pure path of its flavour.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any
from uuid import UUID

from otolith.codecs import moments
from otolith.codecs.base import Lowering
from otolith.codecs.exact import VERIFY, parts
from otolith.errors import BadValue, Corrupt
from otolith.types import Tag, Tagged

# The caller's decimal context could change the letter of an exponent or silence a bad literal.
_EXACT = Context(capitals=1, traps=[InvalidOperation])

_PURE: tuple[type[PurePath], ...] = (PurePosixPath, PureWindowsPath)
_PATHS: tuple[type[PurePath], ...] = (*_PURE, PosixPath, WindowsPath)
_HERE = type(Path())


class Plain:
    """Lowers and lifts the types in the table above."""

    @property
    def codes(self) -> frozenset[int]:
        return frozenset(_LIFT)

    def lowering(self, kind: type) -> Lowering | None:
        return _LOWER.get(kind)

    def lift(self, code: int, data: object) -> object:
        return _LIFT[code](data)


def _lowering(code: Tag, form: Callable[[Any], object]) -> Lowering:
    # Looking up a member of Tag each time would take as long as all the rest.
    def lower(value: object) -> Tagged:
        return Tagged(code, form(value))

    return lower


def _lower_int(value: int) -> Tagged:
    # One bit more than the magnitude, for the sign; ~value of a negative is its magnitude less one.
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return Tagged(Tag.BIGINT, value.to_bytes((bits + 7) // 8, "big", signed=True))


def _lift_int(data: object) -> int:
    value = int.from_bytes(_bytes(data, "int"), "big", signed=True)
    if -(2**63) <= value < 2**64 or _lower_int(value).data != data:
        raise Corrupt("an int is not in its shortest form", hint=VERIFY)
    return value


def _lower_text(value: str) -> Tagged:
    return Tagged(Tag.TEXT, value.encode("utf-8", "surrogatepass"))


def _lift_text(data: object) -> str:
    raw = _bytes(data, "str")
    try:
        value = raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Corrupt("a str with surrogates is not UTF-8", hint=VERIFY) from error
    if not any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Corrupt("a str is marked as having surrogates and has none", hint=VERIFY)
    return value


def _lift_tuple(data: object) -> tuple[object, ...]:
    if type(data) is not list:
        raise Corrupt("a tuple is not kept as a list", hint=VERIFY)
    return tuple(data)


def _elements(data: object) -> dict[Any, None]:
    if type(data) is not dict or any(value is not None for value in data.values()):
        raise Corrupt("a set is not kept as a dict of its elements", hint=VERIFY)
    return data


def _lift_decimal(data: object) -> Decimal:
    if type(data) is not str:
        raise Corrupt("a Decimal is not kept as a str", hint=VERIFY)
    try:
        value = Decimal(data, _EXACT)
    except InvalidOperation as error:
        raise Corrupt(f"{data[:40]!r} is not a Decimal", hint=VERIFY) from error
    if _EXACT.to_sci_string(value) != data:
        raise Corrupt(f"the Decimal {data[:40]!r} is not in its canonical form", hint=VERIFY)
    return value


def _lift_uuid(data: object) -> UUID:
    raw = _bytes(data, "UUID")
    if len(raw) != 16:
        raise Corrupt(f"a UUID has {len(raw)} bytes instead of 16", hint=VERIFY)
    return UUID(bytes=raw)


def _path_lowering(number: int) -> Lowering:
    pure = _PURE[number % 2]

    def lower(value: PurePath) -> Tagged:
        text = str(value)
        if number % 2 and pure(text).parts != value.parts:
            raise BadValue(f"cannot keep {value!r}: its text reads as another path")
        return Tagged(Tag.PATH, [number, text])

    return lower


def _lift_path(data: object) -> PurePath:
    number, text = parts(data, "a path", int, str)
    if not 0 <= number < len(_PATHS):
        raise Corrupt(f"there is no kind {number} of paths", hint=VERIFY)
    pure: PurePath = _PURE[number % 2](text)
    if str(pure) != text:
        raise Corrupt(f"the path {text[:40]!r} is not in its canonical form", hint=VERIFY)
    kind: type[PurePath] = _PATHS[number]
    return kind(text) if issubclass(_HERE, kind) else pure


def _lift_complex(data: object) -> complex:
    return complex(*parts(data, "a complex", float, float))


def _bytes(data: object, what: str) -> bytes:
    if type(data) is not bytes:
        raise Corrupt(f"the data of a {what} is not bytes", hint=VERIFY)
    return data


_LOWER: dict[type, Lowering] = {
    int: _lower_int,
    str: _lower_text,
    tuple: _lowering(Tag.TUPLE, list),
    set: _lowering(Tag.SET, dict.fromkeys),
    frozenset: _lowering(Tag.FROZENSET, dict.fromkeys),
    Decimal: _lowering(Tag.DECIMAL, _EXACT.to_sci_string),
    UUID: _lowering(Tag.UUID, lambda value: value.bytes),
    complex: _lowering(Tag.COMPLEX, lambda value: [value.real, value.imag]),
    bytearray: _lowering(Tag.BYTEARRAY, bytes),
    **{kind: _path_lowering(number) for number, kind in enumerate(_PATHS)},
    **moments.LOWER,
}

_LIFT: dict[int, Callable[[object], object]] = {
    Tag.BIGINT: _lift_int,
    Tag.TEXT: _lift_text,
    Tag.TUPLE: _lift_tuple,
    Tag.SET: lambda data: set(_elements(data)),
    Tag.FROZENSET: lambda data: frozenset(_elements(data)),
    Tag.DECIMAL: _lift_decimal,
    Tag.UUID: _lift_uuid,
    Tag.PATH: _lift_path,
    Tag.COMPLEX: _lift_complex,
    Tag.BYTEARRAY: lambda data: bytearray(_bytes(data, "bytearray")),
    **moments.LIFT,
}
