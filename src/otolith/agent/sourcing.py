"""Event sourcing: a value rebuilt from events, going on from the nearest snapshot.

While events are replayed, the value after every `EVERY` of them is encoded at once. A snapshot is
kept in the state itself, under

    .snapshots / <name>@<version> / <index>-<digest>

where the digest is that of the list of the events before the index, and of the initial value. A
list has one encoding, whatever its past, so the digest of a prefix is found without reading it; a
snapshot of other events has another digest and is not found. Taking one changes nothing that a user
put there: what was taken waits, encoded, for the next commit of something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from otolith.agent.event import Event, Reducer
from otolith.core import SNAPSHOTS, Cells, Path, Reading, digest
from otolith.errors import BadValue, Invalid

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

    def __init__(self, state: Reading) -> None:
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
