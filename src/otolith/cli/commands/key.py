"""`key`: the keys that sign pickles: shows them, makes a new one, and signs with it.

A key is shown by its id, a digest of it; the key itself is never printed. `rotate` and `forget`
change the key file of this user, `sign` the current states of a store. No pickle is loaded.

JSON: `keys` (id, is_current), and of `sign`: ok, dry_run, branches (branch, ref, commit, values).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from otolith import care, environment, opening
from otolith.cli.errors import ExitCode
from otolith.cli.format.history import plural
from otolith.cli.location import find, only_state
from otolith.cli.options import (
    GlobalOptions,
    SessionCommand,
    json_option,
    reject_options,
    session_argument,
)
from otolith.cli.terminal import emit, end_progress, escape, output, progress_line
from otolith.core import digest

_ID_BYTES = 4
_ID_DOMAIN = b"otolith id of a key"


@click.command("key", cls=SessionCommand)
@click.argument("action", type=click.Choice(["show", "rotate", "sign", "forget"]), default="show")
@session_argument
@click.option(
    "--all", "everything", is_flag=True, help="All sessions, users, applications and teams."
)
@click.option("--dry-run", is_flag=True, help="List what would be signed, and write nothing.")
@json_option
@click.pass_context
def key(ctx: click.Context, *, action: str, everything: bool, dry_run: bool) -> None:
    """Show the keys that sign your pickles, or rotate them.

    `rotate` puts a new key first in your key file: it signs from now on, and the others are still
    read. `sign` signs the current states of SESSION, or of all with --all, with the new key.
    `forget` removes all keys but the first; what only they have signed cannot be loaded any more.
    """
    options: GlobalOptions = ctx.obj
    if action == "sign":
        ctx.exit(_sign(options, everything=everything, dry_run=dry_run))
    reject_options(ctx, ("everything", "dry_run"), "applies to `otolith key sign`")
    if action == "show":
        found = environment.secrets()
    else:
        found = environment.rotate_secret(forget_others=action == "forget")
    ids = [digest(_ID_DOMAIN + each)[:_ID_BYTES].hex() for each in found]
    keys = [{"id": id, "is_current": not at} for at, id in enumerate(ids)]
    output(options, lambda: {"keys": keys}, _key_lines(ids))


def _key_lines(ids: Sequence[str]) -> Iterator[str]:
    for at, id in enumerate(ids):
        yield f"{id}  {'only read' if at else 'signs'}"


def _sign(options: GlobalOptions, *, everything: bool, dry_run: bool) -> ExitCode:
    """Sign current states anew; return the exit code."""
    options.require_session()
    if everything and options.session is not None:
        raise click.UsageError("name a session, or use --all")
    location, progress = find(options), progress_line()
    with opening.open(location.url, create=False, read_only=dry_run) as repo:
        chosen = None if everything else location.session or only_state(repo)
        plans = care.sign_anew(
            repo, session=chosen, branch=options.branch, dry_run=dry_run, progress=progress
        )
    end_progress()
    is_ok = not any(plan.failures for plan in plans)
    if options.as_json:
        emit({"ok": is_ok, "dry_run": dry_run, "branches": [_plan_json(each) for each in plans]})
    else:
        for line in _plan_lines(plans, dry_run=dry_run):
            click.echo(line)
    return ExitCode.OK if is_ok else ExitCode.UNSUPPORTED


def _plan_json(plan: care.MigrationPlan) -> dict[str, object]:
    return {
        "branch": plan.name,
        "ref": plan.ref,
        "commit": None if plan.commit is None else plan.commit.id,
        "values": [{"path": each.path, "type": each.name, "why": each.why} for each in plan.values],
    }


def _plan_lines(plans: Sequence[care.MigrationPlan], *, dry_run: bool) -> Iterator[str]:
    """Yield what was signed on each branch, or would be, and what another key has signed."""
    for plan in plans:
        able = plural(len(plan.values) - len(plan.failures), "pickle")
        if plan.commit is not None:
            yield escape(f"[{plan.name} {plan.commit.short}] {plan.commit.message}")
        elif dry_run and len(plan.values) > len(plan.failures):
            yield f"{escape(plan.name)}: would sign {able} anew"
        for each in plan.failures:
            yield f"{escape(plan.name)}: {escape(each.path)} stays as it is: {escape(each.why)}"
    if not any(plan.values for plan in plans):
        yield "Nothing to sign: every pickle has the signature of the current key."
