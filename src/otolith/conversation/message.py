"""Messages: a role and parts, in an order that loses nothing of what any provider can hold.

A call and its result are parts too, tied by the id of the call. Content of a provider that has no
kind of part here is stored unchanged, as an `Extra`.

    Message(Role.USER, (Text("Find me a flight"),))

Messages and parts are frozen. `to_data` returns plain data that a tree can hold, `from_data` reads
it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from otolith import shapes
from otolith.errors import BadMessage, BadValue
from otolith.frozen import DEEPEST, EMPTY, freeze, thaw
from otolith.shapes import NOTHING, Shape
from otolith.types import short_repr

STORED_FILE = ".file"
"""The key in `Attachment.extra` of a stored attachment: the hash and the length of its bytes,
which are stored once beside the log."""


def _empty() -> Mapping[str, Any]:
    return EMPTY


class _FrozenFields:
    """Freezes the dicts that a part was made with, so that the caller cannot change them."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in ("arguments", "extra", "meta"):
            value = getattr(self, name, EMPTY)
            if value is EMPTY:
                continue
            if not isinstance(value, Mapping):
                raise BadValue(
                    f"{name} must be a dict, got {value!r}", hint="use names and plain data"
                )
            object.__setattr__(self, name, freeze(value))


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@short_repr("text")
@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    text: str


@short_repr("text")
@dataclass(frozen=True, slots=True)
class Reasoning(_FrozenFields):
    """The reasoning of a model; its provider wants it back unchanged, with the signature."""

    text: str
    signature: str = ""
    extra: Mapping[str, Any] = field(default_factory=_empty)


@short_repr("name", "arguments", "id")
@dataclass(frozen=True, slots=True)
class ToolCall(_FrozenFields):
    """A request of a model to call a tool."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=_empty)
    raw: str = ""
    """The arguments as the model wrote them, if they are not the compact JSON of `arguments`."""
    extra: Mapping[str, Any] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        _FrozenFields.__post_init__(self)
        if self.raw and not self.arguments:
            object.__setattr__(self, "arguments", parse_json_object(self.raw) or EMPTY)


@short_repr("call_id", "content", "is_error")
@dataclass(frozen=True, slots=True)
class ToolResult(_FrozenFields):
    """The result of a tool call."""

    call_id: str
    content: str | tuple[Part, ...] = ""
    is_error: bool = False
    extra: Mapping[str, Any] = field(default_factory=_empty)


@short_repr("media_type", "name", "url", "data")
@dataclass(frozen=True, slots=True)
class Attachment(_FrozenFields):
    """A file or a picture: its bytes, or its address."""

    media_type: str
    data: bytes | None = None
    url: str = ""
    name: str = ""
    extra: Mapping[str, Any] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class Extra:
    """A part that only its provider understands, unchanged."""

    type: str
    data: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", freeze(self.data))


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Attachment | Extra

PARTS: dict[str, type[Any]] = {
    "text": Text,
    "reasoning": Reasoning,
    "call": ToolCall,
    "result": ToolResult,
    "attachment": Attachment,
    "extra": Extra,
}
"""Classes of parts by the kind under which they are stored."""
_KINDS = {part_class: kind for kind, part_class in PARTS.items()}
_PART_SHAPES: dict[str, tuple[Shape, Shape]] = {
    "text": ({"text": str}, {}),
    "reasoning": ({"text": str}, {"signature": str, "extra": dict}),
    "call": ({"id": str, "name": str}, {"arguments": dict, "raw": str, "extra": dict}),
    "result": ({"call_id": str}, {"content": (str, list), "is_error": bool, "extra": dict}),
    "attachment": (
        {"media_type": str},
        {"data": (bytes, NOTHING), "url": str, "name": str, "extra": dict},
    ),
    "extra": ({"type": str, "data": object}, {}),
}
"""The fields that the data of a part must have, and those that are left out when empty."""
_MESSAGE_SHAPE: tuple[Shape, Shape] = (
    {"role": str, "parts": list},
    {
        "id": str,
        "name": str,
        "time": int,
        "is_pinned": bool,
        "meta": dict,
        "tokens": (list, NOTHING),
    },
)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The size of a message in tokens, and the name of the counter.

    A context uses counts of its own counter only, and counts all other messages again.
    """

    count: int
    counter: str


@short_repr("role", "text", "calls", "results")
@dataclass(frozen=True, slots=True)
class Message(_FrozenFields):
    """One message of a conversation.

    Raises:
        BadMessage: its parts are not a tuple or a list of parts.
        BadValue: there is no such role, or `meta` is not plain data.
    """

    role: Role
    parts: tuple[Part, ...]
    id: str = ""
    name: str = ""
    time: int = 0
    """Microseconds since 1970; 0 if unknown."""
    tokens: Tokens | None = None
    is_pinned: bool = False
    meta: Mapping[str, Any] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        _FrozenFields.__post_init__(self)
        if type(self.role) is not Role:
            object.__setattr__(self, "role", _role(self.role))
        parts: Any = self.parts
        if isinstance(parts, list):
            parts = tuple(parts)
            object.__setattr__(self, "parts", parts)
        if type(parts) is not tuple or not all(type(part) in _KINDS for part in parts):
            raise BadMessage(
                f"the parts of a message must be a tuple of parts, got {parts!r:.60}",
                problem="wrong_type",
                hint='write Message(role, (Text("…"),)), or use chat.user("…")',
            )

    @property
    def text(self) -> str:
        """The texts of the message, without reasoning, calls, results and attachments."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in the message."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    def to_data(self) -> dict[str, Any]:
        """Return the message as plain data; empty fields are left out."""
        data: dict[str, Any] = {"role": str(self.role), "parts": list(map(part_data, self.parts))}
        if self.tokens:
            data["tokens"] = [self.tokens.count, self.tokens.counter]
        for name in ("id", "name", "time", "is_pinned"):
            if value := getattr(self, name):
                data[name] = value
        return data | ({"meta": thaw(self.meta)} if self.meta else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Message:
        """Return the message that `to_data` made into data.

        Raises:
            BadValue: the data is not a message.
        """
        given = shapes.fields(data, "a message", *_MESSAGE_SHAPE, is_open=True, error=BadValue)
        parts = tuple(_part_from(part, 0) for part in given.pop("parts"))
        counted = given.pop("tokens", None)
        if counted is not None:
            pair = shapes.items(counted, "the tokens of a message", int, str, error=BadValue)
            given["tokens"] = Tokens(*pair)
        return cls(role=_role(given.pop("role")), parts=parts, **given)


def _role(name: Any) -> Role:
    try:
        return Role(name)
    except ValueError:
        raise BadValue(f"unknown role {name!r}", hint=f"use one of {', '.join(Role)}") from None


def parse_json_object(text: Any) -> Mapping[str, Any] | None:
    """Return the object that a text is the JSON of; None if it is anything else."""
    try:
        found = freeze(json.loads(text, parse_constant=_refuse_constant))
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # JSON can escape half a character
    except (TypeError, ValueError, RecursionError, BadValue):
        return None
    return found if isinstance(found, dict) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)  # NaN and Infinity, which no other reader of JSON takes


def part_data(part: Part) -> dict[str, Any]:
    """Return a part as plain data; empty fields are left out."""
    kind = _KINDS[type(part)]
    data: dict[str, Any] = {"kind": kind}
    for each in fields(part):
        name, value = each.name, getattr(part, each.name)
        if (name == "data" and kind == "extra") or isinstance(value, Mapping):
            value = thaw(value)
        elif isinstance(value, tuple):
            value = list(map(part_data, value))
        if value not in ("", {}, None, False) or name in _PART_SHAPES[kind][0]:
            data[name] = value
    if isinstance(part, ToolCall) and part.raw and parse_json_object(part.raw) == part.arguments:
        data.pop("arguments", None)  # they are read from `raw` again
    return data


def _part_from(data: object, depth: int) -> Part:
    """Return the part that `part_data` made into data.

    Raises:
        BadValue: the data is not a part.
    """
    given = shapes.mapping(data, "a part of a message", object, error=BadValue)
    kind = given.pop("kind", None)
    shape = _PART_SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None or depth > DEEPEST:
        shown = repr(kind[:40]) if isinstance(kind, str) else f"a {type(kind).__name__}"
        raise BadValue(f"unknown kind of part: {shown}", hint=f"use one of {list(PARTS)}")
    given = shapes.fields(given, f"a part of the kind {kind}", *shape, error=BadValue)
    if isinstance(given.get("content"), list | tuple):
        given["content"] = tuple(_part_from(each, depth + 1) for each in given["content"])
    made: Part = PARTS[kind](**given)
    return made
