"""OpenAI's responses: `{"instructions": …, "input": [item, …]}`, where a call is an item.

Items of the assistant in a row (reasoning, calls, text) are one message here, since they belong
together. What it cannot hold of other formats is left out: reasoning of other providers, whether a
tool failed (it says "Error: " instead), parts that only another provider understands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otolith.agent.conversation.formats.media import arguments_text, attached, call_of, data_url
from otolith.agent.conversation.formats.words import named, spoken
from otolith.agent.conversation.message import (
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
from otolith.agent.lifecycle.values import thaw

NAME = "responses"
_INSTRUCTIONS = "instructions"
_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield what each message is made from: items of the assistant together, others alone."""
    if isinstance(document, Mapping):
        if isinstance(document.get(_INSTRUCTIONS), str):
            yield [{"type": _INSTRUCTIONS, "text": document[_INSTRUCTIONS]}]
        document = document["input"]
    together: list[Any] = []
    for item in document:
        if is_assistants(item):
            together.append(item)
            continue
        if together:
            yield together
            together = []
        yield [item]
    if together:
        yield together


def document(pieces: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document that these pieces make up."""
    items = [item for piece in pieces for item in piece]
    told = [item["text"] for item in items if item.get("type") == _INSTRUCTIONS]
    rest = [item for item in items if item.get("type") != _INSTRUCTIONS]
    return ({_INSTRUCTIONS: told[0]} if told else {}) | {"input": rest}


def is_assistants(item: Mapping[str, Any]) -> bool:
    """Tell whether an item is something that the assistant said, thought or called."""
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") == "assistant"
    return kind == "reasoning" or str(kind).endswith("_call")


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message that was made into a chunk."""
    first = chunk[0]
    if is_assistants(first):
        return Message(Role.ASSISTANT, tuple(part for item in chunk for part in _parts(item)))
    kind = first.get("type", "message")
    if kind == _INSTRUCTIONS:
        return Message(Role.SYSTEM, (Text(first["text"]),))
    if kind == "message":
        return Message(_ROLES.get(first.get("role"), Role.USER), tuple(_content(first)))
    if isinstance(first.get("call_id"), str) and str(kind).endswith("_output"):
        return Message(Role.TOOL, (_output(first, str(kind)),))
    return Message(Role.USER, (Extra(f"{NAME}:{kind}", dict(first)),))


def _parts(item: Mapping[str, Any]) -> Iterator[Part]:
    kind = item.get("type", "message")
    if kind == "message":
        yield from _content(item)
    elif kind == "reasoning":
        yield _reasoning(item)
    elif kind == "function_call":
        yield call_of(item["call_id"], item["name"], item["arguments"])
    elif isinstance(item.get("call_id"), str):
        name = item.get("name", kind)
        yield ToolCall(item["call_id"], name, raw=str(item.get("input", "")), extra={"item": kind})
    else:
        yield Extra(f"{NAME}:{kind}", dict(item))


def _content(item: Mapping[str, Any]) -> Iterator[Part]:
    content = item.get("content")
    if isinstance(content, str):
        yield from [Text(content)] if content else []
    else:
        yield from map(_part, content or ())


def _part(raw: Mapping[str, Any]) -> Part:
    kind = raw.get("type")
    if kind in ("input_text", "output_text") and isinstance(raw.get("text"), str):
        return Text(raw["text"])
    if kind == "input_image" and isinstance(raw.get("image_url"), str):
        return attached(raw["image_url"], "image/*")
    if kind == "input_file" and isinstance(raw.get("file_data"), str):
        return attached(raw["file_data"], "application/*", name=raw.get("filename") or "")
    return Extra(f"{NAME}:part:{kind}", dict(raw))


def _reasoning(item: Mapping[str, Any]) -> Reasoning:
    told = [part.get("text", "") for part in item.get("summary") or ()]
    extra = {"from": NAME, "id": item.get("id", "")}
    sealed = item.get("encrypted_content")
    return Reasoning("\n\n".join(told), sealed if isinstance(sealed, str) else "", extra)


def _output(item: Mapping[str, Any], kind: str) -> ToolResult:
    given = item.get("output")
    said = tuple(map(_part, given)) if isinstance(given, list) else str(given or "")
    extra = {} if kind == "function_call_output" else {"item": kind}
    return ToolResult(item["call_id"], said, extra=extra)


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return a message as the items it is sent as."""
    out: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    for part in message.parts:
        raw = _written(part, message.role)
        if raw is None:
            continue
        if not _is_item(part):
            said.append(raw)
            continue
        out += _spoken(message, said)
        said = []
        out.append(raw)
    return out + _spoken(message, said)


def _spoken(message: Message, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    role = "user" if message.role is Role.TOOL else str(message.role)
    return [{"type": "message", "role": role, "content": said}] if said else []


def _is_item(part: Part) -> bool:
    if isinstance(part, Extra):
        return not part.type.startswith(f"{NAME}:part:")
    return isinstance(part, Reasoning | ToolCall | ToolResult)


def _written(part: Part, role: Role) -> dict[str, Any] | None:
    if isinstance(part, Text):
        kind = "output_text" if role is Role.ASSISTANT else "input_text"
        return {"type": kind, "text": part.text}
    if isinstance(part, Attachment):
        return _written_attachment(part)
    if isinstance(part, Reasoning):
        return _written_reasoning(part)
    if isinstance(part, ToolCall):
        return _written_call(part)
    if isinstance(part, ToolResult):
        return _written_result(part)
    return dict(thaw(part.data)) if part.type.startswith(f"{NAME}:") else None


def _written_reasoning(part: Reasoning) -> dict[str, Any] | None:
    if part.extra.get("from") != NAME:
        return None  # without its id the API refuses it
    told = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "id": part.extra.get("id", ""), "summary": told}
    return item | ({"encrypted_content": part.signature} if part.signature else {})


def _written_call(call: ToolCall) -> dict[str, Any]:
    kind = call.extra.get("item", "function_call")
    item = {"type": kind, "call_id": call.id, "name": call.name}
    if kind == "function_call":
        return item | {"arguments": arguments_text(call)}
    return item | {"input": call.raw}


def _written_result(result: ToolResult) -> dict[str, Any]:
    kind = result.extra.get("item", "function_call_output")
    said: Any = spoken(result.content)
    if isinstance(result.content, tuple):
        parts = (_written(part, Role.USER) for part in result.content)
        said = [part for part in parts if part is not None]
    elif result.is_error and not said.startswith("Error"):
        said = f"Error: {said}"
    return {"type": kind, "call_id": result.call_id, "output": said}


def _written_attachment(part: Attachment) -> dict[str, Any]:
    if part.media_type.startswith("image/"):
        return {"type": "input_image", "image_url": data_url(part)}
    if part.data is None:
        return {"type": "input_text", "text": named(part)}
    return {"type": "input_file", "file_data": data_url(part), "filename": part.name or "file"}
