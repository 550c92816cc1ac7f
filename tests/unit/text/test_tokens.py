"""Tokens are estimated from words, digits and marks, and texts are cut to fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.text.tokens import cut, estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("cat", 1),
        ("the cat sat", 3),
        ("internationalisation", 4),
        ("12", 1),
        ("123456", 2),
        ("a, b", 3),
        ("{}", 1),
        ("a\nb", 3),
        ("    x", 2),
        ("日本", 2),
        ("né", 1),
    ],
)
def test_a_text_is_about_so_many_tokens(text, tokens):
    assert estimate_tokens(text) == tokens


@given(st.lists(st.text()))
def test_a_text_takes_no_more_than_its_lines(lines):
    whole = estimate_tokens("\n".join(lines))
    split = [part for line in lines for part in line.split("\n")]

    assert whole <= sum(map(estimate_tokens, split)) + max(len(split) - 1, 0)


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_what_is_cut_fits_and_begins_alike(text, tokens):
    short = cut(text, tokens)

    assert estimate_tokens(short) <= tokens
    assert text.startswith(short.removesuffix("…"))
    assert (short == text) == (estimate_tokens(text) <= tokens or short == text)
