"""`AnyState`: the interface of `Versioned`, `Live` and `Stateless`, for functions that take any."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Protocol, Self, runtime_checkable

from otolith.core import BareRepo, Change, Commit, Path, StateReader, Target
from otolith.state.event_log import EventLog
from otolith.types import Clock


@runtime_checkable
class AnyState(Protocol):
    """A dict of what an agent knows: `Versioned`, `Live` or `Stateless`.

    Methods are described there. What needs history raises Unsupported where there is none.
    """

    def __getitem__(self, path: str | Path) -> Any: ...
    def __setitem__(self, path: str | Path, value: object) -> None: ...
    def __delitem__(self, path: str | Path) -> None: ...
    def __contains__(self, path: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def get(self, path: str, default: Any = None) -> Any:
        """Return the value at a path, or the default."""

    def pop(self, path: str, default: Any, /) -> Any:
        """Remove the value at a path and return it, or the default."""

    def setdefault(self, path: str, default: Any, /) -> Any:
        """Return the value at a path; set it if there is none."""

    def update(self, values: Mapping[str, Any], /) -> None:
        """Set several values."""

    def keys(self) -> KeysView[str]:
        """Return the top names."""

    def values(self) -> ValuesView[Any]:
        """Return the top values."""

    def items(self) -> ItemsView[str, Any]:
        """Return the top names and values."""

    def names(self, path: str | Path = ()) -> list[str]:
        """Return the keys at a path."""

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as plain Python values."""

    @property
    def events(self) -> EventLog:
        """What happened, in order."""

    @property
    def head(self) -> Commit | None:
        """The last commit; None without history."""

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit."""

    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        skip_unstorable: bool = False,
    ) -> Commit | None:
        """Make everything that changed part of history."""

    def status(self) -> Sequence[Change]:
        """Return the staged edits."""

    def discard(self) -> None:
        """Drop the staged edits."""

    def diff(self, old: Target | None = None, new: Target | None = None) -> Sequence[Change]:
        """Return what changed from one commit to another."""

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]:
        """Yield commits, the latest first."""

    def at(self, target: Target) -> Mapping[str, Any]:
        """Return the state at a commit, read-only."""

    def checkout(self, target: Target) -> Mapping[str, Any]:
        """Return the state at a commit, read-only."""

    def rollback(
        self, target: Target | None = None, *, steps: int | None = None, discard: bool = False
    ) -> Commit:
        """Go back to an earlier state by a new commit."""

    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Start another branch at a commit."""

    def close(self) -> None:
        """Close the store."""


def clock_of(state: StateReader) -> Clock | None:
    """Return the clock of the repo of a state; a snapshot has none."""
    repo: object = getattr(state, "repo", None)
    return repo.clock if isinstance(repo, BareRepo) else None
