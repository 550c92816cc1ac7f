"""Parts in words, for formats that have nothing else to say them with."""

from __future__ import annotations

from otolith.agent.conversation.formats.media import arguments_text, compact
from otolith.agent.conversation.message import (
    Attachment,
    Extra,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.agent.lifecycle.values import thaw


def named(attachment: Attachment) -> str:
    """Return a line that stands for an attachment."""
    name = attachment.name or attachment.url or "attachment"
    return f"[{attachment.media_type}: {name}]"


def refused(part: Part) -> str:
    """Return the words of a model that would not, of whichever provider; else nothing."""
    if not isinstance(part, Extra) or part.type.rpartition(":")[2] != "refusal":
        return ""
    said = part.data.get("refusal") if isinstance(part.data, dict) else None
    return said if isinstance(said, str) else ""


def spoken(content: str | tuple[Part, ...]) -> str:
    """Return what a tool answered, in words."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(words, content)))


def words(part: Part) -> str:
    """Return a part in words; reasoning is not said aloud."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Reasoning):
        return ""
    if isinstance(part, ToolCall):
        return f"[call {part.name} {arguments_text(part)}]"
    if isinstance(part, ToolResult):
        return f"Error: {spoken(part.content)}" if part.is_error else spoken(part.content)
    if isinstance(part, Attachment):
        return named(part)
    return _of_extra(part)


def _of_extra(part: Extra) -> str:
    """Return the text in a part of another provider, or what it is."""
    data = thaw(part.data)
    if isinstance(data, dict):
        for key in ("refusal", "text"):
            if isinstance(data.get(key), str):
                return str(data[key])
    return f"[{part.type} {compact(data)}]"
