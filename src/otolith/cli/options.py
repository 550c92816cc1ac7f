"""Options before the command, which every command has, and options that do not apply to a call."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import click
from click.core import ParameterSource


class GlobalOptions(NamedTuple):
    """The options given before the command."""

    store: str | None = None
    session: str | None = None
    branch: str | None = None
    directory: Path = Path()
    is_paged: bool = True

    def for_session(self, session: str | None) -> GlobalOptions:
        """Return these options with the session that the command itself was given, if any."""
        return self if session is None else self._replace(session=session)


def reject_options(ctx: click.Context, names: Collection[str], why: str) -> None:
    """Refuse options that do not apply to this call, so that none is ignored silently.

    Raises:
        UsageError: one of them was given.
    """
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} {why}")
