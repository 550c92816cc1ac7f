"""Slots: the places where XState's JSON keeps the transitions of a state.

XState keeps them by what they wait for: `on` by event, `onDone`, those of an invoke, `after` by
delay, `always`. That loses their order among each other, and splits one that waits for several
events: where either matters, the transition is given notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from otolith.agent.lifecycle.definition import Expression, Literal, State, Transition, Value
from otolith.agent.lifecycle.formats.own_forms import value_form

_ALIASES = {
    "done.invoke.": "xstate.done.actor.",
    "error.invoke.": "xstate.error.actor.",
    "done.state.": "xstate.done.state.",
}


class Slot(NamedTuple):
    """One place: which list, which invoke, and under which key."""

    list: str
    invoke: int
    key: str


class Slots:
    """Finds places for the transitions of one state of a chart."""

    def __init__(self, state: State, name: str) -> None:
        self._state = state
        self._name = name
        self._invokes = {invoke.id: at for at, invoke in enumerate(state.invokes) if invoke.id}

    def placed(self) -> Iterator[tuple[Transition, dict[str, Any], list[Slot]]]:
        """Yield each transition with its notes and its places."""
        ways = self._state.transitions
        places = [self._places(way) for way in ways]
        is_kept = all(len(slots) == 1 for slots in places) and self._is_in_order(places)
        for order, (way, slots) in enumerate(zip(ways, places, strict=True)):
            notes: dict[str, Any] = {} if is_kept else {"order": order}
            if self._is_losing_events(way, slots):
                notes["events"] = list(way.events)
            if way.delay is not None and _read_delay(slots[0].key) != way.delay:
                notes["delay"] = value_form(way.delay)
            yield way, notes, slots

    def put(
        self, slot: Slot, config: Any, found: dict[str, Any], invokes: list[dict[str, Any]]
    ) -> None:
        """Put a transition at a place, after those that are there."""
        around = invokes[slot.invoke] if slot.invoke >= 0 else found
        if slot.list in {"on", "after"}:
            around, name = around.setdefault(slot.list, {}), slot.key
        else:
            name = slot.list
        there = around.get(name)
        if there is None:
            around[name] = config
        else:
            around[name] = [*there, config] if isinstance(there, list) else [there, config]

    def _places(self, way: Transition) -> list[Slot]:
        if way.delay is not None:
            return [Slot("after", -1, _delay_key(way.delay))]
        return [self._place(event) for event in way.events] or [Slot("always", -1, "")]

    def _place(self, event: str) -> Slot:
        if event == f"done.state.{self._state.id}":
            return Slot("onDone", -1, "")
        for start, name in (("done.invoke.", "onDone"), ("error.invoke.", "onError")):
            at = self._invokes.get(event.removeprefix(start)) if event.startswith(start) else None
            if at is not None:
                return Slot(name, at, "")
        for ours, theirs in _ALIASES.items():
            if event.startswith(ours) and self._event(theirs + event.removeprefix(ours)) == event:
                return Slot("on", -1, theirs + event.removeprefix(ours))
        return Slot("on", -1, event)

    def _event(self, key: str) -> str:
        """Return the event that the reader takes a key of `on` for."""
        for ours, theirs in _ALIASES.items():
            if key.startswith(theirs):
                return ours + key.removeprefix(theirs).removeprefix(f"{self._name}.")
        return key

    def _is_losing_events(self, way: Transition, slots: list[Slot]) -> bool:
        if len(slots) > 1 or slots[0].list == "after":
            return bool(way.events)
        return slots[0].list == "on" and way.events != (self._event(slots[0].key),)

    def _is_in_order(self, places: list[list[Slot]]) -> bool:
        """Whether reading place after place gives the transitions as they were."""
        keys: dict[Slot, int] = {}
        for slots in places:
            keys.setdefault(slots[0], len(keys))
        read = sorted(
            range(len(places)), key=lambda at: (_rank(places[at][0]), keys[places[at][0]])
        )
        return read == list(range(len(places)))


def _rank(slot: Slot) -> tuple[int, int, int]:
    if slot.invoke >= 0:
        return 2, slot.invoke, int(slot.list == "onError")
    return {"on": 0, "onDone": 1, "after": 3, "always": 4}[slot.list], 0, 0


def _delay_key(delay: Value) -> str:
    return delay.text if isinstance(delay, Expression) else str(delay.value)


def _read_delay(key: str) -> Value:
    """Return the delay that the reader takes a key of `after` for."""
    if key.replace(".", "", 1).isdigit():
        return Literal(float(key) if "." in key else int(key))
    return Literal(key) if key[:1].isdigit() else Expression(key)
