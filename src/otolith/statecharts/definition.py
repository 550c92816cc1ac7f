"""The definition of a chart: what every format is read into, as plain frozen values.

Fields that do not change behaviour (descriptions, tags, meta, where it stood in the document) are
left out of comparison and of the chart's hash.

Two families disagree on defaults, so nothing is a default here: `Transition.is_internal` is always
said (SCXML: external; XState: internal), and `Definition.matching` says whether an event's name is
matched by its first words (SCXML) or as a whole (XState).

Validation: what must hold of a definition before it may run, each breach naming its place.

The hash of a chart: of what it does, whatever it looks like.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from typing import Literal as Word

from blake3 import blake3

from otolith.errors import BadChart

Kind: TypeAlias = Word["atomic", "compound", "parallel", "final", "history"]
Matching: TypeAlias = Word["prefix", "exact"]
Binding: TypeAlias = Word["early", "late"]


def _remark(default: Any) -> Any:
    """Return a field that says something about the chart and does not change what it does."""
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text of the expression language, and the dialect it is written in."""

    text: str
    dialect: str = "python"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the document as it is."""

    value: Any


Value: TypeAlias = Expression | Literal


@dataclass(frozen=True, slots=True)
class Param:
    """A named value handed along."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Payload:
    """What an event or a child chart is given: named values, or one value that is all of it."""

    params: tuple[Param, ...] = ()
    content: Value | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A guard that is a registered Python callable."""

    name: str
    params: tuple[Param, ...] = ()


Guard: TypeAlias = Expression | Named


@dataclass(frozen=True, slots=True)
class Assign:
    """Put a value at a place of the data."""

    location: str
    value: Value


@dataclass(frozen=True, slots=True)
class Script:
    """Assignments, written as a text."""

    text: str


@dataclass(frozen=True, slots=True)
class Raise:
    """Put an event on the internal queue."""

    event: str
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Send:
    """Send an event: to this chart, its parent, a child or somebody outside; perhaps later."""

    event: Value | None
    target: Value | None = None
    type: Value | None = None
    id: str | None = None
    id_location: str | None = None
    delay: Value | None = None
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget a delayed event that was not yet delivered."""

    id: Value


@dataclass(frozen=True, slots=True)
class Log:
    """Tell the host something, as an effect."""

    label: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Emit:
    """Tell listeners of the machine about an event, as an effect."""

    event: Value
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Branch:
    """One arm of an `If`; without a guard it is the last one."""

    guard: Guard | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Do the actions of the first arm whose guard holds."""

    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class ForEach:
    """Do the actions once for each item of a list."""

    array: Value
    item: str
    index: str | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A named action: a registered pure function, or else an effect for the host."""

    name: str
    params: tuple[Param, ...] = ()


Action: TypeAlias = Assign | Script | Raise | Send | Cancel | Log | Emit | If | ForEach | Call
Block: TypeAlias = tuple[Action, ...]
"""Actions that succeed or fail together: an error ends its block, and no other."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A way out of a state; without events it is taken as soon as its guard holds."""

    events: tuple[str, ...]
    targets: tuple[str, ...]
    is_internal: bool
    guard: Guard | None = None
    actions: Block = ()
    delay: Value | None = None
    """Taken this long after its state was entered; `events` is then empty."""
    description: str = _remark("")
    meta: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Invoke:
    """A child chart, or a service outside, that lives as long as its state is active."""

    id: str | None = None
    id_location: str | None = None
    source: Value | None = None
    """The name of a registered chart or of a service outside."""
    content: Value | Definition | None = None
    """The chart itself, or an expression whose value is one as SCXML text."""
    type: Value | None = None
    payload: Payload = Payload()
    finalize: Block | None = None
    is_forwarding: bool = False
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Datum:
    """A variable a state declares, and what it starts with."""

    name: str
    value: Value | None
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class State:
    """A state and everything below it."""

    id: str
    kind: Kind
    children: tuple[State, ...] = ()
    initial: Transition | None = None
    """Where a compound state begins, and where a history state leads when nothing is recorded."""
    is_deep: bool = False
    transitions: tuple[Transition, ...] = ()
    entry: tuple[Block, ...] = ()
    exit: tuple[Block, ...] = ()
    invokes: tuple[Invoke, ...] = ()
    data: tuple[Datum, ...] = ()
    output: Payload | None = None
    tags: tuple[str, ...] = _remark(())
    meta: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    description: str = _remark("")
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Definition:
    """A whole chart: its root state and the rules it is read by."""

    name: str
    root: State
    dialect: str = "python"
    matching: Matching = "exact"
    binding: Binding = "early"
    is_scxml: bool = False
    """Errors become events always, and only declared data can be assigned to."""
    script: Block = ()
    version: str = _remark("")
    description: str = _remark("")


DEEPEST = 100
LONGEST_NAME = 10_000


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
        if len(state.id) > LONGEST_NAME:
            why = f"an id has {len(state.id)} letters, at most {LONGEST_NAME}"
            raise BadChart(why, place=f"state {state.id[:40]}")
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
        if state.kind == "history":
            self._check_default(state.id, initial, place)

    def _check_default(self, id: str, initial: Transition, place: str) -> None:
        """A history state may lead to another one, but not in a circle."""
        seen, waiting = {id}, list(initial.targets)
        while waiting:
            target = self._states[waiting.pop()]
            if target.id in seen:
                raise BadChart(f"the default of {id!r} leads back to it", place=place)
            if target.kind == "history" and target.initial is not None:
                seen.add(target.id)
                waiting += [each for each in target.initial.targets if each in self._states]

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


def hash_of(definition: Definition) -> str:
    """Return 32 hex digits that change when, and only when, behaviour may have changed."""
    text = json.dumps(_plain(definition), sort_keys=True, separators=(",", ":"))
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.compare]
        found = {field.name: _plain(getattr(value, field.name)) for field in fields}
        return {"": type(value).__name__, **found}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
