"""What a state stands on: its history without what rollbacks have left behind.

A rollback is a commit on top of what it takes back, so that a walk through history meets what is no
longer so. Whoever looks there for what was done already must not find that: here, a rollback is
followed by where it went, and not by where it came from.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from otolith.core import Branch, Commit


def standing(state: Branch) -> Iterator[Commit]:
    """Yield the commits that a state stands on, the latest first."""
    heap = [] if state.head is None else [(-state.head.time, state.head.id, state.head)]
    seen: set[str] = set()
    while heap:
        _, id, commit = heapq.heappop(heap)
        if id in seen:
            continue
        seen.add(id)
        yield commit
        for below in map(state.resolve, _below(commit)):
            heapq.heappush(heap, (-below.time, below.id, below))


def stands_on(state: Branch, goal: Commit) -> bool:
    """Tell whether a commit is one of those that a state stands on."""
    for commit in standing(state):
        if commit.id == goal.id:
            return True
        if commit.time < goal.time:
            return False
    return False


def _below(commit: Commit) -> tuple[str, ...]:
    return (str(commit.meta["to"]),) if commit.kind == "rollback" else commit.parents
