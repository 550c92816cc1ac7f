"""Set-up shared by the promises: write a state, fork it, race two handles."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

from otolith.core import BareRepo, Branch

SESSION = "trip"


class Fork(NamedTuple):
    """Two branches that went apart."""

    ours: Branch
    theirs: Branch


def fork(state: Branch, base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> Fork:
    """Commit a base, and on two branches what each side makes of it. DELETE removes a path."""
    write(state, base)
    state.commit("base", allow_empty=True)
    other = state.fork("other")
    write(state, ours)
    state.commit("ours", allow_empty=True)
    write(other, theirs)
    other.commit("theirs", allow_empty=True)
    return Fork(state, other)


DELETE = object()


def write(state: Branch, values: dict[str, Any]) -> None:
    """Stage values by path; one that can be called is called with the state."""
    for path, value in values.items():
        if value is DELETE:
            del state[path]
        elif callable(value):
            value(state)
        else:
            state[path] = deepcopy(value)


def race(repo: BareRepo, first: Callable[[Branch], Any], second: Callable[[Branch], Any]) -> Branch:
    """Edit one branch through two handles and commit the first; return the second, uncommitted."""
    winner, loser = repo.session(SESSION), repo.session(SESSION)
    first(winner)
    second(loser)
    winner.commit("first")
    return loser
