"""Random charts run as the algorithm is written, line by line, and as it is compiled: the same."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from otolith.errors import StepFailed
from otolith.statecharts import Chart, ChartSnapshot
from otolith.statecharts.definition import Definition, State, Transition

EVENTS = ("e", "f", "g")


class Letter:
    """The W3C pseudo-code with lists and sets, for charts without data; slow and plain."""

    def __init__(self, definition):
        self.parent: dict[Any, Any] = {}
        self.states: dict[Any, Any] = {}
        self.root = definition.root.id
        self._visit(definition.root, None)
        self.order = list(self.states)
        self.active, self.history, self.internal = set(), {}, []
        self.is_over = False

    def _visit(self, state, parent):
        self.states[state.id], self.parent[state.id] = state, parent
        for child in state.children:
            self._visit(child, state.id)

    def children(self, id):
        return [child.id for child in self.states[id].children if child.kind != "history"]

    def ancestors(self, id, until=None):
        found, at = [], self.parent[id]
        while at is not None and at != until:
            found.append(at)
            at = self.parent[at]
        return found

    def is_below(self, id, above):
        return above in self.ancestors(id)

    def is_leaf(self, id):
        return self.states[id].kind in {"atomic", "final"}

    def leaves(self):
        return tuple(id for id in self.order if id in self.active and self.is_leaf(id))

    def start(self):
        self.enter(
            [Transition((), self.states[self.root].initial.targets, is_internal=False)], None
        )
        self.active.add(self.root)
        self.settle()

    def send(self, event):
        if not self.is_over:
            self.microstep(self.select(event))
            self.settle()

    def settle(self):
        while not self.is_over:
            chosen = self.select("")
            if not chosen:
                if not self.internal:
                    return
                chosen = self.select(self.internal.pop(0))
            self.microstep(chosen)

    def select(self, event):
        chosen = []
        for leaf in self.leaves():
            pair = self.first(leaf, event)
            if pair is not None and pair not in chosen:
                chosen.append(pair)
        kept: list[tuple[str, Transition]] = []
        for source, way in chosen:
            rivals = [p for p in kept if self.exits(*p) & self.exits(source, way)]
            if all(self.is_below(source, other) for other, _ in rivals):
                kept = [p for p in kept if p not in rivals] + [(source, way)]
        return kept

    def first(self, leaf, event):
        for id in (leaf, *self.ancestors(leaf)):
            for way in self.states[id].transitions:
                if (not way.events) if event == "" else event in way.events:
                    return id, way
        return None

    def effective(self, targets):
        found = []
        for target in targets:
            if self.states[target].kind != "history":
                found.append(target)
            elif target in self.history:
                found += self.history[target]
            else:
                found += self.effective(self.states[target].initial.targets)
        return found

    def domain(self, source, way):
        targets = self.effective(way.targets)
        inside = all(self.is_below(target, source) for target in targets)
        if way.is_internal and self.states[source].kind == "compound" and inside:
            return source
        for above in self.ancestors(source):
            is_compound = self.states[above].kind == "compound"
            if is_compound and all(self.is_below(target, above) for target in targets):
                return above
        return self.root

    def exits(self, source, way):
        if not way.targets:
            return set()
        domain = self.domain(source, way)
        return {id for id in self.active if self.is_below(id, domain)}

    def microstep(self, chosen):
        leaving = set().union(*(self.exits(*pair) for pair in chosen))
        for id in leaving:
            for child in self.states[id].children:
                if child.kind == "history":
                    self.history[child.id] = [
                        other
                        for other in self.order
                        if other in self.active
                        and (
                            self.is_below(other, id) and self.is_leaf(other)
                            if child.is_deep
                            else self.parent[other] == id
                        )
                    ]
        self.active -= leaving
        for source, way in chosen:
            if way.targets:
                self.enter([way], self.domain(source, way))

    def enter(self, ways, domain):
        entering: set[str] = set()
        for way in ways:
            for target in way.targets:
                self.descend(target, entering)
            for target in self.effective(way.targets):
                self.climb(target, domain, entering)
        for id in sorted(entering, key=self.order.index):
            self.active.add(id)
        for id in sorted(entering, key=self.order.index):
            if self.states[id].kind == "final":
                self.finish(id)

    def descend(self, id, entering):
        state = self.states[id]
        if state.kind == "history":
            targets = self.history.get(id) or state.initial.targets
            self.descend_all(targets, self.parent[id], entering)
            return
        entering.add(id)
        if state.kind == "compound":
            self.descend_all(state.initial.targets, id, entering)
        elif state.kind == "parallel":
            self.fill(id, entering)

    def descend_all(self, targets, above, entering):
        for target in targets:
            self.descend(target, entering)
        for target in targets:
            self.climb(target, above, entering)

    def climb(self, id, until, entering):
        for above in self.ancestors(id, until):
            entering.add(above)
            if self.states[above].kind == "parallel":
                self.fill(above, entering)

    def fill(self, id, entering):
        for child in self.children(id):
            if not any(other == child or self.is_below(other, child) for other in entering):
                self.descend(child, entering)

    def finish(self, id):
        parent = self.parent[id]
        if parent == self.root:
            self.is_over = True
            return
        self.internal.append(f"done.state.{parent}")
        above = self.parent[parent]
        while self.states[above].kind == "parallel" and self.is_in_final(above):
            self.internal.append(f"done.state.{above}")
            above = self.parent[above]

    def is_in_final(self, id):
        if self.states[id].kind == "parallel":
            return all(self.is_in_final(child) for child in self.children(id))
        kinds = [self.states[child].kind for child in self.children(id) if child in self.active]
        return kinds == ["final"]


@st.composite
def definitions(draw):
    """Draw a chart: nested and parallel states, history, final states, transitions anywhere."""
    numbers = count()
    shape = draw(_shapes(numbers, depth=0))
    ids = [id for id in _ids(shape) if id != shape["id"]]
    return Definition(
        name="random", root=_state(draw, shape, ids, is_root=True), matching="prefix", is_scxml=True
    )


@st.composite
def _shapes(draw, numbers, depth):
    id = f"s{next(numbers)}"
    kinds = ["compound"] if depth == 0 else ["atomic", "atomic", "final", "compound", "parallel"]
    kind = draw(st.sampled_from(kinds if depth < 3 else ["atomic", "final"]))
    children = []
    if kind in {"compound", "parallel"}:
        children = [draw(_shapes(numbers, depth + 1)) for _ in range(draw(st.integers(1, 3)))]
        if kind == "parallel":
            children = [child for child in children if child["kind"] != "final"]
            kind = "parallel" if children else "atomic"
    history = None
    if kind == "compound" and depth and draw(st.booleans()):
        history = {"id": f"h{next(numbers)}", "kind": "history", "children": []}
        history["deep"] = draw(st.booleans())
    return {"id": id, "kind": kind, "children": [*children, *([history] if history else [])]}


def _ids(shape):
    yield shape["id"]
    for child in shape["children"]:
        yield from _ids(child)


def _state(draw, shape, ids, *, is_root=False):
    inner = [child["id"] for child in shape["children"] if child["kind"] != "history"]
    children = []
    for child in shape["children"]:
        if child["kind"] == "history":
            way = Transition((), (draw(st.sampled_from(inner)),), is_internal=False)
            children.append(State(child["id"], "history", initial=way, is_deep=child["deep"]))
        else:
            children.append(_state(draw, child, ids))
    initial = None
    if shape["kind"] == "compound":
        initial = Transition((), (draw(st.sampled_from(inner)),), is_internal=False)
    ways = []
    if not is_root and shape["kind"] in {"atomic", "compound", "parallel"}:
        for _ in range(draw(st.integers(0, 2))):
            names = draw(st.lists(st.sampled_from([*EVENTS, *_dones(ids)]), min_size=1, max_size=2))
            targets = draw(st.lists(st.sampled_from(ids), max_size=1))
            ways.append(Transition(tuple(names), tuple(targets), is_internal=draw(st.booleans())))
    return State(
        shape["id"],
        shape["kind"],
        children=tuple(children),
        initial=initial,
        transitions=tuple(ways),
    )


def _dones(ids):
    return [f"done.state.{id}" for id in ids[:2]]


def resting(chart, events):
    """Return the steps of a run; a chart that goes round in circles is not what we look for."""
    try:
        steps = [chart.start(session="x")]
        for event in events:
            steps.append(chart.step(steps[-1].snapshot, event))
    except StepFailed:
        reject()
    return steps


@settings(max_examples=2 * settings().max_examples)
@given(definitions(), st.lists(st.sampled_from(EVENTS), max_size=12))
def test_the_compiled_chart_does_what_the_letter_says(definition, events):
    first, *steps = resting(Chart(definition), events)
    letter = Letter(definition)
    letter.start()

    assert first.snapshot.configuration == letter.leaves()
    for event, (snapshot, _, _) in zip(events, steps, strict=True):
        letter.send(event)
        assert snapshot.configuration == letter.leaves()
        assert (snapshot.status == "done") == letter.is_over


@settings(max_examples=2 * settings().max_examples)
@given(definitions(), st.lists(st.sampled_from(EVENTS), max_size=12))
def test_a_run_that_is_written_down_after_every_step_is_the_same_run(definition, events):
    first, *steps = resting(Chart(definition), events)
    there = Chart(definition).start(session="x")

    assert there == first
    for event, here in zip(events, steps, strict=True):
        kept = json.dumps(there.snapshot.to_data())
        there = Chart(definition).step(ChartSnapshot.from_data(json.loads(kept)), event)
        assert there == here
