"""Threads: several conversations in one state, some of which share their first messages.

A fork costs as much as the messages it leaves behind: log and tables are shared, and only the
entries of later messages are taken out of the tables of the fork. A thread that loses its last
messages is truncated in the same way.

A turn is a message of the user with all that followed, until the user spoke again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple, overload

from otolith.conversation.append import check_text
from otolith.conversation.message import Message, Role
from otolith.conversation.storage import (
    ABOUT,
    CALLS,
    CUT,
    FILES,
    PERMANENT,
    PINS,
    SUMMARIES,
    TABLES,
    USAGE,
    ConversationStore,
    ReadMessages,
    scan,
    scan_back,
)
from otolith.core import CONVERSATION, StateReader
from otolith.errors import Exists, Invalid
from otolith.frozen import freeze, thaw

_MAX_NAME_LETTERS = 200


class Thread(NamedTuple):
    """What is known of a thread without reading its messages."""

    name: str
    messages: int
    time: int
    """When it began, in microseconds since 1970."""
    parent: str = ""
    """The thread that it was forked from."""
    at: int = 0
    """How many messages it has in common with its parent."""
    meta: Mapping[str, Any] = {}


def check_thread_name(name: Any) -> str:
    """Return the name of a thread.

    Raises:
        Invalid: it is empty or long, begins with a dot, or has a slash or a line break in it.
    """
    is_printable = isinstance(name, str) and bool(name.strip()) and name.isprintable()
    if not is_printable or "/" in name or name[0] == "." or len(name) > _MAX_NAME_LETTERS:
        raise Invalid(f"{name!r:.60} cannot name a thread", hint="use a word or two")
    return str(name)


def list_threads(state: StateReader) -> dict[str, Thread]:
    """Return the threads of a state, by name."""
    cell, prefix = state.cell_at((CONVERSATION,)), f".{ABOUT}."
    found: dict[str, Thread] = {}
    for key, _ in () if cell is None else state.cells.entries_from(cell, prefix.encode()):
        name = str(state.cells.encoding.unkey(key))
        if not name.startswith(prefix):
            break
        name = name.removeprefix(prefix)
        found[name] = describe_thread(ConversationStore(state, name))
    return found


def describe_thread(store: ConversationStore) -> Thread:
    """Return what is known of a thread."""
    about = store.value(ABOUT) or {}
    parent, at = about.get("from") or ("", 0)
    time, meta = about.get("time", 0), about.get("meta", {})
    return Thread(store.thread, store.length(), time, parent, at, meta)


def create_thread(store: ConversationStore, *, now: int, meta: Mapping[str, Any]) -> None:
    """Stage a thread without messages.

    Raises:
        Exists: there is a thread with this name.
        BadValue: `meta` is not plain data.
    """
    _check_absent(store)
    data = thaw(freeze(meta))
    check_text(data)
    store.put({"time": now} | ({"meta": data} if data else {}), ABOUT)


def _check_absent(store: ConversationStore) -> None:
    if store.exists:
        raise Exists(f"there is a thread {store.thread} already", hint="choose another name")


def fork_thread(old: ConversationStore, name: str, at: int, *, now: int) -> None:
    """Stage a thread that shares the first `at` messages of another one.

    Raises:
        Exists: there is a thread with this name.
    """
    new = ConversationStore(old.state, name)
    _check_absent(new)
    about = {"time": now, "from": [old.thread, at]}
    new.put(about | ({CUT: True} if old.is_cut else {}), ABOUT)
    new.put_log(old.log())
    for table in (FILES, SUMMARIES, CALLS, PERMANENT, USAGE, PINS):
        cell = old.cell(table)
        if cell is not None:
            new.put_cell(cell, table)
    _truncate(new, at)


def truncate_thread(store: ConversationStore, at: int) -> None:
    """Stage a thread with its first `at` messages only."""
    _truncate(store, at)
    if not store.is_cut:
        store.put(True, ABOUT, CUT)  # noqa: FBT003 - it is a stored value


def _truncate(store: ConversationStore, at: int) -> None:
    """Stage the log and the tables of the first `at` messages.

    Summaries stay: they are found by the messages they are of. So do places of calls, which are
    checked when they are read, and the bytes of attachments: a branch that is merged later may have
    made the same call, or refer to the same bytes.
    """
    cells, length = store.state.cells, store.length()
    for _, message in scan(store.read, at, length):
        store.remove(PERMANENT, message.id)
    for table in (USAGE, PINS):  # lists; an element begins with the length of the log then
        cell = store.cell(table)
        if cell is not None:
            end = cells.length(cell)
            later = sum(1 for _ in takewhile(lambda row: int(row[0]) > at, store.rows(table)))
            store.put_cell(cells.splice(cell, end - later, end, []), table)
    store.put_log(cells.splice(store.log(), at, length, []))


def remove_thread(store: ConversationStore) -> None:
    """Stage that a thread does not exist."""
    for table in TABLES:
        store.remove(table)
    store.put_log(None)


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of the user and its replies; the first turn may begin with another message."""

    start: int
    messages: tuple[Message, ...]

    @property
    def user(self) -> Message | None:
        """The message of the user; None if the turn begins with another one."""
        first = self.messages[0]
        return first if first.role is Role.USER else None

    @property
    def text(self) -> str:
        """The last text of the assistant."""
        texts = (each.text for each in reversed(self.messages) if each.role is Role.ASSISTANT)
        return next(filter(None, texts), "")

    def __len__(self) -> int:
        return len(self.messages)


class Turns(Sequence[Turn]):
    """The turns of a thread: the last ones are found from the end, others by reading from 0."""

    def __init__(self, read: ReadMessages, length: int) -> None:
        self._read = read
        self._length = length

    def __iter__(self) -> Iterator[Turn]:
        start, messages = 0, list[Message]()
        for at, message in scan(self._read, 0, self._length):
            if message.role is Role.USER and messages:
                yield Turn(start, tuple(messages))
                start, messages = at, []
            messages.append(message)
        if messages:
            yield Turn(start, tuple(messages))

    def __reversed__(self) -> Iterator[Turn]:
        messages: list[Message] = []
        for at, message in scan_back(self._read, self._length):
            messages.append(message)
            if message.role is Role.USER or at == 0:
                yield Turn(at, tuple(reversed(messages)))
                messages = []

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Turns of {self._length} messages>"

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> list[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | list[Turn]:
        if isinstance(index, slice):
            return list(self)[index]
        turns, steps = (reversed(self), -index) if index < 0 else (iter(self), index + 1)
        for count, turn in enumerate(turns, 1):
            if count == steps:
                return turn
        raise IndexError(f"there is no turn {index}")
