"""Progress of a run on a terminal: a line a step, and nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from otolith.agent.loop.happening import clipped
from otolith.agent.loop.state import AgentState

_WIDTH = 76


class Progress:
    """Tells what a run does."""

    def __init__(self, *, is_wanted: bool | None = None, stream: TextIO | None = None) -> None:
        """Tell it to a stream, by default standard error if that is a terminal."""
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
        head = f"[{after.session}] {after.iteration:>3} {after.phase!s:<16} {seconds:6.1f}s"
        self._stream.write(f"{head}  {said}"[:_WIDTH].rstrip() + "\n")
        self._stream.flush()


def _shown(text: str) -> str:
    """Return a text on one line, without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
