"""Memory keeps its laws: decay, reinforcement, and a model that does the same without a store."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from otolith import Versioned
from otolith.memory import Memory, Note, ToolRecord, strength

importances = st.floats(0, 1)
ages = st.integers(0, 10**16)
uses = st.integers(0, 1000)
half_lives = st.floats(1, 1e9)


@given(importances, ages, ages, uses, half_lives)
def test_what_is_older_is_never_stronger(importance, one, other, count, half_life):
    young, old = sorted((one, other))
    fresh = strength(importance, age=young, uses=count, half_life_seconds=half_life)
    stale = strength(importance, age=old, uses=count, half_life_seconds=half_life)

    assert stale <= fresh <= importance


@given(importances, ages, ages, uses)
def test_using_a_note_never_lowers_it(importance, written, now, count):
    note = Note("k", "v", importance=importance, time=written, uses=count)
    at = max(written, now)
    used = Note("k", "v", importance=importance, time=written, uses=count + 1, used=at)

    for later in (0, 1, 10**9, 10**14):
        assert used.strength(at + later) >= note.strength(at + later)


@given(importances, ages, uses)
def test_what_is_pinned_is_constant(importance, age, count):
    assert strength(importance, age=age, uses=count, is_pinned=True) == importance


@given(importances, ages)
def test_a_clock_that_goes_back_makes_nothing_stronger_than_it_was(importance, back):
    note = Note("k", "v", importance=importance, time=back)

    assert note.strength(0) == importance


KEYS = st.sampled_from(["airline", "seat", "budget", "phone"])
STEPS = st.lists(st.sampled_from(["search", "compare", "book", "pay"]), unique=True, max_size=4)


class MemoryMachine(RuleBasedStateMachine):
    """A memory beside dicts that are copied at each commit, fork and rollback."""

    @initialize()
    def begin(self):
        self.now = 0
        self.state = Versioned(clock=self.clock)
        self.memory = Memory(self.state, clock=self.clock)
        self.model: dict[str, Any] = {"goal": "", "notes": {}, "plan": {}, "calls": []}
        self.commits = []
        self.forks = 0

    def clock(self):
        self.now += 1_000_000
        return self.now

    @rule(text=st.sampled_from(["fly", "eat", ""]))
    def set_goal(self, text):
        self.memory.goal = text
        self.model["goal"] = text

    @rule(key=KEYS, value=st.integers(0, 3), importance=importances)
    def note(self, key, value, importance):
        self.memory.note(key, value, importance)
        old = self.model["notes"].get(key)
        versions = [] if old is None else old["versions"]
        if old is not None and old["value"] != value:
            versions = [old["value"], *versions][:8]
        count = 0 if old is None else old["uses"]
        self.model["notes"][key] = {
            "value": value,
            "importance": importance,
            "uses": count,
            "versions": versions,
        }

    @rule(key=KEYS)
    def use(self, key):
        if key in self.model["notes"]:
            self.memory.use(key)
            self.model["notes"][key]["uses"] += 1

    @rule(key=KEYS)
    def forget(self, key):
        if key in self.model["notes"]:
            self.memory.forget(key)
            del self.model["notes"][key]

    @rule(steps=STEPS)
    def plan(self, steps):
        self.memory.plan(steps)
        old = self.model["plan"]
        kept = {name: state for name, state in old.items() if state in ("done", "failed")}
        kept = {name: state for name, state in kept.items() if name not in steps}
        self.model["plan"] = kept | {name: old.get(name, "pending") for name in steps}

    @rule(
        step=st.sampled_from(["search", "compare", "book", "pay"]),
        verb=st.sampled_from(["done", "fail", "begin"]),
    )
    def move(self, step, verb):
        if step in self.model["plan"]:
            getattr(self.memory, verb)(step)
            names = {"done": "done", "fail": "failed", "begin": "active"}
            self.model["plan"][step] = names[verb]

    @rule(name=st.sampled_from(["search", "book"]))
    def call(self, name):
        self.memory.record(ToolRecord(str(len(self.model["calls"])), name))
        self.model["calls"].append(name)

    @rule()
    def commit(self):
        self.commits.append((self.state.commit(allow_empty=True), deepcopy(self.model)))

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def roll_back(self, data):
        commit, model = data.draw(st.sampled_from(self.commits))
        self.state.rollback(commit, discard=True)
        self.model = deepcopy(model)

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def go_on_in_a_fork(self, data):
        commit, model = data.draw(st.sampled_from(self.commits))
        self.forks += 1
        self.state = self.state.fork(f"fork-{self.forks}", at=commit)
        self.memory = Memory(self.state, clock=self.clock)
        self.model = deepcopy(model)

    @precondition(lambda self: self.commits)
    @rule(data=st.data())
    def look_back(self, data):
        commit, model = data.draw(st.sampled_from(self.commits))
        self.check(Memory(self.state.at(commit)), model)

    @invariant()
    def agrees(self):
        if hasattr(self, "memory"):
            self.check(self.memory, self.model)

    def check(self, memory, model):
        assert memory.goal == model["goal"]
        assert {step.id: str(step.state) for step in memory.steps} == model["plan"]
        assert [step.id for step in memory.steps] == list(model["plan"])
        assert [call.name for call in memory.tool_calls] == model["calls"]
        found = {
            key: {
                "value": note.value,
                "importance": note.importance,
                "uses": note.uses,
                "versions": [old.value for old in note.versions],
            }
            for key, note in memory.notes.items()
        }
        assert found == model["notes"]


TestMemoryMachine = MemoryMachine.TestCase
