"""Changes: `set`, `rm`, `restore` and `commit`; `rollback`, `undo` and `redo` of commits.

Between two commands the staged edits of a branch are stashed in the store. Two terminals may
stage at the same time: a stash that another terminal has replaced is loaded and edited again.

History only grows, and no command here deletes a commit. `rollback` adds a commit with an earlier
state. `undo` and `redo` move the branch to a commit it was at before. Neither can take back what
tools did outside the store, so those effects are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from otolith.agent import LedgerEntry, effects_after, ledger_in
from otolith.cli.format.history import first_line, oneline, summary
from otolith.cli.format.state_difference import StateDifference
from otolith.cli.format.values import one_line, parse_value
from otolith.cli.location import OpenBranch, open_current
from otolith.cli.options import GlobalOptions, SessionCommand
from otolith.cli.terminal import escape
from otolith.core import Branch, Commit
from otolith.errors import MergeConflict, StaleRef


@click.command(
    "set", cls=SessionCommand, context_settings={"ignore_unknown_options": True}
)  # -5 is a value
@click.argument("path")
@click.argument("value")
@click.option(
    "--type", "kind", type=click.Choice(["auto", "json", "str"]), default="auto",
    show_default=True, help="auto: JSON if it is valid JSON, else text.",
)  # fmt: skip
@click.pass_obj
def set_value(options: GlobalOptions, path: str, value: str, kind: str) -> None:
    """Stage VALUE at PATH; `-` reads it from standard input.

    Examples: `otolith set budget 500`, `otolith set plan/steps '["search", "book"]'`.
    """
    parsed = parse_value(value, kind)
    _stage(options, lambda branch: branch.__setitem__(path, parsed))


@click.command("rm", cls=SessionCommand)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.pass_obj
def rm(options: GlobalOptions, paths: tuple[str, ...]) -> None:
    """Stage the removal of the value at PATH."""

    def remove(branch: Branch) -> None:
        """Delete each path; the first that is absent refuses all."""
        for path in paths:
            del branch[path]

    _stage(options, remove)


def _stage(options: GlobalOptions, edit: Callable[[Branch], object]) -> None:
    """Edit the staged state and stash it; repeat if another terminal stashed concurrently."""
    while True:
        with open_current(options) as current:
            edit(current.branch)
            try:
                current.branch.stash()
            except StaleRef:
                continue
            return


@click.command("restore", cls=SessionCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--all", "everything", is_flag=True, help="Discard all staged edits.")
@click.pass_obj
def restore(options: GlobalOptions, paths: tuple[str, ...], everything: bool) -> None:
    """Discard staged edits: at PATH, or all of them (and a merge in progress)."""
    if bool(paths) == everything:
        raise click.UsageError("name paths, or use --all")

    def discard(branch: Branch) -> None:
        """Set each path to its committed value, or delete it if it has none."""
        if everything:
            branch.discard()
            return
        before = branch.at("@") if branch.head is not None else {}
        for path in paths:
            if path in before:
                branch[path] = before[path]
            elif path in branch:
                del branch[path]

    _stage(options, discard)


@click.command("commit", cls=SessionCommand)
@click.option("-m", "--message", metavar="TEXT", help="What was done, and why.")
@click.option("--author", metavar="NAME", help="Who did it.  [default: the user]")
@click.option("--allow-empty", is_flag=True, help="Commit even without staged edits.")
@click.pass_obj
def commit(
    options: GlobalOptions, message: str | None, author: str | None, allow_empty: bool
) -> None:
    """Commit the staged edits, atomically.

    If others committed to the branch since, the changes are merged into their state.
    """
    with open_current(options) as current:
        if current.branch.is_clean and not allow_empty:
            click.echo("Nothing to commit: no staged edits.")
            return
        commit_staged(current, message, author, allow_empty=allow_empty)


def commit_staged(
    current: OpenBranch, message: str | None, author: str | None, *, allow_empty: bool = False
) -> Commit:
    """Commit the staged edits of the current branch, and print the commit.

    Raises:
        UsageError: there is no message, and no merge to name it after.
        MergeConflict: conflicts are left; the changes stay staged.
    """
    current.check_author(author)
    merging = current.branch.merging
    if message is None and merging is None:
        raise click.UsageError("a commit needs a message: -m TEXT")
    if message is None and merging is not None:
        heads = current.heads()
        merged = next((name for name, head in heads.items() if head == merging), merging.short)
        message = f"merge {merged}"
    staged = StateDifference.of(current.branch.status())
    try:
        made = current.branch.commit(message or "", author=author, allow_empty=allow_empty)
    except MergeConflict:
        current.branch.stash()
        raise
    where = click.style(f"[{current.branch.name} {made.short}]", fg="yellow")
    click.echo(f"{where} {first_line(made)}")
    how = "" if any(staged[1:]) else f": {summary(staged.changes)}"
    click.echo(f" {staged.total()}{how}")
    return made


@click.command("rollback", cls=SessionCommand)
@click.argument("ref", required=False)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go N commits back.")
@click.option("--force", is_flag=True, help="Discard staged edits.")
@click.pass_obj
def rollback(options: GlobalOptions, ref: str | None, steps: int | None, force: bool) -> None:
    """Restore the state of REF, as a new commit. History stays.

    Effects of tools outside the store cannot be undone; those since REF are listed.
    """
    if (ref is None) == (steps is None):
        raise click.UsageError("name a commit, or use --steps N")
    with open_current(options) as current:
        target = current.branch.earlier(steps or 1) if ref is None else current.commit(ref)
        remaining = effects_after(current.branch, target)
        made = current.branch.rollback(target, discard=force)
        click.echo(f"{current.branch.name} is at {oneline(made)}")
        _print_remaining_effects(remaining)
        click.echo("`otolith undo` reverts this.")


@click.command("undo", cls=SessionCommand)
@click.pass_obj
def undo(options: GlobalOptions) -> None:
    """Undo the last commit, merge or rollback. Twice goes two back; `redo` goes forward."""
    with open_current(options) as current:
        before = current.head()
        now = current.branch.undo()
        click.echo(f"{current.branch.name} was at {oneline(before)}")
        click.echo(f"{current.branch.name} is at  {oneline(now)}")
        known = {entry.key for entry in ledger_in(current.repo.at(now))}
        entries = ledger_in(current.repo.at(before))
        _print_remaining_effects(
            [entry for entry in entries if entry.may_have_happened and entry.key not in known]
        )
        click.echo("`otolith redo` goes forward again.")


@click.command("redo", cls=SessionCommand)
@click.pass_obj
def redo(options: GlobalOptions) -> None:
    """Redo the last undo."""
    with open_current(options) as current:
        now = current.branch.redo()
        click.echo(f"{current.branch.name} is at {oneline(now)}")


def _print_remaining_effects(entries: Sequence[LedgerEntry]) -> None:
    """List effects of tools that going back does not undo."""
    if entries:
        click.echo("These effects outside the store remain:")
    for entry in entries:
        doubt = "" if entry.status == "done" else f"  ({entry.status}: it may have happened)"
        click.echo(escape(f"  {entry.tool} {one_line(dict(entry.arguments))}{doubt}"))
