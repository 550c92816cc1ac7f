"""OpenAI's chat completions: `{"messages": [{"role": …, "content": …}, …]}`.

What becomes what, in both directions:

    content, text                       Text
    image_url, input_audio, file        Attachment
    tool_calls: function, custom        ToolCall
    a message with the role tool        ToolResult
    refusal, function_call, audio       Extra, written back to this provider only
    reasoning_content of some servers   Reasoning, written back to these only; a request has that of
                                        the current turn

It cannot hold: reasoning (the API takes none), whether a tool failed (the text begins with "Error"
instead), and parts that only another provider understands. An attachment outside a user message
becomes a line that names it. Calls in the form before tools (`function_call`) have no ids; they are
stored for this format alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otolith.conversation.formats.parts import (
    OPENAI_ROLES,
    arguments_json,
    attachment_line,
    content_text,
    data_url,
    error_text,
    message_list,
    read_attachment,
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

NAME = "openai"
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SOUND_FORMATS = {media_type: name for name, media_type in _SOUNDS.items()}
REASONING = "reasoning_content"
"""The field of some servers of this format for reasoning."""
_EXTRA_FIELDS = ("function_call", "audio")
"""Fields of an assistant's message beside its content."""
_EXTRA_TYPES = {f"{NAME}:{field}": field for field in _EXTRA_FIELDS}
_NOT_IN_NAMES = re.compile(r"[\s<|\\/>]+")
_MAX_NAME_LETTERS = 64


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield the chunk of each message."""
    for raw in message_list(document["messages"] if isinstance(document, Mapping) else document):
        yield [raw]


def document(chunks: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document made of chunks."""
    return {"messages": [raw for chunk in chunks for raw in chunk]}


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message in a chunk."""
    (raw,) = chunk
    role_name = read_role(raw)
    name = raw.get("name") if isinstance(raw.get("name"), str) else ""
    if role_name == "tool" and isinstance(raw.get("tool_call_id"), str):
        content = raw.get("content")
        result = content if isinstance(content, str) else read_content(content, _part)
        return Message(Role.TOOL, (ToolResult(raw["tool_call_id"], result),), name=name or "")
    role = OPENAI_ROLES.get(role_name, Role.USER)
    return Message(role, tuple(_parts(raw, role)), name=name or "")


def _parts(raw: Mapping[str, Any], role: Role) -> Iterator[Part]:
    """Yield the parts of a message: reasoning, content, and the fields of an assistant."""
    is_assistant, content = role is Role.ASSISTANT, raw.get("content")
    if is_assistant and isinstance(raw.get(REASONING), str):
        yield Reasoning(raw[REASONING], extra={"from": REASONING})
    if isinstance(content, str | list):
        yield from read_content(content, _part)
    if is_assistant:
        if isinstance(raw.get("refusal"), str):
            yield Extra(f"{NAME}:refusal", {"type": "refusal", "refusal": raw["refusal"]})
        for field in _EXTRA_FIELDS:
            if raw.get(field):
                yield Extra(f"{NAME}:{field}", raw[field])
        yield from map(_call, raw.get("tool_calls") or ())


def _part(raw: Mapping[str, Any]) -> Part:
    """Return the part in a block of content; an `Extra` if it is not known."""
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
            name = inner.get("filename") or ""
            return read_attachment(inner["file_data"], "application/*", name)
    return Extra(f"{NAME}:{kind}", dict(raw))


def _call(raw: Mapping[str, Any]) -> ToolCall:
    """Return the call of a function or a custom tool."""
    kind = raw.get("type", "function")
    inner = raw.get(kind) or {}
    if kind == "custom":
        return ToolCall(raw["id"], inner["name"], raw=inner["input"], extra={"type": "custom"})
    return read_call(raw["id"], inner["name"], inner["arguments"])


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return the chunk of a message; each tool result is a raw message by itself."""
    chunk = [_write_result(result) for result in message.results]
    blocks = [block for part in message.parts for block in _blocks(part, message.role)]
    raw: dict[str, Any] = {"role": str(message.role)}
    raw |= {"name": speaker_name(message.name)} if message.name else {}
    text = single_text(blocks)
    raw["content"] = (blocks or None) if text is None else text
    if message.calls:
        raw["tool_calls"] = list(map(_write_call, message.calls))
    fields = dict(_fields(message))
    if blocks or message.calls or fields.keys() - {REASONING}:
        chunk.append(raw | fields)
    return chunk


def _fields(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a message beside its content and its calls."""
    for part in message.parts:
        if isinstance(part, Reasoning) and part.extra.get("from") == REASONING:
            yield REASONING, part.text
        elif isinstance(part, Extra) and part.type in _EXTRA_TYPES:
            yield _EXTRA_TYPES[part.type], thaw(part.data)


def speaker_name(name: str) -> str:
    """Return a name that the API takes for the author of a message."""
    return _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME_LETTERS]


def _blocks(part: Part, role: Role) -> Iterator[dict[str, Any]]:
    """Yield the blocks of content of a part; calls and results have none."""
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Attachment):
        is_user = role is Role.USER
        yield (
            _write_attachment(part) if is_user else {"type": "text", "text": attachment_line(part)}
        )
    elif isinstance(part, Extra) and part.type not in _EXTRA_TYPES:
        if part.type.startswith(f"{NAME}:"):
            yield dict(thaw(part.data))
        elif refusal := refusal_text(part):
            kind = "refusal" if role is Role.ASSISTANT else "text"
            yield {"type": kind, kind: refusal}


def _write_attachment(part: Attachment) -> dict[str, Any]:
    """Return the block of an attachment in a message of the user."""
    kind, url = part.media_type, data_url(part)
    if kind.startswith("image/") and url:
        return {"type": "image_url", "image_url": {"url": url}}
    if part.data is None:
        return {"type": "text", "text": attachment_line(part)}
    if kind in _SOUND_FORMATS:
        sound = {"data": url.partition(",")[2], "format": _SOUND_FORMATS[kind]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "file", "file": {"file_data": url, "filename": part.name or "file"}}


def _write_call(call: ToolCall) -> dict[str, Any]:
    """Return the entry of `tool_calls` for a call."""
    if call.extra.get("type") == "custom":
        inner = {"name": call.name, "input": call.raw}
        return {"id": call.id, "type": "custom", "custom": inner}
    inner = {"name": call.name, "arguments": arguments_json(call)}
    return {"id": call.id, "type": "function", "function": inner}


def _write_result(result: ToolResult) -> dict[str, Any]:
    """Return the message of a tool result; text is all that it can hold."""
    content: Any = content_text(result.content)
    texts = [part.text for part in result.content if isinstance(part, Text)]
    if texts and len(texts) == len(result.content):
        content = [{"type": "text", "text": text} for text in texts]
    elif result.is_error:
        content = error_text(content)
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}
