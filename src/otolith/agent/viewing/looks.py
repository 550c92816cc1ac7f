"""Looks: how a thing is described, whether it is an object in memory or a cell of a tree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from otolith.agent.tokens import DOTS

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Looks(Protocol[T_contra]):
    """What can be told of a thing."""

    def what(self, thing: T_contra) -> str:
        """Return what it is: its type, how much is in it, its size."""
        ...

    def pieces(self, thing: T_contra) -> Iterator[str]:
        """Yield it as text, bit by bit; whoever has enough stops."""
        ...

    def parts(self, thing: T_contra) -> Parts | None:
        """Return what is in it by name, if it has names in it."""
        ...


class Item(NamedTuple):
    """A thing with a name."""

    name: str
    thing: Any
    looks: Looks[Any]

    @property
    def head(self) -> str:
        """Its name, and what it is."""
        return f"{self.name}: {self.looks.what(self.thing)}"

    def text(self, limit: int) -> str:
        """Return it as text of about so many characters; a longer one ends in dots."""
        return joined(self.looks.pieces(self.thing), limit)

    def parts(self) -> Parts | None:
        """Return what is in it."""
        return self.looks.parts(self.thing)


class Parts(NamedTuple):
    """Things with names, and how many there are; they are looked at when they are shown."""

    items: Iterable[Item]
    total: int
    noun: str = "keys"


def joined(pieces: Iterator[str], limit: int) -> str:
    """Return as many pieces as fit; if there were more, dots at the end."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > limit:
            return text[: max(limit - 1, 0)] + DOTS
    return text


def between(first: str, last: str, parts: Iterable[Iterator[str]]) -> Iterator[str]:
    """Yield parts with commas between them, in brackets."""
    yield first
    for count, part in enumerate(parts):
        if count:
            yield ", "
        yield from part
    yield last


def quoted(text: str) -> str:
    """Return a text on one line."""
    return printable(json.dumps(text, ensure_ascii=False))


def key_text(key: object) -> str:
    """Return a key of a dict as text."""
    return key if isinstance(key, str) and key.isidentifier() else one_line(key)


def one_line(value: object) -> str:
    """Return a plain value as text."""
    return quoted(value) if isinstance(value, str) else printable(str(value))


def printable(text: str) -> str:
    """Return a text in which every sign can be seen: others are escaped, each by itself."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def dotted(type_name: str) -> str:
    """Return a stored name of a type as Python spells it."""
    return printable(type_name.replace(":", ".").removeprefix("builtins."))


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}" if count != 1 else f"1 {noun.removesuffix('s')}"


def bytes_text(size: int) -> str:
    """Return a size as a person says it."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def frame_pieces(columns: list[tuple[str, str]], rows: list[list[object]]) -> Iterator[str]:
    """Yield the columns of a frame with their types, and a few rows."""
    yield from between("", "", (iter([f"{name} {dtype}"]) for name, dtype in columns))
    for row in rows:
        yield " | "
        yield from between("", "", (iter([one_line(value)]) for value in row))
