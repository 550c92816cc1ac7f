"""OpenAI's responses: `{"instructions": …, "input": [item, …]}`, where a call is an item.

Items of the assistant in a row (reasoning, calls, text) are one message here, since they belong
together. A call of a built-in tool has all that the item says for its arguments. What it cannot
hold of other formats is left out: reasoning of other providers, whether a tool failed (it says
"Error: " instead), parts that only another provider understands. An attachment that is not the
user's becomes a line that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from otolith.conversation.formats.parts import (
    PDF,
    arguments_json,
    attachment_line,
    compact_json,
    content_text,
    data_url,
    message_list,
    read_attachment,
    read_call,
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
_SCREEN, _SCREENED = "computer_screenshot", "computer_call_output"
_CUSTOM, _SHELL = "custom_tool_call", "local_shell_call_output"
_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "assistant": Role.ASSISTANT}


def chunks(document: Any) -> Iterator[list[Any]]:
    """Yield what each message is made from: items of the assistant together, others alone."""
    if isinstance(document, Mapping):
        if isinstance(document.get(_INSTRUCTIONS), str):
            yield [{"type": _INSTRUCTIONS, "text": document[_INSTRUCTIONS]}]
        document = document["input"]
    if isinstance(document, str):
        yield [document]  # all that is asked
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


def document(pieces: Sequence[list[Any]]) -> dict[str, Any]:
    """Return the document that these pieces make up."""
    items = [item for piece in pieces for item in piece]
    told = next((at for at, item in enumerate(items) if _is_told(item)), None)
    start = {} if told is None else {_INSTRUCTIONS: items.pop(told)["text"]}
    if len(items) == 1 and isinstance(items[0], str):
        return start | {"input": items[0]}
    return start | {"input": list(map(as_item, items))}


def _is_told(item: Any) -> bool:
    return not isinstance(item, str) and item.get("type") == _INSTRUCTIONS


def as_item(item: Any) -> dict[str, Any]:
    """Return an item; instead of one there may be text alone, or instructions that came later."""
    if isinstance(item, str):
        return {"type": "message", "role": "user", "content": item}
    if _is_told(item):
        return {"type": "message", "role": "system", "content": item["text"]}
    found: dict[str, Any] = item
    return found


def is_from_assistant(item: Mapping[str, Any]) -> bool:
    """Tell whether an item is something that the assistant said, thought or called."""
    kind = item.get("type", "message")
    if kind == "message":
        return item.get("role") == "assistant"
    return str(kind).endswith("_call") or kind in _ASSISTANTS


APPROVAL = "mcp_approval_response"
"""What a person says to a server that asked; no turn of a conversation."""
_ASSISTANTS = ("reasoning", "mcp_list_tools", "mcp_approval_request")


# Reading


def read(chunk: list[Any]) -> Message:
    """Return the message that was made into a chunk."""
    first = chunk[0]
    if isinstance(first, str):
        return Message(Role.USER, (Text(first),))
    if is_from_assistant(first):
        return Message(Role.ASSISTANT, tuple(part for item in chunk for part in _parts(item)))
    kind = first.get("type", "message")
    if kind == _INSTRUCTIONS:
        return Message(Role.SYSTEM, (Text(first["text"]),))
    if kind == "message":
        return Message(_ROLES.get(read_role(first), Role.USER), tuple(_content(first)))
    if str(kind).endswith("_output") and isinstance(first.get(_answering(first)), str):
        return Message(Role.TOOL, (_output(first, str(kind)),))
    role = Role.TOOL if kind == APPROVAL else Role.USER
    return Message(role, (Extra(f"{NAME}:{kind}", dict(first)),))


def _answering(item: Mapping[str, Any]) -> str:
    """Return where an output says which call it answers; that of a local shell has two ways."""
    return "id" if item.get("type") == _SHELL and "call_id" not in item else "call_id"


def _parts(item: Mapping[str, Any]) -> Iterator[Part]:
    kind = item.get("type", "message")
    if kind == "message":
        yield from _content(item)
    elif kind == "reasoning":
        yield _reasoning(item)
    elif kind == "function_call":
        yield read_call(item["call_id"], item["name"], item["arguments"])
    elif isinstance(item.get("call_id"), str):
        yield _built_in(item, str(kind))
    else:
        yield Extra(f"{NAME}:{kind}", dict(item))


def _built_in(item: Mapping[str, Any], kind: str) -> ToolCall:
    """Return the call of a tool that is no function: what it is given is the item itself."""
    given = {key: value for key, value in item.items() if key not in _ABOUT}
    extra = {"item": kind} | {key: item[key] for key in ("id", "status") if key in item}
    return ToolCall(item["call_id"], str(item.get("name", kind)), given, extra=extra)


_ABOUT = ("type", "id", "call_id", "status", "name")


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
    if kind in ("input_image", _SCREEN) and isinstance(raw.get("image_url"), str):
        return read_attachment(raw["image_url"], "image/*")
    if kind == "input_file" and isinstance(raw.get("file_data"), str):
        return read_attachment(raw["file_data"], "application/*", name=raw.get("filename") or "")
    if kind == "input_file" and _is_address(raw.get("file_url")):
        return Attachment(PDF, url=raw["file_url"], name=str(raw.get("filename") or ""))
    return Extra(f"{NAME}:part:{kind}", dict(raw))


def _is_address(url: Any) -> bool:
    return isinstance(url, str) and url.startswith("http")


def _reasoning(item: Mapping[str, Any]) -> Reasoning:
    told = [part.get("text", "") for part in item.get("summary") or ()]
    extra = {"from": NAME, "id": item.get("id", "")}
    sealed = item.get("encrypted_content")
    return Reasoning("\n\n".join(told), sealed if isinstance(sealed, str) else "", extra)


def _output(item: Mapping[str, Any], kind: str) -> ToolResult:
    given = item.get("output")
    said: str | tuple[Part, ...] = given if isinstance(given, str) else compact_json(given)
    if isinstance(given, list | dict):
        said = tuple(map(_part, given if isinstance(given, list) else [given]))
    extra = {} if kind == "function_call_output" else {"item": kind}
    name = _answering(item)
    extra |= {"named": name} if name != "call_id" else {}
    return ToolResult(item[name], "" if given is None else said, extra=extra)


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
        return not part.type.startswith(f"{NAME}:part:") and not refusal_text(part)
    return isinstance(part, Reasoning | ToolCall | ToolResult)


def _written(part: Part, role: Role) -> dict[str, Any] | None:
    if isinstance(part, Text):
        return _said(part.text, role)
    if isinstance(part, Attachment):
        return (
            _written_attachment(part) if role is Role.USER else _said(attachment_line(part), role)
        )
    if isinstance(part, Reasoning):
        return _written_reasoning(part)
    if isinstance(part, ToolCall):
        return _written_call(part)
    if isinstance(part, ToolResult):
        return _written_result(part)
    if part.type.startswith(f"{NAME}:"):
        return dict(thaw(part.data))
    if not (told := refusal_text(part)):
        return None
    is_own = role is Role.ASSISTANT
    return {"type": "refusal", "refusal": told} if is_own else _said(told, role)


def _said(text: str, role: Role) -> dict[str, Any]:
    return {"type": "output_text" if role is Role.ASSISTANT else "input_text", "text": text}


def _written_reasoning(part: Reasoning) -> dict[str, Any] | None:
    if part.extra.get("from") != NAME:
        return None  # without its id the API refuses it
    told = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {"type": "reasoning", "id": part.extra.get("id", ""), "summary": told}
    return item | ({"encrypted_content": part.signature} if part.signature else {})


def call_item(call: ToolCall) -> str | None:
    """Return as which item a call is sent, if it is no function; chat has custom tools as well."""
    is_custom = call.extra.get("type") == "custom"
    kind = call.extra.get("item", _CUSTOM if is_custom else None)
    return None if kind is None else str(kind)


def _written_call(call: ToolCall) -> dict[str, Any]:
    kind = call_item(call)
    item = {"type": kind or "function_call", "call_id": call.id}
    if kind is None:
        return item | {"name": call.name, "arguments": arguments_json(call)}
    if "item" not in call.extra:
        return item | {"name": call.name, "input": call.raw}
    item |= {"name": call.name} if call.name != kind else {}
    about = {key: call.extra[key] for key in ("id", "status") if key in call.extra}
    given: dict[str, Any] = thaw(call.arguments)
    empty = {"input": ""} if kind == _CUSTOM else {}
    return item | about | empty | given


def _written_result(result: ToolResult) -> dict[str, Any]:
    kind = result.extra.get("item", "function_call_output")
    said: Any = content_text(result.content)
    if isinstance(result.content, tuple):
        parts = (_written(part, Role.USER) for part in result.content)
        said = [part for part in parts if part is not None]
        if kind == _SCREENED and len(said) == 1:
            (said,) = said
            said = said | {"type": _SCREEN} if said.get("type") == "input_image" else said
    elif result.is_error and not said.startswith("Error"):
        said = f"Error: {said}"
    return {"type": kind, result.extra.get("named", "call_id"): result.call_id, "output": said}


def _written_attachment(part: Attachment) -> dict[str, Any]:
    if part.media_type.startswith("image/") and data_url(part):
        return {"type": "input_image", "image_url": data_url(part)}
    if part.data is None and _is_address(part.url):
        name = {"filename": part.name} if part.name else {}
        return {"type": "input_file", "file_url": part.url} | name
    if part.data is None:
        return {"type": "input_text", "text": attachment_line(part)}
    return {"type": "input_file", "file_data": data_url(part), "filename": part.name or "file"}
