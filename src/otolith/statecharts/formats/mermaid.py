"""A chart drawn as a Mermaid state diagram (`stateDiagram-v2`).

What Mermaid cannot draw is replaced:

- An arrow that leaves or enters a box is written after all boxes: a state belongs to the box in
  which its name was written last.
- An arrow from a box to a state inside it starts at a dashed `*` ("from any state in here"); one
  from inside to the box ends at a dashed state with the box's name.
- Several targets become a fork; an initial state that is nested deeper becomes a diamond.
- Regions are divided by `--`; regions of a parallel state inside another are dashed boxes.
- History is a state labelled `H` or `H*`. Entry, exit and invokes are lines in a state, or in a
  dashed state inside a box (notes at boxes make Mermaid 11 fail).

Mermaid 11 and 12 lay out a box that no arrow crosses separately. An arrow to a box that is crossed
is laid out as one to its first state, and Mermaid fails if that state is in an inner box that is
laid out separately. Such a box is *fragile* (`Borders`): its arrows start at its `*`, or end at a
dashed state with its name. Mermaid also fails if a box is written after a state that leads to it,
so boxes are written first. Texts are escaped, and ids that mean something to Mermaid are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from otolith.statecharts.definition import Definition, State, Transition, validate, walk
from otolith.statecharts.formats.labels import (
    drawn_transitions,
    indent,
    state_lines,
    state_name,
    transition_label,
)


class Borders:
    """The boxes of a chart and the arrows across their borders, as they are drawn.

    `above` has the ids of the ancestors of each state. A box is *crossed* if an arrow leads across
    its border; for the regions of a parallel state that are divided by lines, only arrows with one
    target count.
    """

    def __init__(self, states: dict[str, State], parents: dict[str, State | None]) -> None:
        self._states = states
        self._parents = parents
        self.above: dict[str, frozenset[str]] = {}
        for id, parent in parents.items():  # parents come before their children
            around = () if parent is None else (parent.id, *self.above[parent.id])
            self.above[id] = frozenset(around)
        self._crossed: set[str] = set()
        self._crossed_regions: set[str] = set()
        for state, transition in self._transitions_of():
            self._crossed |= self._crossed_by(state, transition)
            self._crossed_regions |= self._regions_crossed_by(state, transition)

    def boxes_with_entries(self) -> list[str]:
        """Return the fragile boxes that arrows lead to."""
        ends = {
            target
            for state, transition in self._transitions_of()
            for target in transition.targets
            if target not in self.above[state.id]
        }
        return [id for id in self._states if id in ends and self.is_fragile(id)]

    def is_fragile(self, id: str) -> bool:
        """Return whether Mermaid would fail on an arrow to or from a box."""
        if id not in self._crossed or not self._states[id].children:
            return False
        path = list(self._to_first(self._states[id]))
        return not all(path[:-1])

    def _to_first(self, state: State) -> Iterator[bool]:
        """Yield, for each box from one down to its first state, whether arrows cross it."""
        while state.children:
            has_dividers = self.has_dividers(state)
            state = self.drawn(state)[0]
            if has_dividers:
                yield state.id in self._crossed_regions
            if state.children:
                yield state.id in self._crossed

    def drawn(self, state: State) -> list[State]:
        """Return the children of a box in drawing order: boxes first, or regions as they are."""
        if state.kind == "parallel":
            return sorted(state.children, key=lambda child: child.kind == "history")
        return sorted(state.children, key=lambda child: not child.children)

    def has_dividers(self, state: State) -> bool:
        """Return whether lines divide a box: a parallel state that is not inside another."""
        around = (self._states[id].kind for id in self.above[state.id])
        return state.kind == "parallel" and "parallel" not in around

    def _transitions_of(self) -> Iterator[tuple[State, Transition]]:
        for state in self._states.values():
            for transition in state.transitions:
                yield state, transition
            if state.initial is not None:
                yield state, state.initial

    def _crossed_by(self, source: State, transition: Transition) -> set[str]:
        """Return the boxes whose border an arrow crosses."""
        here = set(self.above[source.id])
        ends = [self.above[target] for target in transition.targets]
        if transition is source.initial and source.kind != "history":
            return set().union(*ends) - here - {source.id}
        if len(ends) > 1:  # a fork, which is drawn outside all boxes
            is_inward = any(source.id in end for end in ends)
            return here.union(*ends, {source.id} if is_inward else ())
        if not ends:
            return set()
        if transition.targets[0] in here:
            parent = self._parents[source.id]
            return set() if parent is not None and parent.kind == "compound" else here
        return (here ^ ends[0]) - {source.id}

    def _regions_crossed_by(self, source: State, transition: Transition) -> set[str]:
        """Return the regions whose border an arrow crosses."""
        if transition is source.initial or len(transition.targets) != 1:
            return set()
        here = {source.id, *self.above[source.id]}
        there = {transition.targets[0], *self.above[transition.targets[0]]}
        is_inside = transition.targets[0] in here or source.id in there
        return set() if is_inside else here ^ there


_PLAIN_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9]+")
_END = re.compile(r".*_(start|end)", re.IGNORECASE)
"""Ids that Mermaid generates for the start and end of a box."""
_KEYWORDS = re.compile(
    r"(?i:acctitle|accdescr|as|choice|class|classdef|click|default|direction|divider|empty|end"
    r"|fork|graph|hide|href|join|left|link|linkstyle|note|of|right|root|scale|state|statediagram"
    r"|style|subgraph|title)"
    r"|constructor|hasOwnProperty|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf"
)
"""Keywords of Mermaid and properties of every JavaScript object: as ids they break a diagram."""
_PLAIN = frozenset(" _.,/()[]=+*-'!?|@$")
_MARKS = frozenset("\ufb02\u00b0\u00b6")
"""Letters that Mermaid uses internally in place of character numbers."""


def escape(text: str) -> str:
    """Return a text with every character that could break Mermaid as its number."""
    return "".join(_character(char) for char in text) or "#32;"


def _character(char: str) -> str:
    if char in _PLAIN or (char.isalnum() and char not in _MARKS):
        return char
    if not char.isprintable() or char.isspace():
        return " " if char.isspace() else "#65533;"
    return f"#{ord(char)};"


class DiagramIds:
    """Ids for states: the state's own where Mermaid accepts it, else a similar one or a number."""

    def __init__(self, ids: Iterable[str]) -> None:
        ids = list(ids)
        self._made = 0
        self._known = {id: id for id in ids if _is_plain(id)}
        self._taken = set(self._known)
        for id in ids:
            if id not in self._known:
                near = _NOT_PLAIN.sub("_", id).strip("_")
                is_free = _is_plain(near) and near not in self._taken
                self._known[id] = near if is_free else self.new("state")
                self._taken.add(self._known[id])

    def __getitem__(self, id: str) -> str:
        return self._known[id]

    def new(self, word: str) -> str:
        """Return an unused id."""
        self._made += 1
        id = f"{word}_{self._made}"
        if id in self._taken:
            return self.new(word)
        self._taken.add(id)
        return id


def _is_plain(id: str) -> bool:
    is_name = _PLAIN_ID.fullmatch(id) is not None and _END.fullmatch(id) is None
    return is_name and _KEYWORDS.fullmatch(id) is None


_STYLES = {
    "active": "fill:#ffe08a,stroke:#b36b00,stroke-width:3px",
    "around": "stroke:#b36b00,stroke-width:3px",
    "ghost": "fill:none,stroke:#999999,stroke-dasharray:4",
    "region": "stroke-dasharray:8",
}
"""Styles of active states, the boxes around them, dashed states, and regions without lines."""


def to_mermaid(definition: Definition, active: Collection[str] = ()) -> str:
    """Return a diagram of the chart, with the `active` states and their boxes highlighted.

    Raises:
        BadChart: the chart is not valid.
    """
    return _Writer(definition).document(frozenset(active))


class _Writer:
    """Draws one chart.

    Each method returns the lines for the box that it is called for; what must stand after all boxes
    is added to `_last`. `_entries` are the dashed states at which arrows to fragile boxes end.
    """

    def __init__(self, definition: Definition) -> None:
        validate(definition)
        self._root = definition.root
        self._chart = definition.name
        self._states: dict[str, State] = {}
        self._parents: dict[str, State | None] = {}
        for state, above in walk(self._root):
            self._states[state.id] = state
            self._parents[state.id] = above[-1] if above else None
        self._ids = DiagramIds(self._states)
        self._dashed_states: list[str] = []
        self._dashed_regions: list[str] = []
        self._last: list[str] = []
        """Lines after all boxes."""
        self._borders = Borders(self._states, self._parents)
        self._entries = {id: self._ids.new("ghost") for id in self._borders.boxes_with_entries()}

    def document(self, active: frozenset[str]) -> str:
        """Return the diagram; the box of a compound root is the diagram itself."""
        if self._root.kind == "compound":
            lines = self._inside(self._root)
        else:
            lines = self._state(self._root)
        lines += [*self._last, *self._classes(active)]
        return "\n".join(["stateDiagram-v2", *indent(lines)]) + "\n"

    # ------------------------------------------------------------ states

    def _state(self, state: State) -> list[str]:
        id, label = self._ids[state.id], escape(self._label(state))
        if not state.children:
            lines = [f'state "{label}" as {id}']
            lines += [f"{id} : {escape(line)}" for line in state_lines(state)]
            return [*lines, *([f"{id} --> [*]"] if state.kind == "final" else [])]
        return [f'state "{label}" as {id} {{', *indent(self._inside(state)), "}"]

    def _label(self, state: State) -> str:
        """Return the name of a state as it is shown."""
        if state is self._root:
            return self._chart or state.id
        name = state_name(state, self._parents[state.id])
        if state.kind == "history":
            return f"{'H*' if state.is_deep else 'H'} {name}"
        return name

    def _note(self, state: State) -> list[str]:
        """Return a dashed state with the entry, exit and invokes of a box."""
        lines = [escape(line) for line in state_lines(state)]
        ghost, id = self._dashed_state(self._label(state)) if lines else ([], "")
        return [*ghost, *(f"{id} : {line}" for line in lines)]

    def _inside(self, state: State) -> list[str]:
        """Return the content of a box: its states, its initial state and its arrows."""
        lines = self._children(state)
        if state.id in self._entries:
            ghost = self._entries[state.id]
            self._dashed_states.append(ghost)
            lines.append(f'state "{escape(self._label(state))}" as {ghost}')
        if state.kind == "compound" and state.initial is not None:
            lines += self._initial(state, state.initial)
        for child in state.children:
            for transition in drawn_transitions(child):
                lines += self._arrow_of(child, transition, state)
        return [*lines, *self._from_anywhere(state), *self._note(state)]

    def _children(self, state: State) -> list[str]:
        """Return the states inside a box; regions are divided by `--` or dashed."""
        has_dividers = self._borders.has_dividers(state)
        lines: list[str] = []
        for child in self._borders.drawn(state):
            is_region = state.kind == "parallel" and child.kind != "history"
            lines += ["--"] if lines and is_region and has_dividers else []
            lines += self._state(child)
            if is_region and not has_dividers:
                self._dashed_regions.append(self._ids[child.id])
        return lines

    def _initial(self, state: State, initial: Transition) -> list[str]:
        """Return the arrow from `[*]`; a fork or a diamond where Mermaid cannot draw it."""
        label = _label_suffix(initial)
        if len(initial.targets) == 1 and self._is_child_of_box(initial.targets[0], state):
            return [f"[*] --> {self._end(initial.targets[0])}{label}"]
        id = self._ids.new("fork")
        self._last += [f"{id} --> {self._end(target)}" for target in initial.targets]
        shape = "choice" if len(initial.targets) == 1 else "fork"
        return [f"state {id} <<{shape}>>", f"[*] --> {id}{label}"]

    # ------------------------------------------------------------ transitions

    def _arrow_of(self, source: State, transition: Transition, around: State) -> list[str]:
        """Return an arrow inside the box of its source, or add it to the end of the diagram."""
        if not transition.targets or self._is_from_anywhere(source, transition):
            return []
        id, label = self._ids[source.id], _label_suffix(transition)
        if len(transition.targets) > 1:
            self._last += self._fork(id, transition)
            return []
        target = transition.targets[0]
        if target in self._borders.above[source.id]:
            lines, end = self._dashed_state(self._label(self._states[target]))
        else:
            lines, end = [], self._end(target)
        arrow = [*lines, f"{id} --> {end}{label}"]
        if around.kind == "compound" and (lines or self._is_child_of_box(target, around)):
            return arrow
        self._last += arrow
        return []

    def _from_anywhere(self, state: State) -> list[str]:
        """Return a `*` that stands for any state of a box, for the arrows that start at the box."""
        transitions = [each for each in state.transitions if self._is_from_anywhere(state, each)]
        if not transitions:
            return []
        lines, start = self._dashed_state("*")
        for transition in transitions:
            if len(transition.targets) > 1:
                self._last += self._fork(start, transition)
            else:
                end = self._end_of_whole(transition.targets[0])
                self._last.append(f"{start} --> {end}{_label_suffix(transition)}")
        return lines

    def _fork(self, start: str, transition: Transition) -> list[str]:
        """Return a bar with one arrow to it, and one from it to each target."""
        fork = self._ids.new("fork")
        arrows = [f"{fork} --> {self._end(target)}" for target in transition.targets]
        return [f"state {fork} <<fork>>", f"{start} --> {fork}{_label_suffix(transition)}", *arrows]

    def _dashed_state(self, label: str) -> tuple[list[str], str]:
        """Return the lines and the id of a new dashed state."""
        id = self._ids.new("ghost")
        self._dashed_states.append(id)
        return [f'state "{escape(label)}" as {id}'], id

    def _end(self, target: str) -> str:
        return self._entries.get(target) or self._ids[target]

    def _end_of_whole(self, target: str) -> str:
        """Return where an arrow from a `*` ends; the chart itself is not drawn as a state."""
        if target != self._root.id:
            return self._end(target)
        lines, id = self._dashed_state(self._label(self._root))
        self._last += lines
        return id

    # ------------------------------------------------------------ places

    def _is_child_of_box(self, target: str, around: State) -> bool:
        """Return whether an arrow to this target can be written inside a box."""
        is_child = self._parents[target] is around
        return is_child and (around is self._root or target not in self._entries)

    def _is_from_anywhere(self, source: State, transition: Transition) -> bool:
        """Return whether an arrow of a box must start at its `*`."""
        if not transition.targets or not source.children:
            return False
        is_inward = any(source.id in self._borders.above[target] for target in transition.targets)
        return is_inward or source is self._root or self._borders.is_fragile(source.id)

    def _classes(self, active: frozenset[str]) -> list[str]:
        """Return the styles of the diagram, and which states have them."""
        shown = [id for id in self._states if id in active]
        around = {above for id in shown for above in self._borders.above[id]}
        around |= {id for id in shown if self._states[id].children}
        if self._root.kind == "compound":
            around.discard(self._root.id)
        classes = {
            "active": [self._ids[id] for id in shown if not self._states[id].children],
            "around": [self._ids[id] for id in self._states if id in around],
            "ghost": self._dashed_states,
            "region": self._dashed_regions,
        }
        lines: list[str] = []
        for name, ids in classes.items():
            lines += [f"classDef {name} {_STYLES[name]}"] if ids else []
            lines += [f"class {id} {name}" for id in ids]
        return lines


def _label_suffix(transition: Transition) -> str:
    label = transition_label(transition)
    return f" : {escape(label)}" if label else ""
