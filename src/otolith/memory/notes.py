"""A note: something worth knowing, how much it matters, who said so, and what it replaced."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from otolith.agent.memory.fading import HALF_LIFE_SECONDS, strength
from otolith.errors import BadValue, Corrupt

MOST_VERSIONS = 8
"""How many earlier values a note shows; all of them are in the history of the state."""


class Version(NamedTuple):
    """What a note said before somebody knew better."""

    value: Any
    time: int
    source: str


def is_number(value: object) -> bool:
    """Tell whether something is a number that can be reckoned with."""
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing, under a key."""

    key: str
    value: Any
    importance: float = 0.5
    is_pinned: bool = False
    source: str = ""
    """Who says so: user, tool, agent …"""
    time: int = 0
    """When it was written, in microseconds since 1970."""
    uses: int = 0
    used: int = 0
    """When it was last used; 0 if never."""
    half_life_seconds: float | None = None
    """How long until half of it is gone; None is what the memory says."""
    replaced_by: str = ""
    """The key of the note that contradicts this one and is newer."""
    is_forgotten: bool = False
    versions: tuple[Version, ...] = ()
    """What it said before, the newest first."""

    def __post_init__(self) -> None:
        if not (is_number(self.importance) and 0 <= self.importance <= 1):
            raise BadValue(f"importance={self.importance!r}", hint="use a number from 0 to 1")
        half_life = self.half_life_seconds
        if half_life is not None and not (is_number(half_life) and half_life > 0):
            raise BadValue(f"half_life_seconds={half_life!r}", hint="use a number above 0")

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
        """The key and the value, as a line to read."""
        return f"{self.key}: {self.value}"

    def as_version(self) -> Version:
        """Return what it says, to be kept by the note that takes its place."""
        return Version(self.value, self.time, self.source)

    def to_data(self) -> dict[str, Any]:
        """Return what is kept of it; the key is where it is kept, and what is usual is left out."""
        data: dict[str, Any] = {"value": self.value, "time": self.time}
        usual = {name: getattr(_USUAL, name) for name in _OPTIONAL}
        data |= {n: getattr(self, n) for n in _OPTIONAL if getattr(self, n) != usual[n]}
        if self.versions:
            data["versions"] = [list(version) for version in self.versions]
        return data

    @classmethod
    def from_data(cls, key: str, data: Mapping[str, Any]) -> Note:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no note.
        """
        try:
            given = {name: data[name] for name in _OPTIONAL if name in data}
            versions = tuple(Version(*version) for version in data.get("versions", ()))
            return cls(key, data["value"], time=data["time"], versions=versions, **given)
        except (KeyError, TypeError, BadValue) as error:
            why = f".memory/notes/{key} is no note: {error!r}"
            raise Corrupt(why, hint="run otolith fsck") from error


_OPTIONAL = (
    "importance",
    "is_pinned",
    "source",
    "uses",
    "used",
    "half_life_seconds",
    "replaced_by",
    "is_forgotten",
)
_USUAL = Note("", None)
