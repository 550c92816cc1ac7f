"""Context: what a model is sent of a conversation, and what became of the rest.

Why a context is as it is: what was done to which messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from otolith.conversation.context.reductions import BLANKED, REPEATED
from otolith.conversation.context.units import Reason, Unit
from otolith.conversation.message import Message


class Indices:
    """Some of the indices of a log, as few ranges."""

    def __init__(self, ranges: Iterable[range]) -> None:
        self.ranges = tuple(each for each in ranges if each)

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __iter__(self) -> Iterator[int]:
        for each in self.ranges:
            yield from each

    def __contains__(self, index: object) -> bool:
        return any(index in each for each in self.ranges)

    def __repr__(self) -> str:
        return f"<{', '.join(f'{each.start}..{each.stop - 1}' for each in self.ranges) or 'none'}>"


@dataclass(frozen=True)
class Context:
    """Messages that a provider accepts and that fit into a budget, made from a log.

    The log is as it was. `messages` are dicts as the provider wants them; where the system prompt
    is no message there, as with Anthropic, it is in `system`.
    """

    messages: list[dict[str, Any]]
    tokens: int
    """How many tokens it is, tools counted, as the counter has it."""
    budget: int
    for_: str
    dropped: Indices
    """The messages of the log of which nothing is left in it, but maybe in a summary."""
    why: tuple[Reason, ...]
    """What was done to messages that are not in it as they were, and why."""
    system: Any = None
    start: int = 0
    """The index of the first message of the window; what stays may be older."""
    stop: int = 0
    """How long the log was."""
    estimate: int = 0
    """The tokens before they were scaled to what providers counted."""
    summary: str = ""
    """The summary that stands for what came before the window, if there is one."""
    _previous: Callable[[], Context | None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def prefix_kept(self) -> bool:
        """Whether it begins as the context of the last reply did, so that a cached prompt holds."""
        before = self._previous()
        return before is None or self.extends(before)

    def extends(self, before: Context) -> bool:
        """Tell whether it begins as another one, whose last message may have gone on."""
        count = max(len(before.messages) - 1, 0)
        is_same = before.system == self.system and before.messages[:count] == self.messages[:count]
        if not is_same or len(self.messages) < len(before.messages):
            return False
        last = before.messages[-1:]
        return not last or _begins(self.messages[count], last[0])

    @property
    def request(self) -> Mapping[str, Any]:
        """The messages, and the system prompt if it is apart, as arguments of a request."""
        messages, system = _NAMES.get(self.for_, ("messages", "system"))
        apart = {} if self.system is None else {system: self.system}
        return {messages: self.messages} | apart


_NAMES = {"responses": ("input", "instructions")}


def _begins(message: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    if message == before:
        return True
    one, other = message.get("content"), before.get("content")
    blocks = [[{"type": "text", "text": x}] if isinstance(x, str) else x for x in (one, other)]
    return (
        message.get("role") == before.get("role")
        and isinstance(blocks[0], list)
        and isinstance(blocks[1], list)
        and blocks[0][: len(blocks[1])] == blocks[1]
    )


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
