"""One row per comparison: what was done, what it cost us and a peer, and what it may cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.timing import Samples, quiet_ratio, ratio

Format = Callable[[float], str]


def seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} us"


def size(value: float) -> str:
    if value >= 10 << 20:
        return f"{value / (1 << 20):.1f} MB"
    return f"{value / 1024:.1f} KB" if value >= 10 << 10 else f"{value:.0f} B"


def times(value: float) -> str:
    return f"{value:.0f}x" if value >= 100 else f"{value:.2f}x"


def count(value: float) -> str:
    return f"{value:,.0f}"


UNITS: dict[str, Format] = {
    "s": seconds,
    "B": size,
    "MB": lambda value: f"{value:.1f} MB" if value >= 10 else f"{value:.3f} MB",  # of 10^6 bytes
    "x": times,
    "x4": lambda value: f"{value:.4f}x",
    "": count,
    "%": lambda value: f"{value:.2f} %",
    "/s": lambda value: f"{value:,.0f}/s",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its unit, and where known the tenth and ninetieth percentile."""

    value: float
    unit: str
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        show = UNITS[self.unit]
        if self.low is None or self.high is None:
            return show(self.value)
        return f"{show(self.value)} ({show(self.low)}..{show(self.high)})"


@dataclass(frozen=True, slots=True)
class Absent:
    """Why there is no figure."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on our figure, or on the ratio of ours to the peer's."""

    limit: float
    unit: str
    of: str = "ours"
    at_least: bool = False

    def allows(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {UNITS[self.unit](self.limit)}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    work: str
    ours: Figure | Absent
    peer: str = ""
    theirs: Figure | Absent | None = None
    ratio: float | None = None
    budget: Budget | None = None
    quiet: float | None = None  # the ratio of the quickest tenths
    note: str = ""  # what one must know to read it; the same note is shown once

    @property
    def verdict(self) -> str:
        """Tell whether the budget is kept; a ratio must say the same on a quiet disk."""
        if self.budget is None:
            return ""
        if isinstance(self.ours, Absent):
            return "not run"
        value = self.ratio if self.budget.of == "ratio" else self.ours.value
        if value is None:
            return "no peer"
        kept = {self.budget.allows(each) for each in (value, self.quiet) if each is not None}
        return "UNSURE" if len(kept) > 1 else "ok" if kept == {True} else "MISSED"

    def cells(self, notes: Sequence[str] = ()) -> tuple[str, ...]:
        work = f"{self.work} [{notes.index(self.note) + 1}]" if self.note in notes else self.work
        ratio = times(self.ratio) if self.ratio is not None else ""
        ratio += f" (p10 {times(self.quiet)})" if self.quiet is not None else ""
        budget = str(self.budget) if self.budget is not None else ""
        theirs = str(self.theirs) if self.theirs is not None else ""
        return (work, str(self.ours), self.peer, theirs, ratio, budget, self.verdict)


HEADS = ("work", "otolith", "beside", "figure", "ratio", "budget", "met")


def time_of(samples: Samples) -> Figure:
    """Return the median and spread of samples."""
    return Figure(samples.p50, "s", samples.at(0.1), samples.at(0.9))


def compared(
    name: str,
    work: str,
    ours: Samples,
    peer: str,
    theirs: Samples,
    *,
    budget: Budget | None = None,
    note: str = "",
) -> Row:
    """Return a row of two things that were timed in turn."""
    figures = time_of(ours), time_of(theirs)
    between = ratio(ours, theirs), quiet_ratio(ours, theirs)
    return Row(name, work, figures[0], peer, figures[1], between[0], budget, between[1], note)


def against(
    name: str, work: str, ours: Figure, peer: str, theirs: Figure | Absent, *, note: str = ""
) -> Row:
    """Return a row for information, with the plain ratio of two figures."""
    between = None
    if isinstance(theirs, Figure) and theirs.value:
        between = ours.value / theirs.value
    return Row(name, work, ours, peer, theirs, between, note=note)


def text(rows: Sequence[Row]) -> str:
    """Return the table for a terminal."""
    notes = _notes(rows)
    lines = [HEADS, *(row.cells(notes) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    drawn = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    rule = "  ".join("-" * width for width in widths)
    drawn = [line.rstrip() for line in (drawn[0], rule, *drawn[1:])]
    return "\n".join([*drawn, *(f"[{at}] {note}" for at, note in enumerate(notes, 1))])


def markdown(rows: Sequence[Row]) -> str:
    """Return the table for a document."""
    notes = _notes(rows)
    lines = [HEADS, ("---",) * len(HEADS), *(row.cells(notes) for row in rows)]
    drawn = [f"| {' | '.join(line)} |" for line in lines]
    below = ["", *(f"{at}. {note}" for at, note in enumerate(notes, 1))] if notes else []
    return "\n".join([*drawn, *below])


def _notes(rows: Iterable[Row]) -> list[str]:
    """Return all notes, each once, in the order of the rows that need them."""
    return list(dict.fromkeys(row.note for row in rows if row.note))


def as_json(rows: Iterable[Row], about: dict[str, Any]) -> str:
    """Return everything for a program."""
    listed = [asdict(row) | {"verdict": row.verdict} for row in rows]
    return json.dumps({"about": about, "rows": listed}, indent=1)
