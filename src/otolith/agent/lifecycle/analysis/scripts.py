"""Scripts: what is done to a chart from outside, item by item, as a person writes it down.

An item is the name of an event, a pair of a name and its data, or `("after", seconds)` to let
virtual time pass. An event that is really called `after` is written as an `Event`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from otolith.agent.lifecycle.snapshot import Event
from otolith.errors import BadValue

Item: TypeAlias = str | tuple[str, Any] | Event
SECOND = 1_000_000
AFTER = "after"


class Cue(NamedTuple):
    """An item that was read: an event or none, and how long to wait, or until when, before it."""

    event: Event | None
    wait: int = 0
    at: int | None = None

    @property
    def item(self) -> Item:
        """The cue as it is written in a script; `at` is not part of it."""
        if self.event is None:
            return (AFTER, seconds_of(self.wait))
        return written(self.event)


def cue_of(item: Item) -> Cue:
    """Return what an item of a script means.

    Raises:
        BadValue: it is neither the name of an event, nor a pair, nor a time to wait.
    """
    if isinstance(item, str):
        return Cue(Event(item))
    if isinstance(item, Event):
        return Cue(item)
    parts: Any = item
    if not isinstance(parts, tuple | list) or len(parts) != 2 or not isinstance(parts[0], str):
        raise BadValue(
            f"{item!r} is not an item of a script",
            hint="write a name, a pair of a name and data, or ('after', seconds)",
        )
    name, data = parts
    if name != AFTER:
        return Cue(Event(name, data))
    if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data < 1e12:
        raise BadValue(f"{data!r} is not a number of seconds", hint="write ('after', 2.5)")
    return Cue(None, round(data * SECOND))


def cues_of(items: Iterable[Item]) -> tuple[Cue, ...]:
    return tuple(cue_of(item) for item in items)


def written(event: Event) -> Item:
    """Return an event as the item that `cue_of` reads it from."""
    if event.name == AFTER:
        return event
    return event.name if event.data is None else (event.name, event.data)


def seconds_of(microseconds: int) -> float:
    """Return a time in seconds, as a whole number where it is one."""
    return microseconds // SECOND if microseconds % SECOND == 0 else microseconds / SECOND


def told(item: Item) -> str:
    """Return an item in words."""
    cue = cue_of(item)
    if cue.event is None:
        return f"{seconds_of(cue.wait)} s pass"
    return cue.event.name
