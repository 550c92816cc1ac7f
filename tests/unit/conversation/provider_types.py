"""Random documents made from the types that the providers' own Python packages publish.

The packages are for tests only (`pip install 'otolith[dev]'`); what uses this file skips itself
where they are missing.
"""

from __future__ import annotations

import collections.abc
import random
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

import pydantic
import pytest
import typing_extensions as te

chat_types: Any = pytest.importorskip("openai.types.chat")
response_types: Any = pytest.importorskip("openai.types.responses")
anthropic_types: Any = pytest.importorskip("anthropic.types")

MESSAGES: dict[str, Any] = {
    "openai": chat_types.ChatCompletionMessageParam,
    "responses": response_types.ResponseInputItemParam,
    "anthropic": anthropic_types.MessageParam,
}
"""The type of one message of a request, by format."""

PNG = "iVBORw0KGgoAAAANSUhEUg=="
_WORDS = ("hello world", "a", "ünïcode 日本", " lead", "line\nbreak", "id_7")
_TEXTS = {
    "arguments": ('{"a":1}', '{"a": 1}', "{}", '{"b":[1,2],"a":"ü"}'),
    "partial_json": ('{"a":1}',),
    "data": (PNG,),
    "file_data": (PNG, f"data:application/pdf;base64,{PNG}"),
    "image_url": ("https://x.y/a.png", f"data:image/png;base64,{PNG}"),
    "media_type": ("image/png",),
    "url": ("https://x.y/a.png", f"data:image/png;base64,{PNG}"),
}
"""What the texts of some fields look like."""
_WRAPPERS = (te.Required, te.NotRequired, te.ReadOnly, te.Annotated, typing.Annotated)
_LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)
_DEEPEST = 5


def bare(hint: Any) -> Any:
    """Return a type without what says more about it."""
    while True:
        if te.get_origin(hint) in (*_WRAPPERS, typing.Required, typing.NotRequired):
            hint = te.get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def is_dict_type(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__required_keys__")


@cache
def hints_of(hint: Any) -> dict[str, Any]:
    return te.get_type_hints(hint, include_extras=True)


def is_required(hint: Any, name: str) -> bool:
    origin = te.get_origin(hints_of(hint)[name])
    if origin in (te.Required, te.NotRequired, typing.Required, typing.NotRequired):
        return origin in (te.Required, typing.Required)
    return name in hint.__required_keys__


class Samples:
    """Makes random values of types."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, hint: Any, name: str = "", depth: int = 0) -> Any:
        """Return plain data of a type; `name` is the field that it is for."""
        hint = bare(hint)
        origin, inner = te.get_origin(hint), te.get_args(hint)
        if hint in (None, type(None)):
            return None
        if origin in (typing.Literal, te.Literal):
            return self.random.choice(inner)
        if origin in (typing.Union, types.UnionType):
            return self.value(self.random.choice(self._choices(inner, depth)), name, depth)
        if origin in _LISTS:
            count = self.random.choice((0, 1, 1, 2)) if depth < _DEEPEST else 0
            return [self.value(inner[0], name, depth + 1) for _ in range(count)]
        if origin in (dict, collections.abc.Mapping):
            return {
                f"k{at}": self.value(inner[1], "", depth + 1)
                for at in range(self.random.randrange(3))
            }
        return self._fields(hint, depth) if is_dict_type(hint) else self._leaf(hint, name)

    def _choices(self, options: tuple[Any, ...], depth: int) -> list[Any]:
        """Return the types of a union that are plain data, and deep inside those that end it."""
        plain = [each for each in map(bare, options) if not _is_object(each)]
        shallow = [each for each in plain if not is_dict_type(each)]
        return (shallow if depth >= _DEEPEST and shallow else plain) or list(options)

    def _fields(self, hint: Any, depth: int) -> dict[str, Any]:
        share = 0.5 if depth < _DEEPEST - 1 else 0.1
        return {
            name: self.value(field, name, depth + 1)
            for name, field in hints_of(hint).items()
            if is_required(hint, name) or self.random.random() < share
        }

    def _leaf(self, hint: Any, name: str) -> Any:
        if hint is str:
            return self.random.choice(_TEXTS.get(name, _WORDS))
        if hint is int:
            return self.random.randrange(9)
        if hint is float:
            return self.random.random()
        if hint is bool:
            return self.random.random() < 0.5
        return PNG if name == "data" else self.random.choice(("x", 1, {"k": "v"}))


def _is_object(hint: Any) -> bool:
    """Return whether a type is one of objects, which no JSON has."""
    parts = te.get_args(hint) if te.get_origin(hint) is typing.Union else ()
    if parts:
        return all(_is_object(bare(part)) for part in parts)
    is_model = isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)
    return is_model or "IO[" in str(hint) or "PathLike" in str(hint)


def documents(seed: int, format: str, *, is_linked: bool) -> dict[str, Any]:
    """Return a random document; if it is linked, each result has a call before it."""
    samples = Samples(seed)
    found = [samples.value(MESSAGES[format]) for _ in range(samples.random.randrange(1, 6))]
    if is_linked:
        found = list(_linked(found, format))
    if format == "responses":
        return {"input": found} | ({"instructions": "Be brief."} if seed % 3 else {})
    is_system = format == "anthropic" and seed % 3
    return {"messages": found} | ({"system": "Be brief."} if is_system else {})


def _linked(messages: list[dict[str, Any]], format: str) -> Iterator[dict[str, Any]]:
    """Yield messages whose calls have ids of their own, and whose results name a call."""
    waiting: dict[str, list[str]] = {}
    count = 0
    for message in messages:
        for part, name, kind in _calls(message, format):
            count += 1
            part[name] = f"call_{count}"
            waiting.setdefault(kind, []).append(part[name])
        results = list(_results(message, format))
        for part, name, kind in results:
            part[name] = waiting[kind].pop() if waiting.get(kind) else None
        if all(part[name] is not None for part, name, _ in results):
            yield message


def _calls(message: dict[str, Any], format: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the calls in a message, with the field of their id and their kind."""
    if format == "responses":
        kind = str(message.get("type"))
        if kind.endswith("_call") and "call_id" in message:
            yield message, "call_id", kind
        return
    content = message.get("content")
    blocks = content if isinstance(content, list) and format == "anthropic" else ()
    calls = message.get("tool_calls") if format == "openai" else blocks
    for part in calls or ():
        if format == "openai" or part.get("type") == "tool_use":
            yield part, "id", ""


def _results(message: dict[str, Any], format: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the results in a message, with the field that names their call and its kind."""
    if format == "responses":
        kind = str(message.get("type"))
        if kind.endswith("_output"):
            name = "id" if kind == "local_shell_call_output" else "call_id"
            yield message, name, kind.removesuffix("_output")
    elif format == "openai" and message["role"] == "tool":
        yield message, "tool_call_id", ""
    elif format == "anthropic" and isinstance(message.get("content"), list):
        for part in message["content"]:
            if part.get("type") == "tool_result":
                yield part, "tool_use_id", ""


@cache
def _with_lists(hint: Any) -> Any:
    """Return a type of plain data, with lists for iterables: pydantic would take a dict for one."""
    hint = bare(hint)
    origin, inner = te.get_origin(hint), te.get_args(hint)
    if origin in _LISTS:
        return list[_with_lists(inner[0])]  # type: ignore[misc]
    if origin in (typing.Union, types.UnionType):
        plain = [each for each in map(bare, inner) if not _is_object(each)]
        if not plain:
            return hint
        return typing.Union[tuple(map(_with_lists, plain))]  # noqa: UP007 - made of a tuple
    if not is_dict_type(hint):
        return hint
    fields = {
        name: (te.Required if is_required(hint, name) else te.NotRequired)[_with_lists(field)]
        for name, field in hints_of(hint).items()
    }
    return te.TypedDict(hint.__name__, fields)  # type: ignore[operator]


@cache
def _adapter(hint: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(_with_lists(hint))


def refusals(value: Any, hint: Any) -> list[str]:
    """Return what pydantic says against a value; nothing if it is of the type."""
    try:
        _adapter(hint).validate_python(value)
    except pydantic.ValidationError as error:
        return [f"{each['loc']}: {each['msg']}" for each in error.errors()]
    return []
