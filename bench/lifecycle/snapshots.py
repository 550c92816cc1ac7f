"""A running chart as text and back: ours as JSON, and what others have for it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import Protocol

from bench.ground import Ground, tell
from bench.lifecycle.charts import Drawing
from bench.lifecycle.engines import tried
from bench.lifecycle.large import EVENTS, data, large
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Samples, alternate
from otolith.statecharts import Chart, ChartSnapshot

LIMIT = Budget(0.001, "s")
LATER_US = 1_000_000
NOTE = (
    "Active states, what history remembers, timers that wait, and some 3 KB of data, to text and"
    " back into something that runs. sismic: pickle, with the chart in it; xstate-statemachine:"
    " its JSON, for a machine that is there."
)


class Kept(Protocol):
    """A chart in the middle of its run."""

    def there_and_back(self) -> object:
        """Make a text of it, and of the text what can run on."""

    def size(self) -> int:
        """Return the bytes of the text."""

    def places(self) -> set[str]:
        """Return where it is after one more event, having been made of its text."""


class Ours:
    def __init__(self, drawing: Drawing) -> None:
        self.chart = Chart.from_data(drawing.xstate(data=data()))
        self.snapshot = self.chart.start().snapshot
        for number, event in enumerate(EVENTS, 1):
            self.snapshot = self.chart.step(self.snapshot, event, now=number * LATER_US).snapshot
        if not (self.snapshot.history and self.snapshot.timers and self.snapshot.data):
            raise RuntimeError("the run is not in the middle")
        if self.there_and_back() != self.snapshot:
            raise RuntimeError("the snapshot did not come back")

    def text(self) -> str:
        return json.dumps(self.snapshot.to_data())

    def there_and_back(self) -> ChartSnapshot:
        return ChartSnapshot.from_data(json.loads(self.text()))

    def size(self) -> int:
        return len(self.text().encode())

    def places(self) -> set[str]:
        after = self.chart.step(self.there_and_back(), "back").snapshot
        return {name.rpartition(".")[2] for name in after.configuration}


class OfSismic:
    def __init__(self, drawing: Drawing) -> None:
        from bench.lifecycle.engines.sismic import Sismic

        self.engine = Sismic(drawing, data=data())
        for event in EVENTS:
            self.engine.run([event])()

    def there_and_back(self) -> object:
        return pickle.loads(pickle.dumps(self.engine.interpreter))

    def size(self) -> int:
        return len(pickle.dumps(self.engine.interpreter))

    def places(self) -> set[str]:
        self.engine.interpreter = self.there_and_back()
        self.engine.run(["back"])()
        return self.engine.places()


class OfXState:
    def __init__(self, drawing: Drawing) -> None:
        from bench.lifecycle.engines.xstate import XState

        self.engine = XState(drawing, data=data())
        self.engine.run(EVENTS)()

    def there_and_back(self) -> object:
        running = self.engine.interpreter
        kind, text = type(running), running.get_snapshot()
        return kind.from_snapshot(text, running.machine, restart_timers="resume")

    def size(self) -> int:
        return len(self.engine.interpreter.get_snapshot().encode())

    def places(self) -> set[str]:
        self.engine.interpreter = self.there_and_back()
        self.engine.run(["back"])()
        return self.engine.places()


PEERS: dict[str, Callable[[Drawing], Kept]] = {
    "sismic": OfSismic,
    "xstate-statemachine": OfXState,
}


def rows(ground: Ground) -> Iterator[Row]:
    drawing = large(ground.sizes.large_regions)
    states = sum(not place.history for place in drawing.places)
    tell(f"snapshots of {states} states")
    ours = Ours(drawing)
    peers = {name: tried(name, _made, make, drawing, ours.places()) for name, make in PEERS.items()}
    there = {name: kept for name, kept in peers.items() if not isinstance(kept, Absent)}
    steps = {"": ours.there_and_back} | {n: kept.there_and_back for n, kept in there.items()}
    took = alternate(steps, blocks=10, times=max(1, ground.sizes.chart_snapshots // 10))
    work = f"{states} states in mid-run: to text and back"
    yield Row("snapshot", work, time_of(took[""]), budget=LIMIT, note=NOTE)
    yield from _beside(work, peers, took)
    size = Figure(ours.size(), "B")
    for name, kept in peers.items():
        theirs = kept if isinstance(kept, Absent) else Figure(kept.size(), "B")
        said = f"{states} states in mid-run: size of the text"
        yield against(f"snapshot-size-{name}", said, size, name, theirs, note=NOTE)


def _beside(work: str, peers: dict[str, Kept | Absent], took: dict[str, Samples]) -> Iterator[Row]:
    mine = took[""]
    for name, kept in peers.items():
        row = f"snapshot-{name}"
        if isinstance(kept, Absent):
            yield Row(row, work, time_of(mine), name, kept, note=NOTE)
        else:
            yield compared(row, work, mine, name, took[name], note=NOTE)


def _made(make: Callable[[Drawing], Kept], drawing: Drawing, places: set[str]) -> Kept:
    """Run a peer to where we are, and see that it goes on from its text as we do."""
    kept = make(drawing)
    if (found := make(drawing).places()) != places:
        raise RuntimeError(f"went on to {sorted(found)}, not {sorted(places)}")
    return kept
