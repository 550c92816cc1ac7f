"""How much work a call does, as a count that is the same on a busy machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(act: Callable[[], object]) -> int:
    """The number of lines of Python that `act` runs, each as often as it runs.

    Nothing is collected meanwhile: finalizers and callbacks of what earlier tests left would count.
    """
    count = 0

    def trace(_frame: FrameType, event: str, _detail: Any) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    was_collecting = gc.isenabled()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
        if was_collecting:
            gc.enable()
    return count
