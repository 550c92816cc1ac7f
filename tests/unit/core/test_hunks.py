"""Two lists of edits as one."""

from __future__ import annotations

import pytest

from otolith.core.merge.values import combine, combine_lines, united


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ([], [], []),
        ([(0, 1, "a")], [], [(0, 1, "a")]),
        ([(0, 1, "a")], [(1, 2, "b")], [(0, 1, "a"), (1, 2, "b")]),
        ([(3, 4, "a")], [(0, 1, "b")], [(0, 1, "b"), (3, 4, "a")]),
        ([(1, 1, "a")], [(1, 2, "b")], [(1, 1, "a"), (1, 2, "b")]),
        ([(2, 2, "a")], [(0, 2, "b")], [(0, 2, "b"), (2, 2, "a")]),
        ([(0, 2, "a")], [(0, 2, "a")], [(0, 2, "a")]),
        ([(0, 0, "a")], [(0, 0, "a")], [(0, 0, "a")]),
        ([(0, 2, "a")], [(1, 3, "b")], None),
        ([(0, 2, "a")], [(0, 2, "b")], None),
        ([(0, 3, "a")], [(1, 1, "b")], None),
        ([(0, 3, "")], [(1, 2, "")], None),
        (
            [(0, 1, "a"), (4, 5, "c")],
            [(2, 3, "b"), (4, 5, "c")],
            [(0, 1, "a"), (2, 3, "b"), (4, 5, "c")],
        ),
    ],
)
def test_edits_that_do_not_overlap_are_both_kept(ours, theirs, both):
    mine, yours = parts(ours), parts(theirs)
    expected = None if both is None else parts(both)
    assert combine(mine, yours, ours_first=True) == expected
    assert combine(yours, mine, ours_first=False) == expected


def parts(edits):
    return [(start, stop, list(new)) for start, stop, new in edits]


@pytest.mark.parametrize(("ours_first", "merged"), [(True, "ab"), (False, "ba")])
def test_what_both_insert_at_one_place_is_kept_the_earlier_sides_first(ours_first, merged):
    ours, theirs = parts([(1, 1, "a")]), parts([(1, 1, "b")])
    assert combine(ours, theirs, ours_first=ours_first) == [(1, 1, list(merged))]


def test_twins_are_two_only_if_asked_for():
    twin = parts([(1, 1, "a")])
    assert combine(twin, twin, ours_first=True) == [(1, 1, ["a"])]
    assert combine(twin, twin, ours_first=True, keep_twins=True) == [(1, 1, ["a", "a"])]


def test_equal_replacements_are_one_even_among_twins():
    twin = parts([(0, 1, "a")])
    assert combine(twin, twin, ours_first=True, keep_twins=True) == [(0, 1, ["a"])]


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("", "a\n", "", "a\n"),
        ("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n"),
        ("a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"),
        ("a\nb", "a\nb\n", "A\nb", "A\nb\n"),
        ("a\r\nb\r\n", "a\r\nB\r\n", "a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("a\n", "b\n", "c\n", None),
    ],
)
def test_texts_merge_line_by_line(base, ours, theirs, merged):
    assert combine_lines(base, ours, theirs, ours_first=True) == merged


@pytest.mark.parametrize(
    ("ours", "theirs", "both"),
    [
        ([(3, 4, "")], [(4, 4, "b")], [(3, 4, ""), (4, 4, "b")]),
        ([(3, 4, "")], [(2, 4, "")], [(2, 4, "")]),
        ([(0, 4, "")], [(3, 4, "b")], [(0, 4, "b")]),
        ([(0, 4, "a")], [(2, 2, "b")], [(0, 4, "ab")]),
        ([(0, 1, "a")], [(0, 1, "b")], [(0, 1, "ab")]),
        ([(0, 1, "a")], [(0, 1, "a")], [(0, 1, "a")]),
        ([(4, 4, "a")], [(4, 4, "a")], [(4, 4, "aa")]),
        ([(0, 1, "a"), (2, 3, "c")], [(0, 3, "b")], [(0, 3, "acb")]),
        ([(0, 2, "a"), (3, 4, "c")], [(1, 3, "b")], [(0, 3, "ab"), (3, 4, "c")]),
    ],
)
def test_edits_of_a_log_that_overlap_are_united(ours, theirs, both):
    mine, yours, expected = parts(ours), parts(theirs), parts(both)
    assert united(mine, yours, ours_first=True) == expected
    assert united(yours, mine, ours_first=False) == expected
