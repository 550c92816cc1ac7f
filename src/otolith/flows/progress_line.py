"""ProgressLine: a line in a terminal that shows how far a run is, while somebody works on it.

trip-42 [##########..............] 5 of 12 running (1 m 20 s left, search > choose > book)
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from otolith.flows.forecast import Forecast
from otolith.shapes import NOTHING, check_argument

_PAUSE_SECONDS = 0.1
_BAR = 24
_MOST_NAMES = 8
_LOOK_SECONDS = 0.5
_LOOK_SHARE = 50  # what is expected is looked up for so small a part of the time


class Shown(Protocol):
    """What a line shows of a run."""

    @property
    def key(self) -> str:
        """The name of the run."""
        ...

    @property
    def total(self) -> int:
        """How many tasks it has."""
        ...

    @property
    def percent(self) -> float:
        """The part of the work that is done."""
        ...

    @property
    def status(self) -> str:
        """How it is."""
        ...

    @property
    def done(self) -> int:
        """How many tasks are done."""
        ...


class ProgressLine:
    """Writes one line to standard error, again and again in its place."""

    def __init__(self, look: Callable[[], Shown], *, more: Callable[[], str] = str) -> None:
        """Show what `look` returns, and what `more` says, such as the time that is left."""
        self._look = look
        self._more = more
        self._shown = 0.0

    def show(self, *_: object) -> None:
        """Show how far it is, unless that was shown just now."""
        now = monotonic()
        if now - self._shown >= _PAUSE_SECONDS:
            self._write()
            self._shown = monotonic()

    def end(self) -> None:
        """Show how far it is, and leave the line."""
        self._write()
        sys.stderr.write("\n")
        sys.stderr.flush()

    def _write(self) -> None:
        found = self._look()
        filled = round(_BAR * found.percent / 100)
        bar = "#" * filled + "." * (_BAR - filled)
        more = self._more()
        line = f"{found.key} [{bar}] {found.done} of {found.total} {found.status}"
        line = "".join(each if each.isprintable() else "?" for each in f"{line} {more}".rstrip())
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line[:width]:<{width}}")
        sys.stderr.flush()


class ExpectedEnd:
    """When a run ends, and what that hangs on, as a text; looked up now and then."""

    def __init__(self, look: Callable[[], Forecast | None]) -> None:
        self._look = look
        self._text, self._look_at = "", 0.0

    def text(self) -> str:
        """Return the seconds that are left, and the longest path of what is left."""
        began = monotonic()
        if began >= self._look_at:
            found = self._look()
            self._text = "" if found is None else expected_text(found)
            took = monotonic() - began
            self._look_at = monotonic() + max(_LOOK_SECONDS, _LOOK_SHARE * took)
        return self._text


def expected_text(forecast: Forecast) -> str:
    """Return when a run ends, and the tasks that what is left hangs on, on a short line."""
    path = path_text(forecast.path_left)
    return f"({seconds_text(forecast.eta().expected)} left, {path})" if path else ""


def path_text(names: Sequence[str]) -> str:
    """Return a path through a graph on one line; of a long one, both ends."""
    half = _MOST_NAMES // 2
    if len(names) > _MOST_NAMES:
        names = [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]
    return " > ".join(names)


def seconds_text(seconds: float) -> str:
    """Return a span of time for a person: `0.42 s`, `12 s`, `3 m 20 s`, `2 h 5 m`."""
    if seconds < 10:
        return f"{seconds:.3g} s" if seconds >= 0.001 or not seconds else "< 1 ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    large, small, unit = (whole // 60, whole % 60, "m") if whole < 3600 else (
        whole // 3600, whole % 3600 // 60, "h")  # fmt: skip
    rest = f" {small} {'s' if unit == 'm' else 'm'}" if small else ""
    return f"{large:,} {unit}{rest}"


def shows_progress(progress: object) -> bool:
    """Tell whether to show a line: as was asked for, or if standard error is a terminal."""
    check_argument(progress, "progress", (bool, NOTHING), "True, False or None")
    return sys.stderr.isatty() if progress is None else bool(progress)
