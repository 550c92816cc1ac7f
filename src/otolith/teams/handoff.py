"""Handoff: who works on a session, and how another member takes it over in the middle of a job.

The owner's commits to the session carry the fence `team/<id>/session/<session>` with the number of
the ownership. A handoff is one commit to the team: it names the new owner, raises that number, and
sends the message. Before it the old owner has the session, after it the new one, and whatever the
old owner had under way is refused by the store. Edits that were not committed come along: they are
stashed before, and the new owner's handle has them staged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otolith.errors import Denied
from otolith.shapes import Shape, fields
from otolith.teams.records import SESSIONS, TeamRecords
from otolith.types import short_repr

_SHAPE: Shape = {"owner": str, "number": int, "since": int, "note": object, "giver": str}


@short_repr("session", "owner", "giver")
@dataclass(frozen=True, slots=True)
class SessionOwner:
    """Who works on a session."""

    session: str
    owner: str
    number: int  # of the ownership: it rises with each handoff
    since: int  # microseconds since 1970
    giver: str = ""  # who handed it over; "" if nobody did
    note: Any = None

    @classmethod
    def from_data(cls, session: str, data: object) -> SessionOwner:
        """Return the owner that is stored as this.

        Raises:
            Corrupt: this is not an owner.
        """
        return cls(session, **fields(data, f"the owner of session {session}", _SHAPE))

    def to_data(self) -> dict[str, Any]:
        """Return the owner as it is stored."""
        return {name: getattr(self, name) for name in _SHAPE}


def session_owner(records: TeamRecords, session: str) -> SessionOwner | None:
    """Return who works on a session; None if nobody does."""
    data = records.value(SESSIONS, session)
    return None if data is None else SessionOwner.from_data(session, data)


def session_owners(records: TeamRecords) -> list[SessionOwner]:
    """Return all sessions that somebody works on, by name."""
    return [SessionOwner.from_data(name, data) for name, data in records.items(SESSIONS)]


def put_owner(records: TeamRecords, owner: SessionOwner) -> None:
    """Stage the owner of a session."""
    records.put(owner.to_data(), SESSIONS, owner.session)


def not_yours(found: SessionOwner) -> Denied:
    """Return the error for a session that another member works on."""
    return Denied(
        f"{found.owner} works on session {found.session}",
        hint=f"{found.owner} can give it to you: team.handoff({found.session!r}, to=…)",
    )
