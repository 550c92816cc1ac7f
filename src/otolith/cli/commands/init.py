"""`demo`: the whole story on a store of its own, with real processes and a real kill."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from otolith.cli.asked import Asked
from otolith.cli.place import FOLDER, STORE, Place, opened, save
from otolith.cli.story.job import SESSION
from otolith.cli.story.plot import tell
from otolith.cli.story.teller import Teller
from otolith.errors import Exists

_PAUSE_SECONDS = 1.2


@click.command("demo")
@click.option("--keep", metavar="DIR", help="Keep the store in this directory, to look around.")
@click.option("--fast", is_flag=True, help="No pauses.")
@click.pass_context
def demo(ctx: click.Context, keep: str | None, fast: bool) -> None:
    """Watch an agent work, die, go on, branch and merge: about twenty seconds."""
    asked: Asked = ctx.obj
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
def _root(asked: Asked, keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="otolith-demo-") as scratch:
            yield Path(scratch)
        return
    root = asked.directory / keep
    if (root / FOLDER).exists():
        raise Exists(f"{root / FOLDER} is already there", hint="choose another directory")
    root.mkdir(parents=True, exist_ok=True)
    yield root.resolve()


def _prepared(root: Path) -> Place:
    place = Place(STORE, SESSION, "main", root)
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
