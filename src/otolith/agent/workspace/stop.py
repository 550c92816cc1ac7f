"""A wish that the step that runs should stop, from another thread or from a signal handler."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Literal, TypeAlias

Stopped: TypeAlias = Literal["interrupted", "timed out", "killed"]
"""What ended a step before its time: the user, its time, or the user who had enough of it."""

Wish: TypeAlias = Literal["interrupted", "killed"]


class Stop:
    """What is wished for, and a line that wakes whoever runs the step.

    Nothing here takes a lock: a signal handler may come in the middle of anything.
    """

    def __init__(self) -> None:
        self.line, self._bell = socket.socketpair()
        self.line.settimeout(0)
        self._bell.settimeout(0)
        self._wishes: list[Wish] = []
        self._is_step_running = False

    def begin(self) -> None:
        """Take wishes from now on."""
        self.wishes()
        self._is_step_running = True

    def end(self) -> None:
        """Take none any more."""
        self._is_step_running = False

    def ask(self, wish: Wish) -> bool:
        """Tell whether there is a step to stop; it will be."""
        if not self._is_step_running:
            return False
        self._wishes.append(wish)
        with suppress(OSError):  # it rings already, or the workspace was closed
            self._bell.send(b".")
        return True

    def wishes(self) -> list[Wish]:
        """Return what was wished for since the last time."""
        with suppress(BlockingIOError):
            self.line.recv(4096)
        count = len(self._wishes)
        taken, self._wishes[:count] = self._wishes[:count], []
        return taken

    def close(self) -> None:
        """Hang up."""
        self.end()
        self.line.close()
        self._bell.close()
