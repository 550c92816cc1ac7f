"""How a step of a workspace is written on a screen: its value, what it raised, what it did.

How the variables of a session are written on a screen, told without reading any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from otolith.cli.errors import worded
from otolith.cli.format.history import commit_json, counted, screen_width, size
from otolith.cli.format.values import to_json
from otolith.cli.location import suggesting
from otolith.cli.terminal import end_progress, safe, table
from otolith.core import StateReader
from otolith.errors import KeyNotFound
from otolith.views import ChangeLine
from otolith.workspace import Difference, Step, Variable, variables_in

_SHOWN = 12
_STAND_IN = "Opaque("
_COLORS = {"created": "green", "changed": "yellow", "deleted": "red"}
_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


class Printer:
    """Prints what a step prints, as it comes. A reader that goes away does not end the step."""

    def __init__(self) -> None:
        self._is_midline = False

    def __call__(self, stream: str, text: str) -> None:
        end_progress()
        self._is_midline = not text.endswith("\n")
        try:
            click.echo(text, nl=False, err=stream == "stderr")
        except BrokenPipeError:
            return

    def outcome(self, step: Step) -> None:
        """Print the value of a step, or what it raised."""
        end_progress()
        shown = value_text(step)
        if self._is_midline and (shown is not None or step.error is not None):
            click.echo()
        if shown is not None:
            click.echo(shown)
        if step.error is not None:
            click.echo(step.error.traceback.rstrip("\n"), err=True)


def value_text(step: Step) -> str | None:
    """Return the value of a step as Python would show it; in short, where it is no data here."""
    if step.value is None:
        return step.shown
    text = repr(step.value)
    return step.shown if _STAND_IN in text else text


def summary(step: Step, branch: str, saved: Sequence[Path] = ()) -> str:
    """Return on one line what a step did to the state."""
    commit = "" if step.commit is None else f" {step.commit.short}"
    parts = [*_did(step, saved), step.sandbox]
    return click.style(safe(f"[{branch}{commit}] {'; '.join(parts)}"), dim=True)


def is_worth_telling(step: Step) -> bool:
    """Tell whether a step did anything besides having a value."""
    return any(_did(step, ()))


def _did(step: Step, saved: Sequence[Path]) -> Iterator[str]:
    if step.commit is None:
        yield "nothing of it is kept"
    if not step.ok:
        yield step.stopped or "failed"
    for how in ("created", "changed", "deleted"):
        yield from _names(how, getattr(step, how))
    if step.lost:
        yield "lost " + ", ".join(f"{name} ({why})" for name, why in step.lost.items())
    for how in ("added", "changed", "removed"):
        yield from _names(f"files {how}", getattr(step.files, how))
    if step.files.skipped:
        skipped = (f"{name} ({why})" for name, why in step.files.skipped.items())
        yield f"files not kept {', '.join(skipped)}"
    if saved:
        yield f"figures {', '.join(map(str, saved))}"
    elif step.figures:
        yield f"{counted(len(step.figures), 'figure')} (--figures DIR saves them)"


def _names(how: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f", … ({len(names):,})" if len(names) > _SHOWN else ""
        yield f"{how} {', '.join(names[:_SHOWN])}{more}"


def difference_lines(found: Iterable[Difference]) -> Iterator[str]:
    """Yield a line for each difference between two states, and one for the columns of a frame."""
    for difference in found:
        line = safe(str(difference))
        yield click.style(line[0], fg=_COLORS[difference.how]) + line[1:]
        columns = difference.columns
        for how in () if columns is None else ("added", "removed", "changed"):
            yield from map(safe, _names(f"    columns {how}", getattr(columns, how)))


def told_lines(found: Iterable[ChangeLine]) -> Iterator[str]:
    """Yield a line for each thing that an agent said, planned, noted or did."""
    for told in found:
        sign, color = _SIGNS[told.how]
        name = "" if told.what == told.name else f" {told.name}"
        yield f"{click.style(sign, fg=color)} {safe(f'{told.what}{name}: {told.text}')}"


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return a difference between two states of a workspace, for programs."""
    found = asdict(difference)
    order = ("what", "name", "how", "before", "after", "columns")
    return {word: found[word] for word in order}


def save_figures(step: Step, folder: Path | None) -> list[Path]:
    """Write the figures of a step into a folder; they are named by its commit."""
    if folder is None or step.commit is None or not step.figures:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for number, figure in enumerate(step.figures, start=1):
        path = folder / f"{step.commit.short}-{number}.png"
        figure.save(path)
        saved.append(path)
    return saved


def step_json(step: Step, saved: Sequence[Path] = ()) -> dict[str, Any]:
    """Return a step for programs."""
    error, files = step.error, step.files
    return {
        "ok": step.ok,
        "value": to_json(step.value),
        "shown": step.shown,
        "stdout": step.stdout,
        "stderr": step.stderr,
        "error": None
        if error is None
        else {
            "type": error.type,
            "message": error.message,
            "traceback": error.traceback,
            "line": error.line,
        },
        "created": list(step.created),
        "changed": list(step.changed),
        "deleted": list(step.deleted),
        "lost": step.lost,
        "files": {
            "added": list(files.added),
            "changed": list(files.changed),
            "removed": list(files.removed),
            "skipped": files.skipped,
        },
        "figures": [str(path) for path in saved],
        "commit": None if step.commit is None else commit_json(step.commit),
        "seconds": step.timing,
        "sandbox": step.sandbox,
        "stopped": step.stopped,
    }


def known(state: StateReader) -> dict[str, Variable]:
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
