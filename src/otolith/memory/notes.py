"""A note: something worth knowing, how much it matters, who said so, and what it replaced.

How much is left of what was noted: a law of what is stored and the time it is now.

    strength = importance x 0.5 ^ (age / half-life)

The age is the time since the note was written or last used. Each use lengthens the half-life by
one more of it, so that what is used often fades slowly. What is pinned has its importance for ever.
Nobody writes anything for a note to fade: it is worked out when it is read.

Which notes answer a question: those that speak of it, and of these the strongest.

The score is relevance x strength. Relevance is how much of what the question asks about is in the
note, from 0 to 1; words that few notes have weigh more. Words are compared by their stems; where
they are not set apart by spaces, by their signs, as in a search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from otolith import text as language  # loaded at the first question: every repo merges notes
from otolith.errors import BadValue, Corrupt
from otolith.shapes import NOTHING, Shape, fields, items

HALF_LIFE_SECONDS = 7 * 24 * 3600.0
"""After a week a note that nobody used is worth half."""

_MICROSECONDS = 1_000_000


def strength(
    importance: float,
    *,
    age: int,
    uses: int = 0,
    half_life_seconds: float = HALF_LIFE_SECONDS,
    is_pinned: bool = False,
) -> float:
    """Return what is left of an importance after `age` microseconds; never more than it was."""
    if is_pinned:
        return importance
    lasting = half_life_seconds * (1 + max(uses, 0)) * _MICROSECONDS
    half_lives: float = max(age, 0) / lasting
    decay: float = 0.5**half_lives
    return importance * decay


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
        where = f".memory/notes/{key}"
        given = fields(data, where, _NEEDED, {**_OPTIONAL, "versions": list}, is_open=True)
        versions = tuple(
            Version(*items(version, f"a version of {where}", object, int, str))
            for version in given.pop("versions", ())
        )
        try:
            return cls(key, given.pop("value"), versions=versions, **given)
        except BadValue as error:
            why = f"{where} is no note: {error.message}"
            raise Corrupt(why, hint="run otolith fsck") from error


_NEEDED: Shape = {"value": object, "time": int}
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
_USUAL = Note("", None)


Relevance: TypeAlias = Callable[[str, Note], float]
"""A judge of your own: the question and a note in, how relevant it is from 0 to 1 out."""

_ALIKE = 0.6
"""What a word counts that only begins like the one asked for, or is part of it."""
_SHARED_LETTERS = 5


class Recalled(NamedTuple):
    """A note that came to mind, and why."""

    note: Note
    score: float
    relevance: float
    strength: float

    @property
    def key(self) -> str:
        """The key of the note."""
        return self.note.key

    @property
    def value(self) -> Any:
        """What the note says."""
        return self.note.value


class Words:
    """The words of notes, kept as long as the notes are as they were."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, frozenset[str]]] = {}

    def of(self, note: Note) -> frozenset[str]:
        """Return the stems of the words in a note."""
        text = note.text
        known = self._known.get(note.key)
        if known is None or known[0] != text:
            known = self._known[note.key] = text, frozenset(_compared(text))
        return known[1]


def _compared(text: str) -> set[str]:
    """Return what of a text is compared: stems of words, and signs that are words by themselves."""
    alone = set(language.signs(text))
    if not alone:
        return set(language.content_words(text))
    return {
        word for word in language.content_words(text) if alone.isdisjoint(language.signs(word))
    } | alone


def relevances(query: str, notes: Mapping[str, frozenset[str]]) -> dict[str, float]:
    """Return how relevant each of some notes is, by the words of each."""
    asked = _compared(query)
    if not asked:
        return dict.fromkeys(notes, 1.0)
    weights = _weights(asked, notes.values())
    total = sum(weights.values())
    return {
        key: sum(weight * _match(word, words) for word, weight in weights.items()) / total
        for key, words in notes.items()
    }


def _weights(asked: Iterable[str], notes: Iterable[frozenset[str]]) -> dict[str, float]:
    listed = list(notes)
    counts = Counter(word for words in listed for word in words)
    return {word: math.log(1 + (len(listed) + 1) / (counts[word] + 0.5)) for word in sorted(asked)}


def _match(word: str, words: frozenset[str]) -> float:
    if word in words:
        return 1.0
    if len(word) < _SHARED_LETTERS:
        return 0.0
    start = word[:_SHARED_LETTERS]
    return _ALIKE if any(each.startswith(start) or word in each for each in words) else 0.0
