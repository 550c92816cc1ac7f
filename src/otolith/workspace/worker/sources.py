"""The sources of steps: their code objects, found by name, and the attributes that they set.

A step is compiled under a file name that identifies its source, `<step KEY>`, and its lines are
given to `linecache`: tracebacks and `inspect.getsource` show them, in the process that ran the step
and in every later one. A code object is stored as the path to it (`CodePath`), not as bytecode,
which differs between versions of Python.

Nothing records which attributes of a module were set, and by which code. But the source of a
session is known, and says which attributes it sets (`attributes_set_by`): `module.name = …`.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
from collections.abc import Callable, Iterator
from opcode import opmap
from types import CodeType
from typing import NamedTuple, TypeAlias

from otolith.core import digest

_STORES = bytes([opmap["STORE_ATTR"]]), bytes([opmap["DELETE_ATTR"]])
_CALLS = frozenset({"setattr", "delattr"})


class AttributeTarget(NamedTuple):
    """An attribute that code sets or deletes: the names that lead to its owner, and its name."""

    path: tuple[str, ...]
    name: str
    imported: tuple[str, str] | None  # a module, and what was imported from it


def attributes_set_by(tree: ast.AST) -> set[AttributeTarget]:
    """Return the attributes that code sets, of owners that have a name."""
    found = {
        (path, name) for owner, name in _stores(tree) if (path := tuple(_dotted(owner)))
    }  # fmt: skip
    if not found:
        return set()
    imported = dict(_imports(tree))
    return {AttributeTarget(path, name, imported.get(path[0])) for path, name in found}


def may_set_attributes(code: CodeType) -> bool:
    """Tell whether code may set an attribute, without regard to the code inside of it."""
    codes = code.co_code[::2]
    return any(each in codes for each in _STORES) or not _CALLS.isdisjoint(code.co_names)


def _stores(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the owner and name of each attribute that code sets or deletes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node.value, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            owner, name = node.args[:2]
            if node.func.id in _CALLS and isinstance(name, ast.Constant):
                yield owner, str(name.value)


def _dotted(node: ast.expr) -> list[str]:
    """Return the names in `a.b.c`; none for other expressions."""
    if isinstance(node, ast.Name):
        return [node.id]
    above = _dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*above, node.attr] if above and isinstance(node, ast.Attribute) else []


def _imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each name that code imports, with its module and name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                yield (each.asname, (each.name, "")) if each.asname else (top, (top, ""))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                yield each.asname or each.name, (node.module, each.name)


CodePath: TypeAlias = str
"""The key of a source, then the names, first lines and numbers of the code objects on the way."""

Expect: TypeAlias = Callable[[set[AttributeTarget], bool], None]
"""Called with the attributes that code will set, and whether it is the step about to run."""

_FILE = "<step {}>"
_FUTURE_FLAGS = 0x1FF0000  # of `from __future__` imports


class CompiledStep(NamedTuple):
    """A compiled step: its statements, and the expression at its end, if it ends in one."""

    body: CodeType
    value: CodeType | None


class Sources:
    """The sources that this process knows; others are looked up by their key."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find
        self.expect: Expect = lambda *_: None
        self._sources: dict[str, str] = {}
        self._paths: dict[CodeType, CodePath] = {}
        self._codes: dict[CodePath, CodeType] = {}

    def compile(self, source: str) -> CompiledStep:
        """Compile a step and remember where its code objects are.

        Raises:
            SyntaxError: as Python says.
        """
        key = digest(source.encode("utf-8", "surrogatepass")).hex()[:12]
        compiled = _compile(source, key)
        self._add(key, source, compiled, is_step=True)
        return compiled

    def path_to(self, code: CodeType) -> CodePath | None:
        """Return the path to a code object of a source; None for other code."""
        return self._paths.get(code)

    def code_at(self, path: CodePath) -> CodeType:
        """Return the code object at a path.

        Raises:
            LookupError: the source is gone, or has no such code.
        """
        self._compile_stored(key_of(path))
        if path not in self._codes:
            raise LookupError(f"the source {key_of(path)} has no code at {path}")
        return self._codes[path]

    def _compile_stored(self, key: str) -> None:
        """Compile a stored source, unless it is known."""
        if key not in self._sources:
            source = self._find(key)
            if source is None:
                raise LookupError(f"the source {key} is not stored")
            self._add(key, source, _compile(source, key))

    def source(self, key: str) -> str:
        """Return the text of a source that is known."""
        return self._sources[key]

    def _add(self, key: str, source: str, compiled: CompiledStep, *, is_step: bool = False) -> None:
        """Note a source, its lines and its code objects."""
        self._sources[key] = source
        name = _FILE.format(key)
        # Without a modification time, linecache never drops it.
        lines = [f"{line}\n" for line in source.splitlines()]
        linecache.cache[name] = (len(source), None, lines, name)
        codes = [code for code in compiled if code is not None]
        for unit, code in enumerate(codes[:]):
            for inner, path in _inner_codes(code, f"{key}/{unit}"):
                self._paths[inner] = path
                self._codes[path] = inner
                codes.append(inner)
        if any(map(may_set_attributes, codes)):
            self.expect(attributes_set_by(ast.parse(source)), is_step)


def key_of(path: CodePath) -> str:
    """Return the key of the source that a path begins with."""
    return path.partition("/")[0]


def _compile(source: str, key: str) -> CompiledStep:
    """Compile a source; the value of its last expression is evaluated apart."""
    name = _FILE.format(key)
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        return CompiledStep(compile(tree, name, "exec", dont_inherit=True), None)
    tree.body.pop()
    body = compile(tree, name, "exec", dont_inherit=True)
    end = ast.Expression(last.value)
    return CompiledStep(
        body, compile(end, name, "eval", flags=body.co_flags & _FUTURE_FLAGS, dont_inherit=True)
    )


def _inner_codes(code: CodeType, parent: CodePath) -> Iterator[tuple[CodeType, CodePath]]:
    """Yield the code objects inside of one, with their paths."""
    seen: dict[tuple[str, int], int] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            at = inner.co_name, inner.co_firstlineno
            seen[at] = seen.get(at, -1) + 1
            path = f"{parent}/{inner.co_name}:{inner.co_firstlineno}:{seen[at]}"
            yield inner, path
            yield from _inner_codes(inner, path)


def names_needing_fetch(code: CodeType, *, is_top: bool = True) -> set[str]:
    """Return the globals that code reads or deletes without a call of `Namespace.__missing__`.

    Those are names that functions delete, and names in the bodies of classes.
    """
    is_body = not is_top and not code.co_flags & inspect.CO_OPTIMIZED
    kinds = _IN_BODIES if is_body else _ANYWHERE
    found = {each.argval for each in dis.get_instructions(code) if each.opname in kinds}
    inner = filter(inspect.iscode, code.co_consts)
    return found.union(*(names_needing_fetch(each, is_top=False) for each in inner))


_ANYWHERE = frozenset({"DELETE_GLOBAL"})
_IN_BODIES = frozenset({"DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
