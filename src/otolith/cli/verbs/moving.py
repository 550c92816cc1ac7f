"""Going back and forth: `rollback` by a new commit, `undo` and `redo` by moving the branch."""

from __future__ import annotations

import click

from otolith.agent import Entry, effects_after, ledger_in
from otolith.cli.asked import Asked
from otolith.cli.place import Desk, at_hand
from otolith.cli.safety import safe
from otolith.cli.screen.values import one_line
from otolith.cli.screen.words import oneline
from otolith.core import Commit
from otolith.errors import Uncommitted


@click.command("rollback")
@click.argument("ref", required=False)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go N commits back.")
@click.option("--force", is_flag=True, help="Drop staged edits.")
@click.pass_obj
def rollback(asked: Asked, ref: str | None, steps: int | None, force: bool) -> None:
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
def undo(asked: Asked) -> None:
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
def redo(asked: Asked) -> None:
    """Take back the last undo."""
    with at_hand(asked) as desk:
        now = desk.branch.redo()
        click.echo(f"{desk.branch.name} is at {oneline(now, {})}")


def _undone(desk: Desk, before: Commit, now: Commit) -> list[Entry]:
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
