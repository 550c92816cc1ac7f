"""`effects`: what agents did to the world, and deciding about what nobody knows."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from typing import Any

import click

from otolith.agent import Entry, Orchestrator, Versioned, effects_after, ledger_in
from otolith.cli.asked import Asked
from otolith.cli.failures import worded
from otolith.cli.place import at_hand
from otolith.cli.running.going import KEY_LETTERS, open_effects
from otolith.cli.safety import safe
from otolith.cli.screen.output import emit, json_option, page, table
from otolith.cli.screen.values import one_line, to_json
from otolith.cli.screen.words import moment
from otolith.errors import Invalid, KeyNotFound

OPEN = ("begun", "unknown")


@click.command("effects")
@click.argument("session", required=False)
@click.option("--unknown", is_flag=True, help="Only those of which nobody knows if they happened.")
@click.option("--settle", "key", metavar="KEY", help="Decide about one; its first digits will do.")
@click.option("--happened", is_flag=True, help="For --settle: you found out that it happened.")
@click.option("--not-happened", is_flag=True, help="For --settle: you found out that it did not.")
@click.option("--result", metavar="JSON", help="What the tool returned, if it happened.")
@json_option
@click.pass_obj
def effects(
    asked: Asked,
    *,
    session: str | None,
    unknown: bool,
    key: str | None,
    happened: bool,
    not_happened: bool,
    result: str | None,
    as_json: bool,
) -> None:
    """List what agents did to the world in a session, the oldest first.

    What a rollback has left behind stays done, and is marked. A call that must not happen twice,
    and was begun by a process that died, may have happened or not. Find out, say so with
    `--settle`, and the run goes on. One that happened is not made again.
    """
    asked = asked if session is None else asked._replace(session=session)
    if key is not None and happened is not_happened:  # a guess could do it a second time
        raise click.UsageError("did it happen? say --happened or --not-happened, one of them")
    if key is None and (happened or not_happened or result is not None):
        raise click.UsageError("which one? say --settle KEY")
    if not_happened and result is not None:
        raise click.UsageError("what did not happen has no --result")
    with at_hand(asked, read_only=key is None, is_staged=False) as desk:
        desk.head()
        state = desk.branch
        assert isinstance(state, Versioned)
        if key is not None:
            told = _settled(state, key, happened=happened, result=_parsed(result))
            page([told], asked)
            return
        here = {entry.key: entry for entry in (*ledger_in(state), *open_effects(state))}
        ever = {entry.key: entry for entry in effects_after(state)} | here
        listed = [entry for entry in ever.values() if not unknown or entry.status in OPEN]
        listed.sort(key=lambda entry: entry.time)
        if as_json:
            emit({"effects": [_as_json(each, is_left=each.key not in here) for each in listed]})
        else:
            page(_lines(listed, here), asked)


def _settled(state: Versioned, start: str, *, happened: bool, result: Any) -> str:
    """Decide about the one open call whose key starts so; return what was decided."""
    known = {entry.key: entry for entry in open_effects(state)}
    fit = [entry for key, entry in known.items() if key.startswith(start)]
    if len(fit) != 1:
        keys = ", ".join(key[:KEY_LETTERS] for key in known) or "none"
        what = f"{start!r} is more than one call" if fit else f"no call {start!r} is open"
        raise worded(KeyNotFound(what, hint=f"open are: {keys}"))
    Orchestrator(state).settle(fit[0].key, happened=happened, result=result, session=state.session)
    return f"{safe(fit[0].tool)} {'happened' if happened else 'did not happen, and will be done'}"


def _parsed(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise Invalid(f"--result is not JSON: {error}", hint="quote texts: '\"done\"'") from None


def _lines(entries: Sequence[Entry], here: Container[str]) -> Iterator[str]:
    if not entries:
        yield "nothing was done to the world"
        return
    rows = [["when", "key", "status", "run", "step", "call"]]
    for each in entries:
        call = f"{safe(each.tool)} {one_line(dict(each.arguments))}"
        rows.append([
            moment(each.time), each.key[:KEY_LETTERS], _status(each, here), safe(each.run),
            str(each.iteration + 1), call,
        ])  # fmt: skip
    yield from table(rows)


def _status(entry: Entry, here: Container[str]) -> str:
    return entry.status if entry.key in here else f"{entry.status}, rolled back"


def _as_json(entry: Entry, *, is_left: bool) -> dict[str, Any]:
    data = {"key": entry.key, **entry.to_data(), "rolled_back": is_left}
    found: dict[str, Any] = to_json(data)
    return found
