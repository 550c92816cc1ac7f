"""Durations as users write them: "90s", "1h", a number of seconds, a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from otolith.errors import Invalid

Duration: TypeAlias = str | float | timedelta
"""A text with a unit, a number of seconds, or a timedelta."""

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_UNITS["d"] = 24 * _UNITS["h"]
_DURATION = re.compile(r"\s*(\d*\.?\d+)\s*(us|ms|s|m|h|d)?\s*")
_LONGEST = 10**18  # 30,000 years


def parse_duration(text: str, unit: str) -> int | None:
    """Return the microseconds of a text such as `1.5s`; without a unit it counts in `unit`.

    The units are us, ms, s, m, h and d. None if it is not such a text.
    """
    found = _DURATION.fullmatch(text) if len(text) < 40 else None
    return None if found is None else int(Decimal(found[1]) * _UNITS[found[2] or unit])


def duration_microseconds(time: object) -> int | None:
    """Return the microseconds of a `Duration`.

    None if it is something else, negative, or longer than 30,000 years.
    """
    found: int | None = None
    if isinstance(time, str):
        found = parse_duration(time, "s")
    elif isinstance(time, timedelta):
        found = time // timedelta(microseconds=1)
    elif isinstance(time, int | float) and not isinstance(time, bool) and 0 <= time < 1e12:
        found = round(time * 1_000_000)
    return found if found is not None and 0 <= found < _LONGEST else None


def wait_seconds(time: object, name: str) -> float:
    """Return the seconds of a `Duration` to wait at most; 0 is not to wait.

    Raises:
        Invalid: it is not a duration.
    """
    return 0.0 if duration_microseconds(time) == 0 else duration_seconds(time, name)


def duration_seconds(time: object, name: str) -> float:
    """Return the seconds of a `Duration` above 0; `name` is what the user calls it.

    Raises:
        Invalid: it is not a duration, or takes no time.
    """
    found = duration_microseconds(time)
    if not found:
        raise Invalid(
            f"{name} must be a time such as '1h', got {time!r}",
            hint="give a text with a unit (us, ms, s, m, h, d), seconds or a timedelta, above 0",
        )
    return found / 1_000_000
