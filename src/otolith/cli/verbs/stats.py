"""`stats`: how much is stored, and which paths take the room."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import click

from otolith.cli.asked import Asked
from otolith.cli.place import find, only_session, opened
from otolith.cli.safety import safe
from otolith.cli.screen.output import emit, json_option, page, table
from otolith.cli.screen.words import size
from otolith.core import Branch, Repo, format_path, parse_path

_LARGEST = 10


class Stats(NamedTuple):
    """What a store holds."""

    objects: int
    stored_bytes: int
    limit_bytes: int | None
    sessions: int
    branches: int
    tags: int
    commits: int
    head_bytes: int | None
    largest: list[tuple[str, int]]


@click.command("stats")
@json_option
@click.pass_obj
def stats(asked: Asked, as_json: bool) -> None:
    """Count objects, bytes, sessions and commits, and list the largest paths at the head."""
    place = find(asked)
    with opened(place.url, read_only=True) as repo:
        sessions = repo.sessions()
        branch = None
        if place.session is not None or len(sessions) == 1:
            branch = repo.session(place.session or only_session(repo), branch=place.branch)
        found = _count(repo, branch)
    if as_json:
        largest = [{"path": path, "bytes": count} for path, count in found.largest]
        emit(found._asdict() | {"largest": largest})
    else:
        page(_lines(found), asked)


def _count(repo: Repo, branch: Branch | None) -> Stats:
    usage = repo.store.usage()
    sessions = repo.sessions()
    tags = repo.tags()
    heads = [head for session in sessions for head in repo.branches(session.id).values()]
    tips = {commit.id: commit for commit in (*heads, *tags.values())}
    has_head = branch is not None and branch.head is not None
    return Stats(
        objects=usage.objects,
        stored_bytes=usage.stored_bytes,
        limit_bytes=usage.limit_bytes,
        sessions=len(sessions),
        branches=len(heads),
        tags=len(tags),
        commits=sum(1 for _ in repo.archive.graph.log(*tips.values())),
        head_bytes=branch.size() if branch is not None and has_head else None,
        largest=_largest(branch) if branch is not None and has_head else [],
    )


def _largest(state: Branch) -> list[tuple[str, int]]:
    """Return the largest paths: maps are opened, the largest first, while there is room."""
    closed: list[tuple[str, int]] = []
    heap: list[tuple[int, str, tuple[object, ...]]] = []
    for name in state:
        heapq.heappush(heap, (-state.size(name), name, parse_path(name)))
    while heap and len(closed) < _LARGEST:
        negative, path, keys = heapq.heappop(heap)
        children = list(state.map(keys)) if state.kind(keys) == "map" else []
        if not children or len(children) > _LARGEST:
            closed.append((path, -negative))
            continue
        for key in children:
            below = (*keys, key)
            heapq.heappush(heap, (-state.size(below), format_path(below), below))
    return closed


def _lines(found: Stats) -> Iterator[str]:
    per_commit = f"  ({size(found.stored_bytes / found.commits)} a commit)" if found.commits else ""
    limit = f" of {size(found.limit_bytes)}" if found.limit_bytes is not None else ""
    rows = [
        ["objects", f"{found.objects:,}"],
        ["at rest", f"{size(found.stored_bytes)}{limit}{per_commit}"],
        ["sessions", f"{found.sessions:,}"],
        ["branches", f"{found.branches:,}"],
        ["tags", f"{found.tags:,}"],
        ["commits", f"{found.commits:,}"],
    ]
    if found.head_bytes is not None:
        rows.append(["this state", size(found.head_bytes)])
    yield from table(rows)
    if found.largest:
        yield ""
        yield "Largest paths of this state:"
        yield from table(
            [[f"  {size(count)}", safe(path)] for path, count in found.largest], right=(0,)
        )
