"""From messages to a request, and from an answer to a reply: what both protocols have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otolith.agent.conversation.context import whole
from otolith.agent.conversation.message import Message, Role
from otolith.agent.loop.models.checking import checked
from otolith.agent.loop.models.model import Reply, Usage
from otolith.errors import BadReply, BadValue


def request(messages: Sequence[Message], for_: str) -> dict[str, Any]:
    """Return messages as a provider accepts them, and the system prompt where that is apart.

    A log may have calls without results, ids that only another provider allows, or files of a kind
    that this one does not take: what is sent is legal all the same.
    """
    sent = whole(messages, for_)
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
