"""Anthropic's messages: `{"system": …, "messages": [{"role": "user", "content": …}, …]}`.

What becomes what, in both directions:

    text                     Text
    thinking                 Reasoning, with its signature
    tool_use                 ToolCall
    tool_result              ToolResult; a user message of results only is a message of the tool
    image, document          Attachment
    any other block          Extra, written back to this provider only

It cannot hold: reasoning without a signature, parts that only another provider understands, and
names of speakers. A system message after the first stays one if it was read from the messages of
this format; one of another format becomes a user message in <system> tags. An attachment that is
not a picture, PDF or text, or that is not in a message of the user or a tool, becomes a line that
names it, as does one in the result of a tool that failed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otolith.conversation.formats.parts import (
    PDF,
    PICTURES,
    attachment_line,
    compact_json,
    content_text,
    decode_base64,
    message_list,
    read_call,
    read_content,
    read_role,
    refusal_text,
    single_text,
)
from otolith.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.frozen import thaw

NAME = "anthropic"
_PLAIN_TEXT = "text/plain"
_PLACE, _IN_MESSAGES = "in", "messages"
"""A field of a chunk, not of a document: a system message that is not in the field `system`."""


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield the chunk of each message; the system prompt is the first."""
    if isinstance(document, Mapping):
        if "system" in document:
            yield [{"role": "system", "content": document["system"]}]
        document = document["messages"]
    for raw in message_list(document):
        is_system = isinstance(raw, Mapping) and raw.get("role") == "system"
        yield [{**raw, _PLACE: _IN_MESSAGES}] if is_system else [raw]


def document(chunks: Sequence[list[Any]], *, is_request: bool = False) -> dict[str, Any]:
    """Return the document made of chunks; the first system messages are the system prompt.

    For a request this includes those that were read from the messages.
    """
    raws = [raw for chunk in chunks for raw in chunk]
    prompts = []
    while raws and raws[0]["role"] == "system" and (is_request or _PLACE not in raws[0]):
        prompts.append(raws.pop(0)["content"])
    messages = {"messages": [_later_system(r) if r["role"] == "system" else r for r in raws]}
    if len(prompts) == 1:
        return {"system": prompts[0]} | messages
    blocks = [block for content in prompts for block in as_blocks(content)]
    return {"system": blocks} | messages if prompts else messages


def as_blocks(content: Any) -> list[Any]:
    """Return content as a list of blocks, whether it is text or blocks already."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _later_system(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a later system message: as it was read, or as one of the user."""
    if _PLACE in raw:
        return {name: value for name, value in raw.items() if name != _PLACE}
    text = "\n".join(block.get("text", "") for block in as_blocks(raw["content"]))
    return {"role": "user", "content": f"<system>{text}</system>"}


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message in a chunk."""
    (raw,) = chunk
    content = raw.get("content")
    parts = read_content(content, _part) if isinstance(content, str | list) else ()
    role = {"system": Role.SYSTEM, "assistant": Role.ASSISTANT}.get(read_role(raw), Role.USER)
    if role is Role.USER and parts and all(isinstance(part, ToolResult) for part in parts):
        role = Role.TOOL
    return Message(role, parts)


def _part(raw: Mapping[str, Any]) -> Part:
    """Return the part in a block; an `Extra` if its type or a field of it is unknown."""
    kind = raw.get("type")
    part: Part | None = None
    if kind == "text" and isinstance(raw.get("text"), str):
        part = Text(raw["text"])
    elif kind == "thinking":
        text, signature = raw.get("thinking"), raw.get("signature", "")
        if isinstance(text, str) and isinstance(signature, str):
            part = Reasoning(text, signature)
    elif kind == "tool_use":
        arguments = raw.get("input")
        part = read_call(
            raw["id"], raw["name"], compact_json({} if arguments is None else arguments)
        )
    elif kind == "tool_result":
        content = raw.get("content", "")
        result = content if isinstance(content, str) else read_content(content, _part)
        part = ToolResult(raw["tool_use_id"], result, is_error=raw.get("is_error") is True)
    elif kind in ("image", "document"):
        part = _attachment(raw, kind)
    return Extra(f"{NAME}:{kind}", dict(raw)) if part is None else part


def _attachment(raw: Mapping[str, Any], kind: str) -> Attachment | None:
    """Return the attachment in a block; None if it could not be written back as it is."""
    source, title = raw.get("source"), raw.get("title")
    if not isinstance(source, dict):
        return None
    name = title if isinstance(title, str) else ""
    data, url, media_type = source.get("data"), source.get("url"), source.get("media_type")
    if source.get("type") == "base64" and isinstance(data, str):
        content = decode_base64(data)
        if content is None or not isinstance(media_type, str) or not _is_sent(kind, media_type):
            return None
        return Attachment(media_type, data=content, name=name)
    if source.get("type") == "text" and isinstance(data, str):
        is_text = kind == "document" and media_type == _PLAIN_TEXT
        is_utf8 = data.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in data)
        return Attachment(_PLAIN_TEXT, data.encode(), name=name) if is_text and is_utf8 else None
    if source.get("type") == "url" and isinstance(url, str):
        return Attachment("image/*" if kind == "image" else PDF, url=url, name=name)
    return None


def _is_sent(kind: str, media_type: str) -> bool:
    """Return whether the bytes of a type are sent in a block of a kind."""
    return media_type in PICTURES if kind == "image" else media_type == PDF


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return the chunk of a message; results come before anything else."""
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    blocks = _blocks((*message.results, *others), message.role)
    if not blocks:
        return []
    role = {Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}.get(message.role, "user")
    return [{"role": role, "content": single_text(blocks) or blocks}]


def _blocks(parts: Sequence[Part], role: Role) -> list[dict[str, Any]]:
    """Return the blocks of parts, without those that the API does not take."""
    found = (_block(part, role) for part in parts)
    return [block for block in found if block is not None]


def _block(part: Part, role: Role) -> dict[str, Any] | None:
    """Return the block of a part; None if the API does not take it."""
    if isinstance(part, Text):
        return _text_block(part.text)
    if isinstance(part, Reasoning):
        if not part.signature or "from" in part.extra:
            return None  # without its signature the API refuses it
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if isinstance(part, ToolCall):
        is_text = part.raw and not part.arguments
        given = {"input": part.raw} if is_text else thaw(part.arguments)
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
    if isinstance(part, ToolResult):
        return _result_block(part)
    if isinstance(part, Attachment):
        block = _attachment_block(part) if role in (Role.USER, Role.TOOL) else None
        return _text_block(attachment_line(part)) if block is None else block
    if part.type.startswith(f"{NAME}:"):
        return dict(thaw(part.data))
    return _text_block(refusal_text(part))


def _text_block(text: str) -> dict[str, Any] | None:
    """Return a block of text; None for blank text, which the API refuses."""
    return {"type": "text", "text": text} if text and not text.isspace() else None


def _result_block(result: ToolResult) -> dict[str, Any]:
    """Return the block of a tool result."""
    raw: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    if isinstance(result.content, str):
        raw |= {"content": result.content} if result.content else {}
    elif result.is_error and not all(isinstance(part, Text) for part in result.content):
        raw["content"] = content_text(result.content)  # a failed tool has nothing but text
    else:
        raw["content"] = _blocks(result.content, Role.TOOL)
    return raw | ({"is_error": True} if result.is_error else {})


def _attachment_block(part: Attachment) -> dict[str, Any] | None:
    """Return the block of an attachment; None if the API does not take its type."""
    media_type = part.media_type
    kind = "image" if media_type.startswith("image/") else "document"
    source: dict[str, Any]
    if part.data is None:
        if not part.url or (kind != "image" and media_type != PDF):
            return None
        source = {"type": "url", "url": part.url}
    elif _is_sent(kind, media_type):
        data = base64.b64encode(part.data).decode()
        source = {"type": "base64", "media_type": media_type, "data": data}
    elif media_type.startswith("text/"):
        try:
            source = {"type": "text", "media_type": _PLAIN_TEXT, "data": part.data.decode()}
        except UnicodeDecodeError:
            return None
    else:
        return None
    title = {"title": part.name} if part.name and kind == "document" else {}
    return {"type": kind, "source": source} | title
