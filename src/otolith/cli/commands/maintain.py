"""`doctor`: is this machine fit for a store, and what to do where it is not."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click

from otolith import __version__
from otolith.agent import ladder
from otolith.cli.asked import Asked
from otolith.cli.place import find, opened
from otolith.cli.screen.output import emit, json_option, table
from otolith.cli.screen.words import counted, size
from otolith.errors import Error, StoreNotFound

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


def _findings(asked: Asked) -> Iterator[Finding]:
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
    rungs = ladder()
    best = next(name for name, problem in rungs if problem is None)
    missing = [f"{name}: {why}" for name, why in rungs if why is not None and name != "docker"]
    says = f"steps run in {best}"
    if best in ("docker", "podman", "bubblewrap"):
        return Finding("ok", "sandbox", says)
    return Finding("warn", "sandbox", f"{says}; {missing[-1]}", "apt-get install bubblewrap")


def _library(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("bad", name, "is not installed", f"pip install {name}")


def _store(asked: Asked) -> tuple[Path | None, list[Finding]]:
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
