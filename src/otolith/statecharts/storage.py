"""A running chart as it is kept in a state.

    .lifecycle / <name> / snapshot    the snapshot, without its data
                          data        the data of the chart, written only when it changed
                          log         what happened to it: [event, data, time], the oldest first
                          outbox      effects that wait to be carried out, by their key

An empty event in the log says that time went by and timers came due. Two branches of a state that
both moved a chart merge it as one thing: see `merge.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from otolith.core import LIFECYCLE, Branch, Path, StateReader
from otolith.shapes import NOTHING, Shape, fields, items, mapping, several
from otolith.statecharts.snapshot import Effect, Snapshot

SNAPSHOT, DATA, LOG, OUTBOX = "snapshot", "data", "log", "outbox"


class Recorded(NamedTuple):
    """One event of the past of a machine; without a name, time that went by."""

    event: str
    data: Any
    time: int


_WAITING: Shape = {"effect": dict, "order": list, "tries": int, "is_begun": bool, "error": str}


class Waiting(NamedTuple):
    """An effect that is not carried out, or not known to be."""

    effect: Effect
    order: tuple[int, int]
    """The number of its step, and its place in it."""
    tries: int = 0
    is_begun: bool = False
    """Somebody began to carry it out, and it must not be done twice."""
    error: str = ""

    def to_data(self) -> dict[str, Any]:
        """Return what is kept of it."""
        kept = {"effect": self.effect.to_data(), "order": list(self.order), "tries": self.tries}
        return kept | {"is_begun": self.is_begun, "error": self.error}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Waiting:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is nothing of the kind.
        """
        found = fields(data, "an effect that waits", _WAITING, is_open=True)
        step, place = items(found["order"], "the order of an effect", int, int)
        effect = Effect.from_data(found["effect"])
        return cls(effect, (step, place), found["tries"], found["is_begun"], found["error"])


def snapshot_of(kept: object, data: object) -> Snapshot:
    """Return the snapshot that is kept in a state; its data is apart from it.

    Raises:
        Corrupt: it is none.
    """
    rest = mapping(kept, "the snapshot of a machine", object)
    return Snapshot.from_data(rest | {"data": {} if data is None else data})


def log_of(kept: object) -> list[Recorded]:
    """Return what happened to a machine, as it is kept.

    Raises:
        Corrupt: it is no such list.
    """
    rows = [] if kept is None else several(kept, "the log of a machine", list)
    shape = (str, object, (int, NOTHING))
    return [Recorded(*items(row, "an event of a machine", *shape)) for row in rows]


def outbox_of(kept: object) -> dict[str, Waiting]:
    """Return the effects that wait, as they are kept, by their keys.

    Raises:
        Corrupt: they are something else.
    """
    rows = {} if kept is None else mapping(kept, "the outbox of a machine", dict)
    return {key: Waiting.from_data(each) for key, each in rows.items()}


class Record:
    """The place of one machine in a state."""

    def __init__(self, state: StateReader, name: str) -> None:
        self._state = state
        self.path: Path = (LIFECYCLE, name)

    @property
    def cell(self) -> bytes | None:
        """All of it, as one cell; None if there is no such machine."""
        return self._state.cell_at(self.path)

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that is kept; None if there is none.

        Raises:
            Corrupt: what is kept is no snapshot.
        """
        kept = self._read(SNAPSHOT)
        if kept is None:
            return None
        return snapshot_of(kept, self._read(DATA))

    def log(self) -> list[Recorded]:
        """Return what happened, the oldest first."""
        return log_of(self._read(LOG))

    def outbox(self) -> dict[str, Waiting]:
        """Return the effects that wait, in the order in which they were asked for."""
        waiting = outbox_of(self._read(OUTBOX))
        return dict(sorted(waiting.items(), key=lambda pair: pair[1].order))

    def keep(
        self,
        snapshot: Snapshot,
        *,
        before: Snapshot | None,
        recorded: Recorded | None,
        outbox: Mapping[str, Waiting | None],
    ) -> None:
        """Stage a snapshot, an event, and effects to be added to the outbox or removed (None)."""
        state = self._state
        assert isinstance(state, Branch)
        put = state.cells.put
        kept = snapshot.to_data()
        data = kept.pop("data")
        state.write_reserved((*self.path, SNAPSHOT), put(kept))
        if before is None or snapshot.data is not before.data:
            state.write_reserved((*self.path, DATA), put(data))
        if recorded is not None:
            state.extend_reserved((*self.path, LOG), [put(list(recorded))])
        self.change_outbox(outbox)

    def change_outbox(self, changes: Mapping[str, Waiting | None]) -> None:
        """Stage effects to be added to the outbox, changed, or removed (None)."""
        state = self._state
        assert isinstance(state, Branch)
        for key, waiting in changes.items():
            cell = None if waiting is None else state.cells.put(waiting.to_data())
            if cell is not None or state.cell_at((*self.path, OUTBOX, key)) is not None:
                state.write_reserved((*self.path, OUTBOX, key), cell)

    def _read(self, part: str) -> Any:
        cell = self._state.cell_at((*self.path, part))
        return None if cell is None else self._state.cells.load(cell)


class Kept(NamedTuple):
    """What is known of a machine without its chart."""

    snapshot: Snapshot
    steps: int
    """How many events it has taken."""
    outbox: tuple[Waiting, ...]


def machines_in(state: StateReader) -> dict[str, Kept]:
    """Return the machines that are kept in a state, by name. No chart is needed for that."""
    found: dict[str, Kept] = {}
    cell = state.cell_at((LIFECYCLE,))
    for key in [] if cell is None else [key for key, _ in state.cells.entries(cell)]:
        name = str(state.cells.encoding.unkey(key))
        record = Record(state, name)
        snapshot = record.snapshot()
        if snapshot is not None:
            found[name] = Kept(snapshot, len(record.log()), tuple(record.outbox().values()))
    return found
