"""A run as it is kept in a state: what changed since the last step is all that a step costs.

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
see `journal.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from otolith.agent.conversation import Conversation
from otolith.agent.conversation.message import Message
from otolith.agent.conversation.record import Record
from otolith.agent.loop.happening import happenings
from otolith.agent.loop.journal import Journal, iteration_at
from otolith.agent.loop.looking import MAIN, run_in, value_at
from otolith.agent.loop.models.model import Usage
from otolith.agent.loop.sharing import share
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.window import Sent, Window
from otolith.agent.loop.working import Observation
from otolith.agent.session import Versioned
from otolith.core import LOOP
from otolith.errors import Invalid, MergeConflict


class KeptRun(Journal):
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
        """Who runs it; see `living.py`."""
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

    def said(self) -> tuple[Message, ...]:
        """Return what was said in the thread of this run, also by others and before it began."""
        return tuple(self._chat.messages())

    def has_call(self, id: str) -> bool:
        """Tell whether a call of the conversation has this id."""
        return Record(self.state, self.name).call(id) is not None

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
