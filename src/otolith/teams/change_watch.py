"""Watch: the changes to a branch, path by path, in the order of its commits.

Rules
1. A watch reads history, it is not sent it: the news of the store only says when to look. So a
   watch that was away, or slow, misses nothing, and holds one commit at a time in memory.
2. Commits are followed from head to head along their first parents, which is the way a branch
   moves by commits and merges. Where a head was not reached that way (an undo, a fast-forward, a
   history that was pruned), the change from the last head to this one is reported as one step.
3. A cursor names the commit and the number of its changes that were delivered. A watch that goes on
   from a cursor delivers the next change, and none twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from otolith.core import (
    Backend,
    Change,
    Commit,
    Path,
    Snapshot,
    differences,
    format_path,
    parse_path,
)
from otolith.durations import Duration, wait_seconds
from otolith.errors import Closed, Corrupt, NotFound, RefNotFound
from otolith.shapes import NOTHING, check_argument
from otolith.stores import Subscription, news_of
from otolith.types import Hash, short_repr

_CURSOR = re.compile(r"([0-9a-f]{64}):(\d{1,9})(?::([0-9a-f]{64}))?")
LOOK_SECONDS = 5.0
"""How long to trust silence: a connection may have died without a word."""


@short_repr("path", "kind", "by")
@dataclass(frozen=True, slots=True)
class WatchedChange:
    """One path that a commit changed. Values are read on access."""

    change: Change
    commit: Commit
    cursor: str
    """Where to go on after this change: `team.watch(since=cursor)`."""

    @property
    def path(self) -> str:
        """The path as text."""
        return self.change.path

    @property
    def keys(self) -> Path:
        """The keys of the path."""
        return self.change.keys

    @property
    def kind(self) -> str:
        """`added`, `removed` or `changed`."""
        return self.change.kind

    @property
    def old(self) -> Any:
        """The value before; None if it was added."""
        return self.change.old

    @property
    def new(self) -> Any:
        """The value after; None if it was removed."""
        return self.change.new

    @property
    def by(self) -> str:
        """The author of the commit: in a team, the member."""
        return self.commit.author


class _Position(NamedTuple):
    """A commit, and how many of its changes were delivered; None means all of them.

    `before` is the head that the commit is compared with, if that is not its first parent.
    """

    commit: Commit | None
    delivered: int | None = None
    before: Commit | None = None

    @property
    def cursor(self) -> str | None:
        """The position as text; None before there was a commit."""
        if self.commit is None:
            return None
        parts = [self.commit.id]
        parts += [] if self.delivered is None else [str(self.delivered)]
        parts += [] if self.before is None else [self.before.id]
        return ":".join(parts)


class Watch:
    """An endless iterator over the changes of a branch; `close` ends it, or a `with`.

    One thread uses it. `next(watch)` waits for the next change, `watch.next(timeout_seconds)` for a
    while only.
    """

    def __init__(
        self,
        backend: Backend,
        ref: str,
        prefix: str = "",
        *,
        since: Commit | str | None = None,
        resolve: Callable[[str], Commit],
    ) -> None:
        check_argument(prefix, "prefix", str, "a path as text")
        check_argument(since, "since", (Commit, str, NOTHING), "a commit, its name or a cursor")
        path = prefix.rstrip("/")
        self._backend = backend
        self.ref = ref
        self._path = parse_path(path) if path else ()
        self._news: Subscription | None = None  # from the first wait on
        self._is_closed = False
        head = backend.refs.head(ref)
        self._position = _Position(head) if since is None else self._start(since, resolve)
        self._changes: Iterator[WatchedChange] = self._rest_of_commit()
        self._steps: list[tuple[Hash, Hash | None]] = []  # commits to go through, the next one last

    def __repr__(self) -> str:
        return f"<Watch {self.ref} {format_path(self._path)}>"

    def _start(self, since: Commit | str, resolve: Callable[[str], Commit]) -> _Position:
        """Return the position of a commit, an expression, or a cursor."""
        if isinstance(since, Commit):
            return _Position(since)
        found = _CURSOR.fullmatch(since)
        if found is None:
            return _Position(resolve(since))
        id, number, before = found.groups()
        return _Position(resolve(id), int(number), resolve(before) if before else None)

    @property
    def cursor(self) -> str | None:
        """Where to go on after the last change; None before there was a commit."""
        return self._position.cursor

    def next(self, timeout_seconds: Duration | None = None) -> WatchedChange | None:
        """Return the next change; None if there was none for so long, such as 5 or "1m".

        Raises:
            Invalid: that is not a duration.
            RefNotFound: the branch was deleted.
            Closed: the watch was closed.
        """
        longest = None if timeout_seconds is None else wait_seconds(timeout_seconds, "timeout")
        deadline = None if longest is None else monotonic() + longest
        while True:
            found = self._next_of_commit()
            if found is not None:
                return found
            if self._advance():
                continue
            if self._is_closed:
                raise Closed(f"the watch of {self.ref} was closed", hint="watch again")
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return None
            if self._news is None:
                self._news = news_of(self._backend.store, self.ref)  # then look once more
            else:
                self._news.wait(LOOK_SECONDS if left is None else min(left, LOOK_SECONDS))

    def _next_of_commit(self) -> WatchedChange | None:
        """Return the next change of the current commit; after an error, it is the next again."""
        try:
            return next(self._changes, None)
        except BaseException:
            self._changes = self._rest_of_commit()
            raise

    def _advance(self) -> bool:
        """Go to the next commit; return whether there is one."""
        if not self._steps:
            self._steps = self._way()
        if not self._steps:
            return False
        hash, before = self._steps[-1]
        graph = self._backend.graph
        commit = graph.commit(hash)
        self._position = _Position(commit, 0, None if before is None else graph.commit(before))
        self._changes = self._rest_of_commit()
        self._steps.pop()  # last: if the store fails above, this commit is still the next one
        return True

    def _way(self) -> list[tuple[Hash, Hash | None]]:
        """Return the commits from the last one to the head, the first one last (rule 2)."""
        last, head = self._position.commit, self._backend.refs.head(self.ref)
        if head is None:
            if last is not None:
                raise RefNotFound(f"{self.ref} was deleted", hint="watch another branch")
            return []
        if last is not None and last.id == head.id:
            return []
        steps: list[tuple[Hash, Hash | None]] = []
        goal, lowest = (None, 0) if last is None else (last.id, last.generation)
        at: Commit | None = head
        try:
            while at is not None and at.id != goal and at.generation > lowest:
                steps.append((at.hash, None))
                parent = at.parents[0] if at.parents else None
                at = None if parent is None else self._commit(parent)
        except (NotFound, Corrupt):
            at = head  # older commits are gone
        is_reached = (None if at is None else at.id) == goal
        return steps if is_reached else [(head.hash, None if last is None else last.hash)]

    def _commit(self, id: str) -> Commit:
        return self._backend.graph.commit(Hash(bytes.fromhex(id)))

    def _rest_of_commit(self) -> Iterator[WatchedChange]:
        """Yield the changes of the current commit that were not delivered."""
        commit, delivered, before = self._position
        if commit is None or delivered is None:
            return
        base = self._commit(commit.parents[0]) if before is None and commit.parents else before
        for number, change in enumerate(self._differences(base, commit), 1):
            if number > delivered:
                self._position = _Position(commit, number, before)
                yield WatchedChange(change, commit, str(self._position.cursor))

    def _differences(self, before: Commit | None, commit: Commit) -> Iterator[Change]:
        """Yield what changed below the path; what belongs to otolith only if it is asked for."""
        cells = self._backend.cells()
        old, new = (None if at is None else self._cell(at) for at in (before, commit))
        if not self._path:
            old = cells.put({}) if old is None else old
        if old is not None and new is not None:
            for change in differences(cells, old, new, self._path):
                if self._path or not change.path.startswith("."):
                    yield change
        elif old is not new:
            yield Change(cells, self._path, old, new)

    def _cell(self, commit: Commit) -> bytes | None:
        """Return the cell at the path of a commit."""
        snapshot = Snapshot(self._backend.cells(), commit)
        return snapshot.cell_at(self._path) if self._path else commit.cell

    def close(self) -> None:
        """End the watch; a thread that waits in it gets Closed, or no change."""
        self._is_closed = True
        if self._news is not None:
            self._news.close()

    def __iter__(self) -> Iterator[WatchedChange]:
        return self

    def __next__(self) -> WatchedChange:
        found = self.next()
        assert found is not None
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
