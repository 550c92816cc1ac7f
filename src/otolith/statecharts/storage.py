"""The storage of machines: running charts as they lie in a state.

    .lifecycle / <name> / snapshot    the snapshot, without its data
                          data        the data of the chart, written only when it changed
                          log         its past: [event, data, time], the oldest first
                          outbox      effects that are not carried out yet, by their key

An empty event in the log means that time passed and timers fired. Two branches of a state that both
moved a machine merge it as one value: see `merge.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from otolith.core import LIFECYCLE, Branch, Path, StateReader
from otolith.shapes import NOTHING, Shape, fields, items, mapping, several
from otolith.statecharts.snapshot import ChartSnapshot, Effect

_SNAPSHOT, _DATA, _LOG, _OUTBOX = "snapshot", "data", "log", "outbox"
_PENDING: Shape = {"effect": dict, "order": list, "tries": int, "is_begun": bool, "error": str}
_LOGGED: tuple[Any, ...] = (str, object, (int, NOTHING))


class LoggedEvent(NamedTuple):
    """One event in the past of a machine; an empty name means that time passed."""

    event: str
    data: Any
    time: int


class PendingEffect(NamedTuple):
    """An effect in the outbox: not carried out, or not known to be."""

    effect: Effect
    order: tuple[int, int]
    """The number of its step, and its position in that step."""
    tries: int = 0
    is_begun: bool = False
    """It was begun, must not be done twice, and its outcome is unknown."""
    error: str = ""
    """What the last try raised."""

    def to_data(self) -> dict[str, Any]:
        """Return the pending effect as one plain dict."""
        return {**self._asdict(), "effect": self.effect.to_data(), "order": list(self.order)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> PendingEffect:
        """Return the pending effect that `to_data` gave.

        Raises:
            Corrupt: this is not such a dict.
        """
        found = fields(data, "a pending effect", _PENDING, is_open=True)
        step, position = items(found["order"], "the order of an effect", int, int)
        effect = Effect.from_data(found["effect"])
        return cls(**{**found, "effect": effect, "order": (step, position)})


class StoredMachine(NamedTuple):
    """A machine as it is stored; no chart is needed to read it."""

    snapshot: ChartSnapshot
    log: list[LoggedEvent]
    outbox: dict[str, PendingEffect]
    """The pending effects by key, in the order in which they were asked for."""

    @property
    def steps(self) -> int:
        """How many events the machine has taken."""
        return len(self.log)

    def to_data(self) -> dict[str, Any]:
        """Return the machine as it is stored."""
        snapshot = self.snapshot.to_data()
        data = snapshot.pop("data")
        stored = {_SNAPSHOT: snapshot, _DATA: data, _LOG: [list(event) for event in self.log]}
        outbox = {key: pending.to_data() for key, pending in sorted(self.outbox.items())}
        stored |= {_OUTBOX: outbox} if outbox else {}
        return dict(sorted(stored.items()))  # as a table that is written part by part

    @classmethod
    def from_data(cls, data: object) -> StoredMachine:
        """Return the machine that is stored as this.

        Raises:
            Corrupt: this is not a machine.
        """
        found = mapping(data, "a machine", object)
        snapshot = _read_snapshot(found.get(_SNAPSHOT), found.get(_DATA))
        return cls(snapshot, _read_log(found.get(_LOG)), _read_outbox(found.get(_OUTBOX)))


def _read_snapshot(stored: object, data: object) -> ChartSnapshot:
    """Return the snapshot from its two parts; raise Corrupt if they are damaged."""
    rest = mapping(stored, "the snapshot of a machine", object)
    return ChartSnapshot.from_data(rest | {"data": {} if data is None else data})


def _read_log(stored: object) -> list[LoggedEvent]:
    """Return the log; raise Corrupt if it is damaged."""
    rows = [] if stored is None else several(stored, "the log of a machine", list)
    return [LoggedEvent(*items(row, "an event of a machine", *_LOGGED)) for row in rows]


def _read_outbox(stored: object) -> dict[str, PendingEffect]:
    """Return the outbox in its order; raise Corrupt if it is damaged."""
    rows = {} if stored is None else mapping(stored, "the outbox of a machine", dict)
    outbox = {key: PendingEffect.from_data(each) for key, each in rows.items()}
    return dict(sorted(outbox.items(), key=lambda pair: pair[1].order))


class MachineStorage:
    """Reads and stages one machine of a state. Reading raises Corrupt if it is damaged."""

    def __init__(self, state: StateReader, name: str) -> None:
        self._state = state
        self._path: Path = (LIFECYCLE, name)

    @property
    def cell(self) -> bytes | None:
        """The address of everything that is stored of the machine; None if there is none."""
        return self._state.cell_at(self._path)

    def snapshot(self) -> ChartSnapshot | None:
        """Return the snapshot; None if there is none."""
        stored = self._read(_SNAPSHOT)
        return None if stored is None else _read_snapshot(stored, self._read(_DATA))

    def log(self) -> list[LoggedEvent]:
        """Return the past of the machine, the oldest event first."""
        return _read_log(self._read(_LOG))

    def outbox(self) -> dict[str, PendingEffect]:
        """Return the pending effects by key, in the order in which they were asked for."""
        return _read_outbox(self._read(_OUTBOX))

    def stage(
        self,
        snapshot: ChartSnapshot,
        *,
        before: ChartSnapshot | None,
        logged: LoggedEvent | None,
        outbox: Mapping[str, PendingEffect | None],
    ) -> None:
        """Stage a snapshot, an event for the log, and changes of the outbox."""
        state = self._state
        assert isinstance(state, Branch)
        stored = snapshot.to_data()
        data = stored.pop("data")
        state.write_reserved((*self._path, _SNAPSHOT), state.cells.put(stored))
        if before is None or snapshot.data is not before.data:
            state.write_reserved((*self._path, _DATA), state.cells.put(data))
        if logged is not None:
            state.extend_reserved((*self._path, _LOG), [state.cells.put(list(logged))])
        self.change_outbox(outbox)

    def change_outbox(self, changes: Mapping[str, PendingEffect | None]) -> None:
        """Stage effects to add to the outbox, to change, or to remove (None)."""
        state = self._state
        assert isinstance(state, Branch)
        for key, pending in changes.items():
            path = (*self._path, _OUTBOX, key)
            cell = None if pending is None else state.cells.put(pending.to_data())
            if cell is not None or state.cell_at(path) is not None:
                state.write_reserved(path, cell)

    def _read(self, part: str) -> Any:
        """Return one part of the machine as plain data; None if it is not there."""
        cell = self._state.cell_at((*self._path, part))
        return None if cell is None else self._state.cells.load(cell)


def machines_in(state: StateReader) -> dict[str, StoredMachine]:
    """Return the machines that are stored in a state, by name; no chart is needed."""
    cell = state.cell_at((LIFECYCLE,))
    keys = [] if cell is None else [key for key, _ in state.cells.entries(cell)]
    found: dict[str, StoredMachine] = {}
    for name in (str(state.cells.encoding.unkey(key)) for key in keys):
        storage = MachineStorage(state, name)
        snapshot = storage.snapshot()
        if snapshot is not None:
            found[name] = StoredMachine(snapshot, storage.log(), storage.outbox())
    return found
