"""Tools: typed Python functions that a model may call, and what each does to the world.

    effects="none"         nothing that lasts: after a crash it is simply called again
    effects="idempotent"   the same key twice is once: after a crash it is called with the same key
    effects="once"         it must not happen twice: after a crash `asks` decides, or the user

A function with a parameter `idempotency_key` gets the key of the call; a model does not see it.

A `Signature` is a JSON schema made of a function's annotations: see `function_schema.py`. Arguments
and results are judged like the values of a state with a schema (`type_check`), to the leaf. A tool
that only programs call may have parameters of any type (`for_model=False`).

Arguments and results are stored and hashed, so they become plain data first (`to_plain`): JSON
types only, sets in one order, no addresses of objects, valid Unicode.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import sys
import types
import typing
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy as shallow_copy
from dataclasses import is_dataclass
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, get_args, overload

import msgspec

from otolith.agent.function_schema import (
    function_annotations,
    function_docstring,
    function_name,
    function_parameters,
    has_json_schema,
    is_read_by_pydantic,
    json_schema,
    parameter_type,
    pydantic_reader,
    pydantic_schema,
    struct_field,
)
from otolith.codecs import Codecs
from otolith.core import Encoding, digest
from otolith.errors import BadValue, Invalid, KeyNotFound
from otolith.flows import TaskContext
from otolith.shapes import check_argument
from otolith.state import Misfit, type_check
from otolith.text.reprs import stable_repr

Effects: TypeAlias = Literal["none", "idempotent", "once"]
EffectQuery: TypeAlias = "Callable[[str, Mapping[str, Any]], Any]"
"""Tells whether a call happened, given its key and arguments: returns its result or True if it
did, None or False if it did not."""

KEY_PARAMETER = "idempotency_key"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what providers accept
_DEEPEST = 60
_REPR_LETTERS = 8000
_DIGEST_BYTES = 16
_SCALARS = frozenset({str, int, float, bool, type(None)})
_DICTS = (dict, types.MappingProxyType, UserDict, ChainMap)
_LISTS = (list, tuple, deque, UserList)


class Signature:
    """The parameters and the result of a function, as a model sees them."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        hidden: frozenset[str] = frozenset(),
        for_model: bool = True,
    ) -> None:
        """Read a signature; a model does not see parameters that are `hidden`.

        With `for_model=False` only Python calls it, and parameters may have any type: one of which
        no schema can be made is only given as an object.

        Raises:
            Invalid: a parameter has no type that a schema can be made of.
        """
        self.name = function_name(function)
        found = function_parameters(function)
        if found is None:
            raise Invalid(f"the signature of {self.name} cannot be read", hint="wrap it in a def")
        self.names = tuple(each.name for each in found)
        self._parameters = [each for each in found if each.name not in hidden]
        for each in self._parameters:
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
                raise Invalid(
                    f"{each} cannot be passed by name", hint="name each parameter, without * and /"
                )
        hints = self._types = function_annotations(function)
        self.result: Any = hints.get("return", Any)
        self.text, self._descriptions = function_docstring(function)
        self._structs: dict[frozenset[str], type[msgspec.Struct]] = {}
        """Structs of the parameters; those whose names are in the key may be of any type."""
        self._checks: dict[str, Callable[[Any], None]] = {}
        self._typed = {
            each.name: parameter_type(each, hints[each.name])
            for each in self._parameters
            if each.name in hints
        }
        self._judged = {name for name, hint in self._typed.items() if not _is_simple(hint)}
        self._by_pydantic = {n for n in self._judged if is_read_by_pydantic(self._typed[n])}
        msgspec_reads = self._judged - self._by_pydantic
        self._foreign = {name for name in msgspec_reads if not has_json_schema(self._typed[name])}
        if self._foreign and for_model:
            raise self._no_schema(min(self._foreign))
        self._struct = self._struct_with(frozenset())
        self.schema = self._schema()

    def __repr__(self) -> str:
        return f"<Signature {self.name}({', '.join(self.names)})>"

    def _no_schema(self, name: str) -> Invalid:
        hint = self._typed[name]
        is_class = isinstance(hint, type) and not get_args(hint)
        kind = f"{hint.__module__}.{hint.__qualname__}" if is_class else str(hint)
        return Invalid(
            f"no JSON schema can be made of {self.name}: {name} is annotated with {kind}",
            hint="annotate with types that JSON can carry, or with dataclasses of these;"
            " a tool that no model calls may have any: for_model=False",
        )

    def _schema(self) -> dict[str, Any]:
        schema = json_schema(self._struct)
        schema.pop("title", None)
        properties = schema.setdefault("properties", {})
        for name in sorted(self._by_pydantic & properties.keys()):
            found = pydantic_schema(pydantic_reader(self._typed[name]).json_schema, name)
            definitions = found.pop("$defs", None)
            if definitions:
                schema["$defs"] = schema.get("$defs", {}) | definitions
            properties[name] = found | properties[name]  # which has the default
        for name, text in self._descriptions.items():
            if name in properties and "$ref" not in properties[name]:
                properties[name].setdefault("description", text)
        schema["additionalProperties"] = False
        return schema

    def _struct_with(self, untyped: frozenset[str]) -> type[msgspec.Struct]:
        made = self._structs.get(untyped)
        if made is None:
            any_type = untyped | self._by_pydantic | self._foreign
            hints = {name: hint for name, hint in self._typed.items() if name not in any_type}
            fields = [struct_field(each, hints.get(each.name, Any)) for each in self._parameters]
            made = self._structs[untyped] = msgspec.defstruct(
                self.name, fields, kw_only=True, forbid_unknown_fields=True
            )
        return made

    def arguments(
        self, given: Mapping[str, Any], objects: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return plain data as the arguments that the function is annotated with.

        `objects` are the values that a Python caller gave, of which `given` is the plain form. One
        that is more than plain data, and fits its annotation, is an argument itself: its plain form
        may have lost something, such as a secret.

        Raises:
            BadValue: it does not fit; the message says where, for the model to read.
        """
        whole = {
            name: value
            for name, value in (objects or {}).items()
            if not _is_plain(value) and self._fits(name, value)
        }
        what = f"the arguments of {self.name}"
        made = self._struct_with(frozenset(whole)) if whole else self._struct
        data = {name: value for name, value in given.items() if name not in whole}
        found = convert(data, made, what=what, objects=whole)
        arguments = {each.name: getattr(found, each.name) for each in self._parameters}
        for name in data.keys() & self._judged:
            if name in self._by_pydantic:
                arguments[name] = convert(data[name], self._typed[name], what=f"{what}: {name}")
            else:
                judge(arguments[name], self._check(name), what=f"{what}: {name}")
        return arguments

    def _check(self, name: str) -> Callable[[Any], None]:
        if name not in self._checks:
            self._checks[name] = type_check(self._typed.get(name, Any))
        return self._checks[name]

    def _fits(self, name: str, value: Any) -> bool:
        try:
            self._check(name)(value)
        except Misfit:
            return False
        return True

    def has_type(self, name: str) -> bool:
        """Tell whether a parameter has an annotation other than Any."""
        return self._types.get(name, Any) is not Any

    def bind(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments of a Python call by name, with defaults.

        Raises:
            Invalid: the function does not take them.
        """
        try:
            bound = inspect.Signature(self._parameters).bind(*args, **kwargs)
        except TypeError as error:
            raise Invalid(f"{self.name}: {error}", hint="see its signature") from None
        bound.apply_defaults()
        return dict(bound.arguments)


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
        asks: EffectQuery | None = None,
        for_model: bool = True,
    ) -> None:
        """Make a tool of a function.

        With `for_model=False` only programs call it (`Orchestrator.call`): no model is shown it,
        and its parameters may have types that JSON cannot carry, such as frames.
        `asks(key, arguments)` tells, after a crash, whether a call of a tool with effects has
        happened. It returns the result, or True, if it has; None or False if it has not.

        Raises:
            Invalid: no schema can be made of its signature, or the settings contradict each other.
        """
        self.function = function
        self.for_model = for_model
        self.signature = Signature(function, hidden=frozenset({KEY_PARAMETER}), for_model=for_model)
        self.takes_key = KEY_PARAMETER in self.signature.names
        self.name = name or self.signature.name
        self.description = self.signature.text if description is None else description
        self.effects = effects
        self.timeout_seconds = timeout_seconds
        self.retries = retries
        self.asks = asks
        self.is_replayed = False
        """Whether it repeats recorded results; see `replay_run.py`."""
        self._check()

    def _check(self) -> None:
        if not _TOOL_NAME.fullmatch(self.name):
            raise Invalid(
                f"{self.name!r} cannot name a tool",
                hint="give name= with at most 64 of the letters a to z, digits, _ and -",
            )
        inner = inspect.unwrap(self.function)
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            raise Invalid(
                f"{self.name} is a generator, and a tool must return", hint="return a list instead"
            )
        if self.effects not in get_args(Effects):
            known = ", ".join(get_args(Effects))
            raise Invalid(f"effects must be one of {known}, got {self.effects!r}")
        if self.effects == "once" and self.retries:
            raise Invalid(
                f"{self.name} must not happen twice, got retries={self.retries}",
                hint="leave out retries=",
            )
        if self.retries < 0:
            raise Invalid(f"{self.name}: retries must be at least 0, got {self.retries}")
        if self.timeout_seconds is not None and self.timeout_seconds <= 0:
            seconds = self.timeout_seconds
            raise Invalid(f"{self.name}: timeout_seconds must be above 0, got {seconds:g}")
        if self.asks is not None:
            self._check_asks(self.asks)

    def _check_asks(self, asks: Any) -> None:
        """Check the function that is called after a crash, when it is too late to correct it."""
        if not callable(asks):
            raise Invalid(
                f"{self.name}: asks must be a function, got {asks!r:.60}",
                hint="give asks=, a function of the key and the arguments of a call",
            )
        if self.effects == "none":
            raise Invalid(
                f"{self.name}: asks is for tools with effects, got effects='none'",
                hint='give effects="once", or leave out asks=',
            )
        try:
            signature = inspect.signature(asks)
        except (TypeError, ValueError):  # Python does not know those of some built-in functions
            return
        try:
            signature.bind("key", {})
        except TypeError as error:
            raise Invalid(
                f"{self.name}: asks must take the key and the arguments of a call: {error}",
                hint="write def asks(key, arguments)",
            ) from None

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self.signature.schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def run_in_task(self, task: TaskContext, arguments: Mapping[str, Any]) -> Any:
        """Call it in a task of a flow: `task.call(tool, …)`; see `flow_tasks.call_tool`."""
        # What calls tools is above this module, and is loaded with the first call.
        call: Any = import_module("otolith.agent.flow_tasks").call_tool
        return call(self, task, arguments)

    def __repr__(self) -> str:
        return f"<Tool {self.name} effects={self.effects}>"


class Toolbox(Mapping[str, Tool]):
    """Tools by name."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        check_argument(tools, "tools", Iterable, "a list of tools and functions")
        self._tools: dict[str, Tool] = {}
        for each in tools:
            self.add(each)

    def __repr__(self) -> str:
        return f"<Toolbox {', '.join(self._tools)}>"

    def add(self, item: Tool | Callable[..., Any]) -> Tool:
        """Add a tool, or a function as a tool without effects, and return it.

        Raises:
            Invalid: there is another tool of this name.
        """
        found = item if isinstance(item, Tool) else Tool(item)
        if self._tools.get(found.name, found) is not found:
            raise Invalid(f"there is a tool {found.name} already", hint="give it another name=")
        self._tools[found.name] = found
        return found

    @property
    def for_model(self) -> list[Tool]:
        """The tools that a model may call."""
        return [each for each in self._tools.values() if each.for_model]

    def find(self, name: str, *, for_model: bool = False) -> Tool:
        """Return the tool of a name, which a model may call if it is for one.

        Raises:
            KeyNotFound: there is none; the message is for the model to read.
        """
        offered = {each.name: each for each in self.for_model} if for_model else self._tools
        if name in offered:
            return offered[name]
        near = get_close_matches(name, offered, n=1)
        known = ", ".join(offered) or "none"
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


# Plain data


def convert(value: Any, kind: Any, *, what: str, objects: Mapping[str, Any] | None = None) -> Any:
    """Return plain data as a value of a type.

    `objects` are fields of a struct that are taken unchanged; its fields are not judged here.

    Raises:
        BadValue: it does not fit; the message says where.
    """
    data = {**to_plain(value), **objects} if objects else to_plain(value)
    is_simple = objects is not None or _is_simple(kind)
    try:
        if not is_simple and is_read_by_pydantic(kind):
            return pydantic_reader(kind).validate_json(msgspec.json.encode(data), strict=True)
        found = msgspec.convert(data, kind, str_keys=True, dec_hook=_convert_foreign)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        why = _pydantic_problems(error) or str(error)
        raise BadValue(f"{what}: {why}", hint="use values that match the schema") from error
    if not is_simple:
        judge(found, type_check(kind), what=what)
    return found


def _is_simple(kind: Any) -> bool:
    """Tell whether msgspec alone judges a type: a scalar, or a list or dict of scalars."""
    if any(kind is each for each in (*_SCALARS, None, Any)):  # a kind may be unhashable
        return True
    is_known = typing.get_origin(kind) in (list, dict, typing.Union, types.UnionType)
    return is_known and all(map(_is_simple, get_args(kind)))


def judge(value: Any, check: Callable[[Any], None], *, what: str) -> None:
    """Raise BadValue unless a value fits to the leaf: msgspec does not know all bounds."""
    try:
        check(value)
    except Misfit as misfit:
        path = "".join(f".{key}" for key in reversed(misfit.path))
        raise BadValue(f"{what}{path}: {misfit}", hint="use values that match the schema") from None


def _convert_foreign(kind: type, value: Any) -> Any:
    make = getattr(kind, "model_validate", None)  # pydantic's
    if make is None:
        raise NotImplementedError(f"a {kind.__name__} cannot be made of data")
    try:
        return make(value)
    except ValueError as error:
        raise ValueError(_pydantic_problems(error) or str(error)) from None


def _pydantic_problems(error: Exception) -> str:
    """Return the problems in an error of pydantic, without the values: they may be secrets."""
    list_problems = getattr(error, "errors", None)
    if not callable(list_problems):
        return ""
    problems = list_problems(include_url=False, include_input=False, include_context=False)
    return "; ".join(": ".join((*_place(each["loc"]), each["msg"])) for each in problems)


def _place(location: Iterable[Any]) -> tuple[str, ...]:
    place = ".".join(map(str, location))
    return (place,) if place else ()


def to_plain(value: Any) -> Any:
    """Return a value as plain data that can be stored; see `PlainForm`."""
    return PlainForm(value).data


class PlainForm:
    """A value as plain data: the same for the same value in every process.

    Sets are in one order, also within dataclasses and models. Models of pydantic are under their
    aliases, with their secrets masked. A value without such a form (a frame, an image) is its repr;
    because that may leave out most of it, a digest of the content follows, where a codec takes it.
    """

    def __init__(self, value: Any) -> None:
        self.has_secret = False
        """Whether a secret of pydantic is in the value, and masked in the data."""
        found = value
        try:
            found = self._ordered(value)
            self.data: Any = _json_value(self._builtins(found))
        except Exception:  # noqa: BLE001  # attributes of a user's class may raise anything
            self.data = _stable_repr(found)

    def __repr__(self) -> str:
        return f"<PlainForm {_stable_repr(self.data)}>"

    def _builtins(self, value: Any) -> Any:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=self._simplify)

    def _ordered(self, value: Any) -> Any:
        """Return the value with lists for sets, all the way down."""
        if type(value) in _SCALARS:
            return value
        if isinstance(value, _DICTS):
            return {self._key(key): self._ordered(item) for key, item in value.items()}
        if isinstance(value, set | frozenset):
            return sorted([self._builtins(self._ordered(each)) for each in value], key=repr)
        if isinstance(value, _LISTS):
            return list(map(self._ordered, value))
        if isinstance(value, Enum):
            return self._ordered(value.value)
        if callable(getattr(type(value), "model_dump", None)):  # pydantic's
            made = value.model_dump(by_alias=True, round_trip=True, warnings=False)
            return self._ordered(made)
        return self._with_ordered_fields(value)

    def _key(self, key: Any) -> Any:
        """Return the key of a mapping; one that holds others is the text of its plain form."""
        has_parts = isinstance(key, frozenset | tuple)
        return json.dumps(self._builtins(self._ordered(key))) if has_parts else key

    def _with_ordered_fields(self, value: Any) -> Any:
        """Return a dataclass, struct or attrs object, or a copy of it that has lists for sets."""
        kind = type(value)
        if isinstance(value, msgspec.Struct):
            names, put = kind.__struct_fields__, msgspec.structs.force_setattr
        elif is_dataclass(kind):
            names, put = tuple(kind.__dataclass_fields__), object.__setattr__
        else:
            attributes = getattr(kind, "__attrs_attrs__", ())
            names, put = tuple(each.name for each in attributes), object.__setattr__
        before = {name: getattr(value, name) for name in names if hasattr(value, name)}
        after = {name: self._ordered(item) for name, item in before.items()}
        changed = {name: item for name, item in after.items() if item is not before[name]}
        if not changed:
            return value
        twin = shallow_copy(value)  # msgspec knows which names and tags such an object is given
        for name, item in changed.items():
            put(twin, name, item)
        return twin

    def _simplify(self, value: Any) -> Any:
        """Return a value that msgspec does not know as one that it does."""
        home = type(value).__module__.partition(".")[0]
        if home in ("pydantic", "pydantic_core"):  # an address, a secret …: its text is for people
            self.has_secret |= hasattr(value, "get_secret_value")
            return str(value)
        if isinstance(value, PurePath) or home == "ipaddress":
            return str(value)
        if isinstance(value, re.Pattern):
            return value.pattern
        if callable(getattr(type(value), "model_dump", None)):
            return self._ordered(value)
        to_list = getattr(value, "tolist", None)  # numpy's numbers and arrays, and the like
        if callable(to_list):
            return self._ordered(to_list())
        shown = _stable_repr(value)
        content = "" if home in sys.stdlib_module_names else _content_digest(value)
        return f"{shown}\n[content {content}]" if content else shown


def canonical_bytes(value: Any) -> bytes:
    """Return plain data as bytes that differ for different data, also for very large numbers."""
    try:
        return msgspec.msgpack.encode(value, order="sorted")
    except OverflowError:
        return json.dumps(value, sort_keys=True, default=repr).encode("utf-8", "replace")


def valid_text(text: str) -> str:
    """Return a text without lone surrogates, which JSON accepts and UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def result_text(result: Any) -> str:
    """Return a result as text for a model: text unchanged, everything else as JSON."""
    return result if isinstance(result, str) else msgspec.json.encode(to_plain(result)).decode()


def _is_plain(value: Any) -> bool:
    """Tell whether a value is plain data already."""
    kind = type(value)
    if issubclass(kind, dict):
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    return all(map(_is_plain, value)) if issubclass(kind, list) else kind in _SCALARS


def _json_value(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict | list | tuple | set | frozenset) and depth == _DEEPEST:
        return _stable_repr(value)
    if isinstance(value, dict):
        return {valid_text(str(key)): _json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


def _stable_repr(value: Any) -> str:
    """Return a repr that is the same in every process: a call must look the same tomorrow."""
    try:
        return valid_text(stable_repr(value))[:_REPR_LETTERS]
    except Exception:  # noqa: BLE001  # a user's repr may raise anything
        return f"a {type(value).__name__}"


def _content_digest(value: Any) -> str:
    """Return a digest of all that a value holds; "" if only a pickle could hold it.

    Two processes may pickle the same value in different ways.
    """
    try:
        return digest(_plain_encoding().encode(value))[:_DIGEST_BYTES].hex()
    except Exception:  # noqa: BLE001  # attributes of a user's class may raise anything
        return ""


@functools.cache
def _plain_encoding() -> Encoding:
    return Encoding(Codecs())
