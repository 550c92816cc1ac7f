"""`merge`: merge another branch into the current one, and resolve its conflicts.

A merge without conflicts is a commit at once. Otherwise it stays open, stashed with the branch as
staged edits are: `--take`, `set` and `rm` resolve conflicts one by one, `--continue` commits it,
and `--abort` discards it. Until it is committed, the branch has not moved for others. A variable or
file of a workspace is resolved as a whole, by `--take` with `--var` or `--file`.

JSON: result (the kind of merge), commit, conflicts. Exit code 1 if there are conflicts.
"""

from __future__ import annotations

import click

from otolith.cli.commands.edit import commit_staged
from otolith.cli.errors import how_to_resolve, terminal_error
from otolith.cli.format.history import commit_json, conflict_json, oneline, plural
from otolith.cli.format.workspace import conflict_lines
from otolith.cli.location import OpenBranch, open_current
from otolith.cli.options import GlobalOptions, SessionCommand, json_option
from otolith.cli.terminal import emit
from otolith.core import Merge
from otolith.errors import Invalid, KeyNotFound, Uncommitted
from otolith.workspace import WorkspaceConflict, WorkspaceConflicts


@click.command("merge", cls=SessionCommand)
@click.argument("words", nargs=-1, metavar="[REF | PATH...]")
@click.option("-m", "--message", metavar="TEXT", help="The message of the merge.")
@click.option("--author", metavar="NAME", help="Who merges.  [default: the user]")
@click.option(
    "--take", type=click.Choice(["ours", "theirs", "base"]),
    help="Resolve the conflicts at PATH with this side.",
)  # fmt: skip
@click.option("--var", "names", multiple=True, metavar="NAME", help="With --take: a variable.")
@click.option("--file", "files", multiple=True, metavar="NAME", help="With --take: a file.")
@click.option("--all", "everything", is_flag=True, help="With --take: resolve all conflicts.")
@click.option(
    "--continue", "resume", is_flag=True, help="Commit the merge when all conflicts are resolved."
)
@click.option("--abort", is_flag=True, help="Cancel the merge in progress.")
@json_option
@click.pass_context
def merge(
    ctx: click.Context,
    *,
    words: tuple[str, ...],
    message: str | None,
    author: str | None,
    take: str | None,
    names: tuple[str, ...],
    files: tuple[str, ...],
    everything: bool,
    resume: bool,
    abort: bool,
) -> None:
    """Merge REF into the current branch.

    Where both sides changed a path and no policy decides, the merge stays open and the exit code is
    1: resolve each conflict with `otolith set PATH VALUE` or `otolith merge --take ours PATH` (or
    `--var NAME`, `--file NAME`), then `otolith merge --continue`.
    """
    if take is None and (names or files or everything):
        raise click.UsageError("--var, --file and --all need --take ours or --take theirs")
    with open_current(ctx.obj) as current:
        is_open = current.branch.merging is not None
        if (abort or resume or take is not None) and not (is_open or current.branch.conflicts):
            raise Invalid("no merge is in progress", hint="`otolith merge BRANCH` begins one")
        if abort:
            current.branch.discard()
            current.branch.stash()
            head = oneline(current.head())
            click.echo(f"Cancelled the merge; {current.branch.name} is at {head}")
        elif take is not None:
            _take(current, _chosen(current, words, names, files, everything=everything), take)
        elif resume:
            commit_staged(current, message, author)
        elif len(words) != 1:
            raise click.UsageError("name one branch or commit to merge")
        elif is_open:
            hint = "`otolith merge --continue` commits it, `otolith merge --abort` cancels it"
            raise terminal_error(Uncommitted, "a merge is in progress", hint)
        else:
            ctx.exit(_merge(current, words[0], message, author, ctx.obj))


Choice = WorkspaceConflict | str  # a variable or file as a whole, or a path


def _chosen(
    current: OpenBranch,
    paths: tuple[str, ...],
    names: tuple[str, ...],
    files: tuple[str, ...],
    *,
    everything: bool,
) -> list[Choice]:
    """Return the conflicts that the command line names; a path in a workspace, by its variable.

    Raises:
        UsageError: it names none, or some beside `--all`.
        KeyNotFound: there is no such conflict.
    """
    conflicts = [conflict.path for conflict in current.branch.conflicts]
    if bool(paths or names or files) == everything:
        listed = ", ".join(conflicts)
        raise click.UsageError(f"name paths, --var, --file, or use --all\nconflicts: {listed}")
    work = WorkspaceConflicts(current.branch)
    whole = {path.path: each for each in work for path in each.paths}
    chosen: dict[str, Choice] = {}
    for path in paths or (conflicts if everything else ()):
        if path not in conflicts:
            raise KeyNotFound(f"there is no conflict at {path}")
        choice: Choice = whole.get(path, path)
        chosen[path if isinstance(choice, str) else f"{choice.what} {choice.name}"] = choice
    for name in names:
        chosen[f"variable {name}"] = work.find(name, is_file=False)
    for name in files:
        chosen[f"file {name}"] = work.find(name, is_file=True)
    return list(chosen.values())


def _take(current: OpenBranch, chosen: list[Choice], side: str) -> None:
    """Resolve conflicts with one side, and print how many are left."""
    work = WorkspaceConflicts(current.branch)
    keys = {conflict.path: conflict.keys for conflict in current.branch.conflicts}
    for each in chosen:
        if isinstance(each, str):
            current.branch.resolve_conflict(keys[each], take=side)
        else:
            work.take(each, side)
    current.branch.stash()
    left = len(current.branch.conflicts)
    click.echo(
        f"{plural(left, 'conflict')} left to resolve."
        if left
        else "All conflicts are resolved: `otolith merge --continue` commits the merge."
    )


def _merge(
    current: OpenBranch, word: str, message: str | None, author: str | None, options: GlobalOptions
) -> int:
    """Merge a commit, print the result and return the exit code.

    A merge with conflicts is stashed, so that the next command finds it.
    """
    current.check_author(author)
    text = message if message is not None else f"merge {word}"
    result = current.branch.merge(current.commit(word), message=text, author=author)
    if not result.ok:
        current.branch.stash()
    if options.as_json:
        conflicts = [conflict_json(conflict) for conflict in result.conflicts]
        commit = commit_json(result.commit) if result.commit else None
        emit({"result": result.kind, "commit": commit, "conflicts": conflicts})
    else:
        for line in _merge_lines(current, result):
            click.echo(line)
    return 0 if result.ok else 1


def _merge_lines(current: OpenBranch, result: Merge) -> list[str]:
    """Return the commit of a merge, or its conflicts and how to resolve them."""
    if result.commit is not None:
        done = {
            "up-to-date": "Already merged; this branch is at",
            "fast-forward": "Fast-forward to",
        }
        line = f"{done.get(result.kind, 'Merged:')} {oneline(result.commit)}"
        return [line] if result.kind == "up-to-date" else [line, "`otolith undo` reverts this."]
    title = f"{plural(len(result.conflicts), 'conflict')} on {current.branch.name}:"
    how = how_to_resolve([conflict.path for conflict in result.conflicts])
    return [
        click.style(title, fg="red", bold=True),
        *conflict_lines(current.branch),
        f"Resolve each with {how},",
        "then `otolith merge --continue`; or `otolith merge --abort`.",
    ]
