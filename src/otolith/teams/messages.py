"""Messages between members: each member has a list of those that it has not read.

A message is committed like anything else of the team, so it is delivered once, in the order of the
commits, and stays in history. Two members that send at the same moment conflict as little as two
that append to one list. Reading takes the messages out of the list: so where two stores are merged,
what was read in one is gone from the list of both, and what was sent in either is in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from otolith.errors import Corrupt
from otolith.shapes import NOTHING, Shape, fields, fits
from otolith.teams.records import MAIL, READ, TeamRecords
from otolith.types import short_repr

_SHAPE: Shape = {"sender": str, "time": int, "body": object}


@short_repr("sender", "body")
@dataclass(frozen=True, slots=True)
class TeamMessage:
    """What one member sent to another."""

    sender: str
    body: Any
    time: int  # microseconds since 1970
    number: int = 0  # its place among all that the receiver was sent, from 1

    @classmethod
    def from_data(cls, data: object, number: int) -> TeamMessage:
        """Return the message that is stored as this.

        Raises:
            Corrupt: this is not a message.
        """
        return cls(**fields(data, f"message {number}", _SHAPE), number=number)


def send_message(
    records: TeamRecords, sender: str, receivers: Iterable[str], body: object, *, now: int
) -> None:
    """Stage a message to each receiver."""
    for name in receivers:
        records.append({"sender": sender, "time": now, "body": body}, MAIL, name)


def unread_messages(records: TeamRecords, member: str) -> list[TeamMessage]:
    """Return the messages that a member has not read."""
    count = records.value(READ, member)
    if not fits(count, (int, NOTHING)):
        raise Corrupt(f"what {member} has read is a {type(count).__name__}, not a count")
    found = records.elements(MAIL, member)
    return [TeamMessage.from_data(data, at) for at, data in enumerate(found, (count or 0) + 1)]


def take_messages(records: TeamRecords, member: str) -> list[TeamMessage]:
    """Stage that a member has read its messages, and return them."""
    found = unread_messages(records, member)
    if found:
        records.put([], MAIL, member)
        records.put(found[-1].number, READ, member)
    return found
