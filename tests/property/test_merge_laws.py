"""Merging keeps its laws: identity, symmetry, nothing lost and nothing counted twice."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otolith
from otolith.core.merge.values import combine_lines
from tests.reference.model_values import ABSENT, RECORDS, Record, brute_list_merge, brute_merge

MANY = settings(max_examples=4 * settings().max_examples)
SYMMETRIC = ["error", "last-writer", "max", "min", "counter", "set", "append", "map", "text"]

words = st.text("ab\n", max_size=6)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.floats(), words, st.just("x" * 300)),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
        | st.sets(st.integers(0, 4), max_size=3)
        | st.builds(Record, inner, inner)
    ),
    max_leaves=8,
)
states = st.dictionaries(st.sampled_from("pqrs"), values, max_size=4)
rules = st.dictionaries(
    st.sampled_from(["p", "q", "*", "p/*", "**", "**/a", "**/x"]),
    st.sampled_from(SYMMETRIC),
    max_size=3,
)


def memory():
    ticks = count(1)
    return otolith.open("memory:", clock=lambda: next(ticks) * 1000)


def become(state, goal):
    """Stage edits that make a state of another."""
    for name in list(state):
        if name not in goal:
            del state[name]
    state.update(goal)


def forked(base, ours, theirs, rules=None):
    state = memory().session("s")
    become(state, base)
    for pattern, name in (rules or {}).items():
        state.policy(pattern, name)
    state.commit(allow_empty=True)
    other = state.fork("other")
    for side, goal in ((state, ours), (other, theirs)):
        become(side, goal)
        side.commit(allow_empty=True)
    return state, other


@given(states, states)
def test_merging_what_is_known_already_changes_nothing(base, ours):
    state, _ = forked(base, ours, {})
    for known in ("@", "@~1"):
        before = state.head
        assert state.merge(known).kind == "up-to-date"
        assert state.head == before


@given(states, states)
def test_merging_what_comes_later_is_to_go_there(base, later):
    state, other = forked(base, base, later)
    past = state.fork("past", at="@~1")
    assert past.merge(other).kind == "fast-forward"
    assert past.head == other.head


@MANY
@given(states, states, states, rules)
def test_it_does_not_matter_who_merges_whom(base, mine, yours, rules):
    here, there = forked(base, mine, yours, rules)
    back = there.fork("back")
    ours, theirs = here.head, there.head
    one, two = here.merge(theirs), back.merge(ours)
    assert one.kind == two.kind
    assert {conflict.path for conflict in one.conflicts} == {
        conflict.path for conflict in two.conflicts
    }
    if one.ok:
        assert one.commit.root == two.commit.root


@MANY
@given(states, states, states, rules)
def test_a_merge_equals_brute_force(base, ours, theirs, rules):
    here, there = forked(base, ours, theirs, rules)
    policy = {".policy": rules} if rules else {}
    expected, conflicts = brute_merge(
        base | policy, ours | policy, theirs | policy, theirs_later=lambda path: True
    )
    result = here.merge(there)
    assert {conflict.path for conflict in result.conflicts} == {
        "/".join(conflict.path) for conflict in conflicts
    }
    expected.pop(".policy", None)
    assert repr_of(here.to_dict()) == repr_of(expected)


def repr_of(state):
    """Write a state down so that types, NaN, -0.0 and the order of dicts count."""
    return [(name, spelled(state[name])) for name in sorted(state)]


def spelled(value):
    if type(value) is dict:
        return [(repr(key), spelled(part)) for key, part in value.items()]
    if type(value) is list:
        return [spelled(part) for part in value]
    if type(value) in RECORDS:
        return type(value).__name__, spelled(vars(value))
    return repr(sorted(value)) if type(value) is set else repr(value)


@given(states, st.data())
def test_edits_of_different_paths_always_merge(base, data):
    names = [*sorted(base), "new one", "new two"]
    mine = set(data.draw(st.lists(st.sampled_from(names), unique=True)))
    edits = {name: data.draw(st.just(ABSENT) | values) for name in names}

    def edited(some):
        changed = {**base, **{name: edits[name] for name in some}}
        return {name: value for name, value in changed.items() if value is not ABSENT}

    here, there = forked(base, edited(mine), edited(set(names) - mine))
    assert here.merge(there).ok
    assert repr_of(here.to_dict()) == repr_of(edited(names))


edited_lists = st.lists(st.integers(0, 6), max_size=7)


@MANY
@given(edited_lists, edited_lists, edited_lists, st.booleans(), st.sampled_from([None, "append"]))
def test_a_merge_of_lists_equals_brute_force(base, ours, theirs, ours_first, policy):
    here, there = forked({"l": base}, {"l": ours}, {"l": theirs}, {"l": policy} if policy else {})
    if not ours_first:
        here, there = there, here
        ours, theirs = theirs, ours
    if base in (ours, theirs) or (ours == theirs and not policy):
        return
    expected = brute_list_merge(
        base, ours, theirs, ours_first=ours_first, keep_twins=policy is not None
    )
    result = here.merge(there)
    assert (here["l"] if result.ok else None) == expected


@MANY
@given(st.integers(0, 2**32))
def test_long_lists_keep_what_each_side_did(seed):
    chance = random.Random(seed)
    base = [f"element {number} " * 5 for number in range(chance.choice((3, 200, 1500)))]
    cut = chance.randrange(len(base) + 1)
    low, high = base[:cut], base[cut:]
    ours = splice(chance, low, "ours") + high
    theirs = low + splice(chance, high, "theirs")
    expected = splice_both(base, ours, theirs)  # before the merge: the state holds these very lists
    here, there = forked({"l": base}, {"l": ours}, {"l": theirs})
    result = here.merge(there)
    assert result.ok
    merged = here["l"]
    assert merged == expected


def splice(chance, part, word):
    """Remove, replace or insert somewhere away from the ends."""
    part = list(part)
    if len(part) >= 3:
        at = chance.randrange(1, len(part) - 1)
        new = [f"{word} {number}" for number in range(chance.choice((0, 1, 30)))]
        part[at : at + chance.choice((0, 1))] = new
    return part


def splice_both(base, ours, theirs):
    """The sides differ from the base in different halves: take each half from who changed it."""
    prefix = next((n for n, (a, b) in enumerate(zip(base, theirs, strict=False)) if a != b), None)
    if theirs == base:
        return ours
    if prefix is None:
        prefix = min(len(base), len(theirs))
    return ours[: prefix + len(ours) - len(base)] + theirs[prefix:]


lines = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=8)


@MANY
@given(lines, lines, lines, st.booleans())
def test_texts_merge_as_lists_of_their_lines(base, ours, theirs, ours_first):
    merged = combine_lines("".join(base), "".join(ours), "".join(theirs), ours_first=ours_first)
    swapped = combine_lines(
        "".join(base), "".join(theirs), "".join(ours), ours_first=not ours_first
    )
    assert merged == swapped
    if base == ours:
        assert merged == "".join(theirs)
    if ours == theirs:
        assert merged == "".join(ours)


@given(lines, lines, lines, lines)
def test_texts_edited_in_different_places_keep_both_edits(head, body, tail, other):
    base = [*head, "=== 1\n", *body, "=== 2\n", *tail]
    ours = ["=== 0\n", *base]
    theirs = [*head, "=== 1\n", *other, "=== 2\n", *tail]
    merged = combine_lines("".join(base), "".join(ours), "".join(theirs), ours_first=True)
    assert merged == "".join(["=== 0\n", *theirs])


@dataclass
class Work:
    """The same as in a state, in the fields of a model."""

    count: int
    log: list[int]
    seen: set[int]
    by_name: dict[str, int]


class Actor:
    """A branch, and the numbers of all the work that is in it."""

    def __init__(self, branch):
        self.branch = branch
        self.work: frozenset[int] = frozenset()

    def do(self, number):
        for prefix in ("", "work/"):
            self.branch.counter(f"{prefix}count").add(1)
            self.branch.list(f"{prefix}log").append(number)
            self.branch.set(f"{prefix}seen").add(number)
            self.branch.map(f"{prefix}by_name")[f"work {number}"] = number
        self.branch.commit(f"work {number}")
        self.work |= {number}

    def merge(self, other):
        assert self.branch.merge(other.branch).ok
        self.work |= other.work

    def shown(self):
        state = self.branch.to_dict()
        model = state.pop("work")
        return {**state, "log": sorted(state["log"])}, replace(model, log=sorted(model.log))

    def truth(self):
        names = {f"work {n}": n for n in self.work}
        model = Work(len(self.work), sorted(self.work), set(self.work), names)
        return {"log": model.log, **(vars(model) if self.work else {})}, model


def history(seed, steps):
    """Let three actors work and merge each other at random; return them."""
    chance = random.Random(seed)
    state = memory().session("s")
    state.list("log").extend([])
    state["work"] = Work(0, [], set(), {})
    state.policy("work/log", "append")
    state.commit()
    actors = [Actor(state), Actor(state.fork("b")), Actor(state.fork("c"))]
    for number in range(steps):
        actor, other = chance.sample(actors, 2)
        if chance.random() < 0.5:
            actor.do(number)
        else:
            actor.merge(other)
    return actors


BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_histories_that_cross_at_random_converge_to_the_truth(block, rounds):
    for seed in range(rounds(200, 2_000) // BLOCKS):
        actors = history(seed * BLOCKS + block, rounds(24, 60))
        assert [actor.shown() for actor in actors] == [actor.truth() for actor in actors]


@pytest.mark.parametrize("seed", range(8))
def test_actors_that_merge_until_nothing_is_new_have_equal_roots(seed):
    actors = history(seed, 20)
    first, second, third = actors
    for actor, other in ((first, second), (first, third), (second, first), (third, first)):
        actor.merge(other)
    assert len({actor.branch.head.root for actor in actors}) == 1
