"""Where one stands: `status` for the branch at hand, `sessions` for the whole store."""

from __future__ import annotations

from collections.abc import Iterator

import click

from otolith.cli.format.history import (
    change_json,
    changes_text,
    commit_json,
    conflict_json,
    conflict_lines,
    counted,
    first_line,
    moment,
    oneline,
)
from otolith.cli.location import OpenBranch, at_hand, find, opened
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, json_option, page, safe, table


@click.command("status")
@json_option
@click.pass_obj
def status(asked: GlobalOptions, as_json: bool) -> None:
    """Show the branch at hand, its staged edits, and conflicts to decide."""
    with at_hand(asked, read_only=True) as desk:
        if as_json:
            emit(_status_json(desk))
        else:
            page(_status_lines(desk), asked)


def _status_json(desk: OpenBranch) -> dict[str, object]:
    branch = desk.branch
    return {
        "store": desk.place.url,
        "session": branch.session,
        "branch": branch.name,
        "head": commit_json(branch.head) if branch.head else None,
        "merging": commit_json(branch.merging) if branch.merging else None,
        "clean": branch.is_clean,
        "changes": [change_json(change) for change in branch.status()],
        "conflicts": [conflict_json(conflict) for conflict in branch.conflicts],
    }


def _status_lines(desk: OpenBranch) -> Iterator[str]:
    branch = desk.branch
    yield f"Session {click.style(safe(branch.session), bold=True)}, branch " + click.style(
        safe(branch.name), fg="green", bold=True
    )
    yield f"Head    {oneline(branch.head, {})}" if branch.head else "No commit yet."
    now = desk.repo.branches(branch.session).get(branch.name)
    if now is not None and now != branch.head:
        yield f"Moved   {oneline(now, {})}"
        yield "        Others have committed; `otolith commit` merges what is staged into that."
    if branch.merging is not None:
        yield f"Merging {oneline(branch.merging, {})}"
    yield ""
    yield from _conflicts(desk)
    changes = branch.status()
    if changes:
        yield f"Staged: {counted(len(changes), 'path')}"
        yield from changes_text(changes)
        yield ""
    yield _next_move(desk, staged=bool(changes))


def _conflicts(desk: OpenBranch) -> Iterator[str]:
    conflicts = desk.branch.conflicts
    if not conflicts:
        return
    yield click.style(f"To decide: {counted(len(conflicts), 'conflict')}", fg="red", bold=True)
    for conflict in conflicts:
        yield from conflict_lines(conflict)
    yield ""


def _next_move(desk: OpenBranch, *, staged: bool) -> str:
    if desk.branch.conflicts:
        return (
            "Decide each with `otolith set PATH VALUE` or `otolith merge --take ours|theirs PATH`; "
            "`otolith merge --abort` drops the merge."
        )
    if desk.branch.merging is not None:
        return "All decided: `otolith merge --continue` finishes the merge."
    if staged:
        return "`otolith commit -m …` keeps them, `otolith restore --all` drops them."
    return "Nothing staged: `otolith set PATH VALUE` stages an edit."


@click.command("sessions")
@json_option
@click.pass_obj
def sessions(asked: GlobalOptions, as_json: bool) -> None:
    """List the sessions of the store, with their branches and last commit."""
    place = find(asked)
    with opened(place.url, read_only=True) as repo:
        found = []
        for session in repo.sessions():
            heads = repo.branches(session.id)
            found.append((session, max(heads.values(), key=lambda commit: commit.time)))
    if as_json:
        entries = (
            {"id": session.id, "branches": list(session.branches), "last": commit_json(last)}
            for session, last in found
        )
        emit({"sessions": list(entries)})
        return
    rows = [
        [
            click.style(safe(session.id), bold=True),
            counted(len(session.branches), "branch", "branches"),
            moment(last.time),
            first_line(last),
        ]
        for session, last in found
    ]
    page(table(rows) or ["No session has a commit yet."], asked)
