"""Of what types a message is made: what was put together by hand may be anything.

What is kept must be read again, so this is checked before, and not found out after.
"""

from __future__ import annotations

from typing import Any

from otolith.agent.conversation.counting import FILE
from otolith.agent.conversation.message import (
    PARTS,
    Attachment,
    Extra,
    Message,
    Reasoning,
    Text,
    Tokens,
    ToolCall,
    ToolResult,
)
from otolith.errors import BadMessage

_KINDS = tuple(PARTS.values())
_ANSWERS = (Text, Attachment, Extra)
_TEXTS: dict[type[Any], tuple[str, ...]] = {
    Text: ("text",),
    Reasoning: ("text", "signature"),
    ToolCall: ("id", "name", "raw"),
    ToolResult: ("call_id",),
    Attachment: ("media_type", "url", "name"),
    Extra: ("type",),
    Message: ("id", "name"),
}
"""The fields that are texts."""


def check_types(message: Message) -> None:
    """Refuse a message with something in it that is not what its name says.

    Raises:
        BadMessage: `problem` is "wrong_type".
    """
    if not isinstance(message, Message):
        raise _wrong("a message", message, "use chat.user, chat.assistant or Message")
    _check_texts(message)
    if not isinstance(message.parts, tuple):
        raise _wrong("parts", message.parts, "give a tuple of parts")
    if type(message.time) is not int or message.time < 0:
        raise _wrong("time", message.time, "give microseconds since 1970")
    if message.tokens is not None:
        _check_tokens(message.tokens)
    for part in message.parts:
        _check_part(part, _KINDS)


def _check_part(part: Any, kinds: tuple[type[Any], ...]) -> None:
    if type(part) not in kinds:
        raise _wrong("a part", part, f"use {', '.join(kind.__name__ for kind in kinds)}")
    _check_texts(part)
    if isinstance(part, Attachment):
        _check_bytes(part)
    elif isinstance(part, ToolResult) and not isinstance(part.content, str):
        if not isinstance(part.content, tuple):
            raise _wrong("content", part.content, "give text, or a tuple of parts")
        for each in part.content:
            _check_part(each, _ANSWERS)


def _check_bytes(part: Attachment) -> None:
    if part.data is not None and type(part.data) is not bytes:
        raise _wrong("data", part.data, "use bytes(…)")
    if FILE in part.extra:
        raise _wrong(f"extra[{FILE!r}]", part.extra[FILE], "this name is taken; use another")


def _check_texts(part: Any) -> None:
    for name in _TEXTS[type(part)]:
        value = getattr(part, name)
        if not isinstance(value, str):
            raise _wrong(name, value, "give text")


def _check_tokens(tokens: Any) -> None:
    is_fine = isinstance(tokens, Tokens) and type(tokens.count) is int and tokens.count >= 0
    if not is_fine or not isinstance(tokens.counter, str):
        raise _wrong("tokens", tokens, "use Tokens(count, counter)")


def _wrong(name: str, value: Any, hint: str) -> BadMessage:
    what = f"{name} is {type(value).__name__} {value!r:.60}"
    return BadMessage(what, problem="wrong_type", hint=hint)
