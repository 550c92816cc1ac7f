"""Lines as they are typed: with history and editing on a terminal, from a pipe without.

The history is kept in otolith/history under $XDG_STATE_HOME, or else ~/.local/state.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

_LONGEST_HISTORY = 10_000


class Lines(Protocol):
    """Gives one line after another."""

    is_terminal: bool

    def next(self, prompt: str) -> str | None:
        """Return the next line, or None if there is no more."""
        ...


class Typed:
    """Lines from a terminal."""

    is_terminal = True

    def next(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            print()
            return None


class Piped:
    """Lines from a file or a pipe: nothing is prompted for."""

    is_terminal = False

    def next(self, prompt: str) -> str | None:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None


@contextmanager
def lines_in() -> Iterator[Lines]:
    """Return what is typed; a terminal remembers it for the next time."""
    if not sys.stdin.isatty():
        yield Piped()
        return
    with _history(history_file()):
        yield Typed()


def history_file() -> Path:
    """Return where this user's history is kept."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = given if given.is_absolute() else Path.home() / ".local" / "state"
    return base / "otolith" / "history"


@contextmanager
def _history(file: Path) -> Iterator[None]:
    try:
        import readline
    except ImportError:  # not on Windows
        yield
        return
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_LONGEST_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            readline.write_history_file(file)
