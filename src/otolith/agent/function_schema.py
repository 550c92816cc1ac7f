"""JSON schemas of the parameters of functions, made of their annotations and docstrings.

Types are those that msgspec knows (numbers, text, containers, Optional, Literal, enums, dates,
dataclasses, TypedDicts …) and pydantic's models; `Annotated[int, msgspec.Meta(ge=0)]` sets bounds.
Where pydantic is installed, it reads what has its own annotations (`Annotated[int, Field(gt=0)]`,
validators), and types that msgspec does not know (generic aliases, `Counter`, `Iterable`). The
`Args:` section of the docstring describes the parameters.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from enum import Enum
from importlib.util import find_spec
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from otolith.errors import Invalid
from otolith.state import has_pydantic_parts, pydantic_adapter

_ARGUMENT = re.compile(r"^(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_SECTION = re.compile(r"^\s*(Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")
_IMMUTABLE = (str, int, float, bool, bytes, Enum)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and that of each argument."""
    before, _, rest = text.partition("\nArgs:\n")
    descriptions: dict[str, str] = {}
    name, depth = "", 0
    for line in rest.splitlines():
        if _SECTION.match(line):
            break
        found = _ARGUMENT.match(line)
        if found and (not depth or len(found[1]) <= depth):
            depth, name = len(found[1]), found[2]
            descriptions[name] = found[3].strip()
        elif name and line.strip():
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    lines = before.splitlines()
    end = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return "\n".join(lines[:end]).strip(), descriptions


def function_docstring(function: Any) -> tuple[str, dict[str, str]]:
    """Return what the docstring of a callable says of it, and of each argument."""
    return read_docstring(inspect.getdoc(_unwrap_partial(function)) or "")


def function_name(function: Any) -> str:
    """Return the name of a function, also of one in a partial, or of a callable's class."""
    inner = _unwrap_partial(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def function_parameters(function: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of a callable; None if Python does not know them."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _unwrap_partial(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def function_annotations(function: Any) -> dict[str, Any]:
    """Return the types of a callable's parameters, and of what it returns.

    Raises:
        Invalid: they name something that is not defined.
    """
    inner = _unwrap_partial(function)
    is_object = not inspect.isroutine(inner) and not isinstance(inner, type)
    try:
        return typing.get_type_hints(
            type(inner).__call__ if is_object else inner, include_extras=True
        )
    except (NameError, TypeError) as error:
        raise Invalid(
            f"the annotations of {function_name(function)} cannot be read: {error}",
            hint="define or import what they name at the top of the module",
        ) from error


def parameter_type(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return the annotation of a parameter; `n: int = None` accepts None.

    Raises:
        Invalid: its default is not a value, but pydantic's description of one.
    """
    default = parameter.default
    if type(default).__module__ == "pydantic.fields":
        raise Invalid(
            f"the default of {parameter.name} is {type(default).__name__}, which is not a value",
            hint=f"write {parameter.name}: Annotated[…, Field(…)], and a default after it",
        )
    return hint | None if default is None and hint is not Any else hint


def struct_field(parameter: inspect.Parameter, hint: Any) -> Any:
    """Return a parameter as a field of a struct."""
    name, default = parameter.name, parameter.default
    if default is parameter.empty:
        return name, hint
    if default is None:
        return name, hint, None
    if isinstance(default, _IMMUTABLE):
        return name, hint, default
    return name, hint, msgspec.field(default_factory=lambda: deepcopy(default))


def has_json_schema(kind: Any) -> bool:
    """Tell whether msgspec knows a type, and JSON can carry it."""
    try:
        json_schema(kind)
    except (TypeError, NameError):
        return False
    return True


def is_read_by_pydantic(kind: Any) -> bool:
    """Tell whether pydantic makes a value of plain data; otherwise msgspec does, or nothing."""
    try:
        return _is_read_by_pydantic(kind)
    except TypeError:  # it cannot be hashed
        return _is_read_by_pydantic.__wrapped__(kind)


@functools.lru_cache(maxsize=256)
def _is_read_by_pydantic(kind: Any) -> bool:
    if has_pydantic_parts(kind):
        return True
    if has_json_schema(kind) or _has_class(kind) or find_spec("pydantic") is None:
        return False
    from pydantic.warnings import ArbitraryTypeWarning

    try:
        with warnings.catch_warnings():
            # It says that it would accept anything.
            warnings.simplefilter("error", ArbitraryTypeWarning)
            pydantic_reader(kind).json_schema()
    except (Invalid, RuntimeError, ArbitraryTypeWarning):  # errors of pydantic are RuntimeErrors
        return False
    return True


def _has_class(kind: Any) -> bool:
    """Tell whether a value has a class in it: pydantic's schema of that is {}, and nothing fits."""
    is_class = kind is type or get_origin(kind) is type
    return is_class or any(map(_has_class, get_args(kind)))


def pydantic_reader(kind: Any) -> Any:
    """Return pydantic's TypeAdapter that makes values of plain data.

    Raises:
        Invalid: pydantic does not know the type.
    """
    return pydantic_adapter(_with_lists(kind))


def _with_lists(kind: Any) -> Any:
    """Return a type with lists for iterables: pydantic would read their items when it is too late.

    It makes an iterator of them, which raises in the function that goes through it.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Iterable or origin is Iterable:
        return list[_with_lists(inner[0]) if inner else Any]  # type: ignore[misc]
    if hasattr(kind, "__metadata__"):
        return Annotated[(_with_lists(kind.__origin__), *kind.__metadata__)]
    found = tuple(map(_with_lists, inner))
    if all(after is before for after, before in zip(found, inner, strict=True)):
        return kind
    if origin in (typing.Union, UnionType):
        return typing.Union[found]  # noqa: UP007 - made of a tuple
    return origin[found]


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; all definitions are at the top, where `$ref`s look."""
    schema = msgspec.json.schema(kind, schema_hook=_foreign_schema)
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    definitions = dict(schema.pop("$defs", {}))
    for nested in _take_definitions([schema, list(definitions.values())]):
        definitions |= nested
    if not name:
        return {**schema, "$defs": definitions} if definitions else schema
    top = definitions[name]
    is_recursive = f'#/$defs/{name}"' in json.dumps(definitions)
    rest = definitions if is_recursive else {n: d for n, d in definitions.items() if n != name}
    return {**top, "$defs": rest} if rest else dict(top)


def _take_definitions(value: Any) -> Iterator[dict[str, Any]]:
    """Remove and yield the definitions that pydantic puts inside a schema."""
    if isinstance(value, dict):
        if isinstance(value.get("$defs"), dict):
            yield value.pop("$defs")
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _take_definitions(item)


def _foreign_schema(kind: type) -> dict[str, Any]:
    make = getattr(kind, "model_json_schema", None)  # pydantic's
    if make is None:
        raise NotImplementedError(f"{kind!r} has no schema")
    return pydantic_schema(make, kind.__name__)


def pydantic_schema(make: Callable[..., dict[str, Any]], name: str) -> dict[str, Any]:
    """Return a schema of pydantic whose definitions begin with a name: two may each have one."""
    prefix = f"{name}."
    found = make(ref_template=f"#/$defs/{prefix}{{model}}")
    if "$defs" in found:
        found["$defs"] = {prefix + name: inner for name, inner in found["$defs"].items()}
    return found
