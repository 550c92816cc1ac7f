"""A run as it is kept in a state: what changed since the last step is all that a step costs.

    .loop / runs / <name> / head       the state of the agent, without what is long
                            memory     goal, plan, what is done, notes
                            calls      tool calls that have ended, the oldest first
                            replies    what models answered: [step, number, request, model, reply]
                            asked_from how many replies are not to be used again
                            forks      branches of sub-agents: [step, name, branch]
                            joins      those of them that are to be merged
                            base       the step that is under way, and where it began
    .loop / ledger                     effects, of all runs: see `ledger.py`
    .conversation / <name>             what was said

What must be known even if the step is cut off (replies, the ledger, the base) is committed at once
through a handle of its own, and leaves alone what the step has staged so far.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any
from uuid import uuid4

from otolith.agent.conversation import Conversation
from otolith.agent.conversation.message import Message
from otolith.agent.conversation.record import Record
from otolith.agent.loop.happening import happenings
from otolith.agent.loop.ledger import LEDGER, Entry, entry_at, key_of, ledger_in
from otolith.agent.loop.looking import MAIN, run_in, value_at
from otolith.agent.loop.models.model import Recorded
from otolith.agent.loop.sharing import share
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.window import Window
from otolith.agent.loop.working import Observation
from otolith.agent.session import Versioned
from otolith.core import LOOP, Path
from otolith.errors import Conflict, Invalid, MergeConflict

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
        self._chat = Conversation(state, thread=name)
        self._journal = Versioned(
            state.repo, session=state.session, branch=state.name, scope=state.scope
        )
        self._calls = 0
        """How many tool calls the log had before this task."""
        self._step_id = ""
        """Which step is the last one that this run knows of."""
        self.is_again = False
        """Whether the step that is under way was cut off before."""
        self.sign = ""
        """Who runs it; see `living.py`."""
        self.code = ""
        """What runs it: the name of a class, an agent or a task."""

    @property
    def iteration(self) -> int:
        """How many steps are behind it."""
        return _iteration(self.state, self.path)

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
        return run_in(self.state, self.name)

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
        with self.state.turn():
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
        for kind, data in happenings(before, after):
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

    def said(self) -> tuple[Message, ...]:
        """Return what was said in the thread of this run, also by others and before it began."""
        return tuple(self._chat.messages())

    def has_call(self, id: str) -> bool:
        """Tell whether a call of the conversation has this id."""
        return Record(self.state, self.name).call(id) is not None

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

    # What must be known even if the step is cut off

    def base(self, iteration: int) -> Base:
        """Return the step that is under way, as it was when it began, in whichever process."""
        self._journal.refresh()
        kept = value_at(self._journal, (*self.path, "base"))
        self.is_again = isinstance(kept, list) and kept[0] == iteration
        if self.is_again:
            return Base(*kept)
        head = self.state.head
        return Base(iteration, "" if head is None else head.id, self.state.ref)

    def key(self, base: Base, *parts: Any) -> str:
        """Return a name for a call in a step."""
        return key_of(base.ref, self.name, base.commit, base.iteration, *parts, state=self.state)

    def entry(self, key: str) -> Entry | None:
        """Return what the ledger has under a key."""
        self._journal.refresh()
        return entry_at(self._journal, key)

    def entries(self) -> list[Entry]:
        """Return the whole ledger."""
        self._journal.refresh()
        return ledger_in(self._journal)

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

    def replies(self, iteration: int) -> list[Recorded]:
        """Return what models have answered in a step, in their order."""
        self._journal.refresh()
        found: list[Recorded] = []
        used = value_at(self._journal, (*self.path, "asked_from")) or 0
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
        self._journal.refresh()
        found: dict[str, str] = {}
        for _, (step, name, branch) in self._backwards("forks"):
            if step != iteration:
                break
            found.setdefault(name, branch)
        return found

    @contextmanager
    def _writing(self, message: str, *, kind: str, base: Base | None = None) -> Iterator[Versioned]:
        """Give what is to be committed at once its place; if that fails, nothing of it stays."""
        journal = self._journal
        journal.refresh()
        try:
            yield journal
            if base is not None:
                self._put_base(base)
            journal.commit(message, kind=kind, meta={"run": self.name})
        except BaseException as error:  # Ctrl-C too: it must not be part of what comes next
            journal.discard()
            if isinstance(error, MergeConflict):
                raise self._elsewhere() from error
            raise
        self.state.refresh()  # where nothing is staged; otherwise the step's commit joins the two

    def _elsewhere(self) -> Conflict:
        return Conflict(
            f"another process runs session {self.session} at the same time, or has rolled it back",
            hint="let it end, and run it again",
        )

    def _put_base(self, base: Base) -> None:
        kept, fresh = value_at(self._journal, (*self.path, "base")), list(astuple(base))
        is_other = isinstance(kept, list) and kept[0] == base.iteration and kept != fresh
        if is_other or _iteration(self._journal, self.path) != base.iteration:
            raise self._elsewhere()
        if kept == fresh:
            return
        cell = self._journal.cells.put(fresh)
        self._journal.write_reserved((*self.path, "base"), cell)

    # Small things

    def _put(self, part: str, value: Any) -> None:
        self.state.write_reserved((*self.path, part), self.state.cells.put(value))

    def _length(self, part: str, state: Versioned) -> int:
        cell = state.cell_at((*self.path, part))
        return 0 if cell is None else state.cells.length(cell)

    def _backwards(self, part: str) -> Iterator[tuple[int, Any]]:
        cells = self._journal.cells
        cell = self._journal.cell_at((*self.path, part))
        for at in reversed(range(0 if cell is None else cells.length(cell))):
            assert cell is not None
            yield at, cells.load(cells.element(cell, at))


def _iteration(state: Versioned, path: Path) -> int:
    head = value_at(state, (*path, "head"))
    return int(head.get("iteration", 0)) if isinstance(head, dict) else 0
