"""Appending messages to a thread: all of them are checked, then all of them are staged.

Rule 1: a message says something, its parts have the right types, and all of its text is UTF-8.
Rule 2: only the assistant calls tools; results belong in a message of the tool, or of the user.
Rule 3: a call has an id that no other call of the thread has; a result has a call that waits.

What is checked here need not be checked when a message is read or sent. Two branches that are
merged can still break rule 3; `context/units.py` repairs that for a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from otolith.conversation.formats import anthropic, openai_chat, read
from otolith.conversation.formats.parts import compact_json
from otolith.conversation.formats.recognition import as_dict, format_of, is_plain, read_plain
from otolith.conversation.message import (
    PARTS,
    STORED_FILE,
    Attachment,
    Extra,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    Tokens,
    ToolCall,
    ToolResult,
)
from otolith.conversation.storage import (
    ABOUT,
    CALLS,
    PERMANENT,
    AttachmentStore,
    ConversationStore,
    stored_data,
)
from otolith.conversation.token_counts import ESTIMATED
from otolith.errors import BadMessage, BadValue

MAX_ATTACHMENT_BYTES = 64 << 20
"""The default size limit of an attachment."""

Content = str | bytes | Part | Mapping[str, Any] | Iterable[Part | str | Mapping[str, Any]]
"""What a message can be made from: text, parts, or dicts as a provider writes them."""

_PARTS = tuple(PARTS.values())
_RESULT_PARTS = (Text, Attachment, Extra)
_TEXT_FIELDS: dict[type[Any], tuple[str, ...]] = {
    Text: ("text",),
    Reasoning: ("text", "signature"),
    ToolCall: ("id", "name", "raw"),
    ToolResult: ("call_id",),
    Attachment: ("media_type", "url", "name"),
    Extra: ("type",),
    Message: ("id", "name"),
}


def to_parts(content: Content | None) -> tuple[Part, ...]:
    """Return content as parts: a text, a part, or several of them.

    Raises:
        BadMessage: it is bytes that are not UTF-8.
    """
    if content is None:
        return ()
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError as error:
            raise BadMessage(
                f"the text is not UTF-8: {error}",
                problem="not_text",
                hint="decode it first, or attach it as a file",
            ) from None
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, Mapping) or not isinstance(content, Iterable):
        return (cast("Part", content),)
    return tuple(Text(part) if isinstance(part, str) else cast("Part", part) for part in content)


def to_message(
    role: Role, content: Content | None, *, calls: Iterable[Any] | None = (), name: str = ""
) -> Message:
    """Return a message of content and tool calls: parts, or dicts as a provider writes them.

    Raises:
        BadMessage: the content is a message of another role, or parts and dicts are mixed.
    """
    calls = tuple(calls or ())  # a provider writes null for none
    if is_plain(content):
        found = as_dict(content)
        if "role" in found:
            return _of_role(role, read_plain([found]), has_more=bool(calls or name))
        content = (found,)
    elif isinstance(content, Iterable) and not isinstance(content, str | bytes):
        content = tuple(content)
    pieces = (*(content if isinstance(content, tuple) else ()), *calls)
    if not any(map(is_plain, pieces)):
        return Message(role, (*to_parts(content), *calls), name=name)
    mixed = next((each for each in pieces if isinstance(each, _PARTS)), None)
    if mixed is not None:
        kind = type(mixed).__name__
        raise _wrong_type("content", mixed, f"write {kind} as a dict too, or the dicts as parts")
    return _of_role(role, [_plain_message(role, content, calls, name)])


def _plain_message(role: Role, content: Any, calls: Sequence[Any], name: str) -> Message:
    """Return the message of content and calls that are dicts."""
    raw: dict[str, Any] = {"role": str(role), "content": content}
    found = [as_dict(call) for call in calls]
    uses = [call for call in found if call.get("type") == "tool_use"]
    if isinstance(content, tuple) or uses:
        texts = (content,) if isinstance(content, str) and content else content or ()
        raw["content"] = [
            {"type": "text", "text": each} if isinstance(each, str) else as_dict(each)
            for each in (*texts, *uses)
        ]
    if len(uses) < len(found):
        raw["tool_calls"] = [call for call in found if call not in uses]
    form = format_of(raw)
    if name and form == openai_chat.NAME:
        raw["name"] = name
    if role is Role.SYSTEM and form == anthropic.NAME:
        (message,) = read({"system": raw["content"], "messages": []}, form)
    else:
        (message,) = read_plain([raw])
    return message if message.name == name else replace(message, name=name)


def _of_role(role: Role, messages: Sequence[Message], *, has_more: bool = False) -> Message:
    """Return the one message, if it is of a role; results of tools are from the user, too."""
    (message,) = messages
    is_result = role is Role.USER and message.role is Role.TOOL
    if message.role is not role and not is_result:
        raise BadMessage(
            f"the message must be of the {role}, got one of the {message.role}",
            problem="misplaced",
            hint="use chat.append",
        )
    if has_more:
        raise _wrong_type("content", dict, "put all of it into the dict, or use chat.append")
    return message


def to_result_content(result: Any) -> str | tuple[Part, ...]:
    """Return the result of a tool as content: text, parts, or the JSON of anything else.

    Raises:
        BadMessage: it is neither text nor plain data.
    """
    if isinstance(result, str):
        return result
    if isinstance(result, bytes):
        return "".join(part.text for part in to_parts(result) if isinstance(part, Text))
    if isinstance(result, _RESULT_PARTS):
        return (result,)
    is_list = isinstance(result, list | tuple) and bool(result)
    if is_list and all(isinstance(part, _RESULT_PARTS) for part in result):
        return tuple(result)
    try:
        return compact_json(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(
            f"the result of a tool is neither text nor JSON: {error}",
            problem="not_text",
            hint="return text, parts, or plain data",
        ) from None


# Checks of one message


def check_message(message: Message, *, limit_bytes: int, allow_empty: bool = False) -> None:
    """Check that a message can be stored and sent.

    Raises:
        BadMessage: `problem` is "wrong_type", "empty", "not_text", "misplaced" or "too_large".
    """
    _check_types(message)
    if not allow_empty and not any(map(_has_content, message.parts)):
        raise BadMessage(
            f"the {message.role} message is empty",
            problem="empty",
            hint="give it text, a call, a result or an attachment",
        )
    _check_roles(message)
    for part in _attachments(message.parts):
        if part.data is not None and len(part.data) > limit_bytes:
            raise BadMessage(
                f"attachment {part.name or part.media_type} has {len(part.data):,} bytes;"
                f" the limit is {limit_bytes:,}",
                problem="too_large",
                hint="pass attachment_limit_bytes=, or store the file elsewhere and attach its url",
            )
    check_text(message.to_data())


def _check_types(message: Message) -> None:
    """Check the types of all fields, which a caller may have filled with anything."""
    if not isinstance(message, Message):
        raise _wrong_type("a message", message, "use chat.user, chat.assistant or Message")
    _check_text_fields(message)
    if not isinstance(message.parts, tuple):
        raise _wrong_type("parts", message.parts, "give a tuple of parts")
    if type(message.time) is not int or message.time < 0:
        raise _wrong_type("time", message.time, "give microseconds since 1970")
    tokens: Any = message.tokens
    if tokens is not None:
        is_tokens = isinstance(tokens, Tokens) and isinstance(tokens.counter, str)
        if not is_tokens or type(tokens.count) is not int or tokens.count < 0:
            raise _wrong_type("tokens", tokens, "use Tokens(count, counter)")
    for part in message.parts:
        _check_part(part, _PARTS)


def _check_part(part: Any, classes: tuple[type[Any], ...]) -> None:
    """Check a part; the parts of a result may have fewer classes."""
    if type(part) not in classes:
        raise _wrong_type("a part", part, f"use {', '.join(each.__name__ for each in classes)}")
    _check_text_fields(part)
    if isinstance(part, Attachment):
        if part.data is not None and type(part.data) is not bytes:
            raise _wrong_type("data", part.data, "use bytes(…)")
        if STORED_FILE in part.extra:
            name = f"extra[{STORED_FILE!r}]"
            raise _wrong_type(name, part.extra[STORED_FILE], "this key is reserved; use another")
    elif isinstance(part, ToolResult) and not isinstance(part.content, str):
        if not isinstance(part.content, tuple):
            raise _wrong_type("content", part.content, "give text, or a tuple of parts")
        for each in part.content:
            _check_part(each, _RESULT_PARTS)


def _check_text_fields(part: Any) -> None:
    for name in _TEXT_FIELDS[type(part)]:
        value = getattr(part, name)
        if not isinstance(value, str):
            raise _wrong_type(name, value, "give text")


def _wrong_type(name: str, value: Any, hint: str) -> BadMessage:
    """Return the error for a value of the wrong type."""
    what = f"{name} has the wrong type: {type(value).__name__} {value!r:.60}"
    return BadMessage(what, problem="wrong_type", hint=hint)


def _attachments(parts: Iterable[Part]) -> Iterator[Attachment]:
    """Yield the attachments among parts, and those in results."""
    for part in parts:
        if isinstance(part, Attachment):
            yield part
        elif isinstance(part, ToolResult) and isinstance(part.content, tuple):
            yield from _attachments(part.content)


def _has_content(part: Part) -> bool:
    """Return whether a part says anything; a text of nothing but spaces does not."""
    if isinstance(part, Attachment):
        return part.data is not None or bool(part.url)
    return not isinstance(part, Text) or bool(part.text.strip())


def _check_roles(message: Message) -> None:
    """Check that calls and results are in messages of the right role."""
    role, wrong = message.role, ""
    if message.calls and role is not Role.ASSISTANT:
        wrong = f"a {role} message has a call: only an assistant calls tools"
    elif message.results and role not in (Role.TOOL, Role.USER):
        wrong = f"a {role} message has a result: it belongs in a tool message"
    elif role is Role.TOOL and not all(map(_is_tool_part, message.parts)):
        wrong = "a tool message has parts that are not results"
    elif role is Role.TOOL and not message.parts:
        wrong = "a tool message has no result"
    if wrong:
        raise BadMessage(wrong, problem="misplaced", hint="use chat.assistant and chat.tool")


def _is_tool_part(part: Part) -> bool:
    """Return whether a part is a result, or the approval of a call of a provider's server."""
    return isinstance(part, ToolResult) or (
        isinstance(part, Extra) and part.type == "responses:mcp_approval_response"
    )


def check_text(data: Any) -> None:
    """Check that all text in plain data is UTF-8; JSON lets half a character through.

    Raises:
        BadMessage: a text has a lone surrogate.
    """
    try:
        for text in _texts(data):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError as error:
        raise BadMessage(
            f"a text holds half a character (a lone surrogate) at {error.start}",
            problem="not_text",
            hint='clean it with text.encode("utf-8", "replace").decode()',
        ) from None
    except RecursionError:
        raise BadValue("the data of a message is nested too deep", hint="flatten it") from None


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in plain data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


# Messages in a thread


class MessageAppender:
    """Appends one batch of messages to a thread."""

    def __init__(
        self, store: ConversationStore, *, now: int, limit_bytes: int, allow_empty: bool
    ) -> None:
        self._store = store
        self._now = now
        self._limit_bytes = limit_bytes
        self._allow_empty = allow_empty
        self._new_calls: dict[str, int] = {}
        self._new_results: dict[str, int] = {}
        self._new_permanent: dict[str, tuple[int, bool]] = {}
        self._old_permanent: set[int] | None = None

    def append(self, messages: Sequence[Message]) -> list[Message]:
        """Check and stage messages; return them with their ids, times, tokens and bytes.

        Raises:
            BadMessage: one of them cannot be stored; then none is.
        """
        if not messages:
            return []
        store, start = self._store, self._store.length()
        for at, message in enumerate(messages, start):
            check_message(message, limit_bytes=self._limit_bytes, allow_empty=self._allow_empty)
            for part in message.parts:
                if isinstance(part, ToolCall):
                    self._check_call(at, part)
                elif isinstance(part, ToolResult):
                    self._check_result(at, part)
        complete = self._completed(start, messages)
        stored = self._stored(start, complete)
        if not store.exists:
            store.put({"time": self._now}, ABOUT)
        store.extend(stored)
        for id, at in self._new_calls.items():
            store.put(at, CALLS, id)
        for id, row in self._new_permanent.items():
            store.put(list(row), PERMANENT, id)
        return complete

    def replace_prompt(self, message: Message | None) -> None:
        """Stage another message, or none, in place of the system messages at the beginning.

        The messages after them stay as they are, with their ids.

        Raises:
            BadMessage: it cannot be stored.
        """
        store, cells, length = self._store, self._store.state.cells, self._store.prompt_length()
        if message is not None:
            check_message(message, limit_bytes=self._limit_bytes, allow_empty=self._allow_empty)
        for old in store.read(0, length):
            store.remove(PERMANENT, old.id)
        made = [] if message is None else [self._complete(message, store.thread)]
        stored = [cells.put(stored_data(AttachmentStore(store).save(each), None)) for each in made]
        if not store.exists:
            store.put({"time": self._now}, ABOUT)
        store.put_log(cells.splice(store.log(), 0, length, stored))
        for each in made:
            store.put([0, False], PERMANENT, each.id)

    def _check_call(self, at: int, call: ToolCall) -> None:
        """Check that no other call has the id of a call, and note it."""
        if not call.id:
            raise BadMessage(
                f"the call of {call.name} has no id", problem="no_id", hint="give it one"
            )
        before = self._new_calls.get(call.id)
        before = self._store.find_call(call.id) if before is None else before
        if before is not None:
            raise BadMessage(
                f"message {before} has a call {call.id!r} already",
                problem="duplicate_call",
                hint="ids of calls are unique in a thread: a result names its call by it",
            )
        self._new_calls[call.id] = at

    def _check_result(self, at: int, result: ToolResult) -> None:
        """Check that a call waits for a result, and note that it is answered."""
        id = result.call_id
        call_index = self._find_call(id)
        if call_index is None:
            raise BadMessage(
                f"a result for {id!r}, which no message called",
                problem="no_call",
                hint="append the assistant's message with the call first",
            )
        before = self._new_results.get(id)
        before = self._store.find_result(id, call_index) if before is None else before
        if before is not None:
            raise BadMessage(
                f"call {id!r} was answered already, by message {before}",
                problem="answered",
                hint="a call has one result; make another call",
            )
        self._new_results[id] = at

    def _find_call(self, id: str) -> int | None:
        """Return the index of a call, in this batch or in the log."""
        return self._new_calls[id] if id in self._new_calls else self._store.find_call(id)

    def _completed(self, start: int, messages: Sequence[Message]) -> list[Message]:
        """Return messages with their id, time and tokens; note those that are permanent."""
        complete, id = [], self._store.last_id()
        for at, message in enumerate(self._timed(messages), start):
            made = self._complete(message, id)
            id = made.id
            if made.role is Role.SYSTEM or made.is_pinned or self._answers_permanent(made):
                self._new_permanent[id] = at, made.is_pinned
            complete.append(made)
        return complete

    def _timed(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with times; one without a time is not later than those that follow it.

        The result of a tool may be older than this batch, if its step was cut off and repeated: its
        call is not younger.
        """
        timed, latest = [], self._now
        for message in reversed(messages):
            timed.append(message if message.time else replace(message, time=latest))
            latest = min(latest, timed[-1].time)
        return timed[::-1]

    def _complete(self, message: Message, previous_id: str) -> Message:
        """Return a message that follows another one with its id, time and tokens."""
        timed = message if message.time else replace(message, time=self._now)
        tokens = message.tokens or Tokens(ESTIMATED.message(timed), ESTIMATED.name)
        return replace(timed, id=self._store.next_id(timed, previous_id), tokens=tokens)

    def _answers_permanent(self, message: Message) -> bool:
        """Return whether a message answers a permanent call: then it is permanent as well."""
        if not message.results:
            return False
        if self._old_permanent is None:
            self._old_permanent = set(self._store.permanent_indices())
        known = self._old_permanent | {at for at, _ in self._new_permanent.values()}
        return any(self._find_call(result.call_id) in known for result in message.results)

    def _stored(self, start: int, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Stage the bytes of attachments; return messages in their stored form."""
        store, attachments = self._store, AttachmentStore(self._store)
        user_index = store.last_user_index()
        user_id = ""
        if user_index is not None and messages[0].role is not Role.USER:
            user_id = store.read(user_index, user_index + 1)[0].id
        stored = []
        for at, message in enumerate(messages, start):
            if message.role is Role.USER:
                user_index, user_id = at, message.id
            far = None if user_index is None or at - user_index < 2 else at - user_index
            user = None if far is None or store.is_cut else (far, user_id)
            stored.append(stored_data(attachments.save(message), user))
        return stored
