"""Threads: several conversations in one state, some of which began as others did.

Turns: what a user said, and all that followed until the user spoke again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

from otolith.conversation.append import check_text
from otolith.conversation.message import Message, Role
from otolith.conversation.storage import ABOUT, CALLS, FILES, PINS, STAYS, SUMMARIES, USAGE, Record
from otolith.core import CONVERSATION, StateReader
from otolith.errors import Exists, Invalid
from otolith.frozen import freeze, thaw

_AT_ONCE = 64
LONGEST_NAME = 200
"""In letters; an id of any kind fits, a text does not."""


class Thread(NamedTuple):
    """What is known of a thread without reading it."""

    name: str
    messages: int
    time: int
    """When it began, in microseconds since 1970."""
    parent: str = ""
    """The thread that it was forked from."""
    at: int = 0
    """How many messages it has in common with its parent."""
    meta: Mapping[str, Any] = {}


def check_name(name: Any) -> str:
    """Return the name of a thread, if it can be one.

    Raises:
        Invalid: it is empty or long, begins with a dot, or has a slash or a line break in it.
    """
    is_word = isinstance(name, str) and bool(name.strip()) and name.isprintable()
    if not is_word or "/" in name or name[0] == "." or len(name) > LONGEST_NAME:
        raise Invalid(f"{name!r:.60} cannot name a thread", hint="use a word or two")
    return str(name)


def threads_in(state: StateReader) -> dict[str, Thread]:
    """Return the threads of a state, by name."""
    cell, prefix = state.cell_at((CONVERSATION,)), f".{ABOUT}."
    found: dict[str, Thread] = {}
    for key, _ in () if cell is None else state.cells.entries_from(cell, prefix.encode()):
        name = str(state.cells.encoding.unkey(key))
        if not name.startswith(prefix):
            break
        name = name.removeprefix(prefix)
        found[name] = about(Record(state, name))
    return found


def about(record: Record) -> Thread:
    """Return what is known of a thread."""
    kept = record.value(ABOUT) or {}
    parent, at = kept.get("from") or ("", 0)
    time, meta = kept.get("time", 0), kept.get("meta", {})
    return Thread(record.thread, record.length(), time, parent, at, meta)


def begin(record: Record, *, now: int, meta: Mapping[str, Any]) -> None:
    """Stage a thread in which nothing is said yet.

    Raises:
        Exists: there is one of this name.
        BadValue: what is said about it is no plain data.
    """
    if record.is_there:
        raise Exists(f"there is a thread {record.thread} already", hint="choose another name")
    told = thaw(freeze(meta))
    check_text(told)
    record.put({"time": now} | ({"meta": told} if told else {}), ABOUT)


def fork(old: Record, name: str, at: int, *, now: int) -> Record:
    """Stage a thread that begins with the first messages of another, and shares them.

    It costs what is left behind, not what is shared.
    """
    new = Record(old.state, name)
    if new.is_there:
        raise Exists(f"there is a thread {name} already", hint="choose another name")
    length = old.length()
    new.put({"time": now, "from": [old.thread, at]}, ABOUT)
    new.put_log(old.state.cells.splice(old.log(), at, length, []))
    for part in (FILES, SUMMARIES, CALLS, STAYS):
        cell = old.cell(part)
        if cell is not None:
            new.put_cell(cell, part)
    for part in (USAGE, PINS):
        _fork_until(old, new, part, at)
    _leave_behind(old, new, at, length)
    return new


def forget(record: Record) -> None:
    """Stage that a thread was never begun."""
    for part in (ABOUT, FILES, SUMMARIES, CALLS, STAYS, USAGE, PINS):
        if record.cell(part) is not None:
            record.remove(part)
    record.put_log(None)


def _fork_until(old: Record, new: Record, part: str, at: int) -> None:
    """Share what happened as long as there were no more than so many messages."""
    cell = old.cell(part)
    if cell is None:
        return
    cells, end = old.state.cells, old.state.cells.length(cell)
    while end and _length_then(cells.load(cells.element(cell, end - 1))) > at:
        end -= 1
    new.put_cell(cells.splice(cell, end, cells.length(cell), []), part)


def _length_then(kept: Any) -> int:
    return int(kept[0])


def _leave_behind(old: Record, new: Record, at: int, length: int) -> None:
    """Take out of a fork what the messages after it had left in its tables."""
    for start in range(at, length, _AT_ONCE):
        for message in old.read(start, min(start + _AT_ONCE, length)):
            _forget(new, message)


def _forget(record: Record, message: Message) -> None:
    for call in message.calls:
        if record.cell(CALLS, call.id) is not None:
            record.remove(CALLS, call.id)
    if record.cell(STAYS, message.id) is not None:
        record.remove(STAYS, message.id)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user with what it led to; before the first of them, whatever there was."""

    start: int
    messages: tuple[Message, ...]

    @property
    def user(self) -> Message | None:
        """What the user said."""
        first = self.messages[0]
        return first if first.role is Role.USER else None

    @property
    def text(self) -> str:
        """The last thing that was said to the user."""
        said = (each.text for each in reversed(self.messages) if each.role is Role.ASSISTANT)
        return next(filter(None, said), "")

    def __len__(self) -> int:
        return len(self.messages)


class Turns(Sequence[Turn]):
    """The turns of a thread: the last ones are found from the end, others by reading it all."""

    def __init__(self, read: Callable[[int, int], list[Message]], length: int) -> None:
        self._read = read
        self._length = length

    def __iter__(self) -> Iterator[Turn]:
        begun: list[Message] = []
        start = 0
        for at, message in enumerate(self._messages()):
            if message.role is Role.USER and begun:
                yield Turn(start, tuple(begun))
                start, begun = at, []
            begun.append(message)
        if begun:
            yield Turn(start, tuple(begun))

    def __reversed__(self) -> Iterator[Turn]:
        later: list[Message] = []
        for stop in range(self._length, 0, -_AT_ONCE):
            start = max(stop - _AT_ONCE, 0)
            for at, message in reversed(list(enumerate(self._read(start, stop), start))):
                later.append(message)
                if message.role is Role.USER or at == 0:
                    yield Turn(at, tuple(reversed(later)))
                    later = []

    def _messages(self) -> Iterator[Message]:
        for start in range(0, self._length, _AT_ONCE):
            yield from self._read(start, min(start + _AT_ONCE, self._length))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if isinstance(index, slice):
            return list(self)[index]
        way, steps = (reversed(self), -index) if index < 0 else (iter(self), index + 1)
        for count, turn in enumerate(way, 1):
            if count == steps:
                return turn
        raise IndexError(f"there is no turn {index}")
