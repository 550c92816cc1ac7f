"""The stored form of conversations, what is cached of them, and the bytes of attachments.

    .conversation / <thread>              the log: messages, the oldest first
                    .about.<thread>         when it began, and what it was forked from
                    .calls.<thread>         call id -> index of the message with the call
                    .stays.<thread>         message id -> [index, is it pinned], for the permanent
                                            messages: all system messages and all pinned ones
                    .pins.<thread>          a list of [length of the log, index, id, is it pinned],
                                            one for each change of the permanent messages
                    .files.<thread>         hash -> bytes of an attachment
                    .usage.<thread>         counts of providers, see token_counts.py
                    .summaries.<thread>     summaries of the log, see summaries.py

The log is the conversation. The tables only save reading all of it, so that appending costs one
path from the root of the state to the end of the log. Calls, permanent messages and attachments
also write to their table.

A stored message is `Message.to_data` with four differences: its id is bytes; an attachment has the
hash and the length of its bytes in place of them; tokens are one number if they were estimated with
the current estimate; and `back` is [how many messages ago the user spoke last, id of that message],
if that is more than one, and no message was ever taken out of the thread: a merge of a branch that
took one out may put another user's message between the two, and the distance is the same. The id
of a message is a hash of its content and of the previous id.

Indices in tables and in `back` are those of the branch that wrote them. A merge of two branches
puts the new messages of one after those of the other, and takes out what either took out, so a
reader of an index checks the message it finds, and looks around if it is another one. For the same
reason an id does not prove what came before a message. What proves it is the cell of the log: equal
lists have equal cells, and the cell of a prefix is made of a few nodes. Everything that was derived
from the first messages of a thread is cached with that cell (`IncrementalResult`) and extended
while the log still begins with it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary

from otolith import shapes
from otolith.conversation.message import (
    STORED_FILE,
    Attachment,
    Message,
    Part,
    Role,
    ToolResult,
)
from otolith.core import CONVERSATION, Branch, Cells, Path, StateReader, digest
from otolith.errors import BadValue, Corrupt, ReadOnly
from otolith.frozen import EMPTY
from otolith.text.tokens import ESTIMATE

if TYPE_CHECKING:
    from otolith.conversation.discourse import Tracker
    from otolith.conversation.search import SearchIndex
    from otolith.conversation.token_counts import TokenTotal

ABOUT, CALLS, FILES, SUMMARIES, USAGE = "about", "calls", "files", "summaries", "usage"
PERMANENT, PINS = "stays", "pins"
TABLES = (ABOUT, FILES, SUMMARIES, CALLS, PERMANENT, USAGE, PINS)

CUT = "cut"
"""The entry of the table about a thread from which messages were taken out."""
_BACK = "back"
_EMPTY_LIST = b"\x90"
_ID_BYTES, _FILE_HASH_BYTES = 6, 16
_PAGE, _FIRST_PAGE = 64, 4
"""How many messages are read at once; and first, where the wanted one is probably near."""
_MAX_MESSAGES, _MAX_MESSAGE_BYTES, _MAX_COUNTS = 4096, 1 << 16, 1 << 16

ReadMessages = Callable[[int, int], list[Message]]
"""Returns the messages from an index up to another one."""


def scan(
    read: ReadMessages, start: int, stop: int, first: int = _PAGE
) -> Iterator[tuple[int, Message]]:
    """Yield indices and messages in order, reading a page at a time; `first` is the first page."""
    size = first
    while start < stop:
        end = min(start + size, stop)
        yield from enumerate(read(start, end), start)
        start, size = end, _PAGE


def scan_back(read: ReadMessages, stop: int, start: int = 0) -> Iterator[tuple[int, Message]]:
    """Yield indices and messages from the last one before `stop` back to `start`."""
    while stop > start:
        begin = max(stop - _PAGE, start)
        yield from reversed(list(enumerate(read(begin, stop), begin)))
        stop = begin


class Fold(Protocol):
    """Something that is built by adding messages one after the other."""

    def add(self, message: Message, /) -> None:
        """Add the next message."""


F = TypeVar("F", bound=Fold)
T = TypeVar("T")


class IncrementalResult(NamedTuple, Generic[T]):
    """A value derived from the first messages of a log, and the cell of these messages."""

    value: T
    length: int
    cell: bytes

    def fits(self, cells: Cells, log: bytes) -> bool:
        """Return whether a log begins with the messages the value was derived from."""
        length = cells.length(log)
        return self.length <= length and cells.same(self.cell, _prefix(cells, log, self.length))


def _prefix(cells: Cells, log: bytes, stop: int) -> bytes:
    """Return the cell of the first messages of a log."""
    length = cells.length(log)
    return log if stop == length else cells.splice(log, stop, length, [])


class ConversationCache:
    """Decoded messages by their cells, and values derived from whole threads, by thread.

    One cache belongs to the cells of one state. Its entries are named by content, so a change of
    the state never makes one wrong.
    """

    def __init__(self) -> None:
        self.messages: OrderedDict[bytes, Message] = OrderedDict()
        self.counts: dict[tuple[str, str], int] = {}
        """Tokens by (identity of a counter, message id), for counters other than the estimate."""
        self.indices: dict[str, IncrementalResult[SearchIndex]] = {}
        self.trackers: dict[str, IncrementalResult[Tracker]] = {}
        self.totals: dict[str, IncrementalResult[TokenTotal]] = {}
        self.without_user: dict[str, IncrementalResult[None]] = {}
        """Prefixes of threads that are known to have no message of a user."""

    @classmethod
    def of(cls, cells: Cells) -> ConversationCache:
        """Return the cache that belongs to the cells of a state."""
        return _CACHES.setdefault(cells, cls())

    def put(self, cell: bytes, message: Message, size_bytes: int) -> None:
        """Add a message unless it is large; the oldest one goes when there are many."""
        if size_bytes > _MAX_MESSAGE_BYTES:
            return
        self.messages[cell] = message
        if len(self.counts) > _MAX_COUNTS:
            self.counts.clear()
        if len(self.messages) > _MAX_MESSAGES:
            self.messages.popitem(last=False)


_CACHES: WeakKeyDictionary[Cells, ConversationCache] = WeakKeyDictionary()


class ConversationStore:
    """Reads and stages the log and the tables of one thread. Callers hold the state's lock."""

    def __init__(self, state: StateReader, thread: str) -> None:
        self.state = state
        self.thread = thread
        self.path: Path = (CONVERSATION, thread)
        self.cache = ConversationCache.of(state.cells)

    def _table_path(self, table: str, *keys: str) -> Path:
        return (CONVERSATION, f".{table}.{self.thread}", *keys)

    # Reading

    @property
    def exists(self) -> bool:
        """Whether the thread was begun."""
        return self.cell(ABOUT) is not None

    @property
    def is_cut(self) -> bool:
        """Whether messages were ever taken out of the thread."""
        return self.cell(ABOUT, CUT) is not None

    def log(self) -> bytes:
        """Return the cell of the log."""
        return self.state.cell_at(self.path) or _EMPTY_LIST

    def length(self) -> int:
        """Return how many messages the log has."""
        return self.state.cells.length(self.log())

    def cell(self, table: str, *keys: str) -> bytes | None:
        """Return the cell of a table, or of an entry of it."""
        return self.state.cell_at(self._table_path(table, *keys))

    def value(self, table: str, *keys: str) -> Any:
        """Return a table, or an entry of it; None if it is not there."""
        cell = self.cell(table, *keys)
        return None if cell is None else self.state.cells.load(cell)

    def entries(self, table: str, start: str = "") -> Iterator[tuple[str, Any]]:
        """Yield keys and values of a table, from a key on."""
        cells, cell = self.state.cells, self.cell(table)
        for key, value in () if cell is None else cells.entries_from(cell, start.encode()):
            yield str(cells.encoding.unkey(key)), cells.load(value)

    def rows(self, table: str) -> Iterator[Any]:
        """Yield the elements of a table that is a list, the last one first."""
        cells, cell = self.state.cells, self.cell(table)
        for at in reversed(range(0 if cell is None else cells.length(cell))):
            yield cells.load(cells.element(cell or _EMPTY_LIST, at))

    def read(self, start: int, stop: int, log: bytes | None = None) -> list[Message]:
        """Return messages by their indices, attachments without their bytes."""
        cells = self.state.cells
        found = list(cells.elements(self.log() if log is None else log, start, stop))
        known = self.cache.messages
        cells.prefetch(cell for cell in found if cell not in known)
        return [known.get(cell) or self._decode(cell, at) for at, cell in enumerate(found, start)]

    def _decode(self, cell: bytes, at: int) -> Message:
        """Return the message in a cell, and put it into the cache."""
        cells = self.state.cells
        try:
            message = _from_stored_data(cells.load(cell))
        except BadValue as error:
            place = f"{CONVERSATION}/{self.thread}/{at}"
            raise Corrupt(f"{place} is not a valid message", hint="run otolith fsck") from error
        self.cache.put(cell, message, cells.full_size(cell))
        return message

    def prefix(self, stop: int) -> bytes:
        """Return the cell of the first messages; equal messages have equal cells."""
        return _prefix(self.state.cells, self.log(), stop)

    def fold(self, results: dict[str, IncrementalResult[F]], make: Callable[[], F]) -> F:
        """Return a fold of all messages; only messages that the cached one has not seen are read.

        The cached fold is taken out while it reads, so that an error half-way leaves none behind.
        """
        known = self._take_result(results)
        fold = make() if known is None else known.value
        log, length = self.log(), self.length()
        for _, message in scan(self.read, 0 if known is None else known.length, length):
            fold.add(message)
        results[self.thread] = IncrementalResult(fold, length, log)
        return fold

    def _take_result(self, results: dict[str, IncrementalResult[T]]) -> IncrementalResult[T] | None:
        """Take a result out of the cache; None if the log does not begin with its messages."""
        found = results.pop(self.thread, None)
        fits = found is not None and found.fits(self.state.cells, self.log())
        return found if fits else None

    # Finding messages

    def call_index(self, id: str) -> int | None:
        """Return where a call was made on the branch that wrote it; None if there is no call."""
        at = self.value(CALLS, id)
        return at if isinstance(at, int) else None

    def find_call(self, id: str) -> int | None:
        """Return the index of the message with a call; a merge may have moved it."""
        start = self.call_index(id)
        if start is None:
            return None
        found = self._scan_around(start)
        return next((at for at, each in found if any(c.id == id for c in each.calls)), None)

    def find_result(self, call_id: str, call_index: int) -> int | None:
        """Return the index of the message that answers a call; most do so at once."""
        found = scan(self.read, call_index + 1, self.length(), _FIRST_PAGE)
        for at, message in found:
            if any(result.call_id == call_id for result in message.results):
                return at
        return None

    def find_message(self, id: str, start: int) -> int | None:
        """Return the index of a message that was at `start`; a merge may have moved it."""
        found = self._scan_around(start)
        return next((at for at, message in found if message.id == id), None)

    def _scan_around(self, start: int) -> Iterator[tuple[int, Message]]:
        """Yield messages from an index on, then those before it, the last one first.

        Most stay in place. New messages of another branch move one further on, and messages that
        were taken out before it move it back.
        """
        length = self.length()
        yield from scan(self.read, start, length, 1)
        yield from scan_back(self.read, min(start, length))

    def prompt_length(self) -> int:
        """Return how many system messages the thread begins with; they are the system prompt."""
        first = (self.read(at, at + 1)[0] for at in range(self.length()))
        return sum(1 for _ in takewhile(lambda each: each.role is Role.SYSTEM, first))

    def last_user_index(self) -> int | None:
        """Return the index of the user's last message; None if there is none."""
        length = self.length()
        for at in range(length - 1, max(length - 1 - _FIRST_PAGE, -1), -1):
            if self.read(at, at + 1)[0].role is Role.USER:
                return at
            stored = self.state.cells.entry(
                self.state.cells.element(self.log(), at), _BACK.encode()
            )
            if stored is not None and not self.is_cut:
                data: object = self.state.cells.load(stored)
                distance, id = shapes.items(data, "how far back the user spoke", int, bytes)
                user: int = at - distance
                if user >= 0 and [each.id for each in self.read(user, user + 1)] == [id.hex()]:
                    return user
                break  # the messages of another branch lie between
        return self._scan_for_user(length)

    def _scan_for_user(self, length: int) -> int | None:
        """Look for the user from the end, and remember where there was none."""
        known = self._take_result(self.cache.without_user)
        start = 0 if known is None else known.length
        found = scan_back(self.read, length, start)
        user = next((at for at, message in found if message.role is Role.USER), None)
        if user is None and length:
            self.cache.without_user[self.thread] = IncrementalResult(None, length, self.log())
        return user

    def permanent(self) -> dict[str, tuple[int, bool]]:
        """Return the permanent messages by id: the index they had, and whether each is pinned."""
        if self.cell(PERMANENT) is None:
            return {}
        stored = shapes.mapping(self.value(PERMANENT), "the permanent messages", list)
        rows = {
            id: shapes.items(row, "a permanent message", int, bool) for id, row in stored.items()
        }
        return {id: (max(at, 0), is_pinned) for id, (at, is_pinned) in rows.items()}

    def permanent_indices(self, length: int | None = None) -> tuple[int, ...]:
        """Return the indices of the permanent messages, now or when the log had a length."""
        places = (self.find_message(id, at) for id, (at, _) in self.permanent().items())
        found = {at for at in places if at is not None}
        for row in self.rows(PINS) if length is not None else ():
            then, near, id, was_made = shapes.items(row, "a row of pins", int, int, str, bool)
            if length is None or then <= length:
                break
            at = self.find_message(id, near)
            if at is not None:
                found = found - {at} if was_made else found | {at}
        return tuple(sorted(at for at in found if length is None or at < length))

    # Writing

    def branch(self) -> Branch:
        """Return the state as one that can be written to.

        Raises:
            ReadOnly: the state is a snapshot.
        """
        if not isinstance(self.state, Branch):
            raise ReadOnly(
                "this conversation belongs to a read-only snapshot",
                hint="fork the state at this commit and continue there",
            )
        return self.state

    def put(self, value: Any, table: str, *keys: str) -> None:
        """Stage a value as a table, or as an entry of it."""
        self.put_cell(self.state.cells.put(value), table, *keys)

    def put_cell(self, cell: bytes, table: str, *keys: str) -> None:
        """Stage a cell as a table, or as an entry of it."""
        self.branch().write_reserved(self._table_path(table, *keys), cell)

    def put_log(self, cell: bytes | None) -> None:
        """Stage another log; None removes it."""
        self.branch().write_reserved(self.path, cell)

    def remove(self, table: str, *keys: str) -> None:
        """Stage the removal of a table, or of an entry of it, if it is there."""
        if self.cell(table, *keys) is not None:
            self.branch().write_reserved(self._table_path(table, *keys), None)

    def extend(self, values: Iterable[Any], table: str = "") -> None:
        """Stage more elements at the end of the log, or of a table that is a list."""
        state = self.branch()
        path = self._table_path(table) if table else self.path
        state.extend_reserved(path, [state.cells.put(value) for value in values])

    def set_pinned(self, at: int, message: Message, *, is_pinned: bool) -> None:
        """Stage that a message is pinned, or is no longer; a system message stays permanent."""
        was_permanent = self.cell(PERMANENT, message.id) is not None
        is_permanent = is_pinned or message.role is Role.SYSTEM
        if is_permanent:
            self.put([at, is_pinned], PERMANENT, message.id)
        else:
            self.remove(PERMANENT, message.id)
        if is_permanent != was_permanent:
            self.extend([[self.length(), at, message.id, is_permanent]], PINS)

    def last_id(self) -> str:
        """Return the id of the last message; for an empty log, the name of the thread."""
        length = self.length()
        return self.read(length - 1, length)[0].id if length else self.thread

    def next_id(self, message: Message, previous_id: str) -> str:
        """Return the id of a message that follows another one."""
        content = replace(message, id="", tokens=None, is_pinned=False).to_data()
        encoded = self.state.cells.encoding.encode([previous_id, content])
        return digest(encoded)[:_ID_BYTES].hex()


def stored_data(message: Message, user: tuple[int, str] | None) -> dict[str, Any]:
    """Return the stored form of a message; `user` is the distance and id of the user's last one."""
    data = replace(message, is_pinned=False).to_data() | {"id": bytes.fromhex(message.id)}
    if message.tokens is not None and message.tokens.counter == ESTIMATE:
        data["tokens"] = message.tokens.count
    if user is not None and user[0] > 1:
        data[_BACK] = [user[0], bytes.fromhex(user[1])]
    return data


def _from_stored_data(stored: Any) -> Message:
    """Return the message that `stored_data` made into data."""
    data = shapes.mapping(stored, "a message in a log", object, error=BadValue)
    if not isinstance(data.get("id"), bytes):
        raise BadValue("a message in a log has no id", hint="run otolith fsck")
    data["id"] = data["id"].hex()
    if isinstance(data.get("tokens"), int):
        data["tokens"] = [data["tokens"], ESTIMATE]
    return Message.from_data(data)


class AttachmentStore:
    """The bytes of the attachments of one thread, stored once however often they are sent."""

    def __init__(self, store: ConversationStore) -> None:
        self._store = store

    def load(self, message: Message, media_type: str = "") -> Message:
        """Return a message whose attachments have their bytes.

        `media_type` limits that to types that begin so, as "text/" does.

        Raises:
            Corrupt: the bytes of an attachment are missing.
        """
        if not any(isinstance(part, Attachment | ToolResult) for part in message.parts):
            return message
        return _with_attachments(message, lambda part: self._load(part, media_type))

    def _load(self, part: Attachment, media_type: str) -> Attachment:
        if STORED_FILE not in part.extra or not part.media_type.startswith(media_type):
            return part
        name = part.extra[STORED_FILE][0]
        data = self._store.value(FILES, name)
        if not isinstance(data, bytes):
            raise Corrupt(f"the bytes of attachment {name} are missing", hint="run otolith fsck")
        extra = {key: value for key, value in part.extra.items() if key != STORED_FILE}
        return replace(part, data=data, extra=extra or EMPTY)

    def save(self, message: Message) -> Message:
        """Stage the bytes of attachments; return the message without them."""
        return _with_attachments(message, self._save)

    def _save(self, part: Attachment) -> Attachment:
        if part.data is None:
            return part
        name = digest(part.data)[:_FILE_HASH_BYTES].hex()
        if self._store.cell(FILES, name) is None:
            self._store.put(part.data, FILES, name)
        extra = dict(part.extra) | {STORED_FILE: [name, len(part.data)]}
        return replace(part, data=None, extra=extra)


def _with_attachments(message: Message, change: Callable[[Attachment], Attachment]) -> Message:
    """Return a message with its attachments changed, those in results too."""

    def changed(part: Part) -> Part:
        """Change an attachment, or those in a result."""
        if isinstance(part, Attachment):
            return change(part)
        if isinstance(part, ToolResult) and isinstance(part.content, tuple):
            content = tuple(map(changed, part.content))
            return part if content == part.content else replace(part, content=content)
        return part

    parts = tuple(map(changed, message.parts))
    return message if parts == message.parts else replace(message, parts=parts)
