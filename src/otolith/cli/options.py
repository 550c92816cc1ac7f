"""Options that were given, and mean nothing for what is to be done.

What the options before the verb asked for.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import click
from click.core import ParameterSource


class GlobalOptions(NamedTuple):
    """The global options of one call."""

    store: str | None = None
    session: str | None = None
    branch: str | None = None
    directory: Path = Path()
    is_paged: bool = True


def reject_options(ctx: click.Context, names: Collection[str], why: str) -> None:
    """Refuse options that somebody gave where they do not apply: none is ignored in silence.

    Raises:
        UsageError: one was given.
    """
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name in names and source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} {why}")
