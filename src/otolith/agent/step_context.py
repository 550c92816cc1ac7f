"""What a step may use: the state, the model, the tools, and other orchestrators.

A step that was cut off runs again. Here is what makes that harmless: what models said to the same
questions is known, and so is what calls with effects came to.

Asking a model within a time: nobody waits for one that hangs.

With a deadline the model is asked in a thread of its own, which is left behind when its time is up
and ends with the process. What it says is handed on in the thread that asked.
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from otolith.agent.invocation import Ended, Outcome
from otolith.agent.live_run import LiveRun
from otolith.agent.models.base import (
    Model,
    OnText,
    Recorded,
    Reply,
    Requests,
    checked,
    reply_of,
    with_own_ids,
)
from otolith.agent.run_store import Base, StoredRun
from otolith.agent.state import Observation
from otolith.agent.subagents import Runs, run_subagent
from otolith.agent.timeouts import await_if_needed
from otolith.agent.tool_runner import ToolRunner
from otolith.agent.tools import Tool, Toolbox, plain
from otolith.conversation.message import Message, ToolCall
from otolith.errors import Invalid, ModelFailed, Unsupported
from otolith.session import Versioned
from otolith.state.live import Live


class Stopped(BaseException):
    """Ends a step that is to end: somebody called `stop`, or its time is up; only loops see it."""

    def __init__(self, ended: Ended = "stopped", why: str = "") -> None:
        super().__init__(ended)
        self.ended: Ended = ended
        self.why = why


def complete_by_deadline(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    on_text: OnText | None,
    deadline: float | None,
) -> Reply:
    """Return what a model answers, checked; `deadline` is a time of `time.monotonic`.

    Raises:
        Stopped: the time is up.
        BadReply: it is no answer.
    """

    def ask(tell: OnText | None) -> Reply:
        # The word of a protocol is not proof: a user's model may return anything, or a coroutine.
        try:
            return checked(
                reply_of(await_if_needed(model.complete(messages, tools=tools, on_text=tell)))
            )
        except CancelledError as error:  # no Exception, so that nobody would record it
            raise ModelFailed("the model was cancelled", hint="run it again") from error

    if deadline is None:
        return ask(on_text)
    try:
        return _asked_aside(ask, on_text, deadline)
    except Stopped as stop:
        stop.why = getattr(model, "trouble", "")
        raise


def _asked_aside(
    ask: Callable[[OnText | None], Reply], on_text: OnText | None, deadline: float
) -> Reply:
    told: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    is_left = threading.Event()

    def tell(piece: str) -> None:
        if is_left.is_set():
            raise Stopped
        told.put(("text", piece))

    def work() -> None:
        try:
            told.put(("reply", ask(None if on_text is None else tell)))
        except BaseException as error:  # noqa: BLE001  # handed over to the thread that waits
            told.put(("error", error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="otolith model", daemon=True).start()
    try:
        return _heard(told, on_text, deadline)
    finally:
        is_left.set()


def _heard(
    told: queue.SimpleQueue[tuple[str, Any]], on_text: OnText | None, deadline: float
) -> Reply:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Stopped("seconds")
        try:
            kind, said = told.get(timeout=left)
        except queue.Empty:
            continue
        if kind == "error":
            raise said
        if kind == "reply":
            reply: Reply = said
            return reply
        assert on_text is not None
        on_text(said)


_IN_A_STEP = "call it from step(self, s), or from step=function(orchestrator, s), on that one"


@runtime_checkable
class Acts(Protocol):
    """Something that can be made to run: an agent."""

    def acting(self, state: Any = None) -> Any: ...


class StepContext:
    """What a step may use."""

    model: Model | None
    tools: Toolbox
    name: str
    on_text: OnText | None

    def reset(self) -> None:
        """Forget what runs: for a copy that is to run elsewhere."""
        self.joins: list[str] = []
        """Branches of sub-agents that are merged when the step is committed."""
        self.above: StepContext | None = None
        """The orchestrator whose step this one is part of."""
        self.recast: Callable[[Any], None] | None = None
        """What is done to sub-agents before they run: a replay gives them their record."""
        self._is_running = threading.Lock()
        self._counting = threading.Lock()  # a step may ask and call from several threads
        self._stop = threading.Event()
        self._deadline: float | None = None
        self._run: StoredRun | LiveRun | None = None
        self._base: Base | None = None
        self._hands: ToolRunner | None = None
        self._known: list[Recorded] = []
        self._ids: set[str] = set()
        self._tasks: dict[str, str] = {}
        self._answers: dict[str, list[str]] = {}
        self._asked = 0
        self._requests = Requests()

    def _enter(self, run: StoredRun | LiveRun, iteration: int) -> None:
        self._base = run.base(iteration)
        self._hands = ToolRunner(self.tools, run, self._base)
        self._known, self._asked, self.joins = run.replies(iteration), 0, []
        self._ids, self._tasks, self._answers = set(), {}, {}

    def _leave(self) -> ToolRunner | None:
        hands, self._hands, self._base = self._hands, None, None
        return hands

    @property
    def is_stopping(self) -> bool:
        """Whether somebody called `stop`, here or above: long steps may look."""
        return self._stop.is_set() or (self.above is not None and self.above.is_stopping)

    @property
    def _seconds_left(self) -> float | None:
        """How much of `max_seconds` is left; None if there is no limit."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    @property
    def state(self) -> Versioned | Live:
        """The state that the run is kept in; what a step writes there is committed with it."""
        return self._running().state

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] | None = None
    ) -> Reply:
        """Ask the model; if this step was cut off after the same question, its answer is known.

        It is not waited for longer than `max_seconds` of the run.

        Raises:
            Invalid: there is no model.
            BadReply: what it answered is no answer.
        """
        run, base = self._running(), self.base
        if self.model is None:
            raise Invalid("there is no model to ask", hint="give model=")
        offered = list(self.tools.values()) if tools is None else list(tools)
        with self._counting:
            request, number = self._requests.name(messages, offered), self._asked
            self._asked += 1
            known = next((each for each in self._known if each.request == request), None)
            if known is not None:
                self._known.remove(known)
                return self._noted(known.reply)
        said = complete_by_deadline(self.model, messages, offered, self._text(), self._deadline)
        reply = with_own_ids(said, self._is_taken, f"{base.iteration}-{number}")
        run.record(Recorded(base.iteration, number, request, self.model.name, reply), base)
        return self._noted(reply)

    def _is_taken(self, id: str) -> bool:
        return id in self._ids or self._running().has_call(id)

    def _noted(self, reply: Reply) -> Reply:
        self._ids.update(call.id for call in reply.message.calls)
        return reply

    def call(self, tool: str | ToolCall, /, **arguments: Any) -> Observation:
        """Call a tool by its name, or as a model asked for it; see `tool_runner.py` for how often.

        Raises:
            KeyNotFound: there is no tool of this name.
            EffectUnknown: it must not happen twice, was begun, and nobody knows if it happened.
            Busy: another process is in the middle of it.
        """
        if self._hands is None:
            raise Invalid("tools are called in a step", hint=_IN_A_STEP)
        if isinstance(tool, ToolCall):
            return self._hands.call(tool)
        self.tools.find(tool)  # who writes the step should know; a model is told what there is
        given = {name: plain(value) for name, value in arguments.items()}
        return self._hands.call(ToolCall(f"{tool}-{self._number()}", tool, given))

    def _number(self) -> str:
        assert self._base is not None
        assert self._hands is not None
        return f"{self._base.iteration}-{self._hands.number}"

    def delegate(
        self,
        other: Runs | Acts,
        task: str,
        *,
        name: str,
        answer: str | None = None,
        **limits: Any,
    ) -> Outcome:
        """Let another orchestrator do a task on a fork; what it did is merged after this step.

        The other is an orchestrator or an agent. It is the same fork if the step was cut off and
        runs again, so that the other goes on too. `limits` are those of `run`, and `answer` is for
        one that waits for a person. It ends with this run: when this one is stopped or out of time,
        so is the other.

        Raises:
            Unsupported: the state has no history.
        """
        if name == self.name or self._tasks.setdefault(name, task) != task:
            raise Invalid(
                f"{name} has another task in this step",
                hint="give each sub-agent a name of its own",
            )
        left, given = self._seconds_left, limits.get("max_seconds")
        if left is not None:
            limits["max_seconds"] = max(0.0, left if given is None else min(left, given))
        told = self._answers.setdefault(name, [])
        told += [] if answer is None else [answer]
        runs: Any = other.acting() if isinstance(other, Acts) else other
        branch = self._fork_for(name)
        outcome = run_subagent(self, runs, task, name=name, branch=branch, answers=told, **limits)
        if outcome.ended == "stopped" and self.is_stopping:
            raise Stopped
        left = self._seconds_left
        if outcome.ended == "seconds" and left is not None and left <= 0:
            raise Stopped("seconds")
        return outcome

    def _fork_for(self, name: str) -> tuple[str, str]:
        """Return the branch for a sub-agent of this step: the same if the step runs again."""
        run = self._running()
        if not isinstance(run, StoredRun) or not self.base.commit:
            raise Unsupported(
                "there is no history to fork", hint="give a store or a Versioned state"
            )
        return run.fork(name, self.base)

    @property
    def base(self) -> Base:
        """The step that is under way."""
        if self._base is None:
            raise Invalid("no step is under way", hint=_IN_A_STEP)
        return self._base

    def key(self, *parts: Any) -> str:
        """Return a name for something this step does: the same if it is done again."""
        return self._running().key(self.base, *parts)

    def now(self) -> int:
        """Return the time, in microseconds since 1970."""
        return self._running().now()

    def _text(self) -> OnText | None:
        if self.on_text is None:
            return None
        told = self.on_text

        def tell(piece: str) -> None:
            if self.is_stopping:
                raise Stopped
            told(piece)

        return tell

    def _running(self) -> StoredRun | LiveRun:
        if self._run is None:
            raise Invalid("nothing runs", hint="call run() first")
        return self._run
