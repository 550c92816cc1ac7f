"""`merge`: join another branch into this one, in one go or with decisions in between."""

from __future__ import annotations

import click

from otolith.cli.commands.edit import landed
from otolith.cli.errors import worded
from otolith.cli.format.history import commit_json, conflict_json, conflict_lines, counted, oneline
from otolith.cli.location import OpenBranch, at_hand
from otolith.cli.terminal import emit, json_option
from otolith.core import Merge
from otolith.errors import Invalid, KeyNotFound, Uncommitted

_IN_PROGRESS = "`otolith merge --continue` finishes it, `otolith merge --abort` drops it"


@click.command("merge")
@click.argument("words", nargs=-1, metavar="[REF | PATH...]")
@click.option("-m", "--message", metavar="TEXT", help="The message of the merge.")
@click.option("--author", metavar="NAME", help="Who merges.  [default: the user]")
@click.option(
    "--take",
    type=click.Choice(["ours", "theirs", "base"]),
    help="Decide the conflicts at PATH for this side.",
)
@click.option("--all", "everything", is_flag=True, help="With --take: decide all conflicts.")
@click.option("--continue", "goes_on", is_flag=True, help="Commit the merge once all is decided.")
@click.option("--abort", is_flag=True, help="Drop the merge in progress.")
@json_option
@click.pass_context
def merge(
    ctx: click.Context,
    *,
    words: tuple[str, ...],
    message: str | None,
    author: str | None,
    take: str | None,
    everything: bool,
    goes_on: bool,
    abort: bool,
    as_json: bool,
) -> None:
    """Join REF into the branch at hand.

    Where both sides changed the same path and no policy decides, the merge waits, and leaves
    with 1: decide each with `otolith set PATH VALUE` or `otolith merge --take ours PATH`, then
    `otolith merge --continue`.
    """
    with at_hand(ctx.obj) as desk:
        if abort or goes_on or take is not None:
            _require_merging(desk)
        if abort:
            _abort(desk)
        elif take is not None:
            _take(desk, words, take, everything=everything)
        elif goes_on:
            landed(desk, message, author)
        elif len(words) != 1:
            raise click.UsageError("name one branch or commit to merge")
        elif desk.branch.merging is not None:
            raise worded(Uncommitted("a merge is in progress", hint=_IN_PROGRESS))
        else:
            ctx.exit(_merge(desk, words[0], message, author, as_json=as_json))


def _require_merging(desk: OpenBranch) -> None:
    if desk.branch.merging is None and not desk.branch.conflicts:
        raise Invalid("no merge is in progress", hint="`otolith merge BRANCH` begins one")


def _abort(desk: OpenBranch) -> None:
    desk.branch.discard()
    desk.branch.stash()
    click.echo(f"Dropped the merge; {desk.branch.name} is at {oneline(desk.head(), {})}")


def _take(desk: OpenBranch, paths: tuple[str, ...], side: str, *, everything: bool) -> None:
    conflicts = [conflict.path for conflict in desk.branch.conflicts]
    if bool(paths) == everything:
        raise click.UsageError(f"say at which paths, or --all\nto decide: {', '.join(conflicts)}")
    for path in paths or conflicts:
        if path not in conflicts:
            raise KeyNotFound(f"there is no conflict at {path}")
        desk.branch.resolve_conflict(path, take=side)
    desk.branch.stash()
    left = len(desk.branch.conflicts)
    click.echo(
        f"{counted(left, 'conflict')} left to decide."
        if left
        else "All decided: `otolith merge --continue` finishes the merge."
    )


def _merge(
    desk: OpenBranch, word: str, message: str | None, author: str | None, *, as_json: bool
) -> int:
    theirs = desk.commit(word)
    text = message if message is not None else f"merge {word}"
    result = desk.branch.merge(theirs, message=text, author=author)
    if not result.ok:
        desk.branch.stash()
    if as_json:
        emit(_merge_json(result))
    else:
        for line in _merge_lines(desk, result):
            click.echo(line)
    return 0 if result.ok else 1


def _merge_json(result: Merge) -> dict[str, object]:
    return {
        "result": result.kind,
        "commit": commit_json(result.commit) if result.commit else None,
        "conflicts": [conflict_json(conflict) for conflict in result.conflicts],
    }


def _merge_lines(desk: OpenBranch, result: Merge) -> list[str]:
    if result.commit is not None:
        done = {"up-to-date": "Already merged", "fast-forward": "Fast-forward to"}
        line = f"{done.get(result.kind, 'Merged:')} {oneline(result.commit, {})}"
        return [line] if result.kind == "up-to-date" else [line, "`otolith undo` takes it back."]
    title = f"{counted(len(result.conflicts), 'conflict')} to decide on {desk.branch.name}:"
    lines = [click.style(title, fg="red", bold=True)]
    for conflict in result.conflicts:
        lines += conflict_lines(conflict)
    return [
        *lines,
        "Decide each with `otolith set PATH VALUE` or `otolith merge --take ours|theirs PATH`,",
        "then `otolith merge --continue`; or `otolith merge --abort`.",
    ]
