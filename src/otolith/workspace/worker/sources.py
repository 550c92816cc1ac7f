"""The source of steps, and the code objects in it: found by name, so that they can be found again.

A step is compiled under a file name that tells its source, `<step KEY>`, and its lines are given to
`linecache`: tracebacks and `inspect.getsource` show them, in the process that ran the step and in
every later one. A code object is kept as the way to it, not as bytecode, which is another one in
every version of Python.

What the source of a step puts into modules and classes of others: `module.name = …`.

Nothing tells which attributes of a module were set by whom. But the code that sets them has to say
so, and the code of a session is known.
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


Way: TypeAlias = str
"""A source, and the names, first lines and numbers of the code objects that lead to one in it."""

Expect: TypeAlias = Callable[[set[Target], bool], None]
"""Is told what code will set, and whether it is that of the step, about to run."""

_FILE = "<step {}>"


class Compiled(NamedTuple):
    """A step as code: statements, and the expression at its end, if it ends in one."""

    body: CodeType
    value: CodeType | None


class Sources:
    """The sources that are known in this process; others are asked for by their key."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find
        self.expect: Expect = lambda *_: None
        self._sources: dict[str, str] = {}
        self._ways: dict[CodeType, Way] = {}
        self._codes: dict[Way, CodeType] = {}

    def compile(self, source: str) -> Compiled:
        """Compile a step and remember where its code objects are.

        Raises:
            SyntaxError: as Python says.
        """
        key = digest(source.encode("utf-8", "surrogatepass")).hex()[:12]
        compiled = _compile(source, key)
        self._add(key, source, compiled, is_next=True)
        return compiled

    def way_to(self, code: CodeType) -> Way | None:
        """Return the way to a code object of a source."""
        return self._ways.get(code)

    def follow(self, way: Way) -> CodeType:
        """Return the code object at the end of a way.

        Raises:
            LookupError: the source is gone, or has no such code.
        """
        self.show(key_of(way))
        if way not in self._codes:
            raise LookupError(f"the source {key_of(way)} has nothing at {way}")
        return self._codes[way]

    def show(self, key: str) -> None:
        """See that the lines of a source are there for tracebacks."""
        if key not in self._sources:
            source = self._find(key)
            if source is None:
                raise LookupError(f"the source {key} is not kept here")
            self._add(key, source, _compile(source, key))

    def source(self, key: str) -> str:
        """Return a source that is known here."""
        return self._sources[key]

    def _add(self, key: str, source: str, compiled: Compiled, *, is_next: bool = False) -> None:
        self._sources[key] = source
        name = _FILE.format(key)
        # Without a time of change, linecache never throws it away.
        lines = [f"{line}\n" for line in source.splitlines()]
        linecache.cache[name] = (len(source), None, lines, name)
        codes = [code for code in compiled if code is not None]
        for unit, code in enumerate(codes[:]):
            for inner, way in _within(code, f"{key}/{unit}"):
                self._ways[inner] = way
                self._codes[way] = inner
                codes.append(inner)
        if any(map(may_store, codes)):
            self.expect(targets_of(ast.parse(source)), is_next)


def key_of(way: Way) -> str:
    """Return the key of the source that a way begins at."""
    return way.partition("/")[0]


def _compile(source: str, key: str) -> Compiled:
    name = _FILE.format(key)
    tree = ast.parse(source, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or source.rstrip().endswith(";"):
        return Compiled(compile(tree, name, "exec", dont_inherit=True), None)
    tree.body.pop()
    body = compile(tree, name, "exec", dont_inherit=True)
    end = ast.Expression(last.value)
    return Compiled(body, compile(end, name, "eval", flags=_futures(body), dont_inherit=True))


def _futures(code: CodeType) -> int:
    """Return the `from __future__` flags that a code object was compiled with."""
    return code.co_flags & 0x1FF0000


def _within(code: CodeType, way: Way) -> Iterator[tuple[CodeType, Way]]:
    seen: dict[tuple[str, int], int] = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            at = inner.co_name, inner.co_firstlineno
            seen[at] = seen.get(at, -1) + 1
            here = f"{way}/{inner.co_name}:{inner.co_firstlineno}:{seen[at]}"
            yield inner, here
            yield from _within(inner, here)


def untrapped(code: CodeType, *, is_top: bool = True) -> set[str]:
    """Return the globals that code looks up, or deletes, without asking the namespace for them.

    Those are names that functions delete, and names in the bodies of classes.
    """
    is_body = not is_top and not code.co_flags & inspect.CO_OPTIMIZED
    kinds = _IN_BODIES if is_body else _ANYWHERE
    found = {each.argval for each in dis.get_instructions(code) if each.opname in kinds}
    inner = filter(inspect.iscode, code.co_consts)
    return found.union(*(untrapped(each, is_top=False) for each in inner))


_ANYWHERE = frozenset({"DELETE_GLOBAL"})
_IN_BODIES = frozenset({"DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
