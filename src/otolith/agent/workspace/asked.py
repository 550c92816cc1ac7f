"""What is asked for, looked at before anything is run: the code, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otolith.errors import BadValue, Invalid

_DEEPEST = 50
OURS = frozenset({"ok", "sandbox", "stopped"})
"""What a workspace says of each step: whether it went well, where it ran, what ended it."""


def check_code(code: str) -> None:
    """Refuse what is no text.

    Raises:
        Invalid: it holds half a character, as bytes do that were not decoded as what they are.
    """
    try:
        code.encode()
    except UnicodeEncodeError as error:
        line = code.count("\n", 0, error.start) + 1
        raise Invalid(f"line {line} of the code is no text", hint="read it as UTF-8") from None


def check_meta(meta: Mapping[str, Any] | None) -> None:
    """Refuse what a commit could not keep, before anything is run.

    Raises:
        Invalid: a word of it is one that a workspace says itself.
        BadValue: it is not plain data.
    """
    if meta is None:
        return
    if not _is_plain(dict(meta)):
        raise BadValue(
            "the meta of a step is not plain data",
            hint="use None, bool, numbers, str, bytes, and lists and str-keyed dicts of them",
        )
    if taken := sorted(OURS & meta.keys()):
        raise Invalid(
            f"{taken[0]!r} in the meta of a step is what a workspace says of it",
            hint=f"choose another word than {', '.join(sorted(OURS))}",
        )


def _is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether this is the same after it was written and read, as a commit sees it."""
    if type(value) is dict and depth < _DEEPEST:
        return all(type(key) is str and _is_plain(part, depth + 1) for key, part in value.items())
    if type(value) is list and depth < _DEEPEST:
        return all(_is_plain(part, depth + 1) for part in value)
    return value is None or type(value) in (bool, int, float, str, bytes)
