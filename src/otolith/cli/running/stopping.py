"""Ctrl-C while a step runs: once interrupts the step and keeps what it did, twice ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from otolith.agent import Workspace

_SAID = b"\ninterrupting; once more ends the step and keeps nothing of it\n"


@contextmanager
def stopping(workspace: Workspace) -> Iterator[Stop]:
    """Pass interrupts on to the step that runs, for as long as this lasts."""
    stop = Stop(workspace)
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class Stop:
    """What is done about an interrupt."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._count = 0

    @property
    def was_asked(self) -> bool:
        """Whether there was one."""
        return self._count > 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1 and self._workspace.interrupt():
            os.write(2, _SAID)  # a stream may be in the middle of something else
        elif self._count != 2 or not self._workspace.kill():
            raise KeyboardInterrupt
