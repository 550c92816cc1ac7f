"""Model: what an agent thinks with, behind one verb, and what a call of it is on record as."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from otolith.agent.conversation.message import Message, Role, Text
from otolith.agent.loop.signature import plain
from otolith.agent.loop.tools import Tool
from otolith.core import digest
from otolith.errors import BadReply, Invalid

OnText: TypeAlias = Callable[[str], None]
"""Is given each piece of text as it arrives; what it raises ends the call."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a call took, as the provider counts them."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    stopped: str = ""
    """Why it ended, in the provider's word: "stop", "length", "tool_use" …"""

    @property
    def text(self) -> str:
        """What it said."""
        return self.message.text

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        usage = [self.usage.input_tokens, self.usage.output_tokens]
        return {"message": self.message.to_data(), "usage": usage, "stopped": self.stopped}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Reply:
        """Return what `to_data` gave."""
        return cls(Message.from_data(data["message"]), Usage(*data["usage"]), data["stopped"])


@runtime_checkable
class Model(Protocol):
    """Something that answers messages."""

    @property
    def name(self) -> str:
        """What it is called, in events and records."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the answer; with `on_text`, its text is handed over as it arrives.

        Raises:
            ModelFailed, TimedOut, Busy: it could not be reached; a retry is safe.
            BadReply: what came is no answer.
            Denied, Invalid: the endpoint refuses the key, or the request.
        """


class FunctionModel:
    """A model made of a function: messages in, text, a message or a reply out."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return what the function returns, as a reply.

        Raises:
            BadReply: it returned something else.
        """
        takes_tools = (
            self._function.__code__.co_argcount > 1 if _has_code(self._function) else False
        )
        found = self._function(messages, tools) if takes_tools else self._function(messages)
        reply = reply_of(found)
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


def _has_code(function: object) -> bool:
    return hasattr(function, "__code__")


def reply_of(found: Any) -> Reply:
    """Return a text, a message or a reply as a reply.

    Raises:
        BadReply: it is none of these, or a message of somebody else.
    """
    if isinstance(found, str):
        found = Message(Role.ASSISTANT, (Text(found),))
    if isinstance(found, Message):
        found = Reply(found)
    if not isinstance(found, Reply) or found.message.role is not Role.ASSISTANT:
        raise BadReply(
            f"a model answered with {type(found).__name__}, which is no answer",
            hint="return a str, an assistant's Message, or a Reply",
        )
    return found


def as_model(given: Model | Callable[..., Any]) -> Model:
    """Return a model, also of a function.

    Raises:
        Invalid: it is neither.
    """
    if isinstance(given, Model):
        return given
    if not callable(given):
        raise Invalid(
            f"a {type(given).__name__} is no model",
            hint="give a function, or an object with complete",
        )
    return FunctionModel(given)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call of a model, as it is kept: the hash of what was asked, and the answer."""

    iteration: int
    number: int
    """Which call of its step it was."""
    request: str
    model: str
    reply: Reply

    def to_data(self) -> list[Any]:
        """Return it as plain data."""
        return [self.iteration, self.number, self.request, self.model, self.reply.to_data()]

    @classmethod
    def from_data(cls, data: Sequence[Any]) -> Recorded:
        """Return what `to_data` gave."""
        iteration, number, request, model, reply = data
        return cls(iteration, number, request, model, Reply.from_data(reply))


def request_hash(messages: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Return a name for what a model was asked: who said what, and which tools there were.

    Ids and times of messages are not part of it: a run that is repeated asks the same.
    """
    asked = [[str(each.role), each.name, _content(each)] for each in messages]
    offered = [[tool.name, tool.description, tool.parameters] for tool in tools]
    return digest(msgspec.msgpack.encode([asked, plain(offered)], order="sorted"))[:16].hex()


def _content(message: Message) -> Any:
    return message.to_data()["parts"]
