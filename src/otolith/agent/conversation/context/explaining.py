"""Why a context is as it is: what was done to which messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from otolith.agent.conversation.context.tiers import BLANKED, REPEATED
from otolith.agent.conversation.context.units import Reason, Unit
from otolith.agent.conversation.message import Message

_WHY = {
    "repeated": "a later call gave the same result",
    "blanked": "an old result, left out to make room",
    "clamped": "a part of it is huge: its head and tail are left",
}


class Missing(NamedTuple):
    """What of a log is not sent."""

    gaps: list[range]
    """Ranges before the window of which nothing stays."""
    late: list[int]
    """Results in the window whose calls are before it."""
    torn: list[int]
    """Messages of which only a part is sent, since the rest belongs to something that is not."""

    @classmethod
    def of(cls, sent: Sequence[Unit], others: Sequence[Unit], start: int) -> Missing:
        """Return what is missing if some units are sent, and all others before an index are not."""
        kept, lost = _places(sent), _places(others)
        ends = [-1, *sorted(at for at in kept if at < start), start]
        gaps = [gap for a, b in pairwise(ends) if (gap := range(a + 1, b))]
        late = sorted(at for at in lost - kept if at >= start)
        return cls(gaps, late, sorted(lost & kept))

    def ranges(self) -> list[range]:
        """Return all of which nothing is sent."""
        return [*self.gaps, *(range(at, at + 1) for at in self.late)]

    def reasons(self, *, is_summarised: bool) -> Iterator[Reason]:
        """Yield why it is not sent."""
        done = "summarised" if is_summarised else "dropped"
        why = "a summary stands for it" if is_summarised else "older than what fits"
        yield from (Reason(gap.start, gap.stop, done, why) for gap in self.gaps)
        why = "a late result, whose call is older than what fits"
        yield from (Reason(at, at + 1, "dropped", why) for at in self.late)
        why = "a part of it went with what it belongs to"
        yield from (Reason(at, at + 1, "orphaned", why) for at in self.torn)


def _places(units: Sequence[Unit]) -> set[int]:
    return {at for unit in units for at, _ in unit.messages()}


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
