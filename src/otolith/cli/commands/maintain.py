"""`doctor`: is this machine fit for a store, and what to do where it is not.

Keeping a store well: `fsck` checks it, `gc` drops what nothing reaches.

`stats`: how much is stored, and which paths take the room.
"""

from __future__ import annotations

import heapq
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

from otolith import __version__, care
from otolith.cli.format.history import counted, size
from otolith.cli.location import find, only_session, opened, seen_from
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, end_progress, json_option, page, progress_line, safe, table
from otolith.core import BareRepo, Branch, format_path, parse_path
from otolith.errors import Error, StoreNotFound
from otolith.stores import CollectionReport, Store, open_store
from otolith.workspace import ladder

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_CORRUPT = 5


@click.command("fsck")
@click.option("--quick", "level", flag_value="quick", help="Refs and commits only.")
@click.option("--full", "level", flag_value="full", default="full", help="All objects, re-hashed.")
@click.option("--deep", "level", flag_value="deep", help="Also decode every node and value.")
@click.option("--repair-from", metavar="URL", help="Fetch what is broken from this replica.")
@json_option
@click.pass_context
def fsck(ctx: click.Context, level: str, repair_from: str | None, as_json: bool) -> None:
    """Check that everything the store can reach is whole. Leaves with 5 if it is not."""
    asked: GlobalOptions = ctx.obj
    with (
        opened(find(asked).url, read_only=repair_from is None) as repo,
        _replica(asked, repair_from) as replica,
    ):
        report = care.verify(repo, level=level, repair_from=replica, progress=progress_line())
    end_progress()
    if as_json:
        emit(_report_json(report))
    else:
        for line in _report_lines(report):
            click.echo(line)
    ctx.exit(0 if report.ok else _CORRUPT)


@contextmanager
def _replica(asked: GlobalOptions, url: str | None) -> Iterator[Store | None]:
    if url is None:
        yield None
        return
    store = open_store(seen_from(asked.directory, url), read_only=True, create=False)
    try:
        yield store
    finally:
        store.close()


def _report_json(report: care.Report) -> dict[str, object]:
    return {
        "ok": report.ok,
        "level": report.level,
        "commits": report.commits,
        "objects": report.objects,
        "bytes": report.bytes,
        "repaired": report.repaired,
        "problems": [problem._asdict() for problem in report.problems],
    }


def _report_lines(report: care.Report) -> Iterator[str]:
    for problem in report.problems:
        kind = click.style(problem.kind, fg="red", bold=True)
        yield f"{kind} {safe(f'{problem.name}: {problem.message}')}"
    if report.repaired:
        yield f"Repaired {counted(report.repaired, 'object')}."
    seen = f"{counted(report.commits, 'commit')}, {counted(report.objects, 'object')}"
    seen += f", {size(report.bytes)} read"
    if report.ok:
        yield f"{click.style('Whole', fg='green', bold=True)} ({report.level}): {seen}."
        return
    yield f"{click.style('Damaged', fg='red', bold=True)} ({report.level}): {seen}."
    yield "`otolith fsck --repair-from URL` fetches what is broken from a copy of the store."


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only say what would be dropped.")
@click.option(
    "--expire", default="14d", show_default=True, metavar="DURATION",
    help="Keep what undo can reach for so long: 14d, 12h, 30m, or now.",
)  # fmt: skip
@json_option
@click.pass_obj
def gc(asked: GlobalOptions, dry_run: bool, expire: str, as_json: bool) -> None:
    """Drop what no branch, tag or undo reaches, and give the space back to the file system.

    Others may read and write meanwhile. What is dropped is gone: --dry-run looks first.
    With --expire now it is also erased from the files of the store.
    """
    expire_seconds = _seconds(expire)
    with opened(find(asked).url) as repo:
        done = care.prune(
            repo, expire_seconds=expire_seconds, dry_run=dry_run, progress=progress_line()
        )
    end_progress()
    if as_json:
        emit({"dry_run": dry_run} | _collected_json(done))
        return
    verb = "Would drop" if dry_run else "Dropped"
    click.echo(
        f"{verb} {counted(done.dropped_objects, 'object')}"
        f" and {counted(done.dropped_moves, 'step')} of undo; {done.kept_objects:,} objects stay."
    )
    if not dry_run:
        longest = f"{done.longest_block_seconds * 1000:.0f} ms"
        click.echo(f"Freed {size(done.freed_bytes)}; no writer waited longer than {longest}.")
    if done.erased:
        click.echo("Erased: no file of the store has a byte of what was dropped.")
    elif done.residue:
        click.echo(f"Not erased: {safe(done.residue)}. Run it again.")


def _collected_json(done: CollectionReport) -> dict[str, object]:
    return {
        "kept_objects": done.kept_objects,
        "dropped_objects": done.dropped_objects,
        "dropped_moves": done.dropped_moves,
        "freed_bytes": done.freed_bytes,
        "longest_block_seconds": done.longest_block_seconds,
        "erased": done.erased,
        "residue": done.residue,
    }


def _seconds(duration: str) -> float:
    if duration == "now":
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", duration)
    if found is None:
        raise click.UsageError(f"{duration!r} is not a duration\nwrite 14d, 12h, 30m, 10s or now")
    return float(found[1]) * _SECONDS[found[2]]


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
def stats(asked: GlobalOptions, as_json: bool) -> None:
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


def _count(repo: BareRepo, branch: Branch | None) -> Stats:
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
        commits=sum(1 for _ in repo.backend.graph.log(*tips.values())),
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


_NEEDED = ("apsw", "blake3", "click", "cloudpickle", "msgspec", "xxhash", "zstandard")
_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
_ROUNDS = 15
_COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


class Finding(NamedTuple):
    """One thing that was looked at: ok, warn or bad, and the next move."""

    state: str
    what: str
    says: str
    hint: str = ""


@click.command("doctor")
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check Python, libraries, disk and store. Leaves with 1 if something is bad."""
    findings = list(_findings(ctx.obj))
    if as_json:
        emit({"findings": [finding._asdict() for finding in findings]})
    else:
        rows = [[_badge(found.state), found.what, found.says] for found in findings]
        for line, found in zip(table(rows), findings, strict=True):
            click.echo(line)
            if found.hint:
                click.echo(f"      {click.style(found.hint, fg='cyan')}")
    ctx.exit(int(any(finding.state == "bad" for finding in findings)))


def _badge(state: str) -> str:
    return click.style(state.ljust(4), fg=_COLORS[state], bold=True)


def _findings(asked: GlobalOptions) -> Iterator[Finding]:
    yield Finding("ok", "otolith", __version__)
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()}")
    yield from map(_library, _NEEDED)
    file, found = _store(asked)
    directory = file.parent if file is not None else asked.directory.resolve()
    yield _file_system(directory)
    yield _free_space(directory, file)
    yield from _disk(directory)
    yield from found
    if file is not None:
        yield _wal(file)
    yield _sandbox()


def _sandbox() -> Finding:
    """Tell in what steps of a workspace are confined here, and why not in something better."""
    rungs = dict(ladder())
    containers = [name for name in ("docker", "podman") if rungs.pop(name) is None]
    best = next(name for name, problem in rungs.items() if problem is None)
    says = f"steps run in {best}"
    if containers:
        says += f", or in {containers[0]} where an image is given"
    if best == "bubblewrap":
        return Finding("ok", "sandbox", says)
    says += f"; bubblewrap: {rungs['bubblewrap']}"
    return Finding("warn", "sandbox", says, "install bubblewrap, and allow user namespaces")


def _library(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("bad", name, "is not installed", f"pip install {name}")


def _store(asked: GlobalOptions) -> tuple[Path | None, list[Finding]]:
    """Return the file of the store, if it is one, and how it is."""
    try:
        place = find(asked)
        with opened(place.url, read_only=True) as repo:
            path = getattr(repo.store, "path", None)
            says = f"{place.url}, {counted(len(repo.sessions()), 'session')}"
            return (Path(path) if path else None), [Finding("ok", "store", says)]
    except StoreNotFound as error:
        return None, [Finding("warn", "store", error.message, "`otolith init` makes one here")]
    except Error as error:
        return None, [Finding("bad", "store", error.message, error.hint or "run `otolith fsck`")]


def _file_system(directory: Path) -> Finding:
    kind = _mounted(directory)
    if kind in _IN_MEMORY:
        hint = "keep a store that matters on a disk"
        return Finding("warn", "file system", f"{kind}: gone when the machine stops", hint)
    return Finding("ok", "file system", kind or "unknown")


def _mounted(directory: Path) -> str:
    """Return the kind of file system a directory is on, where the machine says."""
    best, kind = "", ""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields = left.split()
        point = fields[4] if len(fields) > 4 else ""
        if right and len(point) >= len(best) and directory.is_relative_to(point or "/"):
            best, kind = point, right.split()[0]
    return kind


def _free_space(directory: Path, file: Path | None) -> Finding:
    free = shutil.disk_usage(directory).free
    needed = max(100 << 20, 2 * file.stat().st_size if file is not None else 0)
    if free < needed:
        says = f"{size(free)}, less than {size(needed)}"
        return Finding("warn", "free space", says, "make room: a full disk refuses commits")
    return Finding("ok", "free space", size(free))


def _disk(directory: Path) -> Iterator[Finding]:
    """Measure a sync and a commit where the store is, in a scratch folder."""
    try:
        with tempfile.TemporaryDirectory(prefix=".otolith-doctor-", dir=directory) as scratch:
            yield _sync(Path(scratch))
            yield _commit(Path(scratch))
    except PermissionError:
        hint = "check its permissions; reading works all the same"
        yield Finding("warn", "writing", f"{directory} cannot be written", hint)


def _sync(scratch: Path) -> Finding:
    times = []
    with (scratch / "sync").open("wb", buffering=0) as file:
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    taken = median(times) * 1000
    says = f"{taken:.2f} ms (median of {_ROUNDS})"
    if taken > 25:
        hint = 'each commit waits for one; a faster disk or durability="fast" helps'
        return Finding("warn", "fsync", says, hint)
    return Finding("ok", "fsync", says)


def _commit(scratch: Path) -> Finding:
    """Make a store and commit: this is also where an SQLite that loses writes is refused."""
    try:
        with opened(str(scratch / "scratch.db"), create=True) as repo:
            branch = repo.session("doctor")
            times = []
            for number in range(_ROUNDS):
                branch["n"] = number
                began = time.perf_counter()
                branch.commit("measure")
                times.append(time.perf_counter() - began)
    except Error as error:
        return Finding("bad", "commit", error.message, error.hint)
    says = f"{median(times) * 1000:.2f} ms (median of {_ROUNDS}); SQLite is new enough"
    return Finding("ok", "commit", says)


def _wal(file: Path) -> Finding:
    log = Path(f"{file}-wal")
    taken = log.stat().st_size if log.exists() else 0
    if taken > 64 << 20:
        hint = "a process that reads for long keeps it from shrinking; close it"
        return Finding("warn", "write-ahead log", size(taken), hint)
    return Finding("ok", "write-ahead log", size(taken))
