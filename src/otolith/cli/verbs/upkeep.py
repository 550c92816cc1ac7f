"""Keeping a store well: `fsck` checks it, `gc` drops what nothing reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

from otolith import care
from otolith.cli.asked import Asked
from otolith.cli.place import find, opened, seen_from
from otolith.cli.safety import safe
from otolith.cli.screen.output import emit, end_progress, json_option, progress_line
from otolith.cli.screen.words import counted, size
from otolith.stores import Collected, Store, open_store

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
    asked: Asked = ctx.obj
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
def _replica(asked: Asked, url: str | None) -> Iterator[Store | None]:
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
def gc(asked: Asked, dry_run: bool, expire: str, as_json: bool) -> None:
    """Drop what no branch, tag or undo reaches, and give the space back to the file system.

    Others may read and write meanwhile. What is dropped is gone: --dry-run looks first.
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


def _collected_json(done: Collected) -> dict[str, object]:
    return {
        "kept_objects": done.kept_objects,
        "dropped_objects": done.dropped_objects,
        "dropped_moves": done.dropped_moves,
        "freed_bytes": done.freed_bytes,
        "longest_block_seconds": done.longest_block_seconds,
    }


def _seconds(duration: str) -> float:
    if duration == "now":
        return 0.0
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", duration)
    if found is None:
        raise click.UsageError(f"{duration!r} is not a duration\nwrite 14d, 12h, 30m, 10s or now")
    return float(found[1]) * _SECONDS[found[2]]
