"""How many tokens messages are: estimated, or counted with a vocabulary that is at hand.

A counter has a name and counts text. What is counted of a message is what a provider would be sent:
its texts, the names and arguments of its calls, and a few tokens around each message. A file of
text is sent as its text. Other attachments have none; providers charge pictures by their area,
which is a flat sum here.

    chat.context(8_000, counter=vocabulary("o200k_base"))      # with tiktoken, and no download

What providers counted, and what that says about estimates.

    usage    [how many messages there were, tokens of the input, tokens of the output,
              the estimate of the input, the index of the first message that was sent]

Between two requests that began alike, the difference of what was counted belongs to the messages
that came in between: estimates of these are scaled to it. All others are scaled as the last request
says as a whole. Factors are rounded up to sixteenths, so that a context does not shift with each.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from otolith.conversation.formats.parts import arguments_text, compact
from otolith.conversation.formats.unknown_fields import is_name, sayings
from otolith.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.errors import MissingExtra, NotFound
from otolith.frozen import thaw
from otolith.text.tokens import ESTIMATE, estimate_tokens

AROUND = 4
"""What stands around every message: its role, and where it begins and ends."""

PICTURE, FEWEST, BYTES_PER_TOKEN = 1_600, 16, 8
BYTES_PER_TOKEN_OF_TEXT = 3
"""What is said of a text that is not at hand."""
_LONG_ID, _RENAMED = 40, 24
"""From how many letters on an id may be renamed for a provider, and what it takes then."""
FILE = ".file"
"""In the extra of an attachment whose bytes are kept elsewhere: their hash and length."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A way to count tokens; the name is kept with what it counted."""

    name: str
    count: Callable[[str], int]

    def message(self, message: Message) -> int:
        """Return how many tokens a message is, with what stands around it."""
        total = AROUND + sum(map(self.part, message.parts))
        total += self.count(message.name) if message.name else 0
        beside = (left for name, left in message.meta.items() if is_name(name))
        return total + sum(self.count(said) for left in beside for said in sayings(left))

    def part(self, part: Part) -> int:
        """Return how many tokens a part of a message is."""
        if isinstance(part, Text | Reasoning):
            return self.count(part.text) + self.count(getattr(part, "signature", ""))
        if isinstance(part, ToolCall):
            named = self._id(part.id) + self.count(part.name)
            return AROUND + named + self.count(arguments_text(part))
        if isinstance(part, ToolResult):
            content = part.content
            said_size = self.count(content) if isinstance(content, str) else 0
            inner = sum(map(self.part, content)) if isinstance(content, tuple) else said_size
            return AROUND + self._id(part.call_id) + inner
        if isinstance(part, Attachment):
            return self._attachment(part)
        return self._extra(part)

    def _id(self, id: str) -> int:
        """Return what the id of a call takes; a long one may be sent as a shorter one of digits."""
        return max(self.count(id), _RENAMED if len(id) > _LONG_ID else 0)

    def _attachment(self, part: Attachment) -> int:
        words = self.count(part.name) + self.count(part.url) + FEWEST
        if part.media_type.startswith("image/"):
            return words + PICTURE
        is_text = part.media_type.startswith("text/")
        if is_text and part.data is not None:
            return words + self.count(part.data.decode(errors="replace"))
        size = part.extra.get(FILE, (0, 0))[1] if part.data is None else len(part.data)
        return words + int(size) // (BYTES_PER_TOKEN_OF_TEXT if is_text else BYTES_PER_TOKEN)

    def _extra(self, part: Extra) -> int:
        return AROUND + self.count(part.type) + self.count(compact(thaw(part.data)))


ESTIMATED = Counter(ESTIMATE, estimate_tokens)


def estimated(message: Message) -> int:
    """Return what a message was estimated at when it was added, or is now if another counted it."""
    known = message.tokens
    is_ours = known is not None and known.counter == ESTIMATE
    return known.count if known is not None and is_ours else ESTIMATED.message(message)


def as_counter(counter: Counter | Callable[[str], int] | None) -> Counter:
    """Return a counter for what a caller gave: one, a function of a text, or nothing."""
    if counter is None:
        return ESTIMATED
    if isinstance(counter, Counter):
        return counter
    return Counter(getattr(counter, "__qualname__", type(counter).__qualname__), counter)


# Vocabularies

_EXTRA = "pip install 'otolith[tokens]'"
_PLACES = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"

_FILES = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
"""Vocabularies that are others with more signs."""


def vocabulary(name: str = "o200k_base") -> Counter:
    """Return an exact counter with a vocabulary of tiktoken's; nothing is downloaded.

    Raises:
        MissingExtra: tiktoken is not installed.
        NotFound: the vocabulary is not on this machine.
    """
    try:
        tiktoken: Any = import_module("tiktoken")
    except ImportError:
        raise MissingExtra("tiktoken is not installed", hint=_EXTRA) from None
    url = _PLACES.format(name=_FILES.get(name, name))
    if not (_cache() / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).exists():
        raise NotFound(
            f"the vocabulary {name} is not on this machine, and nothing is downloaded here",
            hint=f"run tiktoken.get_encoding({name!r}) once where there is a network",
        )
    encoding = tiktoken.get_encoding(name)
    return Counter(name, lambda text: len(encoding.encode(text, disallowed_special=())))


def tokenizer(path: str | os.PathLike[str]) -> Counter:
    """Return an exact counter with a `tokenizer.json` of Hugging Face's `tokenizers`.

    Raises:
        MissingExtra: tokenizers is not installed.
        NotFound: there is no such file.
    """
    try:
        tokenizers: Any = import_module("tokenizers")
    except ImportError:
        raise MissingExtra("tokenizers is not installed", hint=_EXTRA) from None
    if not Path(path).is_file():
        raise NotFound(f"there is no file {path}", hint="give the path of a tokenizer.json")
    found: Any = tokenizers.Tokenizer.from_file(str(path))
    name = f"{Path(path).resolve().parent.name}/{Path(path).name}"
    return Counter(name, lambda text: len(found.encode(text, add_special_tokens=False).ids))


def _cache() -> Path:
    """Return where tiktoken keeps what it downloaded."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return Path(os.environ[name])
    return Path(tempfile.gettempdir()) / "data-gym-cache"


_LEAST, _MOST = 0.25, 4.0
LATEST = 64
"""How many requests back are looked at."""


class ProviderCount(NamedTuple):
    """What a provider counted for one request."""

    stop: int
    input: int
    output: int
    estimate: int
    start: int = 0


class Calibration:
    """By what an estimate is to be multiplied, depending on where its message is."""

    def __init__(self, anchors: Sequence[ProviderCount] = ()) -> None:
        usable = [anchor for anchor in anchors if anchor.estimate > 0 and anchor.input > 0]
        self._stops: list[int] = []
        self._factors: list[float] = []
        for before, after in pairwise(usable):
            counted, estimated = after.input - before.input, after.estimate - before.estimate
            alike = before.start == after.start and before.stop < after.stop
            if alike and counted > 0 and estimated > 0 and before.stop >= self._end():
                self._stops += [before.stop, after.stop]
                self._factors.append(_rounded(counted / estimated))
        last = usable[-1] if usable else None
        self.whole = 1.0 if last is None else _rounded(last.input / last.estimate)

    def _end(self) -> int:
        return self._stops[-1] if self._stops else 0

    def at(self, index: int) -> float:
        """Return the factor for a message."""
        place = bisect_right(self._stops, index)
        return self._factors[place // 2] if place % 2 else self.whole

    def apply(self, index: int, tokens: int) -> int:
        """Return an estimate as the providers' counts would have it."""
        factor = self.at(index)
        return tokens if factor == 1.0 else -int(-tokens * factor // 1)


def _rounded(factor: float) -> float:
    return -(-min(max(factor, _LEAST), _MOST) * 16 // 1) / 16
