"""What of a conversation a model is given, beside its instructions and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from otolith.agent.conversation import Conversation, Message, read
from otolith.agent.loop.tools import Tool
from otolith.agent.tokens import count


@dataclass(frozen=True, slots=True)
class Window:
    """How many tokens there are, for which format, and how many of them tools take."""

    tokens: int
    form: str
    tools_tokens: int = 0

    @classmethod
    def beside(cls, tokens: int, form: str, instructions: str, tools: Sequence[Tool]) -> Window:
        """Return what is left beside instructions and the descriptions of tools."""
        told = [[tool.name, tool.description, tool.parameters] for tool in tools]
        taken = count(msgspec.json.encode(told).decode()) if told else 0
        return cls(tokens, form, taken + count(instructions))

    def of(self, chat: Conversation) -> list[Message]:
        """Return the messages of a conversation that fit, as a provider accepts them.

        Raises:
            OverBudget: what must stay does not fit.
        """
        made = chat.context(self.tokens, self.form, tools_tokens=self.tools_tokens)
        document: dict[str, Any] = {"messages": made.messages}
        if made.system is not None:
            document["system"] = made.system
        return read(document, self.form)
