"""Team: a state that several members share, and what they need beside it.

`team.state` is a state like any other: read it, edit it, commit. What changes it through the team
(`transact`, votes, messages, decisions) reads, decides and commits as one. Every commit has the
member as its author, and carries the member's fence (`members.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from otolith.core import PATIENCE_SECONDS, Backend, Branch, Commit, scope_ref
from otolith.durations import Duration
from otolith.errors import (
    AlreadyCommitted,
    BadRef,
    CommitNotFound,
    Conflict,
    Fenced,
    Invalid,
    KeyNotFound,
    Uncommitted,
)
from otolith.shapes import FUNCTION, NOTHING, check_argument
from otolith.stores import Batch
from otolith.teams.change_watch import Watch
from otolith.teams.handoff import SessionOwner, not_yours, put_owner, session_owner, session_owners
from otolith.teams.inbox import (
    LEAVE,
    Inbox,
    InboxConflict,
    Resolver,
    misfit,
    note_failure,
    put_conflicts,
    read_inbox,
    settle_conflict,
)
from otolith.teams.leases import LeaseEntry, Presence, TeamLease, TeamLeases
from otolith.teams.members import (
    EVERYBODY,
    Member,
    add_member,
    current_members,
    existing_member,
    remove_member,
)
from otolith.teams.messages import TeamMessage, send_message, take_messages, unread_messages
from otolith.teams.proposal_record import STATUSES, Quorum, proposal_record, proposal_records
from otolith.teams.proposals import Proposal, make_proposal
from otolith.teams.queue import FairQueue, QueueEntry, queues
from otolith.teams.records import TeamRecords
from otolith.teams.requests import wait_for
from otolith.teams.team_context import TeamContext

S_co = TypeVar("S_co", bound=Branch, covariant=True)
S = TypeVar("S", bound=Branch)
R = TypeVar("R")


class OpenState(Protocol[S_co]):
    """Returns a handle on a state: `Versioned` with the repo filled in."""

    def __call__(self, *, scope: str, session: str, branch: str = ...) -> S_co: ...


class Team(Generic[S]):
    """What a team shares, as one member: `repo.team("research", member="planner")`.

    `with team:` shows the others that the member is present. Threads may share it; each thread that
    edits `team.state` should have a team of its own.
    """

    def __init__(
        self, id: str, *, backend: Backend, open: OpenState[S], member: str | None = None
    ) -> None:
        scope_ref("team", id, "main")  # refuses what is not a name
        opened = partial(open, scope="team", session=id)
        self._context: TeamContext[S] = TeamContext(id, backend=backend, open=opened, member=member)
        self._open_state = open
        self._presences: list[Presence] = []

    def __repr__(self) -> str:
        name = self._context.name
        return f"<Team {self.id}{'' if name is None else f' as {name}'}>"

    @property
    def id(self) -> str:
        """The name of the team."""
        return self._context.id

    @property
    def member(self) -> str:
        """The name of the member that acts here.

        Raises:
            Invalid: the team was opened without one.
        """
        return self._context.member

    def as_member(self, name: str) -> Team[S]:
        """Return the same team as another of its members, with a handle of its own."""
        return Team(self.id, backend=self._context.backend, open=self._open_state, member=name)

    @property
    def state(self) -> S:
        """The state that the team shares. Its commits here have the member as their author."""
        if self._context.name is not None:
            self._context.join()
        return self._context.state

    # Members

    def members(self) -> list[Member]:
        """Return the members, by name, and whether they are present."""
        leased, name = self._leases.leaser.leased, self._leases.presence_name
        found = current_members(self._context.committed()).values()
        return [each.seen(is_present=leased(name(each.name)) is not None) for each in found]

    def add(self, name: str, *, role: str | None = None) -> Member:
        """Add a member, take one back that was removed, or give one another role."""
        context = self._context

        def add(state: S) -> Member:
            now, number = context.now(), context.next_number()
            return add_member(context.records, name, role=role, now=now, number=number)

        return context.change(add, f"add {name}")

    def remove(self, name: str) -> None:
        """Remove a member: it cannot write any more; its leases, slots and requests are taken back.

        What it approved stays approved. Sessions that it works on can be taken by others.

        Raises:
            KeyNotFound: there is no such member. What it had is taken back nevertheless.
        """
        context = self._context

        def remove(state: S) -> Member:
            member = existing_member(context.records, name, self.id)
            now, number = context.now(), context.next_number(member.number)
            gone = remove_member(context.records, member, now=now, number=number)
            state.carry({context.fence_of(name): gone.number})
            return gone

        try:
            context.change(remove, f"remove {name}")
        except (KeyNotFound, AlreadyCommitted):  # an earlier call may not have come to its end
            self._revoke(name)
            raise
        self._revoke(name)

    def _revoke(self, name: str) -> None:
        """Take back what a member has, if it was removed."""
        if name not in current_members(self._context.committed()):
            self._leases.revoke(name)
            for queue in queues(self._leases):
                queue.revoke(name)

    def __enter__(self) -> Self:
        presence = self.presence()
        wait_for(presence)
        self._presences.append(presence)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._presences.pop().give_back()

    def presence(self) -> Presence:
        """Return a request to be present, to be waited for."""
        return Presence(self._leases)

    # Reading, deciding and writing as one

    def transact(
        self,
        edit: Callable[[S], R],
        message: str = "",
        *,
        meta: Mapping[str, Any] | None = None,
        attempts: int = 1000,
        patience_seconds: float = PATIENCE_SECONDS,
        if_moved: Literal["rerun", "merge"] = "rerun",
    ) -> R:
        """Call `edit(state)` on the team's head and commit what it did; return its result.

        If another member was faster it is called again, so that nothing it has read is outdated.
        With `if_moved="merge"` its edits are merged instead, where they do not conflict: for
        edits that do not depend on what was read. A store that gives no reply is asked again for
        up to `patience_seconds`.

        Raises:
            Denied: the member was removed.
            Contention, Unavailable: as `Versioned.transact` says.
        """
        return self._context.change(
            edit,
            message,
            meta=meta,
            attempts=attempts,
            patience_seconds=patience_seconds,
            if_moved=if_moved,
        )

    def watch(self, prefix: str = "", *, since: Commit | str | None = None) -> Watch:
        """Return an endless iterator over what members change below a path, in order.

        It begins now, or after a commit, or at the `cursor` of a change that was handled.
        """
        state = self._context.state
        return Watch(self._context.backend, state.ref, prefix, since=since, resolve=state.resolve)

    # Leases and queues

    @cached_property
    def _leases(self) -> TeamLeases:
        return TeamLeases(self._context)

    def lease(self, name: str, *, ttl: Duration = "30s", wait: Duration | None = None) -> TeamLease:
        """Return a lease to use in a `with`: it is waited for, renewed, and given back.

        `ttl` is how long it lasts after the last renewal, if this process dies or is frozen; `wait`
        the longest time to wait for it, 0 not to wait.
        """
        return TeamLease(self._leases, name, member=self.member, ttl=ttl, wait=wait)

    def leases(self) -> list[LeaseEntry]:
        """Return the leases that members have now, by name."""
        return self._leases.held()

    def queue(
        self,
        name: str,
        *,
        slots: int = 1,
        fair: Literal["member"] | None = "member",
        ttl: Duration = "30s",
        wait: Duration | None = None,
    ) -> FairQueue:
        """Return a queue for something scarce: `with team.queue("gpu", slots=2) as slot:`.

        Members take turns, however many requests each has; with `fair=None` it is first come, first
        served. `ttl` and `wait` are those of `lease`.
        """
        return FairQueue(self._leases, name, slots=slots, fair=fair, ttl=ttl, wait=wait)

    def queues(self) -> list[QueueEntry]:
        """Return the queues that somebody has asked for: who uses each, and who waits, by name."""
        return [each.look() for each in queues(self._leases)]

    # Proposals

    def propose(
        self,
        title: str,
        change: Callable[[S], object] | Branch | Commit,
        *,
        quorum: Quorum | None = None,
        of: Iterable[str] | None = None,
        until: Duration | None = None,
        veto: Iterable[str] = (),
    ) -> Proposal:
        """Propose a change that lands when enough members approve.

        `change` is a function that edits the state it is called with, as that of `transact`, or a
        branch or commit that has the change. `quorum` is a number of approvals, a share such as
        0.5, or "all"; more than half by default. `of` are the members that may vote, all by
        default; one of `veto` that rejects ends it, also if it is not in `of`. After `until` it has
        expired.

        Raises:
            Invalid: the quorum cannot be reached, or nothing would change.
            KeyNotFound: a name in `of` or `veto` is not that of a member.
            CommitNotFound: the branch has no commit, or another store has it.
            MergeConflict: others have changed the same paths in another way.
        """
        voters = None if of is None else _names(of, "of")
        return make_proposal(
            self._context,
            title,
            change,
            quorum=quorum,
            voters=voters,
            until=until,
            veto=_names(veto, "veto"),
        )

    def proposals(self, *, status: str | None = None) -> list[Proposal]:
        """Return all proposals, or those with a status such as "open", the oldest first.

        Raises:
            Invalid: no proposal has this status.
        """
        if status not in (None, *STATUSES):
            raise Invalid(
                f"status must be that of a proposal, got {status!r}",
                hint=f"ask for {', '.join(STATUSES)}",
            )
        records = proposal_records(self._context.committed())
        found = [Proposal(self._context, each) for each in records]
        return [each for each in found if status is None or each.status == status]

    def proposal(self, id: str) -> Proposal:
        """Return a proposal by its id, or the beginning of it.

        Raises:
            KeyNotFound: there is none.
        """
        return Proposal(self._context, proposal_record(self._context.committed(), id))

    # Conflicts

    def open_branch(self, name: str) -> S:
        """Return another branch of the team's state; commits to it have the member as author."""
        branch = self._open_state(scope="team", session=self.id, branch=name)
        self._context.sign(branch, self._context.join())
        return branch

    def merge(self, other: Branch | Commit | str, message: str = "") -> list[InboxConflict]:
        """Merge the work of a branch into the team's state; what conflicts goes to the inbox.

        Where both changed a path and no policy decides, the team's value stays. Returns the new
        entries of the inbox.
        """
        context = self._context

        def merge(state: S) -> list[str]:
            theirs = other.head if isinstance(other, Branch) else state.resolve(other)
            if theirs is None:
                raise CommitNotFound("the branch has no commit yet", hint="commit there first")
            base = context.merge_base(context.stored_commit(theirs))
            found = state.stage_merge(theirs)
            now = context.now()
            return put_conflicts(state, context.records, found, theirs=theirs, base=base, now=now)

        name = other.name if isinstance(other, Branch) else str(getattr(other, "short", other))
        ids = set(context.change(merge, message or f"merge {name}"))
        return [each for each in self.inbox if each.id in ids]

    @property
    def inbox(self) -> Inbox[InboxConflict]:
        """The conflicts that nobody has decided, the oldest first."""
        return read_inbox(self._context.committed(), self._context.state)

    def resolve(
        self, conflict: InboxConflict | str, *, take: str | None = None, value: object = ...
    ) -> None:
        """Decide a conflict of the inbox for a side, or for a value.

        Raises:
            KeyNotFound: there is no such conflict, or it was decided already.
            Conflict: the path was changed since the conflict was read.
        """
        wanted = "a conflict of team.inbox, its path or its id"
        check_argument(conflict, "conflict", (str, InboxConflict), wanted)
        entry = self.inbox[conflict] if isinstance(conflict, str) else conflict
        context = self._context

        def resolve(state: S) -> None:
            settle_conflict(
                state,
                context.records,
                entry,
                take=take,
                value=value,
                by=self.member,
                now=context.now(),
            )

        context.change(resolve, f"resolve {entry.path}")

    def resolve_all(
        self, resolver: Resolver, *, check: Callable[[InboxConflict, Any], bool] | None = None
    ) -> list[InboxConflict]:
        """Let a function, or an agent, decide the conflicts; return those that are left.

        `resolver(conflict)` returns the value that holds, or `NotImplemented` to leave it to
        others. An answer that cannot be stored, or that `check(conflict, answer)` refuses, and an
        exception, leave the conflict in the inbox with a note why. Without `check`, so does an
        answer of another type than all values in conflict, and NaN where none of them is.
        """
        check_argument(resolver, "resolver", FUNCTION, "a function of a conflict")
        check_argument(
            check, "check", (FUNCTION, NOTHING), "a function of a conflict and an answer"
        )
        for conflict in self.inbox:
            note = self._try_resolver(resolver, conflict, check)
            if note:
                self._note(conflict, note)
        return list(self.inbox)

    def _note(self, conflict: InboxConflict, note: str) -> None:
        records = self._context.records
        self._context.change(
            lambda state: note_failure(records, conflict, note), f"not resolved: {conflict.path}"
        )

    def _try_resolver(
        self,
        resolver: Resolver,
        conflict: InboxConflict,
        check: Callable[[InboxConflict, Any], bool] | None,
    ) -> str:
        """Let a resolver decide one conflict; return why it did not."""
        try:
            answer = resolver(conflict)
            if answer is LEAVE:
                return ""
            if check is None:
                why = misfit(conflict, answer)
                if why:
                    return f"the answer cannot be taken: {why}"
            elif not check(conflict, answer):
                return f"the answer was refused: {str(answer)[:200]!r}"
        except Exception as error:  # noqa: BLE001 - whatever it raises, the conflict stays
            return f"the resolver raised {type(error).__name__}: {_text(error)}"
        try:
            self.resolve(conflict, value=answer)
        except KeyNotFound:
            return ""  # another member has decided
        except Uncommitted:
            raise  # edits of the caller's are staged, beside which no note can be written
        except (Invalid, Conflict) as error:
            return f"the answer cannot be taken: {error.message}"
        return ""

    # Messages

    def send(self, to: str, body: object) -> None:
        """Send a message to a member, or to all others with `"*"`.

        Raises:
            KeyNotFound: there is no such member.
            BadValue: the message cannot be stored.
        """
        context = self._context

        def send(state: S) -> None:
            if to == EVERYBODY:
                receivers = sorted({*current_members(context.records)} - {self.member})
            else:
                receivers = [existing_member(context.records, to, self.id).name]
            send_message(context.records, self.member, receivers, body, now=context.now())

        context.change(send, f"message to {'all' if to == EVERYBODY else to}")

    def messages(self, *, mark: bool = True) -> list[TeamMessage]:
        """Return the messages that the member has not read, and mark them as read."""
        context = self._context
        context.join()
        found = unread_messages(context.committed(), self.member)
        if not mark or (not found and context.state.is_clean):
            return found
        return context.change(self._take_messages, f"{self.member} reads messages")

    def _take_messages(self, state: S) -> list[TeamMessage]:
        """Stage that all messages were read, and return them.

        A method, so that a call after one whose reply was lost is known as the same, and returns
        the messages of the first.
        """
        return take_messages(self._context.records, self.member)

    # Sessions

    def session(self, id: str, *, branch: str = "main") -> S:
        """Return a session to work on, as its owner; one that nobody works on becomes yours.

        So does one whose owner was removed from the team. What the last owner had stashed, or had
        staged when it was handed over, is staged here.

        Raises:
            Denied: another member works on it.
            BadRef: it is not the name of a session.
            Fenced: the team's state was rolled back to before a handoff: hand it over to yourself.
        """
        context, id = self._context, _session_id(id)

        def take(state: S) -> SessionOwner:
            found = session_owner(context.records, id)
            if found is None or found.owner not in current_members(context.records):
                last, giver = (0, "") if found is None else (found.number, found.owner)
                number = context.next_number(last)
                found = SessionOwner(id, self.member, number, context.now(), giver)
                put_owner(context.records, found)
            if found.owner != self.member:
                raise not_yours(found)
            return found

        owner = context.change(take, f"{self.member} works on {id}")
        state = self._open_state(scope="session", session=id, branch=branch)
        fences = {self._session_fence(id): owner.number, **context.fences}
        with context.membership():
            self._claim(owner, fences)
        state.commit_as(self.member, fences=fences)
        state.unstash()
        return state

    def _claim(self, owner: SessionOwner, fences: dict[str, int]) -> None:
        """Let the store refuse what older owners write.

        The handoff did that, unless it was made in another store and came by a pull.
        """
        try:
            self._context.backend.store.write(Batch(fences=fences))
        except Fenced as error:
            error.hint = (
                f"if the state of the team was rolled back to before {owner.session} was handed"
                f" over, take it again: team.handoff({owner.session!r}, to={owner.owner!r})"
            )
            raise

    def handoff(self, session: str | Branch, *, to: str, note: object = None) -> SessionOwner:
        """Give a session to another member, in the middle of a job.

        Pass the handle that you work with, so that its staged edits come along. From then on your
        own commits to the session are refused with `Fenced`.

        Raises:
            Denied: another member works on it.
            KeyNotFound: there is no such member.
            BadRef: it is not a session.
        """
        context, id = self._context, _session_id(session)
        context.join()

        def check(records: TeamRecords) -> int:
            existing_member(records, to, self.id)
            found = session_owner(records, id)
            if found is not None and found.owner != self.member:
                raise not_yours(found)
            return 0 if found is None else found.number

        def give(state: S) -> SessionOwner:
            number = context.next_number(check(context.records))
            given = SessionOwner(id, to, number, context.now(), self.member, note)
            put_owner(context.records, given)
            state.carry({self._session_fence(id): number})
            body = {"handoff": id, "note": note}
            send_message(context.records, self.member, [to], body, now=context.now())
            return given

        check(context.committed())  # before anything is stashed
        if isinstance(session, Branch):
            session.stash()
        return context.change(give, f"hand {id} over to {to}")

    def sessions(self) -> list[SessionOwner]:
        """Return who works on which session."""
        return session_owners(self._context.committed())

    def _session_fence(self, id: str) -> str:
        return self._leases.full_name(f"session/{id}")


def _session_id(session: str | Branch) -> str:
    """Return the id of a session that is given by it, or as a handle.

    Raises:
        BadRef: it is something else.
    """
    if isinstance(session, Branch):
        if session.scope != "session":
            raise BadRef(
                f"the state of {session.scope} {session.session} is not a session",
                hint="members work on sessions: team.session(id)",
            )
        session = session.session
    scope_ref("session", session, "main")  # refuses what is not a name
    return session


def _text(error: Exception) -> str:
    """Return what an error of somebody else's code says, if it can say anything."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - of a class whose text cannot be made
        return ""


def _names(names: object, what: str) -> list[str]:
    """Return names that were given as a collection of texts."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise Invalid(
            f"{what} must be several names, got {names!r}", hint=f"{what}={{'ann', 'bob'}}"
        )
    found = list(names)
    for name in found:
        check_argument(name, f"a name in {what}", str, "a text")
    return found
