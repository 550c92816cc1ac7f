"""TeamContext: the state, the member and the way to commit that all parts of a team share.

A member writes through `change`, and what it writes carries the number of its membership as a
fence. What is shown to the member is read from the head (`committed`), never from what is staged:
that may be half of another thread's transaction, or a commit of which nobody knows whether it
landed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Generic, Literal, TypeVar

from otolith.core import PATIENCE_SECONDS, Backend, Branch, Commit, Snapshot
from otolith.errors import CommitNotFound, Denied, Fenced, Invalid, Uncommitted
from otolith.teams.members import Member, add_member, check_member_name, find_member, was_removed
from otolith.teams.records import TeamRecords

S = TypeVar("S", bound=Branch)
R = TypeVar("R")

_TRIES = 8


class TeamContext(Generic[S]):
    """One member's view of a team. `open` returns a new handle on the team's state."""

    def __init__(
        self, id: str, *, backend: Backend, open: Callable[[], S], member: str | None
    ) -> None:
        if member is not None:
            check_member_name(member)
        self.id = id
        self.backend = backend
        self.open = open
        self.state = open()
        if member is None:
            self.state.look_only(self._no_member)
        self.records = TeamRecords(self.state)
        self.name = member
        self._scratch: S | None = None
        self._scratch_lock = RLock()
        self._joined: Member | None = None
        self._checked_at: Commit | None = None  # a head at which the member is one

    @property
    def ref(self) -> str:
        """The ref of the team's state."""
        return self.state.ref

    @property
    def member(self) -> str:
        """The member that acts here.

        Raises:
            Invalid: the team was opened without one.
        """
        if self.name is None:
            raise self._no_member()
        return self.name

    def _no_member(self) -> Invalid:
        return Invalid(
            f"team {self.id} was opened without a member, only to look",
            hint=f"open it with repo.team({self.id!r}, member=…)",
        )

    @contextmanager
    def scratch(self) -> Iterator[S]:
        """Return a handle of the head to try something out; what is staged on it is dropped."""
        with self._scratch_lock:
            if self._scratch is None:
                self._scratch = self.open()
                if self.name is not None:
                    self._scratch.commit_as(self.name)
            state = self._scratch
            try:
                state.refresh()
                yield state
            finally:
                state.discard()

    def now(self) -> int:
        """Return the time of the repo's clock, never before the last commit."""
        head = self.state.head
        return max(self.backend.clock(), 0 if head is None else head.time)

    def next_number(self, last: int = 0) -> int:
        """Return the next number of a membership or an ownership, as a fence.

        It is higher than the last one, and than all that were given before, also those that an undo
        or a rollback took out of the records, and those of a team that was deleted.
        """
        return max(last + 1, self.now())

    def committed(self) -> TeamRecords:
        """Return what the team stores of itself, as it is committed now."""
        with self.state.lock:
            is_clean = self.state.is_clean
            head = self.state.refresh() if is_clean else self.backend.refs.head(self.ref)
        return TeamRecords(self.state if head is None else Snapshot(self.backend.cells(), head))

    # The member

    def join(self) -> Member:
        """Make sure that the member is one, and let all commits here be its own.

        Raises:
            Denied: it was removed from the team.
        """
        with self.state.lock:
            head = self.state.head
            is_known = head is not None and head is self._checked_at
            if self._joined is not None and not is_known and self.state.is_clean:
                self._check_number(self._joined)
                self._checked_at = head
            if self._joined is None:
                self._joined = self._join()
                self.sign(self.state, self._joined)
            return self._joined

    def _join(self) -> Member:
        """Return the member as it is stored; add it if it is not there."""
        found = None
        if self.state.is_clean:  # else a commit of this may have got no reply
            self.state.refresh()
            found = find_member(self.records, self.member)
        if found is None:
            message = f"{self.member} joins"
            found = self.state.transact(self._add, message, author=self.member)
        if found.is_removed:
            raise was_removed(self.id, self.member)
        return found

    def _add(self, state: S) -> Member:
        found = find_member(self.records, self.member)
        if found is None:
            now, number = self.now(), self.next_number()
            found = add_member(self.records, self.member, role=None, now=now, number=number)
        return found

    def _check_number(self, joined: Member) -> None:
        """Raise Denied if the membership is known to have ended; forget it if it is unknown."""
        found = find_member(self.records, joined.name)
        if found is None:  # the state was rolled back to before
            self._joined = None
        elif found.number > joined.number or found.is_removed:  # or that, in another store
            self._joined = None
            if found.is_removed:
                raise was_removed(self.id, joined.name)
            raise Denied(
                f"{joined.name} was removed from team {self.id}, and taken back since",
                hint="do it again: what was done in between was dropped",
            )

    def sign(self, state: Branch, member: Member) -> None:
        """Let all commits of a handle be the member's own."""
        state.commit_as(member.name, fences={self.fence_of(member.name): member.number})

    def fence_of(self, member: str) -> str:
        """Return the name of the fence that a member's commits carry."""
        return f"{self.ref.rpartition('/')[0]}/member/{member}"

    @property
    def fences(self) -> dict[str, int]:
        """What every write of the member carries."""
        joined = self.join()
        return {self.fence_of(joined.name): joined.number}

    @contextmanager
    def membership(self) -> Iterator[None]:
        """Raise Denied instead of Fenced if the member was removed."""
        try:
            yield
        except Fenced:
            self.look_for_removal()
            raise

    def look_for_removal(self) -> None:
        """Raise Denied if the member is known to have been removed."""
        with self.state.lock:
            if self._joined is not None and self.state.is_clean:
                self.state.refresh()
                self._check_number(self._joined)

    # Writing

    def change(
        self,
        edit: Callable[[S], R],
        message: str,
        *,
        author: str | None = None,
        meta: Mapping[str, Any] | None = None,
        reads: Mapping[str, Commit] | None = None,
        attempts: int = 1000,
        patience_seconds: float = PATIENCE_SECONDS,
        if_moved: Literal["rerun", "merge"] = "rerun",
        look_first: bool = True,
        keeps_members: bool = False,
    ) -> R:
        """Run a transaction on the team's state as the member.

        An edit that `keeps_members` changes none of them: after it has landed, which the store
        allows to a member only, there is nothing to check.

        Raises:
            Denied: the member was removed.
            Uncommitted: the member has staged edits in the state.
        """
        self.join()
        tries_left = _TRIES
        while True:
            try:
                result = self.state.transact(
                    edit,
                    message,
                    author=author,
                    meta=meta,
                    reads=reads,
                    attempts=attempts,
                    patience_seconds=patience_seconds,
                    if_moved=if_moved,
                    look_first=look_first,
                )
            except Uncommitted as error:
                if self.state.is_clean:
                    raise  # of another state, which the edit has used
                what = f"{message or 'transact'}: there are staged edits in the state of {self.id}"
                raise Uncommitted(what, hint=error.hint) from None
            except Fenced as error:
                before, tries_left = self.state.head, tries_left - 1
                self.look_for_removal()
                # Of two that raise one fence at once, the slower one has the lower number.
                if self.state.head == before or not tries_left:
                    raise self._explained(error) from None
            else:
                if keeps_members:
                    self._checked_at = self.state.head
                return result

    def _explained(self, error: Fenced) -> Fenced:
        """Return an error with the hint for a member that was removed before a rollback."""
        if self.fence_of(self.member) in error.message:
            error.hint = (
                f"if the state of the team was rolled back to before {self.member} was removed,"
                f" another member lets it write: team.remove({self.member!r}), then"
                f" team.add({self.member!r})"
            )
        return error

    def stored_commit(self, commit: Commit) -> Commit:
        """Return a commit that was given, if the team's store has it.

        Raises:
            CommitNotFound: it is one of another store.
        """
        if not self.backend.store.read([commit.hash]):
            raise CommitNotFound(
                f"commit {commit.short} is not in the store of team {self.id}",
                hint="pull or fetch it first",
            )
        return commit

    def merge_base(self, theirs: Commit) -> Commit | None:
        """Return a commit that the team's head and another one both come from."""
        head, graph = self.state.head, self.backend.graph
        return None if head is None else next(iter(graph.bases([head], [theirs])), None)
