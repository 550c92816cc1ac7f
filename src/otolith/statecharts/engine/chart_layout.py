"""Nodes and arcs: a definition laid out for running, in document order and with bit masks.

A set of states is an int with one bit per state; bits are numbered in document order, so sorting
by bit is sorting by document order. `above` and `below` are the masks of ancestors and
descendants: every question of the SCXML algorithm about them is one `&`.

The layout of a chart: its states as bits, and configurations as masks of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from otolith.errors import Corrupt
from otolith.statecharts.definition import Definition, Invoke, State, Transition
from otolith.statecharts.engine.compile import Compiler, Do, Get, Test, compile_block


class CompiledTransition:
    """A transition, compiled."""

    __slots__ = ("actions", "events", "index", "is_internal", "place", "source", "targets", "test")

    def __init__(self, transition: Transition, source: Node, index: int) -> None:
        self.index = index
        self.source = source
        self.events = transition.events
        self.is_internal = transition.is_internal
        self.place = transition.place
        self.targets: tuple[Node, ...] = ()
        self.test: Test | None = None
        self.actions: tuple[Do, ...] = ()

    def __repr__(self) -> str:
        return f"{self.source.id} -> {' '.join(target.id for target in self.targets)}"


class CompiledInvoke:
    """An invoke, compiled."""

    __slots__ = ("content", "finalize", "invoke", "payload", "source", "store_id", "type")

    def __init__(self, compiler: Compiler, invoke: Invoke) -> None:
        self.invoke = invoke
        self.source = compiler.optional(invoke.source)
        self.type = compiler.optional(invoke.type)
        self.payload = compiler.payload(invoke.payload)
        self.store_id = compiler.location(invoke.id_location) if invoke.id_location else None
        self.finalize = (
            None if invoke.finalize is None else compile_block(compiler, invoke.finalize)
        )
        self.content: Any = None  # a model or a Get; set by whoever compiles the chart


class Node:
    """A state, compiled."""

    __slots__ = (
        "above",
        "arcs",
        "below",
        "bit",
        "calls",
        "children",
        "data",
        "entry",
        "exit",
        "history",
        "id",
        "index",
        "initial",
        "is_leaf",
        "kind",
        "output",
        "parent",
        "state",
        "waits",
    )

    def __init__(self, state: State, parent: Node | None, index: int) -> None:
        self.state = state
        self.id = state.id
        self.kind = state.kind
        self.parent = parent
        self.index = index
        self.bit = 1 << index
        self.above: int = 0 if parent is None else parent.above | parent.bit
        self.below = 0
        self.children: list[Node] = []
        self.history: list[Node] = []
        self.arcs: list[CompiledTransition] = []
        self.initial: CompiledTransition | None = None
        self.is_leaf = state.kind in {"atomic", "final"}
        self.entry: tuple[tuple[Do, ...], ...] = ()
        self.exit: tuple[tuple[Do, ...], ...] = ()
        self.calls: tuple[CompiledInvoke, ...] = ()
        self.data: tuple[tuple[str, Get], ...] = ()
        self.output: tuple[Get | None, tuple[tuple[str, Get], ...]] | None = None
        self.waits: tuple[tuple[Get, str], ...] = ()

    def __repr__(self) -> str:
        return self.id

    def ancestors(self, until: Node | None = None) -> Iterator[Node]:
        """Yield the states above, the nearest first, without `until` and what is above it."""
        at = self.parent
        while at is not None and at is not until:
            yield at
            at = at.parent


def lay_out(root: State) -> list[Node]:
    """Return the nodes of a definition in document order; their bits are their positions."""
    nodes: list[Node] = []

    def visit(state: State, parent: Node | None) -> Node:
        node = Node(state, parent, len(nodes))
        nodes.append(node)
        for child in state.children:
            below = visit(child, node)
            (node.history if below.kind == "history" else node.children).append(below)
            node.below |= below.bit | below.below
        return node

    visit(root, None)
    return nodes


def connect(nodes: list[Node], compiler: Compiler) -> list[CompiledTransition]:
    """Compile what the nodes do and where they lead; return all transitions in document order."""
    named = {node.id: node for node in nodes}
    arcs: list[CompiledTransition] = []
    for node in nodes:
        state = node.state
        compiler.place = state.place or state.id
        node.entry = tuple(compile_block(compiler, block) for block in state.entry)
        node.exit = tuple(compile_block(compiler, block) for block in state.exit)
        node.data = tuple((datum.name, compiler.optional(datum.value)) for datum in state.data)
        node.calls = tuple(CompiledInvoke(compiler, invoke) for invoke in state.invokes)
        node.output = _output(compiler, state)
        waits: list[tuple[Get, str]] = []
        for transition in state.transitions:
            arc = _arc(compiler, transition, node, named, len(arcs))
            if transition.delay is not None:
                name = f"after.{len(waits)}.{node.id}"
                waits.append((compiler.value(transition.delay), name))
                arc.events = (name,)
            arcs.append(arc)
            node.arcs.append(arc)
        node.waits = tuple(waits)
        if state.initial is not None:
            node.initial = _arc(compiler, state.initial, node, named, -1)
    return arcs


def _arc(
    compiler: Compiler, transition: Transition, node: Node, named: dict[str, Node], index: int
) -> CompiledTransition:
    arc = CompiledTransition(transition, node, index)
    compiler.place = transition.place or node.state.place or node.id
    arc.targets = tuple(named[target] for target in transition.targets)
    arc.test = None if transition.guard is None else compiler.guard(transition.guard)
    arc.actions = compile_block(compiler, transition.actions)
    return arc


def _output(
    compiler: Compiler, state: State
) -> tuple[Get | None, tuple[tuple[str, Get], ...]] | None:
    if state.output is None:
        return None
    content = None if state.output.content is None else compiler.value(state.output.content)
    return content, tuple(
        (param.name, compiler.value(param.value)) for param in state.output.params
    )


CACHED = 4_096
"""How many entries a cache holds; the oldest makes room."""

K = TypeVar("K")
V = TypeVar("V")


class Layout:
    """The states of a definition in document order, and the ways between names and masks."""

    def __init__(self, definition: Definition) -> None:
        self.is_scxml = definition.is_scxml
        self.internal_kinds = {"compound"} if self.is_scxml else {"compound", "parallel"}
        """What an internal transition need not leave; in SCXML a parallel state is left."""
        self.order = lay_out(definition.root)
        self.nodes = {node.id: node for node in self.order}
        self.root = self.order[0]
        self.leaves = [node for node in self.order if node.is_leaf]
        self._masks: dict[tuple[str, ...], int] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    def mask_of(self, configuration: tuple[str, ...]) -> int:
        """Return the mask of all active states, given those at the bottom.

        Raises:
            Corrupt: these states cannot be active together.
        """
        found = self._masks.get(configuration)
        if found is None:
            found = self._mask(configuration)
            keep(self._masks, configuration, found)
        return found

    def check_history(self, history: Mapping[str, tuple[str, ...]]) -> None:
        """Refuse what no history state can remember: only states beside and below it.

        Raises:
            Corrupt: it names others.
        """
        for name, remembered in history.items():
            node = self.nodes.get(name)
            around = None if node is None or node.kind != "history" else node.parent
            found = [self.nodes.get(each) for each in remembered]
            if around is None or not all(
                each is not None and each.kind != "history" and around.below & each.bit
                for each in found
            ):
                raise Corrupt(
                    f"the history {name[:80]!r} remembers what is not beside it",
                    hint="the snapshot was changed by hand, or is of another chart",
                )

    def leaves_of(self, mask: int) -> tuple[str, ...]:
        """Return the active states at the bottom, in document order."""
        found = self._names.get(mask)
        if found is None:
            found = self._leaves(mask)
            keep(self._names, mask, found)
        return found

    def _mask(self, configuration: tuple[str, ...]) -> int:
        mask = 0
        for name in configuration:
            node = self.nodes.get(name)
            if node is None or not node.is_leaf:
                raise _impossible(configuration, f"{name!r} is no state that it could rest in")
            mask |= node.bit | node.above
        for node in self.nodes_of(mask):
            active = sum(1 for child in node.children if mask & child.bit)
            wanted = len(node.children) if node.kind == "parallel" else 1
            if not node.is_leaf and active != wanted:
                raise _impossible(configuration, f"{active} states are active in {node.id!r}")
        if not mask:
            raise _impossible(configuration, "nothing is active")
        return mask

    def _leaves(self, mask: int) -> tuple[str, ...]:
        return tuple(node.id for node in self.leaves if mask & node.bit)

    def nodes_of(self, mask: int) -> list[Node]:
        """Return the states of a mask in document order."""
        found: list[Node] = []
        while mask:
            bit = mask & -mask
            found.append(self.order[bit.bit_length() - 1])
            mask ^= bit
        return found


def keep(cache: dict[K, V], key: K, value: V) -> None:
    """Put something in a cache; when it is full, the oldest makes room."""
    if len(cache) >= CACHED:
        with suppress(RuntimeError, StopIteration, KeyError):  # another thread makes room just now
            del cache[next(iter(cache))]
    cache[key] = value


def _impossible(configuration: tuple[str, ...], why: str) -> Corrupt:
    return Corrupt(
        f"the configuration {', '.join(configuration) or '()'} is impossible: {why}",
        hint="the snapshot was changed by hand, or is of another chart",
    )
