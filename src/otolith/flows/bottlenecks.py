"""Bottlenecks: what the end of a run hangs on, why, and how much earlier it would be without.

A timeline is what has happened and what is expected. Its end hangs on a chain of tasks, each of
which could begin when the one before it was done. Between the two it waited, and what for is told
by what was going on in the middle of that time: the run was paused, a person had not answered, a
rate was used up, all units of a resource were taken, or else there was no slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from otolith.flows.schedules import TASK_STEPS, Timeline, Work, simulate

ANSWER, PAUSE, SLOT = "waits for an answer", "paused", "waits for a slot"
_ROUNDING = 1e-9


class Bottleneck(NamedTuple):
    """A task that the end hangs on: why, for how long, and how much earlier all would end without.

    The cause is "runs", "retries", "paused", "waits for an answer", "waits for a slot", and with
    the name of a resource "waits for gpu" or "waits for the rate of api". Of a task that waits,
    `saves` is what one more slot or unit would save, or no rate; of a pause, all of it.
    """

    name: str
    cause: str
    seconds: float
    saves: float


class Halt(NamedTuple):
    """A time in which nothing could begin, or one task could not: why, from when, until when."""

    cause: str
    start: float
    end: float


class _Piece(NamedTuple):
    number: int
    cause: str
    start: float
    seconds: float


def bottlenecks(
    work: Work,
    timeline: Timeline | None = None,
    *,
    retried: Mapping[int, float] = {},
    halts: Mapping[int | None, Iterable[Halt]] = {},
    most: int = 10,
) -> list[Bottleneck]:
    """Return what the end of a timeline hangs on, what saves most first.

    The timeline is that of a run, of what is expected, or of both (`Timeline.since`); without one,
    that of `simulate`. `retried` are the seconds of a task that went into attempts which failed,
    `halts` when a task could not begin, and under None, when none could. Pieces of time make the
    whole as long as it is. The longest of these are looked into: what one saves is how much
    shorter a simulation becomes without it.
    """
    timeline = timeline or simulate(work)
    pieces = [each for each in _pieces(work, timeline, retried, halts) if each.seconds > 0]
    pieces.sort(key=lambda each: (-each.seconds, each.number))
    tries = min(most, max(3, TASK_STEPS // max(1, len(work.graph))))
    whole = simulate(work).makespan
    found = []
    for piece in pieces[:tries]:
        number, cause = piece.number, piece.cause
        if cause == SLOT:
            cause, without = _what_for(work, timeline, piece)
        elif cause in (PAUSE, ANSWER) and number not in work.outside:
            without = None
        else:
            shorter = [*work.seconds]
            shorter[number] = max(0.0, shorter[number] - piece.seconds)
            without = replace(work, seconds=shorter)
        saves = piece.seconds
        if without is not None:
            saves = max(0.0, whole - simulate(without, work.ranks).makespan)
        found.append(Bottleneck(work.graph.names[number], cause, piece.seconds, saves))
    return sorted(found, key=lambda each: (-each.saves, -each.seconds))


def _pieces(
    work: Work,
    timeline: Timeline,
    retried: Mapping[int, float],
    halts: Mapping[int | None, Iterable[Halt]],
) -> Iterator[_Piece]:
    """Yield the pieces of time that the end hangs on."""
    least = timeline.makespan * _ROUNDING
    for number in timeline.chain():
        start, end = timeline.starts[number], timeline.ends[number]
        ready = timeline.ready(number)
        failed = min(end - start, retried.get(number, 0.0))
        left = start - ready
        for halt in [*halts.get(number, ()), *halts.get(None, ())]:
            common = min(halt.end, start) - max(halt.start, ready)
            if common > least and left > 0:
                yield _Piece(number, halt.cause, halt.start, min(common, left))
                left -= min(common, left)
        yield _Piece(number, SLOT, ready, left if left > least else 0.0)
        yield _Piece(number, "retries", start, failed)
        runs = ANSWER if number in work.outside else "runs"
        yield _Piece(number, runs, start, end - start - failed)


def _what_for(work: Work, timeline: Timeline, piece: _Piece) -> tuple[str, Work]:
    """Return what a task waited for, and the work with more of it."""
    needs = work.limiting_needs(piece.number)
    middle = (piece.start + timeline.starts[piece.number]) / 2
    others = [each for each in range(len(work.graph)) if each != piece.number and work.needs]
    for name in needs:
        users = [each for each in others if name in work.needs[each]]
        count, unit = work.rates.get(name, (0, 0.0))
        begun = sum(middle - unit < timeline.starts[each] <= middle for each in users)
        if count and begun >= count:
            rates = {each: rate for each, rate in work.rates.items() if each != name}
            return f"waits for the rate of {name}", replace(work, rates=rates)
    for name, units in work.limited_needs(piece.number).items():
        users = [each for each in others if name in work.needs[each]]
        taken = sum(
            work.needs[each][name]
            for each in users
            if timeline.starts[each] <= middle < timeline.ends[each]
        )
        if taken + units > work.capacities[name]:
            capacities = {**work.capacities, name: work.capacities[name] + 1}
            return f"waits for {name}", replace(work, capacities=capacities)
    return SLOT, replace(work, slots=work.slots + 1)
