"""Where to cut, so that the next cut is likely to be at the same place.

A provider reads a prompt from its cache as long as it begins as the last one did. A window that
moves on with every message breaks that every time. So a cut is not made as far back as fits: of the
places that leave the window at least three quarters full, it takes the one whose index is the
roundest number (the most zeros at its end, in binary), and it stays there for many messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from otolith.agent.conversation.context.units import Unit
from otolith.agent.conversation.message import Role


def roundest(low: int, high: int) -> int:
    """Return the number from low to high with the most zeros at its end, in binary."""
    for zeros in range(high.bit_length(), 0, -1):
        found = high >> zeros << zeros
        if found >= low:
            return found
    return high


def stable_cut(units: Sequence[Unit], first: int, last: int) -> int:
    """Return which unit to begin with, of those from first to last.

    Where a user begins to speak is better than the middle of what followed.
    """
    aim = roundest(units[first].at, units[last].at)
    places = range(first, last + 1)
    users = [place for place in places if units[place].head.role is Role.USER]
    if users:
        aim = roundest(units[users[0]].at, units[users[-1]].at)
        places_of_users = [place for place in users if units[place].at >= aim]
        return places_of_users[0] if places_of_users else users[-1]
    return next((place for place in places if units[place].at >= aim), last)
