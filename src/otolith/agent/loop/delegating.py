"""Sub-agents: each works on a fork of the state, and what it did comes back by a merge.

The fork begins where the step began. That it is to be merged is kept with the step, and the merge
follows the commit of the step: whatever dies in between, the next process finds it and merges. The
sub-agent has a run and a thread of its own name. Its working memory stays on its fork: what it had
in mind is not what the other has in mind.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, TypeVar

from otolith.agent.live import Live
from otolith.agent.loop.outcome import Outcome
from otolith.agent.loop.record import Base, KeptRun
from otolith.agent.session import Versioned
from otolith.core import MEMORY
from otolith.errors import Invalid, MergeConflict, RefExists, Unsupported


class Runs(Protocol):
    """An orchestrator, as far as one that delegates to it needs to know it."""

    where: Any
    name: str

    def reset(self) -> None: ...
    @property
    def run(self) -> Callable[..., Outcome]: ...


class Delegates(Protocol):
    """An orchestrator in a step."""

    name: str
    joins: list[str]

    @property
    def state(self) -> Versioned | Live: ...
    @property
    def base(self) -> Base: ...


O = TypeVar("O", bound=Runs)  # noqa: E741


def delegated(parent: Delegates, other: Runs, task: str, *, name: str, **limits: Any) -> Outcome:
    """Let another orchestrator do a task on a fork; see `Orchestrator.delegate`."""
    state, base = parent.state, parent.base
    if not isinstance(state, Versioned) or not base.commit:
        raise Unsupported("there is no history to fork", hint="give a store or a Versioned state")
    if name == parent.name:
        raise Invalid(f"{name} is the name of the run itself", hint="give the sub-agent its own")
    branch = f"{parent.name}.{name}.{base.iteration}.{base.commit[:8]}"
    try:
        fork = state.fork(branch, at=base.commit)
    except RefExists:  # this step was cut off after it had begun
        fork = Versioned(state.repo, session=state.session, branch=branch, scope=state.scope)
    outcome = bound(other, fork, name).run(task, session=state.session, **limits)
    parent.joins.append(branch)
    return outcome


def bound(orchestrator: O, state: Versioned, name: str) -> O:
    """Return an orchestrator like this one that runs in a state, under a name."""
    twin = copy(orchestrator)
    twin.where, twin.name = state, name
    twin.reset()
    return twin


def join(run: KeptRun, branches: list[str]) -> None:
    """Merge what sub-agents did, each by its branch.

    Raises:
        MergeConflict: both sides changed the same thing in different ways; nothing was merged.
    """
    state = run.state
    for branch in branches:
        fork = Versioned(state.repo, session=state.session, branch=branch, scope=state.scope)
        assert fork.head is not None
        _leave_memory(state, fork)
        merged = state.merge(fork, message=f"merge {branch}")
        if merged.commit is None:
            paths = tuple(str(conflict.path) for conflict in state.conflicts)
            state.discard()
            raise MergeConflict(
                f"what {branch} did does not go with what was done here",
                paths=paths,
                hint=f"state.merge({branch!r}), resolve the conflicts, commit, and run again",
            )


def _leave_memory(state: Versioned, fork: Versioned) -> None:
    """Let the memory of a fork be that of the state it goes back to."""
    ours, theirs = state.cell_at((MEMORY,)), fork.cell_at((MEMORY,))
    if theirs is not None and not fork.cells.same(ours, theirs):
        fork.write_reserved((MEMORY,), ours)
        fork.commit("leave what was in mind")
