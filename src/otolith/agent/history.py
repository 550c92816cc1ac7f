"""The commits that count for a run: without what was rolled back, and with the forks of sub-agents.

A rollback is a commit on top of those that it takes back, so a plain walk through history finds
work that is no longer in effect. `effective_history` follows a rollback to its target instead. The
effects of such work stay in the world all the same: `states_since` has the states that hold them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from otolith.core import LOOP, Branch, Commit, Path, StateReader
from otolith.errors import Invalid
from otolith.flows import branches_of_tasks

RUNS: Path = (LOOP, "runs")
FORKS = "forks"
BEGIN = "begin "
"""The message of a commit with which a run begins a task starts so."""
ANSWERED, ANSWERED_BY_HUMAN = "answered", "answered at once"
"""Messages of commits with the answer to a question: by `answer=`, or by `human=`."""


def effective_history(state: Branch) -> Iterator[Commit]:
    """Yield the commits that are in effect in a state, the latest first."""
    heap = [] if state.head is None else [(-state.head.time, state.head.id, state.head)]
    seen: set[str] = set()
    while heap:
        _, id, commit = heapq.heappop(heap)
        if id in seen:
            continue
        seen.add(id)
        yield commit
        is_rollback = commit.kind == "rollback"
        for parent in (str(commit.meta["to"]),) if is_rollback else commit.parents:
            below = state.resolve(parent)
            heapq.heappush(heap, (-below.time, below.id, below))


def is_in_effect(state: Branch, commit: Commit) -> bool:
    """Tell whether a commit is one of those that are in effect in a state."""
    for each in effective_history(state):
        if each.id == commit.id:
            return True
        if each.time < commit.time:
            return False
    return False


def answers_since(state: Branch, name: str, commit_id: str | None = None) -> int:
    """Return how many answers a run was given since a commit, by default since its task began."""
    found = 0
    for commit in state.log() if state.head is not None else ():
        is_own = commit.meta.get("run") == name
        is_begin = commit_id is None and is_own and commit.message.startswith(BEGIN)
        if is_begin or commit.id == commit_id:
            break
        found += is_own and commit.message == ANSWERED
    return found


def states_since(state: Branch, commit: Commit | None) -> Iterator[StateReader]:
    """Yield the current state of a branch, and the state before each rollback after a commit."""
    yield state
    for each in state.log() if state.head is not None else ():
        if commit is not None and each.time <= commit.time:  # descendants are always later
            return
        if each.kind == "rollback":
            yield from (state.at(parent) for parent in each.parents[:1])


def subagent_branches(state: StateReader) -> Iterator[tuple[str, str]]:
    """Yield the name and the branch of each sub-agent of all runs in a state, and of tasks."""
    yield from branches_of_tasks(state)
    cells, runs = state.cells, state.cell_at(RUNS)
    for key, _ in cells.entries(runs) if runs is not None else ():
        cell = state.cell_at((*RUNS, str(cells.encoding.unkey(key)), FORKS))
        for each in cells.elements(cell) if cell is not None else ():
            stored: Any = cells.load(each)
            yield stored[1], stored[2]


def require_own_commit(state: Branch, commit: Commit, name: str) -> None:
    """Refuse a commit of a sub-agent: its fork does not have the run of this name.

    Raises:
        Invalid: it is one.
    """
    run = commit.meta.get("run", name)
    if run != name and run in {sub for sub, _ in subagent_branches(state)}:
        raise Invalid(
            f"{commit.short} is a commit of the sub-agent {run}, on its fork",
            hint=f"choose a commit of {name}: state.log() lists them, each with its step",
        )
