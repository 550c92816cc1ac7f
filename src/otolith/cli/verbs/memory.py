"""`memory`: what an agent has in mind: its goal and task, its plan, its notes."""

from __future__ import annotations

import click

from otolith.agent import Then
from otolith.cli.asked import Asked
from otolith.cli.place import at_hand
from otolith.cli.screen.memory import memory_json, memory_lines
from otolith.cli.screen.output import emit, json_option, page


@click.command("memory")
@click.argument("session", required=False)
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def memory(asked: Asked, *, session: str | None, ref: str, as_json: bool) -> None:
    """Show the goal of an agent, how far its task and its plan are, and what it has noted."""
    asked = asked if session is None else asked._replace(session=session)
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        then = desk.repo.at(desk.commit(ref))
        assert isinstance(then, Then)
        if as_json:
            emit(memory_json(then))
        else:
            page(memory_lines(then), asked)
