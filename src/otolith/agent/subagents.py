"""Sub-agents: each works on a fork of the state, and what it did comes back by a merge.

The fork begins where the step began. That it is to be merged is kept with the step, and the merge
follows the commit of the step: whatever dies in between, the next process finds it and merges. The
sub-agent has a run and a thread of its own name, so that what both say and plan is kept apart; what
it writes to the state, `state.memory` too, is merged like any two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import count, takewhile
from typing import Any, Protocol, TypeVar

from otolith.agent.invocation import ANSWERED, Outcome
from otolith.agent.ledger import is_in_effect
from otolith.agent.run_store import Base, StoredRun
from otolith.core import Commit, Merge
from otolith.errors import MergeConflict, RefExists
from otolith.session import Versioned
from otolith.state.live import Live


class Runs(Protocol):
    """An orchestrator, as far as one that delegates to it needs to know it."""

    where: Any
    name: str
    above: Any
    recast: Any

    def reset(self) -> None: ...
    @property
    def run(self) -> Callable[..., Outcome]: ...


class Delegates(Protocol):
    """An orchestrator in a step."""

    name: str
    joins: list[str]
    recast: Callable[[Any], None] | None

    @property
    def state(self) -> Versioned | Live: ...
    @property
    def base(self) -> Base: ...


O = TypeVar("O", bound=Runs)  # noqa: E741


def run_subagent(
    parent: Delegates,
    other: Runs,
    task: str,
    *,
    name: str,
    branch: tuple[str, str],
    answers: Sequence[str] = (),
    **limits: Any,
) -> Outcome:
    """Let another orchestrator do a task on a branch; see `Orchestrator.delegate`.

    `branch` is that, and where it comes from. `answers` are those of this step so far; what it was
    told before the step was cut off, it knows.
    """
    state = parent.state
    assert isinstance(state, Versioned)
    where, source = branch
    try:
        fork = state.fork(where, at=source)
    except RefExists:  # this step was cut off after it had begun
        fork = branch_of(state, where)
    twin = copy_for(other, fork, name)
    twin.above = parent
    if parent.recast is not None:
        parent.recast(twin)
    if len(answers) > _answered(fork, name, parent.base.commit):
        limits["answer"] = answers[-1]
    # What an earlier step had it do, and is done, is not the answer to what this one asks.
    is_new = fork.head is not None and fork.head.id == parent.base.commit
    outcome = twin.run(task, session=state.session, **{"again": is_new, **limits})
    if where not in parent.joins:
        parent.joins.append(where)
    return outcome


def _answered(fork: Versioned, name: str, base: str) -> int:
    """Return how many answers a sub-agent was given on its fork since the step began."""
    since = takewhile(lambda commit: commit.id != base, fork.log())
    return sum(each.message == ANSWERED and each.meta.get("run") == name for each in since)


def branch_of(state: Versioned, name: str) -> Versioned:
    """Return another branch of the same session."""
    return Versioned(state.repo, session=state.session, branch=name, scope=state.scope)


def copy_for(orchestrator: O, state: Versioned, name: str) -> O:
    """Return an orchestrator like this one that runs in a state, under a name."""
    twin = copy(orchestrator)
    twin.where, twin.name = state, name
    twin.reset()
    return twin


def merge_subagents(run: StoredRun, branches: list[str]) -> None:
    """Merge what sub-agents did, each by its branch.

    Raises:
        MergeConflict: both sides changed the same thing in different ways; nothing was merged.
    """
    state = run.state
    for branch in branches:
        head = branch_of(state, branch).head
        assert head is not None
        was = state.head
        merged = state.merge(head, message=f"merge {branch}")
        if merged.commit == was and not is_in_effect(state, head):
            merged = _merged_again(run, branch, head)
        if merged.commit is None:
            paths = tuple(str(conflict.path) for conflict in state.conflicts)
            state.discard()
            raise MergeConflict(
                f"what {branch} did does not go with what was done here",
                paths=paths,
                hint=f"state.merge({branch!r}), resolve the conflicts, commit, and run again",
            )


def _merged_again(run: StoredRun, branch: str, head: Commit) -> Merge:
    """Merge what history has already, and the state has not, since it was rolled back.

    A merge of the same commit does nothing, so it is one of the same content: made anew, from where
    the step began.
    """
    state = run.state
    taken = state.repo.branches(run.session, scope=state.scope)
    name = next(each for at in count(2) if (each := f"{branch}.{at}") not in taken)
    anew = state.fork(name, at=run.began_at).rollback(head)
    merged = state.merge(anew, message=f"merge {branch}")
    state.repo.delete_branch(run.session, name, scope=state.scope)
    return merged
