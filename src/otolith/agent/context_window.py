"""What of a conversation a model is given, beside its instructions and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from otolith.agent.models.base import Usage
from otolith.agent.tools import Tool
from otolith.conversation import Context, Conversation, Message, read
from otolith.text.tokens import estimate_tokens


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
        taken = estimate_tokens(msgspec.json.encode(told).decode()) if told else 0
        return cls(tokens, form, taken + estimate_tokens(instructions))

    def of(self, chat: Conversation) -> Sent:
        """Return what of a conversation fits, as a provider accepts it.

        Raises:
            OverBudget: what must stay does not fit.
        """
        made = chat.context(self.tokens, self.form, tools_tokens=self.tools_tokens)
        return Sent(made)


@dataclass(frozen=True, slots=True)
class Sent:
    """What a model is sent of a conversation."""

    context: Context

    @property
    def messages(self) -> list[Message]:
        """The messages of it."""
        document: dict[str, Any] = {"messages": self.context.messages}
        if self.context.system is not None:
            document["system"] = self.context.system
        return read(document, self.context.for_)

    def counted(self, chat: Conversation, usage: Usage) -> None:
        """Stage what the provider counted, so that the next estimates are better."""
        if usage.input_tokens:
            chat.usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                context=self.context,
            )
