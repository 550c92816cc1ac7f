"""How a step of a workspace is written on a screen: its value, what it raised, what it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from otolith.agent import Difference, Step, Told
from otolith.cli.safety import safe
from otolith.cli.screen.output import end_progress
from otolith.cli.screen.values import to_json
from otolith.cli.screen.words import commit_json, counted

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


def told_lines(found: Iterable[Told]) -> Iterator[str]:
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
