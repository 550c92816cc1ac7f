"""Anthropic's messages: `{"system": …, "messages": [{"role": "user", "content": …}, …]}`.

What it cannot hold of other formats is left out or changed: reasoning without a signature, parts
that only another provider understands, names of speakers; a later system message becomes a user's,
in <system> tags; an attachment that is no picture, PDF or text, or not the user's or a tool's,
becomes a line that names it, as does one in the result of a tool that failed.
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
_TEXT = "text/plain"


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield what each message is made from; the system prompt is the first."""
    if isinstance(document, Mapping):
        if "system" in document:
            yield [{"role": "system", "content": document["system"]}]
        document = document["messages"]
    for raw in message_list(document):
        yield [raw]


def document(pieces: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document that these pieces make up; only the first can be the system prompt."""
    raws = [raw for piece in pieces for raw in piece]
    systems = []
    while raws and raws[0]["role"] == "system":
        systems.append(raws.pop(0)["content"])
    out: dict[str, Any] = {"messages": [_in_tags(r) if r["role"] == "system" else r for r in raws]}
    if len(systems) == 1:
        return {"system": systems[0]} | out
    blocks = [block for content in systems for block in as_blocks(content)]
    return {"system": blocks} | out if systems else out


def as_blocks(content: Any) -> list[Any]:
    """Return content as blocks, whether it is text or blocks already."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _in_tags(raw: Mapping[str, Any]) -> dict[str, Any]:
    text = "\n".join(block.get("text", "") for block in as_blocks(raw["content"]))
    return {"role": "user", "content": f"<system>{text}</system>"}


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message that was made into a chunk."""
    (raw,) = chunk
    content = raw.get("content")
    parts: tuple[Part, ...] = ()
    if isinstance(content, str):
        parts = (Text(content),) if content else ()
    elif isinstance(content, list):
        parts = tuple(map(_part, content))
    role = {"system": Role.SYSTEM, "assistant": Role.ASSISTANT}.get(read_role(raw), Role.USER)
    if role is Role.USER and parts and all(isinstance(part, ToolResult) for part in parts):
        role = Role.TOOL
    return Message(role, parts)


def _part(raw: Mapping[str, Any]) -> Part:
    kind = raw.get("type")
    known = _READERS.get(kind) if isinstance(kind, str) else None
    found = None if known is None else known(raw)
    return Extra(f"{NAME}:{kind}", dict(raw)) if found is None else found


def _text(raw: Mapping[str, Any]) -> Part | None:
    return Text(raw["text"]) if isinstance(raw.get("text"), str) else None


def _thinking(raw: Mapping[str, Any]) -> Part | None:
    text, signature = raw.get("thinking"), raw.get("signature", "")
    is_known = isinstance(text, str) and isinstance(signature, str)
    return Reasoning(str(text), signature) if is_known else None


def _tool_use(raw: Mapping[str, Any]) -> Part | None:
    given = raw.get("input")
    return read_call(raw["id"], raw["name"], compact_json({} if given is None else given))


def _tool_result(raw: Mapping[str, Any]) -> Part | None:
    content = raw.get("content", "")
    said = content if isinstance(content, str) else tuple(map(_part, content or ()))
    return ToolResult(raw["tool_use_id"], said, is_error=raw.get("is_error") is True)


def _source(raw: Mapping[str, Any]) -> Part | None:
    source, kind = raw.get("source"), raw.get("type")
    if not isinstance(source, dict):
        return None
    name = raw.get("title") if isinstance(raw.get("title"), str) else ""
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        data, media = decode_base64(source["data"]), source.get("media_type")
        if data is None or not isinstance(media, str) or not _fits(kind, media):
            return None
        return Attachment(media, data=data, name=name or "")
    if source.get("type") == "text" and isinstance(source.get("data"), str):
        is_text = kind == "document" and source.get("media_type") == _TEXT
        if not is_text or not _is_whole(source["data"]):
            return None
        return Attachment(_TEXT, source["data"].encode(), name=name or "")
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Attachment("image/*" if kind == "image" else PDF, url=source["url"], name=name or "")
    return None


def _fits(kind: Any, media: str) -> bool:
    return media in PICTURES if kind == "image" else media == PDF


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


_READERS = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "image": _source,
    "document": _source,
}


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return a message as it is sent; results come before anything else."""
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    results = [_block(part, message.role) for part in (*message.results, *others)]
    said = [block for block in results if block is not None]
    if not said:
        return []
    role = {Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}.get(message.role, "user")
    return [{"role": role, "content": single_text(said) or said}]


def _block(part: Part, role: Role) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return _said(part.text)
    if isinstance(part, Reasoning):
        return _written_thinking(part)
    if isinstance(part, ToolCall):
        is_text = part.raw and not part.arguments
        given = {"input": part.raw} if is_text else thaw(part.arguments)
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
    if isinstance(part, ToolResult):
        return _written_result(part)
    if isinstance(part, Attachment):
        return _written_attachment(part) if role in _SHOWING else _said(attachment_line(part))
    return dict(thaw(part.data)) if part.type.startswith(f"{NAME}:") else _said(refusal_text(part))


_SHOWING = (Role.USER, Role.TOOL)


def _said(text: str) -> dict[str, Any] | None:
    return {"type": "text", "text": text} if text and not text.isspace() else None


def _written_thinking(part: Reasoning) -> dict[str, Any] | None:
    if not part.signature or "from" in part.extra:
        return None  # without its signature the API refuses it
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _written_result(result: ToolResult) -> dict[str, Any]:
    raw: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id}
    if isinstance(result.content, str):
        raw |= {"content": result.content} if result.content else {}
    elif result.is_error and not all(isinstance(part, Text) for part in result.content):
        raw["content"] = content_text(result.content)  # one that failed has nothing but text
    else:
        blocks = (_block(part, Role.TOOL) for part in result.content)
        raw["content"] = [block for block in blocks if block is not None]
    return raw | ({"is_error": True} if result.is_error else {})


def _written_attachment(part: Attachment) -> dict[str, Any] | None:
    kind = "image" if part.media_type.startswith("image/") else "document"
    source = _written_source(part, kind)
    if source is None:
        return _said(attachment_line(part))
    title = {"title": part.name} if part.name and kind == "document" else {}
    return {"type": kind, "source": source} | title


def _written_source(part: Attachment, kind: str) -> dict[str, Any] | None:
    media = part.media_type
    if part.data is None:
        return {"type": "url", "url": part.url} if part.url and _can_fetch(kind, media) else None
    if _fits(kind, media):
        data = base64.b64encode(part.data).decode()
        return {"type": "base64", "media_type": media, "data": data}
    if not media.startswith("text/"):
        return None
    try:
        return {"type": "text", "media_type": _TEXT, "data": part.data.decode()}
    except UnicodeDecodeError:
        return None


def _can_fetch(kind: str, media: str) -> bool:
    return kind == "image" or media == PDF
