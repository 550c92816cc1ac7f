"""Events: what happened to an agent, in order, each with the commit that contains it.

An event has a kind (any word; those in `KINDS` are known), a time, the name of an agent, and data.
A log stores a copy of the data, so an event never changes. `EventLog` is the interface;
`stored_events.py` has the log of a branch, `live.py` that of a state in memory.

Finding the commit of an event (`EventOrigins`): the id of a commit is a hash over its events, so no
event can hold it. A *span* is a range of events that one commit contains, possibly because a parent
did. At first there is one span, all events in the head. A span is resolved one step further by
passing to each parent what that parent contains as well; what no parent contains came with the
commit itself. Only the span in question is resolved, so asking about recent events reads recent
history, and the spans are remembered.
"""

from __future__ import annotations

import builtins
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, overload

from otolith.core import EVENTS, Cells, Commit, decode_commit, list_middle
from otolith.errors import Invalid
from otolith.shapes import NOTHING, check_argument
from otolith.types import Hash, cut_line

_KEY = EVENTS.encode()


class CommonRange(NamedTuple):
    """Elements `start` to `stop` of a list, which are `shift` places earlier in an older list."""

    start: int
    stop: int
    shift: int


class CommonEvents(NamedTuple):
    """The events that a list and an older one have in common: front, end, and a range between."""

    front: CommonRange
    between: CommonRange
    end: CommonRange

    def place(self, index: int) -> int | None:
        """Return the index in the older list of an element of the newer one."""
        return next((index - run.shift for run in self if run.start <= index < run.stop), None)


def identical_lists(length: int) -> CommonEvents:
    """Return what a list of this length has in common with an equal one."""
    return CommonEvents(
        CommonRange(0, length, 0), CommonRange(length, length, 0), CommonRange(length, length, 0)
    )


def common_events(cells: Cells, old: bytes | None, new: bytes) -> CommonEvents:
    """Return what a list of events has in common with an older one, which may be absent."""
    length = cells.length(new)
    if old is None:
        return CommonEvents(
            CommonRange(0, 0, 0), CommonRange(0, 0, 0), CommonRange(length, length, 0)
        )
    if cells.same(old, new):
        return identical_lists(length)
    start, before, after = list_middle(cells, old, new)
    ahead = _common_prefix(before, after)  # short lists have not been stripped of their ends
    before, after, start = before[ahead:], after[ahead:], start + ahead
    back = _common_prefix(before[::-1], after[::-1])
    stop = start + len(after) - back
    end = CommonRange(stop, length, len(after) - len(before))
    # After a merge, what the later side has is followed by what came since.
    at = _position_of(before[: len(before) - back], after[: len(after) - back])
    between = CommonRange(stop, stop, 0)
    if at is not None:
        between = CommonRange(start + at, start + at + len(before) - back, at)
    return CommonEvents(CommonRange(0, start, 0), between, end)


def _position_of(run: list[bytes], items: list[bytes]) -> int | None:
    """Return the index of a run of elements in a list."""
    places = range(len(items) - len(run) + 1) if run else ()
    return next((at for at in places if items[at : at + len(run)] == run), None)


def _common_prefix(one: list[bytes], other: list[bytes]) -> int:
    """Return the length of the common prefix of two lists."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class _Span(NamedTuple):
    """Events `start` to `stop` of the tip, which are `shift` places earlier in a commit."""

    start: int
    stop: int
    id: str
    shift: int = 0
    commit: Commit | None = None  # None once it is known that they came with it


class EventOrigins:
    """Finds the commits of the events of one state, starting at its head."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._tip = ""
        self._spans: list[_Span] = []  # the latest events first
        self._older: tuple[str, list[_Span]] = "", []

    def log(self, commit: Commit) -> bytes | None:
        """Return the list of events of a commit."""
        return self._cells.entry(commit.cell, _KEY)

    def find(self, tip: Commit, index: int) -> str:
        """Return the id of the commit that recorded an event which this commit contains."""
        if tip.id != self._tip:
            cell = self.log(tip)
            length = 0 if cell is None else self._cells.length(cell)
            self._older = self._tip, self._spans
            self._tip, self._spans = tip.id, [_Span(0, length, tip.id, commit=tip)]
        while True:
            at = bisect_left(self._spans, -index, key=lambda span: -span.start)
            span = self._spans[at]
            if span.commit is None:
                return span.id
            self._spans[at : at + 1] = sorted(self._resolved(span, span.commit), reverse=True)

    def _resolved(self, span: _Span, commit: Commit) -> Iterator[_Span]:
        """Yield the parts of a span that parents contain, and what none of them does."""
        cell = self.log(commit)
        rest = [(span.start, span.stop)]
        for id in commit.parents if cell is not None else ():
            parent = decode_commit(hash := Hash(bytes.fromhex(id)), self._cells.objects.data(hash))
            for run in self._common_with(commit, self.log(parent), cell or b""):
                shift = span.shift + run.shift
                part = _Span(span.shift + run.start, span.shift + run.stop, id, shift, parent)
                inherited, rest = _cut(rest, part)
                for start, stop in inherited:
                    yield from self._known(part._replace(start=start, stop=stop))
        yield from (_Span(start, stop, commit.id) for start, stop in rest)

    def _common_with(self, commit: Commit, old: bytes | None, new: bytes) -> CommonEvents:
        """Return the common events of a commit and its parent; a step only appends."""
        if old is None or len(commit.parents) > 1 or commit.kind == "rollback":
            return common_events(self._cells, old, new)
        return identical_lists(min(self._cells.length(old), self._cells.length(new)))

    def _known(self, span: _Span) -> Iterator[_Span]:
        """Yield a span, or what was found about it when its commit was the tip."""
        id, spans = self._older
        if id != span.id:
            yield span
            return
        for old in spans:
            start, stop = old.start + span.shift, old.stop + span.shift
            start, stop = max(start, span.start), min(stop, span.stop)
            if start < stop:
                yield old._replace(start=start, stop=stop, shift=old.shift + span.shift)


def _cut(
    ranges: list[tuple[int, int]], part: _Span
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Split ranges into what is inside a part, and what is not."""
    inside: list[tuple[int, int]] = []
    outside: list[tuple[int, int]] = []
    for start, stop in ranges:
        first, last = max(start, part.start), min(stop, part.stop)
        if first >= last:
            outside.append((start, stop))
            continue
        inside.append((first, last))
        outside += [(a, b) for a, b in ((start, first), (last, stop)) if a < b]
    return inside, outside


KINDS = ("action", "output", "tool_call", "error", "success", "note", "skipped")

Bound: TypeAlias = "datetime | int | Commit | str | None"
"""A datetime with a zone, microseconds since 1970, a commit, or an expression for a commit."""

Reducer: TypeAlias = Callable[[Any, "Event"], Any]
"""Takes a value and the next event, and returns the next value."""

_FIRST_BLOCK, _LARGEST_BLOCK = 64, 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END_OF_TIME = 1 << 63


@dataclass(frozen=True, eq=False, repr=False)
class Event:
    """One thing that happened: `event.kind`, `.when`, `.agent`, `.data`, `.commit`."""

    kind: str
    time: int
    agent: str
    index: int
    _load: Callable[[], dict[str, Any]] = field(compare=False)
    _find: Callable[[], str | None] = field(compare=False)

    @cached_property
    def data(self) -> dict[str, Any]:
        """What it was recorded with; read when it is first asked for."""
        return self._load()

    @property
    def commit(self) -> str | None:
        """The id of the commit that recorded it; None as long as it is not committed."""
        found: str | None = self.__dict__.get("found")
        if found is None:
            found = self._find()
            self.__dict__["found"] = found  # it never changes once it is known
        return found

    @property
    def commit_hash(self) -> str | None:
        """The id of the commit that recorded it: another name for `commit`."""
        return self.commit

    @property
    def when(self) -> datetime:
        """The time, in UTC."""
        return _EPOCH + timedelta(microseconds=self.time)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        head = {"index": self.index, "kind": self.kind, "time": self.time, "agent": self.agent}
        return {**head, "commit": self.commit, "data": self.data}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return _head(self) == _head(other) and self.data == other.data

    def __hash__(self) -> int:
        return hash(_head(self))

    def __repr__(self) -> str:
        by = f" by {self.agent}" if self.agent else ""
        return f"<{type(self).__name__} {self.index} {self.kind}{by} {cut_line(repr(self.data))}>"


# Kinds as classes, for `isinstance(event, ActionEvent)`; an event of any other kind is an `Event`.


class ActionEvent(Event):
    """What an agent did: an action, a reply of its model, or a call of a tool."""


class OutputEvent(ActionEvent):
    """What the model of an agent replied."""


class ToolCallEvent(ActionEvent):
    """A tool that was called, with its arguments and its result or error."""


class TaskStartEvent(Event):
    """What an agent was asked to do."""


class SuccessEvent(Event):
    """The answer of a task that is done."""


class ErrorEvent(Event):
    """Why a task failed."""


class ClarifyEvent(Event):
    """What an agent asks a person before it continues."""


_CLASS_OF_KIND: dict[str, type[Event]] = {
    "action": ActionEvent,
    "output": OutputEvent,
    "tool_call": ToolCallEvent,
    "input": TaskStartEvent,
    "success": SuccessEvent,
    "error": ErrorEvent,
    "question": ClarifyEvent,
}


def make_event(
    kind: str,
    time: int,
    agent: str,
    index: int,
    *,
    load: Callable[[], dict[str, Any]],
    find: Callable[[], str | None],
) -> Event:
    """Return an event, of the class of its kind."""
    return _CLASS_OF_KIND.get(kind, Event)(kind, time, agent, index, load, find)


def _head(event: Event) -> tuple[object, ...]:
    return event.kind, event.time, event.agent, event.index


class EventLog(Sequence[Event]):
    """The events of a state, the oldest first. `state.events` is one."""

    @abstractmethod
    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        """Record that something happened; it is committed with everything else.

        Raises:
            Invalid: the kind is not a word, or the agent not a name.
            BadValue: the data cannot be stored.
        """

    @abstractmethod
    def rebuild(
        self,
        reducer: Reducer,
        initial: Any = None,
        *,
        name: str | None = None,
        version: int = 1,
        upto: int | Commit | str | None = None,
    ) -> Any:
        """Fold all events into a value: `reducer(value, event)` returns the next value."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of events."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> builtins.list[Event]:
        """Return the events of a range."""

    @abstractmethod
    def _common(self, target: Commit | str) -> CommonEvents:
        """Return what this log has in common with that of a commit."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {len(self)} events>"

    @overload
    def __getitem__(self, at: int) -> Event: ...
    @overload
    def __getitem__(self, at: slice) -> builtins.list[Event]: ...
    def __getitem__(self, at: int | slice) -> Any:
        length = len(self)
        if isinstance(at, slice):
            start, stop, step = at.indices(length)
            if step == 1:
                return self._read(start, max(start, stop))
            return [self[index] for index in range(start, stop, step)]
        if not -length <= at < length:
            raise IndexError(f"there are {length} events, got index {at}")
        return self._read(at % length, at % length + 1)[0]

    def __iter__(self) -> Iterator[Event]:
        for start in range(0, len(self), _LARGEST_BLOCK):
            yield from self._read(start, start + _LARGEST_BLOCK)

    def _backwards(self, start: int, stop: int) -> Iterator[Event]:
        """Yield the events of a range, the latest first, reading few at first."""
        block = _FIRST_BLOCK
        while stop > start:
            middle = max(stop - block, start)
            yield from reversed(self._read(middle, stop))
            stop, block = middle, min(2 * block, _LARGEST_BLOCK)

    def list(
        self,
        *,
        kind: str | Collection[str] | None = None,
        since: Bound = None,
        until: Bound = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> builtins.list[Event]:
        """Return events, the oldest first; with `limit`, the last so many that match.

        `since` and `until` include that moment. Given a commit, `since` returns what it does not
        contain, `until` what it does.

        Raises:
            Invalid: the limit is negative, or a datetime has no zone.
        """
        check_argument(limit, "limit", (int, NOTHING), "a whole number, or None for all")
        if limit is not None and limit < 0:
            raise Invalid(f"limit must be 0 or more, got {limit}", hint="omit it to get all events")
        kinds = {kind} if isinstance(kind, str) else kind
        found: builtins.list[Event] = []
        if limit == 0:
            return found
        for event in self._between(since, until):
            if kinds is not None and event.kind not in kinds:
                continue
            if agent is None or event.agent == agent:
                found.append(event)
                if len(found) == limit:
                    break
        return found[::-1]

    def _between(self, since: Bound, until: Bound) -> Iterator[Event]:
        """Yield the events between two bounds, the latest first."""
        start, stop = 0, len(self)
        earliest, latest, past, upto = -_END_OF_TIME, _END_OF_TIME, None, identical_lists(stop)
        if isinstance(since, Commit | str):
            past = self._common(since)
            start, stop = past.front.stop, past.end.start
        elif since is not None:
            earliest = to_microseconds(since)
        if isinstance(until, Commit | str):
            upto = self._common(until)
        elif until is not None:
            latest = to_microseconds(until)
        for event in self._backwards(start, stop):
            is_new = past is None or past.place(event.index) is None
            if is_new and earliest <= event.time <= latest and upto.place(event.index) is not None:
                yield event


def to_microseconds(moment: datetime | int) -> int:
    """Return a time in microseconds since 1970.

    Raises:
        Invalid: it is not a time, or it has no zone.
    """
    if type(moment) is int:
        return moment
    if not isinstance(moment, datetime):
        raise Invalid(
            f"{moment!r} is not a time", hint="use a datetime, microseconds since 1970 or a commit"
        )
    if moment.tzinfo is None:
        raise Invalid(f"{moment.isoformat()} has no zone", hint="use datetime.now(UTC), or add one")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def check_event(kind: object, agent: object) -> None:
    """Check the kind and the agent of an event.

    Raises:
        Invalid: the kind is not a word, or the agent is not a str.
    """
    if not isinstance(kind, str) or not kind:
        raise Invalid(
            f"the kind of an event must be a word, got {kind!r}", hint=f"such as {', '.join(KINDS)}"
        )
    if not isinstance(agent, str):
        raise Invalid(f"agent must be a str, got {agent!r}", hint="use the name of the agent")
