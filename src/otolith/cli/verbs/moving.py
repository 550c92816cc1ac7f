"""Going back and forth: `rollback` by a new commit, `undo` and `redo` by moving the branch."""

from __future__ import annotations

import click

from otolith.cli.asked import Asked
from otolith.cli.place import at_hand
from otolith.cli.screen.words import oneline
from otolith.errors import Uncommitted


@click.command("rollback")
@click.argument("ref", required=False)
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Go N commits back.")
@click.option("--force", is_flag=True, help="Drop staged edits.")
@click.pass_obj
def rollback(asked: Asked, ref: str | None, steps: int | None, force: bool) -> None:
    """Make the state what it was at REF, by a new commit. History stays."""
    if (ref is None) == (steps is None):
        raise click.UsageError("name a commit, or say --steps N")
    with at_hand(asked) as desk:
        goal = desk.commit(ref if ref is not None else f"@~{steps}")
        if not desk.branch.is_clean and not force:
            raise Uncommitted(f"rollback: there are staged edits on {desk.branch.name}")
        made = desk.branch.rollback(goal)
        click.echo(f"{desk.branch.name} is at {oneline(made, {})}")
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
        click.echo("`otolith redo` goes forward again.")


@click.command("redo")
@click.pass_obj
def redo(asked: Asked) -> None:
    """Take back the last undo."""
    with at_hand(asked) as desk:
        now = desk.branch.redo()
        click.echo(f"{desk.branch.name} is at {oneline(now, {})}")
