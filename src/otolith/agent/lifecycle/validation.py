"""Validation: what must hold of a definition before it may run, each breach naming its place."""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.lifecycle.definition import Definition, State, Transition
from otolith.errors import BadChart

DEEPEST = 100


def validate(definition: Definition) -> None:
    """Refuse a definition that could not run.

    Raises:
        BadChart: an id is there twice, a target is unknown, an initial state is not inside, a
            history state has no default, a final state has children, or the like.
    """
    _Validation(definition).run()


class _Validation:
    def __init__(self, definition: Definition) -> None:
        self._root = definition.root
        self._states: dict[str, State] = {}
        self._above: dict[str, tuple[str, ...]] = {}

    def run(self) -> None:
        for state, above in _walk(self._root, ()):
            self._add(state, above)
        if not self._root.children:
            raise BadChart("there are no states", place=_place(self._root))
        for state in self._states.values():
            self._check_kind(state)
            if state.initial is not None:
                self._check_initial(state, state.initial)
            for transition in state.transitions:
                self._check_targets(transition, state)

    def _add(self, state: State, above: tuple[str, ...]) -> None:
        if not state.id:
            raise BadChart("a state without an id", place=_place(state))
        if state.id in self._states:
            first = _place(self._states[state.id])
            raise BadChart(f"the id {state.id!r} is taken by {first}", place=_place(state))
        if len(above) > DEEPEST:
            raise BadChart(f"states are nested more than {DEEPEST} deep", place=_place(state))
        self._states[state.id] = state
        self._above[state.id] = above

    def _check_kind(self, state: State) -> None:
        place = _place(state)
        if state.kind == "final" and (state.children or state.transitions or state.invokes):
            raise BadChart("a final state has neither children nor ways out", place=place)
        if state.kind == "history" and state.initial is None:
            raise BadChart("a history state needs a default to lead to", place=place)
        if state.kind == "compound" and state.initial is None:
            raise BadChart("a state with children needs to say where it begins", place=place)
        if state.kind == "parallel" and not state.children:
            raise BadChart("a parallel state without regions", place=place)

    def _check_initial(self, state: State, initial: Transition) -> None:
        """The way in leads inside: of a history state, inside its parent."""
        place = initial.place or _place(state)
        if initial.events or initial.guard is not None:
            raise BadChart("the way in has neither event nor guard", place=place)
        if not initial.targets:
            raise BadChart("the way in leads nowhere", place=place)
        self._check_targets(initial, state)
        around = self._above[state.id][-1] if state.kind == "history" else state.id
        for target in initial.targets:
            if around not in self._above[target]:
                raise BadChart(f"{target!r} is not inside {around!r}", place=place)

    def _check_targets(self, transition: Transition, state: State) -> None:
        place = transition.place or _place(state)
        for target in transition.targets:
            if target not in self._states:
                raise BadChart(
                    f"there is no state {target!r}", place=place, hint=self._nearest(target)
                )
        for index, left in enumerate(transition.targets):
            for right in transition.targets[index + 1 :]:
                self._check_together(left, right, place)

    def _check_together(self, left: str, right: str, place: str) -> None:
        """Two targets of one transition must be able to be active at once."""
        first, second = (*self._above[left], left), (*self._above[right], right)
        shared = [a for a, b in zip(first, second, strict=False) if a == b]
        if self._states[shared[-1]].kind != "parallel" or shared[-1] in {left, right}:
            raise BadChart(f"{left!r} and {right!r} cannot be active at once", place=place)

    def _nearest(self, target: str) -> str:
        known = [name for name in self._states if name != self._root.id]
        return f"states are {', '.join(known[:12])}{' ...' if len(known) > 12 else ''}"


def _walk(state: State, above: tuple[str, ...]) -> Iterator[tuple[State, tuple[str, ...]]]:
    yield state, above
    for child in state.children:
        yield from _walk(child, (*above, state.id))


def _place(state: State) -> str:
    return state.place or f"state {state.id}"
