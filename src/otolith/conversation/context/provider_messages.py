"""Units as a provider accepts them: valid ids, parts it takes, and roles in the order it wants.

The writers in `formats/` return what was read, whatever it was. A request has to be accepted. So a
file of a type that a provider does not take becomes a line that names it. A part that only another
provider understands is left out, unless it is text. Both are reported as losses. Reasoning goes to
the provider that signed it and to no other; leaving it out is not reported, since what it led to is
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from otolith.conversation.context.units import REDACTED, group_units
from otolith.conversation.formats import (
    FORMATS,
    anthropic,
    openai_chat,
    openai_responses,
    transcript,
    without_unknown_fields,
    write_message,
)
from otolith.conversation.formats.parts import PDF, PICTURES, attachment_line, refusal_text
from otolith.conversation.message import (
    Attachment,
    Extra,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from otolith.core import digest

PROVIDERS = ("openai", "responses", "anthropic", "plain")
LEFT_OUT = "[earlier messages are left out]"
"""The first message of the user, if a request to Anthropic would begin with the assistant."""

_SOUNDS = ("audio/wav", "audio/mpeg")
_FILES = (
    PDF,
    "application/json",
    "application/msword",
    "application/rtf",
    "application/xml",
)
_OFFICE = "application/vnd.openxmlformats-officedocument."
_ANY_PICTURE, _ANY_FILE = "image/*", "application/*"
"""The types of attachments that are only known by their address."""
_FORBIDDEN_LETTERS = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_ID_LETTERS = {"openai": 40, "responses": 64}
_MAX_TOOL_LETTERS = 64
"""The same for all providers, as are the letters of a tool name."""
_SHORT_ID_LETTERS = 32
"""How much of an id is left where something is appended to it."""
_CACHE = "cache_control"
_MAX_CACHE_MARKS = 4


class ProviderRequest(NamedTuple):
    """The messages of a request, and its system prompt where that is separate."""

    messages: list[dict[str, Any]]
    system: Any = None
    losses: Mapping[int, str] = {}
    """By the place of a given message: what of it is missing or changed."""


def all_messages_for(messages: Iterable[Message], for_: str) -> ProviderRequest:
    """Return all messages as a provider wants them, without a budget.

    Every call has a result and every result its call; ids and names are valid.
    """
    units, _ = group_units(enumerate(messages))
    return translate(([each for _, each in unit.messages()] for unit in units), for_)


def translate(groups: Iterable[Sequence[Message]], for_: str) -> ProviderRequest:
    """Return groups of messages as a provider wants them; no call id is in two groups."""
    translation = _Translation(for_)
    given = [message for group in _with_valid_ids(groups, for_) for message in group]
    messages = [translation.message(place, message) for place, message in enumerate(given)]
    if for_ == "plain":
        pieces = [transcript.as_dicts([message]) for message in messages]
    else:
        pieces = [write_message(message, FORMATS[for_]) for message in messages]
    losses = {at: f"for {for_}, {'; '.join(each)}" for at, each in translation.losses.items()}
    empty = f"nothing of it can be said to {for_}"
    losses |= {at: empty for at, piece in enumerate(pieces) if not piece}
    return _assemble(pieces, for_)._replace(losses=losses)


def _assemble(pieces: Sequence[list[Any]], for_: str) -> ProviderRequest:
    """Return a request of the pieces that messages were written as."""
    if for_ == "plain":
        return ProviderRequest([raw for piece in pieces for raw in piece])
    if for_ == "anthropic":
        return _assemble_anthropic(pieces)
    document = FORMATS[for_].document(pieces)
    if for_ == "responses":
        return ProviderRequest(_valid_items(document["input"]), document.get("instructions"))
    return ProviderRequest(_assemble_chat(document["messages"]))


def _assemble_chat(raws: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages with valid names, and with reasoning only since the user spoke last.

    Servers that give reasoning with an answer want it back with the calls that it led to. Reasoning
    of earlier turns is of no use to them, and some refuse it.
    """
    users = (at for at, raw in enumerate(raws) if raw["role"] == "user")
    turn = max(users, default=0)
    out = []
    for at, raw in enumerate(raws):
        left_out = (openai_chat.REASONING,) if at < turn else ()
        kept = {name: value for name, value in raw.items() if name not in left_out}
        if kept.get("name"):
            kept["name"] = openai_chat.speaker_name(kept["name"])
        out.append(kept)
    return out


# Parts


class _Translation:
    """Translates the parts of messages for one provider, and collects what is lost."""

    def __init__(self, for_: str) -> None:
        self._for = for_
        self.losses: dict[int, list[str]] = {}

    def message(self, place: int, message: Message) -> Message:
        """Return a message with the parts that the provider takes."""
        if self._for == "plain" or all(isinstance(part, Text) for part in message.parts):
            return message
        lost: list[str] = []
        parts = tuple(self._parts(message.parts, message.role, lost))
        if not lost:
            return message
        self.losses[place] = lost
        return replace(without_unknown_fields(message), parts=parts)

    def _parts(self, parts: tuple[Part, ...], role: Role, lost: list[str]) -> list[Part]:
        translated = (self._part(part, role, lost) for part in parts)
        return [part for part in translated if part is not None]

    def _part(self, part: Part, role: Role, lost: list[str]) -> Part | None:
        """Return a part as the provider takes it; None leaves it out. Add losses to `lost`."""
        if isinstance(part, Attachment) and not _takes(self._for, part, role):
            lost.append(f"{attachment_line(part)} is only named")
            return Text(attachment_line(part))
        if isinstance(part, Extra):
            return self._extra(part, lost)
        if isinstance(part, ToolResult) and isinstance(part.content, tuple):
            lost_here: list[str] = []
            # Anthropic takes nothing but text from a tool that failed, as from an assistant.
            failed = self._for == "anthropic" and part.is_error
            role = Role.ASSISTANT if failed else Role.TOOL
            content = tuple(self._parts(part.content, role, lost_here))
            lost += lost_here
            return replace(part, content=content) if lost_here else part
        return part

    def _extra(self, part: Extra, lost: list[str]) -> Part | None:
        """Return a part of a provider: unchanged for itself, else its text, else nothing."""
        is_own = part.type.startswith(f"{self._for}:")
        if is_own or part.type == REDACTED or refusal_text(part):
            return part
        text = _document_text(part)
        lost.append(f"{part.type} is {'said in words' if text else 'left out'}")
        return Text(text) if text else None


def _takes(for_: str, part: Attachment, role: Role) -> bool:
    """Return whether a provider takes an attachment in a message of a role."""
    if part.data is None and not part.url:
        return False
    if for_ == "anthropic":
        return role in (Role.USER, Role.TOOL) and _anthropic_takes(part)
    if role is not Role.USER and (for_ != "responses" or role is not Role.TOOL):
        return False
    kind, has_bytes = part.media_type, part.data is not None
    if kind.startswith("image/"):
        return kind in PICTURES or (not has_bytes and kind == _ANY_PICTURE)
    if has_bytes:
        is_file = kind in _FILES or kind.startswith(("text/", _OFFICE))
        return is_file or (for_ == "openai" and kind in _SOUNDS)
    return for_ == "responses" and kind in (PDF, _ANY_FILE) and part.url.startswith("http")


def _anthropic_takes(part: Attachment) -> bool:
    """Return whether Anthropic takes an attachment: pictures, PDFs, and text that is UTF-8."""
    kind = part.media_type
    if part.data is None:
        return kind == PDF or kind.startswith("image/")
    if not kind.startswith("text/"):
        return kind == PDF or kind in PICTURES
    try:
        part.data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _document_text(part: Extra) -> str:
    """Return the text of a document or a search result that has it as content; else nothing."""
    data: Any = part.data if isinstance(part.data, dict) else {}
    source = data.get("source") if part.type.endswith(":document") else data
    if not part.type.endswith((":document", ":search_result")) or not isinstance(source, dict):
        return ""
    content = source.get("content")
    if isinstance(content, str):
        return content
    texts = [each.get("text") for each in content or () if isinstance(each, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


# Ids


def _with_valid_ids(groups: Iterable[Sequence[Message]], for_: str) -> Iterable[Sequence[Message]]:
    """Yield groups whose call ids and tool names the provider takes; no id is in two groups."""
    used: set[str] = set()
    for group in groups:
        ids: dict[str, str] = {}
        tools: dict[str, str] = {}
        for call in (call for message in group for call in message.calls):
            id = valid = _valid_id(call.id, for_)
            count = 2
            while id in used:
                id, count = f"{valid[-_SHORT_ID_LETTERS:]}_{count}", count + 1
            used.add(id)
            if id != call.id:
                ids[call.id] = id
            tool = _FORBIDDEN_LETTERS.sub("_", call.name)[:_MAX_TOOL_LETTERS] or "tool"
            if for_ != "plain" and tool != call.name:
                tools[call.name] = tool
        same = _with_result_items(group) if for_ == "responses" else group
        yield [_renamed(each, ids, tools) for each in same] if ids or tools else same


def _valid_id(id: str, for_: str) -> str:
    """Return an id that a provider takes; a long one has a hash in place of its end."""
    valid = _FORBIDDEN_LETTERS.sub("_", id) if for_ == "anthropic" else id
    if len(valid) <= _MAX_ID_LETTERS.get(for_, len(valid)):
        return valid
    return f"{valid[: _SHORT_ID_LETTERS - 9]}_{digest(id.encode())[:4].hex()}"


def _with_result_items(group: Sequence[Message]) -> Sequence[Message]:
    """Return a group in which the result of a built-in tool is an item of its kind."""
    calls = (call for message in group for call in message.calls)
    kinds = {
        call.id: f"{kind}_output" for call in calls if (kind := openai_responses.call_item(call))
    }
    if not kinds:
        return group

    def with_item(part: Part) -> Part:
        """Return a result with the kind of its item."""
        if not isinstance(part, ToolResult) or part.call_id not in kinds or "item" in part.extra:
            return part
        return replace(part, extra={**part.extra, "item": kinds[part.call_id]})

    return [replace(each, parts=tuple(map(with_item, each.parts))) for each in group]


def _renamed(message: Message, ids: dict[str, str], tools: dict[str, str]) -> Message:
    """Return a message with other ids; its unknown fields may have the old ones, so they go."""

    def renamed(part: Part) -> Part:
        """Return a call or a result with its new id."""
        if isinstance(part, ToolCall):
            name = tools.get(part.name, part.name)
            return replace(part, id=ids.get(part.id, part.id), name=name)
        if isinstance(part, ToolResult):
            return replace(part, call_id=ids.get(part.call_id, part.call_id))
        return part

    if not message.calls and not message.results:
        return message
    return replace(without_unknown_fields(message), parts=tuple(map(renamed, message.parts)))


# Roles


def _valid_items(items: str | list[Any]) -> list[Any]:
    """Return items with all fields that a request must have.

    Reasoning that nothing of the assistant follows is left out: OpenAI refuses it.
    """
    out: list[Any] = []
    for item in [openai_responses.as_item(items)] if isinstance(items, str) else reversed(items):
        is_followed = bool(out) and openai_responses.is_from_assistant(out[-1])
        if item.get("type") != "reasoning" or is_followed:
            out.append(openai_responses.as_request_item(item))
    return out[::-1]


def _assemble_anthropic(pieces: Sequence[list[Any]]) -> ProviderRequest:
    """Join messages of one role in a row, begin with the user, end nothing with thinking."""
    document = anthropic.document(pieces, is_request=True)
    raws = [{key: raw[key] for key in ("role", "content")} for raw in document["messages"]]
    raws = [raw for raw in map(_without_last_thinking, _join_roles(raws)) if raw["content"]]
    raws = _join_roles(raws)
    if raws and raws[0]["role"] != "user":
        raws.insert(0, {"role": "user", "content": LEFT_OUT})
    if raws and raws[-1]["role"] == "assistant":
        raws[-1] = raws[-1] | {"content": _right_stripped(raws[-1]["content"])}
    system = document.get("system")
    return ProviderRequest(
        _limit_cache_marks(raws, _MAX_CACHE_MARKS - _cache_marks(system)), system
    )


def _cache_marks(content: Any) -> int:
    """Return how many blocks are marked as the end of what is to be cached."""
    return 0 if isinstance(content, str | None) else sum(_CACHE in block for block in content)


def _limit_cache_marks(raws: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Keep the last marks of what is to be cached: the API takes four, a long log may have more."""
    excess = sum(_cache_marks(raw["content"]) for raw in raws) - limit
    for at, raw in enumerate(raws):
        if excess <= 0:
            break
        marks = _cache_marks(raw["content"])
        if marks:
            blocks = [{k: v for k, v in block.items() if k != _CACHE} for block in raw["content"]]
            raws[at] = raw | {"content": blocks}
            excess -= marks
    return raws


def _join_roles(raws: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages of which no two in a row have one role."""
    out: list[dict[str, Any]] = []
    for raw in raws:
        if out and out[-1]["role"] == raw["role"]:
            both = anthropic.as_blocks(out[-1]["content"]) + anthropic.as_blocks(raw["content"])
            out[-1] = out[-1] | raw | {"content": both}
        else:
            out.append(raw)
    return out


def _without_last_thinking(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a message that does not end with thinking, which Anthropic refuses."""
    content = raw["content"]
    if raw["role"] != "assistant" or isinstance(content, str):
        return raw
    end = len(content)
    while end and content[end - 1].get("type") in ("thinking", "redacted_thinking"):
        end -= 1
    return raw if end == len(content) else raw | {"content": content[:end]}


def _right_stripped(content: Any) -> Any:
    """Return the assistant's last content without spaces at its end, which Anthropic refuses."""
    if isinstance(content, str):
        return content.rstrip()
    last = content[-1]
    if last.get("type") != "text":
        return content
    return [*content[:-1], last | {"text": last["text"].rstrip()}]
