"""The board: read in pieces it is as read at once, and what is tried can be taken back."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import otolith
from otolith.core import Branch
from otolith.errors import Invalid
from otolith.flows import STATUSES, Flow, FlowTask, TaskRecord
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


def facts(board):
    """Return what a board knows, but for the order of what is ready."""
    return {
        "names": board.graph.names,
        "before": [sorted(each) for each in board.graph.before],
        "after": [sorted(each) for each in board.graph.after],
        "order": [*board.graph.order],
        "specs": board.specs,
        "records": board.records,
        "counts": +board.counts,
        "ready": [each for each in range(len(board.specs)) if board.is_ready(each)],
        "left": pytest.approx(board.remaining_seconds),
    }


@pytest.mark.parametrize("seed", range(6))
def test_a_board_that_grew_is_the_one_that_is_read_anew(state, seed):
    chance = Random(seed)
    flow = Flow("grows")
    flow.task(lambda: 1, name="t0")
    for number in range(1, 6):
        flow.add(FlowTask(f"t{number}", call="t0", after=f"t{chance.randrange(number)}"))
    run = state.flow(flow)
    board = Board()
    board.update(StoredFlow(state, run.key))
    for number in range(12):
        parent = chance.choice([None, *run.graph.names])
        new = [FlowTask(f"n{number}.{each}", call="t0") for each in range(chance.randint(1, 3))]
        if chance.random() < 0.3:
            new.append(FlowTask(f"n{number}.x", call="t0", after=new[0].name))
        with suppress(Invalid):  # what comes after the parent is done already
            run.expand(parent, new)
        if chance.random() < 0.3:
            left = [chance.randint(1, 3)]
            run.work(is_stopped=lambda left=left: left.append(left.pop() - 1) or left[0] < 0)
        state.refresh()
        before = board.graph, len(board.graph)
        board.update(StoredFlow(state, run.key))
        assert len(before[0]) == before[1]  # who has the old graph is not disturbed
        other = Board()
        other.update(StoredFlow(state, run.key))
        assert facts(board) == facts(other)
    assert run.work().status == "done"


def test_one_more_task_does_not_read_the_plan_again(state, monkeypatch):
    flow = Flow("grows")
    flow.task(lambda: 1, name="t0")
    flow.task(lambda: 1, name="t1", after="t0")
    run = state.flow(flow)
    run.work()
    run.retry("t1")
    monkeypatch.setattr(Board, "_load", lambda *given: pytest.fail("it was read as a whole"))
    run.expand("t0", [FlowTask("more", call="t0")])

    assert run.progress().counts == {"done": 1, "pending": 2}
    assert run.graph.waits_for("t1") == ["t0", "more"]
