"""What went wrong, in a terminal's words: an exit code, one line of error, one line of hint.

0  it worked
1  there are differences (`diff --exit-code`), or a conflict to decide
2  the call is wrong: usage, a bad path, ref or value, a name taken, no such file
3  the store has nothing of that name, or there is no store
4  not allowed, or read-only
5  stored bytes are damaged
6  not now: the store is busy, full or out of reach; a retry is safe
7  this installation cannot do that
8  a run of an agent is not over: it waits for an answer, or reached a limit

What the user's own code raises, told as theirs: what it is, and the lines of their files.

Code that a verb runs in this process may raise anything, also what the command line itself means
something by: an exit, a broken pipe, a file that is not there. So it is caught here, around the
place where that code is called, and not where the program ends.
"""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

import click

from otolith.cli.terminal import safe
from otolith.errors import (
    Conflict,
    Corrupt,
    Denied,
    Error,
    Invalid,
    KeyNotFound,
    MergeConflict,
    NotFound,
    ReadOnly,
    StoreNotFound,
    Unavailable,
    Uncommitted,
    Unsupported,
)

_CODES: tuple[tuple[type[Error], int], ...] = (
    (Conflict, 1),
    (Invalid, 2),
    (NotFound, 3),
    (Denied, 4),
    (ReadOnly, 4),
    (Corrupt, 5),
    (Unavailable, 6),
    (Unsupported, 7),
)

# The library's hints speak Python; where a terminal has a better word, it is here.
_HINTS: tuple[tuple[type[Error], str], ...] = (
    (MergeConflict, "`otolith set PATH VALUE` or `otolith merge --take ours|theirs PATH` decides"),
    (Uncommitted, "`otolith commit -m …` keeps them, `otolith restore --all` drops them"),
    (StoreNotFound, "`otolith init` makes a store; `--store` names another"),
    (ReadOnly, "check the permissions of the file and its directory"),
)


# A key may be that of anything, and its error knows better, unless it is a place in a state.
_IN_A_STATE = re.compile(r"nothing at |.* has no key ")
_LIST = "`otolith ls` shows what is there"


def exit_code(error: Error) -> int:
    """Return the exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), 2)


def hint_of(error: Error) -> str:
    """Return what to type next."""
    if getattr(error, "is_worded", False):
        return error.hint
    if isinstance(error, KeyNotFound) and (not error.hint or _IN_A_STATE.match(error.message)):
        return _LIST
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), error.hint)


def worded(error: Error) -> Error:
    """Mark an error whose hint is written for a terminal already."""
    error.__dict__["is_worded"] = True
    return error


def report(message: str, hint: str = "") -> None:
    """Say on stderr what went wrong and what to do next."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {safe(message)}", err=True)
    if hint:
        click.echo(f"{click.style('hint:', fg='cyan')} {safe(hint)}", err=True)


_FAILED = 1
_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
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
