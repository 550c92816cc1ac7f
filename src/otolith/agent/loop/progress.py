"""Progress of a run on a terminal: a line a step, and nothing where nobody looks."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

from otolith.agent.loop.happening import clipped
from otolith.agent.loop.state import AgentState

_WIDTHS = (40, 120)
"""A terminal is taken to be at least and at most so wide."""


class Progress:
    """Tells what a run does."""

    def __init__(
        self, name: str = "", *, is_wanted: bool | None = None, stream: TextIO | None = None
    ) -> None:
        """Tell it to a stream, by default standard error if that is a terminal.

        `name` is that of a run which is not the only one of its session.
        """
        self._name = f"/{name}" if name else ""
        self._stream = sys.stderr if stream is None else stream  # which may be None, as of pythonw
        is_seen = self._stream is not None and self._stream.isatty()
        self._is_on = is_seen if is_wanted is None else is_wanted and self._stream is not None
        self._start = time.monotonic()

    def step(self, after: AgentState, before: AgentState | None) -> None:
        """Tell what a step has done."""
        if not self._is_on:
            return
        known = 0 if before is None else len(before.memory.tool_calls)
        calls = ", ".join(call.name for call in after.memory.tool_calls[known:])
        last = after.messages[-1].text if after.messages else ""
        said = _shown(after.question or calls or clipped(last))
        seconds = time.monotonic() - self._start
        run = f"[{after.session}{self._name}]"
        head = f"{run} {after.iteration:>3} {after.phase!s:<16} {seconds:6.1f}s"
        self._stream.write(f"{head}  {said}"[: self._width()].rstrip() + "\n")
        self._stream.flush()

    @staticmethod
    def _width() -> int:
        """Return how many letters a line may have, so that it stays one."""
        least, most = _WIDTHS
        return min(max(shutil.get_terminal_size().columns - 1, least), most)


def _shown(text: str) -> str:
    """Return a text on one line, without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
