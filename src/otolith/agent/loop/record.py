"""A run as it is kept in a state: what changed since the last step is all that a step costs.

    .loop / runs / <name> / head       the state of the agent, without what is long
                            memory     goal, plan, what is done, notes
                            calls      tool calls that have ended, the oldest first
                            replies    what models answered: [step, number, request, model, reply]
                            joins      branches of sub-agents that are to be merged
                            base       the step that is under way, and the commit it began at
    .loop / ledger                     effects, of all runs: see `ledger.py`
    .conversation / <name>             what was said

What must be known even if the step is cut off (replies, the ledger, the base) is committed at once
through a handle of its own, and leaves alone what the step has staged so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from otolith.agent.conversation import Conversation
from otolith.agent.conversation.message import Message
from otolith.agent.loop.happening import happenings
from otolith.agent.loop.ledger import LEDGER, Entry, entry_at, key_of, ledger_in
from otolith.agent.loop.models.model import Recorded
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.window import Window
from otolith.agent.loop.working import Observation
from otolith.agent.memory import Memory, ToolRecord
from otolith.agent.session import Versioned
from otolith.core import LOOP, Path, Reading
from otolith.errors import Corrupt, Error, Invalid, MergeConflict

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Base:
    """The step that is under way: its number, and the commit that it began at."""

    iteration: int
    commit: str


class KeptRun:
    """A run in a state that has history."""

    is_kept = True

    def __init__(self, state: Versioned, name: str = MAIN) -> None:
        """Find the run of this name in a state, or a place for it."""
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a run", hint="use a word")
        self.state = state
        self.name = name
        self.session = state.session
        self.path: Path = (LOOP, "runs", name)
        self._chat = Conversation(state, thread=name, clock=state.repo.clock)
        self._journal = Versioned(
            state.repo, session=state.session, branch=state.name, scope=state.scope
        )
        self._calls = 0
        """How many tool calls the log had before this task."""

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self.state.repo.clock()

    # Steps

    def load(self) -> AgentState | None:
        """Return where the run is; None if it has not begun.

        Raises:
            SchemaMismatch: it was kept by another version, and no migration leads here.
        """
        self.state.refresh()
        head = _read(self.state, (*self.path, "head"))
        self._calls = head.get("calls_from", 0) if isinstance(head, dict) else 0
        return run_in(self.state, self.name)

    def keep(
        self,
        after: AgentState,
        before: AgentState | None,
        message: str,
        *,
        joins: Sequence[str] = (),
    ) -> AgentState:
        """Make a step part of history: the state after it, and what happened in it.

        Returns the state as it is kept: its messages have their ids, times and tokens.

        Raises:
            MergeConflict: another process runs the same session; nothing of the step was kept.
            BadMessage: something was said that cannot be part of a conversation; nor was this.
        """
        with self.state.turn():
            try:
                return self._kept(after, before, message, joins)
            except Error as error:
                self.state.discard()
                self.state.refresh()
                if isinstance(error, MergeConflict):
                    why = "was changed by another process: run it again"
                    error.add_note(f"session {self.session} {why}")
                raise

    def _kept(
        self, after: AgentState, before: AgentState | None, message: str, joins: Sequence[str]
    ) -> AgentState:
        after = self._said(after, before)
        self._remember(after, before)
        # Two that make the same step of one session must not write the same head: it is a conflict.
        apart = {"calls_from": self._calls, "step_id": uuid4().hex}
        self._put("head", after.head_data() | apart)
        if joins:
            self._put("joins", list(joins))
        for kind, data in happenings(before, after):
            self.state.events.append(kind, agent=self.name, **data)
        meta = {"run": self.name, "iteration": after.iteration, "phase": str(after.phase)}
        self.state.commit(message, meta=meta)
        return after

    @property
    def joins(self) -> list[str]:
        """The branches of sub-agents that are still to be merged."""
        return list(_read(self.state, (*self.path, "joins")) or ())

    def joined(self) -> None:
        """Commit that they were merged."""
        self.state.write_reserved((*self.path, "joins"), None)
        self.state.commit("sub-agents are back", kind="note")

    def note(self, kind: str, message: str, **data: Any) -> None:
        """Commit that something happened, and nothing else."""
        self._journal.refresh()
        self._journal.events.append(kind, agent=self.name, **data)
        self._settle(message, kind="note")

    def context(self, asked: Window, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what of the conversation fits into a number of tokens."""
        return asked.of(self._chat)

    def _said(self, after: AgentState, before: AgentState | None) -> AgentState:
        kept = () if before is None else before.messages
        if after.messages[: len(kept)] != kept:
            raise Invalid(
                "the messages of a state only grow, and these are others",
                hint="use state.say(…); to go back, fork the session at an earlier commit",
            )
        fresh = after.messages[len(kept) :]
        if not fresh:
            return after
        said = self._chat.extend(fresh, allow_empty=True)
        return replace(after, messages=(*kept, *said))

    def _remember(self, after: AgentState, before: AgentState | None) -> None:
        now, past = after.memory, None if before is None else before.memory
        if past is not None and now is past:
            return
        put = now.to_data()
        calls = put.pop("tool_calls")
        self._put("memory", put)
        known = () if past is None else past.tool_calls
        if now.tool_calls[: len(known)] != known:
            self._calls, known = self._length("calls"), ()
        fresh = now.tool_calls[len(known) :]
        if fresh:
            cells = [self.state.cells.put(data) for data in calls[len(known) :]]
            self.state.extend_reserved((*self.path, "calls"), cells)
        if self.name == MAIN:
            _share(Memory(self.state, clock=self.state.repo.clock), after, before, fresh)

    # What must be known even if the step is cut off

    def base(self, iteration: int) -> Base:
        """Return the step that is under way, as it was when it began, in whichever process."""
        kept = _read(self._journal, (*self.path, "base"))
        if isinstance(kept, list) and kept[0] == iteration:
            return Base(*kept)
        head = self.state.head
        return Base(iteration, "" if head is None else head.id)

    def key(self, base: Base, *parts: Any) -> str:
        """Return a name for a call in a step."""
        ref = self.state.ref
        return key_of(ref, self.name, base.commit, base.iteration, *parts, state=self.state)

    def entry(self, key: str) -> Entry | None:
        """Return what the ledger has under a key."""
        self._journal.refresh()
        return entry_at(self._journal, key)

    def entries(self) -> list[Entry]:
        """Return the whole ledger."""
        self._journal.refresh()
        return ledger_in(self._journal)

    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None:
        """Commit an entry of the ledger, or that there is none any more."""
        journal = self._journal
        journal.refresh()
        cell = None if entry is None else journal.cells.put(entry.to_data())
        journal.write_reserved((*LEDGER, key), cell)
        self._put_base(base)
        did = "forget" if entry is None else entry.status
        self._settle(f"{did} {entry.tool if entry else key}", kind="effect")

    def replies(self, iteration: int) -> list[Recorded]:
        """Return what models have answered in a step, in their order."""
        self._journal.refresh()
        found: list[Recorded] = []
        for each in self._backwards("replies"):
            recorded = Recorded.from_data(each)
            if recorded.iteration != iteration:
                break
            found.append(recorded)
        return found[::-1]

    def record(self, reply: Recorded, base: Base) -> None:
        """Commit what a model answered."""
        journal = self._journal
        journal.refresh()
        cell = journal.cells.put(reply.to_data())
        journal.extend_reserved((*self.path, "replies"), [cell])
        self._put_base(base)
        self._settle(f"reply of {reply.model}", kind="model")

    def _put_base(self, base: Base | None) -> None:
        if base is not None and _read(self._journal, (*self.path, "base")) != [
            base.iteration,
            base.commit,
        ]:
            cell = self._journal.cells.put([base.iteration, base.commit])
            self._journal.write_reserved((*self.path, "base"), cell)

    def _settle(self, message: str, *, kind: str) -> None:
        self._journal.commit(message, kind=kind, meta={"run": self.name})
        self.state.refresh()  # where nothing is staged; otherwise the step's commit joins the two

    # Small things

    def _put(self, part: str, value: Any) -> None:
        self.state.write_reserved((*self.path, part), self.state.cells.put(value))

    def _length(self, part: str) -> int:
        cell = self.state.cell_at((*self.path, part))
        return 0 if cell is None else self.state.cells.length(cell)

    def _backwards(self, part: str) -> Iterator[Any]:
        cells = self._journal.cells
        cell = self._journal.cell_at((*self.path, part))
        for at in reversed(range(0 if cell is None else cells.length(cell))):
            assert cell is not None
            yield cells.load(cells.element(cell, at))


def _share(
    memory: Memory,
    after: AgentState,
    before: AgentState | None,
    fresh: tuple[Observation, ...],
) -> None:
    """Put what the agent has in mind where `state.memory` shows it."""
    now, past = after.memory, None if before is None else before.memory
    if past is None or now.goal != past.goal:
        memory.goal = now.goal
    if now.steps and (past is None or now.steps != past.steps):
        memory.plan(now.steps)
    for step in now.completed:
        if step in now.steps and (past is None or step not in past.completed):
            memory.done(step)
    for key, value in now.notes.items():
        if past is None or past.notes.get(key, _MISSING) != value:
            memory.note(key, value)
    for call in fresh:
        data = call.to_data()
        memory.record(ToolRecord(**data | {"error": data["error"] or None}))


_MISSING = object()


def _read(state: Reading, path: Path) -> Any:
    with state.turn():
        cell = state.cell_at(path)
        return None if cell is None else state.cells.load(cell)


def runs_in(state: Reading) -> list[str]:
    """Return the names of the runs that are kept in a state."""
    cell = state.cell_at((LOOP, "runs"))
    keys = [] if cell is None else [key for key, _ in state.cells.entries(cell)]
    return [str(state.cells.encoding.unkey(key)) for key in keys]


def run_in(state: Reading, name: str = MAIN) -> AgentState | None:
    """Return where a run is in a state, or was in one of the past; None if it has not begun.

    Raises:
        SchemaMismatch: it was kept by another version, and no migration leads here.
    """
    path = (LOOP, "runs", name)
    head = _read(state, (*path, "head"))
    if head is None:
        return None
    if not isinstance(head, dict):
        raise Corrupt(f".loop/runs/{name} is no run", hint="run otolith fsck")
    memory = dict(_read(state, (*path, "memory")) or {})
    memory["tool_calls"] = _elements(state, (*path, "calls"), head.get("calls_from", 0))
    chat = Conversation(state, thread=name)
    messages = [message.to_data() for message in chat.messages()]
    return AgentState.from_data({**head, "memory": memory, "messages": messages})


def replies_in(state: Reading, name: str = MAIN) -> list[Recorded]:
    """Return what models have answered in a run, the oldest first."""
    return [Recorded.from_data(each) for each in _elements(state, (LOOP, "runs", name, "replies"))]


def _elements(state: Reading, path: Path, start: int = 0) -> list[Any]:
    with state.turn():
        cell, load = state.cell_at(path), state.cells.load
        return [] if cell is None else [load(each) for each in state.cells.elements(cell, start)]
