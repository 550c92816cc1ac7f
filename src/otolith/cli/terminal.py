"""Terminal output: escaped lines, a pager, tables, progress, and JSON for programs.

Messages, names and values of a store are chosen by those who write to it. A control character could
recolour, move or erase what is on the screen, and a bidirectional one makes a text read as another.
The rules that follow from it:

- Stored text is passed through `escape` before it is styled or put into a line.
- Lines are printed by `page` or `output`, which escape them again, except for our own colours.
- JSON is printed by `emit`, which escapes the same characters in a way that JSON readers undo.
- Results go to standard output; errors, progress and summaries of steps go to standard error.
- Only `cat`, and the output of the user's own code, are printed raw.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from otolith.cli.options import GlobalOptions

# Code points -> what is printed instead. JSON escapes C0 characters itself, so that `_ESCAPED`
# has the others; the lines for a terminal replace all of them, except for line feed and tab.
_CONTROLS = [*range(32), *range(127, 160)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(127, 160), *_BIDI)}
_UNCHANGED = {ord("\n"): "\n", ord("\t"): "\t"}
_TERMINAL = (
    dict.fromkeys(_CONTROLS, _REPLACEMENT) | {code: _ESCAPED[code] for code in _BIDI} | _UNCHANGED
)
_ONE_LINE = {ord("\n"): "\\n", ord("\t"): "\\t"}
_FOR_SHELL = re.compile(r"[|&;<>$`~]|^\s*\w+=")  # of a PAGER, as git reads it
_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")


def escape(text: str) -> str:
    """Replace control and bidirectional characters; line feeds and tabs stay."""
    return text.translate(_TERMINAL)


def escape_line(line: str) -> str:
    """Escape a line that this program composed, and keep its colours."""
    if line.isprintable():
        return line
    parts = _COLOUR.split(line)
    return "".join(part if at % 2 else escape(part) for at, part in enumerate(parts))


def output(options: GlobalOptions, data: Callable[[], object], lines: Iterable[str]) -> None:
    """Print a result: with `--json` the data as one object, otherwise the lines, paged.

    Only one of them is computed: `data` is a function, and `lines` may be a generator.
    """
    if options.as_json:
        emit(data())
    else:
        page(lines, options)


def emit(data: object) -> None:
    """Print one JSON value."""
    click.echo(dumps(data))


def pick(source: object, *names: str) -> dict[str, Any]:
    """Return these attributes of an object by name, as the members of a JSON object."""
    return {name: getattr(source, name) for name in names}


def dumps(data: object, *, indent: int | None = 2) -> str:
    """Return JSON that is safe to print; ASCII only where the output cannot encode it.

    It is indented, or without `indent` one line. Characters that a terminal would obey are escaped
    by their code, which JSON readers undo.
    """
    text = json.dumps(data, indent=indent, ensure_ascii=False).translate(_ESCAPED)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(data, indent=indent)
    return text


def page(lines: Iterable[str], options: GlobalOptions) -> None:
    """Print lines as they are produced, through the user's pager if the output is a terminal."""
    process = _start_pager() if options.is_paged and sys.stdout.isatty() else None
    if process is not None:
        _print_to_pager(process, lines)
        return
    for line in lines:
        click.echo(escape_line(line))


def _start_pager() -> subprocess.Popen[str] | None:
    """Start the user's pager; None if there is none, or it cannot be started.

    What the terminal cannot encode is escaped, as on standard output.
    """
    try:
        pager = os.environ.get("PAGER", "less")
        words = shlex.split(pager)
        if words in ([], ["cat"]):
            return None
        if _FOR_SHELL.search(pager):
            words = ["sh", "-c", pager]
        environment = {"LESS": "FRX", "LV": "-c"} | dict(os.environ)
        return subprocess.Popen(  # noqa: S603 - the pager that the user chose
            words, stdin=subprocess.PIPE, text=True, errors="backslashreplace", env=environment
        )
    except (ValueError, OSError):  # an open quote; a program that is missing or not executable
        return None


def _print_to_pager(process: subprocess.Popen[str], lines: Iterable[str]) -> None:
    """Write lines to a pager until they or the user's patience end; wait for it to close."""
    color = click.get_current_context().color is not False
    with process:
        assert process.stdin is not None
        try:
            for line in lines:
                click.echo(escape_line(line), file=process.stdin, color=color)
        except BrokenPipeError:
            return  # the user quit the pager


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns; `right` lists the columns to align right.

    Cells may be styled: colours do not count as width. Line feeds and tabs in them are escaped.
    Without rows, the result is empty.
    """
    rows = [[cell.translate(_ONE_LINE) for cell in row] for row in rows]
    widths = [
        max(len(click.unstyle(cell)) for cell in column) for column in zip(*rows, strict=True)
    ]
    aligned_right = frozenset(right)

    def pad(at: int, cell: str) -> str:
        """Fill a cell up to the width of its column."""
        gap = " " * (widths[at] - len(click.unstyle(cell)))
        return gap + cell if at in aligned_right else cell + gap

    return ["  ".join(pad(at, cell) for at, cell in enumerate(row)).rstrip() for row in rows]


def progress_line() -> Callable[[str, int, int], None] | None:
    """Return a function that shows the progress of long work, or None if there is no terminal."""
    if not sys.stderr.isatty():
        return None

    def show(phase: str, done: int, total: int) -> None:
        """Overwrite the line with a phase and how much of it is done."""
        share = f"{done:,} of {total:,}" if total else f"{done:,}"
        click.echo(f"\r\x1b[K{phase}: {share}", err=True, nl=False)

    return show


def end_progress() -> None:
    """Erase the progress line."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
