"""Edits: `set`, `rm` and `restore` stage them, `commit` makes them part of history.

Going back and forth: `rollback` by a new commit, `undo` and `redo` by moving the branch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from otolith.agent import Entry, effects_after, ledger_in
from otolith.cli.format.history import counted, first_line, oneline, summary
from otolith.cli.format.values import from_json, one_line
from otolith.cli.location import OpenBranch, at_hand
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import safe
from otolith.core import Branch, Commit
from otolith.errors import BadValue, MergeConflict, StaleRef, Uncommitted


@click.command("set", context_settings={"ignore_unknown_options": True})  # -5 is a value
@click.argument("path")
@click.argument("value")
@click.option(
    "--type",
    "kind",
    type=click.Choice(["auto", "json", "str"]),
    default="auto",
    show_default=True,
    help="auto: JSON if it is JSON, else text.",
)
@click.pass_obj
def set_value(asked: GlobalOptions, path: str, value: str, kind: str) -> None:
    """Stage VALUE at PATH; `-` reads it from standard input.

    Examples: `otolith set budget 500`, `otolith set plan/steps '["search", "book"]'`.
    """
    text = sys.stdin.read() if value == "-" else value
    parsed = _parsed(text, kind)
    _stage(asked, lambda branch: branch.__setitem__(path, parsed))


def _parsed(text: str, kind: str) -> object:
    if kind == "str":
        return text
    try:
        read = json.loads(text)
    except RecursionError:
        raise BadValue("this JSON is too deep", hint="keep parts of it under paths") from None
    except ValueError as error:
        if kind == "json":
            raise BadValue(f"this is not JSON: {error}", hint="quote it, or --type str") from None
        return text
    return from_json(read)


@click.command("rm")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.pass_obj
def rm(asked: GlobalOptions, paths: tuple[str, ...]) -> None:
    """Stage the removal of what is at PATH."""

    def remove(branch: Branch) -> None:
        for path in paths:
            del branch[path]

    _stage(asked, remove)


def _stage(asked: GlobalOptions, edit: Callable[[Branch], object]) -> None:
    """Edit the staged state and put it away; again if another terminal did so meanwhile."""
    while True:
        with at_hand(asked) as desk:
            edit(desk.branch)
            try:
                desk.branch.stash()
            except StaleRef:
                continue
            return


@click.command("restore")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--all", "everything", is_flag=True, help="Drop all staged edits.")
@click.pass_obj
def restore(asked: GlobalOptions, paths: tuple[str, ...], everything: bool) -> None:
    """Drop staged edits: at PATH, or all of them (and a merge in progress)."""
    if bool(paths) == everything:
        raise click.UsageError("name paths, or say --all")

    def put_back(branch: Branch) -> None:
        if everything:
            branch.discard()
        for path in paths:
            _put_back(branch, path)

    _stage(asked, put_back)


def _put_back(branch: Branch, path: str) -> None:
    before = branch.at("@") if branch.head is not None else {}
    if path in before:
        branch[path] = before[path]
    elif path in branch:
        del branch[path]


@click.command("commit")
@click.option("-m", "--message", metavar="TEXT", help="What was done, and why.")
@click.option("--author", metavar="NAME", help="Who did it.  [default: the user]")
@click.option("--allow-empty", is_flag=True, help="Commit even without staged edits.")
@click.pass_obj
def commit(
    asked: GlobalOptions, message: str | None, author: str | None, allow_empty: bool
) -> None:
    """Make the staged edits part of history, all at once.

    If the branch moved on meanwhile, the edits are merged into what is there now.
    """
    with at_hand(asked) as desk:
        if desk.branch.is_clean and not allow_empty:
            click.echo("Nothing to commit: there are no staged edits.")
            return
        landed(desk, message, author, allow_empty=allow_empty)


def landed(
    desk: OpenBranch, message: str | None, author: str | None, *, allow_empty: bool = False
) -> Commit:
    """Commit what is staged, and say so."""
    merging = desk.branch.merging
    if message is None and merging is None:
        raise click.UsageError("a commit needs a message: -m TEXT")
    text = message if message is not None or merging is None else f"merge {_name(desk, merging)}"
    changes = desk.branch.status()
    try:
        made = desk.branch.commit(text or "", author=author, allow_empty=allow_empty)
    except MergeConflict:
        desk.branch.stash()
        raise
    where = click.style(f"[{desk.branch.name} {made.short}]", fg="yellow")
    click.echo(f"{where} {first_line(made)}")
    click.echo(f" {counted(len(changes), 'path')}: {summary(changes)}")
    return made


def _name(desk: OpenBranch, commit: Commit) -> str:
    heads = desk.repo.branches(desk.branch.session)
    return next((name for name, head in heads.items() if head == commit), commit.short)


@click.command("rollback")
@click.argument("ref", required=False)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go N commits back.")
@click.option("--force", is_flag=True, help="Drop staged edits.")
@click.pass_obj
def rollback(asked: GlobalOptions, ref: str | None, steps: int | None, force: bool) -> None:
    """Make the state what it was at REF, by a new commit. History stays.

    What tools of an agent have done to the world since stays done, and is listed.
    """
    if (ref is None) == (steps is None):
        raise click.UsageError("name a commit, or say --steps N")
    with at_hand(asked) as desk:
        goal = desk.commit(ref if ref is not None else f"@~{steps}")
        if not desk.branch.is_clean and not force:
            raise Uncommitted(f"rollback: there are staged edits on {desk.branch.name}")
        left = effects_after(desk.branch, goal)
        made = desk.branch.rollback(goal)
        click.echo(f"{desk.branch.name} is at {oneline(made, {})}")
        _tell(left)
        click.echo("`otolith undo` takes it back.")


@click.command("undo")
@click.pass_obj
def undo(asked: GlobalOptions) -> None:
    """Take back the last commit, merge or rollback. Twice goes two back; `redo` forward again."""
    with at_hand(asked) as desk:
        before = desk.head()
        now = desk.branch.undo()
        click.echo(f"{desk.branch.name} was at {oneline(before, {})}")
        click.echo(f"{desk.branch.name} is at  {oneline(now, {})}")
        _tell(_undone(desk, before, now))
        click.echo("`otolith redo` goes forward again.")


@click.command("redo")
@click.pass_obj
def redo(asked: GlobalOptions) -> None:
    """Take back the last undo."""
    with at_hand(asked) as desk:
        now = desk.branch.redo()
        click.echo(f"{desk.branch.name} is at {oneline(now, {})}")


def _undone(desk: OpenBranch, before: Commit, now: Commit) -> list[Entry]:
    """Return the effects that an earlier state does not know of."""
    known = {entry.key for entry in ledger_in(desk.repo.at(now))}
    past = ledger_in(desk.repo.at(before))
    return [entry for entry in past if entry.may_have_happened and entry.key not in known]


def _tell(left: list[Entry]) -> None:
    """List effects that going back does not take back."""
    if left:
        click.echo("What was done outside stays done:")
    for entry in left:
        sign = "" if entry.status == "done" else f"  ({entry.status}: it may have happened)"
        click.echo(safe(f"  {entry.tool} {one_line(dict(entry.arguments))}{sign}"))
