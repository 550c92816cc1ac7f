"""`status` of the current branch, and the `sessions`, `users`, `apps` and `teams` of a store.

All are read-only. `status` compares with the commit that the staged edits began on. A branch
that others have moved since is reported, not merged: that happens when the changes are committed.

JSON:

    status      store, session, branch, head, merging, clean, changes, workspace, agent, conflicts
    sessions    sessions (id, branches, last); `users`, `apps` and `teams` likewise
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from otolith.cli.errors import how_to_resolve
from otolith.cli.format.history import (
    commit_json,
    conflict_json,
    first_line,
    format_time,
    oneline,
    plural,
)
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.workspace import conflict_lines
from otolith.cli.location import OpenBranch, find, open_current, open_repo
from otolith.cli.options import GlobalOptions, SessionCommand, json_option, session_argument
from otolith.cli.terminal import escape, output, table
from otolith.stores import without_secrets


@click.command("status", cls=SessionCommand)
@session_argument
@json_option
@click.pass_obj
def status(options: GlobalOptions) -> None:
    """Show the current branch, its staged edits, and open conflicts."""
    with open_current(options, read_only=True) as current:
        output(options, lambda: _status_json(current), _status_lines(current))


def _status_json(current: OpenBranch) -> dict[str, object]:
    """Return the state of the current branch as JSON data."""
    branch = current.branch
    return {
        "store": without_secrets(current.location.url),
        branch.scope: branch.session,
        "branch": branch.name,
        "head": commit_json(branch.head) if branch.head else None,
        "merging": commit_json(branch.merging) if branch.merging else None,
        "clean": branch.is_clean,
        **StateDifference.of(branch.status()).to_json(),
        "conflicts": [conflict_json(conflict) for conflict in branch.conflicts],
    }


def _status_lines(current: OpenBranch) -> Iterator[str]:
    """Yield where the branch is, what is in conflict, what is staged, and what to do next."""
    branch = current.branch
    owner = f"{branch.scope.capitalize()} {click.style(escape(branch.session), bold=True)}"
    yield f"{owner}, branch {click.style(escape(branch.name), fg='green', bold=True)}"
    yield f"Head    {oneline(branch.head)}" if branch.head else "No commit yet."
    # The staged edits may have begun on an older commit than the branch has now.
    now = current.heads().get(branch.name)
    if now is not None and now != branch.head:
        yield f"Moved   {oneline(now)}"
        yield "        Others have committed; `otolith commit` merges the staged edits into it."
    if branch.merging is not None:
        yield f"Merging {oneline(branch.merging)}"
    yield ""
    if branch.conflicts:
        yield click.style(f"{plural(len(branch.conflicts), 'conflict')}:", fg="red", bold=True)
        yield from conflict_lines(branch)
        yield ""
    staged = StateDifference.of(branch.status())
    if any(staged):
        yield f"Staged: {staged.total()}"
        yield from staged.lines()
        yield ""
    yield _next_command(current, has_changes=not branch.is_clean)


def _next_command(current: OpenBranch, *, has_changes: bool) -> str:
    """Return the sentence that names the command the user most likely needs now."""
    if conflicts := current.branch.conflicts:
        how = how_to_resolve([conflict.path for conflict in conflicts])
        return f"Resolve each with {how}; `otolith merge --abort` cancels the merge."
    if current.branch.merging is not None:
        return "All conflicts are resolved: `otolith merge --continue` commits the merge."
    if has_changes:
        return "`otolith commit -m …` commits them, `otolith restore --all` discards them."
    return "Nothing staged: `otolith set PATH VALUE` stages a change."


@click.command("sessions")
@json_option
@click.pass_obj
def sessions(options: GlobalOptions) -> None:
    """List the sessions of the store, with their branches and last commit."""
    _list_states(options, "session")


@click.command("users")
@json_option
@click.pass_obj
def users(options: GlobalOptions) -> None:
    """List the users of the store; `otolith --user ID ls` reads the state of one."""
    _list_states(options, "user")


@click.command("apps")
@json_option
@click.pass_obj
def apps(options: GlobalOptions) -> None:
    """List the applications of the store; `otolith --app NAME ls` reads the state of one."""
    _list_states(options, "app")


@click.command("teams")
@json_option
@click.pass_obj
def teams(options: GlobalOptions) -> None:
    """List the teams of the store; `otolith team show ID` shows what one shares."""
    _list_states(options, "team")


def _list_states(options: GlobalOptions, scope: str) -> None:
    """Print the sessions, users, ... of a store, each with its last commit."""
    found, rows = [], []
    with open_repo(find(options).url, read_only=True) as repo:
        for each in repo.sessions(scope=scope):
            heads = repo.branches(each.id, scope=scope).values()
            last = max(heads, key=lambda commit: commit.time)
            found.append({"id": each.id, "branches": each.branches, "last": commit_json(last)})
            count = plural(len(each.branches), "branch", "branches")
            name = click.style(escape(each.id), bold=True)
            rows.append([name, count, format_time(last.time), first_line(last)])
    lines = table(rows) or [f"No {scope} has a commit yet."]
    output(options, lambda: {f"{scope}s": found}, lines)
