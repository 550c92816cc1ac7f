"""OpenAI's chat completions: `{"messages": [{"role": …, "content": …}, …]}`.

What it cannot hold of other formats is left out: reasoning (the API takes none), whether a tool
failed (it says "Error: " instead), and parts that only another provider understands. An attachment
that is not the user's becomes a line that names it. Calls as they were before tools (`function`)
are kept for this format alone, since they have no ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otolith.conversation.formats.parts import (
    arguments_json,
    attachment_line,
    content_text,
    data_url,
    message_list,
    read_attachment,
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

NAME = "openai"
_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_THOUGHT = "reasoning_content"
"""What some servers of this format call reasoning."""

_BESIDE = ("function_call", "audio")
"""What an assistant says beside its content."""

_NO_NAME = re.compile(r"[\s<|\\/>]+")
_LONGEST_NAME = 64


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield what each message is made from."""
    for raw in message_list(document["messages"] if isinstance(document, Mapping) else document):
        yield [raw]


def document(pieces: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document that these pieces make up."""
    return {"messages": [raw for piece in pieces for raw in piece]}


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message that was made into a chunk."""
    (raw,) = chunk
    said_by = read_role(raw)
    name = raw.get("name") if isinstance(raw.get("name"), str) else ""
    if said_by == "tool" and isinstance(raw.get("tool_call_id"), str):
        content = raw.get("content")
        said = content if isinstance(content, str) else tuple(map(_part, content or ()))
        return Message(Role.TOOL, (ToolResult(raw["tool_call_id"], said),), name=name or "")
    role = _ROLES.get(said_by, Role.USER)
    return Message(role, tuple(_parts(raw, role)), name=name or "")


def _parts(raw: Mapping[str, Any], role: Role) -> Iterator[Part]:
    content = raw.get("content")
    if role is Role.ASSISTANT and isinstance(raw.get(_THOUGHT), str):
        yield Reasoning(raw[_THOUGHT], extra={"from": _THOUGHT})
    if isinstance(content, str):
        yield from [Text(content)] if content else []
    elif isinstance(content, list):
        yield from map(_part, content)
    if role is Role.ASSISTANT:
        if isinstance(raw.get("refusal"), str):
            yield Extra(f"{NAME}:refusal", {"type": "refusal", "refusal": raw["refusal"]})
        beside = ((name, raw.get(name)) for name in _BESIDE)
        yield from (Extra(f"{NAME}:{name}", told) for name, told in beside if told)
        yield from map(_call, raw.get("tool_calls") or ())


def _part(raw: Mapping[str, Any]) -> Part:
    kind = raw.get("type")
    inner = raw.get(kind) if isinstance(kind, str) else None
    if kind == "text" and isinstance(inner, str):
        return Text(inner)
    if isinstance(inner, dict):
        if kind == "image_url" and isinstance(inner.get("url"), str):
            return read_attachment(inner["url"], "image/*")
        if kind == "input_audio" and inner.get("format") in _SOUNDS:
            sound = read_attachment(f"data:audio/x;base64,{inner.get('data')}", "audio/*")
            if sound.data is not None:
                return Attachment(_SOUNDS[inner["format"]], data=sound.data)
        if kind == "file" and isinstance(inner.get("file_data"), str):
            return read_attachment(
                inner["file_data"], "application/*", name=inner.get("filename") or ""
            )
    return Extra(f"{NAME}:{kind}", dict(raw))


def _call(raw: Mapping[str, Any]) -> ToolCall:
    kind = raw.get("type", "function")
    inner = raw.get(kind) or {}
    if kind == "custom":
        return ToolCall(raw["id"], inner["name"], raw=inner["input"], extra={"type": "custom"})
    return read_call(raw["id"], inner["name"], inner["arguments"])


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return a message as it is sent; each result of a tool is one by itself."""
    out = [_result(result) for result in message.results]
    said = [each for part in message.parts for each in _content(part, message.role)]
    raw: dict[str, Any] = {"role": str(message.role)}
    raw |= {"name": speaker_name(message.name)} if message.name else {}
    text = single_text(said)
    raw["content"] = (said or None) if text is None else text
    if message.calls:
        raw["tool_calls"] = list(map(_written_call, message.calls))
    beside = dict(_told_beside(message))
    if said or message.calls or beside.keys() - {_THOUGHT}:
        out.append(raw | beside)
    return out


def _told_beside(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield what a message says that is neither content nor a call of a tool."""
    for part in message.parts:
        if isinstance(part, Reasoning) and part.extra.get("from") == _THOUGHT:
            yield _THOUGHT, part.text
        elif isinstance(part, Extra) and part.type in _FIELDS:
            yield _FIELDS[part.type], thaw(part.data)


_FIELDS = {f"{NAME}:{name}": name for name in _BESIDE}


def speaker_name(name: str) -> str:
    """Return a name that the API takes for a speaker."""
    return _NO_NAME.sub("_", name)[:_LONGEST_NAME]


def _content(part: Part, role: Role) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Attachment):
        yield (
            _attachment(part)
            if role is Role.USER
            else {"type": "text", "text": attachment_line(part)}
        )
    elif isinstance(part, Extra) and part.type not in _FIELDS:
        if part.type.startswith(f"{NAME}:"):
            yield dict(thaw(part.data))
        elif said := refusal_text(part):
            kind = "refusal" if role is Role.ASSISTANT else "text"
            yield {"type": kind, kind: said}


def _attachment(part: Attachment) -> dict[str, Any]:
    kind = part.media_type
    url = data_url(part)
    if kind.startswith("image/") and url:
        return {"type": "image_url", "image_url": {"url": url}}
    sounds = {media: name for name, media in _SOUNDS.items()}
    if kind in sounds and part.data is not None:
        sound = {"data": url.partition(",")[2], "format": sounds[kind]}
        return {"type": "input_audio", "input_audio": sound}
    if part.data is None:
        return {"type": "text", "text": attachment_line(part)}
    return {"type": "file", "file": {"file_data": url, "filename": part.name or "file"}}


def _written_call(call: ToolCall) -> dict[str, Any]:
    if call.extra.get("type") == "custom":
        inner = {"name": call.name, "input": call.raw}
        return {"id": call.id, "type": "custom", "custom": inner}
    inner = {"name": call.name, "arguments": arguments_json(call)}
    return {"id": call.id, "type": "function", "function": inner}


def _result(result: ToolResult) -> dict[str, Any]:
    said: Any = content_text(result.content)
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if texts and len(texts) == len(result.content):
        said = [{"type": "text", "text": text} for text in texts]
    if result.is_error and isinstance(said, str):
        said = said if said.startswith("Error") else f"Error: {said}"
    return {"role": "tool", "tool_call_id": result.call_id, "content": said}
