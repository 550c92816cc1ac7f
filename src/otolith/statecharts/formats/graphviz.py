"""A definition as a graph of Graphviz's DOT language.

A state with others inside is a cluster, and a region of a parallel one a dashed cluster. DOT draws
arrows between nodes only: a cluster has an invisible point in it for the arrows of the cluster
itself, which are cut at its border (`lhead`, `ltail`). An arrow that stays inside of its cluster
cannot be cut: from the cluster it starts at a dashed `*` ("from anywhere in here"), to the cluster
it ends at a dashed node of its name. Every id, name and label is a quoted string.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from otolith.statecharts.definition import Definition, State, Transition, validate
from otolith.statecharts.formats.labels import state_lines, state_name, transition_label

_ACTIVE = 'fillcolor="#ffe08a", color="#b36b00", penwidth=3'


def to_dot(definition: Definition, active: Collection[str] = ()) -> str:
    """Return a graph of the chart; the `active` states, and the clusters around them, stand out."""
    return _Writer(definition, frozenset(active)).document()


def quoted(text: str) -> str:
    """Return a text as a quoted string of DOT, each line of it centred."""
    safe = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class _Writer:
    def __init__(self, definition: Definition, active: frozenset[str]) -> None:
        validate(definition)
        self._definition = definition
        self._numbers: dict[str, int] = {}
        self._above: dict[str, tuple[State, ...]] = {}
        self._states: dict[str, State] = {}
        for state, above in _walk(definition.root, ()):
            self._numbers[state.id] = len(self._numbers)
            self._above[state.id] = above
            self._states[state.id] = state
        self._ghosts: dict[str, dict[str, str]] = {id: {} for id in self._states}
        """Dashed nodes to be drawn inside a cluster, by the name of the node."""
        around = {state.id for id in active & self._above.keys() for state in self._above[id]}
        self._active = active | around

    def document(self) -> str:
        ways = [line for state in self._states.values() for line in self._ways(state)]
        lines = [
            "compound=true",
            "newrank=true",  # without it dot fails on some charts that are deep and dense
            'fontname="Helvetica"',
            'node [shape=box, style="rounded,filled", fillcolor="#f7f7ff", fontname="Helvetica"]',
            'edge [fontname="Helvetica", fontsize=10]',
            *self._cluster(self._definition.root, None),
            *ways,
        ]
        name = quoted(self._definition.name or "chart")
        return "\n".join([f"digraph {name} {{", *_indented(lines), "}"]) + "\n"

    # ------------------------------------------------------------ states

    def _state(self, state: State, parent: State) -> list[str]:
        if state.children:
            return self._cluster(state, parent)
        look = [f"label={quoted(self._text(state, parent))}"]
        if state.kind == "history":
            look += ["shape=circle", 'style="filled"', f"tooltip={quoted(state.id)}"]
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
        is_region = parent is not None and parent.kind == "parallel"
        lines = [
            f"label={quoted(self._text(state, parent))}",
            f'style="{"rounded,dashed" if is_region else "rounded"}"',
            f'{self._node(state)} [shape=point, style=invis, width=0, height=0, label=""]',
        ]
        is_active = state.id in self._active and parent is not None
        lines.append('color="#b36b00"' if is_active else 'color="#8888aa"')
        lines.append(f"penwidth={3 if is_active else 1}")
        lines += self._ghosts[state.id].values()
        for child in state.children:
            lines += self._state(child, state)
        if state.kind == "compound" and state.initial is not None:
            lines += self._initial(state, state.initial)
        return [f"subgraph {self._box(state)} {{", *_indented(lines), "}"]

    def _initial(self, state: State, initial: Transition) -> list[str]:
        start = quoted(f"start {self._numbers[state.id]}")
        dot = f'{start} [shape=circle, style=filled, fillcolor=black, width=0.15, label=""]'
        return [dot, *(self._arrow(start, None, target, initial) for target in initial.targets)]

    # ------------------------------------------------------------ ways

    def _ways(self, state: State) -> Iterator[str]:
        ways = state.transitions
        if state.kind == "history" and state.initial is not None:
            ways = (state.initial,)
        for number, way in enumerate(ways):
            if len(way.targets) > 1:
                yield from self._fork(state, number, way)
            elif way.targets:
                start = self._start(state, [way.targets[0]])
                yield self._arrow(start, state, way.targets[0], way)

    def _fork(self, state: State, number: int, way: Transition) -> Iterator[str]:
        """Yield a bar that one arrow leads to and several leave."""
        bar = quoted(f"fork {self._numbers[state.id]} {number}")
        yield f'{bar} [shape=box, style=filled, fillcolor=black, width=0.6, height=0.06, label=""]'
        start = self._start(state, way.targets)
        look = [f"label={quoted(transition_label(way))}"]
        look += [f"ltail={self._box(state)}"] if state.children and "any" not in start else []
        yield f"{start} -> {bar} [{', '.join(look)}]"
        for target in way.targets:
            yield self._arrow(bar, None, target, None)

    def _arrow(self, start: str, source: State | None, target: str, way: Transition | None) -> str:
        end = self._states[target]
        is_up = source is not None and bool(end.children) and self._is_inside(source, end)
        look = [f"label={quoted('' if way is None else transition_label(way))}"]
        if source is not None and source.children and not self._is_inside(end, source):
            look.append(f"ltail={self._box(source)}")
        if is_up:
            return f"{start} -> {self._ghost(end, 'again')} [{', '.join(look)}]"
        if end.children:
            look.append(f"lhead={self._box(end)}")
        return f"{start} -> {self._node(end)} [{', '.join(look)}]"

    def _start(self, source: State, targets: Iterable[str]) -> str:
        """Return the node where an arrow starts: of a cluster, its point or its `*`."""
        is_inward = any(self._is_inside(self._states[target], source) for target in targets)
        return self._ghost(source, "any") if source.children and is_inward else self._node(source)

    def _ghost(self, state: State, word: str) -> str:
        node = quoted(f"{word} {self._numbers[state.id]}")
        above = self._above[state.id]
        label = "*" if word == "any" else self._name(state, above[-1] if above else None)
        look = f'label={quoted(label)}, style="rounded,dashed", color="#999999"'
        self._ghosts[state.id][node] = f"{node} [{look}]"
        return node

    def _is_inside(self, state: State, around: State) -> bool:
        return state is around or any(above is around for above in self._above[state.id])

    def _node(self, state: State) -> str:
        return quoted(f"state {self._numbers[state.id]}")

    def _box(self, state: State) -> str:
        return quoted(f"cluster {self._numbers[state.id]}")


def _walk(state: State, above: tuple[State, ...]) -> Iterator[tuple[State, tuple[State, ...]]]:
    yield state, above
    for child in state.children:
        yield from _walk(child, (*above, state))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
