"""`status` of the current branch, and the `sessions` of a store."""

from __future__ import annotations

from collections.abc import Iterator

import click

from otolith.cli.format.history import (
    change_json,
    changes_text,
    commit_json,
    conflict_json,
    conflict_lines,
    first_line,
    format_time,
    oneline,
    plural,
)
from otolith.cli.location import OpenBranch, find, open_current, open_repo
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, escape, json_option, page, table


@click.command("status")
@json_option
@click.pass_obj
def status(options: GlobalOptions, as_json: bool) -> None:
    """Show the current branch, its staged changes, and open conflicts."""
    with open_current(options, read_only=True) as current:
        branch = current.branch
        if not as_json:
            page(_status_lines(current), options)
            return
        emit({
            "store": current.location.url,
            "session": branch.session,
            "branch": branch.name,
            "head": commit_json(branch.head) if branch.head else None,
            "merging": commit_json(branch.merging) if branch.merging else None,
            "clean": branch.is_clean,
            "changes": [change_json(change) for change in branch.status()],
            "conflicts": [conflict_json(conflict) for conflict in branch.conflicts],
        })  # fmt: skip


def _status_lines(current: OpenBranch) -> Iterator[str]:
    branch = current.branch
    session = click.style(escape(branch.session), bold=True)
    yield f"Session {session}, branch {click.style(escape(branch.name), fg='green', bold=True)}"
    yield f"Head    {oneline(branch.head, {})}" if branch.head else "No commit yet."
    now = current.repo.branches(branch.session).get(branch.name)
    if now is not None and now != branch.head:
        yield f"Moved   {oneline(now, {})}"
        yield "        Others have committed; `otolith commit` merges the staged changes into it."
    if branch.merging is not None:
        yield f"Merging {oneline(branch.merging, {})}"
    yield ""
    if branch.conflicts:
        yield click.style(f"{plural(len(branch.conflicts), 'conflict')}:", fg="red", bold=True)
        for conflict in branch.conflicts:
            yield from conflict_lines(conflict)
        yield ""
    changes = branch.status()
    if changes:
        yield f"Staged: {plural(len(changes), 'path')}"
        yield from changes_text(changes)
        yield ""
    yield _next_command(current, has_changes=bool(changes))


def _next_command(current: OpenBranch, *, has_changes: bool) -> str:
    if current.branch.conflicts:
        return (
            "Resolve each with `otolith set PATH VALUE` or `otolith merge --take ours|theirs PATH`;"
            " `otolith merge --abort` cancels the merge."
        )
    if current.branch.merging is not None:
        return "All conflicts are resolved: `otolith merge --continue` commits the merge."
    if has_changes:
        return "`otolith commit -m …` commits them, `otolith restore --all` discards them."
    return "Nothing staged: `otolith set PATH VALUE` stages a change."


@click.command("sessions")
@json_option
@click.pass_obj
def sessions(options: GlobalOptions, as_json: bool) -> None:
    """List the sessions of the store, with their branches and last commit."""
    with open_repo(find(options).url, read_only=True) as repo:
        found = [
            (session, max(repo.branches(session.id).values(), key=lambda commit: commit.time))
            for session in repo.sessions()
        ]
    if as_json:
        entries = (
            {"id": session.id, "branches": list(session.branches), "last": commit_json(last)}
            for session, last in found
        )
        emit({"sessions": list(entries)})
        return
    rows = [
        [
            click.style(escape(session.id), bold=True),
            plural(len(session.branches), "branch", "branches"),
            format_time(last.time),
            first_line(last),
        ]
        for session, last in found
    ]
    page(table(rows) or ["No session has a commit yet."], options)
