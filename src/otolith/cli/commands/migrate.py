"""`migrate`: list and rewrite the values that older versions of the user's classes stored.

Unlike other commands, this one imports the user's modules, because they define the migrations. It
opens the store with codecs that load models strictly, so that a class that is missing is reported
as a failure of its values. `plan` and `--dry-run` are read-only. `apply` makes one commit for each
branch on which everything can be migrated; the other branches are not touched, and the exit code
is 7.

JSON: ok, dry_run, branches (branch, ref, commit, values).
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import click

from otolith import care, opening
from otolith.cli.errors import ExitCode
from otolith.cli.format.history import plural
from otolith.cli.location import find, only_state
from otolith.cli.options import GlobalOptions, SessionCommand, json_option, session_argument
from otolith.cli.terminal import emit, end_progress, escape, progress_line, table
from otolith.codecs import Codecs
from otolith.errors import Invalid
from otolith.state import Schema
from otolith.types import Tag

_SHOWN_PATHS = 3

# Errors of importing a faulty module; an interrupt, or a lack of memory, is not one of them.
_FAULTS = (
    ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, LookupError,
    ArithmeticError, AssertionError, RuntimeError, OSError,
)  # fmt: skip


@click.command("migrate", cls=SessionCommand)
@click.argument("action", type=click.Choice(["plan", "apply"]))
@session_argument
@click.option(
    "--all", "everything", is_flag=True, help="All sessions, users, applications and teams."
)
@click.option(
    "--module", "modules", multiple=True, required=True, metavar="MODULE",
    help="A module that defines your models and migrations. It is imported, which runs it.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Migrate and encode every value, but write nothing.")
@json_option
@click.pass_context
def migrate(
    ctx: click.Context,
    *,
    action: str,
    everything: bool,
    modules: tuple[str, ...],
    dry_run: bool,
) -> None:
    """List (plan) or rewrite (apply) the values that older versions of your classes stored.

    It covers the branches of SESSION, by default the current one. The modules are searched in the
    current directory, and where Python searches; importing them runs your code. `apply` makes one
    commit for each branch, or none if a value there cannot be migrated; then the exit code is 7.
    History stays unchanged.
    """
    options: GlobalOptions = ctx.obj
    options.require_session()
    if everything and options.session is not None:
        raise click.UsageError("name a session, or use --all")
    location = find(options)
    _import(modules, options)
    is_read_only, progress = action == "plan" or dry_run, progress_line()
    with opening.open(
        location.url, codecs=_ModelCodecs(), create=False, read_only=is_read_only
    ) as repo:
        chosen = None if everything else location.session or only_state(repo)
        where = {"session": chosen, "branch": options.branch}
        if action == "plan":
            plans = care.plan_migration(repo, **where, progress=progress)
        else:
            plans = care.apply_migration(
                repo, **where, progress=progress, dry_run=dry_run, validate=_validate
            )
    end_progress()
    if options.as_json:
        emit(_json(plans, dry_run=is_read_only))
    else:
        for line in _lines(plans, action=action, dry_run=dry_run):
            click.echo(line)
    ctx.exit(ExitCode.UNSUPPORTED if any(plan.failures for plan in plans) else ExitCode.OK)


class _ModelCodecs(Codecs):
    """Loads models and custom values strictly; other values of unknown types stay opaque."""

    def __init__(self) -> None:
        super().__init__(opaque=True)
        self._strict = Codecs()

    def lift(self, code: int, data: object) -> object:
        """Return the value of stored data."""
        if code in (Tag.MODEL, Tag.STATE, Tag.CUSTOM):
            return self._strict.lift(code, data)
        return super().lift(code, data)


def _validate(kind: type, fields: dict[str, Any]) -> None:
    """Raise an Error unless the values of a state fit the model of its schema."""
    schema = Schema.of(kind)
    schema.complete(fields)
    for name, value in fields.items():
        schema.check(name, value, when="in")


def _import(modules: Iterable[str], options: GlobalOptions) -> None:
    """Import the user's modules, from the current directory too.

    Raises:
        Invalid: one of them cannot be imported.
    """
    here = str(options.directory.resolve())
    if here not in sys.path:
        sys.path.insert(0, here)
    for name in modules:
        try:
            importlib.import_module(name)
        except _FAULTS as error:
            raise Invalid(
                f"the module {name} cannot be imported: {type(error).__name__}: {error}",
                hint=f"try `python3 -c 'import {name}'` in {here}",
            ) from error


# ---------------------------------------------------------------- on the screen


def _lines(plans: list[care.MigrationPlan], *, action: str, dry_run: bool) -> Iterator[str]:
    """Yield the stale values of each branch, why some cannot be migrated, and a summary."""
    stale = [plan for plan in plans if plan.values]
    for plan in stale:
        yield click.style(escape(plan.name), bold=True)
        yield from (f"  {line}" for line in table([*_rows(plan)], right=[2]))
        for why in dict.fromkeys(value.why for value in plan.failures):
            yield f"  {click.style('cannot', fg='red', bold=True)}: {escape(why)}"
    if not stale:
        yield "Nothing to migrate: every value has the current version."
        return
    yield from _summary(stale, action=action, dry_run=dry_run)


def _rows(plan: care.MigrationPlan) -> Iterator[list[str]]:
    """Yield a row for values of the same class and version: versions, count, first paths."""
    groups: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for value in plan.values:
        groups[value._replace(path="")].append(value.path)
    for key, paths in groups.items():
        value = care.StaleValue(*key)  # type: ignore[arg-type]
        listed = ", ".join(paths[:_SHOWN_PATHS]) + (", …" if len(paths) > _SHOWN_PATHS else "")
        renamed = f"{escape(str(value.today))} " if value.today != value.name else ""
        versions = f"{value.version} -> {renamed}{value.today_version}"
        if value.why:
            versions = click.style(f"{value.version} -> ?", fg="red")
        yield [escape(value.name), versions, plural(len(paths), "value"), escape(listed)]


def _summary(stale: list[care.MigrationPlan], *, action: str, dry_run: bool) -> Iterator[str]:
    """Yield what was done or would be, and which branches stay unchanged."""
    able = [plan for plan in stale if not plan.failures]
    count = plural(sum(len(plan.values) for plan in able), "value")
    where = plural(len(able), "branch", "branches")
    if action == "plan":
        yield f"{count} to migrate on {where}. `otolith migrate apply --dry-run` tries it."
    elif dry_run:
        yield f"Would migrate {count} on {where}."
    else:
        for plan in able:
            assert plan.commit is not None
            yield escape(f"[{plan.name} {plan.commit.short}] {plan.commit.message}")
    if len(able) < len(stale):
        left = plural(len(stale) - len(able), "branch", "branches")
        verb = "stays" if len(stale) - len(able) == 1 else "stay"
        yield f"{left} {verb} unchanged: a value there cannot be migrated."


def _json(plans: list[care.MigrationPlan], *, dry_run: bool) -> dict[str, object]:
    """Return the plans as JSON data; `ok` is false if a value cannot be migrated."""
    branches = [
        {
            "branch": plan.name,
            "ref": plan.ref,
            "commit": None if plan.commit is None else plan.commit.id,
            "values": [value._asdict() for value in plan.values],
        }
        for plan in plans
    ]
    is_ok = not any(plan.failures for plan in plans)
    return {"ok": is_ok, "dry_run": dry_run, "branches": branches}
