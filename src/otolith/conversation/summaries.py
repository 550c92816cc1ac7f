"""Summaries: what a range of messages came to, made once and kept beside the log.

    summaries    by "<stop>-<hash>": {text, stop, model, prompt}

A summary is of all messages before `stop`. Its hash is that of their cell, which is made of all of
them, of the prompt and of the model: threads and branches that share these messages share the
summary, and where they differ it is not found. A rollback undoes it like any edit.

A summariser is a function of the messages and of what an earlier summary said of those before them.
It may have attributes `model` and `prompt`, which are part of the hash; without a model, what the
function is called and made of is (summaries.py). The one that is built in needs no model: it picks
sentences.

What a function is called, so that what it once said is found again, and not what another said.

A name is not enough: two lambdas have one, as have the methods of two objects. So the code counts,
what it closes over, and what a partial was given, as far as these are plain values. Of an object
that may change nobody can tell what it will say. It is only known as itself: as long as this
process lasts, and in no other.
"""

from __future__ import annotations

import functools
import re
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

from otolith.conversation.append import check_text
from otolith.conversation.formats.parts import words
from otolith.conversation.message import Message, Reasoning, Role
from otolith.conversation.storage import SUMMARIES, Record
from otolith.core import digest
from otolith.errors import BadValue
from otolith.text.tokens import estimate_tokens, shorten

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_DEEPEST, _NAME_HASH_BYTES = 8, 4


_NAMES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_IDENTITIES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_HELD: dict[int, tuple[Any, str]] = {}
"""Those that can be no key, or not be followed: held, so that no other gets their number."""


def name_of(function: Any) -> str:
    """Return a name that tells a function from others; it keeps the one that it got first.

    What it closes over may change while it works, as a count of its calls does.
    """
    try:
        known = _NAMES.get(function)
        return _NAMES.setdefault(function, _named(function)) if known is None else known
    except TypeError:  # it cannot be looked up, or not be followed
        return _named(function)


def _named(function: Any) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    kind = inner if hasattr(inner, "__qualname__") else type(inner)
    name = f"{getattr(kind, '__module__', '')}.{kind.__qualname__}"
    return f"{name}#{digest(_mark(function, 0, {}).encode())[:_NAME_HASH_BYTES].hex()}"


def _mark(value: Any, depth: int, seen: dict[int, tuple[int, Any]]) -> str:
    """Return a text that is the same for what will do the same, as far as that can be told.

    What was `seen` before is only referred to, by when that was.
    """
    if type(value) in _PLAIN:
        return repr(value)
    if id(value) in seen:
        return f"#{seen[id(value)][0]}"
    parts = None if depth > _DEEPEST else _parts(value)
    if parts is None:
        return _identity(value)
    seen[id(value)] = len(seen), value  # held: nothing else may get its number meanwhile
    inner = ",".join([_mark(part, depth + 1, seen) for part in parts])
    return f"{type(value).__name__}({inner})"


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a value is made of; None if that does not tell what it is."""
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, FunctionType):
        return _of_function(value)
    if isinstance(value, CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, type | BuiltinFunctionType):
        return str(value.__module__), value.__qualname__
    if isinstance(value, ModuleType):
        return (value.__name__,)
    return _of_data(value)


def _of_function(function: FunctionType) -> Iterable[Any]:
    cells = function.__closure__ or ()
    closed = tuple(_inside(cell) for cell in cells)
    given = function.__defaults__, function.__kwdefaults__
    return function.__module__, function.__qualname__, function.__code__, *given, closed


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that has no value yet
        return None


def _of_data(value: Any) -> Iterable[Any] | None:
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, Mapping):
        return [pair for key in sorted(value, key=repr) for pair in (key, value[key])]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    settings: Any = getattr(type(value), "__dataclass_params__", None)
    if settings is not None and settings.frozen:
        return type(value), *(getattr(value, field.name) for field in fields(value))
    return None


def _identity(value: Any) -> str:
    """Return a text that nothing else has, here or in another process."""
    try:
        return _IDENTITIES.setdefault(value, uuid4().hex)
    except TypeError:  # it cannot be looked up, or not be followed
        return _HELD.setdefault(id(value), (value, uuid4().hex))[1]


LABEL = "[Summary of the conversation so far, written by a machine]\n"
TOKENS = 512
"""How long a summary of the built-in summariser may be."""

_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*")  # noqa: RUF001  # full-width marks end sentences
_WORD = re.compile(r"\w{3,}")
_CAP = 500
_HASH_BYTES = 8


class Summariser(Protocol):
    """What makes a summary."""

    def __call__(self, messages: Sequence[Message], before: str, /) -> str: ...


class Summary(NamedTuple):
    """What all messages before an index came to."""

    stop: int
    text: str
    model: str
    prompt: str = ""


class Summaries:
    """The summaries of one thread."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def is_empty(self) -> bool:
        """Whether there is none."""
        return self._record.cell(SUMMARIES) is None

    def find(self, low: int, high: int, key: tuple[str, str] | None = None) -> Summary | None:
        """Return the summary up to the latest message from low to high; `key` names its maker."""
        found = list(self._all(low, high, key))
        return found[-1] if found else None

    def first(self, low: int, high: int, key: tuple[str, str] | None = None) -> Summary | None:
        """Return the summary up to the earliest message from low to high."""
        return next(self._all(low, high, key), None)

    def _all(self, low: int, high: int, key: tuple[str, str] | None) -> Iterator[Summary]:
        for name, kept in self._record.entries(SUMMARIES, f"{low:08x}"):
            stop = int(name[:8], 16)
            if stop > high:
                break
            summary = _summary(kept)
            is_wanted = key is None or (summary.model, summary.prompt) == key
            if is_wanted and name == self._name(stop, summary.model, summary.prompt):
                yield summary

    def keep(self, summary: Summary) -> None:
        """Stage a summary."""
        name = self._name(summary.stop, summary.model, summary.prompt)
        self._record.put(summary._asdict(), SUMMARIES, name)

    def _name(self, stop: int, model: str, prompt: str) -> str:
        """Return what a summary of these messages is kept under."""
        if not 0 < stop <= self._record.length():
            return ""
        cells = self._record.state.cells
        told = digest(cells.loosen(self._record.prefix(stop)))
        said = cells.encoding.encode([told.hex(), stop, prompt, model])
        return f"{stop:08x}-{digest(said)[:_HASH_BYTES].hex()}"


def key_of(summariser: Any) -> tuple[str, str]:
    """Return the model and the prompt of a summariser."""
    model = getattr(summariser, "model", None)
    name = name_of(summariser) if model is None else str(model)
    return name, str(getattr(summariser, "prompt", ""))


def ask(summariser: Summariser, messages: Sequence[Message], before: str) -> str:
    """Return what a summariser makes of messages, and of the summary of those before them.

    Raises:
        BadValue: it gave something else than words.
    """
    told: Any = summariser(messages, before)
    if not isinstance(told, str) or not told.strip():
        why = f"a summariser gave {told!r:.60}, which is no summary"
        raise BadValue(why, hint="return the text of one")
    check_text(told)
    return told


def _summary(kept: dict[str, Any]) -> Summary:
    return Summary(kept["stop"], kept["text"], kept["model"], kept["prompt"])


# The summariser that is built in


def extractive(messages: Sequence[Message], before: str = "", /) -> str:
    """Return the sentences that say most, in their order, without asking any model.

    The first thing the user said is always among them. A sentence counts by its words: common in
    the whole, but not in all messages; those of the user count for more, those of tools for less.
    """
    sentences = list(_sentences(messages))
    tally = Tally(word for _, _, text in sentences for word in set(_words(text)))
    many = max(len(messages), 1)

    def weight(place: int) -> float:
        _, role, text = sentences[place]
        said = _words(text)
        score = sum(tally[word] * (1 - tally[word] / (many + 1)) for word in set(said))
        return score / (len(said) + 4) * _VOICES[role]

    ranked = sorted(range(len(sentences)), key=lambda place: (-weight(place), place))
    first = next((at for at, (_, role, _) in enumerate(sentences) if role is Role.USER), None)
    chosen = _within([first] if first is not None else [], ranked, sentences, before)
    told = [f"{sentences[place][1]}: {sentences[place][2]}" for place in sorted(chosen)]
    return "\n".join(filter(None, [shorten_to(before, TOKENS // 2), *told]))


def _within(
    first: list[int], ranked: list[int], sentences: list[tuple[int, Role, str]], before: str
) -> list[int]:
    left = TOKENS - min(estimate_tokens(before), TOKENS // 2)
    chosen: list[int] = []
    for place in [*first, *(place for place in ranked if place not in first)]:
        cost = estimate_tokens(sentences[place][2]) + 4
        if cost <= left:
            chosen.append(place)
            left -= cost
    return chosen


def shorten_to(text: str, tokens: int) -> str:
    """Return a text, or its head and tail if it is longer than so many tokens."""
    return text if estimate_tokens(text) <= tokens else shorten(text, tokens, " … ")


def _sentences(messages: Sequence[Message]) -> list[tuple[int, Role, str]]:
    out: list[tuple[int, Role, str]] = []
    for at, message in enumerate(messages):
        parts = [words(part) for part in message.parts if not isinstance(part, Reasoning)]
        said = "\n".join(parts)[: 20 * _CAP if message.role is not Role.TOOL else _CAP]
        pieces = (found.strip() for found in _SENTENCE.findall(said))
        out += [(at, message.role, piece[:_CAP]) for piece in pieces if _words(piece)]
    return out


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_VOICES = {Role.USER: 1.5, Role.ASSISTANT: 1.0, Role.TOOL: 0.4, Role.SYSTEM: 0.2}
extractive.model = "extractive"  # type: ignore[attr-defined]
