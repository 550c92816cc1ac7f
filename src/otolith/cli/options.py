"""Options that several commands share: the global ones, `--json`, `--session` and `--at`.

Global options stand before the command (`otolith -s trip log`). The program stores them in
`ctx.obj`, where commands find them by `@click.pass_obj`. `--json`, and the session that a command
names itself, are written into the same object by their callbacks. So a command that declares them
has no parameter for them, and a function that gets the options knows all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import click
from click.core import ParameterSource


class GlobalOptions(NamedTuple):
    """The store, session, branch and directory to work on, and the form of the output."""

    store: str | None = None
    session: str | None = None
    branch: str | None = None
    directory: Path = Path()
    is_paged: bool = True
    as_json: bool = False

    def for_session(self, session: str | None) -> GlobalOptions:
        """Return these options with the session that the command itself was given, if any."""
        return self if session is None else self._replace(session=session)


def _use_session(ctx: click.Context, _: click.Parameter, session: str | None) -> None:
    """Put the session of a command in the place of the global one."""
    ctx.obj = ctx.obj.for_session(session)


def _use_json(ctx: click.Context, _: click.Parameter, as_json: bool) -> None:
    """Remember that the output is for a program."""
    ctx.obj = ctx.obj._replace(as_json=as_json)


json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_use_json,
    help="One JSON object, for programs.",
)  # fmt: skip
session_argument = click.argument(
    "session", required=False, expose_value=False, callback=_use_session
)
session_option = click.option(
    "--session", metavar="ID", expose_value=False, callback=_use_session,
    help="The session.  [default: the current one]",
)  # fmt: skip
at_option = click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")


def reject_options(ctx: click.Context, names: Collection[str], why: str) -> None:
    """Refuse options that do not apply to this call, so that none is ignored silently.

    Raises:
        UsageError: one of them was given.
    """
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} {why}")
