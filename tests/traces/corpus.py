"""Reads the programs: notebooks in percent form, with facts for the harness in their head.

'What it is.'
# lost: name, name          variables that by nature cannot be stored
# raises: 5, 9              cells that raise on purpose, counted from 1
# needs: numpy, sklearn     import names

# %%
the first cell
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"

_CELL = re.compile(r"^# %%.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """One notebook: its cells in order, and what is known about them beforehand."""

    name: str
    cells: list[str]
    lost: frozenset[str]
    raises: frozenset[int]
    needs: tuple[str, ...]


def programs() -> list[Program]:
    """Return every program, by name."""
    return [_read(path) for path in sorted(PROGRAMS.glob("*.py"))]


def program(name: str) -> Program:
    """Return one program."""
    return _read(PROGRAMS / f"{name}.py")


@cache
def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def is_runnable(program: Program) -> bool:
    """Whether everything that a program imports is installed here."""
    return all(map(is_installed, program.needs))


def _read(path: Path) -> Program:
    head, *cells = _CELL.split(path.read_text())
    return Program(
        name=path.stem,
        cells=[cell.strip("\n") + "\n" for cell in cells],
        lost=frozenset(_facts(head, "lost")),
        raises=frozenset(map(int, _facts(head, "raises"))),
        needs=tuple(_facts(head, "needs")),
    )


def _facts(head: str, name: str) -> list[str]:
    lines = re.findall(rf"^# {name}:(.*)$", head, re.MULTILINE)
    return [fact.strip() for line in lines for fact in line.split(",") if fact.strip()]
