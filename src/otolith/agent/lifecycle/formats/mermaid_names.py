"""Names that Mermaid can read: texts escaped, and ids that mean nothing else to it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]+")
_END = re.compile(r".*_(start|end)", re.IGNORECASE)
"""Ids that Mermaid makes for where a box begins and ends."""
_WORDS = re.compile(
    r"(?i:acctitle|accdescr|as|choice|class|classdef|click|default|direction|divider|empty|end"
    r"|fork|graph|hide|href|join|left|link|linkstyle|note|of|right|root|scale|state|statediagram"
    r"|style|subgraph|title)"
    r"|constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf"
)
"""Words of Mermaid, and names that every object of JavaScript has: as ids they break a diagram."""
_PLAIN = frozenset(" _.,/()[]=+*-'!?|@$")
_MARKS = frozenset("\ufb02\u00b0\u00b6")
"""Letters that Mermaid itself writes for the numbers of others."""


def escaped(text: str) -> str:
    """Return a text with every character that Mermaid could stumble over as its number."""
    return "".join(_character(char) for char in text) or "#32;"


def _character(char: str) -> str:
    if char in _PLAIN or (char.isalnum() and char not in _MARKS):
        return char
    if not char.isprintable() or char.isspace():
        return " " if char.isspace() else "#65533;"
    return f"#{ord(char)};"


class Names:
    """The ids of a diagram: a state's own where Mermaid can read it, else one near, or a number."""

    def __init__(self, ids: Iterable[str]) -> None:
        ids = list(ids)
        self._made = 0
        self._known = {id: id for id in ids if _is_plain(id)}
        self._taken = set(self._known)
        for id in ids:
            if id not in self._known:
                near = _NOT_PLAIN.sub("_", id).strip("_")
                is_free = _is_plain(near) and near not in self._taken
                self._known[id] = near if is_free else self.new("state")
                self._taken.add(self._known[id])

    def __getitem__(self, id: str) -> str:
        return self._known[id]

    def new(self, word: str) -> str:
        """Return an id that no state has."""
        self._made += 1
        id = f"{word}_{self._made}"
        if id in self._taken:
            return self.new(word)
        self._taken.add(id)
        return id


def _is_plain(id: str) -> bool:
    is_name = _PLAIN_ID.fullmatch(id) is not None and _END.fullmatch(id) is None
    return is_name and _WORDS.fullmatch(id) is None
