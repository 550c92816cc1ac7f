"""Errors in a terminal: an exit code, one line of error, one line of hint.

0  success
1  there are differences (`diff --exit-code`), conflicts to resolve, or the user's code raised
2  the call is wrong: usage, a bad path, ref or value, a name taken, no such file
3  the store has nothing of that name, or there is no store
4  not allowed, or read-only
5  stored bytes are damaged
6  temporarily impossible: the store is busy, full or unreachable; a retry is safe
7  this installation cannot do that
8  a run of an agent is not finished: it waits for an answer, or reached a limit
9  a user was erased, and stays erased

Code of the user that runs in this process may raise anything, including exceptions that mean
something to the command line itself: an exit, a broken pipe, a missing file. `user_code_errors`
catches them where that code is called, and reports them with the lines of the user's files.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException
from typing import Any, TypeVar

import click

from otolith.cli.terminal import escape
from otolith.errors import (
    Conflict,
    Corrupt,
    Denied,
    Erased,
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

E = TypeVar("E", bound=Error)


class ExitCode(IntEnum):
    """The exit codes that commands name; the head of this file says what each means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    DAMAGED = 5
    UNAVAILABLE = 6
    UNSUPPORTED = 7
    UNFINISHED = 8
    ERASED = 9
    INTERRUPTED = 128 + signal.SIGINT  # as a shell counts signals
    BROKEN_PIPE = 128 + 13


# The first class that fits decides; any other error is a wrong call.
_CODES: tuple[tuple[type[Error], ExitCode], ...] = (
    (Conflict, ExitCode.FAILED),
    (Invalid, ExitCode.USAGE),
    (NotFound, ExitCode.NOT_FOUND),
    (Denied, ExitCode.DENIED),
    (ReadOnly, ExitCode.DENIED),
    (Corrupt, ExitCode.DAMAGED),
    (Unavailable, ExitCode.UNAVAILABLE),
    (Unsupported, ExitCode.UNSUPPORTED),
    (Erased, ExitCode.ERASED),
)

# The library's hints name Python calls, because its callers are programs. Here each of these calls
# is replaced by the command that does the same; errors of some types get a hint of their own.
_COMMANDS = {
    r"(state|repo)\.log\(\)": "`otolith log`",
    r"repo\.branches\([^)]*\)": "`otolith branch`",
    r"repo\.tags\(\)": "`otolith tag`",
    r"repo\.remotes\.list\(\)": "`otolith remote list`",
    r"repo\.sessions\(\)": "`otolith sessions`",
    r"repo\.sessions\(scope='user'\)": "`otolith users`",
    r"sessions='(delete|keep)'": r"`--sessions \1`",
    r"feedback\(…, liked=False\)": "`--disliked`",
    r"see profile\.why\(key\)": "`otolith profile why USER KEY` lists what is known",
    r"profile\.unset\(key\)": "`otolith profile unset USER KEY`",
    r"profile\.settings\.describe\('.*?'\) describes it": (
        "`otolith profile settings USER` describes it"
    ),
    r"list\(state\)": "`otolith ls`",
    r"(see )?\bvars\(\)": "`otolith vars`",
    r"state\.conflicts": "`otolith status`",
    r"(list\(|see |\b)team\.inbox\)?": "`otolith team inbox`",
    r"(see )?team\.(members|proposals|leases|queues)\(\)": r"`otolith team \2`",
    r"team\.add\('(.*?)'\)": r"`otolith team add \1`",
    r"team\.handoff\('(.*?)', to=…\)": r"`otolith team handoff \1 --to MEMBER`",
    r"team\.remove\('(.*?)'\)": r"`otolith team remove \1`",
    r"team\.proposal\('(.*?)'\)\.diff\(\)": r"`otolith team proposal \1`",
    r"team\.proposal\('(.*?)'\)\.reject\(\)": r"`otolith team reject \1`",
    r"run\.work\(edited='keep'\)": "`otolith worker --edited keep`",
    r"run\.cancel\(name\)": "`otolith flow cancel KEY TASK`",
    r"run\.retry\('(.*?)'\)": r"`otolith flow retry KEY \1`",
    r"run\.resume\(\)": "`otolith flow resume KEY`",
    r"DbosExecutor\(\)": "`--executor dbos`",
    r"DbosExecutor\('sqlite:///jobs\.sqlite'\)": "`--executor dbos:sqlite:///jobs.sqlite`",
    r"change the state that is passed in": "propose another value than the one that is there",
    r"\bundo\(\)": "`otolith undo`",
    r"\bcommit\(\)": "`otolith commit`",
    r"settle\('(\w{10})\w*', happened=True or False\)": (
        r"`otolith effects --settle \1 --happened` (or `--not-happened`)"
    ),
}
_HINTS: tuple[tuple[type[Error], str], ...] = (
    (Uncommitted, "`otolith commit -m …` commits them, `otolith restore --all` discards them"),
    (StoreNotFound, "`otolith init` makes a store; `--store` names another"),
    (ReadOnly, "check the permissions of the file and its directory"),
)


_VARIABLE_CONFLICT = "`otolith merge --take ours|theirs --var NAME` (or `--file NAME`)"

# What is below a reserved name is changed by the commands of its room, or from Python. The names
# are spelled out, because `otolith --help` loads this file, and not `core`.
_WORKSPACE = ".workspace"
_RESERVED = re.compile(r"(\.\w+)[^:]*: names that start with a dot")
_ROOM_HINTS = {
    _WORKSPACE: "`otolith exec -c CODE` sets variables and files; "
    f"{_VARIABLE_CONFLICT} resolves a conflict",
    ".conversation": "programs write it; `otolith chat show` reads it",
    ".memory": "programs write it; `otolith memory` reads it",
    ".events": "programs write them; `otolith events` lists them",
    ".profile": "`otolith profile set USER KEY VALUE` sets what a user prefers",
}


def is_in_workspace(path: str) -> bool:
    """Tell whether a path is part of a variable or file of a workspace."""
    return path.partition("/")[0] == _WORKSPACE


def how_to_resolve(paths: Iterable[str]) -> str:
    """Return the commands that resolve conflicts at these paths."""
    are_inside = {is_in_workspace(path) for path in paths}
    by_path = "`otolith set PATH VALUE` or `otolith merge --take ours|theirs PATH`"
    ways = [by_path] if False in are_inside else []
    ways += [_VARIABLE_CONFLICT] if True in are_inside else []
    return ", variables and files with ".join(ways)


# A missing key of a state is answered by `otolith ls`; other missing keys have their own hint.
_STATE_KEY_MESSAGE = re.compile(r"nothing at |.* has no key ")


def exit_code(error: Error) -> ExitCode:
    """Return the exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.USAGE)


def exit_code_of_system(error: OSError) -> ExitCode:
    """Return the exit code for an error of the operating system, about a file that was named."""
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return ExitCode.DENIED
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        return ExitCode.USAGE
    return ExitCode.UNAVAILABLE


def hint_of(error: Error) -> str:
    """Return the hint of an error, in terms of commands."""
    if getattr(error, "has_terminal_hint", False):
        return error.hint
    if isinstance(error, KeyNotFound) and (
        not error.hint or _STATE_KEY_MESSAGE.match(error.message)
    ):
        return "`otolith ls` lists the names"
    if isinstance(error, MergeConflict) and error.paths:
        return f"resolve each with {how_to_resolve(error.paths)}"
    if reserved := _RESERVED.match(error.message):
        return _ROOM_HINTS.get(reserved[1], "choose another name, without a dot in front")
    known = next((hint for kind, hint in _HINTS if isinstance(error, kind)), None)
    return in_commands(error.hint) if known is None else known


def in_commands(hint: str) -> str:
    """Return a hint with the commands that do what its Python calls do."""
    for call, command in _COMMANDS.items():
        hint = re.sub(call, command, hint)
    return hint


def with_terminal_hint(error: E) -> E:
    """Mark an error whose hint already names commands, so that `hint_of` keeps it; return it."""
    error.__dict__["has_terminal_hint"] = True
    return error


def terminal_error(kind: type[E], message: str, hint: str) -> E:
    """Return an error whose hint is printed as it is: it names commands."""
    return with_terminal_hint(kind(message, hint=hint))


def report(message: str, hint: str = "") -> None:
    """Print an error and its hint on stderr."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {escape(message)}", err=True)
    if hint:
        click.echo(f"{click.style('hint:', fg='cyan')} {escape(hint)}", err=True)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print the warnings of otolith as one line on stderr; those of others as Python does."""
    show = warnings.showwarning

    def show_plainly(message: Warning | str, category: type[Warning], *place: Any) -> None:
        """Print one warning."""
        if category.__module__.partition(".")[0] == __name__.partition(".")[0]:
            click.echo(f"{click.style('warning:', fg='yellow')} {escape(str(message))}", err=True)
        else:
            show(message, category, *place)

    with warnings.catch_warnings():
        warnings.showwarning = show_plainly  # type: ignore[assignment]
        yield


# Where the frames of a traceback can be: in otolith, in Python itself, in what pip installed.
_OURS = str(Path(__file__).resolve().parents[1]) + os.sep
_PYTHON = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))


@contextmanager
def user_code_errors(code: str, hint: str) -> Iterator[None]:
    """Report what the user's code raises, and exit with 1; errors of otolith pass through.

    Raises:
        Exit: the code raised something.
    """
    try:
        yield
    except (Error, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: their exit code is not ours
        frames = traceback.extract_tb(error.__traceback__)
        if not (any(map(_is_foreign, frames)) or isinstance(error, SyntaxError)):
            raise
        click.echo(escape(trace_of(error)), err=True, nl=False)
        report(f"{code} raised {type(error).__name__}; this is not from otolith itself", hint)
        raise click.exceptions.Exit(ExitCode.FAILED) from None


def trace_of(error: BaseException) -> str:
    """Return a traceback with the frames of the user's files only."""
    trace = TracebackException.from_exception(error)
    _keep_frames(trace, _is_users if any(map(_is_users, trace.stack)) else _is_foreign)
    return "".join(trace.format())


def _keep_frames(trace: TracebackException, keep: Callable[[FrameSummary], bool]) -> None:
    """Remove other frames, also from the errors that led to this one."""
    trace.stack = StackSummary.from_list([frame for frame in trace.stack if keep(frame)])
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        if other is not None:
            _keep_frames(other, keep)


def _is_users(frame: FrameSummary) -> bool:
    """Return whether a frame is in a file of the user, not in an installed package."""
    return _is_foreign(frame) and not frame.filename.startswith(_INSTALLED)


def _is_foreign(frame: FrameSummary) -> bool:
    """Return whether a frame belongs to the user or to a package they installed."""
    if frame.filename.startswith((_OURS, "<frozen ")):
        return False
    return frame.filename.startswith(_INSTALLED) or not frame.filename.startswith(_PYTHON)
