"""Text that looks like English to a compressor: made-up words, common ones more often."""

from __future__ import annotations

import random
from itertools import accumulate

import zstandard

MESSAGE_BYTES = 500
_STARTS = (
    "b",
    "br",
    "c",
    "ch",
    "cl",
    "d",
    "f",
    "g",
    "h",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
    "th",
)
_MIDDLES = ("a", "ai", "au", "e", "ea", "ee", "i", "ie", "o", "oa", "oo", "ou", "u", "y")
_ENDS = ("", "", "b", "ck", "d", "ft", "g", "l", "ll", "m", "n", "nd", "ng", "nt", "p", "r", "rt")
_TAILS = ("", "", "", "", "ed", "er", "ing", "ly", "s", "tion")


class Words:
    """A seeded source of text; the same seed gives the same text."""

    def __init__(self, seed: int = 1, *, vocabulary: int = 4000) -> None:
        self._random = random.Random(seed)
        self._words = [self._word() for _ in range(vocabulary)]
        # Zipf's law: the n-th word is as common as 1/n says.
        self._weights = list(accumulate(1 / rank for rank in range(1, vocabulary + 1)))

    def text(self, size: int) -> str:
        """Return this many characters of text, all of them ASCII."""
        chosen = self._random.choices(self._words, cum_weights=self._weights, k=size // 3 + 1)
        return " ".join(chosen)[:size]

    def message(self) -> str:
        """Return what an agent might have said."""
        return self.text(MESSAGE_BYTES)

    def _word(self) -> str:
        pick = self._random.choice
        syllables = "".join(
            pick(_STARTS) + pick(_MIDDLES) + pick(_ENDS)
            for _ in range(self._random.choice((1, 1, 2)))
        )
        return syllables + pick(_TAILS)


def compressibility(messages: int = 1000) -> str:
    """Say how much zstd makes of a message alone, and of many together."""
    words = Words()
    texts = [words.message().encode() for _ in range(messages)]
    press = zstandard.ZstdCompressor(level=3)
    alone = sum(map(len, texts)) / sum(len(press.compress(text)) for text in texts)
    together = b"\n".join(texts)
    return (
        f"{MESSAGE_BYTES}-byte messages: zstd -3 makes one {alone:.2f}x smaller, "
        f"{messages} together {len(together) / len(press.compress(together)):.2f}x"
    )
