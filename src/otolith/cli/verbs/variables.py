"""`vars`: what a session has in its variables, told without reading any of them."""

from __future__ import annotations

import click

from otolith.cli.asked import Asked
from otolith.cli.place import at_hand
from otolith.cli.screen.output import emit, json_option, page
from otolith.cli.screen.variables import description, known, lines_of, one_of, variable_json


@click.command("vars")
@click.argument("session", required=False)
@click.argument("name", required=False)
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def variables(asked: Asked, session: str | None, name: str | None, ref: str, as_json: bool) -> None:
    """List the variables of a session, or tell all that is known of NAME.

    SESSION is the one at hand unless given. Nothing is unpickled, and no large value is read.
    """
    if session is not None:
        asked = asked._replace(session=session)
    with at_hand(asked, read_only=True) as desk:
        found = known(desk.repo.at(desk.commit(ref)))
    if name is None:
        if as_json:
            emit({"variables": [variable_json(each) for each in found.values()]})
        else:
            page(lines_of(found), asked)
        return
    one = one_of(found, name)
    if as_json:
        emit(variable_json(one))
    else:
        page(description(one), asked)
