"""`log`: commits, the latest first, on lines or as a graph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click

from otolith.cli.asked import Asked
from otolith.cli.place import Desk, at_hand
from otolith.cli.screen.graph import Lanes
from otolith.cli.screen.output import emit, json_option, page
from otolith.cli.screen.words import Labels, commit_json, heading, labels, oneline
from otolith.core import WORKSPACE, Commit, Path


@click.command("log")
@click.argument("ref", required=False)
@click.option("--graph", "as_graph", is_flag=True, help="Draw how commits descend from each other.")
@click.option("--oneline", "on_one_line", is_flag=True, help="One line per commit.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most N commits.")
@click.option("--path", metavar="PATH", help="Only commits that changed this path.")
@click.option("--var", metavar="NAME", help="Only commits that changed this variable.")
@click.option("--all", "everything", is_flag=True, help="All branches of the session.")
@json_option
@click.pass_obj
def log(
    asked: Asked,
    *,
    ref: str | None,
    as_graph: bool,
    on_one_line: bool,
    limit: int | None,
    path: str | None,
    var: str | None,
    everything: bool,
    as_json: bool,
) -> None:
    """Show commits, the latest first: of the branch at hand, or up to REF."""
    if as_graph and (path is not None or var is not None):
        raise click.UsageError("--graph draws whole histories\nleave out --path, or --graph")
    if path is not None and var is not None:
        raise click.UsageError("say --path or --var, not both")
    keys = (WORKSPACE, "vars", var) if var is not None else path
    with at_hand(asked, read_only=True) as desk:
        commits = islice(_commits(desk, ref, keys, everything=everything), limit)
        if as_json:
            emit({"commits": [commit_json(commit) for commit in commits]})
            return
        names = labels(desk.repo, desk.branch.session, here=desk.branch.name)
        if as_graph:
            page(_graph(commits, names, on_one_line=on_one_line), asked)
        else:
            page(_plain(commits, names, on_one_line=on_one_line), asked)


def _commits(
    desk: Desk, ref: str | None, path: str | Path | None, *, everything: bool
) -> Iterator[Commit]:
    tips = list(desk.repo.branches(desk.branch.session).values()) if everything else []
    if ref is not None or not tips:
        tips.append(desk.commit(ref or "@"))
    if path is None:
        return desk.repo.archive.graph.log(*tips)
    found = {found.id: found for tip in tips for found in desk.branch.log(tip, path=path)}
    return iter(sorted(found.values(), key=lambda commit: (-commit.time, commit.id)))


def _plain(commits: Iterator[Commit], names: Labels, *, on_one_line: bool) -> Iterator[str]:
    for count, commit in enumerate(commits):
        if on_one_line:
            yield oneline(commit, names)
            continue
        if count:
            yield ""
        yield from heading(commit, names)


def _graph(commits: Iterator[Commit], names: Labels, *, on_one_line: bool) -> Iterator[str]:
    lanes = Lanes()
    for commit in commits:
        text = [oneline(commit, names)] if on_one_line else [*heading(commit, names), ""]
        yield from lanes.rows(commit, text)
