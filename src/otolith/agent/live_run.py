"""LiveRun: a run in a state without history, remembered as long as the state lives.

Its messages, its working memory and the variables of its code are in `Live.rooms`, where a program
finds them as in any state; where the run is, and its effects, are in the record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, TypeAlias
from uuid import uuid4
from weakref import finalize

from otolith.agent.history import ANSWERED, BEGIN
from otolith.agent.journal import Journal, StepBase, UntoldCall
from otolith.agent.ledger import LedgerEntry
from otolith.agent.models.base import RecordedReply
from otolith.agent.run_store import MAIN, StoredRun, events_of_step, update_memory
from otolith.agent.state import AgentState
from otolith.agent.tools import canonical_bytes
from otolith.conversation import Conversation, Message
from otolith.core import digest
from otolith.live import Live


@dataclass
class _LiveRecord:
    """What a state remembers about a run: where it is, and its effects."""

    last: AgentState | None = None
    has_answers: bool = False
    id: str = field(default_factory=lambda: uuid4().hex)
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    cut_off_calls: set[str] = field(default_factory=set)
    untold: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)  # a call that timed out ends in its own thread


def _same_call(tool: str, arguments: Mapping[str, Any]) -> bytes:
    return canonical_bytes([tool, arguments])


_RECORDS: dict[int, dict[tuple[str, str], _LiveRecord]] = {}
"""Records by the id of their state: a Live state is a mapping, and cannot be a key."""


class LiveJournal:
    """The `Journal` of a run that ends with its process: only effects are remembered."""

    is_retry = False
    is_result_returned = True

    def __init__(self, state: Live, name: str, record: _LiveRecord) -> None:
        self._state = state
        self.name = name
        self._record = record
        self.owner_id = ""

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self._state.now()

    def base(self, iteration: int) -> StepBase:
        """Return the step in progress."""
        return StepBase(iteration, self._record.id)

    def unused_iteration(self, iteration: int) -> int:
        """Return this number, or the next if a step of this number has acted on the world."""
        used = (entry.iteration + 1 for entry in self._record.entries.values())
        return max(iteration, *used, 0)

    def key(self, base: StepBase, *parts: Any) -> str:
        """Return a key for something that a step does."""
        return digest(canonical_bytes([base.commit, base.iteration, *parts]))[:16].hex()

    def record_event(
        self,
        kind: str,
        message: str,
        *,
        base: StepBase | None = None,
        forget_replies: bool = False,
        **data: Any,
    ) -> None:
        """Append an event."""
        self._state.events.append(kind, agent=self.name, **data)

    def entry(self, key: str) -> LedgerEntry | None:
        """Return the ledger entry of a key."""
        return self._record.entries.get(key)

    def entries(self) -> list[LedgerEntry]:
        """Return the whole ledger."""
        return list(self._record.entries.values())

    def known_call(self, entry: LedgerEntry, base: StepBase) -> LedgerEntry | None:
        """Return what is known about a call; None if it was never begun."""
        return self.entry(entry.key)

    def begin_call(self, entry: LedgerEntry, expected: LedgerEntry | None, base: StepBase) -> None:
        """Remember that a call begins."""
        self._record.entries[entry.key] = entry

    def write_entry(
        self, key: str, entry: LedgerEntry | None, base: StepBase | None = None
    ) -> None:
        """Remember an entry of the ledger; None removes it."""
        if entry is None:
            self._record.entries.pop(key, None)
            return
        self._record.entries[key] = entry
        if (entry.effects, entry.status) == ("once", "unknown"):
            self._record.untold[_same_call(entry.tool, entry.arguments)] = (key, "")

    def end_call(self, entry: LedgerEntry, base: StepBase | None = None) -> LedgerEntry:
        """Remember the end of a call, unless another end is known; return the one that is."""
        with self._record.lock:
            stored = self.entry(entry.key)
            if stored is None or stored.status not in ("begun", "unknown"):
                return stored or entry
            if base is None or stored.status == "begun":
                self.write_entry(entry.key, entry)
                return entry
            return stored

    def untold_call(self, tool: str, arguments: Mapping[str, Any]) -> UntoldCall | None:
        """Return the call with these arguments whose caller does not know its outcome, if any."""
        key, told_to = self._record.untold.get(_same_call(tool, arguments), ("", ""))
        entry = self.entry(key)
        return None if entry is None else UntoldCall(entry, told_to)

    def mark_told(self, entry: LedgerEntry, told_to: str | None, base: StepBase) -> None:
        """Remember which call was told the outcome of an untold one; None if it may be repeated."""
        same = _same_call(entry.tool, entry.arguments)
        if told_to is None:
            self._record.untold.pop(same, None)
        else:
            self._record.untold[same] = (entry.key, told_to)

    def unfinished_calls(self, base: StepBase) -> list[LedgerEntry]:
        """Return []: no step was cut off before."""
        return []

    def forks(self, iteration: int) -> dict[str, str]:
        """Return {}: there is no history to fork."""
        return {}

    def replies(self, iteration: int) -> list[RecordedReply]:
        """Return []: a step that runs again asks the model again."""
        return []

    def record_reply(self, reply: RecordedReply, base: StepBase) -> None:
        """Remember only which calls were cut off: replies are not used again."""
        self._record.cut_off_calls |= reply.reply.cut_off_calls

    def cut_off_calls(self, iteration: int) -> set[str]:
        """Return the ids of tool calls in replies that were cut off."""
        return set(self._record.cut_off_calls)

    def mark_result_returned(self) -> None:
        """Do nothing: no other process will ask for the result."""


class LiveRun:
    """The run of one name in a state without history."""

    def __init__(self, state: Live | None = None, name: str = MAIN, session: str = MAIN) -> None:
        self.state = Live() if state is None else state
        self.name = name
        self.session = session
        self.code_name = ""
        records = _RECORDS.get(id(self.state))
        if records is None:
            records = _RECORDS[id(self.state)] = {}
            finalize(self.state, _RECORDS.pop, id(self.state), None)
        self._record = records.setdefault((session, name), _LiveRecord())
        self.journal = LiveJournal(self.state, name, self._record)
        self._chat = Conversation(
            self.state.rooms,
            thread=name if session == MAIN else f"{session}.{name}",
            clock=self.journal.now,
        )

    def __repr__(self) -> str:
        return f"<LiveRun {self.session}/{self.name}>"

    def load(self) -> AgentState | None:
        """Return where the run is; None if it has not begun."""
        return self._record.last

    def save(
        self,
        after: AgentState,
        before: AgentState | None,
        message: str,
        *,
        merges: Sequence[str] = (),
    ) -> AgentState:
        """Remember a step, as long as the state lives."""
        after = self._save_rooms(after, before, message)
        self._record.last = after
        is_answer = message == ANSWERED
        self._record.has_answers = is_answer or (
            self._record.has_answers and not message.startswith(BEGIN)
        )
        for kind, data in events_of_step(before, after):
            self.state.events.append(kind, agent=self.name, **data)
        self.state.commit(message)
        return after

    def _save_rooms(self, after: AgentState, before: AgentState | None, message: str) -> AgentState:
        """Put the new messages of a step into the conversation, and what it noted into the memory.

        A commit of them keeps nothing for long: it tells where a task begins.
        """
        known = () if before is None else before.messages
        if after.messages[: len(known)] != known:  # without history, a step may rewrite them
            self._chat.clear()
            known = ()
        fresh = self._chat.extend(after.messages[len(known) :], allow_empty=True)
        after = replace(after, messages=(*known, *fresh))
        if (self.session, self.name) == (MAIN, MAIN):
            calls = after.memory.tool_calls
            done = () if before is None else before.memory.tool_calls
            update_memory(
                self.state.rooms.memory,
                after,
                before,
                calls[len(done) :] if calls[: len(done)] == done else calls,
            )
        self.state.rooms.commit(message, meta={"run": self.name, "iteration": after.iteration})
        return after

    @property
    def has_answers(self) -> bool:
        """Whether a question of the current task was answered by `answer=`."""
        return self._record.has_answers

    def messages(self) -> tuple[Message, ...]:
        """Return the messages in the thread of this run, also those from before it began."""
        return tuple(self._chat.messages())

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        """Return the conversation that has the messages of the run."""
        return self._chat

    def has_call(self, id: str) -> bool:
        """Tell whether a tool call of the conversation has this id."""
        messages = () if self._record.last is None else self._record.last.messages
        return any(call.id == id for message in messages for call in message.calls)

    def unmerged_runs(self) -> Iterator[LiveRun]:
        """Yield this run: it cannot have sub-agents."""
        yield self

    def merge_subagents(self) -> None:
        """Do nothing: it cannot have sub-agents."""

    def abandon(self, why: str) -> None:
        """End the task unless it is over."""
        before = self.load()
        if before is not None and not before.is_over:
            self.save(before.to_error(why), before, f"abandon {self.name}")

    def abandon_subagents(self, why: str, *, but: Collection[str]) -> None:
        """Do nothing: it cannot have sub-agents."""


AgentRun: TypeAlias = StoredRun | LiveRun
AgentJournal: TypeAlias = Journal | LiveJournal
