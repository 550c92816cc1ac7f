"""What a message must be before it is kept: not empty, all text, its parts where they belong.

Of what types a message is made: what was put together by hand may be anything.

What is kept must be read again, so this is checked before, and not found out after.

Adding messages to a thread: checked all at once, then staged all at once.

A call needs an id that no other call of the thread has; a result needs a call that waits for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from otolith.conversation.attachments import Files
from otolith.conversation.formats.parts import compact
from otolith.conversation.message import (
    PARTS,
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
from otolith.conversation.storage import ABOUT, CALLS, STAYS, Record, lowered
from otolith.conversation.token_counts import ESTIMATED, FILE
from otolith.errors import BadMessage, BadValue

_KINDS = tuple(PARTS.values())
_ANSWERS = (Text, Attachment, Extra)
_TEXTS: dict[type[Any], tuple[str, ...]] = {
    Text: ("text",),
    Reasoning: ("text", "signature"),
    ToolCall: ("id", "name", "raw"),
    ToolResult: ("call_id",),
    Attachment: ("media_type", "url", "name"),
    Extra: ("type",),
    Message: ("id", "name"),
}
"""The fields that are texts."""


def check_types(message: Message) -> None:
    """Refuse a message with something in it that is not what its name says.

    Raises:
        BadMessage: `problem` is "wrong_type".
    """
    if not isinstance(message, Message):
        raise _wrong("a message", message, "use chat.user, chat.assistant or Message")
    _check_texts(message)
    if not isinstance(message.parts, tuple):
        raise _wrong("parts", message.parts, "give a tuple of parts")
    if type(message.time) is not int or message.time < 0:
        raise _wrong("time", message.time, "give microseconds since 1970")
    if message.tokens is not None:
        _check_tokens(message.tokens)
    for part in message.parts:
        _check_part(part, _KINDS)


def _check_part(part: Any, kinds: tuple[type[Any], ...]) -> None:
    if type(part) not in kinds:
        raise _wrong("a part", part, f"use {', '.join(kind.__name__ for kind in kinds)}")
    _check_texts(part)
    if isinstance(part, Attachment):
        _check_bytes(part)
    elif isinstance(part, ToolResult) and not isinstance(part.content, str):
        if not isinstance(part.content, tuple):
            raise _wrong("content", part.content, "give text, or a tuple of parts")
        for each in part.content:
            _check_part(each, _ANSWERS)


def _check_bytes(part: Attachment) -> None:
    if part.data is not None and type(part.data) is not bytes:
        raise _wrong("data", part.data, "use bytes(…)")
    if FILE in part.extra:
        raise _wrong(f"extra[{FILE!r}]", part.extra[FILE], "this name is taken; use another")


def _check_texts(part: Any) -> None:
    for name in _TEXTS[type(part)]:
        value = getattr(part, name)
        if not isinstance(value, str):
            raise _wrong(name, value, "give text")


def _check_tokens(tokens: Any) -> None:
    is_fine = isinstance(tokens, Tokens) and type(tokens.count) is int and tokens.count >= 0
    if not is_fine or not isinstance(tokens.counter, str):
        raise _wrong("tokens", tokens, "use Tokens(count, counter)")


def _wrong(name: str, value: Any, hint: str) -> BadMessage:
    what = f"{name} is {type(value).__name__} {value!r:.60}"
    return BadMessage(what, problem="wrong_type", hint=hint)


LARGEST_BYTES = 64 << 20
"""The longest attachment that is kept, unless a conversation is told otherwise."""

Content = str | bytes | Part | Iterable[Part | str]
"""What a message can be made from."""


def parts_of(content: Content | None) -> tuple[Part, ...]:
    """Return content as parts: text, a part, or several of them.

    Raises:
        BadMessage: bytes that are not UTF-8.
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
    return tuple(Text(part) if isinstance(part, str) else part for part in content)


def answer_of(result: Any) -> str | tuple[Part, ...]:
    """Return what a tool gave as content: text, parts, or the JSON of anything else."""
    if isinstance(result, str):
        return result
    if isinstance(result, bytes):
        return "".join(part.text for part in parts_of(result) if isinstance(part, Text))
    if isinstance(result, _ANSWERS):
        return (result,)
    if isinstance(result, list | tuple) and result and all(isinstance(p, _ANSWERS) for p in result):
        return tuple(result)
    try:
        return compact(result)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(
            f"a tool gave what is neither text nor JSON: {error}",
            problem="not_text",
            hint="give text, parts, or plain data",
        ) from None


def check(message: Message, *, limit_bytes: int, allow_empty: bool = False) -> None:
    """Refuse a message that cannot be kept, or that no provider could be sent.

    Raises:
        BadMessage: `problem` is "wrong_type", "empty", "not_text", "misplaced" or "too_large".
    """
    check_types(message)
    if not allow_empty and not any(map(_says_something, message.parts)):
        raise BadMessage(
            f"a message of the {message.role} says nothing",
            problem="empty",
            hint="give it text, a call, a result or an attachment",
        )
    _check_places(message)
    for attachment in attachments(message.parts):
        _check_size(attachment, limit_bytes)
    check_text(message.to_data())


def attachments(parts: Iterable[Part]) -> Iterator[Attachment]:
    """Yield the attachments among parts, and in the results among them."""
    for part in parts:
        if isinstance(part, Attachment):
            yield part
        elif isinstance(part, ToolResult) and isinstance(part.content, tuple):
            yield from attachments(part.content)


def _says_something(part: Part) -> bool:
    if isinstance(part, Attachment):
        return part.data is not None or bool(part.url)
    return not isinstance(part, Text) or bool(part.text.strip())


def _check_places(message: Message) -> None:
    role = message.role
    wrong = ""
    if message.calls and role is not Role.ASSISTANT:
        wrong = f"a call in a message of the {role}: only an assistant calls tools"
    elif message.results and role not in (Role.TOOL, Role.USER):
        wrong = f"a result in a message of the {role}: it belongs in one of the tool"
    elif role is Role.TOOL and not all(map(_is_answer, message.parts)):
        wrong = "a message of the tool has parts that are no results"
    elif role is Role.TOOL and not message.parts:
        wrong = "a message of the tool has no result"
    if wrong:
        raise BadMessage(wrong, problem="misplaced", hint="use chat.assistant and chat.tool")


def _is_answer(part: Part) -> bool:
    """Tell whether a part is a result, or leave that was given to the server of a provider."""
    return isinstance(part, ToolResult) or (
        isinstance(part, Extra) and part.type == "responses:mcp_approval_response"
    )


def _check_size(part: Attachment, limit_bytes: int) -> None:
    if part.data is not None and len(part.data) > limit_bytes:
        raise BadMessage(
            f"attachment {part.name or part.media_type} has {len(part.data):,} bytes;"
            f" the limit is {limit_bytes:,}",
            problem="too_large",
            hint="pass attachment_limit_bytes=, or keep the file elsewhere and attach its url",
        )


def check_text(data: Any) -> None:
    """Refuse what no UTF-8 can say: half a character, which JSON lets through.

    Raises:
        BadMessage: there is one.
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
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


class AppendMessages:
    """Messages on their way into a thread."""

    def __init__(self, record: Record, *, now: int, limit_bytes: int, allow_empty: bool) -> None:
        self._record = record
        self._now = now
        self._limit_bytes = limit_bytes
        self._allow_empty = allow_empty
        self._calls: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._stays: dict[str, tuple[int, bool]] = {}
        self._turn = record.turn()
        self._turn_id = ""
        self._known_stays: set[int] | None = None

    def run(self, messages: Sequence[Message]) -> list[Message]:
        """Check and stage messages; return them as they are kept, attachments with their bytes.

        Raises:
            BadMessage: one of them cannot be kept; then none is.
        """
        if not messages:
            return []
        start = self._record.length()
        for at, message in enumerate(messages, start):
            check(message, limit_bytes=self._limit_bytes, allow_empty=self._allow_empty)
            self._tie(at, message)
        kept = self._kept(start, messages)
        light = list(map(Files(self._record).emptied, kept))
        if not self._record.is_there:
            self._record.put({"time": self._now}, ABOUT)
        self._record.extend([self._data(at, each) for at, each in enumerate(light, start)])
        self._note()
        return kept

    def _data(self, at: int, message: Message) -> dict[str, Any]:
        """Return a message as it stands in the log."""
        if message.role is Role.USER:
            self._turn, self._turn_id = at, message.id
        return lowered(message, self._back(at))

    def _back(self, at: int) -> tuple[int, str] | None:
        """Return how far before a message the user spoke last, and the id of that."""
        if self._turn is None:
            return None
        if not self._turn_id:
            (said,) = self._record.read(self._turn, self._turn + 1)
            self._turn_id = said.id
        return at - self._turn, self._turn_id

    def _tie(self, at: int, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolCall):
                self._add_call(at, part)
            elif isinstance(part, ToolResult):
                self._add_result(at, part)

    def _add_call(self, at: int, call: ToolCall) -> None:
        if not call.id:
            raise BadMessage(
                f"the call of {call.name} has no id", problem="no_id", hint="give it one"
            )
        before = self._find(call.id)
        if before is not None:
            raise BadMessage(
                f"message {before} has a call {call.id!r} already",
                problem="duplicate_call",
                hint="ids of calls are unique in a thread: a result names its call by it",
            )
        self._calls[call.id] = at

    def _add_result(self, at: int, result: ToolResult) -> None:
        called = self._caller(result.call_id)
        if called is None:
            raise BadMessage(
                f"a result for {result.call_id!r}, which no message called",
                problem="no_call",
                hint="append the assistant's message with the call first",
            )
        before = self._answers.get(result.call_id)
        if before is None:
            before = self._record.answer(result.call_id, called)
        if before is not None:
            raise BadMessage(
                f"call {result.call_id!r} was answered already, by message {before}",
                problem="answered",
                hint="a call has one result; make another call",
            )
        self._answers[result.call_id] = at

    def _find(self, id: str) -> int | None:
        """Return where a call was made, if one was."""
        return self._calls[id] if id in self._calls else self._record.call(id)

    def _caller(self, id: str) -> int | None:
        """Return where a call is now."""
        return self._calls[id] if id in self._calls else self._record.caller(id)

    def _kept(self, start: int, messages: Sequence[Message]) -> list[Message]:
        """Return messages with their id, time and tokens."""
        kept, before = [], self._record.last_id()
        for at, message in enumerate(messages, start):
            timed = message if message.time else replace(message, time=self._now)
            tokens = message.tokens or Tokens(ESTIMATED.message(timed), ESTIMATED.name)
            before = self._record.next_id(timed, before)
            made = replace(timed, id=before, tokens=tokens)
            if made.role is Role.SYSTEM or made.is_pinned or self._answers_pinned(made):
                self._stays[made.id] = at, made.is_pinned
            kept.append(made)
        return kept

    def _answers_pinned(self, message: Message) -> bool:
        """Tell whether a message answers a call that stays: then it has to stay as well."""
        if not message.results:
            return False
        if self._known_stays is None:
            self._known_stays = set(self._record.staying())
        known = self._known_stays | {at for at, _ in self._stays.values()}
        return any(self._caller(result.call_id) in known for result in message.results)

    def _note(self) -> None:
        """Stage what is told from the log."""
        for id, at in self._calls.items():
            self._record.put(at, CALLS, id)
        for id, stay in self._stays.items():
            self._record.put(list(stay), STAYS, id)
