"""`init` makes a store and remembers where it is; `help` lists the commands.

`init` writes `.otolith/place.json`, the store if there is none at that address, and a `.gitignore`,
because a store does not belong into a git repository. It refuses a directory that has a store
already, a store in memory, which would be gone when the command ends, and a URL with a password,
which would be stored. Where the store was deleted, or `place.json` cannot be read, it makes what is
missing, and leaves the rest.
"""

from __future__ import annotations

from pathlib import Path

import click

from otolith.cli.location import FILE, FOLDER, STORE, StoreLocation, load, open_repo, save
from otolith.cli.options import GlobalOptions
from otolith.errors import Corrupt, Exists, Invalid, StoreNotFound
from otolith.stores import without_secrets


@click.command("init")
@click.argument("url", required=False, metavar="[URL]")
@click.option(
    "-s", "--session", metavar="ID", help="The session to begin with.  [default: default]"
)
@click.pass_obj
def init(options: GlobalOptions, url: str | None, session: str | None) -> None:
    """Make a store in this directory.

    Without URL it is a file inside `.otolith`. URL is a path, sqlite:///…, or a server such as
    postgresql://…; a store that exists there is used. A password in the URL is refused, because it
    would be stored.
    """
    root = options.directory.resolve()
    store = url or options.store or STORE
    if _has_store(root):
        raise Exists(f"{root / FOLDER} already exists", hint="`otolith status` shows its state")
    if store.startswith("memory:"):
        raise Invalid("a store in memory ends with this command", hint="give a path")
    if without_secrets(store) != store:
        raise Invalid(
            f"{without_secrets(store)}: a password would be stored in {FOLDER}",
            hint="leave it out, and give it by PGPASSWORD, ~/.pgpass or another setting of the "
            "client; or make the store in Python, and name it by $OTOLITH_STORE",
        )
    location = StoreLocation(store, session or options.session, options.branch or "main", root)
    if store == STORE:
        (root / FOLDER).mkdir(exist_ok=True)
    with open_repo(location.url, create=True) as repo:
        ids = [each.id for each in repo.sessions()]
        first = ids[0] if len(ids) == 1 else "default"
        location = StoreLocation(store, location.session or first, location.branch, root)
    save(location)
    (root / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    click.echo(f"Store at {location.url}; session {location.session}, branch {location.branch}.")
    click.echo("Next: otolith set greeting hello, then otolith commit -m first")


def _has_store(root: Path) -> bool:
    """Tell whether a directory has a place, and the store that it names, sound or not."""
    if not (root / FOLDER / FILE).exists():
        return False
    try:
        url = load(root).url
    except Corrupt:
        return False
    try:
        with open_repo(url, read_only=True):
            return True
    except StoreNotFound:
        return False
    except Corrupt:
        return True


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def help(ctx: click.Context, verb: str | None) -> None:
    """List the commands, or show the help of one."""
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
