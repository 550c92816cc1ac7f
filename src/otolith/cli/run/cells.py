"""Notebooks and scripts as cells: what each says, where it begins, and what of it cannot be run.

A notebook (`.ipynb`) has its cells, a script those that `# %%` divides it into; without such a line
it is one cell. Cells that hold no code are left out, the others are counted from 1. A line that
only IPython understands (`%…`, `!…`, `name?`) becomes a comment, in its place, so that the numbers
of lines stay as they are.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from otolith.core import digest
from otolith.errors import Invalid

_MARK = re.compile(r"#\s?%%")
_MAGIC = re.compile(r"\s*(?:[%!?]|[A-Za-z_][\w.,\s]*=\s*[%!]|[\w.]+\?{1,2}\s*$)")
_PYTHON_CELLS = frozenset({"%%time", "%%capture"})
"""Cell magics that run what is below them as it is."""


class Cell(NamedTuple):
    """Code to be run as one step; `line` is that of the file, or 1 in a notebook."""

    number: int
    source: str
    line: int = 1
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells this source from others."""
        return digest(self.source.encode("utf-8", "surrogatepass")).hex()[:24]

    @property
    def title(self) -> str:
        """The first line that says something."""
        lines = (line.strip() for line in self.source.splitlines())
        return next(filter(None, lines), "")[:80]


def cells_of(path: Path) -> list[Cell]:
    """Return the cells of a file.

    Raises:
        Invalid: it cannot be read as what its name says.
    """
    try:
        pieces = _notebook(path) if path.suffix == ".ipynb" else _script(path)
        coded = (piece for piece in pieces if not _is_blank(piece[0]))
        return [Cell(number, *piece) for number, piece in enumerate(coded, start=1)]
    except FileNotFoundError:
        raise Invalid(f"there is no file {path}", hint="name a notebook or a script") from None
    except (ValueError, SyntaxError, AttributeError, TypeError, KeyError) as error:
        what = "notebook" if path.suffix == ".ipynb" else "script"
        raise Invalid(f"{path} is no {what}: {error}", hint="name an .ipynb or a .py") from None


def source_of(path: Path) -> str:
    """Return the text of a script, in the encoding that it names."""
    with tokenize.open(path) as file:
        return file.read()


Piece = tuple[str, int, tuple[str, ...]]


def _notebook(path: Path) -> Iterator[Piece]:
    book = json.loads(path.read_bytes())
    if book.get("nbformat", 0) < 4:
        raise ValueError("only notebooks of format 4 are read; `jupyter nbconvert` makes one")
    language = book.get("metadata", {}).get("language_info", {}).get("name", "python")
    if language != "python":
        raise ValueError(f"its language is {language}")
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            source, notes = without_magics(_joined(cell["source"]))
            yield source, 1, notes


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _script(path: Path) -> Iterator[Piece]:
    text = source_of(path)
    lines = text.splitlines()
    marks = _marks(text)
    for start, end in zip([0, *(mark + 1 for mark in marks)], [*marks, len(lines)], strict=True):
        piece = lines[start:end]
        empty = next((at for at, line in enumerate(piece) if line.strip()), len(piece))
        source = "\n".join(piece[empty:]).rstrip()
        if not _is_docstring(source):
            yield source, start + empty + 1, ()


def _is_docstring(source: str) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return len(tree.body) == 1 and ast.get_docstring(tree) is not None


def _marks(text: str) -> list[int]:
    """Return which lines divide a script, from 0; one inside of a text does not."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return [at for at, line in enumerate(text.splitlines()) if _MARK.match(line)]
    comments = (token for token in tokens if token.type == tokenize.COMMENT)
    return [token.start[0] - 1 for token in comments if _MARK.match(token.line)]


def _is_blank(source: str) -> bool:
    """Tell whether there is nothing but comments; one that stands for a magic is no such."""
    lines = (line.strip() for line in source.splitlines())
    return all(not line or (line.startswith("#") and _NOT_RUN not in line) for line in lines)


# Magics

_NOT_RUN = "# not run: "


def without_magics(source: str) -> tuple[str, tuple[str, ...]]:
    """Return source with what only IPython understands as comments, and what that was."""
    if _is_python(source):
        return source, ()
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and first.split()[0] not in _PYTHON_CELLS:
        return "\n".join(_NOT_RUN + line for line in lines), (f"{first} and all below it",)
    kept: list[str] = []
    notes: list[str] = []
    goes_on = False
    for line in lines:
        is_rest = goes_on
        is_magic = is_rest or (_MAGIC.match(line) is not None and not _is_inside(kept))
        goes_on = is_magic and line.endswith("\\")
        if is_magic:
            notes.append(line.strip())
        kept.append(_silenced(line, is_rest=is_rest) if is_magic else line)
    return "\n".join(kept), tuple(notes)


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _silenced(line: str, *, is_rest: bool) -> str:
    """Return a magic, or the rest of one, as a comment; in a block, something must stand there."""
    text = line.lstrip()
    indent = "" if is_rest else line[: len(line) - len(text)]
    # A backslash would make the next line part of this one for those who look at it.
    comment = _NOT_RUN + text.rstrip("\\")
    return f"{indent}pass  {comment}" if indent else comment


def _is_inside(lines: list[str]) -> bool:
    """Tell whether the next line goes on with a text, a bracket or a line that was begun."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline))
    except tokenize.TokenError as error:
        return "multi-line" in str(error) or "triple-quoted" in str(error)
    except SyntaxError:
        return False
    return False
