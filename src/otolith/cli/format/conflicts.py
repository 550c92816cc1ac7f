"""Conflicts of a merge as text.

A value is shown by its path and its sides. What is in a workspace is shown by variable and file:
its paths would show pickles, and cannot be set one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from otolith.cli.errors import is_in_workspace
from otolith.cli.format.history import path_conflict_lines
from otolith.cli.terminal import escape
from otolith.core import Branch, parse_path
from otolith.workspace import WorkspaceConflict, WorkspaceConflicts


def conflict_lines(branch: Branch) -> Iterator[str]:
    """Yield the conflicts of a branch: values by path, then variables and files."""
    for conflict in branch.conflicts:
        if not is_in_workspace(conflict.path):
            yield from path_conflict_lines(conflict)
    for found in WorkspaceConflicts(branch):
        yield from _variable_lines(found)


def _variable_lines(found: WorkspaceConflict) -> Iterator[str]:
    """Yield a variable or file with its sides; of a value, where in it they differ."""
    if found.is_whole:
        kind = "edit/edit" if found.ours and found.theirs else "edit/delete"
        yield _title(f"{found.what} {found.name}", kind)
        yield from (_side(side, getattr(found, side)) for side in ("ours", "theirs"))
        return
    for conflict in found.paths:
        inside = parse_path(conflict.path)[3:]
        at = "" if found.what == "file" or not inside else f" at {'/'.join(map(str, inside))}"
        sides = path_conflict_lines(conflict)[1:]
        yield _title(f"{found.what} {found.name}{at}", conflict.kind)
        yield from [] if found.what in ("class", "record") else sides


def _title(subject: str, kind: str) -> str:
    mark = click.style("!", fg="red", bold=True)
    return f"{mark} {click.style(escape(subject), bold=True)}  {kind}"


def _side(side: str, text: str) -> str:
    return f"    {side:7}{escape(text) if text else click.style('absent', dim=True)}"
