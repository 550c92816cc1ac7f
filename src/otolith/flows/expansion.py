"""Expansion: tasks that are added to a run, as parts of one of its tasks.

What comes after the task waits for its parts too. So it must not have begun, and nothing may come
to wait for itself: both are checked on the graph of the whole run before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from otolith.errors import Exists, Invalid, KeyNotFound
from otolith.flows.board import Board
from otolith.flows.flow_definition import (
    Flow,
    FlowTask,
    TaskSpec,
    check_back_to,
    check_count,
    check_needs,
    no_function,
)
from otolith.flows.graph import TaskGraph
from otolith.flows.lifecycle import ENDED, HELD
from otolith.shapes import check_argument

_BEGUN = HELD | ENDED | {"waiting"}


def expanded(
    board: Board,
    key: str,
    parent: str | None,
    tasks: Sequence[FlowTask],
    functions: Collection[str] | None,
) -> dict[str, TaskSpec]:
    """Return the specs of new tasks of a run, and of those that wait for them now.

    `functions` are the names of what tasks may call; None if that is not known here.

    Raises:
        Exists: there is a task of one of these names.
        KeyNotFound: one comes after, or calls, what is not there.
        Invalid: it would close a cycle; what comes after the parent has begun; the run was
            cancelled, or has too many tasks.
    """
    assert board.head is not None
    if board.head.status == "cancelled":
        raise Invalid(f"run {key} was cancelled", hint="run.resume() lets it go on")
    check_count(len(board.specs) + len(tasks))
    if parent is not None and parent not in board.graph:
        raise KeyNotFound(f"run {key} has no task {parent!r}", hint="run.tasks() lists them")
    specs = _new_specs(board, key, parent, tasks, functions)
    later = {} if parent is None else _later(board, parent, specs)
    links = [(name, each) for each, spec in later.items() for name in specs if name in spec.also]
    graph = board.graph.grown({name: spec.after for name, spec in specs.items()}, links)
    for name, spec in specs.items():
        check_back_to(graph, name, spec)
        check_needs(name, spec, board.head.resources)
    return specs | later


def _new_specs(
    board: Board,
    key: str,
    parent: str | None,
    tasks: Sequence[FlowTask],
    functions: Collection[str] | None,
) -> dict[str, TaskSpec]:
    """Return the specs of new tasks; those that name nothing come after the parent."""
    found: dict[str, TaskSpec] = {}
    for each in tasks:
        check_argument(each, "a task", FlowTask, "a FlowTask")
        if each.name in found or each.name in board.graph:
            raise Exists(f"run {key} has a task {each.name!r}", hint="take another name")
        spec = each.spec
        if functions is not None and spec.call and spec.call not in functions:
            raise no_function(each.name, spec.call, functions)
        after = spec.after or (() if parent is None else (parent,))
        number = len(board.specs) + len(found)
        found[each.name] = replace(spec, after=after, number=number, part_of=parent or "")
    return found


def _later(board: Board, parent: str, specs: Mapping[str, TaskSpec]) -> dict[str, TaskSpec]:
    """Return the specs of what comes after a parent, which waits for its last parts as well.

    Its earlier parts come after it too, and do not wait for the new ones.
    """
    inner = {name for spec in specs.values() for name in spec.after}
    last = [name for name in specs if name not in inner]
    found = {}
    for name in board.graph.unlocks(parent):
        number = board.graph.number[name]
        status, spec = board.records[number].status, board.specs[number]
        if spec.part_of == parent:
            continue
        if status in _BEGUN:
            raise Invalid(
                f"task {name} comes after {parent}, and is {status} already",
                hint=f"run.retry({name!r}) first, or expand without a parent",
            )
        found[name] = replace(spec, also=tuple(dict.fromkeys((*spec.also, *last))))
    return found


def outdated(board: Board, flow: Flow) -> dict[str, TaskSpec]:
    """Return the specs of tasks that a flow says otherwise than a run; what has begun stays.

    Raises:
        Invalid: with them the run would have a cycle.
    """
    found: dict[str, TaskSpec] = {}
    for name, task in flow.tasks.items():
        if name not in board.graph:
            found[name] = replace(task.spec, number=len(board.specs) + len(found))
            continue
        number = board.graph.number[name]
        spec = board.specs[number]
        new = replace(task.spec, number=spec.number, also=spec.also)
        if new != spec and board.records[number].status not in HELD | ENDED:
            found[name] = new
    pairs = zip(board.graph.names, board.specs, strict=True)
    after = {name: spec.waits_for for name, spec in pairs} if found else {}
    TaskGraph(after | {name: spec.waits_for for name, spec in found.items()})
    return found
