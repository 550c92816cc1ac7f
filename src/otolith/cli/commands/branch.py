"""`branch`, `switch` and `tag`: names for lines of history and for single commits.

A branch belongs to a session and moves with its commits. A tag belongs to the store and stays.
`switch` changes no state: it writes into `.otolith` which branch the next commands work on.
Deleting a branch or a tag deletes the name only, and prints the command that makes it again.

JSON, for the lists only:

    branch      session, branches (name, here, staged, head)
    tag         tags (name, commit)
"""

from __future__ import annotations

import shlex
from dataclasses import replace

import click

from otolith.cli.errors import terminal_error
from otolith.cli.format.history import (
    commit_json,
    first_line,
    format_time,
    oneline,
    short_id,
)
from otolith.cli.location import (
    OpenBranch,
    StoreLocation,
    find,
    open_current,
    open_repo,
    ref_not_found,
    save,
)
from otolith.cli.options import GlobalOptions, SessionCommand, json_option
from otolith.cli.terminal import escape, output, table
from otolith.core import Commit, stage_ref
from otolith.errors import Exists, Invalid, NotFound, RefExists, Uncommitted


@click.command("branch", cls=SessionCommand)
@click.argument("name", required=False)
@click.argument("ref", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the branch NAME.")
@click.option("--force", is_flag=True, help="Delete it together with its staged edits.")
@json_option
@click.pass_obj
def branch(
    options: GlobalOptions, *, name: str | None, ref: str | None, delete: bool, force: bool
) -> None:
    """List the branches of the session, or create NAME at REF (here by default)."""
    if name is None and delete:
        raise click.UsageError("name the branch to delete")
    with open_current(options, read_only=name is None) as current:
        if name is None:
            _list_branches(current, options)
        elif delete:
            _delete(current, name, force=force)
        else:
            made = _fork(current, name, ref)
            click.echo(f"Branch {name} at {oneline(made)}")
            click.echo(_how_to_work_on(current, name))


def _how_to_work_on(current: OpenBranch, name: str) -> str:
    """Return the sentence that says how to work on a new branch; only sessions are switched to."""
    scope, id = current.branch.scope, current.branch.session
    if scope == "session":
        return f"`otolith switch {name}` switches to it."
    return f"`{shlex.join(['otolith', f'--{scope}', id, '-b', name])} …` works on it."


def _list_branches(current: OpenBranch, options: GlobalOptions) -> None:
    """Print the branches of the session; the current one is marked, even before its commit."""
    session, here = current.branch.session, current.branch.name
    heads, refs = current.heads(), current.repo.store.refs("stage")
    mark = click.style(escape(f"* {here}"), fg="green", bold=True)
    found, rows = [], [] if here in heads else [[mark, "", "no commit yet", ""]]
    for name, head in heads.items():
        is_staged = stage_ref(current.sibling(name).ref) in refs
        note = click.style("  (staged edits)", fg="cyan") if is_staged else ""
        shown = mark if name == here else escape(f"  {name}")
        rows.append([shown, short_id(head), format_time(head.time), first_line(head) + note])
        about = {"name": name, "here": name == here, "staged": is_staged}
        found.append(about | {"head": commit_json(head)})
    output(options, lambda: {"session": session, "branches": found}, table(rows))


def _fork(current: OpenBranch, name: str, ref: str | None) -> Commit:
    """Create a branch at a commit, and return the commit.

    Raises:
        RefExists: there is a branch of that name; the hint names the command that switches to it.
    """
    start = current.commit(ref or "@")
    try:
        current.branch.fork(name, at=start)
    except RefExists as error:
        raise RefExists(error.message, hint=f"`otolith switch {name}` switches to it") from None
    return start


def _delete(current: OpenBranch, name: str, *, force: bool) -> None:
    """Delete a branch, but not its commits: the message names the one that gets it back.

    Raises:
        Invalid: it is the current branch.
        RefNotFound: there is no such branch.
        Uncommitted: it has staged edits, and the user does not force it.
    """
    if current.location.root is not None and name == current.location.branch:
        raise Invalid(f"{name} is the current branch", hint="`otolith switch` to another first")
    heads = current.heads()
    if name not in heads:
        message = f"{current.owner} has no branch {name}"
        raise ref_not_found(message, name, list(heads), "see `otolith branch`")
    deleted = current.sibling(name)
    deleted.unstash()
    if not deleted.is_clean and not force:
        hint = f"`otolith -b {name} status` shows them, --force discards them"
        raise terminal_error(Uncommitted, f"{name} has staged edits", hint)
    deleted.discard()
    deleted.stash()
    branch = current.branch
    current.repo.delete_branch(branch.session, name, scope=branch.scope)
    click.echo(f"Deleted branch {name}. To get it back: otolith branch {name} {heads[name].short}")


@click.command("switch", cls=SessionCommand)
@click.argument("words", nargs=-1, metavar="[BRANCH] | -c NEW [REF]")
@click.option("-c", "new", metavar="NEW", help="Create this branch at REF, and switch to it.")
@click.pass_obj
def switch(options: GlobalOptions, *, words: tuple[str, ...], new: str | None) -> None:
    """Switch to another branch, or with `-s ID` to another session.

    Staged edits stay with their branch.
    """
    options.require_session()
    word = words[0] if words else None
    if new is None:
        word = options.for_branch(word).branch
    here = find(options._replace(session=None, branch=None))
    session = options.session or here.session or "default"
    is_same = session == here.session
    location = replace(here, session=session, branch=here.branch if is_same else "main")
    if location.root is None or options.store is not None:
        raise Invalid(
            "there is no .otolith to remember the branch in",
            hint="`otolith init URL` makes one; or use `otolith --store URL -b BRANCH …` each time",
        )
    if len(words) > 1 or not (word or new or options.session):
        raise click.UsageError("name one branch, -c NEW [REF], or -s SESSION")
    with open_repo(location.url) as repo:
        branch = repo.session(session, branch=location.branch)
        current = OpenBranch(location, repo, branch)
        branch.unstash()
        leaves_staged = not branch.is_clean and is_same
        target = _switch_target(current, word, new)
        save(target)
        head = repo.session(session, branch=target.branch).head
        text = oneline(head) if head else "new; its first commit creates it"
    click.echo(f"Session {escape(str(target.session))}, branch {escape(target.branch)}: {text}")
    if leaves_staged and target.branch != branch.name:
        click.echo(f"The staged edits of {branch.name} stay there.")


def _switch_target(current: OpenBranch, word: str | None, new: str | None) -> StoreLocation:
    """Return the location to switch to; a new branch is created first.

    Raises:
        RefNotFound: there is no such branch.
        Invalid: the word names a commit, which cannot be the current branch.
    """
    if new is not None:
        if current.branch.head is not None or word is not None:
            _fork(current, new, word)
        return replace(current.location, branch=new)
    name = word or "main"
    heads = current.heads()
    if name in heads or (not heads and name == "main"):
        return replace(current.location, branch=name)
    if word is None:  # a session without a main branch
        return replace(current.location, branch=next(iter(heads)))
    try:
        current.commit(word)
    except (NotFound, Invalid):
        message = f"{current.owner} has no branch {word}"
        create = f"`otolith switch -c {word}` creates it"
        raise ref_not_found(message, word, list(heads), create) from None
    raise Invalid(
        f"{word} is a commit, and only a branch can be switched to",
        hint=f"`otolith show {word}:PATH` reads it, `otolith switch -c NEW {word}` works from "
        f"there, `otolith rollback {word}` restores its state",
    )


@click.command("tag", cls=SessionCommand)
@click.argument("name", required=False)
@click.argument("ref", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the tag NAME.")
@click.option("--force", is_flag=True, help="Move a tag that exists.")
@json_option
@click.pass_obj
def tag(
    options: GlobalOptions, *, name: str | None, ref: str | None, delete: bool, force: bool
) -> None:
    """List tags, or tag REF (here by default) as NAME. A tag does not move."""
    if name is None and delete:
        raise click.UsageError("name the tag to delete")
    with open_current(options, read_only=name is None) as current:
        tags = current.repo.tags()
        if name is None:
            rows = [
                [click.style(escape(name), fg="magenta"), short_id(commit), first_line(commit)]
                for name, commit in tags.items()
            ]
            found = [{"name": name, "commit": commit_json(at)} for name, at in tags.items()]
            output(options, lambda: {"tags": found}, table(rows))
        elif delete:
            if name not in tags:
                message = f"there is no tag {name}"
                raise ref_not_found(message, name, list(tags), "see `otolith tag`")
            current.repo.delete_tag(name)
            short = tags[name].short
            click.echo(f"Deleted tag {name}. To get it back: otolith tag {name} {short}")
        elif name in tags and not force:
            raise Exists(f"tag {name} already exists", hint="choose another, or --force")
        else:
            made = current.repo.tag(name, current.commit(ref or "@"), force=force)
            click.echo(f"Tag {name} at {oneline(made)}")
