"""Units as a provider is sent them: ids it accepts, parts it takes, roles in the order it wants.

Parts as a provider takes them: what it cannot be sent is put into words, or left out, and told.

The writers in `formats/` give back what was read, whatever it was. A request has to be accepted: so
a file of a kind that a provider does not take becomes a line that names it, and what only another
provider understands is left out, unless it is words. Reasoning is not told of: it goes to whoever
signed it and to nobody else, and what it led to is there.

All that was said as a provider accepts it, whatever it takes: a context without a budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from otolith.conversation.context.units import REDACTED, Gathering
from otolith.conversation.formats import (
    FORMATS,
    anthropic,
    as_sent,
    openai_chat,
    openai_responses,
    transcript,
    without_residue,
)
from otolith.conversation.formats.parts import named, refused
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
        if not isinstance(result.content, tuple):
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
        return role in (Role.USER, Role.TOOL) and _anthropic_takes(part)
    if role is not Role.USER and (for_ != "responses" or role is not Role.TOOL):
        return False
    kind, is_here = part.media_type, part.data is not None
    if kind.startswith("image/"):
        return kind in _PICTURES or (not is_here and kind == _SOME_PICTURE)
    if is_here:
        is_file = kind in _FILES or kind.startswith(("text/", _OFFICE))
        return is_file or (for_ == "openai" and kind in _SOUNDS)
    return for_ == "responses" and kind in (PDF, _SOME_FILE) and part.url.startswith("http")


def _anthropic_takes(part: Attachment) -> bool:
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


PROVIDERS = ("openai", "responses", "anthropic", "plain")
LEFT_OUT = "[earlier messages are left out]"


class Sent(NamedTuple):
    """The messages of a request, and its system prompt where that is apart."""

    messages: list[dict[str, Any]]
    system: Any = None
    losses: Mapping[int, str] = {}
    """By the place of a message that was given, what of it is not said as it was."""


def send(groups: Iterable[Sequence[Message]], for_: str) -> Sent:
    """Return groups of messages as a provider wants them; no id is in two groups then."""
    translation = Translation(for_)
    given = [message for group in _distinct(groups, for_) for message in group]
    messages = [translation.message(place, message) for place, message in enumerate(given)]
    if for_ == "plain":
        pieces = [transcript.as_dicts([message]) for message in messages]
    else:
        pieces = [as_sent(message, FORMATS[for_]) for message in messages]
    losses = {at: f"for {for_}, {'; '.join(told)}" for at, told in translation.losses.items()}
    nothing = f"nothing of it can be said to {for_}"
    silent = {at: nothing for at, piece in enumerate(pieces) if not piece}
    return _joined_up(pieces, for_)._replace(losses=losses | silent)


def _joined_up(pieces: Sequence[list[Any]], for_: str) -> Sent:
    if for_ == "plain":
        return Sent([raw for piece in pieces for raw in piece])
    if for_ == "anthropic":
        return _for_anthropic(pieces)
    document = FORMATS[for_].document(pieces)
    if for_ == "responses":
        return Sent(_for_responses(document["input"]), document.get("instructions"))
    return Sent([_introduced(raw) for raw in document["messages"]])


# Ids

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST = {"openai": 40, "responses": 64}
_LONGEST_TOOL = 64
"""What a tool may be called is the same everywhere, and so are the signs that may be in it."""


def _distinct(groups: Iterable[Sequence[Message]], for_: str) -> Iterable[Sequence[Message]]:
    """Yield groups whose calls have ids that no other call has, and that the provider takes."""
    used: set[str] = set()
    for group in groups:
        names: dict[str, str] = {}
        tools: dict[str, str] = {}
        for call in (call for message in group for call in message.calls):
            name = plainer = _taken(call.id, for_)
            count = 2
            while name in used:
                name, count = f"{plainer[-_SHORT:]}_{count}", count + 1
            used.add(name)
            if name != call.id:
                names[call.id] = name
            if for_ != "plain" and (tool := _tool(call.name)) != call.name:
                tools[call.name] = tool
        same = _answered_in_kind(group) if for_ == "responses" else group
        yield [_renamed(each, names, tools) for each in same] if names or tools else same


def _answered_in_kind(group: Sequence[Message]) -> Sequence[Message]:
    """Return a group in which a built-in tool is answered by an item of its own kind."""
    calls = (call for message in group for call in message.calls)
    kinds = {
        call.id: f"{kind}_output" for call in calls if (kind := openai_responses.item_of(call))
    }
    if not kinds:
        return group

    def of_kind(part: Part) -> Part:
        if not isinstance(part, ToolResult) or part.call_id not in kinds or "item" in part.extra:
            return part
        return replace(part, extra={**part.extra, "item": kinds[part.call_id]})

    return [replace(each, parts=tuple(map(of_kind, each.parts))) for each in group]


_SHORT = 32
"""How much of an id is left where something is put after it."""


def _taken(id: str, for_: str) -> str:
    """Return an id as a provider takes it; one that is too long has a hash in place of its end."""
    name = _FORBIDDEN.sub("_", id) if for_ == "anthropic" else id
    if len(name) <= _LONGEST.get(for_, len(name)):
        return name
    return f"{name[: _SHORT - 9]}_{digest(id.encode())[:4].hex()}"


def _tool(name: str) -> str:
    return _FORBIDDEN.sub("_", name)[:_LONGEST_TOOL] or "tool"


def _renamed(message: Message, names: dict[str, str], tools: dict[str, str]) -> Message:
    """Return a message with other ids; what stood beside its parts may have the old ones."""

    def renamed(part: Part) -> Part:
        if isinstance(part, ToolCall):
            name = tools.get(part.name, part.name)
            return replace(part, id=names.get(part.id, part.id), name=name)
        if isinstance(part, ToolResult):
            return replace(part, call_id=names.get(part.call_id, part.call_id))
        return part

    if not message.calls and not message.results:
        return message
    return replace(without_residue(message), parts=tuple(map(renamed, message.parts)))


# Roles


def _introduced(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a message of chat whose speaker has a name that the API takes."""
    name = raw.get("name")
    return raw | {"name": openai_chat.speaker(name)} if isinstance(name, str) and name else raw


def _for_responses(items: str | list[Any]) -> list[Any]:
    """Leave out reasoning that nothing of the assistant's follows, which the API refuses."""
    out: list[Any] = []
    for item in [openai_responses.as_item(items)] if isinstance(items, str) else reversed(items):
        follows = bool(out) and openai_responses.is_assistants(out[-1])
        if item.get("type") != "reasoning" or follows:
            out.append(item)
    return out[::-1]


def _for_anthropic(pieces: Sequence[list[Any]]) -> Sent:
    """Join messages of one role in a row, begin with the user, end nothing with thinking."""
    document = anthropic.document(pieces)
    joined = _joined({key: raw[key] for key in _KEYS} for raw in document["messages"])
    said = [raw for raw in map(_without_last_thoughts, joined) if raw["content"]]
    out = _joined(said)
    if out and out[0]["role"] != "user":
        out.insert(0, {"role": "user", "content": LEFT_OUT})
    if out and out[-1]["role"] == "assistant":
        out[-1] = out[-1] | {"content": _trimmed(out[-1]["content"])}
    system = document.get("system")
    return Sent(_cached(out, _MOST_CACHED - _places(system)), system)


_KEYS = ("role", "content")
_MOST_CACHED = 4


def _places(content: Any) -> int:
    """Return how many blocks end what is to be cached."""
    return 0 if isinstance(content, str | None) else sum(_CACHE in block for block in content)


_CACHE = "cache_control"


def _cached(raws: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Leave the last places of a cache, since the API takes four; a long log may have more."""
    left = sum(_places(raw["content"]) for raw in raws) - most
    for at, raw in enumerate(raws):
        if left <= 0:
            break
        here = _places(raw["content"])
        if here:
            blocks = [{k: v for k, v in block.items() if k != _CACHE} for block in raw["content"]]
            raws[at] = raw | {"content": blocks}
            left -= here
    return raws


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


def all_messages_for(messages: Iterable[Message], for_: str) -> Sent:
    """Return all messages as a provider wants them.

    Every call has a result and every result its call; ids and names are such as it takes.
    """
    units = Gathering.of(enumerate(messages)).units
    return send(([each for _, each in unit.messages()] for unit in units), for_)
