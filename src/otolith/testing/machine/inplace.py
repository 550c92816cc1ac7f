"""Rules that change values in place, as whoever was handed one can, and say nothing about it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from otolith.core import format_path, parse_path
from otolith.testing.machine.edits import EditRules
from otolith.testing.machine.pairs import Hand, values, which
from otolith.testing.model import ABSENT

KEYS = st.sampled_from(["x", "y", "z", "key 7", "key 33", "new"])
CONTAINERS = st.sampled_from(["a", "b", "deep", "deep/x", "deep/er", "log", "wide", "seen", "b/x"])


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
        if path in hand.real and self.holds and type(value) in (list, dict, set):
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
        """Put a dict or set into another order, which is no change."""
        value = self.hand(which).real.get(path)
        if type(value) is dict:
            for key in sorted(value, key=repr, reverse=True):
                value[key] = value.pop(key)
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
        if type(value) in (list, dict, set) and hand.model.get(keys) is not ABSENT:
            assert format_path(keys) == path
            act(value)
            hand.model.change(keys, act)


def _edit(value: Any, key: str, at: int, new: Any) -> None:
    if type(value) is dict:
        _edit_dict(value, key, at, new)
    elif type(value) is list:
        _edit_list(value, at, new)
    else:
        (value.discard if at in value else value.add)(at)


def _edit_dict(value: dict[Any, Any], key: str, at: int, new: Any) -> None:
    inner = value.get(key)
    if type(inner) in (dict, list, set):
        _edit(inner, key, at, new)
    elif key in value and at % 3 == 0:
        del value[key]
    else:
        value[key] = new


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
