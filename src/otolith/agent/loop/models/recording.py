"""Replies on record: what models said in a run, said again to the same questions."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from otolith.agent.conversation.message import Message
from otolith.agent.loop.models.model import Model, OnText, Recorded, Reply, request_hash
from otolith.agent.loop.tools import Tool
from otolith.errors import BadReply


class ReplayModel:
    """Answers as it was answered before; what was never asked goes to `then`."""

    name = "replay"

    def __init__(self, recorded: Iterable[Recorded], *, then: Model | None = None) -> None:
        self._known: dict[str, deque[Reply]] = defaultdict(deque)
        for each in recorded:
            self._known[each.request].append(each.reply)
        self.then = then
        self.replayed = 0
        """How many questions were answered from the record."""
        self.asked = 0
        """How many went to the other model."""

    @property
    def speaks(self) -> str:
        """The form in which the other model is sent a context."""
        return str(getattr(self.then, "speaks", "openai"))

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the answer that is on record.

        Raises:
            BadReply: there is none, and nobody else to ask.
        """
        known = self._known.get(request_hash(messages, tools))
        if known:
            self.replayed += 1
            reply = known.popleft()
            if on_text is not None and reply.text:
                on_text(reply.text)
            return reply
        if self.then is None:
            raise BadReply(
                "this was never asked: the run went another way than the one on record",
                hint="give a model to go on with",
            )
        self.asked += 1
        return self.then.complete(messages, tools=tools, on_text=on_text)
