"""Steps and variables of a workspace as text and JSON; no stored value is loaded for it.

Descriptions of variables (type, shape, preview) are stored when a step ends, because its value may
be a pickle, and loading a pickle runs code. The value of a step itself arrives from its process as
plain data, or not at all: then its preview is shown.

JSON objects:

    step        ok, value, shown, stdout, stderr, error, created, changed, deleted, lost, files,
                figures, commit, seconds, sandbox, stopped
    error       type, message, traceback, line
    files       added, changed, removed, skipped (name -> why)
    variable    the fields of `workspace.Variable`, and a hint how to get its value
    difference  what (variable or file), name, how, before, after, columns
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from otolith.cli.errors import is_in_workspace, terminal_error
from otolith.cli.format.history import commit_json, path_conflict_lines, plural, screen_width
from otolith.cli.format.values import to_json
from otolith.cli.location import ref_not_found
from otolith.cli.terminal import end_progress, escape, pick, table
from otolith.core import Branch, StateReader, parse_path
from otolith.errors import KeyNotFound
from otolith.text import size_text
from otolith.views import ChangeLine
from otolith.workspace import (
    Difference,
    Step,
    Variable,
    WorkspaceConflict,
    WorkspaceConflicts,
    variables_in,
)

_SHOWN = 12  # names on a line
_STAND_IN = "Opaque("  # in the repr of a value that is, or contains, an object of the user's
_COLORS = {"created": "green", "changed": "yellow", "deleted": "red"}
_SIGNS = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


class Printer:
    """Prints the output of a step as it arrives. A closed pipe does not end the step."""

    def __init__(self) -> None:
        self._is_midline = False

    def __call__(self, stream: str, text: str) -> None:
        """Print text raw to the stream it was written to: it is the output of the user's code."""
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
    """Return the repr of the value of a step, or its preview if the value is an object."""
    if step.value is None:
        return step.shown
    text = repr(step.value)
    return step.shown if _STAND_IN in text else text


def summary(step: Step, branch: str, saved: Sequence[Path] = ()) -> str:
    """Return the changes of a step on one line."""
    commit = "" if step.commit is None else f" {step.commit.short}"
    parts = [*_changes(step, saved), step.sandbox]
    return click.style(escape(f"[{branch}{commit}] {'; '.join(parts)}"), dim=True)


def has_changes(step: Step) -> bool:
    """Return whether a step did anything besides having a value."""
    return any(_changes(step, ()))


def _changes(step: Step, saved: Sequence[Path]) -> Iterator[str]:
    """Yield the parts of a summary: how the step ended, then variables, files and figures."""
    if step.commit is None:
        yield "nothing is committed"
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
        yield f"files not stored {', '.join(skipped)}"
    if saved:
        yield f"figures {', '.join(map(str, saved))}"
    elif step.figures:
        yield f"{plural(len(step.figures), 'figure')} (--figures DIR saves them)"


def _names(how: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the names that were changed in one way, the first dozen; nothing for no names."""
    if names:
        more = f", … ({len(names):,})" if len(names) > _SHOWN else ""
        yield f"{how} {', '.join(names[:_SHOWN])}{more}"


def difference_lines(found: Iterable[Difference]) -> Iterator[str]:
    """Yield a line for each difference between two states, and one for the columns of a frame."""
    for difference in found:
        line = escape(str(difference))
        yield click.style(line[0], fg=_COLORS[difference.how]) + line[1:]
        columns = difference.columns
        for how in () if columns is None else ("added", "removed", "changed"):
            yield from map(escape, _names(f"    columns {how}", getattr(columns, how)))


def change_report_lines(found: Iterable[ChangeLine]) -> Iterator[str]:
    """Yield a line for each message, plan step, note or run that changed."""
    for change in found:
        sign, color = _SIGNS[change.how]
        yield f"{click.style(sign, fg=color)} {escape(str(change))}"


def difference_json(difference: Difference) -> dict[str, Any]:
    """Return a difference between two states of a workspace as JSON data."""
    columns = None if difference.columns is None else asdict(difference.columns)
    return pick(difference, "what", "name", "how", "before", "after") | {"columns": columns}


def save_figures(step: Step, folder: Path | None) -> list[Path]:
    """Write the figures of a step into a folder, named by its commit; return their paths."""
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
    """Return a step as JSON data; `saved` are the files of its figures."""
    parts = ("type", "message", "traceback", "line")
    return {
        "ok": step.ok,
        "value": to_json(step.value),
        **pick(step, "shown", "stdout", "stderr"),
        "error": None if step.error is None else pick(step.error, *parts),
        **pick(step, "created", "changed", "deleted", "lost"),
        "files": pick(step.files, "added", "changed", "removed", "skipped"),
        "figures": [str(path) for path in saved],
        "commit": None if step.commit is None else commit_json(step.commit),
        "seconds": step.timing,
        **pick(step, "sandbox", "stopped"),
    }


def describe_variables(state: StateReader) -> dict[str, Variable]:
    """Return the descriptions of the variables of a state, by name."""
    return {found.name: found for found in variables_in(state)}


def find_variable(found: dict[str, Variable], name: str) -> Variable:
    """Return the description of a variable.

    Raises:
        KeyNotFound: there is none; the hint suggests the nearest name.
    """
    if name not in found:
        near = ref_not_found("", name, list(found), "`otolith vars` lists them")
        raise terminal_error(KeyNotFound, f"there is no variable {name}", near.hint)
    return found[name]


def variable_json(one: Variable) -> dict[str, Any]:
    """Return the description of a variable as JSON data."""
    return asdict(one) | {"hint": _hint(one)}


def variable_lines(found: dict[str, Variable]) -> list[str]:
    """Return variables as a table, cut to the width of the screen."""
    rows = []
    for each in found.values():
        is_lost = each.kind == "lost"
        preview = escape(f"lost: {each.why}" if is_lost else " ".join(each.preview.split()))
        rows.append([
            click.style(escape(each.name), bold=True),
            escape(each.type),
            _shape(each),
            "" if is_lost else size_text(each.bytes),
            f"step {each.step}",
            click.style(preview, fg="red") if is_lost else preview,
        ])  # fmt: skip
    width = screen_width()
    lines = []
    for line in table(rows, right=(2, 3)):
        styles = len(line) - len(click.unstyle(line))
        lines.append(line if len(line) - styles <= width else line[: styles + width - 1] + "…")
    return lines or ["No variable yet."]


def _shape(one: Variable) -> str:
    """Return the shape of an array or frame, or else the length, or nothing."""
    if one.shape is not None:
        return " x ".join(f"{length:,}" for length in one.shape)
    return "" if one.length is None else f"{one.length:,}"


def _hint(one: Variable) -> str:
    """Return how to get the value of a variable, in a terminal."""
    if one.kind == "object":
        return f"`otolith exec SESSION -c {one.name}` shows it"
    return one.hint


def description(one: Variable) -> Iterator[str]:
    """Yield the full description of a variable."""
    yield f"{click.style(escape(one.name), bold=True)}: {escape(one.type)}"
    facts = {"kind": one.kind, "step": str(one.step), "size": size_text(one.bytes)}
    facts |= {"shape": _shape(one)} if one.shape is not None else {}
    facts |= {"length": _shape(one)} if one.length is not None else {}
    facts |= {"why": one.why} if one.why else {}
    facts |= {"hint": _hint(one)} if one.hint else {}
    yield from table([[f"  {fact}", escape(value)] for fact, value in facts.items()])
    if one.columns:
        yield "  columns"
        yield from table([[escape(f"    {name}"), escape(kind)] for name, kind in one.columns])
    yield from (f"  {line}" for line in escape(one.preview).splitlines())


# Conflicts of a merge. What is in a workspace is shown by variable and file: its paths would show
# pickles, and cannot be set one by one.


def conflict_lines(branch: Branch) -> Iterator[str]:
    """Yield the conflicts of a branch: values by path, then variables and files."""
    for conflict in branch.conflicts:
        if not is_in_workspace(conflict.path):
            yield from path_conflict_lines(conflict)
    for found in WorkspaceConflicts(branch):
        yield from _variable_lines(found)


def _variable_lines(found: WorkspaceConflict) -> Iterator[str]:
    """Yield a variable or file with its sides; of a value, where in it they differ."""
    if found.is_whole:
        kind = "edit/edit" if found.ours and found.theirs else "edit/delete"
        yield _title(f"{found.what} {found.name}", kind)
        yield from (_side(side, getattr(found, side)) for side in ("ours", "theirs"))
        return
    for conflict in found.paths:
        inside = parse_path(conflict.path)[3:]
        at = "" if found.what == "file" or not inside else f" at {'/'.join(map(str, inside))}"
        sides = path_conflict_lines(conflict)[1:]
        yield _title(f"{found.what} {found.name}{at}", conflict.kind)
        yield from [] if found.what in ("class", "record") else sides


def _title(subject: str, kind: str) -> str:
    mark = click.style("!", fg="red", bold=True)
    return f"{mark} {click.style(escape(subject), bold=True)}  {kind}"


def _side(side: str, text: str) -> str:
    return f"    {side:7}{escape(text) if text else click.style('absent', dim=True)}"
