"""Code identity: a text of what a function does, which is the same in every process.

Results are kept as long as the text is the same. Seen are

    the code         of a function, of a method, or of the class of an object that is called;
                     without comments, decorators and docstrings
    what it was      arguments of a partial, values in the closure of a function, defaults of
    made with        parameters, attributes of an object that is called: numbers, texts, bytes,
                     tuples and frozen sets of these, and functions, whose code is seen then

Not seen are global names, functions that it calls by a global name, decorators, and values that can
change while it runs: lists, dicts, objects, names that it assigns by `nonlocal`, attributes that a
method assigns. Such a value would make every result look as if its code had been edited.
"""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def code_text(function: Any) -> str:
    """Return what a function does, as a text."""
    return _text(function, ())


def _text(function: Any, above: tuple[int, ...]) -> str:
    """Return the text of a function; `above` are those that it was found in."""
    inner = inspect.unwrap(function)
    if id(inner) in above:
        return "itself"
    above = (*above, id(inner))
    if isinstance(inner, partial):
        given = [*enumerate(inner.args), *sorted(inner.keywords.items())]
        return repr([_text(inner.func, above), *_values(given, above)])
    if isinstance(inner, MethodType):
        return _text(inner.__func__, above)
    if isinstance(inner, FunctionType):
        made_with = [*_values(_closure(inner), above), *_values(_defaults(inner), above)]
        return _source(inner) + (repr(made_with) if made_with else "")
    if isinstance(inner, type) or not callable(inner):
        return _source(inner)
    assigned = set(_assigned(type(inner)))
    pairs = sorted(getattr(inner, "__dict__", {}).items())
    attributes = [pair for pair in pairs if pair[0] not in assigned]
    return repr([_source(type(inner)), *_values(attributes, above)])


def _source(made: Any) -> str:
    """Return the source of a function or class, or what is compiled of it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(made)))
        kinds = ast.ClassDef if isinstance(made, type) else _FUNCTIONS
        found = next(each for each in ast.walk(tree) if isinstance(each, kinds))
    except (OSError, TypeError, SyntaxError, StopIteration):
        return _compiled(made)
    for each in ast.walk(found):
        if isinstance(each, (ast.ClassDef, *_FUNCTIONS)) and _has_docstring(each):
            each.body = each.body[1:] or [ast.Pass()]
    found.decorator_list = []
    return ast.unparse(found)


def _has_docstring(found: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(found, clean=False) is not None


def _compiled(made: Any) -> str:
    """Return what a function or class without source does, as far as its code objects tell."""
    if not isinstance(made, type):
        code = getattr(made, "__code__", None)
        return repr(type(made)) if code is None else _compiled_text(code)
    methods = [(name, each) for name, each in sorted(vars(made).items())]
    return repr(
        [made.__qualname__]
        + [(name, _compiled_text(each.__code__)) for name, each in methods if _is_function(each)]
    )


def _compiled_text(code: CodeType) -> str:
    return repr((code.co_code, code.co_names, [*map(_constant, code.co_consts)]))


def _constant(value: object) -> str:
    """Return a constant as a text that does not depend on the order in a set."""
    if isinstance(value, CodeType):
        return _compiled_text(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    return repr(value)


def _values(pairs: Iterable[tuple[object, object]], above: tuple[int, ...]) -> Iterator[object]:
    """Yield names with those values that are seen."""
    for name, value in pairs:
        if _is_plain(value):
            yield name, _constant(value)
        elif _is_function(value) or isinstance(value, partial | MethodType):
            yield name, _text(value, above)


def _is_plain(value: object) -> bool:
    if type(value) in (tuple, frozenset):
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    return type(value) in _PLAIN


def _is_function(value: object) -> bool:
    return isinstance(value, FunctionType) or isinstance(
        getattr(value, "__wrapped__", None), FunctionType
    )


def _closure(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the names of a closure with their values, but for those that the function assigns."""
    assigned = set(_stored(function.__code__, "STORE_DEREF"))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if name not in assigned:
                yield name, cell.cell_contents
        except ValueError:  # it has no value yet
            continue


def _defaults(function: FunctionType) -> list[tuple[str, object]]:
    positional = [*enumerate(function.__defaults__ or ())]
    named = sorted((function.__kwdefaults__ or {}).items())
    return [(str(name), value) for name, value in [*positional, *named]]


def _assigned(kind: type) -> Iterator[str]:
    """Yield the attributes that methods assign, but for those that make the object."""
    for each in kind.__mro__:
        for name, method in vars(each).items():
            if name not in ("__init__", "__new__", "__post_init__") and _is_function(method):
                yield from _stored(inspect.unwrap(method).__code__, "STORE_ATTR")


def _stored(code: CodeType, instruction: str) -> Iterator[str]:
    """Yield the names that code stores, and the functions in it."""
    for each in dis.get_instructions(code):
        if each.opname == instruction:
            yield str(each.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _stored(constant, instruction)
