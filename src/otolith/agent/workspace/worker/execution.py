"""Running the code of one step: its value, what it raised, and what it drew."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otolith.agent.workspace.messages import Failure, Figure
from otolith.agent.workspace.worker.namespace import Namespace
from otolith.agent.workspace.worker.sources import Sources, untrapped

_MOST_FIGURES = 50
_OURS = str(Path(__file__).parent)


@dataclass
class Outcome:
    """How a step ended."""

    value: Any = None
    failure: Failure | None = None
    was_interrupted: bool = False
    figures: list[Figure] = field(default_factory=list)


def execute(source: str, namespace: Namespace, sources: Sources) -> Outcome:
    """Run code. Whatever it raises is part of the outcome."""
    outcome, worker = Outcome(), os.getpid()
    try:
        compiled = sources.compile(source)
        for name in untrapped(compiled.body):
            namespace.warm_if_cold(name)
        with _interruptible():
            exec(compiled.body, namespace)  # noqa: S102  # this is what a worker is for
            if compiled.value is not None:
                outcome.value = eval(compiled.value, namespace)  # noqa: S307
    except BaseException as error:  # noqa: BLE001  # a step may raise anything, exits included
        outcome.was_interrupted = isinstance(error, KeyboardInterrupt)
        outcome.failure = failure_of(error)
    if os.getpid() != worker:
        os._exit(0)  # it was forked by the code, and came out of it like its parent
    _hold_interrupts()
    outcome.figures = _figures()
    _flush()
    return outcome


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let interrupts through; one that came before the code began to run comes now."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        yield
    finally:
        _hold_interrupts()


def _hold_interrupts() -> None:
    """Let those that come from now on wait for the next step; drop those that came too late."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def failure_of(error: BaseException) -> Failure:
    """Return what is told of an exception: of its frames, those of the session's code."""
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<step "):
        trace = trace.tb_next
    lines = traceback.TracebackException(type(error), error, trace, compact=True)
    # Of how a variable is fetched, the code that used it need not know.
    shown = [frame for frame in lines.stack if not frame.filename.startswith(_OURS)]
    lines.stack = traceback.StackSummary.from_list(shown)
    where = [frame.lineno for frame in lines.stack if frame.filename.startswith("<step ")]
    if isinstance(error, SyntaxError):
        where = [error.lineno]
    return Failure(
        type=type(error).__qualname__,
        message=_message(error),
        traceback=_text(lambda: "".join(lines.format())),
        line=where[0] if where else None,
    )


def _message(error: BaseException) -> str:
    said = _text(lambda: str(error))
    hint = getattr(error, "hint", "")
    return f"{said} ({hint})" if isinstance(hint, str) and hint and hint not in said else said


def _text(ask: Any) -> str:
    try:
        return str(ask()).encode("utf-8", "replace").decode()
    except Exception as error:  # noqa: BLE001  # the words of somebody else's exception
        return f"<{type(error).__name__} while it was put into words>"


def _figures() -> list[Figure]:
    """Return what was drawn, and close it, as a notebook does at the end of a cell."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    found: list[Figure] = []
    for number in pyplot.get_fignums()[:_MOST_FIGURES]:
        sink = io.BytesIO()
        try:
            pyplot.figure(number).savefig(sink, format="png")
        except Exception:  # noqa: BLE001, S112  # drawing runs the user's code
            continue
        found.append(Figure(number, sink.getvalue()))
    pyplot.close("all")
    return found


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112  # code may have put anything there
            continue
