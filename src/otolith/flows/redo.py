"""Tasks that are done again: by request, or because a check has sent work back.

Both change records alone: the results that are there stay until others take their place, and what
is made from the same as before is not run again (`job_maker.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from otolith.flows.board import Board
from otolith.flows.graph import TaskGraph
from otolith.flows.lifecycle import ENDED, SETTLED, TaskRecord

Changes = dict[int, TaskRecord]


def done_again(board: Board, numbers: Iterable[int], now: int) -> Changes:
    """Return the records of tasks that are done again, and of all that was made from them.

    What was done is another piece of work then; what failed is the same one, and has its key.

    Raises:
        IllegalTransition: a worker has one of the tasks, or it was not tried.
    """
    names, found = board.graph.names, Changes()
    for number in numbers:
        record = board.records[number]
        found[number] = replace(
            record.after(names[number], "again", memo=b"", error="", feedback="", question=""),
            failures=0,
            lost=0,
            backs=0,
            answers={},
            asked=0,
            answered=0,
            answered_by="",
            redone=record.redone + (record.status == "done"),
            not_before=now,
        )
    for name in [each for number in [*found] for each in board.graph.downstream(names[number])]:
        number = board.graph.number[name]
        record = board.records[number]
        if number not in found and record.status in ENDED | {"waiting"}:
            found[number] = record.after(name, "again", failures=0)
    return found


def sent_back(board: Board, number: int, record: TaskRecord, why: str) -> Changes:
    """Return the records after a task has sent work back: its own, the target's, those between."""
    graph, found = board.graph, Changes()
    name, target = graph.names[number], graph.number[board.specs[number].back_to]
    retried = record.retried + record.ran
    found[number] = record.after(
        name, "send back", backs=record.backs + 1, error=why, retried=retried
    )
    after_target = {graph.number[each] for each in graph.downstream(graph.names[target])}
    for each in [target, *(after_target & _before(graph, number))]:
        before = board.records[each]
        if before.status in SETTLED:
            found[each] = before.after(graph.names[each], "again", failures=0, memo=b"")
    if target in found:
        redone = found[target].redone + 1
        found[target] = replace(found[target], feedback=why, redone=redone)
    return found


def _before(graph: TaskGraph, number: int) -> set[int]:
    """Return all tasks that come before one, near or far."""
    found, left = set[int](), [number]
    while left:
        for each in graph.before[left.pop()]:
            if each not in found:
                found.add(each)
                left.append(each)
    return found
