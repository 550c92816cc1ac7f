"""A value whose type is not known here, held so that nothing of it is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from otolith.codecs.exact import identical
from otolith.types import Tag, Tagged


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
