"""The difference between two versions of a chart, in plain sentences.

States are identified by their ids. Transitions have none, so within a state they are paired by what
they have in common: first those that are equal, then those with the same events and guard, the same
events and targets, and the same events; what is left was added or removed. An empty list means that
both versions have the same hash and do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from otolith.statecharts.analysis.findings import text_of
from otolith.statecharts.definition import Definition, State, Transition

ChangeKind: TypeAlias = Literal[
    "chart",  # a property of the whole chart
    "state_added",  # a state is new
    "state_removed",  # a state is gone
    "state_moved",  # a state has another parent
    "state_changed",  # kind, initial state, history, invokes, data, output or order
    "transition_added",  # a transition is new
    "transition_removed",  # a transition is gone
    "transition_retargeted",  # a transition has other targets
    "transition_changed",  # its events, its delay, its type, or the order in its state
    "guard_changed",  # a transition has another guard
    "actions_changed",  # actions on entry, on exit or of a transition
]


@dataclass(frozen=True, slots=True)
class ChartChange:
    """One difference: its kind, the state it is in, and a sentence about it."""

    kind: ChangeKind
    state: str
    message: str


def diff(old: Definition, new: Definition) -> list[ChartChange]:
    """Return the changes from one definition to another, in document order of the new one."""
    before, after = _states_with_parents(old.root), _states_with_parents(new.root)
    before_ids = {old.root.id: new.root.id}  # the root has the chart's name, which may change
    changes = list(_chart(old, new))
    for id, (_, parent) in before.items():
        if before_ids.get(id, id) not in after:
            where = "" if parent in {"", old.root.id} else f" from {parent}"
            changes.append(ChartChange("state_removed", id, f"{id} was removed{where}"))
    for id, (state, parent) in after.items():
        is_root = state is new.root
        found = before.get(old.root.id if is_root else id)
        if found is None:
            where = "" if parent in {"", new.root.id} else f" in {parent}"
            changes.append(ChartChange("state_added", id, f"{id} was added{where}"))
            continue
        if not is_root and before_ids.get(found[1], found[1]) != parent:
            message = (
                f"{id} was moved from {_parent_name(found[1], old)} to {_parent_name(parent, new)}"
            )
            changes.append(ChartChange("state_moved", id, message))
        changes.extend(_state(found[0], state))
    return changes


def _parent_name(parent: str, definition: Definition) -> str:
    """Return the parent of a state as the message names it."""
    return "the top" if parent == definition.root.id else parent


def _states_with_parents(root: State) -> dict[str, tuple[State, str]]:
    """Return the states of a chart by id, each with the id of its parent."""
    found: dict[str, tuple[State, str]] = {}

    def visit(state: State, parent: str) -> None:
        found[state.id] = (state, parent)
        for child in state.children:
            visit(child, state.id)

    visit(root, "")
    return found


def _chart(old: Definition, new: Definition) -> Iterator[ChartChange]:
    """Yield changes of what holds for the whole chart."""
    for name, what in (
        ("name", "the name"),
        ("dialect", "the language of expressions"),
        ("matching", "how names of events are matched"),
        ("binding", "when data is set"),
        ("is_scxml", "whether it follows the rules of SCXML"),
        ("script", "the script at the start"),
    ):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            detail = "" if name == "script" else f" from {before!r} to {after!r}"
            yield ChartChange("chart", new.root.id, f"{what} was changed{detail}")


# ---------------------------------------------------------------- states


def _state(old: State, new: State) -> Iterator[ChartChange]:
    """Yield changes of one state and its transitions."""
    id = new.id
    if old.kind != new.kind:
        yield ChartChange("state_changed", id, f"{id} is {new.kind} now, and was {old.kind}")
    if _targets(old.initial) != _targets(new.initial):
        message = f"{id} begins in {_targets(new.initial)} now, not in {_targets(old.initial)}"
        yield ChartChange("state_changed", id, message)
    elif old.initial is not None and new.initial is not None:
        yield from _actions(
            id, "on its initial transition", old.initial.actions, new.initial.actions
        )
    if old.is_deep != new.is_deep:
        kind = "deep" if new.is_deep else "shallow"
        yield ChartChange("state_changed", id, f"the history {id} is {kind} now")
    yield from _actions(id, "on entry", old.entry, new.entry)
    yield from _actions(id, "on exit", old.exit, new.exit)
    for name, message in (("invokes", "invokes"), ("data", "declares"), ("output", "returns")):
        if getattr(old, name) != getattr(new, name):
            yield ChartChange("state_changed", id, f"what {id} {message} was changed")
    yield from _order_of_children(old, new)
    yield from _transitions(old, new)


def _order_of_children(old: State, new: State) -> Iterator[ChartChange]:
    """Report a new order of children: it decides which of two transitions wins."""
    before, after = [each.id for each in old.children], [each.id for each in new.children]
    shared = set(before) & set(after)
    if [id for id in before if id in shared] != [id for id in after if id in shared]:
        yield ChartChange("state_changed", new.id, f"the states in {new.id} are in another order")


def _targets(transition: Transition | None) -> str:
    """Return the targets of a transition in words."""
    return "nothing" if transition is None else ", ".join(transition.targets) or "itself"


def _actions(state: str, when: str, old: Any, new: Any) -> Iterator[ChartChange]:
    """Yield a change of actions."""
    if old != new:
        yield ChartChange("actions_changed", state, f"what {state} does {when} was changed")


# ---------------------------------------------------------------- transitions


_Match: TypeAlias = Callable[[Transition], Hashable]
_MATCHES: tuple[_Match, ...] = (
    lambda each: repr((each.events, each.delay, each.guard, each.targets, each.actions)),
    lambda each: repr((each.events, each.delay, each.guard, each.targets)),
    lambda each: repr((each.events, each.delay, each.guard)),
    lambda each: repr((each.events, each.delay, each.targets)),
    lambda each: repr((each.events, each.delay)),
    lambda each: repr(
        (each.guard, each.targets, each.actions, bool(each.delay), bool(each.events))
    ),
)


def _transitions(old: State, new: State) -> Iterator[ChartChange]:
    """Yield transitions that were removed, added or changed."""
    pairs = _paired(list(old.transitions), list(new.transitions))
    left = {id(before) for before, _ in pairs}
    for transition in old.transitions:
        if id(transition) not in left:
            message = f"{_named(new.id, transition)} was removed"
            yield ChartChange("transition_removed", new.id, message)
    partners = {id(after): before for before, after in pairs}
    for transition in new.transitions:
        before = partners.get(id(transition))
        if before is None:
            message = f"{_named(new.id, transition)} was added"
            yield ChartChange("transition_added", new.id, message)
        else:
            yield from _transition(new.id, before, transition)
    yield from _order(old, new, pairs)


def _paired(old: list[Transition], new: list[Transition]) -> list[tuple[Transition, Transition]]:
    """Return pairs of an old and a new transition, the closest matches first."""
    found: list[tuple[Transition, Transition]] = []
    for match in _MATCHES:
        waiting: dict[Hashable, list[Transition]] = {}
        for each in old:
            waiting.setdefault(match(each), []).append(each)
        for each in list(new):
            if partners := waiting.get(match(each)):
                partner = partners.pop(0)
                found.append((partner, each))
                old = [other for other in old if other is not partner]
                new = [other for other in new if other is not each]
    return found


def _transition(state: str, old: Transition, new: Transition) -> Iterator[ChartChange]:
    """Yield what changed between two transitions that are a pair."""
    name = _named(state, old)
    if (old.events, old.delay) != (new.events, new.delay):
        message = f"{name} happens {_when(new)} now"
        yield ChartChange("transition_changed", state, message)
    if old.targets != new.targets:
        message = f"{name} leads to {_targets(new)} now"
        yield ChartChange("transition_retargeted", state, message)
    if old.guard != new.guard:
        yield ChartChange("guard_changed", state, f"{name} {_guards(old, new)}")
    if old.actions != new.actions:
        yield ChartChange("actions_changed", state, f"what {name} does was changed")
    if old.is_internal != new.is_internal:
        message = "does not leave" if new.is_internal else "leaves and enters"
        yield ChartChange("transition_changed", state, f"{name} {message} {state} itself now")


def _guards(old: Transition, new: Transition) -> str:
    """Return a change of guards in words."""
    if new.guard is None:
        return f"has no guard any more; it was {text_of(old.guard)}"
    if old.guard is None:
        return f"has the guard {text_of(new.guard)} now"
    before, after = text_of(old.guard), text_of(new.guard)
    if before == after:
        return f"has the guard {after} with other params or in another language now"
    return f"has the guard {after} now, not {before}"


def _order(
    old: State, new: State, pairs: list[tuple[Transition, Transition]]
) -> Iterator[ChartChange]:
    """Report a new order of transitions: the first whose guard holds is the one taken."""
    places = {id(each): index for index, each in enumerate(old.transitions)}
    partners = {id(after): places[id(before)] for before, after in pairs}
    order = [partners[id(each)] for each in new.transitions if id(each) in partners]
    if order != sorted(order):
        message = f"the transitions of {new.id} are in another order"
        yield ChartChange("transition_changed", new.id, message)


def _when(transition: Transition) -> str:
    """Return what causes a transition, in words."""
    if transition.delay is not None:
        return f"after {text_of(transition.delay)}"
    return f"on {' or '.join(transition.events)}" if transition.events else "always"


def _named(state: str, transition: Transition) -> str:
    """Return a transition in words."""
    where = f" to {', '.join(transition.targets)}" if transition.targets else ""
    return f"{state} {_when(transition)}{where}"
