"""How the variables of a session are written on a screen, told without reading any of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

from otolith.agent import Variable, variables_in
from otolith.cli.failures import worded
from otolith.cli.place import suggesting
from otolith.cli.safety import safe
from otolith.cli.screen.output import table
from otolith.cli.screen.words import screen_width, size
from otolith.core import Reading
from otolith.errors import KeyNotFound


def known(state: Reading) -> dict[str, Variable]:
    """Return what is known of the variables of a state, by name."""
    return {found.name: found for found in variables_in(state)}


def one_of(found: dict[str, Variable], name: str) -> Variable:
    """Return what is known of a variable; a near miss is suggested."""
    if name not in found:
        near = suggesting("", name, list(found), "`otolith vars` lists them")
        raise worded(KeyNotFound(f"there is no variable {name}", hint=near.hint))
    return found[name]


def variable_json(one: Variable) -> dict[str, Any]:
    """Return what is known of a variable, for programs."""
    return asdict(one) | {"hint": hint_of(one)}


def line_of(one: Variable) -> str:
    """Return how a variable begins, or why it is not there."""
    return safe(f"lost: {one.why}" if one.kind == "lost" else " ".join(one.preview.split()))


def lines_of(found: dict[str, Variable]) -> list[str]:
    """Return variables as a table."""
    rows = [
        [
            click.style(safe(each.name), bold=True),
            safe(each.type),
            _extent(each),
            "" if each.kind == "lost" else size(each.bytes),
            f"step {each.step}",
            click.style(line_of(each), fg="red") if each.kind == "lost" else line_of(each),
        ]
        for each in found.values()
    ]
    width = screen_width()
    return [_cut(line, width) for line in table(rows, right=(2, 3))] or ["No variable yet."]


def _extent(one: Variable) -> str:
    if one.shape is not None:
        return " x ".join(f"{length:,}" for length in one.shape)
    return "" if one.length is None else f"{one.length:,}"


def _cut(line: str, width: int) -> str:
    bare = click.unstyle(line)
    return line if len(bare) <= width else line[: len(line) - len(bare) + width - 1] + "…"


def hint_of(one: Variable) -> str:
    """Return what to do to have a variable, in a terminal."""
    if one.kind == "object":
        return f"`otolith exec SESSION -c {one.name}` shows it"
    return one.hint


def description(one: Variable) -> Iterator[str]:
    """Yield all that is known of a variable."""
    yield f"{click.style(safe(one.name), bold=True)}: {safe(one.type)}"
    facts = {"kind": one.kind, "step": str(one.step), "size": size(one.bytes)}
    facts |= {"shape": _extent(one)} if one.shape is not None else {}
    facts |= {"length": _extent(one)} if one.length is not None else {}
    facts |= {"why": one.why} if one.why else {}
    facts |= {"hint": hint_of(one)} if one.hint else {}
    yield from table([[f"  {fact}", safe(said)] for fact, said in facts.items()])
    if one.columns:
        yield "  columns"
        yield from table([[safe(f"    {name}"), safe(kind)] for name, kind in one.columns])
    yield from (f"  {line}" for line in safe(one.preview).splitlines())
