"""Large charts: regions of wings, of rooms, of corners, all of two hundred states at full size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.lifecycle.charts import Drawing, Place
from bench.words import Words

ROOMS, CORNERS = 2, 2  # a wing has seven states: itself, its rooms and their corners
WAIT_MS = 60_000
EVENTS = ("step", "step", "skip", "step", "step", "step", "skip", "back", "step")


def large(regions: int) -> Drawing:
    """Return a chart of fifty states a region, not counting what remembers them.

    `step` goes to the next corner, as does a minute of waiting; `skip` and `back` go to the wing
    beside, as it was when it was left.
    """
    made = (
        _Region(f"r{number}", wings=7, is_remembering=True).place() for number in range(regions)
    )
    return Drawing("large", Place("large", tuple(made), is_parallel=True), EVENTS)


def wide(wings: int) -> Drawing:
    """Return a chart of two regions that take events of their own; fourteen wings are 200 states.

    It remembers nothing and waits for nothing, so its configurations are pairs of corners.
    """
    made = (_Region(f"r{number}", wings=wings, suffix=str(number)).place() for number in range(2))
    work = Place("work", tuple(made), {"finish": "over"}, is_parallel=True)
    return Drawing("wide", Place("wide", (work, Place("over"))), ())


def data() -> dict[str, Any]:
    """Return some three thousand bytes that a run may have gathered."""
    words = Words(7)
    return {
        "goal": words.text(120),
        "tokens": 81_920,
        "plan": [words.text(60) for _ in range(8)],
        "messages": [{"role": "tool", "text": words.text(150), "n": n} for n in range(10)],
        "scores": {f"tool {n}": n / 7 for n in range(20)},
        "is_urgent": False,
        "parent": None,
    }


@dataclass(frozen=True)
class _Region:
    name: str
    wings: int
    suffix: str = ""
    """What the names of its events end with."""
    is_remembering: bool = False
    """Wings and rooms have a history, and corners a timer."""

    def place(self) -> Place:
        return Place(self.name, tuple(self._wing(number) for number in range(self.wings)))

    def _wing(self, number: int) -> Place:
        name = self._wing_name(number)
        rooms = tuple(self._room(number, room) for room in range(ROOMS))
        end = "h" if self.is_remembering else ""
        on = {
            f"skip{self.suffix}": f"{self._wing_name(number + 1)}{end}",
            f"back{self.suffix}": f"{self._wing_name(number - 1)}{end}",
        }
        return Place(name, (*rooms, *self._history(name, "deep")), on)

    def _room(self, wing: int, number: int) -> Place:
        name = f"{self._wing_name(wing)}m{number}"
        first = (wing * ROOMS + number) * CORNERS
        corners = (self._corner(first + corner) for corner in range(CORNERS))
        return Place(name, (*corners, *self._history(name, "shallow")))

    def _corner(self, number: int) -> Place:
        following = self._corner_name(number + 1)
        after = {WAIT_MS: following} if self.is_remembering else {}
        return Place(self._corner_name(number), on={f"step{self.suffix}": following}, after=after)

    def _history(self, name: str, kind: str) -> tuple[Place, ...]:
        return (Place(f"{name}h", history=kind),) if self.is_remembering else ()

    def _wing_name(self, number: int) -> str:
        return f"{self.name}w{number % self.wings}"

    def _corner_name(self, number: int) -> str:
        return f"{self.name}c{number % (self.wings * ROOMS * CORNERS)}"
