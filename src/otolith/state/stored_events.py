"""The event log of a branch or snapshot, and values rebuilt from its events.

Stored under `.events`: a list that grows at its end, an entry {kind, time, agent?, data?} for each.

Event sourcing folds events into a value. While events are replayed, the value after every
`EVERY` of them is encoded at once, as a *snapshot*, and stored under

    .snapshots / <name>@<version> / <index>-<digest>

where the digest is that of the list of events before the index and of the initial value. A list
has one encoding, whatever its history, so the digest of a prefix is known without reading it; a
snapshot of other events has another digest and is not found. Taking a snapshot does not change
what a user stored: it waits, encoded, for the next commit of something else.
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
from otolith.state.base import AnyState
from otolith.state.event_log import (
    Bound,
    CommonEvents,
    Event,
    EventLog,
    EventOrigins,
    Reducer,
    check_event,
    common_events,
    make_event,
)
from otolith.types import Clock

EVERY = 100
"""The number of events between two snapshots."""


def reducer_name(reducer: Reducer) -> str:
    """Return the name of a reducer that is the same in another process.

    Raises:
        Invalid: it has no such name.
    """
    module, name = getattr(reducer, "__module__", None), getattr(reducer, "__qualname__", None)
    if not module or not name or "<" in name:
        raise Invalid(
            f"{reducer!r} has no name to find its snapshots by in another process",
            hint='give it one: rebuild(reducer, name="totals")',
        )
    return f"{module}:{name}"


@dataclass(frozen=True, slots=True)
class _PendingSnapshot:
    """A snapshot that will be stored with the next commit."""

    series: str
    index: int
    seed: bytes
    data: bytes  # the full encoding of the value


class _Series:
    """The snapshots of one reducer, of one list of events and one initial value."""

    def __init__(self, cells: Cells, log: bytes, name: str, seed: bytes) -> None:
        self._cells = cells.frozen()  # the nodes made by cutting are not to be stored
        self._log = log
        self._length = cells.length(log)
        self.name = name
        self.seed = seed

    def path(self, index: int) -> Path:
        """Return where the snapshot of the events before an index is stored."""
        prefix = self._cells.loosen(self._log)
        if index < self._length:
            prefix = self._cells.splice(self._log, index, self._length, [])
        return SNAPSHOTS, self.name, f"{index}-{digest(digest(prefix) + self.seed).hex()[:32]}"


class Snapshots:
    """The snapshots of one state: those stored in it, and those that wait to be."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._waiting: dict[Path, _PendingSnapshot] = {}

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
            BadValue: the initial value cannot be stored.
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
        """Stage a snapshot of a replayed value, if it can be encoded."""
        try:
            data = self._state.cells.encoding.encode(value)
        except BadValue:
            return  # without a snapshot it is rebuilt from its events
        self._waiting[series.path(index)] = _PendingSnapshot(series.name, index, series.seed, data)

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
        """Whether snapshots wait to be stored."""
        return bool(self._waiting)

    def settle(self, log: bytes) -> None:
        """Stage the snapshots that wait, if they are of the events that are there now."""
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

    `tips` returns the commits that the state is based on; without a clock the log is read-only.
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
        self._origins = EventOrigins(state.cells)
        self._snapshots = Snapshots(state)
        self._commons: dict[tuple[str, bytes], CommonEvents] = {}

    @classmethod
    def of(cls, state: StateReader) -> StoredEventLog:
        """Return the events of a plain branch or snapshot."""
        if isinstance(state, Branch):
            return cls(state, tips=lambda: (state.head, state.merging), resolve=state.resolve)
        return cls(state, tips=lambda: (state.commit,) if isinstance(state, Snapshot) else ())

    def append(self, kind: str, /, *, agent: str = "", **data: Any) -> Event:
        """Append an event and return it."""
        check_event(kind, agent)
        if self._clock is None:
            raise ReadOnly(
                "cannot append an event to a read-only snapshot",
                hint="append to the events of a live session instead",
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
            _ = event.data  # decoded now: the buffer may drop the cell later
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
        """Return the event of a cell; its data is decoded on first use."""
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

        return make_event(
            kind,
            time,
            str(agent or ""),
            index,
            load=load,
            find=lambda: self._find(index, cell, log),
        )

    # The commit that recorded an event

    def _find(self, index: int, cell: bytes, then: bytes | None) -> str | None:
        """Return the commit of an event; a merge may have moved the event since it was read."""
        with self._state.lock:
            log = self._cell()
            at = index if log == then else self._place(log, index, cell)
            return None if at is None else self._origin(log, at)

    def _place(self, log: bytes, index: int, cell: bytes) -> int | None:
        """Return where a log has an event: at its index, or after it."""
        cells = self._state.cells
        if index >= cells.length(log):
            return None
        elements = enumerate(cells.elements(log, index), index)
        return next((at for at, element in elements if cells.same(element, cell)), None)

    def _origin(self, log: bytes, index: int) -> str | None:
        """Return the commit that an event came with."""
        for tip in self._tips():
            at = None if tip is None else self._shared(tip, log).place(index)
            if tip is not None and at is not None:
                return self._origins.find(tip, at)
        return None

    def _shared(self, commit: Commit, log: bytes) -> CommonEvents:
        """Return the common events of a commit and a list."""
        key = commit.id, log
        if key not in self._commons:
            if len(self._commons) > _MOST_COMMONS:
                self._commons.clear()
            old = self._origins.log(commit)
            self._commons[key] = common_events(self._state.cells, old, log)
        return self._commons[key]

    def _common(self, target: Commit | str) -> CommonEvents:
        with self._state.lock:
            return self._shared(self._commit(target), self._cell())

    def _commit(self, target: Commit | str) -> Commit:
        """Return a commit, resolved on the branch of the state."""
        if isinstance(target, Commit):
            return target
        if self._resolve is None:
            raise Unsupported(
                f"{target!r} cannot be resolved in a state without a branch", hint="give a Commit"
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

        Replay starts at the nearest snapshot that a reducer of this name and version made.
        `upto` is the number of events to take, or a commit: those that it contains.

        Raises:
            Invalid: the reducer has no name, or `upto` is not a count.
            BadValue: the initial value cannot be stored.
        """
        series = f"{reducer_name(reducer) if name is None else name}@{version}"
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
                stop=length if upto is None else min(check_count(upto), length),
                read=lambda start, stop: self._read_from(log, start, stop),
            )

    @property
    def is_waiting(self) -> bool:
        """Whether there are snapshots to store with the next commit."""
        return self._snapshots.is_waiting

    def settle(self) -> None:
        """Stage the snapshots that were taken, to be committed with the rest."""
        if self._snapshots.is_waiting:
            self._snapshots.settle(self._cell())


def events(
    state: AnyState | StateReader | None,
    *,
    kind: str | Collection[str] | None = None,
    since: Bound = None,
    until: Bound = None,
    agent: str | None = None,
    limit: int | None = None,
) -> list[Event]:
    """Return the events of a state, the oldest first; none if the state is None.

    `kind` is one kind or several. `since` and `until` are times (a datetime with a zone, or
    microseconds since 1970) or commits: since a commit is what it does not contain, until one what
    it does. `limit` returns the last so many that match.

        otolith.events(state, kind="tool_call", limit=10)

    Raises:
        Invalid: `state` is not a state, or a bound is not a time.
    """
    if state is None:
        return []
    log = getattr(state, "events", None)
    if log is None and isinstance(state, StateReader):
        log = StoredEventLog.of(state)
    if not isinstance(log, EventLog):
        raise Invalid(
            f"a {type(state).__name__} is not a state",
            hint="use Versioned, Live, a snapshot or None",
        )
    return log.list(kind=kind, since=since, until=until, agent=agent, limit=limit)


_HEAD = (b"kind", b"time", b"agent")
_MOST_COMMONS = 32


def check_count(upto: object) -> int:
    """Return the number of events to take.

    Raises:
        Invalid: it is not an int, or negative.
    """
    if type(upto) is not int or upto < 0:
        raise Invalid(f"upto must be 0 or more, got {upto!r}", hint="give a count, or a commit")
    return upto
