"""Reachability: the states, transitions and timers of a chart that are used, by its graph.

The graph (`explore.py`) has every configuration that the chart can rest in, with guards answering
either way, and the steps between them. A state that occurs in no step is unreachable; a leaf that
no step exits is a dead end; a configuration without a path to a final state cannot end. These are
proofs only if the graph is complete. If it was cut, or a step failed, most checks report nothing,
and the others fall back to what the definition alone shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.statecharts.analysis.explore import StateGraph, StepProblem
from otolith.statecharts.analysis.findings import Finding
from otolith.statecharts.definition import Literal, Transition
from otolith.statecharts.engine.compiled_chart import CompiledChart, CompiledTransition, StateNode
from otolith.statecharts.engine.executable_content import parse_delay
from otolith.statecharts.engine.session import ChartFailure
from otolith.statecharts.snapshot import Microstep


class Reachability:
    """The checks on behaviour; most need a complete graph, and report nothing without one."""

    def __init__(self, chart: CompiledChart, graph: StateGraph) -> None:
        self._chart = chart
        self._graph = graph
        self._is_complete = graph.is_complete and not graph.problems
        self._taken: set[int] = set()
        self._entered: set[str] = set()
        self._exited: set[str] = set()
        for trace in graph.traces():
            for line in trace:
                if not line.session:
                    self._taken.update(line.taken)
                    self._entered.update(line.entered)
                    self._exited.update(line.exited)
        self._rested = 0
        for each in graph.configurations:
            self._rested |= chart.mask_of(each.states)

    # ------------------------------------------------------------ states

    def unreachable(self) -> Iterator[Finding]:
        """Yield states that are never entered; of nested ones, the outermost."""
        entered = self._entered if self._is_complete else _states_named_by_transitions(self._chart)
        gone: set[str] = set()
        for node in self._chart.order[1:]:
            is_met = node.id in entered
            if node.kind == "history":
                is_met = not self._is_complete or node in self._remembered()
            if is_met:
                continue
            gone.add(node.id)
            if node.parent is not None and node.parent.id not in gone:
                message = f"{node.id} is never entered"
                hint = "lead a transition to it, or remove it"
                yield Finding("unreachable", "warning", node.id, message, hint)

    def _remembered(self) -> set[StateNode]:
        """Return the history states that a used transition leads to."""
        transitions = [self._chart.transitions[index] for index in self._taken]
        transitions += [
            node.initial for node in self._chart.order if node.initial and self._is_used(node)
        ]
        return {
            target
            for transition in transitions
            for target in transition.targets
            if target.kind == "history"
        }

    def _is_used(self, node: StateNode) -> bool:
        return node.kind != "history" and node.id in self._entered

    def dead_ends(self) -> Iterator[Finding]:
        """Yield leaves that are not final and are never left."""
        if not self._is_complete:
            return
        stuck = {id for each in self._graph.dead_ends for id in each.states}
        for node in self._chart.leaves:
            is_resting = bool(self._rested & node.bit) and node.kind != "final"
            if not is_resting or node.id in self._exited:
                continue
            has_elsewhere = node.parent is not None and len(node.parent.children) > 1
            if not has_elsewhere and node.id not in stuck:
                continue
            events = self._in_place(node)
            message = f"{node.id} is never left, and is not final"
            if events:
                message += f"; it only deals with {', '.join(events)} in place"
                yield Finding("dead_end", "note", node.id, message)
            else:
                hint = "give it a transition, or make it final"
                yield Finding("dead_end", "warning", node.id, message, hint)

    def _in_place(self, node: StateNode) -> list[str]:
        """Return the events that a state or an ancestor takes while it is active."""
        around = (node, *node.ancestors())
        transitions = [
            transition
            for each in around
            for transition in each.transitions
            if transition.index in self._taken
        ]
        return list(
            dict.fromkeys(event for transition in transitions for event in transition.events)
        )

    def without_final(self) -> Iterator[Finding]:
        """Yield states from which the chart cannot reach a final state, if it has one."""
        if not self._is_complete or not has_end(self._chart.root):
            return
        graph = self._graph
        done = {each.number for each in graph.configurations if each.status == "done"}
        good = graph.distances_to(done)
        saved = 0
        for each in graph.configurations:
            if each.number in good:
                saved |= self._chart.mask_of(each.states)
        if not done:
            names = ", ".join(self._chart.leaf_ids(_first_mask(self._chart, graph)))
            message = "no final state can be reached from the start"
            yield Finding(
                "no_final", "warning", names, message, "lead a transition to a final state"
            )
            return
        lost = [
            node.id
            for node in self._chart.leaves
            if self._rested & node.bit and not saved & node.bit and node.kind != "final"
        ]
        named = [id for id in lost if id in self._exited]
        if named:
            message = f"from {', '.join(named)} no final state can be reached"
            hint = "lead a transition to where it can end"
            yield Finding("no_final", "warning", ", ".join(named), message, hint)

    # ------------------------------------------------------------ steps

    def endless(self) -> Iterator[Finding]:
        """Yield steps that never come to rest."""
        reported: set[str] = set()
        for problem in self._graph.problems:
            cycle = _cycle(problem)
            if cycle in reported:
                continue
            reported.add(cycle)
            yield self._endless(problem, cycle)

    def _endless(self, problem: StepProblem, cycle: str) -> Finding:
        """Return the finding for a step that does not come to rest."""
        if problem.source < 0:
            states, when = "", "at the start"
        else:
            states = self._graph.configurations[problem.source].phase
            when = f"in {states} on {problem.event}"
        hint = "let a guard end it, or wait for an event"
        if problem.is_sure:
            message = f"{when} the chart never comes to rest: {cycle}"
            return Finding("endless", "error", states, message, hint)
        message = f"{when} the chart may never come to rest, if guards hold: {cycle}"
        return Finding("endless", "warning", states, message, hint)

    def never_taken(self) -> Iterator[Finding]:
        """Yield transitions of entered states that are never taken."""
        if not self._is_complete:
            return
        for transition in self._chart.transitions:
            if transition.index not in self._taken and transition.source.id in self._entered:
                message = f"{transition} is never taken"
                hint = "something else is always taken first, or its state is always left before"
                yield Finding(
                    "never_taken",
                    "warning",
                    transition.source.id,
                    message,
                    hint,
                    place_of(transition),
                )

    def idle_timers(self) -> Iterator[Finding]:
        """Yield delays that never pass."""
        for node in self._chart.order:
            if not node.delays:
                continue
            if self._is_always_left(node):
                message = f"{node.id} waits for time to pass, but is always left at once"
                hint = "remove the delay, or guard the eventless transition"
                yield Finding("after_never", "warning", node.id, message, hint)
            else:
                yield from _late_timers(node)

    def _is_always_left(self, node: StateNode) -> bool:
        """Return whether a state never rests; without a complete graph, whether it cannot."""
        if self._is_complete:
            return node.id in self._entered and not self._rested & node.bit
        return any(
            not transition.events and transition.guard is None and _leaves(transition)
            for transition in node.transitions
        )

    def idle_defaults(self) -> Iterator[Finding]:
        """Yield history states whose default is never used, because they always remember."""
        if not self._is_complete:
            return
        used: set[StateNode] = set()
        for _, trace in self._graph.opening:
            used |= self._defaults(trace, set())
        for edge in self._graph.edges:
            known = {name for name, _ in self._graph.configurations[edge.source].history}
            used |= self._defaults(edge.trace, known)
        for node in self._remembered() - used:
            message = f"the default of {node.id} is never used: something is always remembered"
            yield Finding("history_default", "note", node.id, message)

    def _defaults(self, trace: tuple[Microstep, ...], known: set[str]) -> set[StateNode]:
        """Return the history states that a step uses while they remember nothing."""
        found: set[StateNode] = set()
        nodes = self._chart.nodes
        for line in trace:
            if line.session:
                continue
            known |= {each.id for name in line.exited for each in nodes[name].history_states}
            transitions = [self._chart.transitions[index] for index in line.taken]
            transitions += [
                transition
                for name in line.entered
                if (transition := nodes[name].initial) is not None
            ]
            found |= {
                target
                for transition in transitions
                for target in transition.targets
                if target.kind == "history" and target.id not in known
            }
        return found


# ---------------------------------------------------------------- without exploring


def _states_named_by_transitions(chart: CompiledChart) -> set[str]:
    """Return the states that some transition leads to, whether or not it can be taken."""
    found: set[str] = set()
    waiting: list[StateNode] = [chart.root]
    while waiting:
        node = waiting.pop()
        if node.id in found:
            continue
        found.add(node.id)
        waiting += node.ancestors()
        if node.kind == "parallel":
            waiting += node.children
        transitions = [*node.transitions, *([node.initial] if node.initial is not None else [])]
        waiting += [target for transition in transitions for target in transition.targets]
    return found


def place_of(transition: CompiledTransition) -> str:
    """Return a text that identifies one transition of the chart."""
    return f"transition {transition.index}" + (
        f" at {transition.place}" if transition.place else ""
    )


def has_end(node: StateNode) -> bool:
    """Return whether a state can be done: by a final child, or by all of its regions."""
    if node.kind == "parallel":
        return all(has_end(child) for child in node.children)
    return node.kind == "final" or any(child.kind == "final" for child in node.children)


def _first_mask(chart: CompiledChart, graph: StateGraph) -> int:
    """Return the configuration that the chart starts in."""
    return chart.mask_of(graph.configurations[0].states) if graph.configurations else 0


def _cycle(problem: StepProblem) -> str:
    """Return the cycle of states that an endless step goes through, or else its error."""
    return " -> ".join(problem.cycle) or problem.message


def _leaves(transition: CompiledTransition) -> bool:
    """Return whether a transition always leaves its state."""
    return bool(transition.targets) and not any(
        target is transition.source or target.ancestor_mask & transition.source.bit
        for target in transition.targets
    )


def _late_timers(node: StateNode) -> Iterator[Finding]:
    """Yield delays that never pass because a shorter one always leaves the state."""
    waits = [
        (transition, delay)
        for transition, definition in zip(node.transitions, node.state.transitions, strict=True)
        if (delay := _delay(definition)) is not None
    ]
    first = min(
        (delay for transition, delay in waits if transition.guard is None and _leaves(transition)),
        default=None,
    )
    for transition, delay in waits:
        if first is not None and delay > first:
            message = f"{transition} is never taken: {node.id} is left before, by a shorter delay"
            yield Finding("after_never", "warning", node.id, message, "", place_of(transition))


def _delay(transition: Transition) -> int | None:
    """Return the delay of a transition in microseconds; None if it is computed or invalid."""
    if not isinstance(transition.delay, Literal):
        return None
    try:
        return parse_delay(transition.delay.value)
    except ChartFailure:
        return None
