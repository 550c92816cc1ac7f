"""Checking replies: what a model answers is made fit to be kept, or refused, before it is recorded.

A reply that no conversation can hold must not get on record: the step would be cut off by it each
time it runs again. What only needs a name is given one: some endpoints leave the ids of calls
empty, or use the same ones in every answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from otolith.agent.conversation.message import Message, Part, ToolCall
from otolith.agent.loop.models.model import Reply
from otolith.agent.loop.signature import whole
from otolith.errors import BadReply, BadValue


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
