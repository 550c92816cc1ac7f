"""Messages: what was said, by whom, in parts that lose nothing of what any provider can hold.

A message is a role and parts in their order. A call and its result are parts too, tied by the id of
the call. What a provider sends that has no part of its own here is kept as an `Extra`, as it came.

Everything is frozen. `to_data` gives plain data that the tree can hold, `from_data` takes it back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from otolith import shapes
from otolith.errors import BadValue
from otolith.frozen import DEEPEST, EMPTY, freeze, thaw
from otolith.shapes import NOTHING, Shape


def _nothing() -> Mapping[str, Any]:
    return EMPTY


class _Frozen:
    """Makes what a part is given its own: data that nobody can change."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name in ("arguments", "extra", "meta"):
            value = getattr(self, name, EMPTY)
            if value is EMPTY:
                continue
            if not isinstance(value, Mapping):
                raise BadValue(f"{name}={value!r} is no dict", hint="use names and plain data")
            object.__setattr__(self, name, freeze(value))


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Text:
    """Something said."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning(_Frozen):
    """What a model thought; providers want it back as it was, with the signature."""

    text: str
    signature: str = ""
    extra: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class ToolCall(_Frozen):
    """What a model wants a tool to do."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=_nothing)
    raw: str = ""
    """The arguments as they came, if they were not the JSON of an object, or not as it is written
    here; if they were one, `arguments` are what it says."""
    extra: Mapping[str, Any] = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        _Frozen.__post_init__(self)
        if self.raw and not self.arguments:
            object.__setattr__(self, "arguments", object_in(self.raw) or EMPTY)


@dataclass(frozen=True, slots=True)
class ToolResult(_Frozen):
    """What a tool answered."""

    call_id: str
    content: str | tuple[Part, ...] = ""
    is_error: bool = False
    extra: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class Attachment(_Frozen):
    """A file or a picture: its bytes, or where they are."""

    media_type: str
    data: bytes | None = None
    url: str = ""
    name: str = ""
    extra: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class Extra:
    """A part that only its provider understands, as it came."""

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
"""Which fields the data of a part has, and which it may have."""
_MESSAGE: tuple[Shape, Shape] = (
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
_KINDS = {kind: name for name, kind in PARTS.items()}
_REQUIRED: dict[type[Any], set[str]] = {
    Text: {"text"},
    Reasoning: {"text"},
    ToolCall: {"id", "name"},
    ToolResult: {"call_id"},
    Attachment: {"media_type"},
    Extra: {"type", "data"},
}
"""The fields that are there even if they are empty."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """How many tokens a message has, and who counted.

    Contexts believe their own counter only, and count again what another one has counted.
    """

    count: int
    counter: str


@dataclass(frozen=True, slots=True)
class Message(_Frozen):
    """One message of a conversation."""

    role: Role
    parts: tuple[Part, ...]
    id: str = ""
    name: str = ""
    time: int = 0
    """Microseconds since 1970; 0 if nobody knows."""
    tokens: Tokens | None = None
    is_pinned: bool = False
    meta: Mapping[str, Any] = field(default_factory=_nothing)

    def __post_init__(self) -> None:
        _Frozen.__post_init__(self)
        if type(self.role) is not Role:
            object.__setattr__(self, "role", _role(self.role))
        given: Any = self.parts
        if isinstance(given, list):
            object.__setattr__(self, "parts", tuple(given))

    @property
    def text(self) -> str:
        """What was said, without reasoning, calls and attachments."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results in it."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    def to_data(self) -> dict[str, Any]:
        """Return the message as plain data; what is empty is left out."""
        data: dict[str, Any] = {"role": str(self.role), "parts": list(map(part_data, self.parts))}
        data |= {"tokens": [self.tokens.count, self.tokens.counter]} if self.tokens else {}
        known = {"id": self.id, "name": self.name, "time": self.time, "is_pinned": self.is_pinned}
        return data | {key: value for key, value in known.items() if value} | _meta(self.meta)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Message:
        """Return the message that `to_data` gave.

        Raises:
            BadValue: it is not such data.
        """
        given = shapes.fields(data, "a message", *_MESSAGE, is_open=True, error=BadValue)
        parts = tuple(map(part_of, given.pop("parts")))
        counted = given.pop("tokens", None)
        if counted is not None:
            pair = shapes.items(counted, "the tokens of a message", int, str, error=BadValue)
            given["tokens"] = Tokens(*pair)
        return cls(role=_role(given.pop("role")), parts=parts, **given)


def _role(name: Any) -> Role:
    try:
        return Role(name)
    except ValueError:
        known = ", ".join(Role)
        raise BadValue(f"{name!r} is no role", hint=f"use one of {known}") from None


def object_in(text: Any) -> Mapping[str, Any] | None:
    """Return the object that a text is the JSON of; None if it is something else."""
    try:
        found = freeze(json.loads(text, parse_constant=_refuse))
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # half a character can be escaped
    except (TypeError, ValueError, RecursionError, BadValue):
        return None
    return found if isinstance(found, dict) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def part_data(part: Part) -> dict[str, Any]:
    """Return a part as plain data; what is empty is left out."""
    data: dict[str, Any] = {"kind": _KINDS[type(part)]}
    for each in fields(part):
        name, value = each.name, getattr(part, each.name)
        if (name == "data" and isinstance(part, Extra)) or isinstance(value, Mapping):
            value = thaw(value)
        elif isinstance(value, tuple):
            value = list(map(part_data, value))
        if value not in ("", {}, None, False) or name in _REQUIRED[type(part)]:
            data[name] = value
    if isinstance(part, ToolCall) and part.raw and object_in(part.raw) == part.arguments:
        data.pop("arguments", None)  # they are read from it again
    return data


def part_of(data: Mapping[str, Any]) -> Part:
    """Return the part that `part_data` gave.

    Raises:
        BadValue: it is not such data.
    """
    return _part_of(data, 0)


def _part_of(data: object, depth: int) -> Part:
    given = shapes.mapping(data, "a part of a message", object, error=BadValue)
    kind = given.pop("kind", None)
    shape = _PART_SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None or depth > DEEPEST:
        shown = repr(kind[:40]) if isinstance(kind, str) else f"a {type(kind).__name__}"
        raise BadValue(f"{shown} is no kind of part here", hint=f"use one of {list(PARTS)}")
    given = shapes.fields(given, f"a part of the kind {kind}", *shape, error=BadValue)
    if isinstance(given.get("content"), list | tuple):
        given["content"] = tuple(_part_of(each, depth + 1) for each in given["content"])
    made: Part = PARTS[kind](**given)
    return made


def _meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {"meta": thaw(meta)} if meta else {}
