"""OpenAI's responses: `{"instructions": …, "input": [item, …]}`, where a call is an item.

What becomes what, in both directions:

    instructions                              the first system message
    message: input_text, output_text          Text
    message: input_image, input_file          Attachment
    reasoning                                 Reasoning, with its id and encrypted content
    function_call, custom_tool_call, …_call   ToolCall
    …_call_output, mcp_approval_response      ToolResult
    any other item                            Extra, written back to this provider only

Items of the assistant in a row (reasoning, calls, text) belong together and are one message here.
A call of a built-in tool has the fields of its item as arguments. It cannot hold: reasoning of
other providers, whether a tool failed (the text begins with "Error" instead), and parts that only
another provider understands. An attachment outside a user message becomes a line that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from otolith.conversation.formats.parts import (
    OPENAI_ROLES,
    PDF,
    arguments_json,
    attachment_line,
    compact_json,
    content_text,
    data_url,
    error_text,
    message_list,
    read_attachment,
    read_call,
    read_content,
    read_role,
    refusal_text,
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

NAME = "responses"
_INSTRUCTIONS = "instructions"
_SCREENSHOT, _COMPUTER_OUTPUT = "computer_screenshot", "computer_call_output"
_CUSTOM_CALL, _SHELL_OUTPUT = "custom_tool_call", "local_shell_call_output"
_REFERENCE = "item_reference"
_APPROVAL = "mcp_approval_response"
"""The answer of a person to a server that asked; it does not begin a turn."""
_ASSISTANT_ITEMS = ("reasoning", "mcp_list_tools", "mcp_approval_request")
_REQUIRED: dict[str, dict[str, Any]] = {
    "input_image": {"detail": "auto"},
    "output_text": {"annotations": []},
}
"""What a request must say of a block of content, if the block does not."""
_NOT_ARGUMENTS = ("type", "id", "call_id", "status", "name")
"""The fields of an item of a built-in tool that are not its arguments."""


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield the chunk of each message: items of the assistant together, others alone."""
    if isinstance(document, Mapping):
        if isinstance(document.get(_INSTRUCTIONS), str):
            yield [{"type": _INSTRUCTIONS, "text": document[_INSTRUCTIONS]}]
        document = document["input"]
    if isinstance(document, str):
        yield [document]  # the only message, of the user
        return
    together: list[Any] = []
    for item in message_list(document):
        if is_from_assistant(item):
            together.append(item)
            continue
        if together:
            yield together
            together = []
        yield [item]
    if together:
        yield together


def document(chunks: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document made of chunks; the first instructions are those of the document."""
    items = [item for chunk in chunks for item in chunk]
    first = next((at for at, item in enumerate(items) if _is_instructions(item)), None)
    start = {} if first is None else {_INSTRUCTIONS: items.pop(first)["text"]}
    if len(items) == 1 and isinstance(items[0], str):
        return start | {"input": items[0]}
    return start | {"input": list(map(as_item, items))}


def _is_instructions(item: Any) -> bool:
    return not isinstance(item, str) and item.get("type") == _INSTRUCTIONS


def as_item(item: Any) -> dict[str, Any]:
    """Return an item; a text and later instructions become messages."""
    if isinstance(item, str):
        return {"type": "message", "role": "user", "content": item}
    if _is_instructions(item):
        return {"type": "message", "role": "system", "content": item["text"]}
    found: dict[str, Any] = item
    return found


def as_request_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with the fields that a request must have, and a document need not.

    A message of the assistant has an id, a status and annotations if the API wrote it. One that it
    did not write is a message with a text.
    """
    if _kind(item) != "message" or not isinstance(item.get("content"), list):
        return item
    if item.get("role") == "assistant" and "id" not in item:
        texts = (part.get("text", part.get("refusal")) for part in item["content"])
        return item | {"content": "\n".join(text for text in texts if isinstance(text, str))}
    return item | {"content": list(map(_request_block, item["content"]))}


def _request_block(block: dict[str, Any]) -> dict[str, Any]:
    return _REQUIRED.get(str(block.get("type")), {}) | block


def _kind(item: Mapping[str, Any]) -> str:
    """Return the type of an item, which messages and references to items may leave out."""
    kind = item.get("type")
    if kind is not None:
        return str(kind)
    return _REFERENCE if "id" in item and "role" not in item else "message"


def is_from_assistant(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a text, the reasoning or a call of the assistant."""
    kind = _kind(item)
    if kind == "message":
        return item.get("role") == "assistant"
    return kind.endswith("_call") or kind in _ASSISTANT_ITEMS


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message in a chunk."""
    first = chunk[0]
    if isinstance(first, str):
        return Message(Role.USER, (Text(first),))
    if is_from_assistant(first):
        return Message(Role.ASSISTANT, tuple(part for item in chunk for part in _parts(item)))
    kind = _kind(first)
    if kind == _INSTRUCTIONS:
        return Message(Role.SYSTEM, (Text(first["text"]),))
    if kind == "message":
        return Message(OPENAI_ROLES.get(read_role(first), Role.USER), _content(first))
    if kind.endswith("_output") and isinstance(first.get(_call_id_field(first)), str):
        return Message(Role.TOOL, (_result(first, kind),))
    role = Role.TOOL if kind == _APPROVAL else Role.USER
    return Message(role, (Extra(f"{NAME}:{kind}", dict(first)),))


def _call_id_field(item: Mapping[str, Any]) -> str:
    """Return the field in which an output names its call; that of a local shell has two ways."""
    return "id" if item.get("type") == _SHELL_OUTPUT and "call_id" not in item else "call_id"


def _parts(item: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an item of the assistant."""
    kind = _kind(item)
    if kind == "message":
        return _content(item)
    if kind == "reasoning":
        texts = [part.get("text", "") for part in item.get("summary") or ()]
        encrypted = item.get("encrypted_content")
        signature = encrypted if isinstance(encrypted, str) else ""
        extra = {"from": NAME, "id": item.get("id", "")}
        return (Reasoning("\n\n".join(texts), signature, extra),)
    if kind == "function_call":
        return (read_call(item["call_id"], item["name"], item["arguments"]),)
    if isinstance(item.get("call_id"), str):  # a built-in tool
        arguments = {key: value for key, value in item.items() if key not in _NOT_ARGUMENTS}
        extra = {"item": kind} | {key: item[key] for key in ("id", "status") if key in item}
        name = str(item.get("name", kind))
        return (ToolCall(item["call_id"], name, arguments, extra=extra),)
    return (Extra(f"{NAME}:{kind}", dict(item)),)


def _content(item: Mapping[str, Any]) -> tuple[Part, ...]:
    return read_content(item.get("content"), _part)


def _part(raw: Mapping[str, Any]) -> Part:
    """Return the part in a block of content; an `Extra` if it is not known."""
    kind, name = raw.get("type"), raw.get("filename") or ""
    if kind in ("input_text", "output_text") and isinstance(raw.get("text"), str):
        return Text(raw["text"])
    if kind in ("input_image", _SCREENSHOT) and isinstance(raw.get("image_url"), str):
        return read_attachment(raw["image_url"], "image/*")
    if kind == "input_file" and isinstance(raw.get("file_data"), str):
        return read_attachment(raw["file_data"], "application/*", name)
    if kind == "input_file" and _is_web_address(raw.get("file_url")):
        return Attachment(PDF, url=raw["file_url"], name=str(name))
    return Extra(f"{NAME}:part:{kind}", dict(raw))


def _is_web_address(url: Any) -> bool:
    return isinstance(url, str) and url.startswith("http")


def _result(item: Mapping[str, Any], kind: str) -> ToolResult:
    """Return the result in an output item; items of built-in tools keep their type."""
    output, id_field = item.get("output"), _call_id_field(item)
    content: str | tuple[Part, ...] = output if isinstance(output, str) else compact_json(output)
    if isinstance(output, list | dict):
        content = tuple(map(_part, output if isinstance(output, list) else [output]))
    extra = {} if kind == "function_call_output" else {"item": kind}
    extra |= {"named": id_field} if id_field != "call_id" else {}
    return ToolResult(item[id_field], "" if output is None else content, extra=extra)


# Writing


def write(message: Message) -> list[dict[str, Any]]:
    """Return the chunk of a message: its items. Texts in a row are one item."""
    items: list[dict[str, Any]] = []
    role = "user" if message.role is Role.TOOL else str(message.role)
    written = ((part, _write_part(part, message.role)) for part in message.parts)
    pairs = [(part, raw) for part, raw in written if raw is not None]
    for is_item, group in groupby(pairs, key=lambda pair: _is_item(pair[0])):
        raws = [raw for _, raw in group]
        items += raws if is_item else [{"type": "message", "role": role, "content": raws}]
    return items


def _is_item(part: Part) -> bool:
    """Return whether a part is an item by itself, not content of a message."""
    if isinstance(part, Extra):
        return not part.type.startswith(f"{NAME}:part:") and not refusal_text(part)
    return isinstance(part, Reasoning | ToolCall | ToolResult)


def _write_part(part: Part, role: Role) -> dict[str, Any] | None:
    """Return the item or the block of a part; None if the API does not take it."""
    if isinstance(part, Text):
        return _write_text(part.text, role)
    if isinstance(part, Attachment):
        is_user = role is Role.USER
        return _write_attachment(part) if is_user else _write_text(attachment_line(part), role)
    if isinstance(part, Reasoning):
        return _write_reasoning(part)
    if isinstance(part, ToolCall):
        return _write_call(part)
    if isinstance(part, ToolResult):
        return _write_result(part)
    if part.type.startswith(f"{NAME}:"):
        return dict(thaw(part.data))
    refusal = refusal_text(part)
    if refusal and role is Role.ASSISTANT:
        return {"type": "refusal", "refusal": refusal}
    return _write_text(refusal, role) if refusal else None


def _write_text(text: str, role: Role) -> dict[str, Any]:
    return {"type": "output_text" if role is Role.ASSISTANT else "input_text", "text": text}


def _write_reasoning(part: Reasoning) -> dict[str, Any] | None:
    if part.extra.get("from") != NAME:
        return None  # without its id the API refuses it
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "id": part.extra.get("id", ""), "summary": summary}
    return item | ({"encrypted_content": part.signature} if part.signature else {})


def call_item(call: ToolCall) -> str | None:
    """Return the type of the item of a call; None for a function. Chat has custom tools too."""
    is_custom = call.extra.get("type") == "custom"
    kind = call.extra.get("item", _CUSTOM_CALL if is_custom else None)
    return None if kind is None else str(kind)


def _write_call(call: ToolCall) -> dict[str, Any]:
    """Return the item of a call; that of a built-in tool has its arguments as fields."""
    kind = call_item(call)
    item = {"type": kind or "function_call", "call_id": call.id}
    if kind is None:
        return item | {"name": call.name, "arguments": arguments_json(call)}
    if "item" not in call.extra:
        return item | {"name": call.name, "input": call.raw}
    item |= {"name": call.name} if call.name != kind else {}
    fields = {key: call.extra[key] for key in ("id", "status") if key in call.extra}
    arguments: dict[str, Any] = thaw(call.arguments)
    return item | fields | ({"input": ""} if kind == _CUSTOM_CALL else {}) | arguments


def _write_result(result: ToolResult) -> dict[str, Any]:
    """Return the output item of a result."""
    kind = result.extra.get("item", "function_call_output")
    output: Any = content_text(result.content)
    if isinstance(result.content, tuple):
        parts = (_write_part(part, Role.USER) for part in result.content)
        output = [part for part in parts if part is not None]
        if kind == _COMPUTER_OUTPUT and len(output) == 1:
            (output,) = output
            is_picture = output.get("type") == "input_image"
            output = output | {"type": _SCREENSHOT} if is_picture else output
    elif result.is_error:
        output = error_text(output)
    return {"type": kind, result.extra.get("named", "call_id"): result.call_id, "output": output}


def _write_attachment(part: Attachment) -> dict[str, Any]:
    """Return the block of an attachment in a message of the user."""
    if part.media_type.startswith("image/") and data_url(part):
        return {"type": "input_image", "image_url": data_url(part)}
    if part.data is None and _is_web_address(part.url):
        name = {"filename": part.name} if part.name else {}
        return {"type": "input_file", "file_url": part.url} | name
    if part.data is None:
        return {"type": "input_text", "text": attachment_line(part)}
    return {"type": "input_file", "file_data": data_url(part), "filename": part.name or "file"}
