"""The record of a proposal: its votes, its statechart, and how two versions of it merge.

`proposals.py` has the rules, and what makes and changes records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeAlias

from otolith.errors import Corrupt, IllegalTransition, Invalid, KeyNotFound
from otolith.shapes import NOTHING, Shape, check_argument, fields, mapping, several
from otolith.teams.records import PROPOSALS, TeamRecords
from otolith.types import short_repr

PROPOSAL_TABLE: dict[tuple[str, str], str] = {
    ("open", "vote"): "open",
    ("open", "land"): "landed",
    ("open", "reject"): "rejected",
    ("open", "veto"): "vetoed",
    ("open", "withdraw"): "withdrawn",
    ("open", "expire"): "expired",
}
"""The statechart of a proposal: `Chart.from_table(PROPOSAL_TABLE, initial="open")` draws it."""

STATUSES = ("landed", "vetoed", "rejected", "withdrawn", "expired", "open")
"""In a merge, the first one that either side has come to holds: what has landed is in the state."""

Quorum: TypeAlias = int | float | str
"""How many approvals: a number, a share above 0 and up to 1.0, or "all"."""

_VOTE: Shape = {"approves": bool, "why": str, "time": int, "effect": bytes}
_SHAPE: Shape = {
    "title": str,
    "by": str,
    "draft": bytes,
    "effect": bytes,
    "looked": bytes,
    "is_blocked": bool,
    "status": str,
    "time": int,
    "needed": int,
    "voters": list,
    "vetoers": list,
    "until": (int, NOTHING),
    "votes": dict,
    "lapsed": int,
    "why": str,
}


@short_repr("member", "approves", "why")
@dataclass(frozen=True, slots=True)
class Vote:
    """What one member said to the effect that a proposal has now."""

    member: str
    approves: bool
    why: str = ""
    time: int = 0
    effect: bytes = b""  # a digest of what it was for


@dataclass(frozen=True, slots=True)
class ProposalRecord:
    """A proposal as it is stored."""

    id: str
    title: str
    by: str
    draft: bytes  # the hash of the commit that has the change
    effect: bytes
    looked: bytes  # the hash of the head that the effect was computed on
    needed: int
    voters: tuple[str, ...]
    vetoers: tuple[str, ...]
    time: int
    until: int | None = None
    status: str = "open"
    votes: dict[str, Vote] = field(default_factory=dict)
    lapsed: int = 0  # how many votes were for another effect
    is_blocked: bool = False  # whether the effect is a conflict
    why: str = ""  # of a withdrawal

    def to_data(self) -> dict[str, Any]:
        """Return the record as it is stored."""
        data = {name: getattr(self, name) for name in _SHAPE}
        votes = {
            vote.member: {name: getattr(vote, name) for name in _VOTE}
            for vote in self.votes.values()
        }
        return {**data, "votes": votes, "voters": list(self.voters), "vetoers": list(self.vetoers)}

    @classmethod
    def from_data(cls, id: str, data: object) -> ProposalRecord:
        """Return the record that is stored as this.

        Raises:
            Corrupt: this is not a proposal.
        """
        what = f"proposal {id}"
        found = fields(data, what, _SHAPE)
        votes = mapping(found.pop("votes"), f"the votes of {what}", dict)
        found["votes"] = {
            name: Vote(name, **fields(vote, f"the vote of {name}", _VOTE))
            for name, vote in votes.items()
        }
        for name in ("voters", "vetoers"):
            found[name] = tuple(several(found[name], f"the {name} of {what}", str))
        if found["status"] not in STATUSES:
            raise Corrupt(f"{what} is {found['status'][:80]!r}", hint="run otolith fsck")
        return cls(id, **found)

    @property
    def counted(self) -> list[Vote]:
        """The votes for or against the effect that it has now."""
        return [vote for vote in self.votes.values() if vote.effect == self.effect]

    @property
    def approvals(self) -> int:
        """How many members approve."""
        return sum(vote.approves for vote in self.counted)

    def after(self, event: str) -> ProposalRecord:
        """Return the record after an event.

        Raises:
            IllegalTransition: it does not accept this event any more.
        """
        status = PROPOSAL_TABLE.get((self.status, event))
        if status is None:
            allowed = tuple(each for state, each in PROPOSAL_TABLE if state == self.status)
            error = IllegalTransition(
                f"proposal {self.id} {self.title!r} is {self.status}",
                state=self.status,
                event=event,
                allowed=allowed,
            )
            error.hint = "team.proposals(status='open') lists those that are open; or propose anew"
            raise error
        return self if status == self.status else replace(self, status=status)

    def outcome(self, vote: Vote) -> str:
        """Return what follows from the votes: `land`, `veto`, `reject`, or `vote` to wait."""
        if not vote.approves and vote.member in self.vetoers:
            return "veto"
        if self.approvals >= self.needed:
            return "land"
        rejections = len(self.counted) - self.approvals
        is_hopeless = len(self.voters) - rejections < self.needed
        return "reject" if is_hopeless else "vote"


def proposal_record(records: TeamRecords, id: str) -> ProposalRecord:
    """Return the record of a proposal, by its id or the beginning of it.

    Raises:
        KeyNotFound: there is none, or several begin like this.
    """
    check_argument(id, "id", str, "the id of a proposal")
    data = records.value(PROPOSALS, id) if id else None
    if data is not None:
        return ProposalRecord.from_data(id, data)
    known = [each.id for each in proposal_records(records)]
    found = [each for each in known if id and each.startswith(id)]
    if len(found) != 1:
        what = f"{len(found)} proposals begin with" if found else "there is no proposal"
        raise KeyNotFound(f"{what} {id!r}", hint="team.proposals() lists them")
    return ProposalRecord.from_data(found[0], records.value(PROPOSALS, found[0]))


def proposal_records(records: TeamRecords) -> list[ProposalRecord]:
    """Return all proposals, the oldest first."""
    found = [ProposalRecord.from_data(id, data) for id, data in records.items(PROPOSALS)]
    return sorted(found, key=lambda record: (record.time, record.id))


def put_proposal(records: TeamRecords, record: ProposalRecord) -> None:
    """Stage a proposal."""
    records.put(record.to_data(), PROPOSALS, record.id)


def needed_votes(quorum: Quorum | None, voters: Iterable[str]) -> int:
    """Return how many approvals a quorum means; by default more than half.

    Raises:
        Invalid: nobody may vote, or the quorum cannot be reached.
    """
    count = len(set(voters))
    if not count:
        raise Invalid("nobody may vote on the proposal", hint="team.add(name) adds members")
    if quorum is None:
        return count // 2 + 1
    if quorum == "all":
        return count
    if type(quorum) is float and 0 < quorum <= 1:
        return max(1, -int(-quorum * count // 1))
    if type(quorum) is int and 1 <= quorum <= count:
        return quorum
    what = f"{quorum} approvals cannot be had: the number of voters is {count}"
    is_number = type(quorum) in (int, float)
    raise Invalid(
        what if is_number else f"quorum must be a number, a share or 'all', got {quorum!r}",
        hint=f"give a number from 1 to {count}, a share up to 1.0 such as 0.5, or 'all'",
    )


def merge_proposals(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two versions of the record of a proposal, as the merge policy of all of them (rule 5).

    The result is the same whichever side is called ours. NotImplemented if they are not records of
    one proposal.
    """
    try:
        before, mine, yours = (ProposalRecord.from_data("", each) for each in (base, ours, theirs))
    except Corrupt:
        return NotImplemented
    if any(_made(each) != _made(before) for each in (mine, yours)):
        return NotImplemented
    ends = [each for each in (mine, yours) if each.status != before.status] or [before]
    end = min(ends, key=lambda each: (STATUSES.index(each.status), each.why))
    names = sorted(mine.votes.keys() | yours.votes.keys())
    votes = {
        name: _last_vote(*(each.votes.get(name) for each in (before, mine, yours)))
        for name in names
    }
    looks = [each for each in (mine, yours) if each.effect != before.effect] or [mine, yours]
    look = min(looks, key=attrgetter("effect", "looked"))
    return replace(
        before,
        effect=look.effect,
        looked=look.looked,
        is_blocked=look.is_blocked,
        status=end.status,
        why=end.why,
        votes={name: vote for name, vote in votes.items() if vote is not None},
        lapsed=max(mine.lapsed + yours.lapsed - before.lapsed, 0),
    ).to_data()


def _made(record: ProposalRecord) -> tuple[object, ...]:
    """Return what never changes in the record of a proposal."""
    names = ("title", "by", "draft", "needed", "voters", "vetoers", "time", "until")
    return tuple(getattr(record, name) for name in names)


def _last_vote(before: Vote | None, mine: Vote | None, yours: Vote | None) -> Vote | None:
    """Return which of two votes of a member holds: the one that was changed, or the later one."""
    if before in (mine, yours):
        return yours if mine == before else mine
    given = [each for each in (mine, yours) if each is not None]
    order = attrgetter("time", "approves", "why", "effect")
    return max(given, key=order, default=None)
