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
from otolith.errors import Corrupt
from otolith.statecharts.snapshot import Effect, Snapshot

SNAPSHOT, DATA, LOG, OUTBOX = "snapshot", "data", "log", "outbox"


class Recorded(NamedTuple):
    """One event of the past of a machine; without a name, time that went by."""

    event: str
    data: Any
    time: int


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
        """Return what `to_data` gave."""
        step, place = data["order"]
        effect = Effect.from_data(dict(data["effect"]))
        return cls(effect, (step, place), data["tries"], data["is_begun"], data["error"])


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
        if not isinstance(kept, dict):
            raise Corrupt(f"{'/'.join(map(str, self.path))} is no machine", hint="run otolith fsck")
        return Snapshot.from_data(kept | {"data": self._read(DATA) or {}})

    def log(self) -> list[Recorded]:
        """Return what happened, the oldest first."""
        return [Recorded(*each) for each in self._read(LOG) or ()]

    def outbox(self) -> dict[str, Waiting]:
        """Return the effects that wait, in the order in which they were asked for."""
        kept = self._read(OUTBOX) or {}
        waiting = {key: Waiting.from_data(each) for key, each in kept.items()}
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
