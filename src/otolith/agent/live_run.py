"""A run in a state without history: remembered as long as the state lives, and kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4
from weakref import finalize

from otolith.agent.context_window import Window
from otolith.agent.ledger import Entry
from otolith.agent.models.base import Recorded, Usage
from otolith.agent.run_events import events_of_step
from otolith.agent.run_store import MAIN, Base
from otolith.agent.state import AgentState
from otolith.agent.tools import packed
from otolith.conversation import Conversation
from otolith.conversation.message import Message
from otolith.core import digest
from otolith.session import Versioned
from otolith.state.live import Live


@dataclass
class _Remembered:
    """What a state remembers of a run: where it is, and what it did to the world."""

    at: AgentState | None = None
    nonce: str = field(default_factory=lambda: uuid4().hex)
    entries: dict[str, Entry] = field(default_factory=dict)


_REMEMBERED: dict[int, dict[tuple[str, str], _Remembered]] = {}
"""Runs by the id of their state: a Live state is a mapping, and cannot be a key."""


class LiveRun:
    """A run that ends with its process."""

    is_kept = False
    is_again = False

    def __init__(self, state: Live | None = None, name: str = MAIN, session: str = MAIN) -> None:
        self.state = Live() if state is None else state
        self.name = name
        self.session = session
        self.sign = self.code = ""
        self._kept = _remembered(self.state).setdefault((session, name), _Remembered())

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self.state.now()

    def load(self) -> AgentState | None:
        """Return where the run is, if the state remembers one."""
        return self._kept.at

    def keep(
        self,
        after: AgentState,
        before: AgentState | None,
        message: str,
        *,
        joins: Sequence[str] = (),
    ) -> AgentState:
        """Remember a step, as long as the state lives."""
        self._kept.at = after
        for kind, data in events_of_step(before, after):
            self.state.events.append(kind, agent=self.name, **data)
        self.state.commit(message)
        return after

    def note(
        self,
        kind: str,
        message: str,
        *,
        base: Base | None = None,
        asks_again: bool = False,
        **data: Any,
    ) -> None:
        """Record that something happened."""
        self.state.events.append(kind, agent=self.name, **data)

    def said(self) -> tuple[Message, ...]:
        """Return what was said before a run began: nothing."""
        return ()

    def has_call(self, id: str) -> bool:
        """Tell whether a call of the conversation has this id."""
        found = self.load()
        said = () if found is None else found.messages
        return any(call.id == id for message in said for call in message.calls)

    def context(self, asked: Window, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what of the conversation fits into a number of tokens."""
        chat = Conversation(Versioned(), clock=self.now)
        chat.extend(messages, allow_empty=True)
        return asked.of(chat).messages

    def counted(self, usage: Usage) -> None:
        """Forget what a provider counted: each context is made of a conversation of its own."""

    def base(self, iteration: int) -> Base:
        """Return the step that is under way."""
        return Base(iteration, self._kept.nonce)

    def key(self, base: Base, *parts: Any) -> str:
        """Return a name for a call in a step."""
        return digest(packed([base.commit, base.iteration, *parts]))[:16].hex()

    def entry(self, key: str) -> Entry | None:
        """Return what the ledger has under a key."""
        return self._kept.entries.get(key)

    def entries(self) -> list[Entry]:
        """Return the ledger of this process."""
        return list(self._kept.entries.values())

    def begun(self, base: Base) -> list[Entry]:
        """Return nothing: no step here was cut off before."""
        return []

    def forks(self, iteration: int) -> dict[str, str]:
        """Return nothing: there is no history to fork."""
        return {}

    is_handed_over = True

    def hand_over(self) -> None:
        """Forget it: a run that ends with its process is not asked for by another one."""

    def begin(self, entry: Entry, was: Entry | None, base: Base) -> None:
        """Write down that a call begins."""
        self._kept.entries[entry.key] = entry

    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None:
        """Write down an entry of the ledger."""
        if entry is None:
            self._kept.entries.pop(key, None)
        else:
            self._kept.entries[key] = entry

    def replies(self, iteration: int) -> list[Recorded]:
        """Return nothing: a step that is done again asks again."""
        return []

    def record(self, reply: Recorded, base: Base) -> None:
        """Forget what a model answered: there is nothing to repeat here."""


def _remembered(state: Live) -> dict[tuple[str, str], _Remembered]:
    found = _REMEMBERED.get(id(state))
    if found is None:
        found = _REMEMBERED[id(state)] = {}
        finalize(state, _REMEMBERED.pop, id(state), None)
    return found
