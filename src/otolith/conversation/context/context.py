"""Context: what a model is sent of a conversation, and why the rest is missing or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from otolith.conversation.context.reductions import BLANKED, REPEATED
from otolith.conversation.context.units import Reason, Unit
from otolith.conversation.message import Role

_CHANGES = {
    "repeated": "a later call gave the same result",
    "blanked": "an old result, left out to make room",
    "clamped": "a part of it is huge: its head and tail are left",
}


class Indices:
    """Some of the indices of a log, as a few ranges."""

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


@dataclass(frozen=True, repr=False)
class Context:
    """Messages that a provider accepts and that fit into a budget, made from a log.

        context = chat.context(8_000, for_="anthropic")
        client.messages.create(model=…, **context.request)

    `messages` are dicts as the provider wants them. Where the system prompt is not a message, as
    with Anthropic, it is in `system`. The log is not changed.
    """

    messages: list[dict[str, Any]]
    tokens: int
    """Its size with the tools, by the counter that was used."""
    budget: int
    for_: str
    dropped: Indices
    """The messages of the log that are missing; a summary may stand for them."""
    why: tuple[Reason, ...]
    """What was done to messages that are missing or changed, and why."""
    system: Any = None
    start: int = 0
    """The index of the first message of the window; permanent messages may be older."""
    stop: int = 0
    """The length of the log."""
    estimate: int = 0
    """The tokens before they were scaled by the counts of providers."""
    summary: str = ""
    """The summary that stands for the messages before the window, if there is one."""
    _previous: Callable[[], Context | None] = field(default=lambda: None, repr=False, compare=False)

    def __repr__(self) -> str:
        size = f"{self.tokens:,} of {self.budget:,} tokens"
        sent, dropped = len(self.messages), len(self.dropped)
        return f"<Context for {self.for_}, {size}, {sent} messages, {dropped} dropped>"

    @property
    def prefix_kept(self) -> bool:
        """Whether it begins like the context of the last reply, so that a cached prompt is used."""
        before = self._previous()
        return before is None or self.extends(before)

    def extends(self, before: Context) -> bool:
        """Return whether it begins like another one, whose last message may be longer here."""
        count = max(len(before.messages) - 1, 0)
        is_same = before.system == self.system and before.messages[:count] == self.messages[:count]
        if not is_same or len(self.messages) < len(before.messages):
            return False
        last = before.messages[-1:]
        return not last or _begins_like(self.messages[count], last[0])

    @property
    def request(self) -> Mapping[str, Any]:
        """The messages, and a separate system prompt, as arguments of a request."""
        is_responses = self.for_ == "responses"
        messages, system = ("input", "instructions") if is_responses else ("messages", "system")
        return {messages: self.messages} | ({} if self.system is None else {system: self.system})


def _begins_like(message: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a message is another one, perhaps with more content at its end."""
    if message == before:
        return True
    contents = message.get("content"), before.get("content")
    one, other = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
        for content in contents
    )
    return (
        message.get("role") == before.get("role")
        and isinstance(one, list)
        and isinstance(other, list)
        and one[: len(other)] == other
    )


# Why


class MissingMessages(NamedTuple):
    """The messages of a log that are not sent."""

    gaps: list[range]
    """Ranges before the window without a permanent message."""
    late: list[int]
    """Results in the window whose calls are before it."""
    torn: list[int]
    """Messages of which only a part is sent, since the rest belongs to a unit that is not."""
    replaced: range
    """The system prompt of the log, if another one is sent."""

    @classmethod
    def of(
        cls, sent: Sequence[Unit], unsent: Sequence[Unit], start: int, replaced: int
    ) -> MissingMessages:
        """Return what is missing if some units are sent, and others before an index are not.

        Another prompt was sent in place of the first `replaced` messages.
        """
        present, absent = _indices(sent), _indices(unsent)
        ends = [replaced - 1, *sorted(at for at in present if replaced <= at < start), start]
        gaps = [gap for a, b in pairwise(ends) if (gap := range(a + 1, b))]
        late = sorted(at for at in absent - present if at >= start)
        return cls(gaps, late, sorted(absent & present), range(replaced))

    def indices(self) -> Indices:
        """Return the messages of which nothing is sent."""
        prompt = [self.replaced] if self.replaced else []
        return Indices([*prompt, *self.gaps, *(range(at, at + 1) for at in self.late)])

    def reasons(self, *, is_summarised: bool) -> Iterator[Reason]:
        """Yield why they are not sent."""
        if self.replaced:
            why = "another system prompt was given"
            yield Reason(0, self.replaced.stop, "replaced", why)
        done = "summarised" if is_summarised else "dropped"
        why = "a summary stands for it" if is_summarised else "older than what fits"
        yield from (Reason(gap.start, gap.stop, done, why) for gap in self.gaps)
        why = "a late result, whose call is older than what fits"
        yield from (Reason(at, at + 1, "dropped", why) for at in self.late)
        why = "a part of it went with what it belongs to"
        yield from (Reason(at, at + 1, "orphaned", why) for at in self.torn)


def _indices(units: Sequence[Unit]) -> set[int]:
    return {at for unit in units for at, _ in unit.messages()}


def reduction_reasons(before: Sequence[Unit], after: Sequence[Unit]) -> Iterator[Reason]:
    """Yield what reductions have done, message by message."""
    for one, other in zip(before, after, strict=True):
        if one is other:
            continue
        for (at, old), (_, new) in zip(one.messages(), other.messages(), strict=True):
            if old is not new:
                texts = {each.content for each in new.results if isinstance(each.content, str)}
                is_blanked = BLANKED in texts or BLANKED in new.text
                done = "blanked" if is_blanked else "clamped"
                done = "repeated" if REPEATED in texts else done
                yield Reason(at, at + 1, done, _CHANGES[done])


def permanent_reasons(units: Sequence[Unit], start: int) -> Iterator[Reason]:
    """Yield why permanent units are sent though they are older than the window."""
    for unit in units:
        if 0 <= unit.index < start:
            why = "the user's last message" if unit.is_last_user else "pinned"
            is_system = not unit.is_last_user and unit.head.role is Role.SYSTEM
            why = "a system message" if is_system else why
            yield Reason(unit.index, unit.index + 1, "kept", why)
