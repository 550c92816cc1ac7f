"""How the variables of a session are written on a screen, told without reading any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from otolith.cli.failures import worded
from otolith.cli.place import suggesting
from otolith.cli.screen.output import table
from otolith.cli.screen.words import screen_width, size
from otolith.core import WORKSPACE, Reading
from otolith.errors import KeyNotFound


class Known(NamedTuple):
    """What a session knows of one variable."""

    name: str
    kind: str
    type: str
    shape: list[int] | None
    length: int | None
    bytes: int
    step: int
    columns: list[list[str]]
    preview: str
    why: str
    hint: str

    @property
    def extent(self) -> str:
        if self.shape is not None:
            return " x ".join(f"{length:,}" for length in self.shape)
        return "" if self.length is None else f"{self.length:,}"

    @property
    def line(self) -> str:
        """How it begins, or why it is not there."""
        return f"lost: {self.why}" if self.kind == "lost" else " ".join(self.preview.split())


def known(state: Reading) -> dict[str, Known]:
    """Return what is known of the variables of a state, by name."""
    cell = state.cell_at((WORKSPACE, "vars"))
    index = {} if cell is None else state.cells.load(cell)
    entries = index.items() if isinstance(index, dict) else ()
    return {str(name): _known(str(name), entry) for name, entry in sorted(entries)}


def _known(name: str, entry: dict[str, Any]) -> Known:
    return Known(
        name=name,
        kind=str(entry.get("kind", "")),
        type=str(entry.get("type", "")),
        shape=entry.get("shape"),
        length=entry.get("length"),
        bytes=int(entry.get("bytes", 0)),
        step=int(entry.get("step", entry.get("made", 0))),
        columns=[list(map(str, column)) for column in entry.get("columns", ())],
        preview=str(entry.get("preview", "")),
        why=str(entry.get("why", "")),
        hint=str(entry.get("hint", "")),
    )


def one_of(found: dict[str, Known], name: str) -> Known:
    """Return what is known of a variable; a near miss is suggested."""
    if name not in found:
        near = suggesting("", name, list(found), "`otolith vars` lists them")
        raise worded(KeyNotFound(f"there is no variable {name}", hint=near.hint))
    return found[name]


def lines_of(found: dict[str, Known]) -> list[str]:
    """Return variables as a table."""
    rows = [
        [
            click.style(each.name, bold=True),
            each.type,
            each.extent,
            "" if each.kind == "lost" else size(each.bytes),
            f"step {each.step}",
            click.style(each.line, fg="red") if each.kind == "lost" else each.line,
        ]
        for each in found.values()
    ]
    width = screen_width()
    return [_cut(line, width) for line in table(rows, right=(2, 3))] or ["No variable yet."]


def _cut(line: str, width: int) -> str:
    bare = click.unstyle(line)
    return line if len(bare) <= width else line[: len(line) - len(bare) + width - 1] + "…"


def description(one: Known) -> Iterator[str]:
    """Yield all that is known of a variable."""
    yield f"{click.style(one.name, bold=True)}: {one.type}"
    facts = {"kind": one.kind, "step": str(one.step), "size": size(one.bytes)}
    facts |= {"shape": one.extent} if one.shape is not None else {}
    facts |= {"length": one.extent} if one.length is not None else {}
    facts |= {"why": one.why} if one.why else {}
    facts |= {"hint": one.hint} if one.hint else {}
    yield from table([[f"  {fact}", said] for fact, said in facts.items()])
    if one.columns:
        yield "  columns"
        yield from table([[f"    {name}", kind] for name, kind in one.columns])
    yield from (f"  {line}" for line in one.preview.splitlines())
