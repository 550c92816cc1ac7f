"""How much is left of what was noted: a law of what is stored and the time it is now.

    strength = importance x 0.5 ^ (age / half-life)

The age is the time since the note was written or last used. Each use lengthens the half-life by
one more of it, so that what is used often fades slowly. What is pinned has its importance for ever.
Nobody writes anything for a note to fade: it is worked out when it is read.
"""

from __future__ import annotations

HALF_LIFE_SECONDS = 7 * 24 * 3600.0
"""After a week a note that nobody used is worth half."""

_MICROSECONDS = 1_000_000


def strength(
    importance: float,
    *,
    age: int,
    uses: int = 0,
    half_life_seconds: float = HALF_LIFE_SECONDS,
    is_pinned: bool = False,
) -> float:
    """Return what is left of an importance after `age` microseconds; never more than it was."""
    if is_pinned:
        return importance
    lasting = half_life_seconds * (1 + max(uses, 0)) * _MICROSECONDS
    half_lives: float = max(age, 0) / lasting
    decay: float = 0.5**half_lives
    return importance * decay
