"""`effects`: what agents did to the world, and deciding about what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from otolith.agent import Entry, Orchestrator, Versioned, ledger_in
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.place import at_hand
from otolith.cli.screen.output import emit, json_option, page, table
from otolith.cli.screen.values import one_line, to_json
from otolith.cli.screen.words import moment, safe
from otolith.errors import Invalid, KeyNotFound

_KEY_LETTERS = 10


@click.command("effects")
@click.argument("session", required=False)
@click.option("--unknown", is_flag=True, help="Only those of which nobody knows if they happened.")
@click.option("--settle", "key", metavar="KEY", help="Decide about one; its first digits will do.")
@click.option("--happened/--not-happened", default=None, help="What you found out, for --settle.")
@click.option("--result", metavar="JSON", help="What the tool returned, if it happened.")
@json_option
@click.pass_obj
def effects(
    asked: Asked,
    *,
    session: str | None,
    unknown: bool,
    key: str | None,
    happened: bool | None,
    result: str | None,
    as_json: bool,
) -> None:
    """List what agents did to the world in a session, the oldest first.

    A call that must not happen twice, and was begun by a process that died, may have happened or
    not. Find out, say so with `--settle`, and the run goes on. One that happened is not made again.
    """
    asked = asked if session is None else asked._replace(session=session)
    if key is not None and happened is None:
        raise click.UsageError("did it happen? say --happened or --not-happened")
    if key is None and (happened is not None or result is not None):
        raise click.UsageError("which one? say --settle KEY")
    with at_hand(asked, read_only=key is None) as desk:
        desk.head()
        assert isinstance(desk.branch, Versioned)
        loop = Orchestrator(desk.branch)
        found = {entry.key: entry for entry in ledger_in(desk.branch)}
        found |= {entry.key: entry for entry in loop.unknown_effects(desk.branch.session)}
        if key is not None:
            open_keys = [each for each, entry in found.items() if _is_open(entry)]
            chosen = _one(open_keys, key)
            loop.settle(
                chosen,
                happened=bool(happened),
                result=_parsed(result),
                session=desk.branch.session,
            )
            did = "happened" if happened else "did not happen, and will be done"
            told = f"{safe(found[chosen].tool)} {did}"
            emit({"settled": chosen, "happened": happened}) if as_json else page([told], asked)
            return
        listed = [entry for entry in found.values() if not unknown or _is_open(entry)]
        if as_json:
            emit({"effects": [_as_json(entry) for entry in listed]})
        else:
            page(_lines(listed), asked)


def _is_open(entry: Entry) -> bool:
    return entry.status in ("begun", "unknown")


def _one(keys: Sequence[str], start: str) -> str:
    fit = [key for key in keys if key.startswith(start)]
    if len(fit) != 1:
        known = ", ".join(key[:_KEY_LETTERS] for key in keys) or "none"
        what = f"no call {start!r} is open" if not fit else f"{start!r} is more than one call"
        raise worded(KeyNotFound(what, hint=f"open are: {known}"))
    return fit[0]


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise Invalid(f"--result is not JSON: {error}", hint="quote texts: '\"done\"'") from None


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    if not entries:
        yield "nothing was done to the world"
        return
    rows = [["when", "key", "status", "run", "step", "call"]]
    for each in entries:
        call = f"{safe(each.tool)} {one_line(dict(each.arguments))}"
        rows.append([
            moment(each.time), each.key[:_KEY_LETTERS], each.status, safe(each.run),
            str(each.iteration + 1), call,
        ])  # fmt: skip
    yield from table(rows)


def _as_json(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = to_json({"key": entry.key, **entry.to_data()})
    return found
