"""How one text became another: by lines, and in lines by words."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.text import edits_between


def apply(old, changes):
    parts: list[str] = []
    at = 0
    for start, stop, text in changes:
        parts += old[at:start], text
        at = stop
    return "".join(parts) + old[at:]


texts = st.text(st.sampled_from("ab \n\r.😀é\u0301"), max_size=60)


@given(texts, texts)
def test_what_was_replaced_makes_one_text_of_the_other(old, new):
    changes = edits_between(old, new)

    assert apply(old, changes) == new
    assert all(a.stop <= b.start for a, b in pairwise(changes))
    assert (changes == []) == (old == new)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("the cat sat", "the dog sat", [(4, 7, "dog")]),
        ("the cat sat", "the sat", [(4, 8, "")]),
        ("the cat\nsat\n", "the cat\nthat\nsat\n", [(8, 8, "that\n")]),
        ("one two\nthree four\n", "one 2\nthree 4\n", [(4, 7, "2"), (14, 18, "4")]),
        ("a\nb\n", "a\r\nb\n", [(1, 2, "\r\n")]),
        ("", "new", [(0, 0, "new")]),
        ("old", "", [(0, 3, "")]),
    ],
)
def test_only_the_words_that_differ_are_replaced(old, new, changes):
    found = edits_between(old, new)

    assert apply(old, found) == new
    assert [tuple(each) for each in found] == changes


@pytest.mark.parametrize("separator", [" ", "\n", " \n"])
def test_long_texts_with_nothing_in_common_take_no_long_time(separator):
    old = separator.join(f"a{number % 300}" for number in range(30_000))
    new = separator.join(f"a{number * 7 % 311}" for number in range(30_000))
    began = process_time()

    assert apply(old, edits_between(old, new)) == new
    assert process_time() - began < 20
