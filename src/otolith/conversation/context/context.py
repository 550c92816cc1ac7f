"""Context: what a model is sent of a conversation, and what became of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from otolith.agent.conversation.context.units import Reason


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
