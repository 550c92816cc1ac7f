"""Replacements: how one text became another, by lines, and inside of lines by words.

`edits_between(old, new)` returns spans of the old text and what is there instead, in order; applied
from the last to the first, they make the new one of it. Lines that differ are compared word by
word, so a word that changed is replaced as a whole, and what others wrote beside it stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_MOST_MATCHES = 1_000_000
"""Beyond so many pairs of equal lines or words, aligning them is not worth its time."""


class Replacement(NamedTuple):
    """The characters `start` to `stop` of the old text, and what is there instead."""

    start: int
    stop: int
    text: str


def edits_between(old: str, new: str) -> list[Replacement]:
    """Return how one text became another."""
    found: list[Replacement] = []
    for block in _differing(_LINES.findall(old), _LINES.findall(new)):
        at, whole = block.start, old[block.start : block.stop]
        before, after = _LINES.findall(whole), _LINES.findall(block.text)
        is_paired = len(before) == len(after)
        for line, fresh in zip(before, after, strict=True) if is_paired else [(whole, block.text)]:
            words = _differing(_WORDS.findall(line), _WORDS.findall(fresh))
            found += [Replacement(at + a, at + b, each) for a, b, each in words]
            at += len(line)
    return found


def _differing(old: Sequence[str], new: Sequence[str]) -> list[Replacement]:
    """Return the runs of parts that differ, as spans of characters."""
    start, end = _common_ends(old, new)
    middle, fresh = old[start : len(old) - end], new[start : len(new) - end]
    counts = Counter(middle)
    matches = sum(counts[part] * count for part, count in Counter(fresh).items())
    if 0 < matches <= _MOST_MATCHES:
        blocks = SequenceMatcher(None, middle, fresh, autojunk=False).get_opcodes()
    else:
        blocks = [("replace", 0, len(middle), 0, len(fresh))]
    at = sum(map(len, old[:start]))
    found: list[Replacement] = []
    for tag, a, b, c, d in blocks:
        length = sum(map(len, middle[a:b]))
        if tag != "equal" and (length or c < d):
            found.append(Replacement(at, at + length, "".join(fresh[c:d])))
        at += length
    return found


def _common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many parts are the same at the beginning and, of the rest, at the end."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - start
    end = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return start, end
