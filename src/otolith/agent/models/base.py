"""Model: what an agent thinks with, behind one verb, and what a call of it is on record as.

Checking replies: what a model answers is made fit to be kept, or refused, before it is recorded.

A reply that no conversation can hold must not get on record: the step would be cut off by it each
time it runs again. What only needs a name is given one: some endpoints leave the ids of calls
empty, or use the same ones in every answer.

From messages to a request, and from an answer to a reply: what both protocols have in common.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

from otolith.agent.timeouts import await_if_needed
from otolith.agent.tools import Tool, name_of, packed, parameters_of, plain, whole
from otolith.conversation.context import all_messages_for
from otolith.conversation.message import Message, Part, Role, Text, ToolCall
from otolith.core import digest
from otolith.errors import BadReply, BadValue, Corrupt, Invalid
from otolith.shapes import fields, items

OnText: TypeAlias = Callable[[str], None]
"""Is given each piece of text as it arrives; what it raises ends the call."""


_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


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
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no reply.
        """
        given = fields(data, "a reply", {"message": dict, "usage": list, "stopped": str})
        usage = Usage(*items(given["usage"], "the usage of a reply", int, int))
        try:
            return cls(Message.from_data(given["message"]), usage, given["stopped"])
        except BadValue as error:
            raise Corrupt(f"a reply is none: {error.message}", hint="run otolith fsck") from error


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
    """A model made of a function: messages in, text, a message or a reply out.

    Anything that can be called will do, also a coroutine function. It is given the tools if it has
    a parameter `tools`, or a second one that it cannot do without.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.name = name_of(function)
        self._tools = _place_of_tools(function)

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
        places = {"": ((), {}), "second": ((tools,), {}), "named": ((), {"tools": tools})}
        more, named = places[self._tools]
        reply = reply_of(await_if_needed(self._function(messages, *more, **named)))
        if on_text is not None and reply.text:
            on_text(reply.text)
        return reply


def _place_of_tools(function: Callable[..., Any]) -> str:
    found = parameters_of(function) or []
    if any(each.name == "tools" and each.kind is not each.POSITIONAL_ONLY for each in found):
        return "named"
    places = [each for each in found if each.kind in (each.POSITIONAL_ONLY, _EITHER)]
    return "second" if len(places) > 1 and places[1].default is places[1].empty else ""


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
            hint="give a function, or an object with a name and complete()",
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
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no record.
        """
        what = "a call of a model on record"
        iteration, number, request, model, reply = items(data, what, int, int, str, str, dict)
        return cls(iteration, number, request, model, Reply.from_data(reply))


class Requests:
    """Names what a model is asked; each message is looked at once, as long as it is asked about."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, bytes]] = {}

    def name(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return a name for who said what, and which tools there were.

        Ids and times of messages are not part of it: a run that is repeated asks the same.
        """
        found = {id(each): self._known.get(id(each)) or (each, _digest(each)) for each in messages}
        self._known = found  # which keeps them alive, so that no other has the id of one of them
        asked = b"".join([found[id(each)][1] for each in messages])
        offered = [[tool.name, tool.description, tool.parameters] for tool in tools]
        return digest(packed([asked.hex(), plain(offered)]))[:16].hex()


def request_hash(messages: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Return the name of what a model was asked."""
    return Requests().name(messages, tools)


def _digest(message: Message) -> bytes:
    said = [str(message.role), message.name, message.to_data()["parts"]]
    return digest(packed(said))


def checked(reply: Reply) -> Reply:
    """Return a reply that says something, in whole characters.

    Raises:
        BadReply: it says nothing, or what no assistant can say.
    """
    message = reply.message
    try:
        says = bool(message.calls) or bool(message.text.strip())
        mended = _mended(message.to_data())
        fit = message if mended == message.to_data() else Message.from_data(mended)
    except (BadValue, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadReply(f"the answer is no message: {error!r}", hint="try again") from error
    if not says:
        raise BadReply(
            f"the answer is empty ({reply.stopped or 'no reason given'})", hint="try again"
        )
    if message.results:
        raise BadReply("the answer has results of tools, which only tools give", hint="try again")
    if not all(call.name for call in message.calls):
        raise BadReply("a tool call has no name", hint="try again")
    return reply if fit is message else replace(reply, message=fit)


def with_own_ids(reply: Reply, is_taken: Callable[[str], bool], prefix: str) -> Reply:
    """Return a reply whose calls have ids that no other call of the conversation has."""
    ids: set[str] = set()

    def own(part: Part) -> Part:
        if not isinstance(part, ToolCall):
            return part
        name = part.id or f"call-{prefix}-{len(ids)}"
        if name in ids or is_taken(name):
            name = f"{name}-{prefix}-{len(ids)}"
        while name in ids or is_taken(name):
            name += "-"
        ids.add(name)
        return part if name == part.id else replace(part, id=name)

    parts = tuple(map(own, reply.message.parts))
    if parts == reply.message.parts:
        return reply
    return replace(reply, message=replace(reply.message, parts=parts))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value


def request(messages: Sequence[Message], for_: str) -> dict[str, Any]:
    """Return messages as a provider accepts them, and the system prompt where that is apart.

    A log may have calls without results, ids that only another provider allows, or files of a kind
    that this one does not take: what is sent is legal all the same.
    """
    sent = all_messages_for(messages, for_)
    return {"messages": sent.messages} | ({} if sent.system is None else {"system": sent.system})


def reply_from(parse: Callable[[], list[Message]], usage: Usage, why: str) -> Reply:
    """Return a reply of the message that a provider sent.

    Raises:
        BadReply: it is no message of an assistant, or says nothing at all.
    """
    try:
        found = parse()
    except BadValue as error:
        raise BadReply(f"the answer is no message: {error.message}", hint="try again") from error
    if len(found) != 1 or found[0].role is not Role.ASSISTANT:
        raise BadReply("the answer is not one message of the assistant", hint="try again")
    # What was counted is no size of the message: hidden reasoning is in it, and is not sent again.
    return checked(Reply(found[0], usage, why))


def counted(usage: Mapping[str, Any], name: str) -> int:
    """Return a count of tokens; 0 if it is none."""
    found = usage.get(name)
    return found if type(found) is int and found >= 0 else 0
