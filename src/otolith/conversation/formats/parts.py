"""Attachments as addresses that hold their own bytes, and JSON that calls are given.

Parts in words, for formats that have nothing else to say them with.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otolith.conversation.message import (
    Attachment,
    Extra,
    Part,
    Reasoning,
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

_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


def single_text(said: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text, if one part of text is all that is said; it may be sent as it is."""
    if len(said) != 1 or said[0].keys() != {"type", "text"} or said[0]["type"] != "text":
        return None
    text = said[0]["text"]
    return text if isinstance(text, str) else None


def message_list(document: Any) -> Iterable[Any]:
    """Return the messages of a document.

    Raises:
        BadValue: this is no list of them.
    """
    if isinstance(document, str | bytes | Mapping) or not isinstance(document, Iterable):
        raise BadValue(f"a {type(document).__name__} is no list of messages", hint="give a list")
    return document


def read_role(raw: Mapping[str, Any]) -> str:
    """Return the role that a message has.

    Raises:
        BadValue: it has none.
    """
    role = raw.get("role")
    if not isinstance(role, str):
        raise BadValue(f"a message with the role {role!r}", hint="say who speaks")
    return role


def data_url(attachment: Attachment) -> str:
    """Return an address that holds the bytes, or the one that the attachment has."""
    if attachment.data is None:
        return attachment.url
    return f"data:{attachment.media_type};base64,{base64.b64encode(attachment.data).decode()}"


def read_attachment(url: str, media_type: str, **more: Any) -> Attachment:
    """Return the attachment at an address; one that holds its own bytes is opened."""
    begun = _DATA.match(url)
    data = None if begun is None else decode_base64(url[begun.end() :])
    if begun is None or data is None:
        return Attachment(media_type, url=url, **more)
    return Attachment(begun[1], data=data, **more)


def decode_base64(text: str) -> bytes | None:
    """Return the bytes of base64; None if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def read_call(id: str, name: str, given: str, extra: Mapping[str, Any] | None = None) -> ToolCall:
    """Return a call whose arguments came as text: JSON of an object, or something else."""
    if not isinstance(given, str):
        raise BadValue(f"arguments are a {type(given).__name__}, not text", hint="give their JSON")
    more = {} if extra is None else dict(extra)
    arguments = parse_json_object(given) if given else {}
    is_as_written = arguments is not None and (not arguments or compact_json(arguments) == given)
    return ToolCall(id, name, arguments or {}, "" if is_as_written else given, more)


def arguments_json(call: ToolCall) -> str:
    """Return the arguments of a call as text."""
    if call.raw:
        return call.raw
    return compact_json(thaw(call.arguments))


def compact_json(value: Any) -> str:
    """Return JSON in which the same value is always the same text."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def attachment_line(attachment: Attachment) -> str:
    """Return a line that stands for an attachment."""
    name = attachment.name or attachment.url or "attachment"
    return f"[{attachment.media_type}: {name}]"


def refusal_text(part: Part) -> str:
    """Return the words of a model that would not, of whichever provider; else nothing."""
    if not isinstance(part, Extra) or part.type.rpartition(":")[2] != "refusal":
        return ""
    said = part.data.get("refusal") if isinstance(part.data, dict) else None
    return said if isinstance(said, str) else ""


def content_text(content: str | tuple[Part, ...]) -> str:
    """Return what a tool answered, in words."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(part_text, content)))


def part_text(part: Part) -> str:
    """Return a part in words; reasoning is not said aloud."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return ""
    if isinstance(part, ToolCall):
        return f"[call {part.name} {arguments_json(part)}]"
    if isinstance(part, ToolResult):
        return (
            f"Error: {content_text(part.content)}" if part.is_error else content_text(part.content)
        )
    if isinstance(part, Attachment):
        return attachment_line(part)
    return _of_extra(part)


def _of_extra(part: Extra) -> str:
    """Return the text in a part of another provider, or what it is."""
    data = thaw(part.data)
    if isinstance(data, dict):
        for key in ("refusal", "text"):
            if isinstance(data.get(key), str):
                return str(data[key])
    return f"[{part.type} {compact_json(data)}]"
