"""Mentions and entities: what was spoken of, where, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

TYPES = ("person", "place", "thing", "file", "number", "price", "date", "time", "item", "variable")
SOURCES = ("user", "assistant", "tool", "system", "variable")

_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a text speaks of, as it stands there."""

    text: str
    type: str
    start: int
    words: tuple[str, ...]
    """The stems of its words, without articles."""
    head: str = ""
    """The stem of the noun that says what it is."""
    form: str = "noun"  # name, noun, bare, value, item or variable
    number: str = ""  # singular, plural, or nobody can tell
    gender: str = ""  # m, f, n, or nobody can tell; of German nouns, the grammatical one
    is_definite: bool = False
    is_first: bool = False
    """Whether it comes first in its sentence: that is mostly what the sentence is about."""
    is_aside: bool = False
    """Whether it is spoken of in passing: Kim in "a message from Kim", the price in "its price"."""
    measures: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """Numbers that it was shown with: price, minutes, rating …"""
    line: str = ""
    """All that was shown of it, if it was shown in a list."""
    aside: tuple[str, ...] = ()
    """Words by which it is called as well: of "my sister Julia", sister."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Where an entity was spoken of."""

    message: int
    start: int
    text: str
    source: str
    form: str
    """How: by name, noun, as an item of a list, or by a reference like "it"."""
    is_first: bool = False
    is_aside: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that was spoken of, as far as it is known at one message."""

    id: int
    label: str
    type: str
    number: str
    gender: str
    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    """Whatever it was called, the first first."""
    measures: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    members: tuple[Entity, ...] = ()
    """Of several things together, each of them."""
    line: str = ""

    @property
    def message(self) -> int:
        """The last message that spoke of it; -1 if it is a variable that none did."""
        return self.mentions[-1].message if self.mentions else -1

    @property
    def source(self) -> str:
        """Who spoke of it first."""
        return self.mentions[0].source if self.mentions else "variable"

    def __str__(self) -> str:
        return self.label
