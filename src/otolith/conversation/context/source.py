"""The inputs of a context: where its messages come from, and the rules it must obey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from otolith.conversation.context.units import with_partners
from otolith.conversation.message import Message, Role
from otolith.conversation.storage import ReadMessages
from otolith.conversation.summaries import Summariser, Summary
from otolith.conversation.token_counts import ESTIMATED, Calibration, TokenCounter


@dataclass(frozen=True, slots=True)
class ContextRules:
    """The arguments of `Conversation.context`."""

    budget: int
    for_: str = "plain"
    system: Message | None = None
    """The system prompt of this context; without parts, it has none."""
    tools_tokens: int = 0
    keep_last: int = 4
    """How many of the last units are left alone as long as possible."""
    keep_results: int = 5
    """How many of the last units with results keep them when old results are blanked."""
    slack: float = 0.25
    """The share of the window that may be given up for a cut that stays where it is."""
    summariser: Summariser | None = None
    counter: TokenCounter = ESTIMATED


@dataclass(frozen=True, slots=True)
class MessageSource:
    """A log as a context reads it: from its end, as far back as needed."""

    length: int
    read: ReadMessages
    permanent: tuple[int, ...] = ()
    """The indices of messages that are in every context."""
    permanent_then: Callable[[int], tuple[int, ...]] | None = None
    """Returns the permanent indices when the log had a length; by default they are today's."""
    last_user: int | None = None
    """The index of the user's last message."""
    prompt_length: int = 0
    """How many messages at the beginning are the system prompt."""
    load_files: Callable[[Message], Message] = lambda message: message
    """Returns a message with the bytes of its attachments."""
    calibration: Calibration = field(default_factory=Calibration)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """Tokens of stored messages by counter and id, so that a counter counts each message once."""
    has_summaries: bool = False
    find_summary: Callable[[int, int], Summary | None] = lambda first, last: None
    """Returns the first summary that stops at an index from first to last."""
    last_summary: Callable[[int], Summary | None] = lambda stop: None
    """Returns the longest summary that stops before an index."""
    put_summary: Callable[[Summary], None] = lambda summary: None
    """Stores a new summary."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> MessageSource:
        """Return a list of messages as a source."""
        roles = [message.role for message in messages]
        pinned = [
            at for at, each in enumerate(messages) if each.role is Role.SYSTEM or each.is_pinned
        ]
        prompt = takewhile(lambda role: role is Role.SYSTEM, roles)
        return cls(
            len(messages),
            lambda start, stop: list(messages[start:stop]),
            prompt_length=sum(1 for _ in prompt),
            permanent=tuple(sorted(with_partners(pinned, messages))),
            last_user=max((at for at, role in enumerate(roles) if role is Role.USER), default=None),
        )

    def until(self, stop: int, calibration: Calibration) -> MessageSource:
        """Return the source as it was when the log had a length."""
        last_user = self.last_user if self.last_user is not None and self.last_user < stop else None
        then = self.permanent if self.permanent_then is None else self.permanent_then(stop)
        permanent = tuple(at for at in then if at < stop)
        return replace(
            self, length=stop, permanent=permanent, last_user=last_user, calibration=calibration
        )
