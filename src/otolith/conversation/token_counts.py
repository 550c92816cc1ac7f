"""Token counts of messages: estimated, counted with a vocabulary, or corrected by a provider.

A `TokenCounter` has a name and counts text. It counts what a provider would be sent of a message:
its texts, the names and arguments of its calls, and a few tokens around each message. A text file
is sent as its text. Other attachments are charged by their size; providers charge pictures by
their area, which is a flat sum here.

    chat.context(8_000, counter=vocabulary("o200k_base"))      # with tiktoken, and no download

`Calibration` corrects estimates with what providers have counted for whole requests. These counts
are stored in the table `usage` of a thread, in the order of the fields of `ProviderCount`. Between
two requests with the same beginning, the difference of their counts belongs to the messages added
in between, and the estimates of these are scaled to it. All other messages are scaled by the last
request as a whole. Factors are rounded up to sixteenths, so that a context does not shift with
every count.
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

from otolith.conversation.formats.parts import arguments_json, compact_json
from otolith.conversation.formats.unknown_fields import added_texts, is_meta_key
from otolith.conversation.message import (
    STORED_FILE,
    Attachment,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.errors import MissingExtra, NotFound
from otolith.frozen import thaw
from otolith.shapes import FUNCTION, check_argument
from otolith.text.tokens import ESTIMATE, estimate_tokens

MESSAGE_OVERHEAD = 4
"""The tokens around every message: its role, and where it begins and ends."""
_PICTURE_TOKENS, _ATTACHMENT_OVERHEAD = 1_600, 16
_BYTES_PER_TOKEN, _BYTES_PER_TOKEN_OF_TEXT = 8, 3
_LONG_ID, _RENAMED_ID_TOKENS = 40, 24
"""A call id with more letters may be replaced for a provider, by one of so many tokens."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """A way to count tokens; its name is stored with the counts it made."""

    name: str
    count: Callable[[str], int]

    def message(self, message: Message) -> int:
        """Return the tokens of a message, with those around it."""
        total = MESSAGE_OVERHEAD + sum(map(self.part, message.parts))
        total += self.count(message.name) if message.name else 0
        unknown = (fields for key, fields in message.meta.items() if is_meta_key(key))
        return total + sum(self.count(text) for fields in unknown for text in added_texts(fields))

    def part(self, part: Part) -> int:
        """Return the tokens of a part of a message."""
        if isinstance(part, Text | Reasoning):
            return self.count(part.text) + self.count(getattr(part, "signature", ""))
        if isinstance(part, ToolCall):
            name = self._call_id(part.id) + self.count(part.name)
            return MESSAGE_OVERHEAD + name + self.count(arguments_json(part))
        if isinstance(part, ToolResult):
            content = part.content
            is_text = isinstance(content, str)
            size = self.count(content) if is_text else sum(map(self.part, content))  # type: ignore[arg-type]
            return MESSAGE_OVERHEAD + self._call_id(part.call_id) + size
        if isinstance(part, Attachment):
            return self._attachment(part)
        return MESSAGE_OVERHEAD + self.count(part.type) + self.count(compact_json(thaw(part.data)))

    def _call_id(self, id: str) -> int:
        return max(self.count(id), _RENAMED_ID_TOKENS if len(id) > _LONG_ID else 0)

    def _attachment(self, part: Attachment) -> int:
        """Return the tokens of an attachment, with its name and address."""
        total = self.count(part.name) + self.count(part.url) + _ATTACHMENT_OVERHEAD
        if part.media_type.startswith("image/"):
            return total + _PICTURE_TOKENS
        is_text = part.media_type.startswith("text/")
        if is_text and part.data is not None:
            return total + self.count(part.data.decode(errors="replace"))
        size = part.extra.get(STORED_FILE, (0, 0))[1] if part.data is None else len(part.data)
        return total + int(size) // (_BYTES_PER_TOKEN_OF_TEXT if is_text else _BYTES_PER_TOKEN)


ESTIMATED = TokenCounter(ESTIMATE, estimate_tokens)
"""The default counter: the estimate, which needs no vocabulary."""


def estimated_tokens(message: Message) -> int:
    """Return the stored estimate of a message, or a new one if another counter counted it."""
    known = message.tokens
    if known is not None and known.counter == ESTIMATE:
        return known.count
    return ESTIMATED.message(message)


class TokenTotal:
    """The estimated tokens of all messages of a thread, added one by one."""

    def __init__(self) -> None:
        self.tokens = 0

    def add(self, message: Message) -> None:
        """Add a message."""
        self.tokens += estimated_tokens(message)


def to_counter(counter: TokenCounter | Callable[[str], int] | None) -> TokenCounter:
    """Return a counter for an argument: a counter, a function of a text, or None."""
    if counter is None:
        return ESTIMATED
    if isinstance(counter, TokenCounter):
        return counter
    check_argument(counter, "counter", FUNCTION, "a TokenCounter or a function of a text")
    return TokenCounter(getattr(counter, "__qualname__", type(counter).__qualname__), counter)


# Vocabularies

_INSTALL = "pip install 'otolith[tokens]'"
_VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
_SAME_FILE = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
"""Vocabularies that are another one with more special tokens."""


def vocabulary(name: str = "o200k_base") -> TokenCounter:
    """Return an exact counter with a vocabulary of tiktoken; nothing is downloaded.

    Raises:
        MissingExtra: tiktoken is not installed.
        NotFound: the vocabulary is not on this machine.
    """
    tiktoken = _import("tiktoken")
    url = _VOCABULARY_URL.format(name=_SAME_FILE.get(name, name))
    # tiktoken names a cached file by the hash of its address.
    if not (_cache() / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).exists():
        raise NotFound(
            f"the vocabulary {name} is not on this machine, and nothing is downloaded here",
            hint=f"run tiktoken.get_encoding({name!r}) once where there is a network",
        )
    encoding = tiktoken.get_encoding(name)
    return TokenCounter(name, lambda text: len(encoding.encode(text, disallowed_special=())))


def tokenizer(path: str | os.PathLike[str]) -> TokenCounter:
    """Return an exact counter with a `tokenizer.json` of Hugging Face's `tokenizers`.

    Raises:
        MissingExtra: tokenizers is not installed.
        NotFound: there is no such file.
    """
    tokenizers = _import("tokenizers")
    if not Path(path).is_file():
        raise NotFound(f"there is no file {path}", hint="give the path of a tokenizer.json")
    found: Any = tokenizers.Tokenizer.from_file(str(path))
    name = f"{Path(path).resolve().parent.name}/{Path(path).name}"
    return TokenCounter(name, lambda text: len(found.encode(text, add_special_tokens=False).ids))


def _import(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise MissingExtra(f"{package} is not installed", hint=_INSTALL) from None


def _cache() -> Path:
    """Return the folder to which tiktoken downloads vocabularies."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if name in os.environ:
            return Path(os.environ[name])
    return Path(tempfile.gettempdir()) / "data-gym-cache"


# Counts of providers

_MIN_FACTOR, _MAX_FACTOR = 0.25, 4.0
MAX_PROVIDER_COUNTS = 64
"""How many of the last requests a calibration looks at."""


class ProviderCount(NamedTuple):
    """The tokens a provider counted for one request."""

    stop: int
    """How many messages the log had."""
    input: int
    output: int
    estimate: int
    """The estimated tokens of the input."""
    start: int = 0
    """The index of the first message that was sent."""


class Calibration:
    """The factors by which estimates are multiplied, depending on the index of a message."""

    def __init__(self, counts: Sequence[ProviderCount] = ()) -> None:
        usable = [count for count in counts if count.estimate > 0 and count.input > 0]
        self._bounds: list[int] = []
        """Begin and end of each range of messages that has a factor."""
        self._factors: list[float] = []
        for before, after in pairwise(usable):
            counted, estimated = after.input - before.input, after.estimate - before.estimate
            same_start = before.start == after.start and before.stop < after.stop
            is_later = not self._bounds or before.stop >= self._bounds[-1]
            if same_start and is_later and counted > 0 and estimated > 0:
                self._bounds += [before.stop, after.stop]
                self._factors.append(_rounded(counted / estimated))
        last = usable[-1] if usable else None
        self.overall = 1.0 if last is None else _rounded(last.input / last.estimate)
        """The factor of all other messages."""

    def factor(self, index: int) -> float:
        """Return the factor of a message."""
        place = bisect_right(self._bounds, index)
        return self._factors[place // 2] if place % 2 else self.overall

    def scale(self, index: int, tokens: int) -> int:
        """Return the tokens of a message as providers would count them, rounded up."""
        factor = self.factor(index)
        return tokens if factor == 1.0 else -int(-tokens * factor // 1)


def _rounded(factor: float) -> float:
    """Return a factor within bounds, rounded up to sixteenths."""
    return -(-min(max(factor, _MIN_FACTOR), _MAX_FACTOR) * 16 // 1) / 16
