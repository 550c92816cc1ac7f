"""A note: a value worth knowing, under a key, with its importance, its source and its versions.

The importance of a note fades:

    strength = importance x 0.5 ^ (age / half-life)

The age is the time since the note was written or last used. Each use adds one more half-life to
the half-life, so that a note that is used often fades slowly. A pinned note does not fade. Nothing
is written when a note fades: its strength is computed from the stored fields and the current time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from otolith.errors import BadValue, Corrupt
from otolith.shapes import NOTHING, Shape, fields, items
from otolith.types import short_repr

HALF_LIFE_SECONDS = 7 * 24 * 3600.0
"""The default half-life: a note that is not used has half of its strength after a week."""
MAX_VERSIONS = 8
"""How many earlier values a note lists; all of them are in the history of the state."""

_MICROSECONDS = 1_000_000


def strength(
    importance: float,
    *,
    age: int,
    uses: int = 0,
    half_life_seconds: float = HALF_LIFE_SECONDS,
    is_pinned: bool = False,
) -> float:
    """Return what is left of an importance after `age` microseconds; never more than it was.

    strength(0.8, age=7 * 24 * 3600 * 1_000_000)     # 0.4, after a week
    """
    if is_pinned:
        return importance
    half_life = half_life_seconds * (1 + max(uses, 0)) * _MICROSECONDS
    decay: float = 0.5 ** (max(age, 0) / half_life)
    return importance * decay


class NoteVersion(NamedTuple):
    """An earlier value of a note."""

    value: Any
    time: int
    source: str


def check_half_life(seconds: object) -> None:
    """Check that a half-life is a finite number above 0.

    Raises:
        BadValue: it is not.
    """
    if not (is_number(seconds) and seconds > 0):  # type: ignore[operator]
        raise BadValue(
            f"half_life_seconds must be positive, got {seconds!r}", hint="use a number above 0"
        )


def is_number(value: object) -> bool:
    """Return whether a value is a finite int or float; a bool is not a number here."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


@short_repr("key", "value", "importance", "is_pinned", "is_forgotten")
@dataclass(frozen=True, slots=True)
class Note:
    """A value worth knowing, under a key."""

    key: str
    value: Any
    importance: float = 0.5
    """From 0 to 1."""
    is_pinned: bool = False
    """Whether it never fades."""
    source: str = ""
    """Where it comes from: user, tool, agent …"""
    time: int = 0
    """When it was written, in microseconds since 1970."""
    uses: int = 0
    used: int = 0
    """When it was last used; 0 if never."""
    half_life_seconds: float | None = None
    """Its own half-life; None stands for that of the memory."""
    replaced_by: str = ""
    """The key of the newer note that contradicts this one; see `current_notes`."""
    is_forgotten: bool = False
    versions: tuple[NoteVersion, ...] = ()
    """Its earlier values, the newest first."""

    def __post_init__(self) -> None:
        if not (is_number(self.importance) and 0 <= self.importance <= 1):
            raise BadValue(
                f"importance must be from 0 to 1, got {self.importance!r}",
                hint="use a number from 0 to 1",
            )
        if self.half_life_seconds is not None:
            check_half_life(self.half_life_seconds)

    def strength(self, now: int, *, half_life_seconds: float = HALF_LIFE_SECONDS) -> float:
        """Return what is left of its importance at a time, in microseconds since 1970."""
        return strength(
            self.importance,
            age=now - max(self.time, self.used),
            uses=self.uses,
            half_life_seconds=self.half_life_seconds or half_life_seconds,
            is_pinned=self.is_pinned,
        )

    @property
    def text(self) -> str:
        """The key and the value, as one line."""
        return f"{self.key}: {self.value}"

    def as_version(self) -> NoteVersion:
        """Return its value as an earlier version, for the note that replaces it."""
        return NoteVersion(self.value, self.time, self.source)

    def to_data(self) -> dict[str, Any]:
        """Return the stored form; defaults and the key, under which it is stored, are left out."""
        data: dict[str, Any] = {"value": self.value, "time": self.time}
        given = {name: getattr(self, name) for name in _OPTIONAL}
        data |= {n: value for n, value in given.items() if value != getattr(_DEFAULTS, n)}
        if self.versions:
            data["versions"] = [list(version) for version in self.versions]
        return data

    @classmethod
    def from_data(cls, key: str, data: Mapping[str, Any]) -> Note:
        """Return the note that `to_data` made into data.

        Raises:
            Corrupt: the data is not a note.
        """
        where = f".memory/notes/{key}"
        given = fields(data, where, _REQUIRED, {**_OPTIONAL, "versions": list}, is_open=True)
        versions = tuple(
            NoteVersion(*items(version, f"a version of {where}", object, int, str))
            for version in given.pop("versions", ())
        )
        try:
            return cls(key, given.pop("value"), versions=versions, **given)
        except BadValue as error:
            why = f"{where} is not a valid note: {error.message}"
            raise Corrupt(why, hint="run otolith fsck") from error


def current_notes(notes: Mapping[str, Note]) -> dict[str, Note]:
    """Return the notes that no other one replaces, by key.

    A note is replaced by one that is there, and was written no earlier: what was written since,
    perhaps on another branch, holds again. Of notes that replace each other in a circle, one is
    left: the last one by time, then by key.
    """

    def successor(note: Note) -> Note | None:
        other = notes.get(note.replaced_by)
        return other if other is not None and other.time >= note.time else None

    def is_last_of_circle(note: Note) -> bool:
        keys, other = {note.key}, successor(note)
        while other is not None and other.key not in keys:
            keys.add(other.key)
            other = successor(other)
        return other is not None and other.key == note.key == max(keys)

    return {
        key: note
        for key, note in notes.items()
        if successor(note) is None or is_last_of_circle(note)
    }


_REQUIRED: Shape = {"value": object, "time": int}
_OPTIONAL: Shape = {
    "importance": float,
    "is_pinned": bool,
    "source": str,
    "uses": int,
    "used": int,
    "half_life_seconds": (float, NOTHING),
    "replaced_by": str,
    "is_forgotten": bool,
}
_DEFAULTS = Note("", None)
