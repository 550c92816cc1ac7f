"""Members: who takes part in a team, since when, and whether they may still write.

A member's commits carry the fence `team/<id>/member/<name>` with the number of their membership.
Removing a member raises that number in the commit that removes it, so whatever the member, or a
process of it that was frozen, writes afterwards is refused by the store itself. A number is never
given twice: `TeamContext.next_number`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from otolith.errors import Denied, Invalid, KeyNotFound
from otolith.shapes import NOTHING, Shape, fields
from otolith.teams.records import MEMBERS, TeamRecords
from otolith.types import short_repr

_SHAPE: Shape = {"number": int, "joined": int, "role": str, "removed": (int, NOTHING)}
_LONGEST = 200

EVERYBODY = "*"
"""Whom a message is for that goes to all others; no member has this name."""


@short_repr("name", "role", "is_present", "is_removed")
@dataclass(frozen=True, slots=True)
class Member:
    """An agent or a person that takes part in a team."""

    name: str
    role: str = ""
    joined: int = 0  # microseconds since 1970
    number: int = 1  # of its membership: a higher one when the member is removed
    removed: int | None = None
    is_present: bool = False  # a process of the member is in `with team:` now

    @property
    def is_removed(self) -> bool:
        """Whether the member was removed, and may not write."""
        return self.removed is not None

    def seen(self, *, is_present: bool) -> Member:
        """Return the member, present or not."""
        return replace(self, is_present=is_present)

    def to_data(self) -> dict[str, Any]:
        """Return the member as it is stored."""
        return {name: getattr(self, name) for name in _SHAPE}

    @classmethod
    def from_data(cls, name: str, data: object) -> Member:
        """Return the member that is stored as this.

        Raises:
            Corrupt: this is not a member.
        """
        return cls(name, **fields(data, f"member {name}", _SHAPE))


def check_member_name(name: object, what: str = "member") -> str:
    """Return the name of a member if it is one.

    Raises:
        Invalid: it is not a short text on one line, or is that for everybody.
    """
    if name == EVERYBODY:
        raise Invalid("'*' is everybody, and not a member", hint="give a name such as 'planner'")
    return check_short_name(name, what, hint="such as 'planner', one for each agent and person")


def check_short_name(name: object, what: str, *, hint: str) -> str:
    """Return a name that people read in lists: of a member, a role, a lease, a queue.

    Raises:
        Invalid: it is not a short text that can be printed on one line.
    """
    is_text = isinstance(name, str) and 0 < len(name) <= _LONGEST
    if not is_text or not str(name).isprintable() or str(name).strip() != name:
        raise Invalid(
            f"{what} must be a name of 1 to {_LONGEST} characters that can be printed, with no"
            f" spaces around it, got {str(name)[:80]!r}",
            hint=hint,
        )
    return str(name)


def find_member(records: TeamRecords, name: str) -> Member | None:
    """Return a member, also one that was removed."""
    data = records.value(MEMBERS, name)
    return None if data is None else Member.from_data(name, data)


def current_members(records: TeamRecords) -> dict[str, Member]:
    """Return the members that were not removed, by name."""
    found = {name: Member.from_data(name, data) for name, data in records.items(MEMBERS)}
    return {name: member for name, member in found.items() if not member.is_removed}


def existing_member(records: TeamRecords, name: str, team: str) -> Member:
    """Return a member that was not removed.

    Raises:
        KeyNotFound: there is none of this name.
    """
    check_member_name(name)
    found = find_member(records, name)
    if found is None or found.is_removed:
        known = ", ".join(sorted(current_members(records))[:8]) or "nobody yet"
        raise KeyNotFound(
            f"team {team} has no member {name!r}",
            hint=f"its members are: {known}; team.add({name!r}) adds one",
        )
    return found


def add_member(
    records: TeamRecords, name: str, *, role: str | None, now: int, number: int
) -> Member:
    """Stage a new member, one that comes back, or another role of one that is there.

    `number` is that of a new member.

    Raises:
        Invalid: the name or the role is not a short text on one line.
    """
    check_member_name(name)
    if role is not None and role != "":
        check_short_name(role, "role", hint="such as 'reviewer', or '' for none")
    found = find_member(records, name)
    if found is None:
        found = Member(name, role or "", joined=now, number=number)
    elif found.is_removed:
        found = replace(found, joined=now, removed=None)
    if role is not None:
        found = replace(found, role=role)
    records.put(found.to_data(), MEMBERS, name)
    return found


def remove_member(records: TeamRecords, member: Member, *, now: int, number: int) -> Member:
    """Stage the removal of a member; its next membership has the number that it gets here."""
    gone = replace(member, number=number, removed=now)
    records.put(gone.to_data(), MEMBERS, member.name)
    return gone


def was_removed(team: str, name: str) -> Denied:
    """Return the error for a member that may not write any more."""
    return Denied(
        f"{name} was removed from team {team}",
        hint=f"another member can take it back: team.add({name!r})",
    )
