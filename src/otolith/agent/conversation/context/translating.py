"""Parts as a provider takes them: what it cannot be sent is put into words, or left out, and told.

The writers in `formats/` give back what was read, whatever it was. A request has to be accepted: so
a file of a kind that a provider does not take becomes a line that names it, and what only another
provider understands is left out, unless it is words. Reasoning is not told of: it goes to whoever
signed it and to nobody else, and what it led to is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from otolith.agent.conversation.context.units import REDACTED
from otolith.agent.conversation.formats import without_residue
from otolith.agent.conversation.formats.words import named, refused
from otolith.agent.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Role,
    Text,
    ToolResult,
)

PDF = "application/pdf"
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SOUNDS = ("audio/wav", "audio/mpeg")
_FILES = (
    PDF,
    "application/json",
    "application/msword",
    "application/rtf",
    "application/xml",
)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_SOME_PICTURE, _SOME_FILE = "image/*", "application/*"
"""What is at an address, as long as nobody has looked."""


class Translation:
    """Messages on their way to one provider, and what is lost on it."""

    def __init__(self, for_: str) -> None:
        self._for = for_
        self.losses: dict[int, list[str]] = {}
        """By the place of a message, what became of parts of it."""

    def message(self, place: int, message: Message) -> Message:
        """Return a message with those parts that the provider takes."""
        if self._for == "plain" or all(isinstance(part, Text) for part in message.parts):
            return message
        told: list[str] = []
        parts = tuple(self._parts(message.parts, message.role, told))
        if not told:
            return message
        self.losses[place] = told
        return replace(without_residue(message), parts=parts)

    def _parts(self, parts: tuple[Part, ...], role: Role, told: list[str]) -> list[Part]:
        fitted = (self._part(part, role, told) for part in parts)
        return [part for part in fitted if part is not None]

    def _part(self, part: Part, role: Role, told: list[str]) -> Part | None:
        if isinstance(part, Attachment) and not _takes(self._for, part, role):
            told.append(f"{named(part)} is only named")
            return Text(named(part))
        if isinstance(part, Extra):
            return self._extra(part, told)
        if isinstance(part, ToolResult) and isinstance(part.content, tuple):
            return self._result(part, told)
        return part

    def _result(self, result: ToolResult, told: list[str]) -> ToolResult:
        is_own = self._for == "responses" and "item" in result.extra
        if is_own or not isinstance(result.content, tuple):
            return result
        lost: list[str] = []
        # Anthropic takes nothing but text from a tool that failed, as if it were not a tool's.
        role = Role.ASSISTANT if self._for == "anthropic" and result.is_error else Role.TOOL
        content = tuple(self._parts(result.content, role, lost))
        told += lost
        return replace(result, content=content) if lost else result

    def _extra(self, part: Extra, told: list[str]) -> Part | None:
        if part.type.startswith(f"{self._for}:") or part.type == REDACTED or refused(part):
            return part
        words = _document(part)
        told.append(f"{part.type} is {'said in words' if words else 'left out'}")
        return Text(words) if words else None


def _takes(for_: str, part: Attachment, role: Role) -> bool:
    """Tell whether a provider takes an attachment of somebody."""
    if part.data is None and not part.url:
        return False
    if for_ == "anthropic":
        return role in (Role.USER, Role.TOOL) and _for_anthropic(part)
    if role is not Role.USER and (for_ != "responses" or role is not Role.TOOL):
        return False
    kind, is_here = part.media_type, part.data is not None
    if kind.startswith("image/"):
        return kind in _PICTURES or (not is_here and kind == _SOME_PICTURE)
    if is_here:
        is_file = kind in _FILES or kind.startswith(("text/", _OFFICE))
        return is_file or (for_ == "openai" and kind in _SOUNDS)
    return for_ == "responses" and kind in (PDF, _SOME_FILE) and part.url.startswith("http")


def _for_anthropic(part: Attachment) -> bool:
    kind = part.media_type
    if part.data is None:
        return kind == PDF or kind.startswith("image/")
    if not kind.startswith("text/"):
        return kind == PDF or kind in _PICTURES
    try:
        part.data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _document(part: Extra) -> str:
    """Return the words of a document or of something found, given as content; else nothing."""
    data: Any = part.data if isinstance(part.data, dict) else {}
    source = data.get("source") if part.type.endswith(":document") else data
    if not part.type.endswith((":document", ":search_result")) or not isinstance(source, dict):
        return ""
    content = source.get("content")
    if isinstance(content, str):
        return content
    blocks = [each for each in content or () if isinstance(each, dict)]
    texts = [each.get("text") for each in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))
