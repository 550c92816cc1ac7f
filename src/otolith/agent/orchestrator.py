"""Orchestrator: runs steps until the work is done, commits each, and survives its process.

Rules:

- A step is a function from one `AgentState` to the next. When it returns, the state it returned and
  all that it wrote to `self.state` become one commit; that step never runs again.
- A step that is cut off leaves only its effects on the world and the replies of models, which were
  committed as they happened (`journal.py`). When it runs again, `self.complete` returns the same
  replies to the same requests, and `self.call` the stored results of calls with effects.
- A sub-agent works on a fork of the state. The commit of the step lists the forks to merge, and the
  merge follows it: if the process dies in between, the next one merges. The sub-agent has a
  run and a thread under its own name, so both keep their messages and plans apart; its changes to
  the state, `state.memory` included, are merged like any two branches.
"""

from __future__ import annotations

import inspect
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import replace
from threading import Event, Lock
from typing import Any, Protocol, Self, TypeAlias

from otolith.agent.flow_tasks import request_in, run_agent, with_feedback
from otolith.agent.function_schema import function_parameters
from otolith.agent.history import (
    ANSWERED,
    ANSWERED_BY_HUMAN,
    BEGIN,
    answers_since,
    require_own_commit,
)
from otolith.agent.ledger import LedgerEntry, effects_after, exclusive
from otolith.agent.live_run import AgentRun, LiveRun
from otolith.agent.models.base import (
    Messages,
    Model,
    OnText,
    Reply,
    RequestHasher,
    Tools,
    as_model,
)
from otolith.agent.run_store import MAIN, StoredRun, excerpt
from otolith.agent.state import AgentState, Ended, Observation, Outcome, Progress
from otolith.agent.step_context import RunStopped, StepContext
from otolith.agent.tools import Tool, Toolbox, to_plain, valid_text
from otolith.conversation import ToolCall
from otolith.core import BareRepo, Target
from otolith.errors import (
    Busy,
    Conflict,
    EffectUnknown,
    Error,
    Invalid,
    KeyNotFound,
    RefExists,
    Unavailable,
    Unsupported,
)
from otolith.flows import TaskContext
from otolith.live import Live
from otolith.owners import register_owner
from otolith.session import Repo, Versioned
from otolith.shapes import check_argument
from otolith.stores import KVStore, Store, as_store

RunStorage: TypeAlias = BareRepo | Store | KVStore | Versioned | Live | str | None
"""Where runs are stored: a repo, a store, its URL, or one state; None stores nothing."""
StepFunction: TypeAlias = (
    Callable[[AgentState], AgentState] | Callable[["Orchestrator", AgentState], AgentState]
)

_UNSETTLED = ("begun", "unknown")
_TRACEBACK_LETTERS = 4000


class OrchestratorFactory(Protocol):
    """An agent or a task: something that makes an orchestrator for itself."""

    def orchestrator(self, state: Any = None) -> Orchestrator:
        """Return an orchestrator that runs in a state."""


class Orchestrator:
    """Runs steps and commits each: subclass it and write `step`, or give `step=`.

    It runs one session at a time; for several at once, make several.
    """

    def __init__(
        self,
        where: RunStorage = None,
        *,
        step: StepFunction | None = None,
        model: Model | Callable[..., Any] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        name: str = MAIN,
        human: Callable[[str], str | None] | None = None,
        on_text: OnText | None = None,
        on_step: Callable[[AgentState], None] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Make an orchestrator.

        `step` takes a state, or this orchestrator and a state, like the method. `where` is where
        runs are stored. `name` tells runs of one session apart. `human` answers questions at once;
        without it, or if it returns None, a question pauses the run. `on_text` gets the text of a
        model as it arrives, `on_step` each state as it was committed. `progress` prints a line for
        each step to standard error; by default if that is a terminal.
        """
        self.where = where
        self.model = None if model is None else as_model(model)
        self.tools = Toolbox(tools)
        self.name = name
        self.human = human
        self.on_text = on_text
        self.on_step = on_step
        self.progress = progress
        self.code_name = type(self).__name__
        """The name under which the code of a run is stored."""
        self._step_function = None if step is None else _as_method(step)
        self.reset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {len(self.tools)} tools>"

    def reset(self) -> None:
        """Forget the current run: for a copy that runs elsewhere."""
        self.parent: Orchestrator | None = None
        """The orchestrator whose step this one is part of."""
        self.prepare_subagent: Callable[[Orchestrator], None] | None = None
        """Is called with each sub-agent before it runs: a replay connects it to its record."""
        self._is_running = Lock()
        self._stop = Event()
        self._deadline: float | None = None
        self._run: AgentRun | None = None
        self._context: StepContext | None = None
        self._hasher = RequestHasher()

    def copy_for(self, state: Versioned, name: str) -> Self:
        """Return an orchestrator like this one that runs in a state, under a name."""
        twin = copy(self)
        twin.where, twin.name = state, name
        twin.reset()
        return twin

    # Written by the user

    def step(self, s: AgentState) -> AgentState:
        """Return the state after the next step. Override this."""
        if self._step_function is None:
            raise Unsupported(
                f"{type(self).__name__} has no step", hint="write step(self, s), or give step="
            )
        return self._step_function(self, s)

    # Used in a step

    @property
    def state(self) -> Versioned | Live:
        """The state that the run is stored in; changes of a step are committed with it."""
        return self._current_run().state

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called, here or on a parent; long steps may check it."""
        return self._stop.is_set() or (self.parent is not None and self.parent.is_stopping)

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self._current_run().journal.now()

    def key(self, *parts: Any) -> str:
        """Return a key for something that this step does: the same each time the step runs."""
        return self._current_step().key(*parts)

    def call(self, tool: str | ToolCall, /, **arguments: Any) -> Observation:
        """Call a tool by name, or as a model asks for it; `tool_runner.py` says how often.

        Raises:
            KeyNotFound: there is no tool of this name.
            EffectUnknown: it must not happen twice, was begun, and its outcome is unknown.
            Busy: another process is in the middle of it.
        """
        return self._current_step().call(tool, **arguments)

    def complete(self, messages: Messages, *, tools: Tools | None = None) -> Reply:
        """Ask the model; if this step was cut off after the same request, return the stored reply.

        It waits at most for the `max_seconds` of the run.

        Raises:
            Invalid: there is no model.
            BadReply: the reply is not valid.
        """
        step = self._current_step()
        if self.model is None:
            raise Invalid("there is no model to ask", hint="give model=")
        offered = self.tools.for_model if tools is None else list(tools)
        on_text = None if self.on_text is None else self._send_text
        return step.complete(
            self.model, messages, offered, on_text=on_text, deadline=self._deadline
        )

    def _send_text(self, piece: str) -> None:
        if self.is_stopping:
            raise RunStopped
        if self.on_text is not None:
            self.on_text(piece)

    def delegate(
        self,
        other: Orchestrator | OrchestratorFactory,
        task: str,
        *,
        name: str,
        answer: str | None = None,
        **limits: Any,
    ) -> Outcome:
        """Let another orchestrator or agent do a task on a fork, which is merged after this step.

        If the step was cut off and runs again, the fork is the same, so that the other one resumes
        too. In a later step, the same task resumes if it is not over; another one replaces it.
        `limits` are those of `run`, and `answer` is for one that waits for a person. When this run
        is stopped or out of time, so is the other.

        Raises:
            Unsupported: the state has no history.
        """
        step = self._current_step()
        if name == self.name or step.tasks.setdefault(name, task) != task:
            raise Invalid(
                f"{name} has another task in this step", hint="give each sub-agent another name"
            )
        left = self._seconds_left
        if left is not None:
            limit = limits.get("max_seconds")
            limits["max_seconds"] = max(0.0, left if limit is None else min(left, limit))
        answers = step.answers.setdefault(name, [])
        answers += [] if answer is None else [answer]
        twin, fork = self._fork_for(other, name)
        last = twin.load(fork.session)
        if len(answers) > answers_since(fork, name, step.base.commit):
            limits["answer"] = answers[-1]
            limits["to"] = last.question_id if last is not None and last.is_paused else None
        # A task that an earlier step delegated, and that is done, is begun again in this step.
        is_new = fork.head is not None and fork.head.id == step.base.commit
        is_replaced = last is not None and last.task != task and not last.is_over
        if is_replaced and name not in self._names_above():
            twin.abandon(fork.session, f"{self.name} delegates another task: {excerpt(task)}")
        outcome = twin.run(task, session=fork.session, **{"again": is_new, **limits})
        if fork.name not in step.merges:
            step.merges.append(fork.name)
        left = self._seconds_left
        if outcome.ended == "stopped" and self.is_stopping:
            raise RunStopped
        if outcome.ended == "seconds" and left is not None and left <= 0:
            raise RunStopped("seconds")
        return outcome

    def _fork_for(
        self, other: Orchestrator | OrchestratorFactory, name: str
    ) -> tuple[Orchestrator, Versioned]:
        """Return a copy of a sub-agent, and the fork on which it works in this step."""
        step = self._current_step()
        run = step.run
        if not isinstance(run, StoredRun) or not step.base.commit:
            raise Unsupported(
                "there is no history to fork", hint="give a store or a Versioned state"
            )
        branch, source = run.journal.fork(name, step.base)
        try:
            fork = run.state.fork(branch, at=source)
        except RefExists:  # the step was cut off after it had begun
            fork = run.open_branch(branch)
        worker = other if isinstance(other, Orchestrator) else other.orchestrator()
        twin = worker.copy_for(fork, name)
        twin.parent = self
        if self.prepare_subagent is not None:
            self.prepare_subagent(twin)
        return twin, fork

    def _names_above(self) -> set[str]:
        """Return the names of the runs that this one is part of."""
        names, above = set[str](), self.parent
        while above is not None:
            names.add(above.name)
            above = above.parent
        return names

    def _current_run(self) -> AgentRun:
        if self._run is None:
            raise Invalid("nothing runs", hint="call run() first")
        return self._run

    def _current_step(self) -> StepContext:
        if self._context is None:
            raise Invalid(
                "no step is in progress",
                hint="call it from step(self, s), or from step=function(orchestrator, s)",
            )
        return self._context

    # Running

    def run(
        self,
        input: str | None = None,
        *,
        session: str = MAIN,
        answer: str | None = None,
        to: str | None = None,
        again: bool = False,
        max_steps: int | None = 50,
        max_seconds: float | None = None,
    ) -> Outcome:
        """Run until it is done, pauses or reaches a limit; resume if it has begun.

        The same `input` resumes the task that it began, or returns its outcome if that is over;
        with `again`, a task that is over begins again. Another input begins the next task of the
        same conversation. `answer` is for a run that waits for one, `to` the id of its question,
        which may be left out for the first question of a task.

        Raises:
            Conflict: the session is in the middle of another task, or waits with another question.
            EffectUnknown: a call that must not happen twice may have happened; see `settle`.
            Busy: this orchestrator runs already, another one runs in the same state, or another
                process is in the middle of a call.
        """
        for name, limit in (("max_steps", max_steps), ("max_seconds", max_seconds)):
            if limit is not None and limit < 0:
                raise Invalid(
                    f"{name} must be at least 0, got {limit}", hint="use None for no limit"
                )
        if to is not None and answer is None:
            raise Invalid(f"question {to} is given no answer", hint="give answer= with to=")
        if not self._is_running.acquire(blocking=False):
            raise Busy(
                f"this {type(self).__name__} runs already", hint="make another for another session"
            )
        try:
            self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
            run = self._run = self._open(session)
            with exclusive(run.state), register_owner() as run.journal.owner_id:
                _commit_staged(run)
                last = run.load()
                run.merge_subagents()
                if answer is not None and last is not None and last.is_paused:
                    _check_question(run, last, to)
                state, before, message = _start(run, last, input, answer, again=again)
                if before.is_over and not state.is_over:
                    task = f"{run.name} begins another task: {excerpt(state.task)}"
                    run.abandon_subagents(task, but=self._names_above())
                if message:
                    state = self._after_commit(run, run.save(state, before, message))
                return self._loop(run, state, max_steps)
        finally:
            self._release()
            self._stop.clear()
            self._is_running.release()

    def run_in_task(self, task: TaskContext, arguments: Mapping[str, Any], **limits: Any) -> Any:
        """Run in a task of a flow, and return the answer: `task.call(orchestrator, input=…)`.

        Raises:
            Invalid: it is given something else than `input`.
        """
        request = request_in(arguments)
        return run_agent(
            task, self, lambda why: with_feedback(request, why), part=self.name, limits=limits
        )

    def resume(self, session: str = MAIN, answer: str | None = None, **limits: Any) -> Outcome:
        """Resume a session that has begun; the options are those of `run`.

        Raises:
            KeyNotFound: it has not.
        """
        if self._open(session).load() is None:
            raise KeyNotFound(
                f"there is no run {self.name} in session {session}", hint="run(input)"
            )
        return self.run(session=session, answer=answer, **limits)

    def stop(self) -> None:
        """End the run before its next step, or at the next piece of text; from any thread.

        A run that is about to begin ends at once.
        """
        self._stop.set()

    def abandon(self, session: str = MAIN, why: str = "abandoned") -> None:
        """End a task that is not over, so that the session is free for another one.

        The tasks of its sub-agents end with it.

        Raises:
            KeyNotFound: nothing has begun.
        """
        run = self._open(session)
        before = run.load()
        if before is None:
            raise KeyNotFound(f"nothing has begun in session {session}", hint="run(input)")
        if not before.is_over:
            with exclusive(run.state):
                _commit_staged(run)
                run.abandon_subagents(why, but=self._names_above())
                run.abandon(why)
                run.journal.mark_result_returned()

    def load(self, session: str = MAIN) -> AgentState | None:
        """Return where a session is, without running it; None if it has not begun."""
        return self._open(session).load()

    # Decided by the user

    def unknown_effects(self, session: str = MAIN) -> list[LedgerEntry]:
        """Return the calls that may have happened or not, also those of sub-agents."""
        runs = self._open(session).unmerged_runs()
        entries = [entry for run in runs for entry in run.journal.entries()]
        return list({each.key: each for each in entries if each.status in _UNSETTLED}.values())

    def settle(self, key: str, *, happened: bool, result: Any = None, session: str = MAIN) -> None:
        """Decide whether a call has happened whose outcome is unknown.

        Raises:
            KeyNotFound: the ledger has no such call.
        """
        is_known = False
        for run in self._open(session).unmerged_runs():
            entry = run.journal.entry(key)
            if entry is not None and entry.status in _UNSETTLED:
                ended = entry.ended("done", result=to_plain(result), error="") if happened else None
                run.journal.write_entry(key, ended)
                is_known = True
        if not is_known:
            raise KeyNotFound(
                f"there is no unsettled call {key}", hint="unknown_effects() lists them"
            )

    def is_result_returned(self, session: str = MAIN) -> bool:
        """Tell whether the result of the last task was returned to its caller."""
        return self._open(session).journal.is_result_returned

    def mark_result_returned(self, session: str = MAIN) -> None:
        """Record that the result of the last task was returned to its caller."""
        self._open(session).journal.mark_result_returned()

    def rollback(self, target: Target, *, session: str = MAIN) -> list[LedgerEntry]:
        """Go back to an earlier commit; return the later effects, which stay in the world.

        Raises:
            Invalid: it is a commit of a sub-agent, on a fork.
        """
        state = self._open(session).state
        if not isinstance(state, Versioned):
            raise Unsupported("this run has no history", hint="give a store or a Versioned state")
        state.refresh()
        require_own_commit(state, state.resolve(target), self.name)
        left = effects_after(state, target)
        state.rollback(target)
        for entry in left:
            data = {"tool": entry.tool, "key": entry.key, "status": entry.status}
            state.events.append("effect_left", agent=self.name, **data)
        state.commit("effects that stay in the world")
        return left

    # The loop

    def _loop(self, run: AgentRun, state: AgentState, max_steps: int | None) -> Outcome:
        steps = 0
        progress = Progress("" if self.name == MAIN else self.name, is_wanted=self.progress)
        while True:
            ended = self._ended(state, steps, max_steps)
            answer = self.human(state.question) if ended == "paused" and self.human else None
            if answer is not None:
                saved = run.save(state.answered(answer), state, ANSWERED_BY_HUMAN)
                state = self._after_commit(run, saved)
                continue
            if ended is not None:
                return Outcome(state, ended, steps)
            try:
                after = self._run_step(run, state)
            except RunStopped as stop:
                if stop.why:
                    run.journal.record_event(
                        "error", "the time is up", error=stop.why, iteration=state.iteration
                    )
                return Outcome(state, stop.ended, steps, stop.why)
            progress.step(after, state)
            state, steps = after, steps + 1

    def _ended(self, state: AgentState, steps: int, max_steps: int | None) -> Ended | None:
        if state.is_over:
            return "error" if state.error else "done"
        if state.is_paused:
            return "paused"
        if self.is_stopping:
            return "stopped"
        if max_steps is not None and steps >= max_steps:
            return "steps"
        left = self._seconds_left
        return "seconds" if left is not None and left <= 0 else None

    @property
    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _run_step(self, run: AgentRun, before: AgentState) -> AgentState:
        step = self._context = StepContext(run, before.iteration, self.tools, self._hasher)
        try:
            after: object = self.step(before)
            if not isinstance(after, AgentState):
                raise _not_a_state(after)
            after = replace(after, iteration=before.iteration + 1)
            self._report_unrepeated_calls(step)
            saved = run.save(after, before, f"step {after.iteration}", merges=step.merges)
        except Exception as error:  # a user's step may raise anything: it is recorded and raised
            self._record_failure(step, before, error)
            raise
        except BaseException:
            _discard_staged(run)
            raise
        finally:
            self._context = None
        return self._after_commit(run, saved)

    def _report_unrepeated_calls(self, step: StepContext) -> None:
        """Report calls that an interrupted attempt of this step began and this one did not repeat.

        Their outcome is unknown, and no later call will ask about them.
        """
        journal = step.run.journal
        for entry in journal.unfinished_calls(step.base) if journal.is_retry else ():
            if entry.key not in step.tool_runner.effect_keys:
                data = {"tool": entry.tool, "key": entry.key, "iteration": entry.iteration}
                step.run.state.events.append("effect_unknown", agent=self.name, **data)
                if entry.effects == "once":
                    journal.write_entry(entry.key, entry.ended("unknown"), step.base)

    def _after_commit(self, run: AgentRun, saved: AgentState) -> AgentState:
        """Merge sub-agents, and report the state that was committed."""
        run.merge_subagents()
        if self.on_step is not None:
            self.on_step(saved)
        return saved

    def _record_failure(self, step: StepContext, before: AgentState, error: Exception) -> None:
        """Commit that a step failed; the run stays where it was before it.

        When the step runs again it asks the model again, unless it has acted on the world because
        of a reply, or the failure is one that may pass.
        """
        run = step.run
        _discard_staged(run)
        has_acted = bool(step.tool_runner.effect_keys or run.journal.forks(before.iteration))
        may_pass = isinstance(error, Unavailable | Conflict)
        trace = valid_text("".join(traceback.format_exception(error)))[-_TRACEBACK_LETTERS:]
        error.add_note(f"session {run.session} stays at step {before.iteration}: run it again")
        try:
            run.journal.record_event(
                "effect_unknown" if isinstance(error, EffectUnknown) else "error",
                f"step {before.iteration + 1} failed",
                base=step.base,
                forget_replies=not (has_acted or may_pass),
                error=valid_text(f"{type(error).__name__}: {error}"),
                iteration=before.iteration,
                traceback=trace,
            )
        except Error as other:  # a full disk, another process: the first error is the one to raise
            error.add_note(f"the failure could not be recorded: {other}")

    def _release(self) -> None:
        """Release what a run holds; called when it ends in any way."""

    def _open(self, session: str) -> AgentRun:
        check_argument(session, "session", str, "the name of a session")
        where = self.where
        run: AgentRun
        if where is None or isinstance(where, Live):
            run = LiveRun(where, self.name, session)
        elif isinstance(where, Versioned):
            if session not in (MAIN, where.session):
                raise Invalid(
                    f"the state is session {where.session}, not {session}",
                    hint="give a repo for others",
                )
            run = StoredRun(where, self.name)
        else:
            if not isinstance(where, BareRepo):
                where = self.where = Repo(as_store(where))
            run = StoredRun(Versioned(where, session=session), self.name)
        run.code_name = self.code_name
        return run


def _start(
    run: AgentRun, last: AgentState | None, input: str | None, answer: str | None, *, again: bool
) -> tuple[AgentState, AgentState, str]:
    """Return the state to start with, the one before it, and a message if it is to be committed.

    `last` is where the run is, None if it has not begun.

    Raises:
        KeyNotFound: nothing has begun, and there is no input.
        Conflict: the session is in the middle of another task.
        Invalid: there is an answer, but no question.
    """
    if last is not None and last.is_paused and answer is not None:
        if input not in (None, last.task):
            raise Conflict(f"the question is about {last.task!r}", hint="leave out the input")
        return last.answered(answer), last, ANSWERED
    if answer is not None and (last is not None or input is not None):
        why = "nothing has begun" if last is None else f"the run is {last.phase}"
        raise Invalid(
            f"there is no question to answer: {why}",
            hint="leave out the answer; perhaps it was given before",
        )
    if last is None:
        if input is None:
            raise KeyNotFound(f"nothing has begun in session {run.session}", hint="run(input)")
        last = AgentState(run.session, messages=run.messages())
    elif input is None or (input == last.task and not (again and last.is_over)):
        return last, last, ""
    elif not last.is_over:
        raise Conflict(
            f"session {run.session} is in the middle of {last.task!r}",
            hint="run() resumes it, abandon() ends it; or use another session",
        )
    fresh = AgentState.from_user_input(input, session=last.session, messages=last.messages)
    iteration = run.journal.unused_iteration(last.iteration)
    return replace(fresh, iteration=iteration), last, f"{BEGIN}{run.name}"


def _as_method(step: Callable[..., AgentState]) -> Callable[[Orchestrator, AgentState], AgentState]:
    """Return a step function that takes the orchestrator: it may be a copy, on a fork."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = function_parameters(step) or ()
    required = [each for each in found if each.kind in positional and each.default is each.empty]
    return step if len(required) > 1 else lambda _, s: step(s)


def _check_question(run: AgentRun, last: AgentState, to: str | None) -> None:
    """Refuse an answer that is to another question than the open one, or that may be.

    An answer can arrive twice, when the response to the first was lost: the second must not answer
    the next question. A first question can have no answer that was meant for an earlier one.
    """
    asked = last.question_id
    if to == asked or (to is None and not run.has_answers):
        return
    what = "an answer must name its question" if to is None else f"question {to} is not open"
    raise Conflict(
        f"{what}: session {run.session} waits with {asked}, {excerpt(last.question)!r}",
        hint=f"to answer this one, give to={asked!r}, or --to {asked}",
    )


def _not_a_state(returned: object) -> Invalid:
    hint = "return s, or what its methods return"
    if inspect.iscoroutine(returned):
        returned.close()
        hint = "write `def step`, without async; models and tools may be coroutine functions"
    return Invalid(f"a step must return an AgentState, got {type(returned).__name__}", hint=hint)


def _commit_staged(run: AgentRun) -> None:
    """Commit what the user has staged before the run: a failed step discards only its own."""
    if isinstance(run.state, Versioned) and not run.state.is_clean:
        run.state.commit("before the run")


def _discard_staged(run: AgentRun) -> None:
    """Discard what a failed step has staged."""
    if isinstance(run.state, Versioned):
        run.state.discard()
        run.state.refresh()
