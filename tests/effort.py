"""How much work a call does, as a count that is the same on a busy machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(act: Callable[[], object]) -> int:
    """The number of lines of Python that `act` runs, each as often as it runs."""
    count = 0

    def trace(_frame: FrameType, event: str, _detail: Any) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
