"""Orchestrator: runs steps until the work is done, and commits each; it survives its process.

Rules. A step is a function from one `AgentState` to the next. When it returns, the state it
returned and whatever it wrote to `self.state` become one commit; that step never runs again. A step
that is cut off leaves nothing of itself but what it did to the world and what models told it, which
were committed as they happened: when it runs again, `self.complete` returns the same replies to the
same requests, and `self.call` returns what the calls with effects came to.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from otolith.agent.home import Home
from otolith.agent.live import Live
from otolith.agent.loop.delegating import join
from otolith.agent.loop.ledger import Entry, effects_after
from otolith.agent.loop.loose import LooseRun
from otolith.agent.loop.models.model import Model, OnText, as_model
from otolith.agent.loop.outcome import Ended, Outcome
from otolith.agent.loop.progress import Progress
from otolith.agent.loop.record import MAIN, KeptRun
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.stepping import Stepping, Stopped
from otolith.agent.loop.tools import Tool, Toolbox
from otolith.agent.session import Versioned
from otolith.core import Repo, Target
from otolith.errors import Conflict, EffectUnknown, Invalid, KeyNotFound, Unsupported
from otolith.stores import KVStore, Store, as_store

Where: TypeAlias = Repo | Store | KVStore | Versioned | Live | str | None
"""Where runs are kept: a repo, a store, its URL, or one state; None keeps nothing."""

_TELL_LETTERS = 4000


class Orchestrator(Stepping):
    """Runs steps and commits each: subclass it and write `step`, or give `step=`."""

    def __init__(
        self,
        where: Where = None,
        *,
        step: Callable[[AgentState], AgentState] | None = None,
        model: Model | Callable[..., Any] | None = None,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        name: str = MAIN,
        human: Callable[[str], str] | None = None,
        on_text: OnText | None = None,
        on_step: Callable[[AgentState], None] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Make one.

        `where` is where runs are kept. `name` tells runs of one session apart. `human` answers
        questions at once; without it a question pauses the run. `on_text` gets what a model says as
        it says it, `on_step` each state as it was committed. `progress` is shown on a terminal.
        """
        self.where = where
        self.model = None if model is None else as_model(model)
        self.tools = Toolbox(tools)
        self.name = name
        self.human = human
        self.on_text = on_text
        self.on_step = on_step
        self.progress = progress
        self._step_function = step
        self.reset()

    # What a user writes

    def step(self, s: AgentState) -> AgentState:
        """Return the state after the next step. Write this one."""
        if self._step_function is None:
            raise Unsupported(
                f"{type(self).__name__} has no step", hint="write step(self, s), or give step="
            )
        return self._step_function(s)

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
        """
        if (max_steps is not None and max_steps < 0) or (
            max_seconds is not None and max_seconds < 0
        ):
            raise Invalid("a limit is 0 or more", hint="leave it out for none")
        self._stop.clear()
        run = self._run = self._open(session)
        before = run.load()
        self._join(run)
        state = self._begin(run, before, input, answer, again=again)
        return self._loop(run, state, max_steps, max_seconds)

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
        """Let the run end before its next step, or at the next piece of text; from any thread."""
        self._stop.set()

    @property
    def is_stopping(self) -> bool:
        """Whether somebody called `stop`: long steps may look."""
        return self._stop.is_set()

    def load(self, session: str = MAIN) -> AgentState | None:
        """Return where a session is, without running it; None if it has not begun."""
        return self._open(session).load()

    # Effects

    def unknown_effects(self, session: str = MAIN) -> list[Entry]:
        """Return the calls of which nobody knows whether they happened."""
        entries = self._open(session).entries()
        return [entry for entry in entries if entry.status in ("begun", "unknown")]

    def settle(self, key: str, *, happened: bool, result: Any = None, session: str = MAIN) -> None:
        """Decide about a call of which nobody knows whether it happened.

        Raises:
            KeyNotFound: the ledger has no such call.
        """
        run = self._open(session)
        entry = run.entry(key)
        if entry is None or entry.status not in ("begun", "unknown"):
            raise KeyNotFound(f"no call {key} is open", hint="unknown_effects() lists those")
        run.write(key, entry.ended("done", result=result, error="") if happened else None)

    def rollback(self, target: Target, *, session: str = MAIN) -> list[Entry]:
        """Go back to an earlier commit; return the effects since, which stay in the world."""
        state = self._open(session).state
        if not isinstance(state, Versioned):
            raise Unsupported("this run has no history", hint="give a store or a Versioned state")
        state.refresh()
        left = effects_after(state, target)
        state.rollback(target)
        for entry in left:
            state.events.append(
                "effect_left", agent=self.name, tool=entry.tool, key=entry.key, status=entry.status
            )
        state.commit("effects that stay in the world")
        return left

    # The loop

    def _begin(
        self,
        run: KeptRun | LooseRun,
        before: AgentState | None,
        input: str | None,
        answer: str | None,
        *,
        again: bool,
    ) -> AgentState:
        if before is None:
            if input is None:
                raise KeyNotFound(f"nothing has begun in session {run.session}", hint="run(input)")
            return self._kept(run, AgentState.from_user_input(input, session=run.session), None)
        if before.is_paused and answer is not None:
            return self._kept(run, before.answered(answer), before)
        if answer is not None:
            raise Invalid("nobody was asked anything", hint=f"the run is {before.phase}")
        if input is None or (input == before.task and not (again and before.is_over)):
            return before
        if not before.is_over:
            raise Conflict(
                f"session {run.session} is in the middle of {before.task!r}",
                hint="run() without input goes on with it; or use another session",
            )
        messages, session = before.messages, before.session
        fresh = AgentState.from_user_input(input, session=session, messages=messages)
        return self._kept(run, replace(fresh, iteration=before.iteration), before)

    def _loop(
        self,
        run: KeptRun | LooseRun,
        state: AgentState,
        max_steps: int | None,
        max_seconds: float | None,
    ) -> Outcome:
        start, steps = time.monotonic(), 0
        shown = Progress(is_wanted=self.progress)
        while True:
            ended = self._ended(state, steps, max_steps)
            if ended is None and max_seconds is not None:
                ended = "seconds" if time.monotonic() - start >= max_seconds else None
            if ended == "paused" and self.human is not None:
                state = self._kept(run, state.answered(self.human(state.question)), state)
                continue
            if ended is not None:
                return Outcome(state, ended, steps)
            try:
                after = self._one(run, state)
            except Stopped:
                return Outcome(state, "stopped", steps)
            shown.step(after, state)
            state, steps = after, steps + 1

    def _ended(self, state: AgentState, steps: int, max_steps: int | None) -> Ended | None:
        if state.is_over:
            return "error" if state.error else "done"
        if state.is_paused:
            return "paused"
        if self._stop.is_set():
            return "stopped"
        return "steps" if max_steps is not None and steps >= max_steps else None

    def _one(self, run: KeptRun | LooseRun, before: AgentState) -> AgentState:
        """Make one step."""
        self._enter(run, before.iteration)
        try:
            after: object = self.step(before)
        except Exception as error:  # whatever a user's step raises: it is told, and raised again
            self._failed(run, before, error)
            raise
        except BaseException:
            _dropped(run)
            raise
        finally:
            self._leave()
        if not isinstance(after, AgentState):
            _dropped(run)
            raise Invalid(
                f"a step returned {type(after).__name__}, not an AgentState",
                hint="return s, or what its methods return",
            )
        return self._kept(run, replace(after, iteration=before.iteration + 1), before)

    def _kept(
        self, run: KeptRun | LooseRun, after: AgentState, before: AgentState | None
    ) -> AgentState:
        is_new = before is None or after.task != before.task
        message = f"begin {self.name}" if is_new else f"step {after.iteration}"
        after = run.keep(after, before, message, joins=self.joins)
        self.joins = []
        self._join(run)
        if self.on_step is not None:
            self.on_step(after)
        return after

    @staticmethod
    def _join(run: KeptRun | LooseRun) -> None:
        """Merge what sub-agents did, where that is still to be done."""
        if isinstance(run, KeptRun) and run.joins:
            join(run, run.joins)
            run.joined()

    def _failed(self, run: KeptRun | LooseRun, before: AgentState, error: Exception) -> None:
        """Commit that a step failed; the run stays where it was before it."""
        _dropped(run)
        kind = "effect_unknown" if isinstance(error, EffectUnknown) else "error"
        trace = "".join(traceback.format_exception(error))[-_TELL_LETTERS:]
        told = {"error": f"{type(error).__name__}: {error}", "iteration": before.iteration}
        run.note(kind, f"step {before.iteration + 1} failed", **told, traceback=trace)
        error.add_note(f"session {run.session} stays at step {before.iteration}: run it again")

    # Small things

    def _open(self, session: str) -> KeptRun | LooseRun:
        where = self.where
        if where is None or isinstance(where, Live):
            return LooseRun(where, self.name)
        if isinstance(where, Versioned):
            if session not in (MAIN, where.session):
                raise Invalid(f"this is session {where.session}", hint="give a repo for others")
            return KeptRun(where, self.name)
        if not isinstance(where, Repo):
            where = self.where = Home(as_store(where))
        return KeptRun(Versioned(where, session=session), self.name)


def _dropped(run: KeptRun | LooseRun) -> None:
    """Drop what a step has staged before it failed."""
    if isinstance(run.state, Versioned):
        run.state.discard()
        run.state.refresh()
