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
"""

from __future__ import annotations

import re

import click

from otolith.cli.safety import safe
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
