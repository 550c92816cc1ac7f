"""What a message must be before it is kept: not empty, all text, its parts where they belong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from otolith.agent.conversation.formats.media import compact
from otolith.agent.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Role,
    Text,
    ToolResult,
)
from otolith.agent.conversation.shapes import check_types
from otolith.errors import BadMessage, BadValue

LARGEST_BYTES = 64 << 20
"""The longest attachment that is kept, unless a conversation is told otherwise."""

Content = str | bytes | Part | Iterable[Part | str]
"""What a message can be made from."""

_ANSWERS = (Text, Attachment, Extra)


def parts_of(content: Content | None) -> tuple[Part, ...]:
    """Return content as parts: text, a part, or several of them.

    Raises:
        BadMessage: bytes that are not UTF-8.
    """
    if content is None:
        return ()
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError as error:
            raise BadMessage(
                f"the text is not UTF-8: {error}",
                problem="not_text",
                hint="decode it first, or attach it as a file",
            ) from None
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        return (cast("Part", content),)
    return tuple(Text(part) if isinstance(part, str) else part for part in content)


def answer_of(result: Any) -> str | tuple[Part, ...]:
    """Return what a tool gave as content: text, parts, or the JSON of anything else."""
    if isinstance(result, str):
        return result
    if isinstance(result, bytes):
        return "".join(part.text for part in parts_of(result) if isinstance(part, Text))
    if isinstance(result, _ANSWERS):
        return (result,)
    if isinstance(result, list | tuple) and result and all(isinstance(p, _ANSWERS) for p in result):
        return tuple(result)
    try:
        return compact(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(
            f"a tool gave what is neither text nor JSON: {error}",
            problem="not_text",
            hint="give text, parts, or plain data",
        ) from None


def check(message: Message, *, limit_bytes: int, allow_empty: bool = False) -> None:
    """Refuse a message that cannot be kept, or that no provider could be sent.

    Raises:
        BadMessage: `problem` is "wrong_type", "empty", "not_text", "misplaced" or "too_large".
    """
    check_types(message)
    if not allow_empty and not any(map(_says_something, message.parts)):
        raise BadMessage(
            f"a message of the {message.role} says nothing",
            problem="empty",
            hint="give it text, a call, a result or an attachment",
        )
    _check_places(message)
    for attachment in attachments(message.parts):
        _check_size(attachment, limit_bytes)
    check_text(message.to_data())


def attachments(parts: Iterable[Part]) -> Iterator[Attachment]:
    """Yield the attachments among parts, and in the results among them."""
    for part in parts:
        if isinstance(part, Attachment):
            yield part
        elif isinstance(part, ToolResult) and isinstance(part.content, tuple):
            yield from attachments(part.content)


def _says_something(part: Part) -> bool:
    if isinstance(part, Attachment):
        return part.data is not None or bool(part.url)
    return not isinstance(part, Text) or bool(part.text.strip())


def _check_places(message: Message) -> None:
    role = message.role
    wrong = ""
    if message.calls and role is not Role.ASSISTANT:
        wrong = f"a call in a message of the {role}: only an assistant calls tools"
    elif message.results and role not in (Role.TOOL, Role.USER):
        wrong = f"a result in a message of the {role}: it belongs in one of the tool"
    elif role is Role.TOOL and not all(map(_is_answer, message.parts)):
        wrong = "a message of the tool has parts that are no results"
    elif role is Role.TOOL and not message.parts:
        wrong = "a message of the tool has no result"
    if wrong:
        raise BadMessage(wrong, problem="misplaced", hint="use chat.assistant and chat.tool")


def _is_answer(part: Part) -> bool:
    """Tell whether a part is a result, or leave that was given to the server of a provider."""
    return isinstance(part, ToolResult) or (
        isinstance(part, Extra) and part.type == "responses:mcp_approval_response"
    )


def _check_size(part: Attachment, limit_bytes: int) -> None:
    if part.data is not None and len(part.data) > limit_bytes:
        raise BadMessage(
            f"attachment {part.name or part.media_type} has {len(part.data):,} bytes;"
            f" the limit is {limit_bytes:,}",
            problem="too_large",
            hint="pass attachment_limit_bytes=, or keep the file elsewhere and attach its url",
        )


def check_text(data: Any) -> None:
    """Refuse what no UTF-8 can say: half a character, which JSON lets through.

    Raises:
        BadMessage: there is one.
    """
    try:
        for text in _texts(data):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError as error:
        raise BadMessage(
            f"a text holds half a character (a lone surrogate) at {error.start}",
            problem="not_text",
            hint='clean it with text.encode("utf-8", "replace").decode()',
        ) from None
    except RecursionError:
        raise BadValue("the data of a message is nested too deep", hint="flatten it") from None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
