"""StoredRun: a run of an agent, stored in a state that has history.

A step costs what it changed: new messages go to the conversation, new tool calls to a list, and
the small rest (`AgentState.head_data`) is one value. `journal.py` has the layout, and the part of a
run that is committed at once. The goal, plan, notes and calls of the run `main` are also put into
`state.memory`, for people and for other agents, and each step leaves events in `state.events`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

from otolith.agent.history import RUNS, answers_since, is_in_effect
from otolith.agent.journal import (
    HEAD,
    Journal,
    concurrent_run,
    elements_at,
    head_value,
    length_at,
    value_at,
)
from otolith.agent.ledger import LedgerEntry
from otolith.agent.models.base import RecordedReply
from otolith.agent.state import SCHEMA, AgentState, Observation, WorkingMemory
from otolith.conversation import Conversation, Message, Role
from otolith.conversation.storage import ConversationStore
from otolith.core import LOOP, Commit, Merge, StateReader
from otolith.errors import Corrupt, Invalid, MergeConflict
from otolith.frozen import thaw
from otolith.memory import Memory, ToolRecord
from otolith.session import Versioned
from otolith.shapes import check_argument, fits, mapping
from otolith.statecharts import Phase

MAIN = "main"
_MEMORY, _CALLS, _REPLIES, _MERGES = "memory", "calls", "replies", "joins"
_FIRST_CALL, _STEP_ID, _CODE_NAME = "calls_from", "step_id", "code"
"""Fields of the stored head beside those of `AgentState`."""

_EXCERPT_LETTERS = 100  # so that an event is small enough to be stored in its node
_IDLE = frozenset({Phase.IDLE, Phase.DONE, Phase.ERROR})
_TASK_STATUS = {Phase.DONE: "done", Phase.ERROR: "failed"}
_ABSENT = object()


# Reading runs from any state, also from one of the past


def list_runs(state: StateReader) -> list[str]:
    """Return the names of the runs in a state."""
    check_argument(state, "state", StateReader, "a state")
    cell = state.cell_at(RUNS)
    keys = [] if cell is None else [key for key, _ in state.cells.entries(cell)]
    return [str(state.cells.encoding.unkey(key)) for key in keys]


def load_run(state: StateReader, name: str = MAIN) -> AgentState | None:
    """Return where a run is in a state, also in one of the past; None if it has not begun.

    Raises:
        SchemaMismatch: another version stored it, and no migration leads here.
        Corrupt: the stored data does not describe a run.
    """
    check_argument(state, "state", StateReader, "a state")
    path = (*RUNS, name)
    head = value_at(state, (*path, HEAD))
    if head is None:
        return None
    first: Any = head.get(_FIRST_CALL, 0) if isinstance(head, dict) else None
    if not fits(first, int):
        raise Corrupt(f".loop/runs/{name} is not a valid run", hint="run otolith fsck")
    stored = value_at(state, (*path, _MEMORY)) or {}
    memory = mapping(stored, f".loop/runs/{name}/memory", object)
    memory["tool_calls"] = elements_at(state, (*path, _CALLS), first)
    messages = Conversation(state, thread=name).messages()
    if head.get("schema") == SCHEMA:  # messages need no migration
        bare = AgentState.from_data({**head, "memory": memory, "messages": ()})
        return replace(bare, messages=tuple(messages))
    data = [message.to_data() for message in messages]
    return AgentState.from_data({**head, "memory": memory, "messages": data})


def run_code_name(state: StateReader, name: str = MAIN) -> str:
    """Return the name of the class, agent or task that last ran a run."""
    return str(head_value(state, (*RUNS, name), _CODE_NAME, ""))


def replies_in(state: StateReader, name: str = MAIN) -> list[RecordedReply]:
    """Return the recorded replies of models in a run, the oldest first."""
    return [RecordedReply.from_data(each) for each in elements_at(state, (*RUNS, name, _REPLIES))]


class StoredRun:
    """The run of one name in a state that has history."""

    def __init__(self, state: Versioned, name: str = MAIN) -> None:
        """Find the run of this name in a state, or a place for it."""
        if not name or "/" in name:
            raise Invalid(f"{name!r} cannot name a run", hint="use a word")
        self.state = state
        self.name = name
        self.session = state.session
        self.journal = Journal(state, name)
        self.code_name = ""
        """The name of the class, agent or task that runs it."""
        self._path = (*RUNS, name)
        self._chat = Conversation(state, thread=name)
        self._first_call = 0
        """The number of stored tool calls from before this task."""
        self._step_id = ""
        """The last step that this object knows; another id in the state is another process."""

    def __repr__(self) -> str:
        return f"<StoredRun {self.session}/{self.name}>"

    def load(self) -> AgentState | None:
        """Return where the run is; None if it has not begun.

        Raises:
            SchemaMismatch: another version stored it, and no migration leads here.
        """
        self.state.refresh()
        self._first_call = head_value(self.state, self._path, _FIRST_CALL, 0)
        self._step_id = head_value(self.state, self._path, _STEP_ID, "")
        return load_run(self.state, self.name)

    def messages(self) -> tuple[Message, ...]:
        """Return the messages in the thread of this run, also those from before it began."""
        return tuple(self._chat.messages())

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        """Return the conversation that has the messages of the run."""
        return self._chat

    def has_call(self, id: str) -> bool:
        """Tell whether a tool call of the conversation has this id."""
        return ConversationStore(self.state, self.name).call_index(id) is not None

    @property
    def has_answers(self) -> bool:
        """Whether a question of the current task was answered by `answer=`."""
        return answers_since(self.state, self.name) > 0

    # Steps

    def save(
        self,
        after: AgentState,
        before: AgentState | None,
        message: str,
        *,
        merges: Sequence[str] = (),
    ) -> AgentState:
        """Commit a step: the state after it, its events, and the branches to merge after it.

        Returns the state as stored: its messages have their ids, times and tokens.

        Raises:
            Conflict: another process runs the same session; nothing of the step was stored.
            MergeConflict: the state was changed concurrently where the step changed it; nor was it.
            BadMessage: a message cannot be part of a conversation; nor was it.
        """
        with self.state.lock:
            try:
                return self._save(after, before, message, merges)
            except BaseException as error:  # also Ctrl-C: half a step must not stay staged
                self.state.discard()
                self.state.refresh()
                own = f"{LOOP}/runs/{self.name}/"
                paths = error.paths if isinstance(error, MergeConflict) else ()
                if any(path.startswith(own) for path in paths):
                    raise concurrent_run(self.session) from error
                raise

    def _save(
        self, after: AgentState, before: AgentState | None, message: str, merges: Sequence[str]
    ) -> AgentState:
        if head_value(self.state, self._path, _STEP_ID, "") != self._step_id:
            raise concurrent_run(self.session)  # or a rollback in the middle of the step
        after = self._save_messages(after, before)
        self._save_memory(after, before)
        # Two processes that make the same step must not write equal heads: it is a conflict.
        step_id = uuid4().hex
        more = {_FIRST_CALL: self._first_call, _STEP_ID: step_id, _CODE_NAME: self.code_name}
        self._put(HEAD, after.head_data() | more)
        if merges:
            self._put(_MERGES, list(merges))
        for kind, data in events_of_step(before, after):
            self.state.events.append(kind, agent=self.name, **data)
        meta = {"run": self.name, "iteration": after.iteration, "phase": str(after.phase)}
        self.state.commit(message, meta=meta)
        self._step_id = step_id
        return after

    def _save_messages(self, after: AgentState, before: AgentState | None) -> AgentState:
        known = () if before is None else before.messages
        if after.messages[: len(known)] != known:
            raise Invalid(
                "the messages of a state can only grow, and a step has changed earlier ones",
                hint="use state.say(…); to go back, fork the session at an earlier commit",
            )
        fresh = after.messages[len(known) :]
        if not fresh:
            return after
        return replace(after, messages=(*known, *self._chat.extend(fresh, allow_empty=True)))

    def _save_memory(self, after: AgentState, before: AgentState | None) -> None:
        now, past = after.memory, None if before is None else before.memory
        fresh: tuple[Observation, ...] = ()
        if now is not past:
            self._put(_MEMORY, now.notepad_data())
            known = () if past is None else past.tool_calls
            if now.tool_calls[: len(known)] != known:
                self._first_call, known = length_at(self.state, (*self._path, _CALLS)), ()
            fresh = now.tool_calls[len(known) :]
        if fresh:
            cells = [self.state.cells.put(call.to_data()) for call in fresh]
            self.state.extend_reserved((*self._path, _CALLS), cells)
        if self.name == MAIN:
            update_memory(self.state.memory, after, before, fresh)

    def _put(self, part: str, value: Any) -> None:
        self.state.write_reserved((*self._path, part), self.state.cells.put(value))

    # Sub-agents

    def open_branch(self, branch: str) -> Versioned:
        """Return another branch of the same session."""
        state = self.state
        return Versioned(state.repo, session=state.session, branch=branch, scope=state.scope)

    def unmerged_runs(self) -> Iterator[StoredRun]:
        """Yield this run, and those of its sub-agents that are not merged yet."""
        yield self
        heads = self.state.repo.branches(self.session, scope=self.state.scope)
        iteration = head_value(self.state, self._path, "iteration", 0)
        for name, branch in self.journal.forks(iteration).items():
            if branch in heads:
                yield from StoredRun(self.open_branch(branch), name).unmerged_runs()

    def abandon_subagents(self, why: str, *, but: Collection[str]) -> None:
        """End the tasks of sub-agents that are not over, here and on forks that are not merged.

        The parent of a sub-agent decides what it works on: when the task of the parent is over or
        abandoned, nothing that is left under the name of a sub-agent may block the next one. `but`
        has the names of runs that are at work above this one.
        """
        on_forks = [run for run in self.unmerged_runs() if run.state is not self.state]
        for run in (*self._subagent_runs({self.name, *but}), *on_forks):
            given_up = run.abandon(why)
            if run.state is not self.state:  # its fork will not be merged
                here = StoredRun(self.state, run.name).journal
                for entry in given_up:
                    here.write_entry(entry.key, entry)

    def abandon(self, why: str) -> list[LedgerEntry]:
        """End the task unless it is over; return the calls of its step whose outcome is unknown."""
        before = self.load()
        if before is None or before.is_over:
            return []
        given_up = self.journal.give_up_calls(before.iteration)
        self.save(before.to_error(why), before, f"abandon {self.name}")
        return given_up

    def _subagent_runs(self, seen: set[str]) -> Iterator[StoredRun]:
        """Yield the runs in this state of sub-agents, and of theirs; `seen` are names."""
        for name in self.journal.subagent_names():
            if name not in seen:
                seen.add(name)
                run = StoredRun(self.state, name)
                yield run
                yield from run._subagent_runs(seen)

    def merge_subagents(self) -> None:
        """Merge the branches of sub-agents that the last step has left to merge.

        Raises:
            MergeConflict: both sides changed the same thing in different ways; nothing was merged.
        """
        state = self.state
        branches = value_at(state, (*self._path, _MERGES)) or ()
        for branch in branches:
            head = self.open_branch(branch).head
            assert head is not None
            was = state.head
            merged = state.merge(head, message=f"merge {branch}")
            if merged.commit == was and not is_in_effect(state, head):
                merged = self._merge_again(branch, head)
            if merged.commit is None:
                paths = tuple(str(conflict.path) for conflict in state.conflicts)
                state.discard()
                raise MergeConflict(
                    f"the changes on branch {branch} conflict with those of {self.name}",
                    paths=paths,
                    hint=f"state.merge({branch!r}), resolve the conflicts, commit, and run again",
                )
        # Another process may have merged them at the same time, and made the next step since.
        if branches and value_at(state, (*self._path, _MERGES)) == branches:
            state.write_reserved((*self._path, _MERGES), None)
            state.commit("sub-agents are merged", kind="note")

    def _merge_again(self, branch: str, head: Commit) -> Merge:
        """Merge a commit that is in history, but was rolled back since.

        Merging the same commit does nothing, so this merges one with the same content, made from
        the commit at which the step began.
        """
        state = self.state
        taken = state.repo.branches(self.session, scope=state.scope)
        name = next(each for at in count(2) if (each := f"{branch}.{at}") not in taken)
        copied = state.fork(name, at=self.journal.last_base_commit).rollback(head)
        merged = state.merge(copied, message=f"merge {branch}")
        state.repo.delete_branch(self.session, name, scope=state.scope)
        return merged


def update_memory(
    memory: Memory, after: AgentState, before: AgentState | None, fresh: Sequence[Observation]
) -> None:
    """Stage in `state.memory` what a step changed; `fresh` are the calls that ended in it."""
    now, past = after.memory, WorkingMemory() if before is None else before.memory
    if before is None or (before.phase in _IDLE and after.phase is not before.phase):
        if (before is not None and before.is_over) or memory.goal not in ("", now.goal):
            memory.start(now.goal)
        else:  # a plan that was made for the task ahead of time stays
            memory.goal = now.goal
        past = WorkingMemory()
    if now is not past:
        _update_plan(memory, now, past)
    for call in fresh:
        data = call.to_data()
        memory.record(ToolRecord(**data | {"error": data["error"] or None}))
    if after.phase in _TASK_STATUS and (before is None or before.phase is not after.phase):
        memory.finish(_TASK_STATUS[after.phase])


def _update_plan(memory: Memory, now: WorkingMemory, past: WorkingMemory) -> None:
    if past.goal and now.goal != past.goal:
        memory.goal = now.goal
    if now.steps != past.steps:
        memory.plan(now.steps)
    planned = {step.text for step in memory.steps}  # the plan may have been changed since
    for step in now.completed:
        if step in planned and step not in past.completed:
            memory.done(step)
    for key, value in now.notes.items():
        if past.notes.get(key, _ABSENT) != value:
            memory.note(key, value)


def events_of_step(
    before: AgentState | None, after: AgentState
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a step, a kind and its data each, in the order in which they happened."""
    known = 0 if before is None else len(before.messages)
    done = () if before is None else before.memory.tool_calls
    calls = after.memory.tool_calls
    fresh = list(calls[len(done) :] if calls[: len(done)] == done else calls)
    for at, message in enumerate(after.messages[known:], known):
        data = {"message": at, "text": excerpt(message.text)}
        if message.role is Role.USER:
            yield "input", data
        elif message.role is Role.ASSISTANT:
            yield "output", data | {"calls": [call.name for call in message.calls]}
        ids = {result.call_id for result in message.results}
        yield from (_call_event(call) for call in fresh if call.id in ids)
        fresh = [call for call in fresh if call.id not in ids]
    yield from map(_call_event, fresh)
    if before is None or before.phase is not after.phase:
        was = "" if before is None else str(before.phase)
        yield "phase", {"was": was, "phase": str(after.phase), "iteration": after.iteration}
        if after.phase is Phase.DONE:
            answer = after.final_answer
            yield (
                "success",
                {"answer": excerpt(answer) if isinstance(answer, str) else thaw(answer)},
            )
        elif after.phase is Phase.ERROR:
            yield "error", {"error": after.error}
        elif after.phase is Phase.WAITING_FEEDBACK:
            yield "question", {"question": after.question}


def _call_event(call: Observation) -> tuple[str, dict[str, Any]]:
    data = {name: thaw(getattr(call, name)) for name in ("id", "name", "arguments")}
    return "tool_call", data | {"error": excerpt(call.error), "duration_ms": call.duration_ms}


def excerpt(text: str) -> str:
    """Return a text, or its beginning; the conversation has all of it."""
    return text if len(text) <= _EXCERPT_LETTERS else f"{text[: _EXCERPT_LETTERS - 1]}…"
