"""Onto the screen: plain lines, a pager for long ones, one JSON object for programs.

Texts from a store on a terminal: what would command it, or turn its lines around, is shown.

Whoever writes to a store chooses messages, names and values. A control character in them could
colour, move or wipe what is on the screen, and a bidirectional one lets a text read as another.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import click

from otolith.cli.options import GlobalOptions

_CONTROLS = [*range(32), *range(127, 160)]
_BIDI = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_MARK = "\N{REPLACEMENT CHARACTER}"
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}
_ESCAPED = {code: f"\\u{code:04x}" for code in (*range(127, 160), *_BIDI)}
_SAFE = dict.fromkeys(_CONTROLS, _MARK) | {code: _ESCAPED[code] for code in _BIDI} | _KEPT
_COLOUR = re.compile(r"(\x1b\[[\d;]*m)")


def safe(text: str) -> str:
    """Return a text that tells a terminal nothing but itself."""
    return text.translate(_SAFE)


def tame(line: str) -> str:
    """Return a line of ours that does nothing to a terminal but colour it."""
    if line.isprintable():
        return line
    return "".join(part if at % 2 else safe(part) for at, part in enumerate(_COLOUR.split(line)))


def escaped(text: str) -> str:
    """Return JSON in which such characters are escaped, as JSON itself does with the others."""
    return text.translate(_ESCAPED)


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")


def emit(found: Any) -> None:
    """Print one JSON object."""
    click.echo(dumps(found))


def dumps(found: Any) -> str:
    """Return JSON for people and programs; ASCII only if there is something UTF-8 cannot say."""
    text = escaped(json.dumps(found, indent=2, ensure_ascii=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(found, indent=2)
    return text


def page(lines: Iterable[str], asked: GlobalOptions) -> None:
    """Print lines as they come, through the pager if the output is a terminal."""
    command = _pager() if asked.is_paged and sys.stdout.isatty() else None
    if command is None:
        for line in lines:
            click.echo(tame(line))
        return
    color = click.get_current_context().color is not False
    environment = {"LESS": "FRX", "LV": "-c"} | dict(os.environ)
    try:
        with subprocess.Popen(  # noqa: S603 - the pager that the user chose
            command, stdin=subprocess.PIPE, text=True, env=environment
        ) as pager:
            assert pager.stdin is not None
            _feed(pager.stdin, lines, color=color)
    except FileNotFoundError:
        for line in lines:
            click.echo(tame(line))


def _feed(pager: IO[str], lines: Iterable[str], *, color: bool) -> None:
    try:
        for line in lines:
            click.echo(tame(line), file=pager, color=color)
    except BrokenPipeError:
        return  # the reader has seen enough


def _pager() -> Sequence[str] | None:
    chosen = os.environ.get("PAGER", "less")
    return shlex.split(chosen) if chosen not in ("", "cat") else None


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns; `right` are the columns to align right."""
    if not rows:
        return []
    widths = [
        max(len(click.unstyle(cell)) for cell in column) for column in zip(*rows, strict=True)
    ]
    aligned = frozenset(right)

    def line(row: Sequence[str]) -> str:
        cells = (_pad(cell, widths[at], right=at in aligned) for at, cell in enumerate(row))
        return "  ".join(cells).rstrip()

    return [line(row) for row in rows]


def _pad(cell: str, width: int, *, right: bool) -> str:
    gap = " " * (width - len(click.unstyle(cell)))
    return gap + cell if right else cell + gap


def progress_line() -> Callable[[str, int, int], None] | None:
    """Return what shows the progress of long work on a terminal, or None elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(phase: str, done: int, total: int) -> None:
        share = f"{done:,} of {total:,}" if total else f"{done:,}"
        click.echo(f"\r\x1b[K{phase}: {share}", err=True, nl=False)

    return show


def end_progress() -> None:
    """Wipe the line of progress."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
