"""Names for lines of history: `branch`, `checkout` and `tag`."""

from __future__ import annotations

from dataclasses import replace

import click

from otolith.cli.format.history import commit_json, first_line, moment, oneline
from otolith.cli.location import OpenBranch, StoreLocation, at_hand, find, opened, save, suggesting
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, json_option, page, safe, table
from otolith.core import Commit
from otolith.errors import Exists, Invalid, NotFound, RefExists, Uncommitted


@click.command("branch")
@click.argument("name", required=False)
@click.argument("ref", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the branch NAME.")
@click.option("--force", is_flag=True, help="Delete it together with its staged edits.")
@json_option
@click.pass_obj
def branch(
    asked: GlobalOptions,
    *,
    name: str | None,
    ref: str | None,
    delete: bool,
    force: bool,
    as_json: bool,
) -> None:
    """List the branches of the session, or make NAME at REF (here by default)."""
    if name is None and delete:
        raise click.UsageError("name the branch to delete")
    with at_hand(asked, read_only=name is None) as desk:
        if name is None:
            _list(desk, asked, as_json=as_json)
        elif delete:
            _delete(desk, name, force=force)
        else:
            made = fork(desk, name, ref)
            click.echo(f"Branch {name} at {oneline(made, {})}")
            click.echo(f"`otolith checkout {name}` goes there.")


def _list(desk: OpenBranch, asked: GlobalOptions, *, as_json: bool) -> None:
    heads = desk.repo.branches(desk.branch.session)
    here = desk.branch.name
    staged = desk.repo.store.refs("stage/")
    edited = {name for name in heads if _stage_ref(desk, name) in staged}
    if as_json:
        found = [
            {
                "name": name,
                "here": name == here,
                "staged": name in edited,
                "head": commit_json(head),
            }
            for name, head in heads.items()
        ]
        emit({"session": desk.branch.session, "branches": found})
        return
    rows = [
        [
            click.style(safe(f"* {name}"), fg="green", bold=True)
            if name == here
            else safe(f"  {name}"),
            click.style(head.short, fg="yellow"),
            moment(head.time),
            first_line(head)
            + (click.style("  (staged edits)", fg="cyan") if name in edited else ""),
        ]
        for name, head in heads.items()
    ]
    if here not in heads:
        rows.insert(0, [click.style(f"* {here}", fg="green", bold=True), "", "no commit yet", ""])
    page(table(rows), asked)


def _stage_ref(desk: OpenBranch, name: str) -> str:
    ref = desk.repo.session(desk.branch.session, branch=name).ref
    return "stage/" + ref.removeprefix("session/")


def fork(desk: OpenBranch, name: str, ref: str | None) -> Commit:
    """Make a branch at a commit."""
    start = desk.commit(ref or "@")
    try:
        desk.branch.fork(name, at=start)
    except RefExists as error:
        raise RefExists(error.message, hint=f"`otolith checkout {name}` goes there") from None
    return start


def _delete(desk: OpenBranch, name: str, *, force: bool) -> None:
    if desk.place.root is not None and name == desk.place.branch:
        raise Invalid(f"{name} is the branch at hand", hint="`otolith checkout` another first")
    heads = desk.repo.branches(desk.branch.session)
    if name not in heads:
        session = desk.branch.session
        raise suggesting(
            f"session {session} has no branch {name}", name, list(heads), "see `otolith branch`"
        )
    doomed = desk.repo.session(desk.branch.session, branch=name)
    doomed.unstash()
    if not doomed.is_clean and not force:
        hint = f"`otolith -b {name} status` shows them, --force drops them"
        raise Uncommitted(f"{name} has staged edits", hint=hint)
    doomed.discard()
    doomed.stash()
    desk.repo.delete_branch(desk.branch.session, name)
    click.echo(f"Deleted branch {name}. To get it back: otolith branch {name} {heads[name].short}")


@click.command("checkout")
@click.argument("words", nargs=-1, metavar="[BRANCH] | -b NEW [REF]")
@click.option("-b", "new", metavar="NEW", help="Make this branch at REF, and go there.")
@click.option("--session", metavar="ID", help="Go to another session.")
@click.pass_obj
def checkout(
    asked: GlobalOptions, *, words: tuple[str, ...], new: str | None, session: str | None
) -> None:
    """Choose the branch or session at hand. Staged edits stay with their branch."""
    place = find(asked)
    if place.root is None or asked.store is not None:
        raise Invalid(
            "there is no .otolith to remember the choice in",
            hint="`otolith init URL` makes one; or say `otolith --store URL -b BRANCH …` each time",
        )
    if len(words) > 1 or not (words or new or session):
        raise click.UsageError("name one branch, -b NEW [REF], or --session ID")
    with opened(place.url) as repo:
        branch = repo.session(session or place.session or "default", branch=place.branch)
        desk = OpenBranch(replace(place, session=branch.session), repo, branch)
        branch.unstash()
        left = not branch.is_clean and session is None
        goal = _goal(desk, words[0] if words else None, new)
        save(goal)
        arrived = repo.session(branch.session, branch=goal.branch)
        head = oneline(arrived.head, {}) if arrived.head else "new; its first commit makes it"
    click.echo(f"Session {safe(str(goal.session))}, branch {safe(goal.branch)}: {head}")
    if left and goal.branch != branch.name:
        click.echo(f"The staged edits of {branch.name} wait there.")


def _goal(desk: OpenBranch, word: str | None, new: str | None) -> StoreLocation:
    if new is not None:
        if desk.branch.head is not None or word is not None:
            fork(desk, new, word)
        return replace(desk.place, branch=new)
    name = word or "main"
    heads = desk.repo.branches(desk.branch.session)
    if name in heads or (not heads and name == "main"):
        return replace(desk.place, branch=name)
    if word is None:  # a session whose main was never made
        return replace(desk.place, branch=next(iter(heads)))
    raise _not_a_branch(desk, word, list(heads))


def _not_a_branch(desk: OpenBranch, word: str, heads: list[str]) -> Exception:
    message = f"session {desk.branch.session} has no branch {word}"
    try:
        desk.commit(word)
    except (NotFound, Invalid):
        return suggesting(message, word, heads, f"`otolith checkout -b {word}` makes it")
    return Invalid(
        f"{word} is a commit, and only a branch can be at hand",
        hint=f"`otolith show {word}:PATH` looks, `otolith checkout -b NEW {word}` works from "
        f"there, `otolith rollback {word}` goes back to it",
    )


@click.command("tag")
@click.argument("name", required=False)
@click.argument("ref", required=False)
@click.option("-d", "--delete", is_flag=True, help="Delete the tag NAME.")
@click.option("--force", is_flag=True, help="Move a tag that is there already.")
@json_option
@click.pass_obj
def tag(
    asked: GlobalOptions,
    *,
    name: str | None,
    ref: str | None,
    delete: bool,
    force: bool,
    as_json: bool,
) -> None:
    """List tags, or call REF (here by default) NAME. A tag does not move, and keeps its commit."""
    if name is None and delete:
        raise click.UsageError("name the tag to delete")
    with at_hand(asked, read_only=name is None) as desk:
        tags = desk.repo.tags()
        if name is None:
            _list_tags(tags, asked, as_json=as_json)
        elif delete:
            _delete_tag(desk, name, tags)
        elif name in tags and not force:
            raise Exists(f"tag {name} is already there", hint="choose another, or --force")
        else:
            made = desk.repo.tag(name, desk.commit(ref or "@"), force=force)
            click.echo(f"Tag {name} at {oneline(made, {})}")


def _list_tags(tags: dict[str, Commit], asked: GlobalOptions, *, as_json: bool) -> None:
    if as_json:
        emit({"tags": [{"name": name, "commit": commit_json(at)} for name, at in tags.items()]})
        return
    rows = [
        [click.style(safe(name), fg="magenta"), click.style(at.short, fg="yellow"), first_line(at)]
        for name, at in tags.items()
    ]
    page(table(rows), asked)


def _delete_tag(desk: OpenBranch, name: str, tags: dict[str, Commit]) -> None:
    if name not in tags:
        raise suggesting(f"there is no tag {name}", name, list(tags), "see `otolith tag`")
    desk.repo.delete_tag(name)
    click.echo(f"Deleted tag {name}. To get it back: otolith tag {name} {tags[name].short}")
