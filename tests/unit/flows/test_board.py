"""The board: read in pieces it is as read at once, and what is tried can be taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import otolith
from otolith.core import Branch
from otolith.flows import STATUSES, TaskRecord
from otolith.flows.board import Board
from otolith.flows.flow_definition import TaskSpec
from otolith.flows.storage import HEAD, RunHead, StoredFlow

COUNT = 6
edits = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.sampled_from(STATUSES), st.integers(0, 5_000_000)),
    max_size=12,
)


def begin():
    repo = otolith.open("memory:")
    branch = Branch(repo.backend, "session/s/main")
    stored = StoredFlow(branch, "run")
    stored.put(RunHead("f", 1, resources={"gpu": 2}).to_data(), HEAD)
    specs = [
        (f"t{n}", TaskSpec(number=n, after=(f"t{n // 2}",) if n > 1 else (), call=f"c{n % 2}",
                           needs={"gpu": 1} if n % 3 else {}))
        for n in range(COUNT)
    ]  # fmt: skip
    stored.put_plan(specs)
    branch.commit()
    return branch, stored


def record(status, ran):
    return TaskRecord(status, began=1, ran=ran, attempt=1)


def seen(board):
    order = list(board.take(0))
    for each in order:
        board.put(each, board.records[each])
    return (
        board.graph.names, board.records, +board.counts, +board.in_use, sorted(board.held),
        {name: (n, round(t, 6)) for name, (n, t, _) in board.times.items() if n},
        round(board.done_seconds, 6), round(board.remaining_seconds, 6), sorted(order),
        board.status(),
    )  # fmt: skip


@given(st.lists(edits, max_size=5))
def test_a_board_that_follows_is_as_one_that_is_new(turns):
    branch, stored = begin()
    following = Board()
    following.update(stored)
    for turn in turns:
        for number, status, ran in turn:
            stored.put_record(f"t{number}", record(status, ran))
        branch.commit()
        following.update(stored)
        new = Board()
        new.update(stored)
        assert seen(following) == seen(new)


@given(edits, edits)
def test_what_did_not_land_is_taken_back(landed, tried):
    _, stored = begin()
    board, other = Board(), Board()
    for each in (board, other):
        each.update(stored)
        for number, status, ran in landed:
            each.put(number, record(status, ran))
    board.begin()
    for number, status, ran in tried:
        board.put(number, record(status, ran))
    board.undo()

    assert seen(board) == seen(other)
