"""`events`: what happened in a session, in order."""

from __future__ import annotations

import re
from datetime import datetime

import click

from otolith.agent import events as events_of
from otolith.cli.asked import Asked
from otolith.cli.place import at_hand
from otolith.cli.screen.output import emit, json_option, page
from otolith.cli.screen.runs import event_json, event_line


@click.command("events")
@click.argument("session", required=False)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable.")
@click.option("--agent", metavar="NAME", help="Only of this agent.")
@click.option("--since", metavar="WHEN", help="A time (ISO 8601), or a commit: what came after it.")
@click.option("--until", metavar="WHEN", help="A time, or a commit: what it contains.")
@click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help="The last N.")
@json_option
@click.pass_obj
def events(
    asked: Asked,
    *,
    session: str | None,
    kinds: tuple[str, ...],
    agent: str | None,
    since: str | None,
    until: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List what happened in a session, the oldest first."""
    asked = asked if session is None else asked._replace(session=session)
    with at_hand(asked, read_only=True) as desk:
        desk.head()  # says so if there is no such session
        found = events_of(
            desk.branch,
            kind=kinds or None,
            agent=agent,
            since=_moment(since),
            until=_moment(until),
            limit=limit,
        )
        if as_json:
            emit({"events": list(map(event_json, found))})
        else:
            page([*map(event_line, found)] or ["no events"], asked)


def _moment(text: str | None) -> datetime | str | None:
    """Return a time that has its zone, or what names a commit."""
    if text is None or not re.match(r"\d{4}-\d\d-\d\d", text):
        return text
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no time: {error}\nwrite 2026-11-16T09:30") from None
    return found if found.tzinfo is not None else found.astimezone()
