"""Parts as text, JSON and data URLs: what the formats have in common.

A format that cannot hold a part says it in words: `part_text` returns the words of any part.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from otolith.conversation.message import (
    Attachment,
    Extra,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    parse_json_object,
)
from otolith.errors import BadValue
from otolith.frozen import thaw

PDF = "application/pdf"
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of pictures that all providers take."""
OPENAI_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


# Reading


def message_list(document: Any) -> Iterable[Any]:
    """Return the messages of a document.

    Raises:
        BadValue: it is not a list of them.
    """
    if isinstance(document, str | bytes | Mapping) or not isinstance(document, Iterable):
        kind = type(document).__name__
        raise BadValue(f"messages must be a list, got {kind}", hint="give a list")
    return document


def read_role(raw: Mapping[str, Any]) -> str:
    """Return the role of a message.

    Raises:
        BadValue: it has none.
    """
    role = raw.get("role")
    if not isinstance(role, str):
        raise BadValue(f"the role of a message must be a text, got {role!r}", hint="add a role")
    return role


def read_content(content: Any, read_part: Callable[[Any], Part]) -> tuple[Part, ...]:
    """Return content as parts: a text, a list of parts, or nothing."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(map(read_part, content or ()))


def read_call(id: str, name: str, arguments: object) -> ToolCall:
    """Return a call whose arguments are a text: the JSON of an object, or something else.

    Raises:
        BadValue: the arguments are not a text.
    """
    if not isinstance(arguments, str):
        kind = type(arguments).__name__
        raise BadValue(f"arguments must be a text, got {kind}", hint="give their JSON")
    found = parse_json_object(arguments) if arguments else {}
    is_compact = found is not None and (not found or compact_json(found) == arguments)
    return ToolCall(id, name, found or {}, "" if is_compact else arguments)


def read_attachment(url: str, media_type: str, name: str = "") -> Attachment:
    """Return the attachment at an address; the bytes of a data URL are decoded."""
    start = _DATA_URL.match(url)
    data = None if start is None else decode_base64(url[start.end() :])
    if start is None or data is None:
        return Attachment(media_type, url=url, name=name)
    return Attachment(start[1], data=data, name=name)


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of base64; None if it is not valid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


# Writing


def single_text(blocks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text of content that is one block of text; it may be sent as a string."""
    if len(blocks) != 1 or blocks[0].keys() != {"type", "text"} or blocks[0]["type"] != "text":
        return None
    text = blocks[0]["text"]
    return text if isinstance(text, str) else None


def data_url(attachment: Attachment) -> str:
    """Return a data URL with the bytes of an attachment, or the address that it has."""
    if attachment.data is None:
        return attachment.url
    return f"data:{attachment.media_type};base64,{base64.b64encode(attachment.data).decode()}"


def arguments_json(call: ToolCall) -> str:
    """Return the arguments of a call as text."""
    return call.raw or compact_json(thaw(call.arguments))


def compact_json(value: Any) -> str:
    """Return JSON without spaces, with dicts in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sorted_json(value: Any) -> str:
    """Return JSON in which dicts with equal entries have equal texts, to compare them."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def attachment_line(attachment: Attachment) -> str:
    """Return a line that stands for an attachment."""
    name = attachment.name or attachment.url or "attachment"
    return f"[{attachment.media_type}: {name}]"


def refusal_text(part: Part) -> str:
    """Return the text of a model's refusal, whatever its provider; empty for other parts."""
    if not isinstance(part, Extra) or part.type.rpartition(":")[2] != "refusal":
        return ""
    text = part.data.get("refusal") if isinstance(part.data, dict) else None
    return text if isinstance(text, str) else ""


def content_text(content: str | tuple[Part, ...]) -> str:
    """Return the content of a tool result in words."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(part_text, content)))


def error_text(text: str) -> str:
    """Return the text of a failed tool, marked as such for formats that have no flag for it."""
    return text if text.startswith("Error") else f"Error: {text}"


def part_text(part: Part) -> str:
    """Return a part in words; reasoning has none."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return ""
    if isinstance(part, ToolCall):
        return f"[call {part.name} {arguments_json(part)}]"
    if isinstance(part, ToolResult):
        text = content_text(part.content)
        return f"Error: {text}" if part.is_error else text
    if isinstance(part, Attachment):
        return attachment_line(part)
    data = thaw(part.data)
    for key in ("refusal", "text") if isinstance(data, dict) else ():
        if isinstance(data.get(key), str):
            return str(data[key])
    return f"[{part.type} {compact_json(data)}]"
