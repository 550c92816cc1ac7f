"""All that was said as a provider accepts it, whatever it takes: a context without a budget."""

from __future__ import annotations

from collections.abc import Iterable

from otolith.agent.conversation.context.sending import Sent, send
from otolith.agent.conversation.context.units import Gathering
from otolith.agent.conversation.message import Message


def whole(messages: Iterable[Message], for_: str) -> Sent:
    """Return all messages as a provider wants them.

    Every call has a result and every result its call; ids and names are such as it takes.
    """
    units = Gathering.of(enumerate(messages)).units
    return send(([each for _, each in unit.messages()] for unit in units), for_)
