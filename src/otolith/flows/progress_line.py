"""ProgressLine: a line in a terminal that shows how far a run is, while somebody works on it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from otolith.shapes import NOTHING, check_argument

_PAUSE_SECONDS = 0.1
_BAR = 24


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


def shows_progress(progress: object) -> bool:
    """Tell whether to show a line: as was asked for, or if standard error is a terminal."""
    check_argument(progress, "progress", (bool, NOTHING), "True, False or None")
    return sys.stderr.isatty() if progress is None else bool(progress)
