"""Model: what answers an agent, behind one verb, and the record of its replies.

A reply is checked before it is recorded. One that no conversation can hold must not get on record:
the step would fail on it each time it runs again. Missing names are filled in instead: some
endpoints leave the ids of tool calls empty, or use the same ids in every answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

from otolith.agent.function_schema import function_name, function_parameters
from otolith.agent.timeouts import await_if_needed
from otolith.agent.tools import (
    Tool,
    canonical_bytes,
    to_plain,
    valid_text,
)
from otolith.conversation import Message, Part, Role, Text, ToolCall
from otolith.core import digest
from otolith.errors import BadReply, BadValue, Corrupt, Invalid
from otolith.shapes import fields, items
from otolith.types import short_repr

OnText: TypeAlias = Callable[[str], None]
"""Is called with each piece of text as it arrives; an exception from it ends the call. An answer
that broke off is asked for again: then it is called with a `TextRestart` first."""
Messages: TypeAlias = Sequence[Message]
Tools: TypeAlias = Sequence[Tool]


class TextRestart(str):
    """An empty piece of text: the answer broke off, and its text begins anew.

    Whoever shows text as it arrives can take back what came before.
    """

    __slots__ = ("reason",)

    def __new__(cls, reason: str = "") -> Self:
        """Return an empty text with the failure that was the reason."""
        made = super().__new__(cls)
        made.reason = reason
        return made

    reason: str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one call, as the provider counts them."""

    input_tokens: int = 0
    """All tokens of the request, also those that the provider had cached."""
    output_tokens: int = 0


class ReplyEnding(StrEnum):
    """How the answer of a model ended, whatever its provider calls it."""

    DONE = "done"
    CUT_OFF = "cut off"
    """It reached a limit: its last tool call or sentence may be half of one."""
    PAUSED = "paused"
    """The provider stopped in the middle of it, and continues when it gets the answer back."""
    REFUSED = "refused"
    """The model or a filter of the provider withheld it."""


_ENDINGS = {
    "length": ReplyEnding.CUT_OFF,  # OpenAI's chat completions
    "content_filter": ReplyEnding.REFUSED,  # also OpenAI's responses
    "refusal": ReplyEnding.REFUSED,  # also Anthropic
    "max_output_tokens": ReplyEnding.CUT_OFF,  # OpenAI's responses that are incomplete
    "max_tokens": ReplyEnding.CUT_OFF,  # Anthropic
    "model_context_window_exceeded": ReplyEnding.CUT_OFF,
    "pause_turn": ReplyEnding.PAUSED,
}
"""The endings that a provider's word stands for; all other words are those of whole answers."""


_NO_CALLS: frozenset[str] = frozenset()


def ending_of(stop_reason: str) -> ReplyEnding:
    """Return the ending that a provider's word stands for."""
    return _ENDINGS.get(stop_reason, ReplyEnding.DONE)


@short_repr("message", "stop_reason")
@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a model: one message, and what it cost."""

    message: Message
    usage: TokenUsage = field(default_factory=TokenUsage)
    stop_reason: str = ""
    """Why the answer ended, in the provider's word: "stop", "length", "tool_use" …"""

    @property
    def ending(self) -> ReplyEnding:
        """How the answer ended, the same for all providers."""
        return ending_of(self.stop_reason)

    @property
    def is_cut_off(self) -> bool:
        """Whether the answer reached a limit; its tool calls must not be carried out."""
        return self.ending is ReplyEnding.CUT_OFF

    @property
    def cut_off_calls(self) -> frozenset[str]:
        """The ids of its tool calls if it is cut off: half of a call must not be carried out."""
        return frozenset(each.id for each in self.message.calls) if self.is_cut_off else _NO_CALLS

    @property
    def is_paused(self) -> bool:
        """Whether the provider continues the answer when it is sent back unchanged."""
        return self.ending is ReplyEnding.PAUSED

    @property
    def is_refused(self) -> bool:
        """Whether the model or a filter withheld the answer; it may be empty."""
        return self.ending is ReplyEnding.REFUSED

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    def to_data(self) -> dict[str, Any]:
        """Return the reply as plain data."""
        usage = [self.usage.input_tokens, self.usage.output_tokens]
        return {"message": self.message.to_data(), "usage": usage, "stopped": self.stop_reason}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Reply:
        """Return the reply that `to_data` described.

        Raises:
            Corrupt: the data does not describe a reply.
        """
        found = fields(data, "a reply", {"message": dict, "usage": list, "stopped": str})
        usage = TokenUsage(*items(found["usage"], "the usage of a reply", int, int))
        try:
            return cls(Message.from_data(found["message"]), usage, found["stopped"])
        except BadValue as error:
            why = f"a stored reply is not valid: {error.message}"
            raise Corrupt(why, hint="run otolith fsck") from error


@runtime_checkable
class Model(Protocol):
    """Anything with a name that answers messages.

    Two attributes are optional: `message_format` is the provider format in which it counts and
    receives contexts ("openai" or "anthropic"), `retry_reason` why it is retrying at the moment.
    """

    @property
    def name(self) -> str:
        """The name of the model in events and records."""

    def complete(
        self, messages: Messages, *, tools: Tools = (), on_text: OnText | None = None
    ) -> Reply:
        """Return the answer; with `on_text`, send its text there as it arrives.

        Raises:
            ModelFailed, TimedOut, Busy: the model could not be reached; a retry is safe.
            BadReply: the response is not a valid answer.
            Denied, Invalid: the endpoint refuses the key, or the request.
        """


class FunctionModel:
    """A model made of a function: messages in, text, a message or a reply out.

    Any callable works, also a coroutine function. It gets the tools if it has a parameter `tools`,
    or a second parameter without a default.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = function_name(function)
        found = function_parameters(function) or []
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        places = [each for each in found if each.kind in positional]
        self._names_tools = any(
            each.name == "tools" and each.kind is not each.POSITIONAL_ONLY for each in found
        )
        self._has_second = len(places) > 1 and places[1].default is places[1].empty

    def __repr__(self) -> str:
        return f"<FunctionModel {self.name}>"

    def complete(
        self, messages: Messages, *, tools: Tools = (), on_text: OnText | None = None
    ) -> Reply:
        """Return the result of the function as a reply.

        Raises:
            BadReply: the function returned something else.
        """
        if self._names_tools:
            result = self._function(messages, tools=tools)
        else:
            result = self._function(messages, *([tools] if self._has_second else []))
        reply = as_reply(await_if_needed(result))
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


def as_reply(answer: Any) -> Reply:
    """Return a text, a message or a reply as a reply.

    Raises:
        BadReply: it is something else, or a message of another role than the assistant's.
    """
    if isinstance(answer, str):
        answer = Message(Role.ASSISTANT, (Text(answer),))
    if isinstance(answer, Message):
        answer = Reply(answer)
    if not isinstance(answer, Reply) or answer.message.role is not Role.ASSISTANT:
        raise BadReply(
            f"a model must return an answer, got {type(answer).__name__}",
            hint="return a str, an assistant's Message, or a Reply",
        )
    return answer


def as_model(model: Model | Callable[..., Any]) -> Model:
    """Return a model unchanged, and a function as a model.

    Raises:
        Invalid: it is neither.
    """
    if isinstance(model, Model):
        return model
    if not callable(model):
        raise Invalid(
            f"model must be a function or a Model, got {type(model).__name__}",
            hint="pass a function, or an object with a name and complete()",
        )
    return FunctionModel(model)


@short_repr("iteration", "model", "reply")
@dataclass(frozen=True, slots=True)
class RecordedReply:
    """One call of a model as it is stored: a hash of the request, and the reply."""

    iteration: int
    number: int
    """The position of the call in its step, from 0."""
    request: str
    model: str
    reply: Reply

    def to_data(self) -> list[Any]:
        """Return the record as plain data."""
        return [self.iteration, self.number, self.request, self.model, self.reply.to_data()]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> RecordedReply:
        """Return the record that `to_data` described.

        Raises:
            Corrupt: the data does not describe a record.
        """
        what = "a recorded reply"
        iteration, number, request, model, reply = items(data, what, int, int, str, str, dict)
        return cls(iteration, number, request, model, Reply.from_data(reply))


class RequestHasher:
    """Hashes requests, and remembers the hashes of the messages of the last one."""

    def __init__(self) -> None:
        self._hashes: dict[int, tuple[Message, bytes]] = {}

    def hash(self, messages: Messages, tools: Tools) -> str:
        """Return a hash of the roles, names and parts of messages, and of the tools.

        Ids and times of messages are not part of it: a repeated run sends the same request.
        """
        known = self._hashes
        # The messages are held, so that no other object can get the id of one of them.
        self._hashes = {id(m): known.get(id(m)) or (m, _message_hash(m)) for m in messages}
        content = b"".join([self._hashes[id(message)][1] for message in messages])
        offered = [[tool.name, tool.description, tool.parameters] for tool in tools]
        return digest(canonical_bytes([content.hex(), to_plain(offered)]))[:16].hex()


def request_hash(messages: Messages, tools: Tools) -> str:
    """Return the hash under which the reply to a request is recorded."""
    return RequestHasher().hash(messages, tools)


def _message_hash(message: Message) -> bytes:
    return digest(canonical_bytes([str(message.role), message.name, message.to_data()["parts"]]))


def validate_reply(reply: Reply) -> Reply:
    """Return a reply with valid Unicode, after checking that a conversation can hold it.

    A refusal may be empty. A paused answer may be without text: what a tool of the provider did.

    Raises:
        BadReply: it is empty, or has parts that an assistant's message cannot have.
    """
    message = reply.message
    try:
        may_lack_text = reply.is_refused or (reply.is_paused and message.parts)
        is_empty = not (may_lack_text or message.calls or message.text.strip())
        data = message.to_data()
        repaired = _repaired(data)
        valid = message if repaired == data else Message.from_data(repaired)
    except (BadValue, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadReply(f"the answer is not a valid message: {error!r}", hint="try again") from error
    why = ""
    if is_empty:
        why = f"the answer is empty ({reply.stop_reason or 'no reason given'})"
    elif message.results:
        why = "the answer has results of tools, which only tools return"
    elif not all(call.name for call in message.calls):
        why = "a tool call has no name"
    if why:
        raise BadReply(why, hint="try again")
    return reply if valid is message else replace(reply, message=valid)


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {_repaired(key): _repaired(item) for key, item in value.items()}
    return [_repaired(item) for item in value] if isinstance(value, list) else value


def with_unique_call_ids(reply: Reply, is_taken: Callable[[str], bool], prefix: str) -> Reply:
    """Return a reply whose tool calls have ids that no other call of the conversation has."""
    ids: set[str] = set()

    def renamed(part: Part) -> Part:
        if not isinstance(part, ToolCall):
            return part
        id = part.id or f"call-{prefix}-{len(ids)}"
        if id in ids or is_taken(id):
            id = f"{id}-{prefix}-{len(ids)}"
        while id in ids or is_taken(id):
            id += "-"
        ids.add(id)
        return part if id == part.id else replace(part, id=id)

    parts = tuple(map(renamed, reply.message.parts))
    if parts == reply.message.parts:
        return reply
    return replace(reply, message=replace(reply.message, parts=parts))
