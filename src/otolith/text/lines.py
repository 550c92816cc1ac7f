"""Values and texts on one line, with every sign visible.

The descriptions of values in views, at the command line and in tracebacks are made of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

ELLIPSIS = "…"
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def clip(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters; a longer one ends in an ellipsis."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + ELLIPSIS


def clip_line(text: str, limit: int) -> str:
    """Return a text on one line, of at most `limit` characters."""
    return clip(" ".join(text.split()), limit)


def clip_pieces(pieces: Iterable[str], limit: int) -> str:
    """Join as many pieces as fit into `limit` characters; those after them are not asked for."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > limit:
            break
    return clip(text, limit)


def bracketed(first: str, last: str, parts: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the pieces of each part with commas between the parts, in brackets."""
    yield first
    for count, part in enumerate(parts):
        if count:
            yield ", "
        yield from part
    yield last


def printable(text: str) -> str:
    """Return a text in which every sign can be seen: others are escaped, each by itself."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def quoted(text: str) -> str:
    """Return a text in quotes, on one line."""
    return printable(json.dumps(text, ensure_ascii=False))


def plain_line(value: object) -> str:
    """Return a plain value on one line: a text in quotes, anything else as `str` writes it."""
    return quoted(value) if isinstance(value, str) else printable(str(value))


def key_text(key: object) -> str:
    """Return a key of a dict on one line: an identifier without quotes."""
    return key if isinstance(key, str) and key.isidentifier() else plain_line(key)


def dotted_name(type_name: str) -> str:
    """Return a stored name of a type as Python spells it: `shop:Order` is shop.Order."""
    return printable(type_name.replace(":", ".").removeprefix("builtins."))


def counted(count: int, nouns: str) -> str:
    """Return a count with its noun, given in the plural: `counted(1, "keys")` is "1 key"."""
    return f"{count:,} {nouns}" if count != 1 else f"1 {nouns.removesuffix('s')}"


def size_text(size_bytes: float) -> str:
    """Return a size in B, kB, MB or GB."""
    for unit, factor in _SIZES:
        if size_bytes >= factor:
            return f"{size_bytes / factor:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def parse_size(text: str) -> int | None:
    """Return the bytes of a text such as `512M`, `2 GB` or `2GiB`.

    None if it is not a size of at least one byte.
    """
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kmg]i?|)b?", text.strip().lower())
    return int(float(found[1]) * _BYTES[found[2]]) or None if found is not None else None
