"""Tools: typed Python functions that a model may call, and what each does to the world.

    none         nothing that lasts: it may be called again after a crash, and nobody minds
    idempotent   the same key twice is once: after a crash it is called again with the same key
    once         it must not happen twice: after a crash `asks` is asked, or the user

A function with a parameter `idempotency_key` is given the key of the call; a model does not see it.

The signature of a function as a JSON schema, and arguments from a model as what it asks for.

Types are those that msgspec knows (numbers, text, containers, Optional, Literal, enums, dates,
dataclasses, TypedDicts …) and pydantic's models. `Annotated[int, msgspec.Meta(ge=0)]` puts bounds.
What a parameter means is read from the `Args:` of the docstring.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from enum import Enum
from typing import Any, Literal, TypeAlias, overload

import msgspec

from otolith.errors import BadValue, Invalid, KeyNotFound

_ARGUMENT = re.compile(r"^(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DEEPEST = 60
_MOST_LETTERS = 8000
_SECTION = re.compile(r"^\s*(Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")


class Signature:
    """What a function takes and returns, for a model."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        hidden: frozenset[str] = frozenset(),
        is_filled: bool = True,
    ) -> None:
        """Read a signature; parameters that are `hidden` are not shown to a model.

        A model fills in the arguments, unless `is_filled` says that only Python calls it: then they
        may be of any type.

        Raises:
            Invalid: a parameter has no type that a schema can be made of.
        """
        self.name = name_of(function)
        found = parameters_of(function)
        if found is None:
            raise Invalid(f"the signature of {self.name} cannot be read", hint="wrap it in a def")
        self.names = tuple(each.name for each in found)
        self._parameters = _fillable(found, hidden)
        hints = self._kinds = _hints(function)
        self.result: Any = hints.get("return", Any)
        self.text, self._meanings = read_docstring(inspect.getdoc(_inner(function)) or "")
        fields = [
            _field(each, hints.get(each.name, Any)) if is_filled else (each.name, Any)
            for each in self._parameters
        ]
        try:
            self._model = msgspec.defstruct(
                self.name, fields, kw_only=True, forbid_unknown_fields=True
            )
            self.schema = self._schema()
        except (TypeError, NameError) as error:
            raise Invalid(
                f"no schema can be made of {self.name}: {error}",
                hint="annotate with types that JSON can carry, or with dataclasses of these",
            ) from error

    def _schema(self) -> dict[str, Any]:
        schema = schema_of(self._model)
        schema.pop("title", None)
        schema.setdefault("properties", {})
        for name, meaning in self._meanings.items():
            if name in schema["properties"] and "$ref" not in schema["properties"][name]:
                schema["properties"][name].setdefault("description", meaning)
        schema["additionalProperties"] = False
        return schema

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as the function wants them.

        Raises:
            BadValue: they do not fit; the message says where, for the model to read.
        """
        found = fitted(given, self._model, what=f"the arguments of {self.name}")
        return {each.name: getattr(found, each.name) for each in self._parameters}

    def is_typed(self, name: str) -> bool:
        """Tell whether a parameter is annotated with more than that it may be anything."""
        return self._kinds.get(name, Any) is not Any

    def named(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a Python call by their names.

        Raises:
            Invalid: the function does not take them.
        """
        try:
            bound = inspect.Signature(self._parameters).bind(*args, **kwargs)
        except TypeError as error:
            raise Invalid(f"{self.name}: {error}", hint="see its signature") from None
        bound.apply_defaults()
        return dict(bound.arguments)


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a type, in one piece."""
    schema = msgspec.json.schema(kind, schema_hook=_foreign_schema)
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    definitions = dict(schema.pop("$defs", {}))
    for lifted in _lifted([schema, list(definitions.values())]):
        definitions |= lifted
    if not name:
        return {**schema, "$defs": definitions} if definitions else schema
    top = definitions[name]
    is_recursive = f'#/$defs/{name}"' in json.dumps(definitions)
    rest = definitions if is_recursive else {n: d for n, d in definitions.items() if n != name}
    return {**top, "$defs": rest} if rest else dict(top)


def _lifted(value: Any) -> Iterator[dict[str, Any]]:
    """Take out the definitions that other libraries put inside: references start at the top."""
    if isinstance(value, dict):
        if isinstance(value.get("$defs"), dict):
            yield value.pop("$defs")
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from _lifted(item)


def fitted(value: Any, kind: Any, *, what: str) -> Any:
    """Return plain data as a value of a type.

    Raises:
        BadValue: it does not fit; the message says where.
    """
    try:
        return msgspec.convert(plain(value), kind, str_keys=True, dec_hook=_foreign_value)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadValue(f"{what}: {error}", hint="give what the schema asks for") from error


def plain(value: Any) -> Any:
    """Return a value as plain data that can be kept; what has no such form is told by its repr."""
    try:
        made = msgspec.to_builtins(_ordered(value), str_keys=True, enc_hook=_plainer)
        return _json_like(made)
    except Exception:  # noqa: BLE001  # whatever a user's class raises when it is looked at
        return _told_apart(value)


def packed(value: Any) -> bytes:
    """Return plain data as bytes that tell it from any other, also numbers of any length."""
    try:
        return msgspec.msgpack.encode(value, order="sorted")
    except OverflowError:
        return json.dumps(value, sort_keys=True, default=repr).encode("utf-8", "replace")


def whole(text: str) -> str:
    """Return a text without half characters, which no UTF-8 can say; JSON lets them through."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def told(result: Any) -> str:
    """Return a result as text for a model: text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    return msgspec.json.encode(plain(result)).decode()


def _ordered(value: Any) -> Any:
    """Return a value whose sets are in one order, which Python does not promise."""
    if isinstance(value, set | frozenset):
        return sorted(map(_ordered, value), key=repr)
    if type(value) is dict:
        return {key: _ordered(item) for key, item in value.items()}
    return list(map(_ordered, value)) if type(value) in (list, tuple) else value


def _json_like(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict | list | tuple | set | frozenset) and depth == _DEEPEST:
        return _told_apart(value)
    if isinstance(value, dict):
        return {whole(str(key)): _json_like(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_like(item, depth + 1) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return str(value)  # JSON has no such number
    return value


def _plainer(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    listed = getattr(value, "tolist", None)  # numbers and arrays of numpy, and what is like them
    return listed() if callable(listed) else _told_apart(value)


def _told_apart(value: Any) -> str:
    try:
        # Where it is in memory is not what it is: the same call must look the same tomorrow.
        return _ADDRESS.sub("", whole(repr(value)))[:_MOST_LETTERS]
    except Exception:  # noqa: BLE001  # whatever a user's repr raises
        return f"a {type(value).__name__}"


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says, and what it says of each argument."""
    before, _, rest = text.partition("\nArgs:\n")
    meanings: dict[str, str] = {}
    name, depth = "", 0
    for line in rest.splitlines():
        if _SECTION.match(line):
            break
        found = _ARGUMENT.match(line)
        if found and (not depth or len(found[1]) <= depth):
            depth, name = len(found[1]), found[2]
            meanings[name] = found[3].strip()
        elif name and line.strip():
            meanings[name] = f"{meanings[name]} {line.strip()}".strip()
    lines = before.splitlines()
    end = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return "\n".join(lines[:end]).strip(), meanings


def name_of(function: Any) -> str:
    """Return what a function is called, also one behind a partial, or that of an object."""
    inner = _inner(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def parameters_of(function: Any) -> list[inspect.Parameter] | None:
    """Return the parameters of anything that can be called; None if Python does not tell."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _inner(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _fillable(given: list[inspect.Parameter], hidden: frozenset[str]) -> list[inspect.Parameter]:
    found = []
    for each in given:
        if each.name in hidden:
            continue
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise Invalid(
                f"{each} cannot be filled in by name", hint="name each parameter, without * and /"
            )
        found.append(each)
    return found


def _hints(function: Any) -> dict[str, Any]:
    inner = _inner(function)
    is_object = not inspect.isroutine(inner) and not isinstance(inner, type)
    annotated = type(inner).__call__ if is_object else inner
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except (NameError, TypeError) as error:
        raise Invalid(
            f"the annotations of {name_of(function)} cannot be read: {error}",
            hint="define or import what they name at the top of the module",
        ) from error


def _field(each: inspect.Parameter, hint: Any) -> Any:
    if each.default is each.empty:
        return each.name, hint
    default = each.default
    if default is None:
        return each.name, hint | None, None  # who writes `n: int = None` means it
    if isinstance(default, _NEVER_CHANGE):
        return each.name, hint, default
    return each.name, hint, msgspec.field(default_factory=lambda: deepcopy(default))


_NEVER_CHANGE = (str, int, float, bool, bytes, Enum)


def _foreign_schema(kind: type) -> dict[str, Any]:
    make = getattr(kind, "model_json_schema", None)
    if make is None:
        raise NotImplementedError(f"{kind!r} has no schema")
    own = f"{kind.__name__}."  # two models may each have an Inner
    found: dict[str, Any] = make(ref_template=f"#/$defs/{own}{{model}}")
    if "$defs" in found:
        found["$defs"] = {own + name: inner for name, inner in found["$defs"].items()}
    return found


def _foreign_value(kind: type, value: Any) -> Any:
    make = getattr(kind, "model_validate", None)
    if make is None:
        raise NotImplementedError(f"a {kind.__name__} cannot be made of data")
    return make(value)


Effects: TypeAlias = Literal["none", "idempotent", "once"]
EFFECTS = ("none", "idempotent", "once")
KEY = "idempotency_key"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what providers accept

Asks: TypeAlias = "Callable[[str, Mapping[str, Any]], Any]"
"""Tells whether a call happened, given its key and arguments: what it returned, or True; if not,
None or False."""


class Tool:
    """A function that a model may call. Make one with `tool`, or `@agent.tool`."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effects: Effects = "none",
        timeout_seconds: float | None = None,
        retries: int = 0,
        asks: Asks | None = None,
    ) -> None:
        """Make a tool of a function.

        Raises:
            Invalid: no schema can be made of its signature, or the settings contradict each other.
        """
        self.function = function
        self.signature = Signature(function, hidden=frozenset({KEY}))
        self.takes_key = KEY in self.signature.names
        self.name = name or self.signature.name
        self.description = self.signature.text if description is None else description
        self.effects = effects
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.asks = asks
        self._check()

    def _check(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Invalid(
                f"{self.name!r} cannot name a tool",
                hint="give name= with at most 64 of the letters a to z, digits, _ and -",
            )
        inner = inspect.unwrap(self.function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise Invalid(
                f"{self.name} yields, and a tool returns", hint="return a list of what it yields"
            )
        if self.effects not in EFFECTS:
            raise Invalid(f"effects={self.effects!r}", hint=f"use one of {', '.join(EFFECTS)}")
        if self.effects == "once" and self.retries:
            raise Invalid(f"{self.name} must not happen twice", hint="leave out retries=")
        if self.retries < 0 or (self.timeout_seconds is not None and self.timeout_seconds <= 0):
            raise Invalid(f"{self.name}: a time-out is above 0, and retries are 0 or more")

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self.signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name} effects={self.effects}>"


class Toolbox(Mapping[str, Tool]):
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.add(each)

    def add(self, given: Tool | Callable[..., Any]) -> Tool:
        """Take a tool in, or a function as one.

        Raises:
            Invalid: there is another of this name.
        """
        found = given if isinstance(given, Tool) else Tool(given)
        if self._tools.get(found.name, found) is not found:
            raise Invalid(f"there is a tool {found.name} already", hint="give it another name=")
        self._tools[found.name] = found
        return found

    def find(self, name: str) -> Tool:
        """Return the tool of a name.

        Raises:
            KeyNotFound: there is none; the message is for the model to read.
        """
        if name in self._tools:
            return self._tools[name]
        near = get_close_matches(name, self._tools, n=1)
        known = ", ".join(self._tools) or "none"
        raise KeyNotFound(
            f"there is no tool {name!r}",
            hint=f"did you mean {near[0]}?" if near else f"the tools are: {known}",
        )

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


@overload
def tool(function: Callable[..., Any]) -> Tool: ...
@overload
def tool(**settings: Any) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Any = None, **settings: Any) -> Any:
    """Make a tool of a function, as a decorator: `@tool` or `@tool(effects="once")`."""
    if function is not None:
        return Tool(function, **settings)
    return lambda found: Tool(found, **settings)
