"""A chart drawn in Graphviz's DOT language.

A state with children is a cluster, and a region of a parallel state a dashed cluster. DOT draws
arrows between nodes only, so each cluster contains an invisible point for its own arrows, which are
cut at its border (`lhead`, `ltail`). An arrow that stays inside its cluster cannot be cut: it
starts at a dashed `*` ("from any state in here"), or ends at a dashed node with the cluster's name.
Every id, name and label is a quoted string.

The nodes of a chart with the states `draft` and `review` in that order:

    "cluster 0"  the root       "state 0"  its invisible point
    "state 1"    draft          "start 0"  the dot of its initial transition
    "state 2"    review         "any 0"    its `*`
    "fork 1 0"   the bar of draft's first transition, if it has several targets
    "again 0"    the node that stands for the root, for an arrow from inside to it

Render it with `dot -Tsvg chart.dot`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from otolith.statecharts.definition import Definition, State, Transition, validate, walk
from otolith.statecharts.formats.labels import (
    drawn_transitions,
    indent,
    state_lines,
    state_name,
    transition_label,
)

_ACTIVE = 'fillcolor="#ffe08a", color="#b36b00", penwidth=3'


def to_dot(definition: Definition, active: Collection[str] = ()) -> str:
    """Return a graph of the chart, with the `active` states and their clusters highlighted.

    Raises:
        BadChart: the chart is not valid.
    """
    return _Writer(definition, frozenset(active)).document()


def quote(text: str) -> str:
    """Return a text as a quoted DOT string, with centred lines."""
    safe = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class _Writer:
    """Draws one chart: states are numbered, since any text may be the id of a state."""

    def __init__(self, definition: Definition, active: frozenset[str]) -> None:
        validate(definition)
        self._definition = definition
        self._numbers: dict[str, int] = {}
        self._above: dict[str, tuple[State, ...]] = {}
        self._states: dict[str, State] = {}
        for number, (state, above) in enumerate(walk(definition.root)):
            self._numbers[state.id] = number
            self._above[state.id] = above
            self._states[state.id] = state
        self._dashed_nodes: dict[str, dict[str, str]] = {id: {} for id in self._states}
        """Dashed nodes inside each cluster, by node name."""
        around = {state.id for id in active & self._above.keys() for state in self._above[id]}
        self._active = active | around

    def document(self) -> str:
        """Return the graph; the arrows are made first, since they add dashed nodes to clusters."""
        arrows = [line for state in self._states.values() for line in self._transitions_of(state)]
        lines = [
            "compound=true",
            "newrank=true",  # without it dot fails on some charts that are deep and dense
            'fontname="Helvetica"',
            'node [shape=box, style="rounded,filled", fillcolor="#f7f7ff", fontname="Helvetica"]',
            'edge [fontname="Helvetica", fontsize=10]',
            *self._cluster(self._definition.root, None),
            *arrows,
        ]
        name = quote(self._definition.name or "chart")
        return "\n".join([f"digraph {name} {{", *indent(lines), "}"]) + "\n"

    # ------------------------------------------------------------ states

    def _state(self, state: State, parent: State) -> list[str]:
        if state.children:
            return self._cluster(state, parent)
        look = [f"label={quote(self._text(state, parent))}"]
        if state.kind == "history":
            look += ["shape=circle", 'style="filled"', f"tooltip={quote(state.id)}"]
        elif state.kind == "final":
            look.append("peripheries=2")
        if state.id in self._active:
            look.append(_ACTIVE)
        return [f"{self._node(state)} [{', '.join(look)}]"]

    def _text(self, state: State, parent: State | None) -> str:
        if state.kind == "history":
            return "H*" if state.is_deep else "H"
        return "\n".join([self._name(state, parent), *state_lines(state)])

    def _name(self, state: State, parent: State | None) -> str:
        return self._definition.name or state.id if parent is None else state_name(state, parent)

    def _cluster(self, state: State, parent: State | None) -> list[str]:
        """Return a state with children: its point, its dashed nodes, its children, its start."""
        is_region = parent is not None and parent.kind == "parallel"
        lines = [
            f"label={quote(self._text(state, parent))}",
            f'style="{"rounded,dashed" if is_region else "rounded"}"',
            f'{self._node(state)} [shape=point, style=invis, width=0, height=0, label=""]',
        ]
        is_active = state.id in self._active and parent is not None
        lines.append('color="#b36b00"' if is_active else 'color="#8888aa"')
        lines.append(f"penwidth={3 if is_active else 1}")
        lines += self._dashed_nodes[state.id].values()
        for child in state.children:
            lines += self._state(child, state)
        if state.kind == "compound" and state.initial is not None:
            lines += self._initial(state, state.initial)
        return [f"subgraph {self._box(state)} {{", *indent(lines), "}"]

    def _initial(self, state: State, initial: Transition) -> list[str]:
        start = quote(f"start {self._numbers[state.id]}")
        dot = f'{start} [shape=circle, style=filled, fillcolor=black, width=0.15, label=""]'
        return [dot, *(self._arrow(start, None, target, initial) for target in initial.targets)]

    # ------------------------------------------------------------ transitions

    def _transitions_of(self, state: State) -> Iterator[str]:
        for number, transition in enumerate(drawn_transitions(state)):
            if len(transition.targets) > 1:
                yield from self._fork(state, number, transition)
            elif transition.targets:
                start = self._start(state, [transition.targets[0]])
                yield self._arrow(start, state, transition.targets[0], transition)

    def _fork(self, state: State, number: int, transition: Transition) -> Iterator[str]:
        """Yield a bar with one arrow to it and several from it."""
        bar = quote(f"fork {self._numbers[state.id]} {number}")
        yield f'{bar} [shape=box, style=filled, fillcolor=black, width=0.6, height=0.06, label=""]'
        start = self._start(state, transition.targets)
        look = [f"label={quote(transition_label(transition))}"]
        look += [f"ltail={self._box(state)}"] if state.children and "any" not in start else []
        yield f"{start} -> {bar} [{', '.join(look)}]"
        for target in transition.targets:
            yield self._arrow(bar, None, target, None)

    def _arrow(
        self, start: str, source: State | None, target: str, transition: Transition | None
    ) -> str:
        """Return an arrow from a node; `source` is None for a node that is not a state."""
        end = self._states[target]
        is_up = source is not None and bool(end.children) and self._is_inside(source, end)
        look = [f"label={quote('' if transition is None else transition_label(transition))}"]
        if source is not None and source.children and not self._is_inside(end, source):
            look.append(f"ltail={self._box(source)}")
        if is_up:
            return f"{start} -> {self._dashed_node(end, 'again')} [{', '.join(look)}]"
        if end.children:
            look.append(f"lhead={self._box(end)}")
        return f"{start} -> {self._node(end)} [{', '.join(look)}]"

    def _start(self, source: State, targets: Iterable[str]) -> str:
        """Return the node where an arrow starts: for a cluster, its point or its `*`."""
        is_inward = any(self._is_inside(self._states[target], source) for target in targets)
        if source.children and is_inward:
            return self._dashed_node(source, "any")
        return self._node(source)

    def _dashed_node(self, state: State, word: str) -> str:
        """Return a dashed node of a cluster, and remember to draw it: `any` or `again`."""
        node = quote(f"{word} {self._numbers[state.id]}")
        above = self._above[state.id]
        label = "*" if word == "any" else self._name(state, above[-1] if above else None)
        look = f'label={quote(label)}, style="rounded,dashed", color="#999999"'
        self._dashed_nodes[state.id][node] = f"{node} [{look}]"
        return node

    def _is_inside(self, state: State, around: State) -> bool:
        return state is around or any(above is around for above in self._above[state.id])

    def _node(self, state: State) -> str:
        return quote(f"state {self._numbers[state.id]}")

    def _box(self, state: State) -> str:
        return quote(f"cluster {self._numbers[state.id]}")
