"""Live and Stateless: state in this process, which holds any object and remembers no past.

They have the verbs of `Versioned`. What can be done without history is done; what cannot raises
Unsupported and says what to use instead.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, Self

from otolith import ambient
from otolith.agent.containers import Containers, copied
from otolith.agent.event import EventLog
from otolith.agent.live_events import LiveEvents
from otolith.agent.state import State
from otolith.core import Change, Commit, Path, Target
from otolith.errors import Unsupported
from otolith.types import Clock


class Live(Containers):
    """What an agent knows, in memory: any object, by reference, for as long as the process lives.

    A path goes down through dicts and lists. Threads take turns.
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, clock: Clock | None = None
    ) -> None:
        super().__init__()
        self._clock = ambient.wall_clock if clock is None else clock
        self._events = LiveEvents(self._clock)
        self._policies: dict[str, str] = {}
        self.update(values or {})

    @property
    def events(self) -> EventLog:
        """What happened, in order, since this state was made."""
        return self._events

    def now(self) -> int:
        """Return the time by the clock of this state, in microseconds since 1970."""
        return self._clock()

    # Verbs that are the same without history

    @property
    def head(self) -> Commit | None:
        """None: there are no commits."""
        return None

    @property
    def is_clean(self) -> bool:
        """True: nothing waits to be committed."""
        return True

    def commit(
        self,
        message: str = "",
        *,
        author: str | None = None,
        kind: str = "step",
        meta: Mapping[str, Any] | None = None,
        fences: Mapping[str, int] | None = None,
        reads: Mapping[str, Commit] | None = None,
        allow_empty: bool = False,
        skip_unstorable: bool = False,
    ) -> None:
        """Return None: everything is in place already, and nothing is stored."""

    def status(self) -> builtins.list[Change]:
        """Return nothing: there is nothing to commit."""
        return []

    def diff(self, old: Target | None = None, new: Target | None = None) -> builtins.list[Change]:
        """Return nothing, as long as no commit is asked for."""
        if old is not None or new is not None:
            raise self._no_history("diff")
        return []

    def log(
        self,
        target: Target | None = None,
        *,
        limit: int | None = None,
        path: str | Path | None = None,
    ) -> Iterator[Commit]:
        """Yield nothing, as long as no commit is asked for."""
        if target is not None:
            raise self._no_history("log")
        return iter(())

    def refresh(self) -> None:
        """Return None: nobody else writes here."""

    def fork(self, name: str, *, at: Target = "@") -> Self:
        """Return a copy to go on with. Dicts and lists are copied, other values are shared."""
        if at != "@":
            raise self._no_history("fork at a commit")
        twin = type(self)(clock=self._clock)
        with self._turns:
            twin._take_over(self)  # noqa: SLF001 - another of the same kind
        return twin

    def _take_over(self, other: Self) -> None:
        self._root = copied(other._root, {})
        self._events.extend(other.events)
        self._policies = other.policies()

    def policy(self, pattern: str, name: str) -> None:
        """Remember how a path would merge. Nothing merges here."""
        self._policies[pattern] = name

    def policies(self) -> dict[str, str]:
        """Return the merge policies by pattern."""
        return dict(self._policies)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    # Verbs that need history

    def at(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no past to look at."""
        raise self._no_history("at")

    def checkout(self, target: Target) -> NoReturn:
        """Raise Unsupported: there is no past to look at."""
        raise self._no_history("checkout")

    def resolve(self, target: Target) -> NoReturn:
        """Raise Unsupported: there are no commits to name."""
        raise self._no_history("resolve")

    def rollback(self, target: Target | None = None, *, steps: int | None = None) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("rollback")

    def undo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go back to."""
        raise self._no_history("undo")

    def redo(self) -> NoReturn:
        """Raise Unsupported: there is nothing to go forward to."""
        raise self._no_history("redo")

    def discard(self) -> NoReturn:
        """Raise Unsupported: what was overwritten is gone."""
        raise self._no_history("discard")

    def merge(self, other: object, *, message: str = "", author: str | None = None) -> NoReturn:
        """Raise Unsupported: a merge needs to know what two states had in common."""
        raise self._no_history("merge")

    def blame(self, path: str | Path = (), *, at: Target = "@") -> NoReturn:
        """Raise Unsupported: nobody wrote down who set what."""
        raise self._no_history("blame")

    @property
    def conversation(self) -> NoReturn:
        """Raise Unsupported: what is said is kept with its history."""
        raise self._no_history("conversation")

    @property
    def memory(self) -> NoReturn:
        """Raise Unsupported: what is noted is kept with its history."""
        raise self._no_history("memory")

    def _no_history(self, verb: str) -> Unsupported:
        return Unsupported(
            f"{verb}: {type(self).__name__} state has no history",
            hint="use Versioned(Memory()) for history in memory, Versioned(Disk(path)) to keep it",
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} keys>"


class Stateless(Live):
    """No state: a place for the values of one step, empty again after each commit."""

    def commit(self, message: str = "", **details: Any) -> None:
        """Forget everything: the step is over."""
        with self._turns:
            self._root.clear()
            self._events.clear()


def state_of(state: State | None) -> State:
    """Return a state to work with, also where none was given."""
    if state is None:
        return Stateless()
    return state
