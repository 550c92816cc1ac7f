"""Reprs that do not differ between processes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from otolith.text.reprs import stable_repr


class Shown:
    """An object with a repr of one's choice."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@pytest.mark.parametrize(
    ("text", "stable"),
    [
        ("Box({3, 1, 2})", "Box({1, 2, 3})"),
        ("{'b, {', 'a}'}", "{'a}', 'b, {'}"),
        ("{'it\\'s', \"a'\"}", "{\"a'\", 'it\\'s'}"),
        ("{'z': {2, 1}, 'a': 0}", "{'z': {1, 2}, 'a': 0}"),
        ("{frozenset({2, 1}), (9, 1)}", "{(9, 1), frozenset({1, 2})}"),
        ("{10:30, 09:15}", "{09:15, 10:30}"),
        ("[2, 1] (2, 1) }{", "[2, 1] (2, 1) }{"),
        ("{b, a (}", "{a (, b}"),
        ("a  {x, y...\nb  {y, x}", "a  {…\nb  {x, y}"),
        ("a  {'x', 'y...  1\nb  {y, x...", "a  {…  1\nb  {…"),
        ("{1: {...}, 2: [...]}  ...", "{1: {...}, 2: [...]}  ..."),
        ("Box({\n  'b': 1,\n})", "Box({\n  'b': 1,\n})"),
    ],
)
def test_the_items_of_sets_in_a_text_have_one_order(text, stable):
    assert stable_repr(Shown(text)) == stable


def test_a_repr_has_no_address():
    assert stable_repr(object()) == "<object object>"
    assert stable_repr({1: object()}) == "{1: <object object>}"


def shuffled(value: Any, chance: random.Random) -> str:
    """Return the repr of a value, with its sets in any order."""
    if isinstance(value, frozenset):
        items = [shuffled(each, chance) for each in value]
        chance.shuffle(items)
        return f"frozenset({{{', '.join(items)}}})"
    if isinstance(value, tuple):
        return f"({', '.join(shuffled(each, chance) for each in value)},)"
    return repr(value)


def test_sets_within_sets_have_one_order(rounds):
    for seed in range(rounds(200, 5_000)):
        chance = random.Random(seed)
        value: Any = frozenset(chance.sample(["a", "b'", 'c"', "d, {", "e}", 1, None], 3))
        for _ in range(3):
            value = frozenset({value, (value, chance.random()), f"{seed}"})
        assert len({stable_repr(Shown(shuffled(value, chance))) for _ in range(5)}) == 1, seed


def test_a_long_repr_takes_time_in_proportion_to_its_length():
    text = stable_repr(Shown("[" + "{'b', 'a'}, " * 100_000 + "]"))
    assert text.startswith("[{'a', 'b'}, {'a', 'b'}")
