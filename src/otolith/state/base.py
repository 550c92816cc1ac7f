"""State: what all ways to hold state have in common, for functions that take any of them.

One thread at a time inside an object.

What time it is for a view of a state: that of its repo, unless the view was given a clock.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, runtime_checkable

from otolith.core import Change, Commit, Path, Repo, StateReader, Target
from otolith.state.event_log import EventLog
from otolith.types import Clock


@runtime_checkable
class State(Protocol):
    """A dict that an agent keeps what it knows in: `Versioned`, `Live` or `Stateless`.

    What needs history raises Unsupported where there is none.
    """

    def __getitem__(self, path: str | Path) -> Any: ...
    def __setitem__(self, path: str | Path, value: object) -> None: ...
    def __delitem__(self, path: str | Path) -> None: ...
    def __contains__(self, path: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, path: str, default: Any = None) -> Any: ...
    def pop(self, path: str, default: Any, /) -> Any: ...
    def setdefault(self, path: str, default: Any, /) -> Any: ...
    def update(self, values: Mapping[str, Any], /) -> None: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str, Any]: ...
    def names(self, path: str | Path = ()) -> list[str]: ...
    def to_dict(self) -> dict[str, Any]: ...

    @property
    def events(self) -> EventLog: ...
    @property
    def head(self) -> Commit | None: ...
    @property
    def is_clean(self) -> bool: ...

    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        skip_unstorable: bool = False,
    ) -> Commit | None: ...

    def status(self) -> Sequence[Change]: ...
    def discard(self) -> None: ...
    def diff(self, old: Target | None = None, new: Target | None = None) -> Sequence[Change]: ...
    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]: ...
    def at(self, target: Target) -> Mapping[str, Any]: ...
    def checkout(self, target: Target) -> Mapping[str, Any]: ...
    def rollback(self, target: Target | None = None, *, steps: int | None = None) -> Commit: ...
    def fork(self, name: str, *, at: Target = "@") -> Self: ...
    def close(self) -> None: ...


class HasTurns(Protocol):
    """Something that threads take turns with."""

    def turn(self) -> AbstractContextManager[object]: ...


S = TypeVar("S", bound=HasTurns)
P = ParamSpec("P")
R = TypeVar("R")


def synchronized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method run as one turn."""

    @wraps(method)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn():
            return method(self, *args, **kwargs)

    return run


def clock_of(state: StateReader) -> Clock | None:
    """Return the clock of a state that goes on; one that is only read has none."""
    repo: object = getattr(state, "repo", None)
    return repo.clock if isinstance(repo, Repo) else None
