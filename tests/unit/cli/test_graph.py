"""The graph is drawn as git would draw it."""

from __future__ import annotations

from inspect import cleandoc

import click
import pytest

from otolith.cli.format.history import Lanes
from otolith.core import Commit

DRAWINGS = {
    "a line": (
        ["b a", "a"],
        """
        * b
        * a
        """,
    ),
    "a merge": (
        ["m a b", "b r", "a r", "r"],
        r"""
        *   m
        |\
        | * b
        * | a
        |/
        * r
        """,
    ),
    "a branch that left": (
        ["x r", "y r", "r"],
        """
        * x
        | * y
        |/
        * r
        """,
    ),
    "a lane that crosses": (
        ["x r", "m a b", "a r", "b q", "q r", "r"],
        r"""
        * x
        | *   m
        | |\
        | * | a
        | | * b
        | | * q
        |_|/
        |/
        * r
        """,
    ),
    "two beginnings": (
        ["m a b", "a", "b"],
        r"""
        *   m
        |\
        * | a
         /
        * b
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_history_is_drawn(name):
    history, drawing = DRAWINGS[name]

    assert _drawn(history) == cleandoc(drawing)


def test_more_lines_of_text_go_beside_the_lanes():
    lanes = Lanes()
    merge = _commit("m", "a", "b")

    rows = [click.unstyle(row) for row in lanes.rows(merge, ["one", "two", "three"])]

    assert rows == ["*   one", "|\\  two", "| | three"]


def _drawn(history: list[str]) -> str:
    lanes = Lanes()
    rows = []
    for line in history:
        id, *parents = line.split()
        rows += [click.unstyle(row) for row in lanes.rows(_commit(id, *parents), [id])]
    return "\n".join(rows)


def _commit(id: str, *parents: str) -> Commit:
    return Commit(id, b"", parents, generation=0, time=0, author="", message="")
