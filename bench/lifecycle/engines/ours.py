"""Ours: pure steps from one snapshot to the next, none of which changes."""

from __future__ import annotations

from collections.abc import Sequence

from bench.lifecycle.charts import Drawing
from bench.lifecycle.engines import Run
from otolith.statecharts import Chart


def make(drawing: Drawing) -> Ours:
    return Ours(drawing)


def chart_of(drawing: Drawing) -> Chart:
    """Return a drawing as our chart, with the guard and the action that it may name."""
    chart = Chart.from_data(drawing.xstate())
    chart.guard("may")(lambda data, _: data["count"] < data["limit"])
    chart.action("add")(lambda data, _: {"count": data["count"] + 1})
    return chart


class Ours:
    def __init__(self, drawing: Drawing) -> None:
        self.chart = chart_of(drawing)
        self.snapshot = self.chart.start().snapshot

    def run(self, events: Sequence[str]) -> Run:
        step = self.chart.step

        def run() -> None:
            snapshot = self.snapshot
            for now, event in enumerate(events, snapshot.time):
                snapshot, _, _ = step(snapshot, event, now=now)
            self.snapshot = snapshot

        return run

    def places(self) -> set[str]:
        return {name.rpartition(".")[2] for name in self.snapshot.configuration}

    def count(self) -> int:
        counted: int = self.snapshot.data.get("count", 0)
        return counted
