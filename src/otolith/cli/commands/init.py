"""`init` makes a store and remembers where it is; `help` lists the commands."""

from __future__ import annotations

import click

from otolith.cli.location import FILE, FOLDER, STORE, StoreLocation, opened, save
from otolith.cli.options import GlobalOptions
from otolith.core import BareRepo
from otolith.errors import Exists, Invalid


@click.command("init")
@click.argument("url", required=False, metavar="[URL]")
@click.option(
    "-s", "--session", metavar="ID", help="The session to begin with.  [default: default]"
)
@click.pass_obj
def init(asked: GlobalOptions, url: str | None, session: str | None) -> None:
    """Make a store in this directory.

    Without URL it is a file inside `.otolith`. With URL (a path, or sqlite:///…) it is there: one
    that exists already is used as it is.
    """
    root = asked.directory.resolve()
    store = url or asked.store or STORE
    if (root / FOLDER / FILE).exists():
        raise Exists(
            f"{root / FOLDER} is already there", hint="`otolith status` shows what it holds"
        )
    if store.startswith("memory:"):
        raise Invalid("a store in memory is gone when this command ends", hint="give a path")
    place = StoreLocation(store, session or asked.session, asked.branch or "main", root)
    if store == STORE:
        (root / FOLDER).mkdir(exist_ok=True)
    with opened(place.url, create=True) as repo:
        place = StoreLocation(store, place.session or _first(repo), place.branch, root)
    save(place)
    (root / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    click.echo(f"Store at {place.url}; session {place.session}, branch {place.branch}.")
    click.echo("Next: otolith set greeting hello, then otolith commit -m first")


def _first(repo: BareRepo) -> str:
    """Return the session of a store that has one already."""
    ids = [session.id for session in repo.sessions()]
    return ids[0] if len(ids) == 1 else "default"


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def help(ctx: click.Context, verb: str | None) -> None:
    """Show what there is, or the help of one verb."""
    parent = ctx.parent
    assert parent is not None
    group = parent.command
    assert isinstance(group, click.Group)
    if verb is None:
        click.echo(parent.get_help())
        return
    name, command, _ = group.resolve_command(parent, [verb])
    assert command is not None
    with click.Context(command, info_name=name, parent=parent) as below:
        click.echo(command.get_help(below))
