"""`demo`: the whole story on a store of its own, with real processes and a real kill.

Beginning: `init` makes a store and remembers it, `help` says what there is.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from otolith.cli.demo.job import SESSION
from otolith.cli.demo.story import Teller, tell
from otolith.cli.location import FILE, FOLDER, STORE, StoreLocation, opened, save
from otolith.cli.options import GlobalOptions
from otolith.core import Repo
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


def _first(repo: Repo) -> str:
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


_PAUSE_SECONDS = 1.2


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Keep the store in this directory, to look around.")
@click.option("--fast", is_flag=True, help="No pauses.")
@click.pass_context
def demo(ctx: click.Context, keep: str | None, fast: bool) -> None:
    """Watch an agent work, die, go on, branch and merge: about twenty seconds."""
    asked: GlobalOptions = ctx.obj
    teller = Teller(pause_seconds=0.0 if fast else _PAUSE_SECONDS)
    began = time.monotonic()
    with _root(asked, keep) as root:
        place = _prepared(root)
        click.echo(click.style("otolith: version control for what an agent knows", bold=True))
        click.echo(f"Everything below happens now, in {place.url}")
        tell(place.url, teller)
    _close(teller, time.monotonic() - began, keep)
    ctx.exit(1 if teller.failed else 0)


@contextmanager
def _root(asked: GlobalOptions, keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="otolith-demo-") as scratch:
            yield Path(scratch)
        return
    root = asked.directory / keep
    if (root / FOLDER).exists():
        raise Exists(f"{root / FOLDER} is already there", hint="choose another directory")
    root.mkdir(parents=True, exist_ok=True)
    yield root.resolve()


def _prepared(root: Path) -> StoreLocation:
    place = StoreLocation(STORE, SESSION, "main", root)
    save(place)
    with opened(place.url, create=True):
        return place


def _close(teller: Teller, seconds: float, keep: str | None) -> None:
    total = teller.held + len(teller.failed)
    color = "red" if teller.failed else "green"
    verdict = click.style(f"{teller.held} of {total} checks held", fg=color, bold=True)
    click.echo(f"\n{verdict}, in {seconds:.1f} seconds.")
    if keep is None:
        click.echo("Keep it and look around:  otolith demo --keep trip")
        return
    click.echo(f"\nLook around:  cd {keep}")
    for line in (
        "otolith log --graph --oneline",
        "otolith show main~3",
        "otolith diff main~20 main --stat",
        "otolith blame",
        "otolith cat main~10:events",
        "otolith -s booking chat show",
        "otolith checkout -b mine && otolith set hotel tent && otolith commit -m camping",
    ):
        click.echo(f"  {click.style(line, fg='cyan')}")
