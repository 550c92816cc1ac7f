"""Rules that edit a state: by path, and by each kind of handle."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from otolith.core import parse_path
from otolith.testing.machine.pairs import LARGE, Pairs, places, policies, values, which
from otolith.testing.model import ABSENT


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
