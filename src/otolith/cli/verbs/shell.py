"""`shell`: a prompt on a session, where each input is a step and a commit."""

from __future__ import annotations

from typing import Any

import click

from otolith.cli.asked import Asked
from otolith.cli.running.bench import Limits, bench_at, options
from otolith.cli.running.prompt import lines_in
from otolith.cli.running.repl import Repl


@click.command("shell")
@click.argument("session", required=False)
@options
@click.pass_obj
def shell(asked: Asked, /, *, session: str | None, **limits: Any) -> None:
    """Type Python at a prompt, on the variables and files of a session.

    Each input is a step and a commit. SESSION is the one at hand unless given. Ctrl-C interrupts
    the step, Ctrl-D leaves, `:help` lists what else there is. Without a terminal, input is read
    from standard input.
    """
    with bench_at(asked, session, Limits(**limits), mode="warm") as bench, lines_in() as lines:
        Repl(bench, lines).loop()
