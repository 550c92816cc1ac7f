"""A Hypothesis state machine that applies random operations to a repo and its model.

Its rules edit a state by path and by handle, change values in place, make history (commits, forks,
crossing merges, rollbacks, undo, tags) and compare handles, commits, differences and logs.

class MyMachine(RepoMachine):
    def make(self):
        return otolith.open("memory:")

TestMine = MyMachine.TestCase
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from otolith.care import prune, verify
from otolith.codecs import identical
from otolith.core import BareRepo, Branch, Change, Commit, format_path, parse_path
from otolith.errors import Error
from tests.reference.model import ModelBranch, ModelCommit, ModelRepo
from tests.reference.model_values import (
    ABSENT,
    RECORDS,
    ModelChange,
    Pin,
    Record,
    brute_changes,
    patched,
)

SESSION = "machine"
MOST_HANDLES = 6
MOST_CONFLICTS = 20

WIDE = {f"key {number}": "wide " * 50 for number in range(66)}
LARGE = {"<wide>": WIDE, "<long>": ["long " * 60] * 20, "<text>": "much text " * 600}
"""By name, because failing steps are printed."""

parts = st.one_of(
    st.integers(0, 3),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 3)),
    st.builds(Record, st.integers(0, 3), st.integers(0, 3)),
)
values = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["", "text", None, True, 1.5, b"bytes", *LARGE]),
    st.lists(st.integers(0, 3), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y", "z"]), st.integers(0, 3), max_size=3),
    st.sets(st.integers(0, 5), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y"]), st.lists(st.integers(0, 3), max_size=3)),
    st.builds(Record, parts, parts),
    st.builds(Pin, parts, parts),
)
places = st.sampled_from(
    ["a", "b", "deep/x", "deep/y", "deep/er/z", "log/0", "log/-1", "wide/key 7", "a/x", "b/y/x"]
)
policies = st.sampled_from(["error", "ours", "theirs", "last-writer", "max", "counter", "append"])
sides = st.sampled_from(["ours", "theirs", "base"])
which = st.integers(0, MOST_HANDLES - 1)
someone = st.integers(0, 1 << 16)

Act = Callable[[], Any]


@dataclass(eq=False)
class Hand:
    """A handle on a branch, its model, and the paths of what was read of it."""

    real: Branch
    model: ModelBranch
    read: set[str] = field(default_factory=set)


class Known(NamedTuple):
    """A commit, and its model."""

    real: Commit
    model: ModelCommit


class Pairs(RuleBasedStateMachine):
    """What every group of rules needs: handles, commits, and both sides of each."""

    def make(self) -> BareRepo:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.repo = self.make()
        self.model = ModelRepo()
        self.known: list[Known] = []
        self.roots: dict[str, ModelCommit] = {}
        self.numbers = 0
        self.hands = [Hand(self.repo.session(SESSION), self.model.session(SESSION))]

    def both(self, real: Act, model: Act) -> tuple[Any, Any] | None:
        """Do the same to both: both return, or both refuse for the same reason."""
        (done, refused), (wanted, expected) = _outcome(real), _outcome(model)
        assert isinstance(refused, type(expected)), f"repo: {refused!r}, model: {expected!r}"
        return (done, wanted) if refused is None else None

    def fresh(self, count: int) -> list[int]:
        """Return numbers that were never used before."""
        self.numbers += count
        return list(range(self.numbers - count, self.numbers))

    def hand(self, which: int) -> Hand:
        return self.hands[which % len(self.hands)]

    def take(self, hand: Hand) -> None:
        self.hands = [hand, *self.hands][:MOST_HANDLES]

    def some(self, number: int) -> Known:
        return self.known[number % len(self.known)]

    def note(self, hand: Hand, real: Commit, model: ModelCommit) -> None:
        """Remember a commit; equal states have equal roots, and others do not."""
        if all(known.model is not model for known in self.known):
            self.known.append(Known(real, model))
        twin = self.roots.setdefault(real.root, model)
        assert identical(twin.state, model.state)
        for known in self.known:
            same = identical(known.model.state, model.state)
            assert (known.real.root == real.root) == same
        assert hand.real.head is not None
        assert hand.real.head.id == real.id


def _outcome(act: Act) -> tuple[Any, Error | None]:
    try:
        return act(), None
    except Error as error:
        return None, error


class EditRules(Pairs):
    """What is staged."""

    @rule(which=which, path=places, value=values)
    def sets_a_value(self, which: int, path: str, value: Any) -> None:
        hand = self.hand(which)
        keys = parse_path(path)
        new = deepcopy(LARGE.get(value, value) if type(value) is str else value)
        self.both(
            lambda: hand.real.__setitem__(path, deepcopy(new)), lambda: hand.model.set(keys, new)
        )

    @rule(which=which, path=places)
    def deletes_a_value(self, which: int, path: str) -> None:
        hand = self.hand(which)
        keys = parse_path(path)
        self.both(lambda: hand.real.__delitem__(path), lambda: hand.model.delete(keys))

    @rule(which=which, count=st.integers(1, 3))
    def appends_to_the_log(self, which: int, count: int) -> None:
        hand = self.hand(which)
        new = self.fresh(count)
        self.both(
            lambda: hand.real.list("log").extend(new), lambda: hand.model.extend(("log",), new)
        )

    @rule(which=which, start=st.integers(0, 4), stop=st.integers(0, 4), count=st.integers(0, 2))
    def splices_the_log(self, which: int, start: int, stop: int, count: int) -> None:
        hand = self.hand(which)
        log = hand.model.get(("log",))
        if type(log) is list:
            new = self.fresh(count)
            log[start : max(start, stop)] = new
            hand.real.list("log")[start:stop] = new
            hand.model.set(("log",), log)

    @rule(which=which, amount=st.integers(-2, 5))
    def counts(self, which: int, amount: int) -> None:
        hand = self.hand(which)
        hand.real.counter("n").add(amount)
        hand.model.count(("n",), amount)

    @rule(which=which, element=st.integers(0, 9), is_there=st.booleans())
    def changes_a_set(self, which: int, element: int, *, is_there: bool) -> None:
        hand = self.hand(which)
        known = hand.model.get(("seen",))
        if known is ABSENT and not is_there:
            return
        known = set() if known is ABSENT else known
        (hand.real.set("seen").add if is_there else hand.real.set("seen").discard)(element)
        if is_there or element in known:
            hand.model.set(("seen",), known | {element} if is_there else known - {element})

    @rule(which=which, key=st.integers(0, 70), value=st.integers(0, 9))
    def writes_to_a_wide_map(self, which: int, key: int, value: int) -> None:
        hand = self.hand(which)
        if type(hand.model.get(("wide",))) is dict:
            hand.real.map("wide")[f"key {key}"] = value
            hand.model.set(("wide", f"key {key}"), value)

    @rule(which=which, pattern=st.sampled_from(["a", "b", "deep/*", "**/x", "log"]), name=policies)
    def chooses_a_policy(self, which: int, pattern: str, name: str) -> None:
        hand = self.hand(which)
        hand.real.policy(pattern, name)
        hand.model.policy(pattern, name)


def _turn(value: dict[Any, Any]) -> None:
    for key in sorted(value, key=repr, reverse=True):
        value[key] = value.pop(key)


KEYS = st.sampled_from(["x", "y", "z", "key 7", "key 33", "new"])
CONTAINERS = st.sampled_from(["a", "b", "deep", "deep/x", "deep/er", "log", "wide", "seen", "b/x"])
_CHANGING = (list, dict, set, Record)


class Reference(NamedTuple):
    """An object that a state handed out, and where it was."""

    hand: Hand
    path: str
    value: Any


class InPlaceRules(EditRules):
    """What is changed without the state being told."""

    holds = True
    """Whether what is handed out is held; a bare branch hands out copies."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[Reference] = []

    @rule(which=which, path=CONTAINERS)
    def reads_a_value(self, which: int, path: str) -> None:
        hand = self.hand(which)
        value = hand.real.get(path)
        if path in hand.real and self.holds and type(value) in _CHANGING:
            assert hand.real[path] is value
            hand.read.add(path)
            self.references = [*self.references[-20:], Reference(hand, path, value)]

    @precondition(lambda self: self.holds)
    @rule(which=which, path=CONTAINERS, key=KEYS, at=st.integers(-3, 70), new=values)
    def changes_a_value(self, which: int, path: str, key: str, at: int, new: Any) -> None:
        """Change the list, dict or set at a path, by the object that the path gives."""
        hand = self.hand(which)
        self.reads_a_value(which, path)
        value = hand.real.get(path)
        self._change(hand, path, value, lambda each: _edit(each, key, at, deepcopy(new)))

    @precondition(lambda self: self.references)
    @rule(number=st.integers(0, 20), key=KEYS, at=st.integers(-3, 70), new=values)
    def changes_what_was_read_before(self, number: int, key: str, at: int, new: Any) -> None:
        """Change an object that a state handed out once. If it was replaced, nobody notices."""
        hand, path, value = self.references[number % len(self.references)]
        is_current = any(hand is each for each in self.hands) and hand.real.get(path) is value
        if is_current:
            self._change(hand, path, value, lambda each: _edit(each, key, at, deepcopy(new)))
        elif not path.startswith("b"):  # what is gone from there may be part of something else
            _edit(value, key, at, deepcopy(new))

    @precondition(lambda self: self.holds)
    @rule(which=which, path=CONTAINERS)
    def changes_the_order(self, which: int, path: str) -> None:
        """Put a dict into another order, which is a change, or a set, which is none."""
        hand = self.hand(which)
        value = hand.real.get(path)
        if type(value) is dict:
            self._change(hand, path, value, _turn)
        elif type(value) is set:
            value.update(range(100, 140))
            value.difference_update(range(100, 140))

    @precondition(lambda self: self.holds)
    @rule(which=which, path=CONTAINERS)
    def changes_nothing_in_the_end(self, which: int, path: str) -> None:
        value = self.hand(which).real.get(path)
        if type(value) is list:
            value.append("for a moment")
            assert not self.hand(which).real.is_clean
            value.pop()

    def _change(self, hand: Hand, path: str, value: Any, act: Callable[[Any], None]) -> None:
        keys = parse_path(path)
        if type(value) in _CHANGING and hand.model.get(keys) is not ABSENT:
            assert format_path(keys) == path
            act(value)
            hand.model.change(keys, act)


def _edit(value: Any, key: str, at: int, new: Any) -> None:
    if type(value) is dict:
        _edit_dict(value, key, at, new)
    elif type(value) is list:
        _edit_list(value, at, new)
    elif type(value) is Record:
        _edit_record(value, key, at, new)
    else:
        (value.discard if at in value else value.add)(at)


def _edit_dict(value: dict[Any, Any], key: str, at: int, new: Any) -> None:
    inner = value.get(key)
    if type(inner) in _CHANGING:
        _edit(inner, key, at, new)
    elif key in value and at % 3 == 0:
        del value[key]
    else:
        value[key] = new


def _edit_record(value: Record, key: str, at: int, new: Any) -> None:
    inner = getattr(value, "x" if at % 2 else "y")
    if type(inner) in _CHANGING:
        _edit(inner, key, at, new)
    else:
        setattr(value, "x" if at % 2 else "y", new)


def _edit_list(value: list[Any], at: int, new: Any) -> None:
    if not value or at > 50:
        value.append(new)
    elif at % 5 == 0:
        value.reverse()
    elif at % 5 == 1:
        del value[at % len(value)]
    elif at % 5 == 2:
        value.insert(at % len(value), new)
    else:
        value[at % len(value)] = new


class HistoryRules(InPlaceRules):
    """What is committed."""

    @rule(which=which)
    def commits(self, which: int) -> None:
        hand = self.hand(which)
        done = self.both(hand.real.commit, hand.model.commit)
        if done is not None:
            self.note(hand, *done)

    @rule(which=which, path=places, value=values)
    def commits_a_value(self, which: int, path: str, value: Any) -> None:
        self.sets_a_value(which, path, value)
        self.commits(which)

    @rule(which=which, count=st.integers(1, 2), element=st.integers(0, 9))
    def commits_some_work(self, which: int, count: int, element: int) -> None:
        self.appends_to_the_log(which, count)
        self.counts(which, count)
        self.changes_a_set(which, element, is_there=True)
        self.commits(which)

    @rule(which=which)
    def discards(self, which: int) -> None:
        hand = self.hand(which)
        hand.real.discard()
        hand.model.discard()

    @rule(which=which, name=st.sampled_from(["one", "two", "three"]))
    def forks(self, which: int, name: str) -> None:
        hand = self.hand(which)
        done = self.both(lambda: hand.real.fork(name), lambda: hand.model.fork(name))
        if done is not None:
            self.take(Hand(*done))

    @rule(branch=st.sampled_from(["main", "one", "two", "three"]))
    def opens_another_handle(self, branch: str) -> None:
        real = self.repo.session(SESSION, branch=branch)
        self.take(Hand(real, self.model.session(SESSION, branch=branch)))

    @rule(which=which, other=someone)
    def merges_a_commit(self, which: int, other: int) -> None:
        self._merge(self.hand(which), self.some(other))

    @rule(which=which, apart=st.integers(1, 2), path=places, some=values, side=sides)
    def branches_merge_each_other(
        self, which: int, apart: int, path: str, some: Any, side: str
    ) -> None:
        """Work on two branches, and merge each into the other at once, as two machines do."""
        other = which + apart
        hands = [self.hand(which), self.hand(other)]
        for number, value in ((which, some), (other, other)):
            self._finish(number, side)
            self.sets_a_value(number, path, value)
            self.commits_some_work(number, 1, number)
            self._finish(number, side)
        heads = [(hand.real.head, hand.model.head) for hand in hands]
        for hand, (real, model) in zip(hands, reversed(heads), strict=True):
            if real is not None and model is not None:
                self._merge(hand, Known(real, model))
        for number in (which, other):
            self._finish(number, side)

    def _finish(self, which: int, side: str) -> None:
        """Commit what is staged, settling what is in the way."""
        hand = self.hand(which)
        self.settles_conflicts(which, side, MOST_CONFLICTS)
        self.commits(which)
        if hand.model.conflicts:
            self._finish(which, side)

    @rule(which=which, other=which, side=sides)
    def merges_a_branch(self, which: int, other: int, side: str) -> None:
        self._finish(which, side)
        theirs = self.hand(other)
        if theirs.real.head is not None and theirs.model.head is not None:
            self._merge(self.hand(which), Known(theirs.real.head, theirs.model.head))

    def _merge(self, hand: Hand, other: Known) -> None:
        done = self.both(lambda: hand.real.merge(other.real), lambda: hand.model.merge(other.model))
        if done is None:
            return
        assert done[0].kind == done[1]
        if done[0].kind != "conflicted" and hand.model.head is not None:
            self.note(hand, done[0].commit, hand.model.head)

    @rule(which=which, side=sides, most=st.integers(1, MOST_CONFLICTS))
    def settles_conflicts(self, which: int, side: str, most: int) -> None:
        hand = self.hand(which)
        for path in sorted(hand.model.conflicts)[:most]:
            take = partial(hand.real.resolve_conflict, format_path(path), take=side)
            self.both(take, partial(hand.model.take, path, side))

    @rule(which=which, goal=someone)
    def rolls_back(self, which: int, goal: int) -> None:
        hand, past = self.hand(which), self.some(goal)
        made = hand.real.rollback(past.real, discard=True)
        self.note(hand, made, hand.model.rollback(past.model))

    @rule(which=which, verb=st.sampled_from(["undo", "redo"]), side=sides)
    def undoes_or_redoes(self, which: int, verb: str, side: str) -> None:
        if verb == "undo":
            self._finish(which, side)
        hand = self.hand(which)
        done = self.both(getattr(hand.real, verb), getattr(hand.model, verb))
        if done is not None and hand.model.head is not None:
            self.note(hand, done[0], hand.model.head)

    @rule(goal=someone, name=st.sampled_from(["v1", "v2"]))
    def tags(self, goal: int, name: str) -> None:
        known = self.some(goal)
        self.both(
            lambda: self.repo.tag(name, known.real), lambda: self.model.tag(name, known.model)
        )


class LookingRules(Pairs):
    """What can be seen."""

    @invariant()
    def every_handle_shows_what_its_model_shows(self) -> None:
        for hand in self.hands:
            real, model = hand.real, hand.model
            shown = {name: value for name, value in model.stage.items() if name != ".policy"}
            assert identical(_stored(real), shown)
            for path in hand.read:
                assert identical(real.get(path, ABSENT), model.get(parse_path(path)))
            assert real.policies() == model.stage.get(".policy", {})
            assert real.is_clean == model.is_clean
            assert {conflict.path for conflict in real.conflicts} == {
                format_path(path) for path in model.conflicts
            }

    @rule(which=which)
    def reads_everything(self, which: int) -> None:
        hand = self.hand(which)
        model = {name: value for name, value in hand.model.stage.items() if name != ".policy"}
        assert identical(hand.real.to_dict(), model)

    @rule(goal=someone)
    def travels_in_time(self, goal: int) -> None:
        known = self.some(goal)
        shown = {key: value for key, value in known.model.state.items() if key != ".policy"}
        assert identical(self.repo.at(known.real).to_dict(), shown)
        assert identical(self.repo.at(known.real.short).to_dict(), shown)

    @rule()
    def travels_everywhere(self) -> None:
        for at in range(len(self.known)):
            self.travels_in_time(at)

    @rule(which=which, old=someone, new=someone)
    def compares_two_commits(self, which: int, old: int, new: int) -> None:
        before, after = self.some(old), self.some(new)
        changes = self.hand(which).real.diff(before.real, after.real)
        start = {key: part for key, part in before.model.state.items() if key != ".policy"}
        goal = {key: part for key, part in after.model.state.items() if key != ".policy"}
        assert identical(patched(start, map(as_model, changes)), goal, ordered=False)
        brute = {change.path for change in brute_changes(start, goal)}
        assert {_outside_lists(start, change.keys) for change in changes} == brute

    @rule(which=which)
    def reads_the_log(self, which: int) -> None:
        hand = self.hand(which)
        if hand.real.head is not None:
            ids = {known.model: known.real.id for known in self.known}
            found = [commit.id for commit in hand.real.log(hand.real.head)]
            assert found == [ids[commit] for commit in hand.model.log()]


def _stored(state: Branch) -> dict[str, Any]:
    """Return what a state would commit, without being handed any of it."""
    cells = {name: state.cell_at((name,)) for name in state}
    return {name: state.cells.load(cell) for name, cell in cells.items() if cell is not None}


def as_model(change: Change) -> ModelChange:
    """Return a change as the model writes it down."""
    return ModelChange(
        change.keys,
        ABSENT if change.kind == "added" else change.old,
        ABSENT if change.kind == "removed" else change.new,
    )


def _outside_lists(state: Any, path: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a path, cut where a list begins."""
    for depth, key in enumerate(path):
        if type(state) is list:
            return path[:depth]
        inner = vars(state) if type(state) in RECORDS else state
        state = inner.get(key, ABSENT) if type(inner) is dict else ABSENT
    return path


class RepoMachine(HistoryRules, LookingRules):
    """Subclass it, and say how to make a repo. `reopen` returns it anew, if it can last."""

    def reopen(self, repo: BareRepo) -> BareRepo | None:
        return None

    def __init__(self) -> None:
        super().__init__()
        self._start()

    def _start(self) -> None:
        """Begin with something that every branch has."""
        hand = self.hands[0]
        for path, value in {"a": 0, "deep": {"x": 1}, "wide": WIDE}.items():
            hand.real[path] = deepcopy(value)
            hand.model.set((path,), value)
        self.note(hand, hand.real.commit("start"), hand.model.commit())
        for name in ("one", "two"):
            self.forks(0, name)
            self.hands.sort(key=lambda hand: hand.real.name)

    def teardown(self) -> None:
        self.repo.close()

    @rule()
    def reopens(self) -> None:
        again = self.reopen(self.repo)
        if again is not None:
            self.repo = again
            self.hands = []
            self.opens_another_handle("main")

    @precondition(lambda self: len(self.known) > 4)
    @rule()
    def collects_garbage(self) -> None:
        prune(self.repo, expire_seconds=0)
        alive = set(self.model.prune())
        self.known = [known for known in self.known if known.model in alive]
        self.hands = [
            hand
            for hand in self.hands
            if hand.model.head in alive and hand.model.parent in {*alive, None}
        ]
        if not self.hands:
            self.opens_another_handle("main")

    @rule()
    def verifies(self) -> None:
        assert verify(self.repo, level="deep").problems == []
