"""Forecast: what a run still takes, what its end hangs on, and what would change that.

All of it is from durations: a task that is done took what it took; another is expected to take what
tasks with its function took on average, or what all took, or a second if nothing is known. What
failed or was cancelled counts as if it were done again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from otolith.errors import Invalid
from otolith.flows.board import Board
from otolith.flows.bottlenecks import ANSWER, PAUSE, Bottleneck, Halt, bottlenecks
from otolith.flows.lifecycle import HELD, SETTLED
from otolith.flows.pictures import (
    FlowPicture,
    TaskTimes,
    gantt_svg,
    graph_svg,
    mermaid,
    report_html,
)
from otolith.flows.rate_limits import rates_in_seconds
from otolith.flows.schedules import (
    Estimate,
    WhatIf,
    Work,
    eta,
    simulate,
    what_if,
)

_UNKNOWN_SPREAD = 0.5


class Forecast:
    """What is known of the time of a run, at one moment, on a number of slots."""

    def __init__(self, board: Board, *, now: int, slots: int) -> None:
        assert board.head is not None
        self._board = board
        self._created = board.head.created
        self._now = max(now, self._created)
        self._slots = slots

    @cached_property
    def seconds(self) -> list[float]:
        """How long each task took, or is expected to take."""
        return [self._board.expected_seconds(each) for each in range(len(self._board.specs))]

    @property
    def critical_path(self) -> dict[str, float]:
        """The longest chain of tasks, from the first to the last, with the seconds of each."""
        graph = self._board.graph
        path = graph.schedule(self.seconds).critical_path
        return {name: self.seconds[graph.number[name]] for name in path}

    @cached_property
    def work(self) -> Work:
        """What is left to do."""
        board = self._board
        assert board.head is not None
        pairs = list(enumerate(board.records))
        capacities = {name: 1 for spec in board.specs for name in spec.needs}
        return Work(
            board.graph,
            self.seconds,
            self._slots,
            needs=[spec.needs for spec in board.specs],
            capacities={**capacities, **board.head.resources},
            rates=rates_in_seconds(board.head.rates),
            settled={number for number, record in pairs if record.status in SETTLED},
            begun={
                number: max(0.0, (self._now - record.began) / 1_000_000)
                for number, record in pairs
                if record.status in HELD and record.began
            },
            outside={number for number, spec in enumerate(board.specs) if not spec.call},
        )

    @property
    def path_left(self) -> list[str]:
        """The longest chain of tasks of what is left."""
        graph, settled = self._board.graph, self.work.settled
        path = graph.schedule(self.work.left).critical_path
        return [name for name in path if graph.number[name] not in settled]

    def eta(self) -> Estimate:
        """Return how many seconds are left: probably, at least and at most."""
        board = self._board
        known = (board.times.get(spec.call, board.all_times) for spec in board.specs)
        deviations = [
            (each if each.number > 1 else board.all_times).deviation or second * _UNKNOWN_SPREAD
            for each, second in zip(known, self.seconds, strict=True)
        ]
        return eta(self.work, deviations)

    def what_if(self, factors: Mapping[str, float]) -> WhatIf:
        """Return how long the rest takes if tasks, or functions, took a factor of their time.

        Of a run that is done, it is how long the whole would take, on the same slots.
        """
        is_done = len(self.work.settled) == len(self.seconds)
        work = replace(self.work, settled=frozenset()) if is_done else self.work
        return what_if(work, factors, [spec.call for spec in self._board.specs])

    def bottlenecks(self, most: int) -> list[Bottleneck]:
        """Return what made the run as long as it is, and will make it so, what saves most first."""
        happened, retried = {}, {}
        for number, record in enumerate(self._board.records):
            if record.status in SETTLED and record.ended:
                end = self._since(record.ended)
                spent = (record.ran + record.retried) / 1_000_000 if record.began else 0.0
                begin = self._since(record.asked) if number in self.work.outside else end - spent
                happened[number] = (max(0.0, begin), end)
            if record.retried:
                retried[number] = record.retried / 1_000_000
        seconds = [each + retried.get(number, 0.0) for number, each in enumerate(self.seconds)]
        for number in {*self.work.settled} & {*self.work.outside}:
            begin, end = happened.get(number, (0.0, 0.0))
            seconds[number] = end - begin
        whole = replace(self.work, seconds=seconds, settled=frozenset(), begun={})
        timeline = simulate(self.work).since(self._since(self._now), happened)
        return bottlenecks(whole, timeline, retried=retried, halts=self._halts(), most=most)

    def _since(self, time: int) -> float:
        """Return how many seconds after the begin of the run a time is."""
        return (time - self._created) / 1_000_000

    def _halts(self) -> dict[int | None, list[Halt]]:
        """Return when nothing could begin, and when tasks waited for a person."""
        head = self._board.head
        assert head is not None
        pauses = [*head.pauses, *([(head.since, self._now)] if head.since else [])]
        found: dict[int | None, list[Halt]] = {
            None: [Halt(PAUSE, self._since(one), self._since(two)) for one, two in pauses]
        }
        for number, record in enumerate(self._board.records):
            if record.asked and number not in self.work.outside:
                until = self._now if record.status == "waiting" else record.answered
                found[number] = [Halt(ANSWER, self._since(record.asked), self._since(until))]
        return found

    def picture(self, title: str) -> FlowPicture:
        """Return the run as something to draw."""
        board = self._board
        times = {
            number: TaskTimes(
                ready=(record.began - record.waited - self._created) / 1_000_000,
                began=(record.began - self._created) / 1_000_000,
                ended=(max(record.ended, record.began) - self._created) / 1_000_000,
                retried=record.retried / 1_000_000,
                worker=record.worker,
            )
            for number, record in enumerate(board.records)
            if record.began
        }
        return FlowPicture(
            board.graph,
            statuses=[each.status for each in board.records],
            seconds=self.seconds,
            functions=[spec.call for spec in board.specs],
            times=times,
            now=(self._now - self._created) / 1_000_000,
            title=title,
        )


def write_picture(path: Path, picture: FlowPicture, forecast: Forecast) -> Path:
    """Write a picture to a file; its ending says of which kind.

    Raises:
        Invalid: it has another ending.
    """
    name = path.name
    if name.endswith(".gantt.svg"):
        text = gantt_svg(picture)
    elif name.endswith(".svg"):
        text = graph_svg(picture)
    elif name.endswith(".mmd"):
        text = mermaid(picture)
    elif name.endswith(".html"):
        found = forecast.bottlenecks(10)
        text = report_html(picture, estimate=forecast.eta(), bottlenecks=found)
    else:
        raise Invalid(
            f"{name} does not say what to draw", hint="end it with .html, .svg, .gantt.svg or .mmd"
        )
    path.write_text(text, encoding="utf-8")
    return path
