"""Rules that look: at handles, at every commit there was, at differences and logs."""

from __future__ import annotations

from typing import Any

from hypothesis.stateful import invariant, rule

from otolith.codecs import identical
from otolith.core import Branch, Change, format_path, parse_path
from otolith.testing.machine.pairs import Pairs, someone, which
from otolith.testing.model import ABSENT, ModelChange, brute_changes, patched


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
        assert identical(patched(start, map(as_model, changes)), goal)
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
        state = state.get(key, ABSENT) if type(state) is dict else ABSENT
    return path
