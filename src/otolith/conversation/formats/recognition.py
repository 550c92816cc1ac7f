"""Plain message dicts: which provider's format a message is in, by what only that format has.

    {"role": "user", "content": "Hi"}                       all of them
    {"role": "tool", "tool_call_id": "c1", "content": …}    OpenAI's chat completions
    {"role": "user", "content": [{"type": "tool_result", …}]}    Anthropic
    {"type": "function_call_output", "call_id": "c1", …}    OpenAI's responses

A message that all formats have is read like the others of its batch, or as one of chat completions:
it is the same in any of them. One with signs of two formats, or with a kind of content that none of
them has, is refused; who knows its format loads it as a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Protocol, TypeAlias, TypeGuard

from otolith.conversation.formats import anthropic, openai_chat, openai_responses, read
from otolith.conversation.message import Message
from otolith.errors import BadMessage, BadValue

_CHAT, _ANTHROPIC, _RESPONSES = openai_chat.NAME, anthropic.NAME, openai_responses.NAME
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_CHAT_ROLES = ("developer", "tool", "function")
_CHAT_FIELDS = (
    *("tool_calls", "tool_call_id", "function_call", "refusal", "audio", "name"),
    "reasoning_content",
)
_SHARED_BLOCKS = ("text", "refusal")
_RESPONSES_BLOCKS = ("input_text", "output_text", "input_image", "input_file")
_ANTHROPIC_BLOCKS = (
    *("image", "document", "search_result", "thinking", "redacted_thinking", "tool_use"),
    *("tool_result", "container_upload"),
)
_COMPACTION = "compaction"
"""A block of Anthropic's; as a whole message, an item of the responses API."""
_ANTHROPIC_ENDS = ("_tool_result", "_tool_use")
_ANTHROPIC_FIELDS = ("cache_control", "citations")
"""Fields of a block of text that only Anthropic has."""
_BLOCKS = (*_SHARED_BLOCKS, *_RESPONSES_BLOCKS, *_ANTHROPIC_BLOCKS)
_CONTENT_FIELDS = ("content", "tool_calls", "function_call", "refusal", "audio")
_ANSWER_FIELDS = ("stop_reason", "stop_sequence", "usage")
"""Fields of an answer of Anthropic, of which a request has the role and the content."""


class DumpedModel(Protocol):
    """A message of a provider's package, which dumps itself as a dict."""

    def model_dump(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the message as a dict."""


PlainMessage: TypeAlias = Mapping[str, Any] | DumpedModel
"""A message as a provider writes it."""


def read_plain(raws: Iterable[Message | PlainMessage]) -> list[Message]:
    """Return message dicts of any provider as messages; items of the responses API too.

    Objects of the providers' packages are taken as the dicts that they dump. Messages stay as they
    are.

    Raises:
        BadMessage: one of them is not a message, or its format cannot be told.
    """
    found = [each if isinstance(each, Message) else as_dict(each) for each in raws]
    formats = ["" if isinstance(each, Message) else _own_format(each) for each in found]
    known = set(formats) - {""}
    shared = known.pop() if len(known) == 1 else _CHAT
    messages: list[Message] = []
    for format, group in groupby(zip(formats, found, strict=True), lambda pair: _key(pair, shared)):
        chunk: list[Any] = [each for _, each in group]
        try:
            messages += read(chunk, format) if format else chunk
        except BadValue as error:
            raise _wrong(error.message, f"it was taken for one of the format {format}") from error
    return messages


def _key(pair: tuple[str, Any], shared: str) -> str:
    """Return the format of a message of a batch; nothing for one of ours."""
    format, found = pair
    return format or ("" if isinstance(found, Message) else shared)


def is_plain(value: object) -> TypeGuard[PlainMessage]:
    """Return whether a value is a dict, or an object that dumps itself as one."""
    return isinstance(value, Mapping) or callable(getattr(value, "model_dump", None))


def as_dict(raw: Any) -> dict[str, Any]:
    """Return a message as a dict of JSON."""
    if callable(getattr(raw, "model_dump", None)):
        raw = raw.model_dump(mode="json", exclude_none=True)
    if not isinstance(raw, Mapping):
        kind = type(raw).__name__
        raise _wrong(f"a message must be a Message or a dict, got {kind} {raw!r:.60}")
    if raw.get("type") == "message" and any(field in raw for field in _ANSWER_FIELDS):
        return {"role": raw.get("role"), "content": raw.get("content")}
    return dict(raw)


def format_of(raw: Mapping[str, Any]) -> str:
    """Return the format of a message.

    Raises:
        BadMessage: it has signs of two formats, or is not a message.
    """
    return _own_format(raw) or _CHAT


def _own_format(raw: Mapping[str, Any]) -> str:
    """Return the format that alone has a message; nothing if all of them have it."""
    kind, role = raw.get("type", "message"), raw.get("role")
    if kind != "message":
        if not isinstance(kind, str) or kind in raw or kind in _BLOCKS:
            shown = f"{kind!r} is a type of content, and no message"
            raise _wrong(shown, 'write {"role": "user", "content": [{…}]}, or use chat.user([{…}])')
        return _RESPONSES
    if role not in _ROLES:
        keys = ", ".join(map(str, raw)) or "none"
        roles = ", ".join(_ROLES)
        raise _wrong(f"the role of a message must be one of {roles}, got {role!r} (keys: {keys})")
    if not any(field in raw for field in _CONTENT_FIELDS):
        raise _wrong(f"a message must have content, got the keys {', '.join(map(str, raw))}")
    signs = {sign: format for sign, format in _signs(raw) if format}
    if "type" in raw:
        signs["type"] = _RESPONSES
    formats = set(signs.values())
    if len(formats) > 1:
        shown = ", ".join(f"{sign} ({format})" for sign, format in sorted(signs.items()))
        raise BadMessage(
            f"a message has signs of two formats: {shown}",
            problem="ambiguous",
            hint="write it in one format, or use load(…, format)",
        )
    return formats.pop() if formats else ""


def _signs(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what tells the format of a message, and the format."""
    if raw["role"] in _CHAT_ROLES and "type" not in raw:
        yield f"role {raw['role']}", _CHAT
    for field in _CHAT_FIELDS:
        if raw.get(field) is not None:
            yield field, _CHAT
    content = raw.get("content")
    if content is not None and not isinstance(content, str | list | tuple):
        kind = type(content).__name__
        raise _wrong(f"content must be a text or a list of blocks, got {kind} {content!r:.60}")
    for block in content if isinstance(content, list | tuple) else ():
        if not isinstance(block, Mapping):
            kind = type(block).__name__
            raise _wrong(f"a block of content must be a dict, got {kind} {block!r:.60}")
        yield str(block.get("type")), _block_format(block)


def _block_format(block: Mapping[str, Any]) -> str:
    """Return the format that has a block of content; nothing if all of them have it."""
    kind = block.get("type")
    if not isinstance(kind, str):
        raise _wrong(f"the type of a block of content must be a text, got {kind!r}")
    if kind in _SHARED_BLOCKS:
        return _ANTHROPIC if any(field in block for field in _ANTHROPIC_FIELDS) else ""
    if kind in (*_ANTHROPIC_BLOCKS, _COMPACTION) or kind.endswith(_ANTHROPIC_ENDS):
        return _ANTHROPIC
    if kind in _RESPONSES_BLOCKS:
        return _RESPONSES
    if kind in block:  # {"type": "image_url", "image_url": …}, also kinds that few servers know
        return _CHAT
    raise BadMessage(
        f"no format is known to have a block of content of the type {kind!r}",
        problem="ambiguous",
        hint="use load(…, format)",
    )


def _wrong(message: str, hint: str = "") -> BadMessage:
    return BadMessage(
        message,
        problem="wrong_type",
        hint=hint or "use chat.user, chat.assistant, Message, or the dict of a provider",
    )
