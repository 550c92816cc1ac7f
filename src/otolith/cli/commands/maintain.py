"""Maintenance of a store: `fsck` verifies it, `gc` frees space, `stats` shows its size.

`fsck` and `stats` are read-only, except that `fsck --repair-from` writes the objects it fetched.
`gc` deletes for good; nothing that a ref, a tag, or an undo within `--expire` can reach is deleted.
All three work on the whole store, whatever the current session is.

JSON:

    fsck        ok, level, commits, objects, bytes, repaired, problems (kind, name, message)
    gc          dry_run, and the fields of `stores.CollectionReport`
    stats       the fields of `StoreStats`; largest (path, bytes)
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import NamedTuple

import click

from otolith import care
from otolith.cli.errors import ExitCode, terminal_error
from otolith.cli.format.history import plural
from otolith.cli.location import absolute_url, find, only_state, open_branch, open_repo
from otolith.cli.options import GlobalOptions, json_option
from otolith.cli.server_checks import is_on_server
from otolith.cli.terminal import (
    emit,
    end_progress,
    escape,
    output,
    pick,
    progress_line,
    table,
)
from otolith.core import SCOPES, Branch, format_path, is_branch_ref, parse_path, split_ref
from otolith.errors import Corrupt
from otolith.session import Repo
from otolith.stores import Store, open_store
from otolith.text import size_text

_RESTORE = (
    "it cannot be opened, so nothing in it can be repaired: move the file, its -wal and its -shm"
    " away and put a backup in its place, or `otolith init` for an empty store"
)

# Units of `--expire`.
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@click.command("fsck")
@click.option("--quick", "level", flag_value="quick", help="Refs and commits only.")
@click.option(
    "--full", "level", flag_value="full", default="full", help="All objects, hashed again."
)
@click.option("--deep", "level", flag_value="deep", help="Also decode every node and value.")
@click.option("--repair-from", metavar="URL", help="Fetch damaged objects from this replica.")
@json_option
@click.pass_context
def fsck(ctx: click.Context, level: str, repair_from: str | None) -> None:
    """Verify every object that the store can reach. Exits with 5 if one is damaged."""
    options: GlobalOptions = ctx.obj
    with _replica(options, repair_from) as replica:
        report = _verify(find(options).url, level, replica)
    end_progress()
    problems = [problem._asdict() for problem in report.problems]
    if options.as_json:
        emit({"ok": report.ok} | asdict(report) | {"problems": problems})
    else:
        for line in _report_lines(report):
            click.echo(line)
    ctx.exit(ExitCode.OK if report.ok else ExitCode.DAMAGED)


def _verify(url: str, level: str, replica: Store | None) -> care.Report:
    """Verify a store, with objects of a replica if there is one.

    Raises:
        Corrupt: it is so damaged that it cannot be opened.
    """
    try:
        with open_repo(url, read_only=replica is None) as repo:
            return care.verify(repo, level=level, repair_from=replica, progress=progress_line())
    except Corrupt as error:
        raise terminal_error(Corrupt, error.message, _RESTORE) from error


@contextmanager
def _replica(options: GlobalOptions, url: str | None) -> Iterator[Store | None]:
    """Open the copy to repair from, read-only; None if none was named."""
    if url is None:
        yield None
        return
    try:
        store = open_store(absolute_url(options.directory, url), read_only=True, create=False)
    except Corrupt as error:
        hint = "this is the copy to repair from: name another one"
        raise terminal_error(Corrupt, error.message, hint) from error
    try:
        yield store
    finally:
        store.close()


def _report_lines(report: care.Report) -> Iterator[str]:
    """Yield each problem, then what was read and whether the store is sound."""
    for problem in report.problems:
        kind = click.style(problem.kind, fg="red", bold=True)
        yield f"{kind} {escape(f'{problem.name}: {problem.message}')}"
    if report.repaired:
        yield f"Repaired {plural(report.repaired, 'object')}."
    seen = f"{plural(report.commits, 'commit')}, {plural(report.objects, 'object')}"
    seen += f", {size_text(report.bytes)} read"
    if report.ok:
        yield f"{click.style('Sound', fg='green', bold=True)} ({report.level}): {seen}."
        return
    yield f"{click.style('Damaged', fg='red', bold=True)} ({report.level}): {seen}."
    yield "`otolith fsck --repair-from URL` fetches damaged objects from a copy of the store."


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only report what would be deleted.")
@click.option(
    "--expire", default="14d", show_default=True, metavar="DURATION",
    help="Keep what `undo` can reach for this long: 14d, 12h, 30m, or now.",
)  # fmt: skip
@json_option
@click.pass_obj
def gc(options: GlobalOptions, dry_run: bool, expire: str) -> None:
    """Delete what no branch, tag or undo reaches, and return the space to the file system.

    Other processes may read and write at the same time. Deleted objects are gone: --dry-run looks
    first. With --expire now they are also erased from the files of the store.
    """
    duration = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", "0s" if expire == "now" else expire)
    if duration is None:
        raise click.UsageError(f"{expire!r} is not a duration\nwrite 14d, 12h, 30m, 10s or now")
    seconds = float(duration[1]) * _SECONDS[duration[2]]
    url = find(options).url
    with open_repo(url) as repo:
        done = care.prune(repo, expire_seconds=seconds, dry_run=dry_run, progress=progress_line())
    end_progress()
    if options.as_json:
        emit({"dry_run": dry_run} | asdict(done))
        return
    verb = "Would delete" if dry_run else "Deleted"
    click.echo(
        f"{verb} {plural(done.dropped_objects, 'object')}"
        f" and {plural(done.dropped_moves, 'step')} of undo; {done.kept_objects:,} objects stay."
    )
    if not dry_run:
        longest = f"{done.longest_block_seconds * 1000:.0f} ms"
        click.echo(f"Freed {size_text(done.freed_bytes)}; no writer waited longer than {longest}.")
    if done.erased:
        click.echo("Erased: no file of the store contains a byte of what was deleted.")
    elif done.residue:
        again = "" if is_on_server(url) else " Run it again."  # it is not in this program's power
        click.echo(f"Not erased: {escape(done.residue)}.{again}")


_MOST_LISTED = 10  # paths; a map with more entries is listed as one path


class StoreStats(NamedTuple):
    """Counts and sizes of a store, and the largest paths of one state."""

    objects: int
    stored_bytes: int  # on the disk, compressed
    limit_bytes: int | None  # of a store that was opened with one
    sessions: int
    users: int
    apps: int
    teams: int
    branches: int  # of all of them
    tags: int
    commits: int  # that a branch or tag reaches, each once
    head_bytes: int | None  # of the state at the head, in full; None without a current session
    largest: list[tuple[str, int]]  # path and bytes, the largest first


@click.command("stats")
@json_option
@click.pass_obj
def stats(options: GlobalOptions) -> None:
    """Count objects, bytes, sessions, commits, ..., and list the largest paths at the head."""
    location = find(options)
    with open_repo(location.url, read_only=True) as repo:
        branch = None
        if location.session is not None or len(repo.sessions()) == 1:
            branch = open_branch(repo, location, location.session or only_state(repo))
        found = _count(repo, branch)
    largest = [{"path": path, "bytes": count} for path, count in found.largest]
    output(options, lambda: found._asdict() | {"largest": largest}, _stats_lines(found))


def _count(repo: Repo, branch: Branch | None) -> StoreStats:
    """Count what a store has; `branch` is the one whose largest paths are listed, if any."""
    usage, tags = repo.store.usage(), repo.tags()
    heads, ids = [], {scope: set[str]() for scope in SCOPES}
    for ref, hash in repo.store.refs().items():
        if is_branch_ref(ref):
            scope, id, _ = split_ref(ref)
            ids[scope].add(id)
            heads.append(repo.backend.graph.commit(hash))
    tips = {commit.id: commit for commit in (*heads, *tags.values())}
    if branch is not None and branch.head is None:
        branch = None
    return StoreStats(
        **pick(usage, "objects", "stored_bytes", "limit_bytes"),
        sessions=len(ids["session"]),
        users=len(ids["user"]),
        apps=len(ids["app"]),
        teams=len(ids["team"]),
        branches=len(heads),
        tags=len(tags),
        commits=sum(1 for _ in repo.backend.graph.log(*tips.values())),
        head_bytes=None if branch is None else branch.size(),
        largest=[] if branch is None else _largest(branch),
    )


def _largest(state: Branch) -> list[tuple[str, int]]:
    """Return the largest paths. Small maps are replaced by their entries, the largest first."""
    listed: list[tuple[str, int]] = []
    heap: list[tuple[int, str, tuple[object, ...]]] = []
    for name in state:
        heapq.heappush(heap, (-state.size(name), name, parse_path(name)))
    while heap and len(listed) < _MOST_LISTED:
        negative, path, keys = heapq.heappop(heap)
        children = list(state.map(keys)) if state.kind(keys) == "map" else []
        if not children or len(children) > _MOST_LISTED:
            listed.append((path, -negative))
            continue
        for key in children:
            below = (*keys, key)
            heapq.heappush(heap, (-state.size(below), format_path(below), below))
    return listed


def _stats_lines(found: StoreStats) -> Iterator[str]:
    """Yield the counts and sizes of a store, then the largest paths."""
    each = size_text(found.stored_bytes / max(found.commits, 1))
    per_commit = f"  ({each} a commit)" if found.commits else ""
    limit = f" of {size_text(found.limit_bytes)}" if found.limit_bytes is not None else ""
    rows = [
        ["objects", f"{found.objects:,}"],
        ["on disk", f"{size_text(found.stored_bytes)}{limit}{per_commit}"],
    ]
    for name in ("sessions", "users", "apps", "teams", "branches", "tags", "commits"):
        count = getattr(found, name)
        if count or name not in ("users", "apps", "teams"):
            rows.append([name, f"{count:,}"])
    if found.head_bytes is not None:
        rows.append(["this state", size_text(found.head_bytes)])
    yield from table(rows)
    if found.largest:
        yield ""
        yield "Largest paths of this state:"
        yield from table(
            [[f"  {size_text(count)}", escape(path)] for path, count in found.largest], right=(0,)
        )
