"""What providers accept, told from their documentation and not from how contexts are made."""

from __future__ import annotations

import re
from typing import Any


def faults(messages: list[dict[str, Any]], for_: str, system: Any = None) -> list[str]:
    """Return what a provider would refuse."""
    return list(
        {"openai": _openai, "responses": _responses, "anthropic": _anthropic}.get(for_, _plain)(
            messages
        )
    )


def _plain(messages):
    for message in messages:
        if set(message) != {"role", "content"} or not message["content"]:
            yield f"not a role and a text: {message}"


def _openai(messages):
    waiting: list[str] = []
    for at, message in enumerate(messages):
        role = message["role"]
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
        if role == "user" and not message.get("content"):
            yield f"{at}: a user who says nothing"
        if role == "assistant" and not message.get("content") and not message.get("tool_calls"):
            yield f"{at}: an assistant who says and calls nothing"
    if waiting:
        yield f"at the end: calls {waiting} have no result"


def _responses(items):
    calls: set[str] = set()
    answered: set[str] = set()
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.endswith("_call") and "call_id" in item:
            if item["call_id"] in calls:
                yield f"{at}: call {item['call_id']} twice"
            calls.add(item["call_id"])
        elif kind.endswith("_output"):
            if item["call_id"] not in calls or item["call_id"] in answered:
                yield f"{at}: a result without its call, or a second one"
            answered.add(item["call_id"])
        elif kind == "reasoning":
            after = items[at + 1] if at + 1 < len(items) else {"role": "nobody"}
            is_assistants = after.get("role", "assistant") == "assistant"
            if not is_assistants or after.get("type", "").endswith("_output"):
                yield f"{at}: reasoning that nothing follows"
        elif kind == "message" and not item.get("content"):
            yield f"{at}: an empty message"
    if calls != answered:
        yield f"calls {calls - answered} have no result"


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
        before = role
        yield from (f"{at}: {fault}" for fault in _bad_blocks(blocks))
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


def _blocks(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _bad_blocks(blocks):
    kinds = [block["type"] for block in blocks]
    if not blocks or kinds[-1] in ("thinking", "redacted_thinking"):
        yield "nothing is said, or thinking is last"
    if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
        yield "results are not first"
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            yield "a blank text"
        if block["type"] == "thinking" and not block.get("signature"):
            yield "thinking without a signature"
        if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
            yield f"id {block['id']!r} is not allowed"
