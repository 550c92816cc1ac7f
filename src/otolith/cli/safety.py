"""Texts from a store on a terminal: what would command it, or turn its lines around, is shown.

Whoever writes to a store chooses messages, names and values. A control character in them could
colour, move or wipe what is on the screen, and a bidirectional one lets a text read as another.
"""

from __future__ import annotations

import re

_CONTROLS = [*range(32), *range(127, 160)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_MARK = "\N{REPLACEMENT CHARACTER}"
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(127, 160), *_BIDI)}
_SAFE = dict.fromkeys(_CONTROLS, _MARK) | {code: _ESCAPED[code] for code in _BIDI} | _KEPT
_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")


def safe(text: str) -> str:
    """Return a text that tells a terminal nothing but itself."""
    return text.translate(_SAFE)


def tame(line: str) -> str:
    """Return a line of ours that does nothing to a terminal but colour it."""
    if line.isprintable():
        return line
    return "".join(part if at % 2 else safe(part) for at, part in enumerate(_COLOUR.split(line)))


def escaped(text: str) -> str:
    """Return JSON in which such characters are escaped, as JSON itself does with the others."""
    return text.translate(_ESCAPED)
