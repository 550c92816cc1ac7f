"""Units as a provider is sent them: ids it accepts, roles in the order it wants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from otolith.agent.conversation.formats import FORMATS, anthropic, as_sent, plain, responses
from otolith.agent.conversation.message import Message, Part, ToolCall, ToolResult

PROVIDERS = ("openai", "responses", "anthropic", "plain")
LEFT_OUT = "[earlier messages are left out]"


class Sent(NamedTuple):
    """The messages of a request, and its system prompt where that is apart."""

    messages: list[dict[str, Any]]
    system: Any = None


def send(groups: Iterable[Sequence[Message]], for_: str) -> Sent:
    """Return groups of messages as a provider wants them; no id is in two groups then."""
    messages = [message for group in _distinct(groups, for_) for message in group]
    if for_ == "plain":
        return Sent(plain.as_dicts(messages))
    pieces = [as_sent(message, FORMATS[for_]) for message in messages]
    if for_ == "anthropic":
        return _for_anthropic(pieces)
    document = FORMATS[for_].document(pieces)
    if for_ == "responses":
        return Sent(_for_responses(document["input"]), document.get("instructions"))
    return Sent(document["messages"])


# Ids

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


def _distinct(groups: Iterable[Sequence[Message]], for_: str) -> Iterable[Sequence[Message]]:
    """Yield groups whose calls have ids that no other call has, and that the provider takes."""
    used: set[str] = set()
    for group in groups:
        names: dict[str, str] = {}
        for call in (call for message in group for call in message.calls):
            name = plainer = _FORBIDDEN.sub("_", call.id) if for_ == "anthropic" else call.id
            count = 2
            while name in used:
                name, count = f"{plainer}_{count}", count + 1
            used.add(name)
            if name != call.id:
                names[call.id] = name
        yield [_renamed(message, names) for message in group] if names else group


def _renamed(message: Message, names: dict[str, str]) -> Message:
    def renamed(part: Part) -> Part:
        if isinstance(part, ToolCall):
            return replace(part, id=names.get(part.id, part.id))
        if isinstance(part, ToolResult):
            return replace(part, call_id=names.get(part.call_id, part.call_id))
        return part

    return replace(message, parts=tuple(map(renamed, message.parts)))


# Roles


def _for_responses(items: list[Any]) -> list[Any]:
    """Leave out reasoning that nothing of the assistant's follows, which the API refuses."""
    out: list[Any] = []
    for item in reversed(items):
        follows = bool(out) and responses.is_assistants(out[-1])
        if item.get("type") != "reasoning" or follows:
            out.append(item)
    return out[::-1]


def _for_anthropic(pieces: Sequence[list[Any]]) -> Sent:
    """Join messages of one role in a row, begin with the user, end nothing with thinking."""
    document = anthropic.document(pieces)
    joined = _joined(document["messages"])
    said = [raw for raw in map(_without_last_thoughts, joined) if raw["content"]]
    out = _joined(said)
    if out and out[0]["role"] != "user":
        out.insert(0, {"role": "user", "content": LEFT_OUT})
    if out and out[-1]["role"] == "assistant":
        out[-1] = out[-1] | {"content": _trimmed(out[-1]["content"])}
    return Sent(out, document.get("system"))


def _joined(raws: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for raw in raws:
        if out and out[-1]["role"] == raw["role"]:
            both = anthropic.as_blocks(out[-1]["content"]) + anthropic.as_blocks(raw["content"])
            out[-1] = out[-1] | raw | {"content": both}
        else:
            out.append(raw)
    return out


def _without_last_thoughts(raw: dict[str, Any]) -> dict[str, Any]:
    content = raw["content"]
    if raw["role"] != "assistant" or isinstance(content, str):
        return raw
    end = len(content)
    while end and content[end - 1].get("type") in ("thinking", "redacted_thinking"):
        end -= 1
    return raw if end == len(content) else raw | {"content": content[:end]}


def _trimmed(content: Any) -> Any:
    """Return what an assistant says last without spaces at its end, which the API refuses."""
    if isinstance(content, str):
        return content.rstrip()
    last = content[-1]
    if last.get("type") != "text":
        return content
    return [*content[:-1], last | {"text": last["text"].rstrip()}]
