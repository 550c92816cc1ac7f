"""What providers accept, told from their documentation and not from how contexts are made."""

from __future__ import annotations

import re
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPEAKER = re.compile(r"[^\s<|\\/>]{1,64}")


def faults(messages: list[dict[str, Any]], for_: str, system: Any = None) -> list[str]:
    """Return what a provider would refuse."""
    rules = {"openai": _openai, "responses": _responses, "anthropic": _anthropic}
    found = list(rules.get(for_, _plain)(messages))
    return found + list(_bad_system(system)) if for_ == "anthropic" else found


def _plain(messages):
    for message in messages:
        if set(message) != {"role", "content"} or not isinstance(message["content"], str):
            yield f"not a role and a text: {message}"
        elif not message["content"].strip():
            yield f"nothing is said: {message}"


# ---------------------------------------------------------------- OpenAI, chat

_CHAT_PARTS = {
    "system": {"text"},
    "developer": {"text"},
    "user": {"text", "image_url", "input_audio", "file"},
    "assistant": {"text", "refusal"},
    "tool": {"text"},
    "function": set(),
}


def _openai(messages):
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message["role"]
        yield from (f"{at}: {fault}" for fault in _bad_chat(message))
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"{at}: a result that no call right before it asked for"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"{at}: calls {waiting} have no result"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) < len(waiting):
            yield f"{at}: a call twice"
    if waiting:
        yield f"at the end: calls {waiting} have no result"


def _bad_chat(message):
    role, content = message["role"], message.get("content")
    if role not in _CHAT_PARTS:
        yield f"no role {role}"
        return
    if not content and role not in ("assistant", "tool"):
        yield f"a {role} who says nothing"
    others = ("content", "tool_calls", "function_call", "audio", "refusal")
    if role == "assistant" and not any(map(message.get, others)):
        yield "an assistant who says and calls nothing"
    if role == "tool" and not isinstance(content, str) and not content:
        yield "a result that is neither text nor parts"
    if message.get("tool_calls") == [] or ("tool_calls" in message and role != "assistant"):
        yield "calls that are none, or not the assistant's"
    if "name" in message and not _SPEAKER.fullmatch(message["name"]):
        yield f"a speaker called {message['name']!r}"
    for part in content if isinstance(content, list) else ():
        yield from _bad_chat_part(part, role)
    yield from _bad_chat_calls(message.get("tool_calls") or ())


def _bad_chat_part(part, role):
    if part["type"] not in _CHAT_PARTS[role]:
        yield f"a {part['type']} of the {role}"
    elif part["type"] == "image_url":
        yield from _bad_file(part["image_url"]["url"], _PICTURES)
    elif part["type"] == "file" and "file_data" in part["file"]:
        yield from _bad_file(part["file"]["file_data"], _TAKEN)


def _bad_file(url, kinds):
    """Tell of a file of which an API says that it does not support it."""
    kind = url.partition(";")[0].removeprefix("data:")
    if not url:
        yield "a file from nowhere"
    elif url.startswith("data:") and not any(map(kind.startswith, kinds)):
        yield f"a file of the type {kind}"


_PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_TAKEN = {"application/pdf", "text/", "application/json"}


def _bad_chat_calls(calls):
    for call in calls:
        if not 0 < len(call["id"]) <= 40:
            yield f"an id of {len(call['id'])} letters"
        inner = call[call["type"]]
        if not _TOOL.fullmatch(inner["name"]):
            yield f"a tool called {inner['name']!r}"
        if not isinstance(inner.get("arguments", inner.get("input")), str):
            yield "arguments that are no text"


# ---------------------------------------------------------------- OpenAI, responses

_CONTENT = {
    "assistant": {"output_text", "refusal"},
    "user": {"input_text", "input_image", "input_file", "input_audio"},
    "system": {"input_text"},
    "developer": {"input_text"},
}
_ALONE = {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call",
          "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
          "item_reference", "compaction"}  # fmt: skip


def _responses(items):
    kinds: dict[str, str] = {}
    answered: set[str] = set()
    yield from _bad_approvals(items)
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in _ALONE:
            continue
        if kind.endswith("_call"):
            yield from _bad_call(at, item, kinds)
        elif kind.endswith("_output"):
            yield from _bad_answer(at, item, kinds, answered)
        elif kind == "reasoning":
            if not _follows(items[at + 1 : at + 2]):
                yield f"{at}: reasoning that nothing follows"
        elif kind == "message":
            yield from (f"{at}: {fault}" for fault in _bad_message(item))
        else:
            yield f"{at}: no item {kind}"
    if set(kinds) != answered:
        yield f"calls {set(kinds) - answered} have no result"


def _bad_approvals(items):
    asked: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "mcp_approval_request":
            asked.add(item["id"])
        elif kind == "mcp_approval_response" and item["approval_request_id"] not in asked:
            yield f"{at}: leave for {item['approval_request_id']}, which nobody asked for"


def _bad_call(at, item, kinds):
    if item["call_id"] in kinds:
        yield f"{at}: call {item['call_id']} twice"
    kinds[item["call_id"]] = item["type"]
    yield from (f"{at}: {fault}" for fault in _bad_item(item))


def _bad_answer(at, item, kinds, answered):
    id = item["call_id"] if "call_id" in item else item["id"]
    if kinds.get(id) != item["type"].removesuffix("_output"):
        yield f"{at}: a result without a call of its kind"
    if id in answered:
        yield f"{at}: a second result"
    answered.add(id)
    yield from (f"{at}: {fault}" for fault in _bad_output(item))


def _follows(after):
    """Tell whether an item is the assistant's."""
    kind = after[0].get("type", "message") if after else "nothing"
    if kind == "message":
        return after[0]["role"] == "assistant"
    return kind.endswith("_call") or kind in ("reasoning", "mcp_list_tools", "mcp_approval_request")


def _bad_item(item):
    if not 0 < len(item["call_id"]) <= 64:
        yield f"an id of {len(item['call_id'])} letters"
    if item["type"] == "function_call":
        if not _TOOL.fullmatch(item["name"]):
            yield f"a tool called {item['name']!r}"
        if not isinstance(item["arguments"], str):
            yield "arguments that are no text"
    if item["type"] == "custom_tool_call" and not isinstance(item["input"], str):
        yield "input that is no text"


def _bad_output(item):
    said = item["output"]
    if item["type"] == "computer_call_output":
        if said.get("type") != "computer_screenshot":
            yield "no screenshot"
    elif item["type"] in ("function_call_output", "custom_tool_call_output"):
        if isinstance(said, list):
            yield from _bad_parts(said, "user")
        elif not isinstance(said, str):
            yield f"an output that is a {type(said).__name__}"


def _bad_message(item):
    content = item.get("content")
    if item["role"] not in _CONTENT:
        yield f"no role {item['role']}"
    elif not content:
        yield "an empty message"
    elif isinstance(content, list):
        yield from _bad_parts(content, item["role"])


def _bad_parts(parts, role):
    for part in parts:
        if part["type"] not in _CONTENT[role]:
            yield f"a {part['type']} of the {role}"
        if part["type"] == "input_image" and not part.get("file_id"):
            yield from _bad_file(part.get("image_url", ""), _PICTURES)
        if part["type"] == "input_file" and not part.get("file_id"):
            yield from _bad_file(part.get("file_data") or part.get("file_url", ""), _TAKEN)


# ---------------------------------------------------------------- Anthropic

_BLOCKS = {
    "user": {"text", "image", "document", "tool_result", "search_result", "container_upload"},
    "assistant": {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use",
                  "web_search_tool_result", "web_fetch_tool_result", "mcp_tool_use",
                  "mcp_tool_result", "bash_code_execution_tool_result",
                  "code_execution_tool_result", "container_upload"},
}  # fmt: skip
_IN_RESULTS = {"text", "image", "document", "search_result", "tool_reference"}
_FIELDS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
}


def _anthropic(messages):
    if messages and messages[0]["role"] != "user":
        yield "the first message is not the user's"
    seen: set[str] = set()
    waiting: list[str] = []
    before = ""
    for at, message in enumerate(messages):
        role, blocks = message["role"], _blocks(message)
        if role == before or role not in ("user", "assistant"):
            yield f"{at}: {role} after {before}"
        if set(message) != {"role", "content"}:
            yield f"{at}: a message with {sorted(message)}"
        before = role
        yield from (f"{at}: {fault}" for fault in _bad_blocks(blocks, role))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            yield f"{at}: results {results} for calls {waiting}"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        yield from (f"{at}: id {id!r} again" for id in waiting if id in seen)
        seen |= set(waiting)
    if waiting:
        yield f"at the end: calls {waiting} have no result"
    last = _blocks(messages[-1])[-1] if messages else {}
    if before == "assistant" and last.get("text", "") != last.get("text", "").rstrip():
        yield "the last text of the assistant ends in spaces"
    if str(messages).count("'cache_control': {") > 4:
        yield "more than four places to cache"


def _blocks(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _bad_system(system):
    for block in [] if system is None else _blocks({"content": system}):
        if block["type"] != "text" or not block["text"].strip():
            yield f"a system prompt with {block}"


def _bad_blocks(blocks, role):
    kinds = [block["type"] for block in blocks]
    if not blocks or kinds[-1] in ("thinking", "redacted_thinking"):
        yield "nothing is said, or thinking is last"
    if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
        yield "results are not first"
    served = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
    told = {
        block["tool_use_id"]
        for block in blocks
        if block["type"].endswith("_tool_result") and block["type"] != "mcp_tool_result"
    }
    if not told <= served:
        yield f"what a server found for {told - served}, which asked nothing"
    for block in blocks:
        if block["type"] not in _BLOCKS.get(role, ()):
            yield f"a {block['type']} of the {role}"
        yield from _bad_block(block)


def _bad_block(block):
    kind = block["type"]
    more = set(block) - _FIELDS.get(kind, set(block)) - {"type", "cache_control"}
    if more:
        yield f"a {kind} with {sorted(more)}"
    if kind == "text" and not block["text"].strip():
        yield "a blank text"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking without a signature"
    if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
        yield "thinking that is to be cached"
    if kind == "tool_use":
        if not _ID.fullmatch(block["id"]) or not _TOOL.fullmatch(block["name"]):
            yield f"id {block['id']!r} or name {block['name']!r} is not allowed"
        if not isinstance(block["input"], dict):
            yield "input that is no object"
    if kind == "tool_result":
        yield from _bad_result(block)
    if kind in ("image", "document"):
        yield from _bad_source(block["source"], kind)


def _bad_result(block):
    inside = block.get("content", "")
    for each in inside if isinstance(inside, list) else ():
        if each["type"] not in _IN_RESULTS or (block.get("is_error") and each["type"] != "text"):
            yield f"a {each['type']} in a result"
        yield from _bad_block(each)


def _bad_source(source, kind):
    if source["type"] == "base64":
        wanted = _PICTURES if kind == "image" else {"application/pdf"}
        if source["media_type"] not in wanted:
            yield f"{kind} of the type {source['media_type']}"
    if source["type"] == "url" and not source["url"]:
        yield f"{kind} from nowhere"
