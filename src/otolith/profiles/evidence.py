"""Evidence: one thing that somebody said, chose, liked or set, and where that is known from.

Evidence is only added, never changed: whatever is believed about a user follows from it. Its name
in the log, its *stamp*, is its time and its id, so names are in the order of time, and what is
known from the same source has the same id, however often it is read.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from itertools import dropwhile
from typing import Any

from otolith import text as language
from otolith.core import digest
from otolith.errors import BadValue, Corrupt
from otolith.shapes import Shape, fields
from otolith.types import short_repr

MAX_VALUE_LETTERS = 4_000
"""The longest value, as JSON."""
MAX_KEY_LETTERS = 200
_MAX_SOURCE_LETTERS = 1_000
STATEMENT_WEIGHT, FEEDBACK_WEIGHT = 3.0, 2.0
"""What a statement and a liking count, where a choice counts 1."""
_MAX_WEIGHT = 1_000.0
_DEEPEST = 20
_MARKS = ".,;:!?\"'()[]"
_LEADING = frozenset(
    ["on", "in", "at", "for", "when", "during", "while", "if", "with", "to", "a", "an", "the", "my"]
)


class EvidenceKind(StrEnum):
    """How something is known."""

    SET = "set"
    """The user set the value; it holds until it is unset."""
    UNSET = "unset"
    CHOICE = "choice"
    """The user behaved as if they preferred it."""
    FEEDBACK = "feedback"
    """The user liked or disliked it."""
    STATEMENT = "statement"
    """The user said so in a conversation."""


@short_repr("kind", "key", "value", "weight", "source")
@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence about a key of a profile."""

    key: str
    value: Any
    kind: EvidenceKind
    weight: float = 1.0
    """How much it counts; below zero it speaks against the value."""
    time: int = 0
    """In microseconds since 1970."""
    id: str = ""
    source: str = ""
    """Where it is known from: the id of a message, a tool, a form …"""
    purpose: str = "learning"
    """What it may be used for."""
    context: str = ""
    """When it holds, such as "business trips"; always by default."""
    quote: str = ""
    """What was said, word for word."""

    @property
    def stamp(self) -> str:
        """Its name in the log: its time, then its id."""
        return f"{self.time:014x}.{self.id}"

    @property
    def option(self) -> str:
        """The value as a text that equal values share."""
        return option_text(self.value)

    @property
    def when(self) -> datetime:
        """Its time."""
        return datetime.fromtimestamp(self.time / 1_000_000, UTC)

    def to_data(self) -> dict[str, Any]:
        """Return the stored form, without what the stamp and the key say, and without defaults."""
        data: dict[str, Any] = {"kind": str(self.kind), "value": self.value}
        given = {name: getattr(self, name) for name in _OPTIONAL}
        return data | {name: each for name, each in given.items() if each != _DEFAULTS[name]}

    @property
    def is_explicit(self) -> bool:
        """Whether the user set or unset the value; the learner has nothing to do with it."""
        return self.kind in (EvidenceKind.SET, EvidenceKind.UNSET)

    @classmethod
    def from_data(cls, key: str, stamp: str, data: object) -> Evidence:
        """Return the evidence that is stored under a key and a stamp.

        Raises:
            Corrupt: this is something else.
        """
        where = f".profile/evidence/{key}/{stamp}"
        given = fields(data, where, _REQUIRED, _OPTIONAL, is_open=True)
        time, _, id = stamp.partition(".")
        try:
            kind = EvidenceKind(given.pop("kind"))
            return cls(key, given.pop("value"), kind, time=int(time, 16), id=id, **given)
        except ValueError as error:
            raise Corrupt(
                f"{where} is not evidence: {error}", hint="run otolith fsck, or forget the key"
            ) from None


_REQUIRED: Shape = {"kind": str, "value": object}
_OPTIONAL: Shape = {"weight": float, "source": str, "purpose": str, "context": str, "quote": str}
_DEFAULTS: dict[str, Any] = {
    "weight": 1.0,
    "source": "",
    "purpose": "learning",
    "context": "",
    "quote": "",
}


def stamp_time(stamp: str) -> int:
    """Return the time in a stamp, in microseconds since 1970."""
    return int(stamp.partition(".")[0], 16)


def source_id(kind: EvidenceKind, key: str, value: object, context: str, source: str) -> str:
    """Return the id of evidence from a source: the same again for the same."""
    parts = [kind, key, option_text(value), context_stems(context), source]
    return digest("\0".join(parts).encode())[:8].hex()


def option_text(value: object) -> str:
    """Return a value as a text that equal values share: its JSON, with keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def check_key(key: object) -> str:
    """Return the key of a preference if it is one.

    Raises:
        BadValue: it is not a short text on one line.
    """
    is_text = isinstance(key, str) and 0 < len(key) <= MAX_KEY_LETTERS
    if not is_text or not str(key).isprintable() or str(key).strip() != key:
        raise BadValue(
            f"a key must be a text of 1 to {MAX_KEY_LETTERS} printable letters without spaces"
            f" around it, got {str(key)[:80]!r}",
            hint='use a name such as "seat" or "answers/length"',
        )
    return str(key)


def check_value(key: str, value: object) -> Any:
    """Return a value if it is plain data of a size that a person would read.

    Raises:
        BadValue: it is not.
    """
    _check_plain(key, value, 0)
    size = len(option_text(value))
    if size > MAX_VALUE_LETTERS:
        raise BadValue(
            f"{key}: the value has {size:,} letters; a preference has at most"
            f" {MAX_VALUE_LETTERS:,}",
            hint="keep documents in the state, and their path here",
        )
    return value


def _check_plain(key: str, value: object, depth: int) -> None:
    """Refuse what JSON cannot say exactly."""
    if depth > _DEEPEST:
        raise BadValue(f"{key}: the value is nested more than {_DEEPEST} deep", hint="flatten it")
    if value is None or type(value) in (bool, int):
        return
    if type(value) is str:
        if not value.isascii() and value.encode(errors="replace").decode() != value:
            raise BadValue(f"{key}: the text {value[:80]!r} is not Unicode", hint="decode it first")
        return
    if type(value) is float and math.isfinite(value):
        return
    if type(value) is list:
        for each in value:
            _check_plain(key, each, depth + 1)
    elif type(value) is dict and all(type(name) is str for name in value):
        for name, each in value.items():
            _check_plain(key, name, depth + 1)
            _check_plain(key, each, depth + 1)
    else:
        raise BadValue(
            f"{key}: a value must be text, a finite number, yes or no, nothing, or a list or dict"
            f" with text keys of these; got {type(value).__name__} {str(value)[:80]!r}",
            hint="store its name, or its plain form",
        )


def check_source(source: str) -> str:
    """Return the name of a source if it is one.

    Raises:
        BadValue: it is not a short text on one line.
    """
    if len(source) > _MAX_SOURCE_LETTERS or not source.isprintable():
        raise BadValue(
            f"source must be a text of at most {_MAX_SOURCE_LETTERS:,} printable letters, got"
            f" {source[:80]!r}",
            hint="give an id, and keep the text itself elsewhere",
        )
    return source


def check_weight(weight: object) -> float:
    """Return a weight if it is one.

    Raises:
        BadValue: it is not a number above 0.
    """
    is_number = type(weight) in (int, float) and math.isfinite(weight)  # type: ignore[arg-type]
    if not is_number or not 0 < weight <= _MAX_WEIGHT:  # type: ignore[operator]
        raise BadValue(
            f"weight must be a number above 0, at most {_MAX_WEIGHT:g}, got {weight!r}",
            hint="1 is one choice; feedback(…, liked=False) speaks against a value",
        )
    return float(weight)  # type: ignore[arg-type]


def check_context(context: object) -> str:
    """Return a context as it is stored and shown: its words, without what leads them in.

    check_context("On my business trips")      # "business trips"

    Raises:
        BadValue: it is not a short text.
    """
    if not isinstance(context, str) or len(context) > MAX_KEY_LETTERS:
        raise BadValue(
            f"context must be a text of at most {MAX_KEY_LETTERS} letters, got"
            f" {str(context)[:80]!r}",
            hint='say when it holds, such as "business trips"',
        )
    words = [word.strip(_MARKS) for word in context.lower().split()]
    found = " ".join(dropwhile(_LEADING.__contains__, filter(None, words)))
    if not found.isprintable() or (words and not found):
        raise BadValue(f"context {context[:80]!r} does not say when", hint='say "business trips"')
    return found


@lru_cache(maxsize=1024)
def context_stems(context: str) -> str:
    """Return what contexts have in common that are one: "business trip" and "business trips"."""
    return " ".join(map(language.stem, context.split()))
