"""What the source of a step puts into modules and classes of others: `module.name = …`.

Nothing tells which attributes of a module were set by whom. But the code that sets them has to say
so, and the code of a session is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from opcode import opmap
from types import CodeType
from typing import NamedTuple

_STORES = bytes([opmap["STORE_ATTR"]]), bytes([opmap["DELETE_ATTR"]])
_CALLS = frozenset({"setattr", "delattr"})


class Target(NamedTuple):
    """An attribute that code sets or deletes: of what, as code says it, and as it was imported."""

    path: tuple[str, ...]
    name: str
    imported: tuple[str, str] | None  # a module, and what was imported from it


def targets_of(tree: ast.AST) -> set[Target]:
    """Return the attributes that code sets, of whatever has a name."""
    found = {
        (path, name) for owner, name in _stores(tree) if (path := tuple(_dotted(owner)))
    }  # fmt: skip
    if not found:
        return set()
    imported = dict(_imports(tree))
    return {Target(path, name, imported.get(path[0])) for path, name in found}


def may_store(code: CodeType) -> bool:
    """Tell whether code, the code inside of it left aside, may set an attribute."""
    codes = code.co_code[::2]
    return any(each in codes for each in _STORES) or not _CALLS.isdisjoint(code.co_names)


def _stores(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            owner, name = node.args[:2]
            if node.func.id in _CALLS and isinstance(name, ast.Constant):
                yield owner, str(name.value)


def _dotted(node: ast.expr) -> list[str]:
    """Return the names in `a.b.c`; nothing for what is not only names."""
    if isinstance(node, ast.Name):
        return [node.id]
    above = _dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*above, node.attr] if above and isinstance(node, ast.Attribute) else []


def _imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                yield (each.asname, (each.name, "")) if each.asname else (top, (top, ""))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, (node.module, each.name)
