"""Paths as text and as keys, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.core import format_path, parse_path
from otolith.core.paths import parse_own_path
from otolith.errors import BadPath

plain_keys = st.one_of(
    st.text(min_size=1),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(plain_keys, min_size=1, max_size=5).map(tuple))
def test_a_path_written_as_text_is_read_as_the_same_keys(keys):
    again = parse_path(format_path(keys))
    assert again == keys
    assert [type(key) for key in again] == [type(key) for key in keys]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a", ("a",)),
        ("plan/steps", ("plan", "steps")),
        ("a~1b/~0", ("a/b", "~")),
        ("~01", ("~1",)),
        ("~:42/~:null/~:true/~:1.5", (42, None, True, 1.5)),
        ('~:"x"', ("x",)),
        ("steps/-1", ("steps", "-1")),
    ],
)
def test_text_names_keys(text, keys):
    assert parse_path(text) == keys


@pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a//b", "~:", "~:{", "~:[1"])
def test_text_that_names_nothing_is_refused(text):
    with pytest.raises(BadPath):
        parse_path(text)


@pytest.mark.parametrize("path", [5, None, b"a", ["a"]])
def test_only_text_and_tuples_are_paths(path):
    with pytest.raises(BadPath, match="a path is a str or a tuple"):
        parse_path(path)


def test_a_path_of_more_than_fifty_parts_is_refused():
    assert len(parse_path("/".join("a" * 50))) == 50
    with pytest.raises(BadPath, match="51 parts"):
        parse_path("/".join("a" * 51))


def test_a_dot_in_front_is_reserved_at_the_top_only():
    assert parse_own_path("a/.b") == ("a", ".b")
    assert parse_path(".policy/x") == (".policy", "x")
    with pytest.raises(BadPath, match="belong to otolith"):
        parse_own_path(".policy/x")
