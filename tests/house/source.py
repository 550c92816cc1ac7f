"""The package's own source; a file is parsed once, when a test first reads it."""

from __future__ import annotations

import ast
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "otolith"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One file of the package: its dotted name, its text and its tree."""

    name: str
    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text, self.path)

    @property
    def is_door(self) -> bool:
        return self.path.stem == "__init__"

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Yield every function with its qualified name, methods and inner ones too."""
        yield from _functions(self.tree, self.name)

    def prose_lines(self) -> int:
        """Return how many lines are docstrings, of attributes too, or have a comment."""
        prose = {
            line
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        tokens = tokenize.generate_tokens(StringIO(self.text).readline)
        return len(prose | {token.start[0] for token in tokens if token.type == tokenize.COMMENT})


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the package, sorted by name."""
    return tuple(_module(path) for path in sorted(PACKAGE.rglob("*.py")))


@cache
def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def exceptions(kind: str) -> dict[str, dict[str, Any]]:
    """Return the listed exceptions of one kind, by name."""
    listed = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text())
    return {entry["name"]: entry for entry in listed.get(kind, [])}


def code_lines(function: Function) -> int:
    """Return how many lines a function takes, its docstring not counted."""
    end = function.end_lineno or function.lineno
    total = end - function.lineno + 1
    if ast.get_docstring(function) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def _module(path: Path) -> Module:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text()
    return Module(name, path, text)


@cache
def _parsed(text: str, path: Path) -> ast.Module:
    return ast.parse(text, filename=str(path))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        name = f"{prefix}.{child.name}" if isinstance(child, Function | ast.ClassDef) else prefix
        if isinstance(child, Function):
            yield name, child
        yield from _functions(child, name)
