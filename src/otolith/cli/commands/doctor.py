"""`doctor`: check whether this machine or a server can hold a store, and what to do if it cannot.

A check is a function that returns a `Diagnosis`; none raises, so that all are shown. `warn` means
that a store works, but slower or less safe than it could; only `bad` makes the exit code 1. The
disk is measured in a scratch folder beside the store, which is removed; the store is not changed.
For a store on a server, `server_checks` has the checks, and the disk of this machine has none.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from otolith import __version__
from otolith.cli.format.history import plural
from otolith.cli.location import find, open_repo
from otolith.cli.options import GlobalOptions, json_option
from otolith.cli.server_checks import ROUNDS, Diagnosis, is_on_server, median_ms, server_checks
from otolith.cli.terminal import emit, table
from otolith.errors import Error, StoreNotFound
from otolith.text import size_text
from otolith.workspace import sandbox_status

# The packages that otolith cannot work without, and file systems that forget.
_NEEDED = ("apsw", "blake3", "click", "cloudpickle", "msgspec", "xxhash", "zstandard")
_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}
_SLOW_SYNC_MS = 25
_LARGE_LOG_BYTES = 64 << 20
_LEAST_FREE_BYTES = 100 << 20
_COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command("doctor")
@click.argument("url", required=False, metavar="[URL]")
@json_option
@click.pass_context
def doctor(ctx: click.Context, url: str | None) -> None:
    """Check Python, libraries, disk, store and sandbox. Exits with 1 if a check is bad.

    URL is a store to check instead of the current one. Of a store on a server it says what the
    server can promise, how it can lose commits, and how long it takes to answer.
    """
    options = ctx.obj if url is None else ctx.obj._replace(store=url)
    findings = list(_findings(options))
    if ctx.obj.as_json:
        emit({"findings": [finding._asdict() for finding in findings]})
    else:
        rows = [
            [click.style(each.state.ljust(4), fg=_COLORS[each.state], bold=True), *each[1:3]]
            for each in findings
        ]
        for line, found in zip(table(rows), findings, strict=True):
            click.echo(line)
            if found.hint:
                click.echo(f"      {click.style(found.hint, fg='cyan')}")
    ctx.exit(int(any(finding.state == "bad" for finding in findings)))


def _findings(options: GlobalOptions) -> Iterator[Diagnosis]:
    """Yield all checks, from what everything needs to what only some do."""
    yield Diagnosis("ok", "otolith", __version__)
    yield Diagnosis("ok", "python", f"{platform.python_version()} on {platform.system()}")
    for name in _NEEDED:
        try:
            yield Diagnosis("ok", name, version(name))
        except PackageNotFoundError:
            yield Diagnosis("bad", name, "is not installed", f"pip install {name}")
    url = _server_url(options)
    yield from _local_checks(options) if url is None else server_checks(url)
    yield _sandbox()


def _server_url(options: GlobalOptions) -> str | None:
    """Return the URL of the store if it is on a server."""
    try:
        url = find(options).url
    except Error:  # which `_store` reports
        return None
    return url if is_on_server(url) else None


def _local_checks(options: GlobalOptions) -> Iterator[Diagnosis]:
    """Check the disk, and the store on it."""
    file, found = _store(options)
    directory = file.parent if file is not None else options.directory.resolve()
    yield _file_system(directory)
    yield _free_space(directory, file)
    yield from _disk(directory)
    yield from found
    if file is not None:
        yield _wal(file)


def _sandbox() -> Diagnosis:
    """Name the sandbox that steps of a workspace run in here, and why not in a better one."""
    rungs = dict(sandbox_status())
    containers = [name for name in ("docker", "podman") if rungs.pop(name) is None]
    best = next(name for name, problem in rungs.items() if problem is None)
    says = f"steps run in {best}"
    if containers:
        says += f", or in {containers[0]} where an image is given"
    if best == "bubblewrap":
        return Diagnosis("ok", "sandbox", says)
    says += f"; bubblewrap: {rungs['bubblewrap']}"
    return Diagnosis("warn", "sandbox", says, "install bubblewrap, and allow user namespaces")


def _store(options: GlobalOptions) -> tuple[Path | None, list[Diagnosis]]:
    """Return the file of the store, if it is a file, and its diagnosis."""
    try:
        location = find(options)
        with open_repo(location.url, read_only=True) as repo:
            path = getattr(repo.store, "path", None)
            says = f"{location.url}, {plural(len(repo.sessions()), 'session')}"
            return (Path(path) if path else None), [Diagnosis("ok", "store", says)]
    except StoreNotFound as error:
        return None, [Diagnosis("warn", "store", error.message, "`otolith init` makes one here")]
    except Error as error:
        return None, [Diagnosis("bad", "store", error.message, error.hint or "run `otolith fsck`")]


def _file_system(directory: Path) -> Diagnosis:
    """Warn of a file system in memory: a store there does not survive a restart."""
    kind = _mounted(directory)
    if kind in _IN_MEMORY:
        hint = "put a store that matters on a disk"
        return Diagnosis("warn", "file system", f"{kind}: gone when the machine stops", hint)
    return Diagnosis("ok", "file system", kind or "unknown")


def _mounted(directory: Path) -> str:
    """Return the file system of a directory, or nothing if the machine does not tell."""
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


def _free_space(directory: Path, file: Path | None) -> Diagnosis:
    """Warn if the disk has less space than twice the store, which a rebuild may need."""
    free = shutil.disk_usage(directory).free
    needed = max(_LEAST_FREE_BYTES, 2 * file.stat().st_size if file is not None else 0)
    if free < needed:
        says = f"{size_text(free)}, less than {size_text(needed)}"
        return Diagnosis("warn", "free space", says, "free some space: a full disk refuses commits")
    return Diagnosis("ok", "free space", size_text(free))


def _disk(directory: Path) -> Iterator[Diagnosis]:
    """Measure a sync and a commit in a scratch folder beside the store."""
    try:
        with tempfile.TemporaryDirectory(prefix=".otolith-doctor-", dir=directory) as scratch:
            yield _sync(Path(scratch))
            yield _commit(Path(scratch))
    except PermissionError:
        hint = "check its permissions; reading still works"
        yield Diagnosis("warn", "writing", f"{directory} cannot be written", hint)


def _sync(scratch: Path) -> Diagnosis:
    """Measure a write that is synced, the least that a durable commit costs."""
    with (scratch / "sync").open("wb", buffering=0) as file:

        def write(_: int) -> None:
            """Write a page, and wait until it is on the disk."""
            file.write(b"x" * 4096)
            os.fsync(file.fileno())

        taken = median_ms(write)
    says = f"{taken:.2f} ms (median of {ROUNDS})"
    if taken > _SLOW_SYNC_MS:
        hint = 'each commit waits for one; a faster disk or durability="fast" helps'
        return Diagnosis("warn", "fsync", says, hint)
    return Diagnosis("ok", "fsync", says)


def _commit(scratch: Path) -> Diagnosis:
    """Measure a commit. Making the store also refuses an SQLite library that can lose writes."""
    try:
        with open_repo(str(scratch / "scratch.db"), create=True) as repo:
            branch = repo.session("doctor")

            def commit(number: int) -> None:
                """Commit a change of one value."""
                branch["n"] = number
                branch.commit("measure")

            taken = median_ms(commit)
    except Error as error:
        return Diagnosis("bad", "commit", error.message, error.hint)
    says = f"{taken:.2f} ms (median of {ROUNDS}); SQLite is new enough"
    return Diagnosis("ok", "commit", says)


def _wal(file: Path) -> Diagnosis:
    """Warn of a write-ahead log that is not written back to the store."""
    log = Path(f"{file}-wal")
    taken = log.stat().st_size if log.exists() else 0
    if taken > _LARGE_LOG_BYTES:
        hint = "a long-running reader prevents a checkpoint; close it"
        return Diagnosis("warn", "write-ahead log", size_text(taken), hint)
    return Diagnosis("ok", "write-ahead log", size_text(taken))
