"""Proposals: a change that lands when enough members approve, in the commit of the last vote.

A proposal is a draft, a commit that no branch has, made of the change on the head of its time. Its
record, with the votes, is in the team's state, and is written together with the draft. Each vote is
a commit by its voter. What a voter finds instead, that the time is over or that the effect is
another one, is a commit that says so.

Rules
1. Members vote on an *effect*: what landing would change now, path by path, values before and
   after, merge policies included. Every vote names the effect its voter has seen. A vote for
   another effect is refused, and one that came by a merge does not count. What the team stores of
   itself is not in an effect, so a draft that changes it is refused.
2. When the team's state has moved and the effect is another one, all votes lapse: the record gets
   the new effect, and members look again. Where others changed the same paths, nothing can land
   until the conflict is gone; the effect is then the conflict.
3. The vote that completes the quorum, and the change, are one commit: a merge of the draft. Nobody
   ever sees an approved proposal that has not landed, or one that landed and was not approved.
4. A proposal that was landed, rejected, vetoed, withdrawn or that has expired stays so. Its
   statechart is in `proposal_record.py`.
5. Where two stores are merged, the votes of both stay, and a proposal that has landed in one has
   landed, because its change is in the state (`merge_proposals`). Votes that are enough only
   together do not land it: that is the next voter's.

The time is that of the repo's clock, and never before the last commit: the time of a team is that
of its fastest clock. So no proposal of a member whose clock is slow has expired when it is made,
and nobody votes after a deadline if others have committed anything since. Looking commits nothing:
where clocks differ, one may see that a proposal has expired while another can vote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple, Self, TypeVar

from otolith import environment
from otolith.core import (
    POLICY,
    TEAM,
    Branch,
    Change,
    Commit,
    PathConflict,
    differences,
    differences_outside,
)
from otolith.durations import Duration, duration_seconds
from otolith.errors import CommitNotFound, Conflict, Denied, Invalid, MergeConflict
from otolith.shapes import FUNCTION, check_argument
from otolith.teams.members import check_member_name, current_members, existing_member
from otolith.teams.proposal_record import (
    ProposalRecord,
    Quorum,
    Vote,
    needed_votes,
    proposal_record,
    put_proposal,
)
from otolith.teams.records import PROPOSALS
from otolith.teams.team_context import TeamContext
from otolith.types import Hash

S = TypeVar("S", bound=Branch)

_NO_EFFECT = blake2b(digest_size=16).digest()
_PROPOSE_ANEW = "withdraw it, and propose a change of what is there now"
_MERGE_FIRST = "merge the team's branch into it, decide there, and propose the result"


class Proposal:
    """A change that members vote on, as it was when it was read; `refresh` reads it again."""

    def __init__(self, context: TeamContext[Any], record: ProposalRecord) -> None:
        self._context = context
        self._record = record

    def __repr__(self) -> str:
        record = self._record
        return (
            f"<Proposal {self.id} {record.title!r} {self.status} {record.approvals}/{self.needed}>"
        )

    @property
    def id(self) -> str:
        """Its id: the beginning is enough to name it."""
        return self._record.id

    @property
    def title(self) -> str:
        """What it is about."""
        return self._record.title

    @property
    def by(self) -> str:
        """The member that made it."""
        return self._record.by

    @property
    def time(self) -> int:
        """When it was made, in microseconds since 1970."""
        return self._record.time

    @property
    def status(self) -> str:
        """`open`, `landed`, `rejected`, `vetoed`, `withdrawn` or `expired`."""
        return "expired" if self._is_late(self._record) else self._record.status

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The votes for or against what it would change now."""
        return tuple(self._record.counted)

    @property
    def effect(self) -> str:
        """A digest of what it would change: the votes are for this, and lapse with it."""
        return self._record.effect.hex()

    @property
    def lapsed(self) -> int:
        """How many votes have lapsed, because they were for another effect."""
        return self._record.lapsed + len(self._record.votes) - len(self._record.counted)

    @property
    def needed(self) -> int:
        """How many approvals it needs."""
        return self._record.needed

    @property
    def voters(self) -> tuple[str, ...]:
        """The members that may vote."""
        return self._record.voters

    @property
    def vetoers(self) -> tuple[str, ...]:
        """The members whose rejection ends it."""
        return self._record.vetoers

    @property
    def until(self) -> int | None:
        """When it expires, in microseconds since 1970; None: never."""
        return self._record.until

    @property
    def why(self) -> str:
        """Why it was withdrawn."""
        return self._record.why

    @property
    def commit(self) -> Commit:
        """The change, as a commit on the state that it was made for."""
        return _draft(self._context, self._record)

    @property
    def landing(self) -> Commit | None:
        """The commit in which it landed: the last vote that it needed, and the change."""
        state, draft = self._context.state, self._record.draft.hex()
        votes = state.log(path=(TEAM, PROPOSALS, self.id)) if self.status == "landed" else ()
        return next((commit for commit in votes if draft in commit.parents), None)

    def refresh(self) -> Self:
        """Read it again, with the votes of others."""
        self._record = proposal_record(self._context.committed(), self.id)
        return self

    def diff(self) -> list[Change]:
        """Return what landing it would change now, which is what members vote on."""
        with self._context.scratch() as state:
            state.stage_merge(_draft(self._context, self._record))
            after = state.cell_at(())
            assert after is not None
            return [*state.status(), *_changes_below(POLICY, state, after)]

    @property
    def conflicts(self) -> list[PathConflict]:
        """The paths that others have changed in another way since; it cannot land with any."""
        with self._context.scratch() as state:
            found: list[PathConflict] = state.stage_merge(_draft(self._context, self._record))
            return found

    # Voting

    def approve(self, member: str | None = None, *, why: str = "") -> Self:
        """Vote for it; it lands with this vote if enough members approve.

        Raises:
            Conflict: it would change something else now than when this object was read.
            MergeConflict: others have changed the same paths in another way.
            IllegalTransition: it is not open any more.
            Denied: the member may not vote on it.
        """
        return self._vote(member, approves=True, why=why)

    def reject(self, member: str | None = None, *, why: str = "") -> Self:
        """Vote against it; a later vote of the same member takes the place of an earlier one."""
        return self._vote(member, approves=False, why=why)

    def _vote(self, member: str | None, *, approves: bool, why: str) -> Self:
        voter = self._context.member if member is None else check_member_name(member)
        _check_why(why)
        word = "approves" if approves else "rejects"
        seen = self._record.effect

        def vote(state: Branch) -> tuple[ProposalRecord, bool]:
            """Return the record, and whether it has the vote."""
            record = proposal_record(self._context.records, self.id)
            if self._is_late(record):
                return record, False
            record = record.after("vote")
            self._check_voter(record, voter, approves=approves)
            found = self._look(state, record)
            if found.effect != record.effect or found.effect != seen:
                return record, False
            if record.is_blocked:
                found_now = state.stage_merge(_draft(self._context, record))
                raise _cannot_land(record, found_now, hint=_PROPOSE_ANEW)
            mine = Vote(voter, approves, why, self._context.now(), record.effect)
            votes = {**record.votes, voter: mine}
            record = replace(record, votes=votes, looked=found.looked)
            event = record.outcome(mine)
            if event == "land":
                _stage_draft(state, _draft(self._context, record))
            record = record if event == "vote" else record.after(event)
            put_proposal(self._context.records, record)
            return record, True

        message = f"{voter} {word} {self.title}"
        self._record, is_counted = self._context.change(
            vote, message, author=voter, look_first=False, keeps_members=True
        )
        if not is_counted:
            self._expire("vote")
            self._record = self._context.change(self._lapse, f"votes lapse: {self.title}")
            raise _was_changed(self._record)
        return self

    def _look(self, state: Branch, record: ProposalRecord) -> _Effect:
        """Return what landing would change now; nothing is staged afterwards."""
        head = state.head
        assert head is not None
        before = self._context.backend.graph.commit(Hash(record.looked))
        if any(differences_outside(state.cells, TEAM, before.cell, head.cell)):
            return _effect_of(state, _draft(self._context, record))
        return _Effect(record.effect, head.hash)

    def _lapse(self, state: Branch) -> ProposalRecord:
        """Stage that no vote counts any more, if the effect is another one (rule 2)."""
        record = proposal_record(self._context.records, self.id).after("vote")
        found = self._look(state, record)
        if found.effect != record.effect:
            record = replace(
                record,
                effect=found.effect,
                looked=found.looked,
                is_blocked=bool(found.conflicts),
                votes={},
                lapsed=record.lapsed + len(record.votes),
            )
            put_proposal(self._context.records, record)
        return record

    def withdraw(self, *, why: str = "") -> Self:
        """Take it back; only the member that made it can.

        Raises:
            IllegalTransition: it is not open any more.
            Denied: somebody else made it.
        """
        _check_why(why)

        def withdraw(state: Branch) -> ProposalRecord:
            record = proposal_record(self._context.records, self.id)
            if record.by != self._context.member:
                raise Denied(
                    f"{record.by} made proposal {record.id}",
                    hint=f"vote against it: {_named(record)}.reject()",
                )
            if not self._is_late(record):
                record = replace(record.after("withdraw"), why=why)
                put_proposal(self._context.records, record)
            return record

        self._record = self._context.change(withdraw, f"withdraw {self.title}")
        self._expire("withdraw")
        return self

    def _expire(self, event: str) -> None:
        """Commit that it has expired, if it has.

        Raises:
            IllegalTransition: it has, and does not accept an event any more.
        """

        def expire(state: Branch) -> ProposalRecord:
            record = proposal_record(self._context.records, self.id)
            if self._is_late(record):
                record = record.after("expire")
                put_proposal(self._context.records, record)
            return record

        if self._is_late(self._record):
            self._record = self._context.change(expire, f"expired: {self.title}")
            self._record.after(event)

    def _is_late(self, record: ProposalRecord) -> bool:
        """Tell whether an open proposal has expired, and nobody has noted it."""
        is_late = record.until is not None and self._context.now() >= record.until
        return is_late and record.status == "open"

    def _check_voter(self, record: ProposalRecord, voter: str, *, approves: bool) -> None:
        existing_member(self._context.records, voter, self._context.id)
        is_veto = not approves and voter in record.vetoers  # also of one who does not vote
        if voter not in record.voters and not is_veto:
            raise Denied(
                f"{voter} may not vote on proposal {record.id}",
                hint=f"it is voted on by: {', '.join(record.voters)}",
            )


def make_proposal(
    context: TeamContext[S],
    title: str,
    change: Callable[[S], object] | Branch | Commit,
    *,
    quorum: Quorum | None,
    voters: Iterable[str] | None,
    until: Duration | None,
    veto: Iterable[str],
) -> Proposal:
    """Draft a change, and stage and commit the record of the proposal."""
    hint = "say what it would change"
    check_argument(title, "title", str, "a text", hint=hint)
    if not title.strip():
        raise Invalid("a proposal needs a title", hint=hint)
    context.join()
    id = environment.entropy(5).hex()

    def propose(state: S) -> ProposalRecord:
        draft = _draft_change(context, state, change, title)
        members = current_members(context.records)
        named = sorted(members if voters is None else {*voters})
        for name in sorted({*named, *veto} - members.keys()):
            existing_member(context.records, name, context.id)
        found = _effect_of(state, draft)
        now = context.now()
        record = ProposalRecord(
            id,
            title,
            context.member,
            draft.hash,
            found.effect,
            found.looked,
            needed_votes(quorum, named),
            tuple(named),
            tuple(sorted({*veto})),
            now,
            _deadline(until, now),
        )
        if found.conflicts:
            raise _cannot_land(record, found.conflicts, hint=_MERGE_FIRST)
        if found.effect == _NO_EFFECT:
            raise Invalid(f"{title!r} changes nothing", hint=_hint_to_change(change))
        put_proposal(context.records, record)
        state.carry(reads={f"draft/{id}": draft.hash})
        return record

    return Proposal(context, context.change(propose, f"propose {title}", keeps_members=True))


def _draft_change(
    context: TeamContext[S],
    state: S,
    change: Callable[[S], object] | Branch | Commit,
    title: str,
) -> Commit:
    """Return a change as a commit: made by a function, or made before."""
    if isinstance(change, Commit):
        return context.stored_commit(change)
    if isinstance(change, Branch):
        if change.head is None:
            raise CommitNotFound(
                "the branch of the change has no commit", hint="commit there first"
            )
        return context.stored_commit(change.head)
    wanted = "a function of the state, a branch or a commit"
    check_argument(change, "change", FUNCTION, wanted, hint='lambda state: state.update(plan="B")')
    return state.draft(change, title)


def _hint_to_change(change: object) -> str:
    """Return what to do where a change has no effect."""
    if isinstance(change, Branch) and not change.is_clean:
        return "the branch has staged edits: commit them there, and propose it again"
    if isinstance(change, Branch | Commit):
        return "the team's state has all of it: commit something there first"
    return "change the state that is passed in"


def _draft(context: TeamContext[Any], record: ProposalRecord) -> Commit:
    return context.backend.graph.commit(Hash(record.draft))


def _check_why(why: object) -> None:
    check_argument(why, "why", str, "a text", hint="leave it out, or give the reason in words")


def _deadline(until: Duration | None, now: int) -> int | None:
    """Return the time at which a proposal expires, in microseconds since 1970."""
    return None if until is None else now + round(duration_seconds(until, "until") * 1_000_000)


class _Effect(NamedTuple):
    """A digest of what landing would change (rule 1), on which head, and what prevents it."""

    effect: bytes
    looked: Hash
    conflicts: Sequence[PathConflict] = ()


def _effect_of(state: Branch, draft: Commit) -> _Effect:
    """Merge a draft into the head, and return what that changes; nothing is staged afterwards."""
    head, cells = state.head, state.cells
    assert head is not None
    conflicts: Sequence[PathConflict] = ()
    after: bytes | None = draft.cell
    is_on_head = draft.parents == (head.id,)
    if is_on_head:
        _check_apart_from_team(state, draft.cell)
    else:
        conflicts = _stage_draft(state, draft)
        after = state.cell_at(())
    assert after is not None
    found = blake2b(digest_size=16)
    for change in differences_outside(cells, TEAM, head.cell, after):
        for part in (_bytes(change.path), *change.stored):
            stored = b"-" if part is None else b"=" + part
            found.update(len(stored).to_bytes(8, "big") + stored)
    for conflict in sorted(conflicts):
        found.update(b"conflict " + _bytes(conflict.path))
    if not is_on_head:
        state.discard()
    return _Effect(found.digest(), head.hash, conflicts)


def _stage_draft(state: Branch, draft: Commit) -> Sequence[PathConflict]:
    """Stage what landing a draft changes; return what prevents it."""
    conflicts = state.stage_merge(draft)
    _check_apart_from_team(state, state.cell_at(()))
    return conflicts


def _check_apart_from_team(state: Branch, after: bytes | None) -> None:
    """Refuse what would change members, messages or votes: nobody votes on those (rule 1).

    Raises:
        Invalid: it would.
    """
    cells, head = state.cells, state.head
    assert head is not None
    assert after is not None
    key = cells.encoding.key(TEAM)
    if cells.same(cells.entry(head.cell, key), cells.entry(after, key)):
        return
    paths = [each.path for each in _changes_below(TEAM, state, after)]
    raise Invalid(
        "a proposal cannot change what the team stores of itself, which this one does at"
        f" {', '.join(paths[:3])}",
        hint="propose the other paths, with a function; the calls of a team change members and"
        " messages, and team.merge(…) brings those of another branch",
    )


def _changes_below(name: str, state: Branch, after: bytes) -> list[Change]:
    """Return the changes from the head to a state that are below a name at the top."""
    assert state.head is not None
    found = differences(state.cells, state.head.cell, after)
    return [each for each in found if each.keys[0] == name]


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogatepass")


def _named(record: ProposalRecord) -> str:
    """Return the call that reads a proposal, for a hint."""
    return f"team.proposal({record.id!r})"


def _cannot_land(
    record: ProposalRecord, conflicts: Sequence[PathConflict], *, hint: str
) -> MergeConflict:
    """Return the error for a proposal whose paths others have changed in another way."""
    paths = tuple(conflict.path for conflict in conflicts)
    return MergeConflict(
        f"proposal {record.title!r} cannot land: others have changed {', '.join(paths[:5])}",
        paths=paths,
        hint=hint,
    )


def _was_changed(record: ProposalRecord) -> Conflict:
    """Return the error for a vote on what a proposal does not do any more."""
    lapsed = "; the votes for that have lapsed" if record.lapsed else ""
    return Conflict(
        f"proposal {record.id} {record.title!r} would change something else now than when you"
        f" looked{lapsed}",
        hint=f"look at it again, {_named(record)}.diff(), and vote on that",
    )
