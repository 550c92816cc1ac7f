"""Reprs that are the same in every process: without addresses, with the items of sets in one order.

Python's order of a set follows hashes that differ between processes, and a repr is a text in which
the set is gone: `Basket({'b', 'a'})`. So the braces are found in the text. Between braces that
hold no `: `, the items are sorted; inner ones first.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_TOKENS = re.compile(
    r"""'(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" | :\s | [.]{3}(?=\s\s|\n|\Z)
      | [^'"\[\](){},:.]+ | .""",
    re.VERBOSE | re.DOTALL,
)
_OPENING = {")": "(", "]": "[", "}": "{"}
_BRACKETS = frozenset("([{")
_DOTS = "..."  # so tables end what is too long for them


def stable_repr(value: object) -> str:
    """Return a repr that is the same for the same value in every process."""
    text = _ADDRESS.sub("", repr(value))
    return _with_ordered_sets(text) if "{" in text else text


class _Group:
    """The text since a bracket was opened; between braces, by item."""

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self._items: list[list[str]] = [[]]
        self._is_set = bracket == "{"

    def add(self, piece: str) -> None:
        """Add a token, or the text of a group that was closed."""
        if piece == "," and self.bracket == "{":
            self._items.append([])
            return
        self._items[-1].append(piece)
        self._is_set &= piece[0] != ":" or len(piece) == 1

    def text(self, closing: str = "") -> str:
        """Return all of it, with the bracket that closes it."""
        items = ["".join(item) for item in self._items]
        if self._is_set and closing:
            return f"{{{', '.join(sorted(item.strip() for item in items))}}}"
        return f"{self.bracket}{','.join(items)}{closing}"


def _with_ordered_sets(text: str) -> str:
    groups = [_Group("")]
    for piece in _TOKENS.findall(text):
        bracket = "{" if piece == _DOTS else _OPENING.get(piece)
        depths = (
            [at for at, each in enumerate(groups) if each.bracket == bracket] if bracket else []
        )
        if piece in _BRACKETS:
            groups.append(_Group(piece))
        elif not depths:
            groups[-1].add(piece)
        elif piece == _DOTS:  # which items come before them depends on their order
            del groups[depths[0] :]
            groups[-1].add("{…")
        else:
            _close(groups, depths[-1], piece)
    _close(groups, 1, "")
    return groups[0].text()


def _close(groups: list[_Group], depth: int, closing: str) -> None:
    """Close the group of a depth; brackets inside it that are still open are only text."""
    while len(groups) > depth:
        inner = groups.pop()
        groups[-1].add(inner.text(closing if len(groups) == depth else ""))
