"""What must be known of a run even if its step is cut off: it is committed at once.

The base of the step, the ledger, what models answered, the forks of sub-agents. They are written
through a handle of their own, which leaves alone what the step has staged so far, and one at a
time: a step may call tools from several threads. See `run_store.py` for where they are kept.

Looking at runs in a state, also in one of the past: which there are, and where each is.

See `run_store.py` for how they are kept.

What an agent has in mind is put where `state.memory` shows it, for people and other agents.

A run as it is kept in a state: what changed since the last step is all that a step costs.

    .loop / runs / <name> / head       the state of the agent, without what is long
                            memory     goal, plan, what is done, notes
                            calls      tool calls that have ended, the oldest first
                            replies    what models answered: [step, number, request, model, reply]
                            asked_from how many replies are not to be used again
                            forks      branches of sub-agents: [step, name, branch]
                            joins      those of them that are to be merged
                            base       the step that is under way, and where it began
                            given      the last step whose result was handed over: see `agent.py`
    .loop / ledger                     effects, of all runs: see `ledger.py`
    .conversation / <name>             what was said

What must be known even if the step is cut off (replies, the ledger, the base) is committed at once:
see `run_store.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any
from uuid import uuid4

from otolith.agent.context_window import Sent, Window
from otolith.agent.ledger import LEDGER, Entry, entry_at, key_of, ledger_in
from otolith.agent.models.base import Recorded, Usage
from otolith.agent.run_events import events_of_step
from otolith.agent.state import SCHEMA, AgentState, Observation, WorkingMemory
from otolith.conversation import Conversation
from otolith.conversation.message import Message
from otolith.conversation.storage import ConversationStore
from otolith.core import LOOP, Path, StateReader
from otolith.errors import Conflict, Corrupt, Invalid, MergeConflict
from otolith.memory import Memory, ToolRecord
from otolith.session import Versioned
from otolith.shapes import fits, mapping
from otolith.statecharts.agent_phases import Phase

MAIN = "main"


def value_at(state: StateReader, path: Path) -> Any:
    """Return what is kept at a path; None if there is nothing."""
    with state.lock:
        cell = state.cell_at(path)
        return None if cell is None else state.cells.load(cell)


def list_runs(state: StateReader) -> list[str]:
    """Return the names of the runs that are kept in a state."""
    cell = state.cell_at((LOOP, "runs"))
    keys = [] if cell is None else [key for key, _ in state.cells.entries(cell)]
    return [str(state.cells.encoding.unkey(key)) for key in keys]


def load_run(state: StateReader, name: str = MAIN) -> AgentState | None:
    """Return where a run is in a state, or was in one of the past; None if it has not begun.

    Raises:
        SchemaMismatch: it was kept by another version, and no migration leads here.
    """
    path = (LOOP, "runs", name)
    head = value_at(state, (*path, "head"))
    if head is None:
        return None
    if not isinstance(head, dict):
        raise Corrupt(f".loop/runs/{name} is no run", hint="run otolith fsck")
    memory = mapping(value_at(state, (*path, "memory")) or {}, f".loop/runs/{name}/memory", object)
    first = head.get("calls_from", 0)
    if not fits(first, int):
        raise Corrupt(f".loop/runs/{name} is no run", hint="run otolith fsck")
    memory["tool_calls"] = _elements(state, (*path, "calls"), first)
    chat = Conversation(state, thread=name)
    if head.get("schema") == SCHEMA:  # what was said needs no migration
        bare = AgentState.from_data({**head, "memory": memory, "messages": ()})
        return replace(bare, messages=tuple(chat.messages()))
    messages = [message.to_data() for message in chat.messages()]
    return AgentState.from_data({**head, "memory": memory, "messages": messages})


def run_code_name(state: StateReader, name: str = MAIN) -> str:
    """Return what a run was run by last: the name of a class, an agent or a task."""
    head = value_at(state, (LOOP, "runs", name, "head"))
    return str(head.get("code", "")) if isinstance(head, dict) else ""


def replies_in(state: StateReader, name: str = MAIN) -> list[Recorded]:
    """Return what models have answered in a run, the oldest first."""
    return [Recorded.from_data(each) for each in _elements(state, (LOOP, "runs", name, "replies"))]


def _elements(state: StateReader, path: Path, start: int = 0) -> list[Any]:
    with state.lock:
        cell, load = state.cell_at(path), state.cells.load
        return [] if cell is None else [load(each) for each in state.cells.elements(cell, start)]


_NO_BRANCH = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Base:
    """The step that is under way: its number, and the commit and the branch that it began at.

    On a fork that was made in the middle of a step, it is still that step: what it has done to the
    world is not done again.
    """

    iteration: int
    commit: str
    ref: str = ""

    def to_data(self) -> str:
        """Return what is kept of it: one text, for two that differ cannot be merged."""
        return f"{self.iteration} {self.commit} {self.ref}"

    @classmethod
    def from_data(cls, kept: object) -> Base | None:
        """Return what `to_data` gave; None if nothing was kept."""
        if not isinstance(kept, str):
            return None
        iteration, *rest = kept.split(" ", 2)
        if len(rest) != 2 or not (iteration.isascii() and iteration.isdigit()):
            raise Corrupt(f"{kept[:80]!r} is no step under way", hint="run otolith fsck")
        commit, ref = rest
        return cls(int(iteration[:20]), commit, ref)


class Journal:
    """The run of one name in a state, as far as it is written at once."""

    def __init__(self, state: Versioned, name: str = MAIN) -> None:
        """Find the run of this name in a state, or a place for it."""
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a run", hint="use a word")
        self.state = state
        self.name = name
        self.session = state.session
        self.path: Path = (LOOP, "runs", name)
        self.is_again = False
        """Whether the step that is under way was cut off before."""
        self._handle = Versioned(
            state.repo, session=state.session, branch=state.name, scope=state.scope
        )
        self._one_at_a_time = RLock()

    # The step

    def base(self, iteration: int) -> Base:
        """Return the step that is under way, as it was when it began, in whichever process."""
        with self._reading() as journal:
            kept = self._base(journal)
        self.is_again = kept is not None and kept.iteration == iteration
        if kept is not None and self.is_again:
            return kept
        head = self.state.head
        return Base(iteration, "" if head is None else head.id, self.state.ref)

    @property
    def began_at(self) -> str:
        """The commit at which the last step began that wrote anything here; "" if none did."""
        kept = self._base(self.state)
        return "" if kept is None else kept.commit

    def key(self, base: Base, *parts: Any) -> str:
        """Return a name for a call in a step."""
        return key_of(base.ref, self.name, base.commit, base.iteration, *parts, state=self.state)

    def note(
        self,
        kind: str,
        message: str,
        *,
        base: Base | None = None,
        asks_again: bool = False,
        **data: Any,
    ) -> None:
        """Commit that something happened; with `asks_again`, that no reply so far is used again."""
        with self._writing(message, kind="note", base=base) as journal:
            journal.events.append(kind, agent=self.name, **data)
            if asks_again:
                count = journal.cells.put(self._length("replies", journal))
                journal.write_reserved((*self.path, "asked_from"), count)

    # The ledger

    def entry(self, key: str) -> Entry | None:
        """Return what the ledger has under a key."""
        with self._reading() as journal:
            return entry_at(journal, key)

    def entries(self) -> list[Entry]:
        """Return the whole ledger."""
        with self._reading() as journal:
            return ledger_in(journal)

    def begun(self, base: Base) -> list[Entry]:
        """Return the calls of a step that were begun and have not ended."""
        return [
            entry
            for entry in self.entries()
            if (entry.status, entry.run, entry.iteration) == ("begun", self.name, base.iteration)
        ]

    def begin(self, entry: Entry, was: Entry | None, base: Base) -> None:
        """Commit that a call begins; `was` is what the ledger had when that was decided.

        Raises:
            Conflict: another process has begun it meanwhile.
        """
        with self._writing(f"begun {entry.tool}", kind="effect", base=base) as journal:
            if entry_at(journal, entry.key) != was:
                raise self._elsewhere()
            journal.write_reserved((*LEDGER, entry.key), journal.cells.put(entry.to_data()))

    def write(self, key: str, entry: Entry | None, base: Base | None = None) -> None:
        """Commit an entry of the ledger, or that there is none any more."""
        did = f"forget {key}" if entry is None else f"{entry.status} {entry.tool}"
        with self._writing(did, kind="effect", base=base) as journal:
            cell = None if entry is None else journal.cells.put(entry.to_data())
            journal.write_reserved((*LEDGER, key), cell)

    # Models

    def replies(self, iteration: int) -> list[Recorded]:
        """Return what models have answered in a step, in their order."""
        found: list[Recorded] = []
        with self._reading() as journal:
            used = value_at(journal, (*self.path, "asked_from")) or 0
            for at, each in self._backwards("replies"):
                recorded = Recorded.from_data(each)
                if at < used or recorded.iteration != iteration:
                    break
                found.append(recorded)
        return found[::-1]

    def record(self, reply: Recorded, base: Base) -> None:
        """Commit what a model answered."""
        with self._writing(f"reply of {reply.model}", kind="model", base=base) as journal:
            cell = journal.cells.put(reply.to_data())
            journal.extend_reserved((*self.path, "replies"), [cell])

    # Sub-agents

    def fork(self, name: str, base: Base) -> tuple[str, str]:
        """Return the branch on which a sub-agent works in a step, and what it is forked from.

        That there is one is committed. On a fork of this run that was made in the middle of the
        step, the sub-agent goes on from where it was on the other branch.
        """
        names = f"{_NO_BRANCH.sub('-', self.name)}.{_NO_BRANCH.sub('-', name)}"
        branch = f"{names}.{base.iteration}.{self.key(base, 'fork', name, self.state.ref)[:8]}"
        known = self.forks(base.iteration).get(name)
        if branch != known:
            with self._writing(f"delegate to {name}", kind="note", base=base) as journal:
                cell = journal.cells.put([base.iteration, name, branch])
                journal.extend_reserved((*self.path, "forks"), [cell])
        heads = self.state.repo.branches(self.session, scope=self.state.scope)
        return branch, known if known in heads else base.commit

    def forks(self, iteration: int) -> dict[str, str]:
        """Return the branches of the sub-agents of a step, by their names."""
        found: dict[str, str] = {}
        with self._reading():
            for _, (step, name, branch) in self._backwards("forks"):
                if step != iteration:
                    break
                found.setdefault(name, branch)
        return found

    # What was handed over

    @property
    def is_handed_over(self) -> bool:
        """Whether whoever asked for the last task was given what came of it."""
        with self._reading() as journal:
            given: object = value_at(journal, (*self.path, "given"))
            return given == self._last_step(journal)

    def hand_over(self) -> None:
        """Commit that the result of the last task is given to whoever asked for it."""
        with self._writing(f"{self.name} is handed over", kind="note") as journal:
            cell = journal.cells.put(self._last_step(journal))
            journal.write_reserved((*self.path, "given"), cell)

    def _last_step(self, state: Versioned) -> str:
        head = value_at(state, (*self.path, "head"))
        return str(head.get("step_id", "")) if isinstance(head, dict) else ""

    # Small things

    @contextmanager
    def _reading(self) -> Iterator[Versioned]:
        """Give what is committed by now."""
        with self._one_at_a_time:
            self._handle.refresh()
            yield self._handle

    @contextmanager
    def _writing(self, message: str, *, kind: str, base: Base | None = None) -> Iterator[Versioned]:
        """Give what is to be committed at once its place; if that fails, nothing of it stays."""
        with self._reading() as journal:
            try:
                yield journal
                if base is not None:
                    self._put_base(base, journal)
                journal.commit(message, kind=kind, meta={"run": self.name})
            except BaseException as error:  # Ctrl-C too: it must not be part of what comes next
                journal.discard()
                if isinstance(error, MergeConflict):
                    raise self._elsewhere() from error
                raise
            self.state.refresh()  # if nothing is staged; else the step's commit joins the two

    def _base(self, state: Versioned) -> Base | None:
        return Base.from_data(value_at(state, (*self.path, "base")))

    def _put_base(self, base: Base, journal: Versioned) -> None:
        kept = self._base(journal)
        is_other = kept is not None and kept.iteration == base.iteration and kept != base
        if is_other or iteration_at(journal, self.path) != base.iteration:
            raise self._elsewhere()
        if kept != base:
            journal.write_reserved((*self.path, "base"), journal.cells.put(base.to_data()))

    def _elsewhere(self) -> Conflict:
        return Conflict(
            f"another process runs session {self.session} at the same time, or has rolled it back",
            hint="let it end, and run it again",
        )

    def _length(self, part: str, state: Versioned) -> int:
        cell = state.cell_at((*self.path, part))
        return 0 if cell is None else state.cells.length(cell)

    def _backwards(self, part: str) -> Iterator[tuple[int, Any]]:
        cells, cell = self._handle.cells, self._handle.cell_at((*self.path, part))
        for at in reversed(range(0 if cell is None else cells.length(cell))):
            assert cell is not None
            yield at, cells.load(cells.element(cell, at))


def iteration_at(state: Versioned, path: Path) -> int:
    """Return how many steps of a run are behind it."""
    head = value_at(state, (*path, "head"))
    return int(head.get("iteration", 0)) if isinstance(head, dict) else 0


_BEFORE_A_TASK = frozenset({Phase.IDLE, Phase.DONE, Phase.ERROR})
_STATUSES = {Phase.DONE: "done", Phase.ERROR: "failed"}
_MISSING = object()


def share(
    memory: Memory,
    after: AgentState,
    before: AgentState | None,
    fresh: tuple[Observation, ...],
) -> None:
    """Stage what a step changed; `fresh` are the calls that have ended in it."""
    now, past = after.memory, WorkingMemory() if before is None else before.memory
    if before is None or (before.phase in _BEFORE_A_TASK and after.phase is not before.phase):
        _begin(memory, now.goal, is_next=before is not None and before.is_over)
        past = WorkingMemory()
    if now is not past:
        _change(memory, now, past)
    for call in fresh:
        data = call.to_data()
        memory.record(ToolRecord(**data | {"error": data["error"] or None}))
    if after.phase in _STATUSES and (before is None or before.phase is not after.phase):
        memory.finish(_STATUSES[after.phase])


def _begin(memory: Memory, goal: str, *, is_next: bool) -> None:
    """Begin a task; a plan that somebody made for it ahead of time is kept."""
    if is_next or memory.goal not in ("", goal):
        memory.start(goal)
    else:
        memory.goal = goal


def _change(memory: Memory, now: WorkingMemory, past: WorkingMemory) -> None:
    if past.goal and now.goal != past.goal:
        memory.goal = now.goal
    if now.steps != past.steps and (now.steps or past.steps):
        memory.plan(now.steps)
    there = {step.text for step in memory.steps}  # others may have planned something else since
    for step in now.completed:
        if step in there and step not in past.completed:
            memory.done(step)
    for key, value in now.notes.items():
        if past.notes.get(key, _MISSING) != value:
            memory.note(key, value)


class StoredRun(Journal):
    """A run in a state that has history."""

    is_kept = True

    def __init__(self, state: Versioned, name: str = MAIN) -> None:
        """Find the run of this name in a state, or a place for it."""
        super().__init__(state, name)
        self._chat = Conversation(state, thread=name)
        self._sent: Sent | None = None
        self._calls = 0
        """How many tool calls the log had before this task."""
        self._step_id = ""
        """Which step is the last one that this run knows of."""
        self.sign = ""
        """Who runs it; see `ledger.py`."""
        self.code = ""
        """What runs it: the name of a class, an agent or a task."""

    @property
    def iteration(self) -> int:
        """How many steps are behind it."""
        return iteration_at(self.state, self.path)

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
        head = self._head()
        self._calls, self._step_id = head.get("calls_from", 0), head.get("step_id", "")
        return load_run(self.state, self.name)

    def _head(self) -> dict[str, Any]:
        head = value_at(self.state, (*self.path, "head"))
        return head if isinstance(head, dict) else {}

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
            Conflict: another process runs the same session; nothing of the step was kept.
            MergeConflict: somebody has changed what this step changed; nor was this.
            BadMessage: something was said that cannot be part of a conversation; nor was this.
        """
        with self.state.lock:
            try:
                return self._kept(after, before, message, joins)
            except BaseException as error:  # Ctrl-C too: half a step must not stay staged
                self.state.discard()
                self.state.refresh()
                if isinstance(error, MergeConflict) and self._is_own(error):
                    raise self._elsewhere() from error
                raise

    def _is_own(self, conflict: MergeConflict) -> bool:
        """Tell whether it was this run that went on elsewhere, and not only the state."""
        own = f"{LOOP}/runs/{self.name}/"
        return any(path.startswith(own) for path in conflict.paths)

    def _kept(
        self, after: AgentState, before: AgentState | None, message: str, joins: Sequence[str]
    ) -> AgentState:
        if self._head().get("step_id", "") != self._step_id:
            raise self._elsewhere()  # or the session was rolled back in the middle of a step
        after = self._said(after, before)
        self._remember(after, before)
        # Two that make the same step of one session must not write the same head: it is a conflict.
        made = uuid4().hex
        apart = {"calls_from": self._calls, "step_id": made, "code": self.code}
        self._put("head", after.head_data() | apart)
        if joins:
            self._put("joins", list(joins))
        for kind, data in events_of_step(before, after):
            self.state.events.append(kind, agent=self.name, **data)
        meta = {"run": self.name, "iteration": after.iteration, "phase": str(after.phase)}
        self.state.commit(message, meta=meta)
        self._step_id = made
        return after

    @property
    def joins(self) -> list[str]:
        """The branches of sub-agents that are still to be merged."""
        return list(value_at(self.state, (*self.path, "joins")) or ())

    def joined(self) -> None:
        """Commit that they were merged."""
        self.state.write_reserved((*self.path, "joins"), None)
        self.state.commit("sub-agents are back", kind="note")

    def said(self) -> tuple[Message, ...]:
        """Return what was said in the thread of this run, also by others and before it began."""
        return tuple(self._chat.messages())

    def has_call(self, id: str) -> bool:
        """Tell whether a call of the conversation has this id."""
        return ConversationStore(self.state, self.name).call_index(id) is not None

    def context(self, asked: Window, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what of the conversation fits into a number of tokens."""
        self._sent = asked.of(self._chat)
        return self._sent.messages

    def counted(self, usage: Usage) -> None:
        """Stage what a provider counted for the context that was made last."""
        if self._sent is not None:
            self._sent.counted(self._chat, usage)

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
        fresh: tuple[Observation, ...] = ()
        if now is not past:
            self._put("memory", now.mind_data())
            known = () if past is None else past.tool_calls
            if now.tool_calls[: len(known)] != known:
                self._calls, known = self._length("calls", self.state), ()
            fresh = now.tool_calls[len(known) :]
        if fresh:
            cells = [self.state.cells.put(call.to_data()) for call in fresh]
            self.state.extend_reserved((*self.path, "calls"), cells)
        if self.name == MAIN:
            share(self.state.memory, after, before, fresh)

    # Small things

    def _put(self, part: str, value: Any) -> None:
        self.state.write_reserved((*self.path, part), self.state.cells.put(value))
