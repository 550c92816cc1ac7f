"""The log of a thread: its messages as a list that is read where it is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import overload

from otolith.agent.conversation import pinning
from otolith.agent.conversation.checking import LARGEST_BYTES
from otolith.agent.conversation.counting import estimated
from otolith.agent.conversation.files import Files
from otolith.agent.conversation.message import Message, Role
from otolith.agent.conversation.record import STAYS, Record
from otolith.agent.conversation.threads import check_name
from otolith.agent.conversation.turns import Turns
from otolith.agent.times import clock_of
from otolith.core import Reading
from otolith.types import Clock

MAIN = "main"
AT_ONCE = 64
"""How many messages are read in one go."""


class Log(Sequence[Message]):
    """The messages of one thread, the oldest first."""

    def __init__(
        self,
        state: Reading,
        *,
        thread: str = MAIN,
        clock: Clock | None = None,
        attachment_limit_bytes: int = LARGEST_BYTES,
    ) -> None:
        """Look at a thread; it begins with its first message.

        Raises:
            Invalid: a thread cannot have this name.
        """
        self.state = state
        self.thread_name = check_name(thread)
        self._clock = clock_of(state) if clock is None else clock
        self._limit_bytes = attachment_limit_bytes
        self._record = Record(state, thread)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.thread_name}: {len(self)} messages>"

    # Reading

    def __len__(self) -> int:
        with self.state.turn():
            return self._record.length()

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        with self.state.turn():
            length = self._record.length()
            if isinstance(index, slice):
                start, stop, step = index.indices(length)
                if step == 1:
                    return self._full(start, max(start, stop))
                return [self[at] for at in range(start, stop, step)]
            at = index + length if index < 0 else index
            if not 0 <= at < length:
                raise IndexError(f"there is no message {index} among {length}")
            return self._full(at, at + 1)[0]

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(self, start: int = 0, stop: int | None = None) -> Iterator[Message]:
        """Yield messages, the oldest first, reading some at a time."""
        start, stop, _ = slice(start, stop).indices(len(self))
        for first in range(start, stop, AT_ONCE):
            with self.state.turn():
                some = self._full(first, min(first + AT_ONCE, stop))
            yield from some

    @property
    def turns(self) -> Turns:
        """What the user said, each time with what followed; the last is found from the end."""
        return Turns(lambda start, stop: self[start:stop], len(self))

    @property
    def tokens(self) -> int:
        """How many tokens all messages are, as they were estimated when they were added.

        Read once, and then only what is new.
        """
        record = self._record
        with self.state.turn():
            known = record.taken(record.shelf.totals)
            total, length = (0, 0) if known is None else (known.what, known.length)
            for each in record.unread(length):
                total += estimated(each)
            record.shelf.totals[self.thread_name] = record.marked(total)
            return total

    def _full(self, start: int, stop: int) -> list[Message]:
        """Return messages with the bytes of their attachments, and whether they are pinned."""
        read = self._record.read(start, stop)
        pins = self._record.stays() if self._record.cell(STAYS) is not None else {}
        filled = map(Files(self._record).filled, read)
        return [
            replace(each, is_pinned=True) if pins.get(each.id, (0, False))[1] else each
            for each in filled
        ]

    # What stays

    def pin(self, index: int, *, is_pinned: bool = True) -> None:
        """Let a message stay in every context, with its calls and results; or no longer."""
        with self._writing():
            message = self[index]
            for at in self._together(message, range(len(self))[index]):
                (each,) = self._record.read(at, at + 1)
                self._pin(at, each, is_pinned=is_pinned)

    def _pin(self, at: int, message: Message, *, is_pinned: bool) -> None:
        has_stayed = self._record.cell(STAYS, message.id) is not None
        stays = is_pinned or message.role is Role.SYSTEM
        if stays:
            self._record.put([at, is_pinned], STAYS, message.id)
        elif has_stayed:
            self._record.remove(STAYS, message.id)
        if stays != has_stayed:
            pinning.note(self._record, at, message.id, is_pinned=stays)

    def _together(self, message: Message, at: int) -> list[int]:
        """Return where a message, the calls it answers and the results of its calls are.

        One message may answer the calls of two others: those belong to it, and so on.
        """
        record, found, queue = self._record, {at}, [(at, message)]
        while queue:
            place, each = queue.pop()
            near = {record.caller(result.call_id) for result in each.results}
            near |= {record.answer(call.id, place) for call in each.calls}
            for other in near - found - {None}:
                assert other is not None
                found.add(other)
                queue.append((other, record.read(other, other + 1)[0]))
        return sorted(found)

    # Small things

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._record.branch()
        with self.state.turn():
            yield
