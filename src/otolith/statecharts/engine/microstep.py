"""The SCXML algorithm for one session: microsteps and macrosteps.

To be read beside appendix D of the W3C recommendation: what is there a procedure is here a function
of the same name (`computeExitSet` is `compute_exit_set`), with these differences.

1. Sets of states are bit masks (see `compiled_chart.py`); `nodes_of` gives them in document order,
   reversed it is exit order.
2. Exit sets and entry sets depend on the configuration, the transitions and the history alone, so
   they are computed once and cached as a `MicrostepPlan`. `exit_states` and `enter_states` then
   only carry a plan out. A plan that does no more than run actions has a `script`: all blocks in
   order, each with the configuration that its expressions see.
3. `select_transitions` takes "" to select eventless transitions. It asks guards and leaves
   conflicts in; the plan removes them, because that too can be cached.
4. XState lets an internal transition stay inside a parallel state or target its own state, and one
   between two regions exits the regions and not the parallel state. SCXML does not;
   `get_transition_domain` and `find_lcca` say where the two differ.
5. An eventless transition that changes neither the active states, nor the data, nor the history,
   and invokes nothing, is taken again and again in SCXML, until the limit. In other charts, as in
   XState, it is taken once after each event: `macrostep` asks for others only after the next one.
6. In XState a state is asked only if no state inside it takes the event, in whichever region;
   `innermost` drops the others. In SCXML each region asks for itself.
7. A parallel state may be the root, and a final state a region, as in XState. A final region is
   done; SCXML has neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from otolith.errors import StepFailed
from otolith.frozen import EMPTY
from otolith.statecharts.engine.compiled_chart import (
    Candidates,
    CompiledChart,
    CompiledTransition,
    StateNode,
    cache_put,
    innermost,
)
from otolith.statecharts.engine.executable_content import CompiledBlock, GuardFunction, parse_delay
from otolith.statecharts.engine.session import ChartFailure, ChartSession, freeze_value
from otolith.statecharts.snapshot import ChartEvent, Microstep, Timer

MAX_MICROSTEPS = 1_000
"""How many microsteps a macrostep may take before it counts as endless."""

Transitions: TypeAlias = tuple[CompiledTransition, ...]
History: TypeAlias = Mapping[str, tuple[str, ...]]


# ---------------------------------------------------------------- plans


class MicrostepPlan:
    """What a set of transitions does in a configuration."""

    __slots__ = (
        "_line",
        "entries",
        "exits",
        "has_invokes",
        "history",
        "is_plain",
        "mask",
        "script",
        "transitions",
    )

    def __init__(
        self, chart: CompiledChart, mask: int, transitions: Transitions, history: History
    ) -> None:
        self.transitions = remove_conflicting_transitions(chart, mask, transitions, history)
        exit_set = 0
        for transition in self.transitions:
            exit_set |= compute_exit_set(chart, mask, transition, history)
        self.exits = tuple(reversed(chart.nodes_of(exit_set)))
        self.history = {
            state.id: _history_value(chart, mask, node, state)
            for node in self.exits
            for state in node.history_states
        }
        """What the history states of the exited states remember from now on."""
        entry_set = compute_entry_set(chart, self.transitions, {**history, **self.history})
        self.entries = tuple(
            (node, entry_set.content_after_entry(node)) for node in chart.nodes_of(entry_set.mask)
        )
        self.has_invokes = any(node.invokes for node, _ in self.entries)
        self.mask = mask & ~exit_set | entry_set.mask
        """The configuration afterwards."""
        self.script = self._as_script(mask)
        self.is_plain = self.script == () and not self.history and not entry_set.uses_history
        self._line: Microstep | None = None

    def _as_script(self, mask: int) -> tuple[tuple[int, CompiledBlock], ...] | None:
        """Return all blocks in order, each with what is active then; None if that is not all."""
        entered = [node for node, _ in self.entries]
        has_lifetimes = any(node.invokes or node.delays for node in (*self.exits, *entered))
        if has_lifetimes or any(node.kind == "final" or node.data for node in entered):
            return None
        blocks: list[tuple[int, CompiledBlock]] = []
        for node in self.exits:
            blocks += [(mask, block) for block in node.exit]
            mask &= ~node.bit
        blocks += [(mask, transition.actions) for transition in self.transitions]
        for node, content in self.entries:
            mask |= node.bit
            blocks += [(mask, block) for block in (*node.entry, content)]
        return tuple((active, block) for active, block in blocks if block)

    def trace_line(self, event: str, path: str) -> Microstep:
        """Return the line of a trace for this plan; the latest one is reused."""
        line = self._line
        if line is None or line.event != event or line.session != path:
            exited = tuple(node.id for node in self.exits)
            taken = tuple(each.index for each in self.transitions if each.index >= 0)
            entered = tuple(node.id for node, _ in self.entries)
            line = self._line = Microstep(event, exited, taken, entered, path)
        return line


def plan_microstep(
    chart: CompiledChart, mask: int, transitions: Transitions, history: History
) -> MicrostepPlan:
    """Return the plan for these transitions, from the cache if it was made before."""
    key = (mask, transitions, tuple(sorted(history.items())) if history else ())
    plan: MicrostepPlan | None = chart.plans.get(key)
    if plan is None:
        plan = MicrostepPlan(chart, mask, transitions, history)
        cache_put(chart.plans, key, plan)
    return plan


# ---------------------------------------------------------------- which states are exited


def remove_conflicting_transitions(
    chart: CompiledChart, mask: int, transitions: Transitions, history: History
) -> Transitions:
    """Drop transitions that exit the same states as others: the innermost source wins."""
    if len(transitions) < 2:
        return transitions
    filtered: list[tuple[CompiledTransition, int]] = []
    for transition in transitions:
        exit_set = compute_exit_set(chart, mask, transition, history)
        conflicting = [pair for pair in filtered if pair[1] & exit_set]
        if all(transition.source.ancestor_mask & other.source.bit for other, _ in conflicting):
            filtered = [pair for pair in filtered if pair not in conflicting]
            filtered.append((transition, exit_set))
    return tuple(transition for transition, _ in filtered)


def compute_exit_set(
    chart: CompiledChart, mask: int, transition: CompiledTransition, history: History
) -> int:
    """Return the active states below the domain of a transition."""
    if not transition.targets:
        return 0
    is_of_root = transition.source is chart.root and not transition.is_internal
    if is_of_root or chart.root in transition.targets:
        return mask
    return mask & get_transition_domain(chart, transition, history).descendant_mask


def get_transition_domain(
    chart: CompiledChart, transition: CompiledTransition, history: History
) -> StateNode:
    """Return the state whose descendants a transition exits and enters."""
    targets = get_effective_target_states(chart, transition.targets, history)
    source, is_scxml = transition.source, chart.definition.is_scxml
    if transition.is_internal:
        inside = [target.ancestor_mask & source.bit for target in targets]
        if all(inside):
            if source.kind == "compound" or (source.kind == "parallel" and not is_scxml):
                return source
        elif not is_scxml and all(
            target is source or below for target, below in zip(targets, inside, strict=True)
        ):
            return source
    return find_lcca(chart, source, targets)


def get_effective_target_states(
    chart: CompiledChart, targets: tuple[StateNode, ...], history: History
) -> list[StateNode]:
    """Return the targets, with each history state replaced by the states that it stands for."""
    found: list[StateNode] = []
    for target in targets:
        if target.kind != "history":
            found.append(target)
        elif target.id in history:
            found.extend(chart.nodes[id] for id in history[target.id])
        elif target.initial is not None:
            found.extend(get_effective_target_states(chart, target.initial.targets, history))
    return found


def find_lcca(chart: CompiledChart, source: StateNode, targets: list[StateNode]) -> StateNode:
    """Return the least common ancestor of the source and all targets; in SCXML a compound one."""
    for ancestor in source.ancestors():
        can_be = ancestor.kind == "compound" or not chart.definition.is_scxml
        if can_be and all(target.ancestor_mask & ancestor.bit for target in targets):
            return ancestor
    return chart.root


def _history_value(
    chart: CompiledChart, mask: int, parent: StateNode, history: StateNode
) -> tuple[str, ...]:
    """Return what a history state remembers when its parent is exited."""
    if history.state.is_deep:
        below = chart.nodes_of(mask & parent.descendant_mask)
        return tuple(node.id for node in below if node.is_leaf)
    return tuple(child.id for child in parent.children if mask & child.bit)


# ---------------------------------------------------------------- which states are entered


def compute_entry_set(chart: CompiledChart, transitions: Transitions, history: History) -> EntrySet:
    """Return the states that transitions enter, after the exits recorded this history."""
    entry_set = EntrySet(chart, history)
    for transition in transitions:
        if transition.targets:
            entry_set.add_transition(transition)
    return entry_set


class EntrySet:
    """The states to enter, collected transition by transition."""

    def __init__(self, chart: CompiledChart, history: History) -> None:
        self.mask = 0
        self.uses_history = False
        self._chart = chart
        self._history = history
        self._states_for_default_entry: set[StateNode] = set()
        self._default_history_content: dict[StateNode, CompiledBlock] = {}

    def content_after_entry(self, node: StateNode) -> CompiledBlock:
        """Return the actions that follow a state's own entry actions."""
        is_default = node in self._states_for_default_entry
        initial = node.initial.actions if is_default and node.initial else ()
        return (*initial, *self._default_history_content.get(node, ()))

    def add_transition(self, transition: CompiledTransition) -> None:
        """Add what one transition enters."""
        domain = get_transition_domain(self._chart, transition, self._history)
        before = self.mask & domain.bit
        for target in transition.targets:
            self.add_descendant_states_to_enter(target)
        targets = get_effective_target_states(self._chart, transition.targets, self._history)
        for target in targets:
            if target is not domain:
                self.add_ancestor_states_to_enter(target, domain)
        if domain.kind == "parallel":
            self._add_missing_regions(domain)
        if domain is transition.source:
            # An internal transition does not enter its own state again; one of the root may.
            self.mask = self.mask & ~domain.bit | (before if transition.is_internal else domain.bit)

    def add_descendant_states_to_enter(self, node: StateNode) -> None:
        """Add a state and, by default entry or history, those below it."""
        if node.kind == "history":
            self._add_history(node)
            return
        self.mask |= node.bit
        if node.kind == "compound" and node.initial is not None:
            self._states_for_default_entry.add(node)
            self._add_all(node.initial.targets, node)
        elif node.kind == "parallel":
            self._add_missing_regions(node)

    def add_ancestor_states_to_enter(self, node: StateNode, ancestor: StateNode) -> None:
        """Add the states between a state and its ancestor, with all regions of parallel ones."""
        for each in node.ancestors(ancestor):
            self.mask |= each.bit
            if each.kind == "parallel":
                self._add_missing_regions(each)

    def _add_history(self, node: StateNode) -> None:
        """Add the states that a history state remembers, or those of its default transition."""
        parent = node.parent
        assert parent is not None
        self.uses_history = True
        remembered = self._history.get(node.id)
        if remembered is not None:
            self._add_all(tuple(self._chart.nodes[id] for id in remembered), parent)
        elif node.initial is not None:
            self._default_history_content[parent] = node.initial.actions
            self._add_all(node.initial.targets, parent)

    def _add_all(self, targets: tuple[StateNode, ...], ancestor: StateNode) -> None:
        """Add targets with their descendants first, so that ancestors see regions already added."""
        for target in targets:
            self.add_descendant_states_to_enter(target)
        for target in targets:
            self.add_ancestor_states_to_enter(target, ancestor)

    def _add_missing_regions(self, parallel: StateNode) -> None:
        """Add the regions of a parallel state of which nothing is to be entered yet."""
        for child in parallel.children:
            if not self.mask & (child.bit | child.descendant_mask):
                self.add_descendant_states_to_enter(child)


# ---------------------------------------------------------------- macrosteps and microsteps


def macrostep(session: ChartSession) -> None:
    """Take eventless transitions and internal events until none is left, or the chart is done."""
    is_scxml = session.chart.definition.is_scxml
    recent: list[str] = []
    asks_eventless = True
    while not session.is_stopping:
        event = ""
        transitions = select_transitions(session, "") if asks_eventless else ()
        asks_eventless = True
        if not transitions:
            if not session.internal_queue:
                return
            session.event = session.internal_queue.popleft()
            event = session.event.name
            transitions = select_transitions(session, event)
            if not transitions:
                # The event may be that a guard failed: asked again, it would fail again, for ever.
                asks_eventless = not event.startswith("error.")
                continue
        if len(recent) == MAX_MICROSTEPS:
            raise _endless(session, recent)
        recent.append(", ".join(session.chart.leaf_ids(session.mask)))
        mask, data, history = session.mask, session.data, session.history
        plan = microstep(session, transitions, event)
        if not event and not is_scxml:
            is_same = session.data is data and session.history is history
            asks_eventless = not is_same or session.mask != mask or plan.has_invokes


def _endless(session: ChartSession, recent: list[str]) -> StepFailed:
    """Return the error for a macrostep that does not come to rest."""
    cycle = tuple(dict.fromkeys(recent[-50:]))
    return StepFailed(
        f"more than {MAX_MICROSTEPS} microsteps without coming to rest, in a cycle of"
        f" {' -> '.join(cycle)}",
        place=session.chart.definition.name,
        cycle=cycle,
        hint="an eventless transition or a raised event leads back to where it started",
    )


def select_transitions(session: ChartSession, event: str) -> Transitions:
    """Return the transitions that an event enables, for each active leaf the innermost one.

    Each guard is asked once, even where several regions share its transition.
    """
    candidates: Candidates = session.chart.candidates(session.mask, event)
    if candidates.unguarded is not None:
        return candidates.unguarded
    answers: dict[GuardFunction | None, bool] = {None: True}
    enabled: dict[CompiledTransition, None] = {}
    for group in candidates.groups:
        for transition in group:
            guard = transition.guard
            if guard is not None and guard not in answers:
                answers[guard] = guard(session)
            if answers[guard]:
                enabled[transition] = None
                break
    if event and len(enabled) > 1 and not session.chart.definition.is_scxml:
        return innermost(tuple(enabled))
    return tuple(enabled)


def microstep(session: ChartSession, transitions: Transitions, event: str) -> MicrostepPlan:
    """Exit states, execute the content of the transitions, enter states; return what was done."""
    plan = plan_microstep(session.chart, session.mask, transitions, session.history)
    session.scope.trace.append(plan.trace_line(event, session.path))
    if plan.history:
        session.history = {**session.history, **plan.history}
    if plan.script is not None:
        for session.mask, block in plan.script:
            session.execute(block)
        session.mask = plan.mask
        return plan
    exit_states(session, plan.exits)
    for transition in plan.transitions:
        session.execute(transition.actions)
    enter_states(session, plan)
    return plan


def exit_states(session: ChartSession, nodes: tuple[StateNode, ...]) -> None:
    """Exit states in the given order: actions, then timers and invoked children end."""
    for node in nodes:
        for block in node.exit:
            session.execute(block)
        if node.delays:
            names = {name for _, name in node.delays}
            session.timers = [timer for timer in session.timers if timer.id not in names]
        if node.invokes:
            _cancel_invokes(session, node)
        session.states_to_invoke &= ~node.bit
        session.mask &= ~node.bit


def enter_states(session: ChartSession, plan: MicrostepPlan) -> None:
    """Enter the states of a plan: late data, timers, entry actions, and `done` events."""
    for node, content in plan.entries:
        if node.invokes:
            if session.mask & node.bit:  # a history state may enter what its source has not left
                _cancel_invokes(session, node)
            session.states_to_invoke |= node.bit
        session.mask |= node.bit
        if (
            node.data
            and session.chart.definition.binding == "late"
            and node.id not in session.bound
        ):
            session.bound = (*session.bound, node.id)
            initialize_data(session, node)
        for delay, name in node.delays:
            try:
                due = session.scope.now + parse_delay(delay(session), node.id)
            except ChartFailure as failure:
                session.report(failure)
            else:
                event = ChartEvent(name, None, "platform")
                session.timers.append(Timer(due, session.scope.next_number(), name, event))
        for block in (*node.entry, content):
            session.execute(block)
        if node.kind == "final":
            _finish_ancestors(session, node)


def initialize_data(
    session: ChartSession, node: StateNode, given: Mapping[str, Any] = EMPTY
) -> None:
    """Give the variables of a state their first values; one whose expression fails is None."""
    for name, get in node.data:
        try:
            session.assign({name: given[name] if name in given else get(session)})
        except ChartFailure as failure:
            session.assign({name: None})
            session.report(failure)


# ---------------------------------------------------------------- final states


def _finish_ancestors(session: ChartSession, node: StateNode) -> None:
    """Raise `done.state` for each state that a final one completes; with the root, all is done.

    A compound state is done with its final child, a parallel state with the last of its regions.
    """
    done: list[StateNode] = []
    parent = node.parent
    if parent is not None and parent.kind == "compound":
        done.append(parent)
        parent = parent.parent
    while (
        parent is not None and parent.kind == "parallel" and is_in_final_state(parent, session.mask)
    ):
        done.append(parent)
        parent = parent.parent
    if parent is None:
        session.is_stopping = True
        done.pop()  # the root itself: nothing can wait for it any more
    for each in done:
        data = output_of(session, node) if each.kind == "compound" else None
        session.internal_queue.append(ChartEvent(f"done.state.{each.id}", data, "platform"))


def is_in_final_state(node: StateNode, mask: int) -> bool:
    """Return whether a state is done: it or a child is final, or all its regions are done."""
    if node.kind == "parallel":
        return all(is_in_final_state(child, mask) for child in node.children)
    if node.kind == "final":
        return bool(mask & node.bit)
    return any(child.kind == "final" and mask & child.bit for child in node.children)


def output_of(session: ChartSession, node: StateNode) -> Any:
    """Return the data of a state that is done; a value that fails is left out."""
    if node.output is None:
        return None
    content, params = node.output
    values: dict[str, Any] = {}
    for name, get in params if content is None else [("", content)]:
        try:
            values[name] = freeze_value(get(session))
        except ChartFailure as failure:
            session.report(failure)
    if content is not None:
        return values.get("")
    return freeze_value(values) if values else None


def exit_interpreter(session: ChartSession) -> None:
    """End a session: exit all states, compute its output; the final states stay in the snapshot."""
    chart: CompiledChart = session.chart
    final_configuration = session.mask
    children = chart.root.children
    final = next((n for n in children if n.kind == "final" and session.mask & n.bit), None)
    exit_states(session, tuple(reversed(chart.nodes_of(session.mask))))
    if final is not None:
        session.output = output_of(session, final)
    if chart.root.output is not None:
        session.event = ChartEvent("done", session.output, "platform")
        session.output = output_of(session, chart.root)
    session.mask = final_configuration
    session.status = "done"
    session.timers = []
    session.external_queue = []
    session.internal_queue.clear()


def _cancel_invokes(session: ChartSession, node: StateNode) -> None:
    """End the children that a state has invoked: sessions at once, services by an effect."""
    for child in [child for child in session.children if child.state == node.id]:
        session.children.remove(child)
        below = session.child_sessions.pop(child.id, None)
        if child.is_service:
            session.add_effect("stop", child.source or "", id=child.id)
        elif below is not None and below.status == "running":
            below.is_silent = True
            exit_interpreter(below)
