"""Edits: `set`, `rm` and `restore` stage them, `commit` makes them part of history."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from otolith.cli.asked import Asked
from otolith.cli.place import Desk, at_hand
from otolith.cli.screen.values import from_json
from otolith.cli.screen.words import counted, first_line, summary
from otolith.core import Branch, Commit
from otolith.errors import BadValue, MergeConflict, StaleRef


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
def set_value(asked: Asked, path: str, value: str, kind: str) -> None:
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
def rm(asked: Asked, paths: tuple[str, ...]) -> None:
    """Stage the removal of what is at PATH."""

    def remove(branch: Branch) -> None:
        for path in paths:
            del branch[path]

    _stage(asked, remove)


def _stage(asked: Asked, edit: Callable[[Branch], object]) -> None:
    """Edit the staged state and put it away; again if another terminal did so meanwhile."""
    while True:
        with at_hand(asked) as desk:
            edit(desk.branch)
            try:
                desk.branch.shelve()
            except StaleRef:
                continue
            return


@click.command("restore")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--all", "everything", is_flag=True, help="Drop all staged edits.")
@click.pass_obj
def restore(asked: Asked, paths: tuple[str, ...], everything: bool) -> None:
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
def commit(asked: Asked, message: str | None, author: str | None, allow_empty: bool) -> None:
    """Make the staged edits part of history, all at once.

    If the branch moved on meanwhile, the edits are merged into what is there now.
    """
    with at_hand(asked) as desk:
        if desk.branch.is_clean and not allow_empty:
            click.echo("Nothing to commit: there are no staged edits.")
            return
        landed(desk, message, author, allow_empty=allow_empty)


def landed(
    desk: Desk, message: str | None, author: str | None, *, allow_empty: bool = False
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
        desk.branch.shelve()
        raise
    where = click.style(f"[{desk.branch.name} {made.short}]", fg="yellow")
    click.echo(f"{where} {first_line(made)}")
    click.echo(f" {counted(len(changes), 'path')}: {summary(changes)}")
    return made


def _name(desk: Desk, commit: Commit) -> str:
    heads = desk.repo.branches(desk.branch.session)
    return next((name for name, head in heads.items() if head == commit), commit.short)
