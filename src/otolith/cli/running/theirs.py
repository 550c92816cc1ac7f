"""What the user's own code raises, told as theirs: what it is, and the lines of their files.

Code that a verb runs in this process may raise anything, also what the command line itself means
something by: an exit, a broken pipe, a file that is not there. So it is caught here, around the
place where that code is called, and not where the program ends.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

import click

from otolith.cli.failures import report
from otolith.cli.safety import safe
from otolith.errors import Error

_FAILED = 1
_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))


@contextmanager
def theirs(code: str, hint: str) -> Iterator[None]:
    """Tell what code of the user's raises, and leave with 1; errors of otolith are told as always.

    Raises:
        Exit: it raised something.
    """
    try:
        yield
    except (Error, KeyboardInterrupt):
        raise
    except BaseException as error:  # also an exit of theirs is no exit of ours
        if not (_belongs(error) or isinstance(error, SyntaxError)):
            raise
        click.echo(safe(trace_of(error)), err=True, nl=False)
        report(f"{code} raised {type(error).__name__}; this is not from otolith itself", hint)
        raise click.exceptions.Exit(_FAILED) from None


def trace_of(error: BaseException) -> str:
    """Return a traceback with the frames of the user's files only."""
    told = TracebackException.from_exception(error)
    keep = _is_users if any(map(_is_users, told.stack)) else _is_foreign
    _narrow(told, keep)
    return "".join(told.format())


def _narrow(told: TracebackException, keep: Callable[[FrameSummary], bool]) -> None:
    """Leave out frames, also those of the errors that led to this one."""
    told.stack = StackSummary.from_list([frame for frame in told.stack if keep(frame)])
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _narrow(other, keep)


def _belongs(error: BaseException) -> bool:
    return any(map(_is_foreign, traceback.extract_tb(error.__traceback__)))


def _is_users(frame: FrameSummary) -> bool:
    return _is_foreign(frame) and not frame.filename.startswith(_INSTALLED)


def _is_foreign(frame: FrameSummary) -> bool:
    """Tell whether a frame is neither ours nor Python's: the user's, or of what they installed."""
    if frame.filename.startswith((_OURS, "<frozen ")):
        return False
    return frame.filename.startswith(_INSTALLED) or not frame.filename.startswith(_PYTHON)
