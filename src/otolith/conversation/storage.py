"""A conversation as it is kept in a state.

    .conversation / <thread>              the log: messages, the oldest first
                    .about.<thread>         when it began, and what it was forked from
                    .calls.<thread>         by the id of a call, the index of its message
                    .stays.<thread>         by the id of a message that stays in every context, its
                                            index and whether it was pinned; all system messages
                    .pins.<thread>          when messages were pinned: see storage.py
                    .files.<thread>         bytes of attachments, by their hash: see attachments.py
                    .usage.<thread>         what providers counted: see token_counts.py
                    .summaries.<thread>     of ranges of the log: see summaries.py

Only the log is the conversation; what the tables know of its messages is kept so that nothing ever
has to read all of it. A message is what `Message.to_data` gives, but that its id is bytes, that an
attachment has the hash of its bytes in place of them, that tokens are a number if they are the
estimate of today, and that `back` says how far back the user spoke last, and the id of that, if it
is more than one message. The id of a message is a hash of it and of the id of the message that it
was said after. A message costs one path from the root of the state to the end of its log; tables
are touched by calls, system messages and attachments only.

Indices in tables, and `back`, are those of the branch that wrote them. A merge of two
branches that both went on puts the messages of one after those of the other; whoever reads an index
checks what is there, and looks further on if it is something else. What is before a message is then
no longer told by its id; whoever wants to know compares the cells of logs (storage.py).

Bookmarks: what was worked out of a thread by reading it, and up to where it was read.

A bookmark fits a log that begins with the messages that were read. The id of the last of them does
not tell: two branches that were merged are one log, in which a message may follow another than the
one it was said after. The cell of the first messages does, since equal lists have equal cells. It
is made of a few nodes of the log, so that a log of any length is compared at once.

What was read of conversations lately, so that it is not read again.

A shelf belongs to the cells of one state. What is on it is named by content (a cell, or the id of a
message), so it never has to be thrown away because something changed.

When messages were pinned: what stayed in a context that was made before.

    pins    [how many messages there were, the index of the message, its id, whether it was pinned]

What stays today is in another table (storage.py). A prompt that was cached is the context of then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from otolith import shapes
from otolith.conversation.message import Message, Role
from otolith.conversation.search import Index
from otolith.core import CONVERSATION, Branch, Cells, Path, StateReader, digest
from otolith.errors import BadValue, Corrupt, ReadOnly
from otolith.text.tokens import ESTIMATE

if TYPE_CHECKING:
    from otolith.conversation.discourse import Tracker


T = TypeVar("T")


class IncrementalResult(NamedTuple, Generic[T]):
    """What was worked out of the first messages of a log, how many they are, and their cell."""

    what: T
    length: int
    cell: bytes

    def fits(self, cells: Cells, log: bytes) -> bool:
        """Tell whether a log begins with the messages that were read."""
        length = cells.length(log)
        return self.length <= length and cells.same(self.cell, prefix(cells, log, self.length))


def prefix(cells: Cells, log: bytes, stop: int) -> bytes:
    """Return the cell of the first messages of a log, and of no other ones."""
    length = cells.length(log)
    return log if stop == length else cells.splice(log, stop, length, [])


_MOST, _LONGEST = 4096, 1 << 16
_MOST_COUNTS = 1 << 16


class ConversationCache:
    """Messages by their cells, and what was worked out of whole threads."""

    def __init__(self) -> None:
        self.messages: OrderedDict[bytes, Message] = OrderedDict()
        self.indices: dict[str, IncrementalResult[Index]] = {}
        """The words of threads, by name."""
        self.trackers: dict[str, IncrementalResult[Tracker]] = {}
        """What threads speak of, by name."""
        self.counts: dict[tuple[str, str], int] = {}
        """What other counters than the estimate said, by how they count and the id of a message."""
        self.silent: dict[str, IncrementalResult[None]] = {}
        """By the name of a thread: up to where no user has spoken."""
        self.totals: dict[str, IncrementalResult[int]] = {}
        """By the name of a thread: its tokens."""

    @classmethod
    def of(cls, cells: Cells) -> ConversationCache:
        """Return the shelf of a state."""
        return _SHELVES.setdefault(cells, cls())

    def keep(self, cell: bytes, message: Message, size: int) -> None:
        """Keep a message, if it is not very long; the oldest goes when there are many."""
        if size > _LONGEST:
            return
        self.messages[cell] = message
        if len(self.counts) > _MOST_COUNTS:
            self.counts.clear()
        if len(self.messages) > _MOST:
            self.messages.popitem(last=False)


_SHELVES: WeakKeyDictionary[Cells, ConversationCache] = WeakKeyDictionary()


CALLS, STAYS, FILES, USAGE = "calls", "stays", "files", "usage"
SUMMARIES, ABOUT, PINS = "summaries", "about", "pins"
BACK = "back"

_NO_LIST = b"\x90"
_ID_BYTES = 6


class Record:
    """The place of one thread in a state."""

    def __init__(self, state: StateReader, thread: str) -> None:
        self.state = state
        self.thread = thread
        self.path: Path = (CONVERSATION, thread)
        self.shelf = ConversationCache.of(state.cells)

    # Reading

    @property
    def is_there(self) -> bool:
        """Whether the thread was begun."""
        return self.cell(ABOUT) is not None

    def log(self) -> bytes:
        """Return the cell of the log."""
        return self.state.cell_at(self.path) or _NO_LIST

    def cell(self, *names: str) -> bytes | None:
        """Return the cell of something in the tables."""
        return self.state.cell_at(self._place(*names))

    def value(self, *names: str) -> Any:
        """Return something in the tables; None if it is not there."""
        cell = self.cell(*names)
        return None if cell is None else self.state.cells.load(cell)

    def length(self) -> int:
        """Return how many messages there are."""
        return self.state.cells.length(self.log())

    def read(self, start: int, stop: int, log: bytes | None = None) -> list[Message]:
        """Return messages by their place, attachments without their bytes."""
        cells = self.state.cells
        found = list(cells.elements(self.log() if log is None else log, start, stop))
        known = self.shelf.messages
        cells.prefetch(cell for cell in found if cell not in known)
        return [known.get(cell) or self._decoded(cell, at) for at, cell in enumerate(found, start)]

    def unread(self, start: int) -> Iterator[Message]:
        """Yield all messages from an index on, reading some at a time."""
        length = self.length()
        for first in range(start, length, _AT_ONCE):
            yield from self.read(first, min(first + _AT_ONCE, length))

    def prefix(self, stop: int) -> bytes:
        """Return the cell of the first messages, which says what they are."""
        return prefix(self.state.cells, self.log(), stop)

    def taken(self, marks: dict[str, IncrementalResult[T]]) -> IncrementalResult[T] | None:
        """Take away what was worked out of this log before, if it still begins so.

        It is put back when it has read what is new; what was broken off on the way is not.
        """
        found = marks.pop(self.thread, None)
        fits = found is not None and found.fits(self.state.cells, self.log())
        return found if fits else None

    def marked(self, what: T) -> IncrementalResult[T]:
        """Return what was worked out of all messages there are."""
        log = self.log()
        return IncrementalResult(what, self.state.cells.length(log), log)

    def _decoded(self, cell: bytes, at: int) -> Message:
        cells = self.state.cells
        try:
            message = _lifted(cells.load(cell))
        except BadValue as error:
            place = f"{CONVERSATION}/{self.thread}/{at}"
            raise Corrupt(f"{place} is no message", hint="run otolith fsck") from error
        self.shelf.keep(cell, message, cells.full_size(cell))
        return message

    def call(self, id: str) -> int | None:
        """Return where a call was made; None if there is no such call."""
        at = self.value(CALLS, id)
        return at if isinstance(at, int) else None

    def caller(self, id: str) -> int | None:
        """Return where a call is now: where it was made, or further on if a merge has moved it."""
        start, some = self.call(id), 1
        length = self.length()
        while start is not None and start < length:
            stop = min(start + some, length)
            for place, message in enumerate(self.read(start, stop), start):
                if any(call.id == id for call in message.calls):
                    return place
            start, some = stop, _AT_ONCE
        return None

    def answer(self, id: str, since: int) -> int | None:
        """Return where a call was answered, looking from where it was made: most are at once."""
        length = self.length()
        start, some = since + 1, _FEW
        while start < length:
            stop = min(start + some, length)
            for at, message in enumerate(self.read(start, stop), start):
                if any(result.call_id == id for result in message.results):
                    return at
            start, some = stop, _AT_ONCE
        return None

    def stays(self) -> dict[str, tuple[int, bool]]:
        """Return what stays in every context: by id, the index and whether it was pinned."""
        kept = shapes.mapping(self.value(STAYS) or {}, "what stays in a context", list)
        rows = {id: shapes.items(row, "what stays", int, bool) for id, row in kept.items()}
        return {id: (max(at, 0), is_pinned) for id, (at, is_pinned) in rows.items()}

    def staying(self) -> list[int]:
        """Return where the messages are that stay; a merge may have moved them."""
        found = []
        for id, (at, _) in self.stays().items():
            read = self.read(at, at + 1)
            fits = bool(read) and read[0].id == id
            found.append(at if fits else self.place_of(id, at))
        return sorted(at for at in found if at is not None)

    def entries(self, name: str, start: str = "") -> Iterator[tuple[str, Any]]:
        """Yield keys and values of a table, from a key on."""
        cells, cell = self.state.cells, self.cell(name)
        for key, value in () if cell is None else cells.entries_from(cell, start.encode()):
            yield str(cells.encoding.unkey(key)), cells.load(value)

    # Writing

    def branch(self) -> Branch:
        """Return the state, to be written to.

        Raises:
            ReadOnly: it is a state as it was.
        """
        if not isinstance(self.state, Branch):
            raise ReadOnly(
                "this conversation is as it was, and nothing is said in it any more",
                hint="fork the state at this commit, and go on there",
            )
        return self.state

    def put(self, value: Any, *names: str) -> None:
        """Stage something in the tables."""
        self.put_cell(self.state.cells.put(value), *names)

    def put_cell(self, cell: bytes, *names: str) -> None:
        """Stage something in the tables that is a cell already."""
        self.branch().write_reserved(self._place(*names), cell)

    def put_log(self, cell: bytes | None) -> None:
        """Stage another log, or that there is none."""
        self.branch().write_reserved(self.path, cell)

    def remove(self, *names: str) -> None:
        """Stage that something is gone from the tables."""
        self.branch().write_reserved(self._place(*names), None)

    def extend(self, values: Iterable[Any], *names: str) -> None:
        """Stage more elements at the end of the log, or of a list in the tables."""
        state = self.branch()
        path = self._place(*names) if names else self.path
        state.extend_reserved(path, [state.cells.put(value) for value in values])

    def last_id(self) -> str:
        """Return the id of the last message, or the seed of the first one's."""
        length = self.length()
        return self.read(length - 1, length)[0].id if length else self.thread

    def next_id(self, message: Message, before: str) -> str:
        """Return the id of a message that follows another."""
        said = replace(message, id="", tokens=None, is_pinned=False).to_data()
        return digest(self.state.cells.encoding.encode([before, said]))[:_ID_BYTES].hex()

    # Small things

    def _place(self, table: str, *names: str) -> Path:
        return (CONVERSATION, f".{table}.{self.thread}", *names)

    def place_of(self, id: str, near: int) -> int | None:
        """Return where a message is: where it was, or further on if a merge has moved it."""
        length = self.length()
        for start in range(near, length, _AT_ONCE):
            for at, message in enumerate(self.read(start, min(start + _AT_ONCE, length)), start):
                if message.id == id:
                    return at
        return None

    def turn(self) -> int | None:
        """Return the index of the user's last message; None if the user has not spoken yet."""
        length = self.length()
        for last in range(length - 1, max(length - 1 - _FEW, -1), -1):
            if self.read(last, last + 1)[0].role is Role.USER:
                return last
            back = self._back(last)
            if back is not None:
                at, id = last - back[0], back[1].hex()
                is_there = at >= 0 and [each.id for each in self.read(at, at + 1)] == [id]
                return at if is_there else self._last_user(0, length)
        return self._unlikely(length)

    def _unlikely(self, length: int) -> int | None:
        """Look for a user where nobody has asked anything, but for a branch that was merged."""
        known = self.taken(self.shelf.silent)
        found = self._last_user(0 if known is None else known.length, length)
        if found is None and length:
            self.shelf.silent[self.thread] = self.marked(None)
        return found

    def _back(self, at: int) -> tuple[int, bytes] | None:
        """Return how far before a message the user spoke last, and the id, if it says so."""
        cells = self.state.cells
        kept = cells.entry(cells.element(self.log(), at), BACK.encode())
        found: Any = None if kept is None else cells.load(kept)
        if found is None:
            return None
        far, id = shapes.items(found, "how far back the user spoke", int, bytes)
        return far, id

    def _last_user(self, low: int, length: int) -> int | None:
        for stop in range(length, low, -_AT_ONCE):
            start = max(stop - _AT_ONCE, low)
            read = enumerate(self.read(start, stop), start)
            places = [place for place, each in read if each.role is Role.USER]
            if places:
                return places[-1]
        return None


def lowered(message: Message, back: tuple[int, str] | None) -> dict[str, Any]:
    """Return a message as it stands in the log; `back` says where the user spoke last."""
    data = replace(message, is_pinned=False).to_data() | {"id": bytes.fromhex(message.id)}
    if message.tokens is not None and message.tokens.counter == ESTIMATE:
        data["tokens"] = message.tokens.count
    far = back is not None and back[0] > 1
    return data | ({BACK: [back[0], bytes.fromhex(back[1])]} if far and back else {})


def _lifted(kept: Any) -> Message:
    """Return the message that stands in the log."""
    data = shapes.mapping(kept, "a message in a log", object, error=BadValue)
    if not isinstance(data.get("id"), bytes):
        raise BadValue("a message in a log has no id", hint="run otolith fsck")
    data["id"] = data["id"].hex()
    if isinstance(data.get("tokens"), int):
        data["tokens"] = [data["tokens"], ESTIMATE]
    return Message.from_data(data)


_FEW, _AT_ONCE = 4, 64


def note(record: Record, at: int, id: str, *, is_pinned: bool) -> None:
    """Stage that a message was pinned, or is no longer."""
    record.extend([[record.length(), at, id, is_pinned]], PINS)


def stayed(record: Record, stop: int) -> tuple[int, ...]:
    """Return the indices of what stayed when there were so many messages."""
    found = set(record.staying())
    for length, near, id, was_pinned in _latest(record):
        if length <= stop:
            break
        at = record.place_of(id, near)
        if at is not None:
            found = found - {at} if was_pinned else found | {at}
    return tuple(sorted(at for at in found if at < stop))


def _latest(record: Record) -> Iterator[Any]:
    """Yield what was noted, the latest first."""
    cell, cells = record.cell(PINS), record.state.cells
    for place in reversed(range(0 if cell is None else cells.length(cell))):
        row = cells.load(cells.element(cell or b"", place))
        yield shapes.items(row, "what was pinned", int, int, str, bool)
