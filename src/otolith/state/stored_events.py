"""The events of a state that is kept: a list in its tree, which grows at its end.

Event sourcing: a value rebuilt from events, going on from the nearest snapshot.

While events are replayed, the value after every `EVERY` of them is encoded at once. A snapshot is
kept in the state itself, under

    .snapshots / <name>@<version> / <index>-<digest>

where the digest is that of the list of the events before the index, and of the initial value. A
list has one encoding, whatever its past, so the digest of a prefix is found without reading it; a
snapshot of other events has another digest and is not found. Taking one changes nothing that a user
put there: what was taken waits, encoded, for the next commit of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from otolith.core import (
    EVENTS,
    SNAPSHOTS,
    Branch,
    Cells,
    Commit,
    Path,
    Snapshot,
    StateReader,
    digest,
)
from otolith.errors import BadValue, Corrupt, Invalid, ReadOnly, Unsupported
from otolith.state.base import State
from otolith.state.event_log import (
    Bound,
    Event,
    EventLog,
    EventOrigins,
    Origins,
    Reducer,
    check_words,
    shared,
)
from otolith.types import Clock

EVERY = 100
"""After how many events a snapshot is taken."""


def name_of(reducer: Reducer) -> str:
    """Return what a reducer is called by, if that is the same in another process.

    Raises:
        Invalid: it has no such name.
    """
    module, name = getattr(reducer, "__module__", None), getattr(reducer, "__qualname__", None)
    if not module or not name or "<" in name:
        raise Invalid(
            f"{reducer!r} has no name that would find its snapshots again",
            hint='give it one: rebuild(reducer, name="totals")',
        )
    return f"{module}:{name}"


@dataclass(frozen=True, slots=True)
class _Taken:
    """A snapshot that waits to be kept."""

    series: str
    index: int
    seed: bytes
    data: bytes  # the full encoding of the value


class _Series:
    """The snapshots of one reducer, of one list of events and one initial value."""

    def __init__(self, cells: Cells, log: bytes, name: str, seed: bytes) -> None:
        self._cells = cells.frozen()  # cutting makes nodes that nobody wants to keep
        self._log = log
        self._length = cells.length(log)
        self.name = name
        self.seed = seed

    def path(self, index: int) -> Path:
        """Return where the snapshot of the events before an index is kept."""
        prefix = self._cells.loosen(self._log)
        if index < self._length:
            prefix = self._cells.splice(self._log, index, self._length, [])
        return SNAPSHOTS, self.name, f"{index}-{digest(digest(prefix) + self.seed).hex()[:32]}"


class Snapshots:
    """The snapshots of one state: those that are kept in it, and those that wait to be."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._waiting: dict[Path, _Taken] = {}

    def rebuild(
        self,
        reducer: Reducer,
        initial: Any,
        *,
        name: str,
        log: bytes,
        stop: int,
        read: Callable[[int, int], list[Event]],
    ) -> Any:
        """Fold the first `stop` events of a list into a value.

        Raises:
            BadValue: the initial value cannot be kept.
        """
        seed = self._state.cells.encoding.encode(initial)
        series = _Series(self._state.cells, log, name, seed)
        start, value = self._nearest(series, stop)
        while start < stop:
            end = min(start - start % EVERY + EVERY, stop)
            for event in read(start, end):
                value = reducer(value, event)
            if end % EVERY == 0:
                self._take(series, end, value)
            start = end
        return value

    def _take(self, series: _Series, index: int, value: Any) -> None:
        try:
            data = self._state.cells.encoding.encode(value)
        except BadValue:
            return  # it can be made of its events again, and only so
        self._waiting[series.path(index)] = _Taken(series.name, index, series.seed, data)

    def _nearest(self, series: _Series, stop: int) -> tuple[int, Any]:
        """Return the last snapshot up to an index, or the beginning."""
        cells = self._state.cells
        if self._waiting or self._state.cell_at((SNAPSHOTS, series.name)) is not None:
            for index in range(stop - stop % EVERY, 0, -EVERY):
                path = series.path(index)
                if path in self._waiting:
                    return index, cells.encoding.decode(self._waiting[path].data)
                cell = self._state.cell_at(path)
                if cell is not None:
                    return index, cells.load(cell)
        return 0, cells.encoding.decode(series.seed)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._waiting)

    def settle(self, log: bytes) -> None:
        """Put what waits into the state, as far as it is about the events that are there."""
        waiting, self._waiting = self._waiting, {}
        cells = self._state.cells
        for path, taken in waiting.items():
            if path == _Series(cells, log, taken.series, taken.seed).path(taken.index):
                value = cells.encoding.decode(taken.data)
                self._state.write_reserved(path, cells.put(value))


_PATH = (EVENTS,)
_EMPTY = b"\x90"


class StoredEventLog(EventLog):
    """The events of a branch or a snapshot.

    `tips` gives the commits that the state rests on; without a clock nothing can be recorded.
    """

    def __init__(
        self,
        state: StateReader,
        *,
        tips: Callable[[], Sequence[Commit | None]],
        resolve: Callable[[str], Commit] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._state = state
        self._tips = tips
        self._resolve = resolve
        self._clock = clock
        self._origins = Origins(state.cells)
        self._snapshots = Snapshots(state)
        self._commons: dict[tuple[str, bytes], EventOrigins] = {}

    @classmethod
    def of(cls, state: StateReader) -> StoredEventLog:
        """Return the events of a plain branch or snapshot."""
        if isinstance(state, Branch):
            return cls(state, tips=lambda: (state.head, state.merging), resolve=state.resolve)
        return cls(state, tips=lambda: (state.commit,) if isinstance(state, Snapshot) else ())

    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        check_words(kind, agent)
        if self._clock is None:
            raise ReadOnly(
                "this state is as it was, and nothing happens in it any more",
                hint="append to the events of a session",
            )
        record: dict[str, Any] = {"kind": kind, "time": self._clock()}
        record |= {"agent": agent} if agent else {}
        record |= {"data": data} if data else {}
        with self._state.lock:
            cells = self._state.cells
            try:
                cell = cells.put(record)
            except BadValue as error:
                raise BadValue(f"event {kind}: {error.message}", hint=error.hint) from None
            index = self._state.extend_reserved(_PATH, [cell]) - 1
            event = self._event(index, cell, None)
            _ = event.data  # while what it was encoded to is there
        return event

    def _cell(self) -> bytes:
        cell = self._state.cell_at(_PATH)
        return _EMPTY if cell is None else cell

    def __len__(self) -> int:
        with self._state.lock:
            return self._state.cells.length(self._cell())

    def _read(self, start: int, stop: int) -> list[Event]:
        with self._state.lock:
            return self._read_from(self._cell(), start, stop)

    def _read_from(self, log: bytes, start: int, stop: int) -> list[Event]:
        cells = list(self._state.cells.elements(log, start, stop))
        self._state.cells.prefetch(cells)
        return [self._event(index, cell, log) for index, cell in enumerate(cells, start)]

    def _event(self, index: int, cell: bytes, log: bytes | None) -> Event:
        cells = self._state.cells
        if cells.kind(cell) != "map":
            raise Corrupt(f"{EVENTS}/{index} is not an event", hint="run otolith fsck")
        parts = dict(cells.entries(cell))
        kind, time, agent = (cells.load(parts[name]) if name in parts else None for name in _HEAD)
        if not isinstance(kind, str) or not isinstance(time, int):
            raise Corrupt(f"{EVENTS}/{index} is not an event", hint="run otolith fsck")

        def load() -> dict[str, Any]:
            data = cells.load(parts[b"data"]) if b"data" in parts else {}
            return data if isinstance(data, dict) else {}

        return Event(
            kind, time, str(agent or ""), index, load, lambda: self._find(index, cell, log)
        )

    # Which commit an event came with

    def _find(self, index: int, cell: bytes, then: bytes | None) -> str | None:
        """Return the commit of an event, which others' events may have moved since it was read."""
        with self._state.lock:
            log = self._cell()
            at = index if log == then else self._place(log, index, cell)
            return None if at is None else self._origin(log, at)

    def _place(self, log: bytes, index: int, cell: bytes) -> int | None:
        cells = self._state.cells
        if index >= cells.length(log):
            return None
        elements = enumerate(cells.elements(log, index), index)
        return next((at for at, element in elements if cells.same(element, cell)), None)

    def _origin(self, log: bytes, index: int) -> str | None:
        for tip in self._tips():
            at = None if tip is None else self._shared(tip, log).place(index)
            if tip is not None and at is not None:
                return self._origins.find(tip, at)
        return None

    def _shared(self, commit: Commit, log: bytes) -> EventOrigins:
        """Return what a commit's events have in common with a list of events."""
        key = commit.id, log
        if key not in self._commons:
            if len(self._commons) > _MOST_COMMONS:
                self._commons.clear()
            old = self._origins.log(commit)
            self._commons[key] = shared(self._state.cells, old, log)
        return self._commons[key]

    def _common(self, target: Commit | str) -> EventOrigins:
        with self._state.lock:
            return self._shared(self._commit(target), self._cell())

    def _commit(self, target: Commit | str) -> Commit:
        if isinstance(target, Commit):
            return target
        if self._resolve is None:
            raise Unsupported(
                f"{target!r} means nothing to a state without a branch", hint="give a Commit"
            )
        return self._resolve(target)

    # Event sourcing

    def rebuild(
        self,
        reducer: Reducer,
        initial: Any = None,
        *,
        name: str | None = None,
        version: int = 1,
        upto: int | Commit | str | None = None,
    ) -> Any:
        """Fold all events into a value: `reducer(value, event)` returns the next value.

        It goes on from the nearest snapshot of what a reducer of this name and version made.
        `upto` is how many events to take, or a commit: those that it contains.

        Raises:
            Invalid: the reducer has no name, or `upto` is no count.
            BadValue: the initial value cannot be kept.
        """
        series = f"{name_of(reducer) if name is None else name}@{version}"
        with self._state.lock:
            log = self._cell()
            if isinstance(upto, Commit | str):
                log, upto = self._origins.log(self._commit(upto)) or _EMPTY, None
            length = self._state.cells.length(log)
            return self._snapshots.rebuild(
                reducer,
                initial,
                name=series,
                log=log,
                stop=length if upto is None else min(count_of(upto), length),
                read=lambda start, stop: self._read_from(log, start, stop),
            )

    @property
    def is_waiting(self) -> bool:
        """Whether there are snapshots to be committed with whatever is next."""
        return self._snapshots.is_waiting

    def settle(self) -> None:
        """Put the snapshots that were taken into the state, to be committed with the rest."""
        if self._snapshots.is_waiting:
            self._snapshots.settle(self._cell())


def events(
    state: State | StateReader | None,
    *,
    kind: str | Collection[str] | None = None,
    since: Bound = None,
    until: Bound = None,
    agent: str | None = None,
    limit: int | None = None,
) -> list[Event]:
    """Return what happened in a state, the oldest first; in no state nothing did.

    `kind` is one kind or several. `since` and `until` are moments (a datetime with a zone, or
    microseconds since 1970) or commits: since a commit is what it does not contain, until one what
    it does. `limit` is for the last so many of those that fit.
    """
    if state is None:
        return []
    log = getattr(state, "events", None)
    if log is None and isinstance(state, StateReader):
        log = StoredEventLog.of(state)
    if not isinstance(log, EventLog):
        raise Invalid(
            f"a {type(state).__name__} is no state", hint="use Versioned, Live, a snapshot or None"
        )
    return log.list(kind=kind, since=since, until=until, agent=agent, limit=limit)


_HEAD = (b"kind", b"time", b"agent")
_MOST_COMMONS = 32


def count_of(upto: object) -> int:
    """Return how many events to take.

    Raises:
        Invalid: it is no count.
    """
    if type(upto) is not int or upto < 0:
        raise Invalid(f"upto={upto!r} is no count of events", hint="use 0 or more, or a commit")
    return upto
