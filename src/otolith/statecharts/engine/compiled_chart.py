"""The model: a chart compiled, with every choice and plan it has come across kept.

Which transitions an event may take depends on the active states and the event's name only, up to
guards: that is a `Choice`, kept by `(configuration, event)`. What a set of transitions does is a
`plans.Plan`. A choice without guards leads to one plan; if that plan runs nothing and nothing
follows from it, the choice is *plain*, and a step is a look-up and a new snapshot.

Bindings: the Python callables that the names of a chart stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from otolith.statecharts.definition import Definition, Transition, hash_of, validate
from otolith.statecharts.engine.chart_layout import CompiledTransition, Layout, Node, connect, keep
from otolith.statecharts.engine.compile import Compiler, compile_block
from otolith.statecharts.engine.plan import History, Plan, work_out
from otolith.statecharts.snapshot import Microstep


@dataclass(slots=True)
class Bindings:
    """Guards, pure actions and effects by name, and what may be invoked or sent through."""

    guards: dict[str, Callable[..., Any]] = field(default_factory=dict)
    actions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    effects: dict[str, Effective] = field(default_factory=dict)
    charts: dict[str, Any] = field(default_factory=dict)
    """What `invoke` finds by name: the compiled models of child charts."""
    outlets: set[str] = field(default_factory=set)
    """Types of `send` that the host carries out."""


@dataclass(frozen=True, slots=True)
class Effective:
    """A function that the host calls after the step, and how to."""

    function: Callable[..., Any]
    retry: int = 0
    timeout: float | None = None
    is_repeatable: bool = True
    """Whether it may be called again with the same key, if nobody knows whether it was."""
    asks: Callable[..., Any] | None = None
    """Tells whether an effect that was begun has happened: None or False if not, or its answer."""


class Choice:
    """What an event may do in a configuration: candidates for each active leaf, best first."""

    __slots__ = ("configuration", "groups", "is_sure", "sure", "trace")

    def __init__(self, groups: tuple[tuple[CompiledTransition, ...], ...]) -> None:
        self.groups = groups
        self.is_sure = all(group[0].test is None for group in groups)
        self.sure = tuple(group[0] for group in groups) if self.is_sure else None
        """The transitions that are taken, where no guard has a say."""
        self.configuration: tuple[str, ...] = ()
        self.trace: tuple[Microstep, ...] = ()


class CompiledChart(Layout):
    """A compiled chart: its layout, transitions and bindings, and what was worked out so far."""

    def __init__(self, definition: Definition, bindings: Bindings) -> None:
        validate(definition)
        super().__init__(definition)
        self.definition = definition
        self.bindings = bindings
        compiler = Compiler(definition)
        self.arcs = connect(self.order, compiler)
        self.hash = hash_of(definition)
        self.problems = compiler.problems
        self.start = CompiledTransition(Transition((), (), is_internal=False), self.root, -1)
        self.start.targets = (self.root,)
        self._add_children(compiler)
        self.script = compile_block(compiler, definition.script)
        self.heard = frozenset(
            name for name in ("error.execution", "error.communication") if self._hears(name)
        )
        """The errors that are events here, and not the end of the step."""
        self.has_error_events = "error.execution" in self.heard
        self.choices: dict[tuple[tuple[str, ...], str], Choice] = {}
        self.not_plain: dict[tuple[tuple[str, ...], str], bool] = {}
        self._by_mask: dict[tuple[int, str], Choice] = {}
        self._plans: dict[Any, Plan] = {}

    def _add_children(self, compiler: Compiler) -> None:
        """Compile the charts that stand inside this one."""
        for node in self.order:
            for call in node.calls:
                content = call.invoke.content
                if isinstance(content, Definition):
                    call.content = CompiledChart(content, self.bindings)
                elif content is not None:
                    call.content = compiler.value(content)

    # ------------------------------------------------------------ choices

    def choice(self, mask: int, event: str) -> Choice:
        """Return the candidates; the event "" asks for those that need none."""
        key = (mask, event)
        found = self._by_mask.get(key)
        if found is None:
            found = Choice(self._groups(mask, event))
            keep(self._by_mask, key, found)
        return found

    def _groups(self, mask: int, event: str) -> tuple[tuple[CompiledTransition, ...], ...]:
        groups: list[tuple[CompiledTransition, ...]] = []
        for leaf in self.leaves:
            if mask & leaf.bit:
                group = self._group(leaf, event)
                if group and group not in groups:
                    groups.append(group)
        return tuple(groups)

    def _group(self, leaf: Node, event: str) -> tuple[CompiledTransition, ...]:
        found: list[CompiledTransition] = []
        for node in (leaf, *leaf.ancestors()):
            for arc in self._matching(node, event):
                found.append(arc)
                if arc.test is None:
                    return tuple(found)
        return tuple(found)

    def _matching(self, node: Node, event: str) -> list[CompiledTransition]:
        """Return the transitions of a state for an event, in the order in which they are tried.

        In SCXML that is the order of the document; in XState the closer name goes first.
        """
        arcs = [arc for arc in node.arcs if self.matches(arc, event)]
        if self.definition.matching == "exact" and len(arcs) > 1:
            arcs.sort(key=lambda arc: -_closeness(arc, event))
        return arcs

    def matches(self, arc: CompiledTransition, event: str) -> bool:
        if not event:
            return not arc.events
        is_prefix = self.definition.matching == "prefix"
        return any(accepts(descriptor, event, is_prefix=is_prefix) for descriptor in arc.events)

    def _hears(self, error: str) -> bool:
        """Return whether errors are events: in SCXML always, else if a transition means them."""
        return self.definition.is_scxml or any(
            self.matches(arc, error) and arc.events != ("*",) for arc in self.arcs
        )

    def allowed(self, mask: int) -> tuple[str, ...]:
        """Return the events that some transition of an active state names, inner states first."""
        found: dict[str, None] = {}
        for leaf in self.leaves:
            if mask & leaf.bit:
                for node in (leaf, *leaf.ancestors()):
                    names = (event for arc in node.arcs for event in arc.events)
                    found.update(dict.fromkeys(name for name in names if not _is_own(name)))
        return tuple(found)

    # ------------------------------------------------------------ plans

    def plan(self, mask: int, arcs: tuple[CompiledTransition, ...], history: History) -> Plan:
        """Return what these transitions do, those that are preempted taken out."""
        remembered = tuple(sorted(history.items())) if history else ()
        key = (mask, arcs, remembered)
        found = self._plans.get(key)
        if found is None:
            found = work_out(self, mask, arcs, history)
            keep(self._plans, key, found)
        return found


def _is_own(event: str) -> bool:
    """Return whether an event is one that charts and hosts make, not people."""
    return event.startswith(("after.", "done.state.", "done.invoke.", "error."))


def accepts(descriptor: str, event: str, *, is_prefix: bool) -> bool:
    """Return whether an event's name is meant by a descriptor."""
    if descriptor in {"*", event}:
        return True
    stem = descriptor.removesuffix(".*")
    if stem == descriptor and not is_prefix:
        return False
    return event == stem or event.startswith(f"{stem.removesuffix('.')}.")


def _closeness(arc: CompiledTransition, event: str) -> int:
    """Return how much of an event's name the closest descriptor of a transition spells."""
    near = (each for each in arc.events if each == event or "*" in each)
    return max((len(each) + (each == event) for each in near), default=0)
