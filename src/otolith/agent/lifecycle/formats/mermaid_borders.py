"""Which boxes of a Mermaid diagram arrows cross, and to which of them no arrow may lead.

Mermaid (11 and 12) lays out a box that no arrow crosses by itself. An arrow to a box that some do
cross is laid out as one to the first state in it, and Mermaid fails if that state is in an inner
box that is laid out by itself: such a box is *fragile*. It also fails where a box is written after
a state that leads to it, so boxes are drawn first.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.lifecycle.definition import State, Transition


class Borders:
    """The boxes of a chart and the arrows across their borders, as they are drawn."""

    def __init__(self, states: dict[str, State], parents: dict[str, State | None]) -> None:
        self._states = states
        self._parents = parents
        self._crossed: set[str] = set()
        self._crossed_regions: set[str] = set()
        for state, way in self._ways():
            self._crossed |= self._crossed_by(state, way)
            self._crossed_regions |= self._regions_left_by(state, way)

    def boxes_with_entries(self) -> list[str]:
        """Return the fragile boxes that arrows lead to."""
        ends = {
            target
            for state, way in self._ways()
            for target in way.targets
            if target not in self.above(state.id)
        }
        return [id for id in self._states if id in ends and self.is_fragile(id)]

    def is_fragile(self, id: str) -> bool:
        """Whether Mermaid would fail on an arrow to or from a box."""
        if id not in self._crossed or not self._states[id].children:
            return False
        path = list(self._to_first(self._states[id]))
        return not all(path[:-1])

    def _to_first(self, state: State) -> Iterator[bool]:
        """Yield, for each box from one down to its first state, whether arrows cross it."""
        while state.children:
            is_parted = self.is_parted(state) and state.kind == "parallel"
            state = self.drawn(state)[0]
            if is_parted:
                yield state.id in self._crossed_regions
            if state.children:
                yield state.id in self._crossed

    def drawn(self, state: State) -> list[State]:
        """Return what is in a box in the order it is drawn: boxes first, or regions as they are."""
        if state.kind == "parallel":
            return sorted(state.children, key=lambda child: child.kind == "history")
        return sorted(state.children, key=lambda child: not child.children)

    def is_parted(self, state: State) -> bool:
        """Whether the regions of a parallel state are parted by lines."""
        return state.kind == "parallel" and not self.is_in_parallel(state)

    def is_in_parallel(self, state: State) -> bool:
        return any(self._states[id].kind == "parallel" for id in self.above(state.id))

    def above(self, id: str) -> list[str]:
        """Return the states around one, the nearest first."""
        found: list[str] = []
        parent = self._parents[id]
        while parent is not None:
            found.append(parent.id)
            parent = self._parents[parent.id]
        return found

    def _ways(self) -> Iterator[tuple[State, Transition]]:
        for state in self._states.values():
            for way in state.transitions:
                yield state, way
            if state.initial is not None:
                yield state, state.initial

    def _crossed_by(self, source: State, way: Transition) -> set[str]:
        here = set(self.above(source.id))
        ends = [set(self.above(target)) for target in way.targets]
        if way is source.initial and source.kind != "history":
            return {id for end in ends for id in end - here - {source.id}}
        if len(ends) > 1:  # a fork, which is drawn outside of all boxes
            is_inward = any(source.id in end for end in ends)
            return here.union(*ends, {source.id} if is_inward else ())
        if not ends:
            return set()
        if way.targets[0] in here:
            parent = self._parents[source.id]
            return set() if parent is not None and parent.kind == "compound" else here
        return (here ^ ends[0]) - {source.id}

    def _regions_left_by(self, source: State, way: Transition) -> set[str]:
        """Return the regions between which and the rest an arrow surely leads."""
        if way is source.initial or len(way.targets) != 1:
            return set()
        here = {source.id, *self.above(source.id)}
        there = {way.targets[0], *self.above(way.targets[0])}
        is_inside = way.targets[0] in here or source.id in there
        return set() if is_inside else here ^ there
