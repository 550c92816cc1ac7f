"""The definition of a chart: frozen values that every document format is read into.

Two families of formats disagree on defaults, so a definition has none of them implied:
`Transition.is_internal` is always set (SCXML: external; XState: internal), and
`Definition.matching` says whether an event descriptor matches the first words of a name (SCXML) or
the whole name (XState).

Fields that do not change behaviour (descriptions, tags, meta, the place in the document) take no
part in comparison or in the hash. `validate` checks what must hold before a chart can run.

The hash of a chart is stored in every snapshot, and it covers the names of these classes and
fields: a class that is renamed keeps its old name in `_HASHED_NAMES`, a field is never renamed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias
from typing import Literal as Word

from blake3 import blake3

from otolith.errors import BadChart
from otolith.types import short_repr

Kind: TypeAlias = Word["atomic", "compound", "parallel", "final", "history"]
Matching: TypeAlias = Word["prefix", "exact"]
Binding: TypeAlias = Word["early", "late"]


def _remark(default: Any) -> Any:
    """Return a field that describes the chart and takes no part in comparison or hash."""
    return field(default=default, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression, and the dialect that it is written in: `python` or `ecmascript`."""

    text: str
    dialect: str = "python"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of the document."""

    value: Any


Value: TypeAlias = Expression | Literal


@dataclass(frozen=True, slots=True)
class Param:
    """A named argument."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Payload:
    """The data of an event or the input of a child chart: named values, or one value."""

    params: tuple[Param, ...] = ()
    content: Value | None = None


@dataclass(frozen=True, slots=True)
class NamedGuard:
    """A guard that calls a registered Python function."""

    name: str
    params: tuple[Param, ...] = ()


Guard: TypeAlias = Expression | NamedGuard


@dataclass(frozen=True, slots=True)
class Assign:
    """Assign a value to a location of the data."""

    location: str
    value: Value


@dataclass(frozen=True, slots=True)
class Script:
    """Assignments, as the text of a script."""

    text: str


@dataclass(frozen=True, slots=True)
class Raise:
    """Put an event on the internal queue."""

    event: str
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Send:
    """Send an event to this chart, its parent, a child or the host, perhaps after a delay."""

    event: Value | None
    target: Value | None = None
    type: Value | None = None
    id: str | None = None
    id_location: str | None = None
    delay: Value | None = None
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a delayed event that is not delivered yet."""

    id: Value


@dataclass(frozen=True, slots=True)
class Log:
    """Log a value, as an effect for the host."""

    label: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Emit:
    """Emit an event for listeners of the machine, as an effect."""

    event: Value
    payload: Payload = Payload()


@dataclass(frozen=True, slots=True)
class IfBranch:
    """One branch of an `If`; the one without a guard is the `else`."""

    guard: Guard | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Run the actions of the first branch whose guard holds."""

    branches: tuple[IfBranch, ...]


@dataclass(frozen=True, slots=True)
class ForEach:
    """Run the actions once for each item of a list."""

    array: Value
    item: str
    index: str | None
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A named action: a registered pure function, or an effect for the host if there is none."""

    name: str
    params: tuple[Param, ...] = ()


Action: TypeAlias = Assign | Script | Raise | Send | Cancel | Log | Emit | If | ForEach | Call
Block: TypeAlias = tuple[Action, ...]
"""Actions of which the first failure ends the rest; other blocks still run."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition; without events it is taken as soon as its guard holds."""

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
    """A child chart, or a service of the host, that lives as long as its state is active."""

    id: str | None = None
    id_location: str | None = None
    source: Value | None = None
    """The name of a registered chart or of a service."""
    content: Value | Definition | None = None
    """The chart itself, or an expression whose value is one as SCXML text."""
    type: Value | None = None
    payload: Payload = Payload()
    finalize: Block | None = None
    is_forwarding: bool = False
    place: str = _remark("")


@dataclass(frozen=True, slots=True)
class Datum:
    """A variable that a state declares, and its first value."""

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
    """The initial transition of a compound state, or the default one of a history state."""
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


@short_repr("name", "version")
@dataclass(frozen=True, slots=True)
class Definition:
    """A whole chart: its root state, and the rules for running it."""

    name: str
    root: State
    dialect: str = "python"
    matching: Matching = "exact"
    binding: Binding = "early"
    is_scxml: bool = False
    """Errors always become events, and only declared variables can be assigned."""
    script: Block = ()
    version: str = _remark("")
    description: str = _remark("")


def walk(state: State, *ancestors: State) -> Iterator[tuple[State, tuple[State, ...]]]:
    """Yield a state and all states below it, each with its ancestors, the outermost first."""
    yield state, ancestors
    for child in state.children:
        yield from walk(child, *ancestors, state)


# ---------------------------------------------------------------- validation

_MAX_DEPTH = 100
_MAX_ID_LETTERS = 10_000


def validate(definition: Definition) -> None:
    """Check that a definition can run.

    Raises:
        BadChart: an id is used twice, a target is unknown, an initial state is not inside its
            state, a history state has no default, a final state has children, or the like.
    """
    _Validation(definition.root)


class _Validation:
    """The states of a chart by id, with their ancestors, and the checks on them."""

    def __init__(self, root: State) -> None:
        self._states: dict[str, State] = {}
        self._ancestors: dict[str, tuple[str, ...]] = {}
        self._add(root, ())
        if not root.children:
            raise BadChart("the chart has no states", place=_place(root))
        for state in self._states.values():
            self._check_kind(state)
            if state.initial is not None:
                self._check_initial(state, state.initial)
            for transition in state.transitions:
                self._check_targets(transition, state)

    def _add(self, state: State, ancestors: tuple[str, ...]) -> None:
        """Add a state and those below it; check their ids and depth."""
        if not state.id:
            raise BadChart("a state has no id", place=_place(state))
        if len(state.id) > _MAX_ID_LETTERS:
            why = f"an id has {len(state.id)} letters, at most {_MAX_ID_LETTERS} are allowed"
            raise BadChart(why, place=f"state {state.id[:40]}")
        if state.id in self._states:
            first = _place(self._states[state.id])
            raise BadChart(f"the id {state.id!r} is already used by {first}", place=_place(state))
        if len(ancestors) > _MAX_DEPTH:
            raise BadChart(f"states are nested more than {_MAX_DEPTH} deep", place=_place(state))
        self._states[state.id] = state
        self._ancestors[state.id] = ancestors
        for child in state.children:
            self._add(child, (*ancestors, state.id))

    def _check_kind(self, state: State) -> None:
        """Check that a state has what its kind needs, and nothing that it cannot have."""
        has_content = bool(state.children or state.transitions or state.invokes)
        for is_wrong, why in (
            (state.kind == "final" and has_content, "a final state has children or transitions"),
            (state.kind == "history" and not state.initial, "a history state has no default"),
            (
                state.kind == "compound" and not state.initial,
                "a compound state has no initial state",
            ),
            (state.kind == "parallel" and not state.children, "a parallel state has no regions"),
        ):
            if is_wrong:
                raise BadChart(why, place=_place(state))

    def _check_initial(self, state: State, initial: Transition) -> None:
        """The initial transition leads inside its state; that of a history state, beside it."""
        place = initial.place or _place(state)
        if initial.events or initial.guard is not None:
            raise BadChart("an initial transition has an event or a guard", place=place)
        if not initial.targets:
            raise BadChart("an initial transition has no target", place=place)
        self._check_targets(initial, state)
        outer = self._ancestors[state.id][-1] if state.kind == "history" else state.id
        for target in initial.targets:
            if outer not in self._ancestors[target]:
                raise BadChart(f"{target!r} is not inside {outer!r}", place=place)
        if state.kind == "history":
            self._check_default(state.id, initial, place)

    def _check_default(self, id: str, initial: Transition, place: str) -> None:
        """The default of a history state may be another one, but they may not form a cycle."""
        seen, waiting = {id}, list(initial.targets)
        while waiting:
            target = self._states[waiting.pop()]
            if target.id in seen:
                raise BadChart(f"the default of {id!r} leads back to it", place=place)
            if target.kind == "history" and target.initial is not None:
                seen.add(target.id)
                waiting += [each for each in target.initial.targets if each in self._states]

    def _check_targets(self, transition: Transition, state: State) -> None:
        """The targets of a transition exist, and can be active at once."""
        place = transition.place or _place(state)
        for target in transition.targets:
            if target not in self._states:
                known = list(self._states)[1:]  # without the root
                hint = f"states are {', '.join(known[:12])}{' ...' if len(known) > 12 else ''}"
                raise BadChart(f"there is no state {target!r}", place=place, hint=hint)
        for left, right in combinations(transition.targets, 2):
            first, second = (*self._ancestors[left], left), (*self._ancestors[right], right)
            common = [a for a, b in zip(first, second, strict=False) if a == b][-1]
            if self._states[common].kind != "parallel" or common in {left, right}:
                raise BadChart(f"{left!r} and {right!r} cannot be active at once", place=place)


def _place(state: State) -> str:
    return state.place or f"state {state.id}"


# ---------------------------------------------------------------- the hash

_HASHED_NAMES = {"IfBranch": "Branch", "NamedGuard": "Named"}


def hash_of(definition: Definition) -> str:
    """Return 32 hex digits that change when, and only when, behaviour may have changed."""
    text = json.dumps(_hashed(definition), sort_keys=True, separators=(",", ":"))
    return blake3(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _hashed(value: Any) -> Any:
    """Return a value as JSON data, without the fields that do not change behaviour."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        fields = [each.name for each in dataclasses.fields(value) if each.compare]
        content = {each: _hashed(getattr(value, each)) for each in fields}
        return {"": _HASHED_NAMES.get(name, name), **content}
    if isinstance(value, list | tuple):
        return [_hashed(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _hashed(item) for key, item in value.items()}
    return value
