"""The compiled chart: a definition laid out for running, with caches of what steps have looked up.

A set of states is an int with one bit per state. Bits are numbered in document order, so sorting by
bit is sorting by document order, and each question of the SCXML algorithm about ancestors and
descendants is one `&` with a mask.

Which transitions an event may take depends on the configuration and the event's name alone, up to
guards: those are its `Candidates`, cached by (configuration, event). What a set of transitions does
is a plan (`microstep.py`), cached too. An event that has no guards to ask and no actions to run,
and after which nothing else happens, is *plain*: its result is cached, and such a step is one
look-up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from otolith.errors import BadChart, Corrupt
from otolith.statecharts.definition import (
    Definition,
    Expression,
    Invoke,
    Literal,
    State,
    Transition,
    Value,
    hash_of,
    validate,
)
from otolith.statecharts.engine.executable_content import (
    CompiledBlock,
    ContentCompiler,
    GuardFunction,
    ValueFunction,
    parse_delay,
)
from otolith.statecharts.engine.session import ChartFailure
from otolith.statecharts.snapshot import Microstep

_CACHE_ENTRIES = 4_096
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
HINT_OTHER_CHART = "the snapshot was changed by hand, or is of another chart"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class EffectHandler:
    """A function that the host calls after the step, and the rules for calling it."""

    function: Callable[..., Any]
    retry: int = 0
    timeout: float | None = None
    is_repeatable: bool = True
    """Whether it may be called again with the same key when its outcome is unknown."""
    asks: Callable[..., Any] | None = None
    """Returns None or False if an effect that was begun did not happen, else its answer."""


@dataclass(slots=True)
class Bindings:
    """The Python functions and charts that the names in a definition stand for."""

    guards: dict[str, Callable[..., Any]] = field(default_factory=dict)
    actions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    effects: dict[str, EffectHandler] = field(default_factory=dict)
    charts: dict[str, CompiledChart] = field(default_factory=dict)
    """The charts that `invoke` finds by name."""
    documents: dict[str, str] = field(default_factory=dict)
    """SCXML documents that `invoke` finds by the names of their files."""
    outlets: set[str] = field(default_factory=set)
    """The types of `send` that the host carries out."""


class DoneData(NamedTuple):
    """What computes the `donedata` of a state: one value, or named values."""

    content: ValueFunction | None
    params: tuple[tuple[str, ValueFunction], ...]


class CompiledTransition:
    """A transition with its targets resolved and its guard and actions compiled."""

    __slots__ = ("actions", "events", "guard", "index", "is_internal", "place", "source", "targets")

    def __init__(
        self,
        compiler: ContentCompiler,
        transition: Transition,
        source: StateNode,
        targets: tuple[StateNode, ...],
        index: int,
    ) -> None:
        compiler.place = transition.place or source.state.place or source.id
        self.index = index
        """Its position among the transitions of the chart; -1 if it only says where to begin."""
        self.source = source
        self.targets = targets
        self.events = transition.events
        self.is_internal = transition.is_internal
        self.place = transition.place
        self.guard: GuardFunction | None = compiler.guard(transition.guard)
        self.actions: CompiledBlock = compiler.block(transition.actions)

    def __repr__(self) -> str:
        return f"<CompiledTransition {self}>"

    def __str__(self) -> str:
        """Return the transition in words: `planning on plan_ready to executing`."""
        cause = f"on {' or '.join(self.events)}" if self.events else "always"
        if any(self.events == (name,) for _, name in self.source.delays):
            cause = "after its time"
        targets = ", ".join(target.id for target in self.targets)
        return f"{self.source.id} {cause}{f' to {targets}' if targets else ''}"


class CompiledInvoke:
    """An invoke with its values compiled."""

    __slots__ = ("content", "finalize", "invoke", "payload", "source", "store_id", "type")

    def __init__(self, compiler: ContentCompiler, invoke: Invoke, bindings: Bindings) -> None:
        self.invoke = invoke
        self.source = compiler.value(invoke.source)
        self.type = compiler.value(invoke.type)
        self.payload = compiler.payload(invoke.payload)
        self.store_id = compiler.location(invoke.id_location)
        self.finalize = None if invoke.finalize is None else compiler.block(invoke.finalize)
        self.content: CompiledChart | ValueFunction | None = None
        """The chart itself, or what computes its SCXML text; None if `source` names it."""
        if isinstance(invoke.content, Definition):
            self.content = CompiledChart(invoke.content, bindings)
        elif invoke.content is not None:
            self.content = compiler.value(invoke.content)


class StateNode:
    """A state with its place in the hierarchy and its content compiled."""

    __slots__ = (
        *("ancestor_mask", "bit", "child_mask", "children", "data", "delays", "descendant_mask"),
        *("entry", "exit"),
        *("history_states", "id", "index", "initial", "invokes", "is_leaf", "kind", "output"),
        *("parent", "state", "transitions"),
    )

    def __init__(self, state: State, parent: StateNode | None, index: int) -> None:
        self.state = state
        self.id = state.id
        self.kind = state.kind
        self.parent = parent
        self.index = index
        self.bit = 1 << index
        self.ancestor_mask: int = 0 if parent is None else parent.ancestor_mask | parent.bit
        self.descendant_mask = 0
        self.child_mask = 0
        """The states directly below that can be active: history states cannot."""
        self.children: list[StateNode] = []
        self.history_states: list[StateNode] = []
        self.is_leaf = state.kind in {"atomic", "final"}
        self.transitions: list[CompiledTransition] = []
        self.initial: CompiledTransition | None = None
        self.delays: tuple[tuple[ValueFunction, str], ...] = ()
        """For each transition with a delay: the delay, and the event that its timer sends."""

    def __repr__(self) -> str:
        return self.id

    def ancestors(self, until: StateNode | None = None) -> Iterator[StateNode]:
        """Yield the states above, the nearest first, up to and without `until`."""
        node = self.parent
        while node is not None and node is not until:
            yield node
            node = node.parent

    def compile(self, compiler: ContentCompiler, bindings: Bindings) -> None:
        """Compile the content of the state, all but its transitions."""
        state = self.state
        compiler.place = state.place or state.id
        self.entry = tuple(compiler.block(block) for block in state.entry)
        self.exit = tuple(compiler.block(block) for block in state.exit)
        self.data = tuple((datum.name, compiler.value(datum.value)) for datum in state.data)
        self.invokes = tuple(CompiledInvoke(compiler, each, bindings) for each in state.invokes)
        self.output: DoneData | None = None
        if state.output is not None:
            content, params = state.output.content, state.output.params
            self.output = DoneData(
                None if content is None else compiler.value(content),
                tuple((param.name, compiler.value(param.value)) for param in params),
            )


class Candidates:
    """The transitions that an event may take: for each active leaf, in the order of priority."""

    __slots__ = ("groups", "unguarded")

    def __init__(
        self, groups: tuple[tuple[CompiledTransition, ...], ...], *, only_innermost: bool
    ) -> None:
        self.groups = groups
        firsts = tuple(group[0] for group in groups)
        is_unguarded = all(first.guard is None for first in firsts)
        self.unguarded = (innermost(firsts) if only_innermost else firsts) if is_unguarded else None
        """The transitions that are taken, if no guard has to be asked."""


def innermost(transitions: tuple[CompiledTransition, ...]) -> tuple[CompiledTransition, ...]:
    """Return the transitions without those of a state in which another one has its source."""
    above = 0
    for transition in transitions:
        above |= transition.source.ancestor_mask
    return tuple(each for each in transitions if not each.source.bit & above)


class CompiledChart:
    """A definition compiled with its bindings, and caches of what steps have looked up."""

    def __init__(self, definition: Definition, bindings: Bindings) -> None:
        validate(definition)
        self.definition = definition
        self.bindings = bindings
        self.hash = hash_of(definition)
        self.order = _nodes_in_document_order(definition.root)
        self.nodes = {node.id: node for node in self.order}
        self.root = self.order[0]
        self.leaves = [node for node in self.order if node.is_leaf]
        self.leaf_mask = sum(leaf.bit for leaf in self.leaves)
        compiler = ContentCompiler(definition)
        self.transitions: list[CompiledTransition] = []
        """All transitions in document order."""
        for node in self.order:
            node.compile(compiler, bindings)
            self._compile_transitions(compiler, node)
        begin = Transition((), (), is_internal=False)
        self.initial_transition = CompiledTransition(compiler, begin, self.root, (self.root,), -1)
        compiler.place = definition.name
        self.script = compiler.block(definition.script)
        self.problems = compiler.problems
        self.event_names = frozenset(name for each in self.transitions for name in each.events)
        """The event descriptors of all transitions."""
        self.error_events = frozenset(
            name for name in ("error.execution", "error.communication") if self._handles(name)
        )
        """The errors that become events; any other failure ends the step."""
        self.latest: Any = None
        """The snapshot that the latest step of this chart returned: it needs no check."""
        self.plain_steps: dict[tuple[tuple[str, ...], str], PlainStep] = {}
        self.not_plain: dict[tuple[tuple[str, ...], str], bool] = {}
        self.plans: dict[Any, Any] = {}
        """The plans that `microstep.py` has made."""
        self._candidates: dict[tuple[int, str], Candidates] = {}
        self._masks: dict[tuple[str, ...], int] = {}
        self._histories: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._leaf_ids: dict[int, tuple[str, ...]] = {}

    def __repr__(self) -> str:
        return f"<CompiledChart {self.definition.name} {self.hash[:12]}>"

    def _compile_transitions(self, compiler: ContentCompiler, node: StateNode) -> None:
        """Compile the transitions of a state; one with a delay waits for the event of a timer."""
        delays: list[tuple[ValueFunction, str]] = []
        for transition in node.state.transitions:
            targets = tuple(self.nodes[id] for id in transition.targets)
            index = len(self.transitions)
            compiled = CompiledTransition(compiler, transition, node, targets, index)
            if transition.delay is not None:
                _check_delay(transition.delay, compiled.place or node.id)
                name = f"after.{len(delays)}.{node.id}"
                delays.append((compiler.value(transition.delay), name))
                compiled.events = (name,)
            self.transitions.append(compiled)
            node.transitions.append(compiled)
        node.delays = tuple(delays)
        initial = node.state.initial
        if initial is not None:
            targets = tuple(self.nodes[id] for id in initial.targets)
            node.initial = CompiledTransition(compiler, initial, node, targets, -1)

    def _handles(self, error: str) -> bool:
        """Return whether an error becomes an event: in SCXML always, else if a transition names it.

        A transition for `*` alone does not count: it was not written with errors in mind.
        """
        return self.definition.is_scxml or any(
            self.matches(transition, error) and transition.events != ("*",)
            for transition in self.transitions
        )

    # ------------------------------------------------------------ names and masks

    def mask_of(self, configuration: tuple[str, ...]) -> int:
        """Return the mask of all active states, given the ids of the active leaves.

        Raises:
            Corrupt: these states cannot be active together.
        """
        try:
            mask = self._masks.get(configuration)
        except TypeError as error:
            raise _impossible(configuration, "it has more than ids in it") from error
        if mask is None:
            mask = self._compute_mask(configuration)
            cache_put(self._masks, configuration, mask)
        return mask

    def _compute_mask(self, configuration: tuple[str, ...]) -> int:
        # A snapshot may come from elsewhere, so what it says is checked against the hierarchy.
        mask = 0
        for id in configuration:
            node = self.nodes.get(id)
            if node is None:
                raise _impossible(configuration, f"there is no state {id}")
            if not node.is_leaf:
                raise _impossible(configuration, f"{id!r} is not an atomic or final state")
            if mask & node.bit:
                raise _impossible(configuration, f"{id!r} is in it twice")
            mask |= node.bit | node.ancestor_mask
        if why := self._misfit(mask):
            raise _impossible(configuration, why)
        if not mask:
            raise _impossible(configuration, "no state is active")
        return mask

    def _misfit(self, mask: int) -> str:
        """Return why these states cannot be active together; "" if they can."""
        for node in self.nodes_of(mask):
            active = (mask & node.child_mask).bit_count()
            wanted = len(node.children) if node.kind == "parallel" else 1
            if not node.is_leaf and active != wanted:
                return f"{active} states are active in {node.id!r}"
        return ""

    def leaf_ids(self, mask: int) -> tuple[str, ...]:
        """Return the ids of the active leaves in document order."""
        ids = self._leaf_ids.get(mask)
        if ids is None:
            ids = tuple(node.id for node in self.nodes_of(mask & self.leaf_mask))
            cache_put(self._leaf_ids, mask, ids)
        return ids

    def nodes_of(self, mask: int) -> list[StateNode]:
        """Return the states of a mask in document order."""
        nodes: list[StateNode] = []
        while mask:
            bit = mask & -mask
            nodes.append(self.order[bit.bit_length() - 1])
            mask ^= bit
        return nodes

    def check_history(self, history: Mapping[str, tuple[str, ...]]) -> None:
        """Check that each history state remembers states that its parent can have had.

        Raises:
            Corrupt: it remembers others.
        """
        for pair in history.items():
            is_text = type(pair[1]) is tuple and all(type(each) is str for each in pair[1])
            if is_text and pair in self._histories:
                continue
            if not is_text or not self._can_remember(*pair):
                raise Corrupt(
                    f"the history state {pair[0][:80]!r} remembers states that its parent cannot"
                    " have had",
                    hint=HINT_OTHER_CHART,
                )
            cache_put(self._histories, pair, value=True)

    def _can_remember(self, id: str, remembered: tuple[str, ...]) -> bool:
        """Return whether what a history state remembers is what an exit of its parent records."""
        node = self.nodes.get(id)
        parent = None if node is None or node.kind != "history" else node.parent
        states = [self.nodes.get(each) for each in remembered]
        if node is None or parent is None or not states:
            return False
        mask = parent.bit
        for state in states:
            is_right = state is not None and parent.descendant_mask & state.bit
            if state is None or not is_right or state.kind == "history":
                return False
            if not (state.is_leaf if node.state.is_deep else state.parent is parent):
                return False
            mask |= state.bit | state.ancestor_mask & parent.descendant_mask
        if node.state.is_deep:
            return not self._misfit(mask)
        return len(states) == (len(parent.children) if parent.kind == "parallel" else 1)

    # ------------------------------------------------------------ events

    def candidates(self, mask: int, event: str) -> Candidates:
        """Return the transitions that an event may take; "" asks for the eventless ones."""
        key = (mask, event)
        found = self._candidates.get(key)
        if found is None:
            leaves = self.nodes_of(mask & self.leaf_mask)
            groups = dict.fromkeys(self._candidates_of_leaf(leaf, event) for leaf in leaves)
            only_innermost = bool(event) and not self.definition.is_scxml
            found = Candidates(
                tuple(group for group in groups if group), only_innermost=only_innermost
            )
            cache_put(self._candidates, key, found)
        return found

    def _candidates_of_leaf(self, leaf: StateNode, event: str) -> tuple[CompiledTransition, ...]:
        """Return what may be taken from a leaf or its ancestors, up to the first without a guard.

        In SCXML transitions are tried in document order; in XState the longest match goes first.
        """
        found: list[CompiledTransition] = []
        for node in (leaf, *leaf.ancestors()):
            matching = [each for each in node.transitions if self.matches(each, event)]
            if self.definition.matching == "exact" and len(matching) > 1:
                matching.sort(key=lambda each: -_match_length(each, event))
            for transition in matching:
                found.append(transition)
                if transition.guard is None:
                    return tuple(found)
        return tuple(found)

    def matches(self, transition: CompiledTransition, event: str) -> bool:
        """Return whether an event's name is one that a transition is for."""
        if not event:
            return not transition.events
        is_prefix = self.definition.matching == "prefix"
        return any(name_match(each, event, is_prefix=is_prefix) for each in transition.events)

    def allowed(self, mask: int) -> tuple[str, ...]:
        """Return the events that transitions of active states name, inner states first.

        Events that charts and hosts generate (timers, `done.*`, `error.*`) are left out.
        """
        found: dict[str, None] = {}
        for leaf in self.nodes_of(mask & self.leaf_mask):
            for node in (leaf, *leaf.ancestors()):
                found |= dict.fromkeys(name for each in node.transitions for name in each.events)
        generated = ("after.", "done.state.", "done.invoke.", "error.")
        return tuple(name for name in found if not name.startswith(generated))


class PlainStep(NamedTuple):
    """The cached result of a plain event: where it leads, and how."""

    configuration: tuple[str, ...]
    trace: tuple[Microstep, ...]


def _nodes_in_document_order(root: State) -> list[StateNode]:
    """Return the states of a definition; the bit of each is its position in the list."""
    nodes: list[StateNode] = []

    def visit(state: State, parent: StateNode | None) -> StateNode:
        """Make the node of a state and of the states in it, in document order."""
        node = StateNode(state, parent, len(nodes))
        nodes.append(node)
        for child in state.children:
            below = visit(child, node)
            if below.kind == "history":
                node.history_states.append(below)
            else:
                node.children.append(below)
                node.child_mask |= below.bit
            node.descendant_mask |= below.bit | below.descendant_mask
        return node

    visit(root, None)
    return nodes


def _impossible(configuration: tuple[str, ...], why: str) -> Corrupt:
    """Return the error for states that cannot be active together."""
    states = ", ".join(map(str, configuration))[:200] or "()"
    return Corrupt(f"the configuration {states} is impossible: {why}", hint=HINT_OTHER_CHART)


def name_match(descriptor: str, event: str, *, is_prefix: bool) -> bool:
    """Return whether an event descriptor matches a name: `*`, the name, or its first words."""
    if descriptor in {"*", event}:
        return True
    stem = descriptor.removesuffix(".*")
    if stem == descriptor and not is_prefix:
        return False
    return event == stem or event.startswith(f"{stem.removesuffix('.')}.")


def _match_length(transition: CompiledTransition, event: str) -> int:
    """Return how much of an event's name the longest matching descriptor spells."""
    near = (each for each in transition.events if each == event or "*" in each)
    return max((len(each) + (each == event) for each in near), default=0)


def _check_delay(delay: Value, place: str) -> None:
    """Check a delay that the document spells out; one that is computed is checked when it is."""
    is_number = isinstance(delay, Expression) and _NUMBER.fullmatch(delay.text)
    if isinstance(delay, Literal) or is_number:
        try:
            parse_delay(delay.value if isinstance(delay, Literal) else delay.text)
        except ChartFailure as error:
            raise BadChart(str(error), place=place) from error


def cache_put(cache: dict[K, V], key: K, value: V) -> None:
    """Put an entry into a cache; a full cache drops its oldest entry."""
    if len(cache) >= _CACHE_ENTRIES:
        with suppress(RuntimeError, StopIteration, KeyError):  # another thread is doing the same
            del cache[next(iter(cache))]
    cache[key] = value
