"""Why a context is as it is: what was done to which messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from otolith.agent.conversation.context.tiers import BLANKED, REPEATED
from otolith.agent.conversation.context.units import Reason, Unit
from otolith.agent.conversation.message import Message

_WHY = {
    "repeated": "a later call gave the same result",
    "blanked": "an old result, left out to make room",
    "clamped": "a part of it is huge: its head and tail are left",
}


def gaps(stays: Sequence[Unit], start: int) -> list[range]:
    """Return the ranges before a window of which nothing stays."""
    kept = sorted({at for unit in stays for at, _ in unit.messages() if at < start})
    return [gap for a, b in pairwise([-1, *kept, start]) if (gap := range(a + 1, b))]


def changes(before: Sequence[Unit], after: Sequence[Unit]) -> Iterator[Reason]:
    """Yield what tiers have done, message by message."""
    for one, other in zip(before, after, strict=True):
        if one is other:
            continue
        for (at, old), (_, new) in zip(one.messages(), other.messages(), strict=True):
            if old is not new:
                done = _done(new)
                yield Reason(at, at + 1, done, _WHY[done])


def _done(message: Message) -> str:
    said = {result.content for result in message.results if isinstance(result.content, str)}
    if REPEATED in said:
        return "repeated"
    return "blanked" if BLANKED in said or BLANKED in message.text else "clamped"


def stayed(stays: Sequence[Unit], start: int) -> Iterator[Reason]:
    """Yield what stays though it is older than the window."""
    for unit in stays:
        if unit.at < start:
            why = "what the user said last" if unit.is_turn else f"a {unit.head.role} message"
            why = "pinned" if not unit.is_turn and unit.head.role != "system" else why
            yield Reason(unit.at, unit.at + 1, "kept", why)
