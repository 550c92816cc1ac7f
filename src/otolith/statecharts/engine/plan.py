"""Plans: what a set of transitions does in a configuration, worked out by the SCXML algorithm.

A plan says which states are left and entered and in which order, what history records and which
states are active afterwards. It depends on the active states, the transitions, and what history
remembers; `model` keeps those it has made.
"""

from __future__ import annotations

from collections.abc import Mapping

from otolith.statecharts.engine.chart_layout import CompiledTransition, Layout, Node
from otolith.statecharts.engine.compile import Do
from otolith.statecharts.snapshot import Microstep

History = Mapping[str, tuple[str, ...]]


class Plan:
    """One microstep, worked out."""

    __slots__ = ("_line", "arcs", "entries", "exits", "is_plain", "mask", "records", "script")

    def __init__(
        self,
        *,
        arcs: tuple[CompiledTransition, ...],
        exits: tuple[Node, ...],
        records: tuple[tuple[str, tuple[str, ...]], ...],
        entries: tuple[tuple[Node, tuple[Do, ...]], ...],
        before: int,
        mask: int,
        is_remembering: bool,
    ) -> None:
        self.arcs = arcs
        self.exits = exits
        self.records = records
        self.entries = entries
        self.mask = mask
        self._line: Microstep | None = None
        self.script = _script(before, arcs, exits, entries)
        self.is_plain = self.script == () and not records and not is_remembering

    def line(self, event: str, session: str) -> Microstep:
        """Return the line of a trace that tells of this plan; the last one made is kept."""
        line = self._line
        if line is None or line.event != event or line.session != session:
            exited = tuple(node.id for node in self.exits)
            taken = tuple(arc.index for arc in self.arcs if arc.index >= 0)
            entered = tuple(node.id for node, _ in self.entries)
            line = self._line = Microstep(event, exited, taken, entered, session)
        return line


Script = tuple[tuple[int, tuple[Do, ...]], ...]
"""Blocks of actions in order, each with what is active while it runs."""


def _script(
    mask: int,
    arcs: tuple[CompiledTransition, ...],
    exits: tuple[Node, ...],
    entries: tuple[tuple[Node, tuple[Do, ...]], ...],
) -> Script | None:
    """Return all that a microstep does as one list; None if it does more than run actions."""
    if any(node.calls or node.waits for node in exits) or any(_does_more(n) for n, _ in entries):
        return None
    found: list[tuple[int, tuple[Do, ...]]] = []
    for node in exits:
        found += [(mask, block) for block in node.exit]
        mask &= ~node.bit
    found += [(mask, arc.actions) for arc in arcs]
    for node, block in entries:
        mask |= node.bit
        found += [(mask, each) for each in (*node.entry, block)]
    return tuple((active, block) for active, block in found if block)


def _does_more(node: Node) -> bool:
    return bool(node.calls or node.waits or node.kind == "final" or node.data)


# ---------------------------------------------------------------- working a plan out


def work_out(
    layout: Layout, mask: int, arcs: tuple[CompiledTransition, ...], history: History
) -> Plan:
    """Apply the SCXML algorithm's rules for conflicts, exit sets and entry sets."""
    kept = _without_conflicts(layout, mask, arcs, history)
    leaving = 0
    for arc in kept:
        leaving |= _exit_set(layout, mask, arc, history)
    exits = layout.nodes_of(leaving)
    exits.reverse()
    records = tuple(record for node in exits for record in _records(layout, mask, node))
    entry = _Entry(layout, {**history, **dict(records)})
    for arc in kept:
        entry.add_transition(arc)
    entries = tuple((node, entry.block(node)) for node in layout.nodes_of(entry.mask))
    return Plan(
        arcs=kept,
        exits=tuple(exits),
        records=records,
        entries=entries,
        before=mask,
        mask=mask & ~leaving | entry.mask,
        is_remembering=entry.is_remembering,
    )


def _without_conflicts(
    layout: Layout, mask: int, arcs: tuple[CompiledTransition, ...], history: History
) -> tuple[CompiledTransition, ...]:
    """Drop transitions that leave the same states as others: the innermost source wins."""
    if len(arcs) < 2:
        return arcs
    kept: list[tuple[CompiledTransition, int]] = []
    for arc in arcs:
        leaving = _exit_set(layout, mask, arc, history)
        rivals = [pair for pair in kept if pair[1] & leaving]
        if all(arc.source.above & rival.source.bit for rival, _ in rivals):
            kept = [pair for pair in kept if pair not in rivals]
            kept.append((arc, leaving))
    return tuple(arc for arc, _ in kept)


def _exit_set(layout: Layout, mask: int, arc: CompiledTransition, history: History) -> int:
    if not arc.targets:
        return 0
    if layout.root in arc.targets:
        return mask
    return mask & _domain(layout, arc, history).below


def _domain(layout: Layout, arc: CompiledTransition, history: History) -> Node:
    targets = _effective(layout, arc.targets, history)
    source = arc.source
    inside = all(target.above & source.bit for target in targets)
    if not inside and not layout.is_scxml:
        inside = all(target is source or target.above & source.bit for target in targets)
        if inside and arc.is_internal:
            return source
    if arc.is_internal and source.kind in layout.internal_kinds and inside:
        return source
    return _common(layout, source, targets)


def _effective(layout: Layout, targets: tuple[Node, ...], history: History) -> list[Node]:
    """Return the targets with history replaced by what it stands for."""
    found: list[Node] = []
    for target in targets:
        if target.kind != "history":
            found.append(target)
        elif target.id in history:
            found.extend(layout.nodes[name] for name in history[target.id])
        elif target.initial is not None:
            found.extend(_effective(layout, target.initial.targets, history))
    return found


def _common(layout: Layout, source: Node, targets: list[Node]) -> Node:
    """Return the nearest compound state above the source that is above all targets."""
    for ancestor in source.ancestors():
        is_compound = ancestor.kind == "compound" or ancestor is layout.root
        if is_compound and all(target.above & ancestor.bit for target in targets):
            return ancestor
    return layout.root


def _records(layout: Layout, mask: int, node: Node) -> list[tuple[str, tuple[str, ...]]]:
    """Return what the history states of a state that is left will remember."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for history in node.history:
        if history.state.is_deep:
            inner = [below for below in layout.nodes_of(mask & node.below) if below.is_leaf]
        else:
            inner = [child for child in node.children if mask & child.bit]
        found.append((history.id, tuple(each.id for each in inner)))
    return found


class _Entry:
    """The entry set of a microstep while it is collected."""

    def __init__(self, layout: Layout, history: History) -> None:
        self.layout = layout
        self.history = history
        self.mask = 0
        self.is_remembering = False
        self.by_default: set[Node] = set()
        self.default_content: dict[Node, tuple[Do, ...]] = {}

    def block(self, node: Node) -> tuple[Do, ...]:
        """Return what is done right after a state's own entry actions."""
        initial = node.initial.actions if node in self.by_default and node.initial else ()
        return (*initial, *self.default_content.get(node, ()))

    def add_transition(self, arc: CompiledTransition) -> None:
        if not arc.targets:
            return
        domain = _domain(self.layout, arc, self.history)
        before = self.mask & domain.bit
        for target in arc.targets:
            self._descend(target)
        for target in _effective(self.layout, arc.targets, self.history):
            if target is not domain:
                self._climb(target, domain)
        if domain.kind == "parallel":
            self._fill(domain)
        if domain is arc.source and arc.index >= 0:
            # An internal transition does not enter its own state again; another one may.
            self.mask = self.mask & ~domain.bit | before

    def _descend(self, node: Node) -> None:
        if node.kind == "history":
            self._remember(node)
            return
        self.mask |= node.bit
        if node.kind == "compound" and node.initial is not None:
            self.by_default.add(node)
            self._enter_all(node.initial.targets, node)
        elif node.kind == "parallel":
            self._fill(node)

    def _remember(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        self.is_remembering = True
        recorded = self.history.get(node.id)
        if recorded is not None:
            self._enter_all(tuple(self.layout.nodes[name] for name in recorded), parent)
        elif node.initial is not None:
            self.default_content[parent] = node.initial.actions
            self._enter_all(node.initial.targets, parent)

    def _enter_all(self, targets: tuple[Node, ...], above: Node) -> None:
        for target in targets:
            self._descend(target)
        for target in targets:
            self._climb(target, above)

    def _climb(self, node: Node, until: Node) -> None:
        for ancestor in node.ancestors(until):
            self.mask |= ancestor.bit
            if ancestor.kind == "parallel":
                self._fill(ancestor)

    def _fill(self, node: Node) -> None:
        """Enter the regions of a parallel state that are not entered yet."""
        for child in node.children:
            if not self.mask & (child.bit | child.below):
                self._descend(child)
