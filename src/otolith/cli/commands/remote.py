"""Copies of a store elsewhere: `clone`, `push`, `pull`, `fetch`, `mirror`, and `remote` names them.

REMOTE is a name that `remote add` has given, a path or a URL; `origin` if it is left out, which
`clone` has made. All of them work on the whole store; `--only` limits them to some refs, and `-s`
to the branches of one session.

JSON:

    clone, push, pull, fetch, mirror    commits, objects, bytes, refs (name, kind, old, new)
    remote list                         remotes (name -> url)
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import click
from click.core import ParameterSource

from otolith import care
from otolith.cli.errors import ExitCode, terminal_error
from otolith.cli.format.history import plural
from otolith.cli.location import (
    FILE,
    FOLDER,
    STORE,
    StoreLocation,
    absolute_url,
    find,
    open_repo,
    save,
)
from otolith.cli.options import GlobalOptions, json_option
from otolith.cli.terminal import end_progress, escape, output, progress_line
from otolith.core import split_ref
from otolith.errors import Exists, Invalid, RefNotFound
from otolith.session import Repo
from otolith.stores import open_store, scheme_of, without_secrets
from otolith.text import size_text
from otolith.types import Hash

ORIGIN = "origin"

_remote = click.argument("remote", required=False, metavar="[REMOTE]")
_only = click.option(
    "--only", multiple=True, metavar="PATTERN", help="Only refs that match, such as session/trip/*."
)


@click.command("clone")
@click.argument("url")
@click.argument("directory", required=False)
@json_option
@click.pass_context
def clone(ctx: click.Context, url: str, directory: str | None) -> None:
    """Copy a whole store into a new directory, and remember where it came from.

    URL is a path or the URL of any store. DIRECTORY is named after it if left out; a URL there
    (postgresql://…, sqlite:copy.db) copies into that store, and makes no directory. A clone that
    was interrupted continues when it is repeated.
    """
    options: GlobalOptions = ctx.obj
    source = absolute_url(options.directory, url)
    is_given = ctx.find_root().get_parameter_source("store") is ParameterSource.COMMANDLINE
    if is_given and absolute_url(options.directory, options.store or "") != source:
        raise click.UsageError(
            "--store names another store than the one to clone\n"
            "name both stores: otolith clone URL DIRECTORY"
        )
    if directory is not None and scheme_of(directory):
        _clone_into_store(options, source, absolute_url(options.directory, directory))
    else:
        _clone_into_directory(options, source, Path(directory or _name_of(source)))


def _clone_into_store(options: GlobalOptions, source: str, target: str) -> None:
    """Copy a store into another one that a URL names, which no directory is to remember."""
    if scheme_of(target) == "memory":
        raise Invalid("a store in memory ends with this command", hint="give a path")
    with open_repo(source, read_only=True) as repo:
        report = care.clone(repo, target, origin=source, progress=progress_line())
    shown = without_secrets(target)
    _show(options, report, f"Cloned {without_secrets(source)} into {shown}")
    if not options.as_json:
        click.echo(f"Next: otolith --store {shlex.quote(shown)} sessions")


def _clone_into_directory(options: GlobalOptions, source: str, directory: Path) -> None:
    """Copy a store into a directory, where the commands that follow find it."""
    root = options.directory.resolve() / directory
    target = StoreLocation(STORE, None, "main", root)
    if (root / FOLDER / FILE).exists():
        raise Exists(f"{root / FOLDER} already exists", hint="`otolith pull` fetches what is new")
    with open_repo(source, read_only=True) as repo:  # before anything is made for it
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        store = open_store(target.url)
        try:
            report = care.clone(repo, store, origin=source, progress=progress_line())
        finally:
            store.close()
        ids = [each.id for each in repo.sessions()]
    end_progress()
    session = ids[0] if len(ids) == 1 else "default"
    save(StoreLocation(STORE, session, "main", root))
    (root / FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    _show(options, report, f"Cloned {without_secrets(source)} into {root}")
    if without_secrets(source) != source:
        click.echo(_no_origin(source, directory), err=True)


@click.command("push")
@_remote
@_only
@click.option("--force", is_flag=True, help="Drop commits of others from the branches there.")
@json_option
@click.pass_obj
def push(options: GlobalOptions, remote: str | None, only: tuple[str, ...], force: bool) -> None:
    """Copy branches and tags to another store.

    It is refused if that would drop commits of others; then nothing is moved. `otolith pull` first.
    """
    with open_repo(find(options).url) as repo:
        place, name = _place(options, repo, remote)
        report = care.push(
            repo, place, only=_patterns(options, only), force=force, progress=progress_line()
        )
    _show(options, report, f"Pushed to {escape(name)}")


@click.command("pull")
@_remote
@_only
@json_option
@click.pass_context
def pull(ctx: click.Context, remote: str | None, only: tuple[str, ...]) -> None:
    """Fetch from another store, and merge what came. Exits with 1 if there are conflicts.

    A branch with conflicts is left as it is: `otolith merge remote/NAME/session/ID/BRANCH` merges
    what was fetched. Those of a team go to its inbox by `otolith team merge remote/NAME/team/…`.
    """
    options: GlobalOptions = ctx.obj
    with open_repo(find(options).url) as repo:
        place, name = _place(options, repo, remote)
        label = care.remote_label(repo, place)
        report = care.pull(
            repo, place, name=label, only=_patterns(options, only), progress=progress_line()
        )
    _show(options, report, f"Pulled from {escape(name)}")
    if not options.as_json:
        for each in report.conflicts:
            words = [*_merge_words(each.name), f"remote/{label}/{each.name}"]
            click.echo(f"`otolith {escape(shlex.join(words))}` shows the conflicts.")
    ctx.exit(ExitCode.FAILED if report.conflicts else ExitCode.OK)


@click.command("fetch")
@_remote
@_only
@json_option
@click.pass_obj
def fetch(options: GlobalOptions, remote: str | None, only: tuple[str, ...]) -> None:
    """Copy the branches of another store to refs under `remote/`, without merging them."""
    with open_repo(find(options).url) as repo:
        place, name = _place(options, repo, remote)
        report = care.fetch(repo, place, only=_patterns(options, only), progress=progress_line())
    _show(options, report, f"Fetched from {escape(name)}")


@click.command("mirror")
@_remote
@click.option("--force", is_flag=True, help="Drop commits that were made on the mirror.")
@json_option
@click.pass_obj
def mirror(options: GlobalOptions, remote: str | None, force: bool) -> None:
    """Make another store an exact copy of this one: all refs, and no others."""
    with open_repo(find(options).url) as repo:
        place, name = _place(options, repo, remote)
        report = care.mirror(repo, place, force=force, progress=progress_line())
    _show(options, report, f"Mirrored to {escape(name)}")


@click.group("remote")
def remote() -> None:
    """Name the copies of this store: `remote add NAME URL`, `remote list`, `remote remove NAME`."""


@remote.command("add")
@click.argument("name")
@click.argument("url")
@click.pass_obj
def add_remote(options: GlobalOptions, name: str, url: str) -> None:
    """Give a path or URL a name. A password in the URL is refused: it would be stored."""
    with open_repo(find(options).url) as repo:
        repo.remotes.add(name, absolute_url(options.directory, url))
    click.echo(f"Added remote {escape(name)}. Next: otolith push {escape(name)}")


@remote.command("list")
@json_option
@click.pass_obj
def list_remotes(options: GlobalOptions) -> None:
    """List the names and their URLs."""
    with open_repo(find(options).url, read_only=True) as repo:
        remotes = repo.remotes.list()
    lines = [f"{escape(name)}  {escape(url)}" for name, url in remotes.items()]
    output(
        options, lambda: {"remotes": remotes}, lines or ["No remotes: otolith remote add NAME URL"]
    )


@remote.command("remove")
@click.argument("name")
@click.pass_obj
def remove_remote(options: GlobalOptions, name: str) -> None:
    """Forget a name, and the branches that were fetched from there."""
    with open_repo(find(options).url) as repo:
        repo.remotes.remove(name)
    click.echo(f"Removed remote {escape(name)}.")


def _place(options: GlobalOptions, repo: Repo, given: str | None) -> tuple[str, str]:
    """Return the URL of a remote, and its name.

    Raises:
        RefNotFound: none was given, and there is no `origin`; or there is none of this name.
    """
    remotes = repo.remotes.list()
    name = given or ORIGIN
    if name in remotes:
        return remotes[name], name
    if given is None:
        raise terminal_error(
            RefNotFound,
            "there is no remote origin",
            "name a store: a path, a URL, or what `otolith remote add NAME URL` has named",
        )
    if given.isidentifier() and not (options.directory / given).exists():
        raise terminal_error(
            RefNotFound,
            f"there is no remote {given}, and no file of that name",
            f"`otolith remote list` lists the remotes; a new file is ./{given}",
        )
    return absolute_url(options.directory, given), without_secrets(given)


def _patterns(options: GlobalOptions, only: Sequence[str]) -> Sequence[str]:
    if only or options.session is None:
        return only
    return [f"{options.scope}/{quote(options.session, safe='')}/{options.branch or '*'}"]


def _merge_words(ref: str) -> list[str]:
    """Return the command that merges into a branch: a team decides conflicts in its inbox."""
    scope, id, _ = split_ref(ref)
    if scope == "session":
        return ["merge"]
    return [f"--{scope}", id, *(["team", "merge"] if scope == "team" else ["merge"])]


def _no_origin(source: str, directory: Path) -> str:
    """Say that a URL with a password was not stored, and what to do instead."""
    said = "The URL has a password, which is not stored, so this copy has no remote origin."
    bare = without_secrets(source).replace(":***@", "@")
    if "***" in bare:
        return f"{said} Name the URL: `otolith pull URL`."
    add = shlex.join(["otolith", "-C", str(directory), "remote", "add", ORIGIN, bare])
    return f"{said} `{add}` adds it; the password then comes from the settings of the client."


def _name_of(url: str) -> str:
    """Return the name of the directory for a clone: the last part of a path."""
    _, found, rest = re.split("[?#]", url, maxsplit=1)[0].partition("://")
    path = rest.partition("/")[2] if found else url
    stem = Path(path.rstrip("/")).name.removesuffix(".db")
    return stem or "clone"


def _show(options: GlobalOptions, report: care.TransferReport, head: str) -> None:
    """Print what became of each ref, and how much was copied."""
    end_progress()
    copied = report.copied

    def data() -> dict[str, object]:
        """Return the report as JSON data."""
        refs = [
            {"name": each.name, "kind": each.kind, "old": _hex(each.old), "new": _hex(each.new)}
            for each in report.refs
        ]
        return {**copied._asdict(), "refs": refs}

    counted = f"{plural(copied.objects, 'object')}, {size_text(copied.bytes)}"
    changed = [each for each in report.refs if each.kind not in ("up-to-date", "ahead")]
    lines = [f"  {each.kind:<12}  {escape(each.name)}" for each in changed]
    output(options, data, [f"{head}: {counted}.", *(lines or ["  everything is up to date"])])


def _hex(hash: Hash | None) -> str | None:
    return None if hash is None else hash.hex()
