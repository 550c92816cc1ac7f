"""Orchestrator: runs steps until the work is done, and commits each; it survives its process.

Rules. A step is a function from one `AgentState` to the next. When it returns, the state it
returned and whatever it wrote to `self.state` become one commit; that step never runs again. A step
that is cut off leaves nothing of itself but what it did to the world and what models told it, which
were committed as they happened: when it runs again, `self.complete` returns the same replies to the
same requests, and `self.call` returns what the calls with effects came to.

Progress of a run on a terminal: a line a step, and nothing where nobody looks.

Settling: what nobody knows about effects is decided, and going back says what stays done.

A sub-agent that is not merged yet has its effects on its fork; they are found there.
"""

from __future__ import annotations

import inspect
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TextIO, TypeAlias

from otolith.agent.invocation import ANSWERED_AT_ONCE, Ended, Outcome, RunRequest, start_of
from otolith.agent.ledger import Entry, effects_after, exclusive, refuse_forks, register_owner
from otolith.agent.live_run import LiveRun
from otolith.agent.models.base import Model, OnText, as_model
from otolith.agent.run_events import clipped
from otolith.agent.run_store import MAIN, StoredRun
from otolith.agent.state import AgentState
from otolith.agent.step_context import StepContext, Stopped
from otolith.agent.subagents import branch_of, merge_subagents
from otolith.agent.tools import Tool, Toolbox, plain, whole
from otolith.core import BareRepo, Target
from otolith.errors import (
    Busy,
    Conflict,
    EffectUnknown,
    Error,
    Invalid,
    KeyNotFound,
    Unavailable,
    Unsupported,
)
from otolith.session import Repo, Versioned
from otolith.state.live import Live
from otolith.stores import KVStore, Store, as_store

_WIDTHS = (40, 120)
"""A terminal is taken to be at least and at most so wide."""


class Progress:
    """Tells what a run does."""

    def __init__(
        self, name: str = "", *, is_wanted: bool | None = None, stream: TextIO | None = None
    ) -> None:
        """Tell it to a stream, by default standard error if that is a terminal.

        `name` is that of a run which is not the only one of its session.
        """
        self._name = f"/{name}" if name else ""
        self._stream = sys.stderr if stream is None else stream  # which may be None, as of pythonw
        is_seen = self._stream is not None and self._stream.isatty()
        self._is_on = is_seen if is_wanted is None else is_wanted and self._stream is not None
        self._start = time.monotonic()

    def step(self, after: AgentState, before: AgentState | None) -> None:
        """Tell what a step has done."""
        if not self._is_on:
            return
        known = 0 if before is None else len(before.memory.tool_calls)
        calls = ", ".join(call.name for call in after.memory.tool_calls[known:])
        last = after.messages[-1].text if after.messages else ""
        said = _shown(after.question or calls or clipped(last))
        seconds = time.monotonic() - self._start
        run = f"[{after.session}{self._name}]"
        head = f"{run} {after.iteration:>3} {after.phase!s:<16} {seconds:6.1f}s"
        self._stream.write(f"{head}  {said}"[: self._width()].rstrip() + "\n")
        self._stream.flush()

    @staticmethod
    def _width() -> int:
        """Return how many letters a line may have, so that it stays one."""
        least, most = _WIDTHS
        return min(max(shutil.get_terminal_size().columns - 1, least), most)


def _shown(text: str) -> str:
    """Return a text on one line, without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


_OPEN = ("begun", "unknown")


class Settling(StepContext):
    """What a user decides about effects."""

    def unknown_effects(self, session: str = MAIN) -> list[Entry]:
        """Return the calls of which nobody knows whether they happened, also of sub-agents."""
        found: dict[str, Entry] = {}
        for run in _under_way(self._open(session)):
            found |= {entry.key: entry for entry in run.entries() if entry.status in _OPEN}
        return list(found.values())

    def settle(self, key: str, *, happened: bool, result: Any = None, session: str = MAIN) -> None:
        """Decide about a call of which nobody knows whether it happened.

        Raises:
            KeyNotFound: the ledger has no such call.
        """
        is_known = False
        for run in _under_way(self._open(session)):
            entry = run.entry(key)
            if entry is not None and entry.status in _OPEN:
                ended = entry.ended("done", result=plain(result), error="") if happened else None
                run.write(key, ended)
                is_known = True
        if not is_known:
            raise KeyNotFound(f"no call {key} is open", hint="unknown_effects() lists those")

    def is_handed_over(self, session: str = MAIN) -> bool:
        """Tell whether whoever asked for the last task was given what came of it."""
        return self._open(session).is_handed_over

    def hand_over(self, session: str = MAIN) -> None:
        """Note that the result of the last task is given to whoever asked for it."""
        self._open(session).hand_over()

    def rollback(self, target: Target, *, session: str = MAIN) -> list[Entry]:
        """Go back to an earlier commit; return the effects since, which stay in the world.

        Raises:
            Invalid: it is a commit of a sub-agent, on a fork.
        """
        state = self._open(session).state
        if not isinstance(state, Versioned):
            raise Unsupported("this run has no history", hint="give a store or a Versioned state")
        state.refresh()
        refuse_forks(state, state.resolve(target), self.name)
        left = effects_after(state, target)
        state.rollback(target)
        for entry in left:
            state.events.append(
                "effect_left", agent=self.name, tool=entry.tool, key=entry.key, status=entry.status
            )
        state.commit("effects that stay in the world")
        return left

    def _open(self, session: str) -> StoredRun | LiveRun:
        raise NotImplementedError


def _under_way(run: StoredRun | LiveRun) -> Iterator[StoredRun | LiveRun]:
    """Yield a run, and those of its sub-agents that are not merged yet."""
    yield run
    if not isinstance(run, StoredRun):
        return
    heads = run.state.repo.branches(run.session, scope=run.state.scope)
    for name, branch in run.forks(run.iteration).items():
        if branch in heads:
            yield from _under_way(StoredRun(branch_of(run.state, branch), name))


Where: TypeAlias = BareRepo | Store | KVStore | Versioned | Live | str | None
"""Where runs are kept: a repo, a store, its URL, or one state; None keeps nothing."""

StepFunction: TypeAlias = (
    Callable[[AgentState], AgentState] | Callable[["Orchestrator", AgentState], AgentState]
)

_TELL_LETTERS = 4000


class Orchestrator(Settling):
    """Runs steps and commits each: subclass it and write `step`, or give `step=`.

    It runs one session at a time; for several at once, make several.
    """

    def __init__(
        self,
        where: Where = None,
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
        """Make one.

        `step` takes a state, or this orchestrator and a state, as the method does. `where` is where
        runs are kept. `name` tells runs of one session apart. `human` answers questions at once;
        without it, or if it returns None, a question pauses the run. `on_text` gets what a model
        says as it says it, `on_step` each state as it was committed. `progress` is shown on a
        terminal.
        """
        self.where = where
        self.model = None if model is None else as_model(model)
        self.tools = Toolbox(tools)
        self.name = name
        self.human = human
        self.on_text = on_text
        self.on_step = on_step
        self.progress = progress
        self.code = type(self).__name__
        """What its runs are said to be run by."""
        self._step_function = None if step is None else _as_method(step)
        self.reset()

    # What a user writes

    def step(self, s: AgentState) -> AgentState:
        """Return the state after the next step. Write this one."""
        if self._step_function is None:
            raise Unsupported(
                f"{type(self).__name__} has no step", hint="write step(self, s), or give step="
            )
        return self._step_function(self, s)

    # Running

    def run(
        self,
        input: str | None = None,
        *,
        session: str = MAIN,
        answer: str | None = None,
        again: bool = False,
        max_steps: int | None = 50,
        max_seconds: float | None = None,
    ) -> Outcome:
        """Run until it is done, pauses or reaches a limit; go on where it was if it had begun.

        The same `input` goes on with what it began, or returns how it ended; with `again`, what has
        ended begins anew. Another one begins the next task of the same conversation. `answer` is
        for a run that waits for one.

        Raises:
            Conflict: the session is in the middle of another task.
            EffectUnknown: a call that must not happen twice may have happened; see `settle`.
            Busy: this orchestrator runs already, another one runs in the same state, or another
                process is in the middle of a call.
        """
        if (max_steps is not None and max_steps < 0) or (
            max_seconds is not None and max_seconds < 0
        ):
            raise Invalid("a limit is 0 or more", hint="leave it out for none")
        if not self._is_running.acquire(blocking=False):
            raise Busy(
                f"this {type(self).__name__} runs already", hint="make another for another session"
            )
        try:
            self._deadline = None if max_seconds is None else time.monotonic() + max_seconds
            run = self._run = self._open(session)
            run.code = self.code
            with exclusive(run.state), register_owner() as run.sign:
                _kept_before(run)
                before = run.load()
                self._join(run)
                state, before, message = start_of(run, before, RunRequest(input, answer, again))
                if message:
                    state = self._kept(run, state, before, message)
                return self._loop(run, state, max_steps)
        finally:
            self._rest()
            self._stop.clear()
            self._is_running.release()

    def resume(self, session: str = MAIN, answer: str | None = None, **limits: Any) -> Outcome:
        """Go on with a session that has begun.

        Raises:
            KeyNotFound: it has not.
        """
        if self._open(session).load() is None:
            raise KeyNotFound(
                f"there is no run {self.name} in session {session}", hint="run(input)"
            )
        return self.run(session=session, answer=answer, **limits)

    def stop(self) -> None:
        """Let the run end before its next step, or at the next piece of text; from any thread.

        If it is just about to begin, it ends at once.
        """
        self._stop.set()

    def abandon(self, session: str = MAIN, why: str = "abandoned") -> None:
        """End a task that is not over, so that the session is free for another one.

        Raises:
            KeyNotFound: nothing has begun.
        """
        run = self._open(session)
        before = run.load()
        if before is None:
            raise KeyNotFound(f"nothing has begun in session {session}", hint="run(input)")
        if not before.is_over:
            run.code = self.code
            with exclusive(run.state):
                _kept_before(run)
                run.keep(before.to_error(why), before, f"abandon {self.name}")
                run.hand_over()

    def load(self, session: str = MAIN) -> AgentState | None:
        """Return where a session is, without running it; None if it has not begun."""
        return self._open(session).load()

    # The loop

    def _loop(
        self,
        run: StoredRun | LiveRun,
        state: AgentState,
        max_steps: int | None,
    ) -> Outcome:
        steps = 0
        shown = Progress("" if self.name == MAIN else self.name, is_wanted=self.progress)
        while True:
            ended = self._ended(state, steps, max_steps)
            answer = self.human(state.question) if ended == "paused" and self.human else None
            if answer is not None:
                state = self._kept(run, state.answered(answer), state, ANSWERED_AT_ONCE)
                continue
            if ended is not None:
                return Outcome(state, ended, steps)
            try:
                after = self._one(run, state)
            except Stopped as stop:
                if stop.why:
                    run.note("error", "the time is up", error=stop.why, iteration=state.iteration)
                return Outcome(state, stop.ended, steps, stop.why)
            shown.step(after, state)
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

    def _one(self, run: StoredRun | LiveRun, before: AgentState) -> AgentState:
        """Make one step."""
        self._enter(run, before.iteration)
        try:
            after: object = self.step(before)
            if not isinstance(after, AgentState):
                raise _no_state(after)
            after = replace(after, iteration=before.iteration + 1)
            self._tell_open(run)
            kept = run.keep(after, before, f"step {after.iteration}", joins=self.joins)
        except Exception as error:  # whatever a user's step raises: it is told, and raised again
            self._failed(run, before, error)
            raise
        except BaseException:
            _dropped(run)
            raise
        finally:
            self._leave()
        return self._joined(run, kept)

    def _tell_open(self, run: StoredRun | LiveRun) -> None:
        """Record which calls this step had begun before it was cut off, and did not come back to.

        Nobody knows whether they happened, and no call asks about them any more.
        """
        known = set() if self._hands is None else self._hands.keys
        for entry in run.begun(self.base) if run.is_again else ():
            if entry.key not in known:
                data = {"tool": entry.tool, "key": entry.key, "iteration": entry.iteration}
                run.state.events.append("effect_unknown", agent=self.name, **data)

    def _kept(
        self,
        run: StoredRun | LiveRun,
        after: AgentState,
        before: AgentState,
        message: str,
    ) -> AgentState:
        return self._joined(run, run.keep(after, before, message))

    def _joined(self, run: StoredRun | LiveRun, after: AgentState) -> AgentState:
        self.joins = []
        self._join(run)
        if self.on_step is not None:
            self.on_step(after)
        return after

    def _rest(self) -> None:
        """Give back what a run took; called when it ends, however it does."""

    @staticmethod
    def _join(run: StoredRun | LiveRun) -> None:
        """Merge what sub-agents did, where that is still to be done."""
        if isinstance(run, StoredRun) and run.joins:
            merge_subagents(run, run.joins)
            run.joined()

    def _failed(self, run: StoredRun | LiveRun, before: AgentState, error: Exception) -> None:
        """Commit that a step failed; the run stays where it was before it.

        A model is asked anew when it runs again, unless the step did something to the world because
        of what it said, or what failed will pass.
        """
        _dropped(run)
        acted = self._hands is not None and bool(self._hands.keys)
        acted = acted or bool(run.forks(before.iteration))
        passes = isinstance(error, Unavailable | Conflict)
        kind = "effect_unknown" if isinstance(error, EffectUnknown) else "error"
        trace = whole("".join(traceback.format_exception(error)))[-_TELL_LETTERS:]
        error.add_note(f"session {run.session} stays at step {before.iteration}: run it again")
        try:
            run.note(
                kind,
                f"step {before.iteration + 1} failed",
                base=self._base,
                asks_again=not (acted or passes),
                error=whole(f"{type(error).__name__}: {error}"),
                iteration=before.iteration,
                traceback=trace,
            )
        except Error as other:  # a full disk, another process: what failed first is what is told
            error.add_note(f"nor could that be recorded: {other}")

    # Small things

    def _open(self, session: str) -> StoredRun | LiveRun:
        where = self.where
        if where is None or isinstance(where, Live):
            return LiveRun(where, self.name, session)
        if isinstance(where, Versioned):
            if session not in (MAIN, where.session):
                raise Invalid(f"this is session {where.session}", hint="give a repo for others")
            return StoredRun(where, self.name)
        if not isinstance(where, BareRepo):
            where = self.where = Repo(as_store(where))
        return StoredRun(Versioned(where, session=session), self.name)


def _as_method(step: Callable[..., AgentState]) -> Callable[[Orchestrator, AgentState], AgentState]:
    """Return a step function that is given what runs it: it may be a copy, on a fork."""
    try:
        given = [*inspect.signature(step).parameters.values()]
    except (TypeError, ValueError):
        given = []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [each for each in given if each.kind in places and each.default is each.empty]
    return step if len(wanted) > 1 else lambda _, s: step(s)


def _no_state(returned: object) -> Invalid:
    hint = "return s, or what its methods return"
    if inspect.iscoroutine(returned):
        returned.close()
        hint = "write `def step`, without async; models and tools may be coroutine functions"
    return Invalid(f"a step returned {type(returned).__name__}, not an AgentState", hint=hint)


def _kept_before(run: StoredRun | LiveRun) -> None:
    """Commit what the user has staged before the run: a step that fails drops only its own."""
    if isinstance(run.state, Versioned) and not run.state.is_clean:
        run.state.commit("before the run")


def _dropped(run: StoredRun | LiveRun) -> None:
    """Drop what a step has staged before it failed."""
    if isinstance(run.state, Versioned):
        run.state.discard()
        run.state.refresh()
