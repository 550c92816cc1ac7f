"""StepContext: what one step may use, from its begin to its commit.

A step that was cut off runs again. Two things make that harmless: the model's replies to the same
requests are known, and so are the results of calls with effects. `Orchestrator` makes one context
for each step, and its `complete`, `call` and `key` are those of the context.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Callable
from threading import Lock
from typing import Any

from otolith.agent.live_run import AgentRun
from otolith.agent.models.base import (
    Messages,
    Model,
    OnText,
    RecordedReply,
    Reply,
    RequestHasher,
    Tools,
    as_reply,
    validate_reply,
    with_unique_call_ids,
)
from otolith.agent.state import Ended, Observation
from otolith.agent.timeouts import DeadlinePassed, await_if_needed, run_in_thread
from otolith.agent.tool_runner import ToolRunner
from otolith.agent.tools import Toolbox, to_plain
from otolith.conversation import ToolCall
from otolith.errors import ModelFailed

_CUT_OFF = (
    "cut off, not carried out: your answer reached its limit in the middle of its calls;"
    " call again, with shorter arguments or fewer calls in one answer"
)


class RunStopped(BaseException):
    """Ends a step because of `stop()` or because the time is up; only the loop catches it."""

    def __init__(self, ended: Ended = "stopped", why: str = "") -> None:
        super().__init__(ended)
        self.ended: Ended = ended
        self.why = why


class StepContext:
    """The replies, tool calls and sub-agents of one step."""

    def __init__(
        self, run: AgentRun, iteration: int, toolbox: Toolbox, hasher: RequestHasher
    ) -> None:
        self.run = run
        self.base = run.journal.base(iteration)
        self.toolbox = toolbox
        self.tool_runner = ToolRunner(toolbox, run.journal, self.base)
        self.merges: list[str] = []
        """Branches of sub-agents that are merged when the step is committed."""
        self.tasks: dict[str, str] = {}
        """The tasks of the sub-agents of this step, by name."""
        self.answers: dict[str, list[str]] = {}
        """The answers that they were given, by name."""
        self._hasher = hasher
        self._replies = run.journal.replies(iteration)
        self._call_ids: set[str] = set()
        self._cut_off_calls: set[str] | None = None
        self._requests = 0
        self._lock = Lock()  # a step may ask and call from several threads

    def __repr__(self) -> str:
        return f"<StepContext {self.base.iteration} of {self.run!r}>"

    def key(self, *parts: Any) -> str:
        """Return a key for something that this step does: the same each time it runs."""
        return self.run.journal.key(self.base, *parts)

    def call(self, tool: str | ToolCall, /, **arguments: Any) -> Observation:
        """Call a tool by name, or as a model asks for it; see `Orchestrator.call`."""
        if isinstance(tool, ToolCall):
            return self.refused(tool) or self.tool_runner.call(tool)
        self.toolbox.find(tool)  # raises here; a model gets the error as a result instead
        plain = {name: to_plain(value) for name, value in arguments.items()}
        id = f"{tool}-{self.base.iteration}-{self.tool_runner.call_count}"
        return self.tool_runner.call(ToolCall(id, tool, plain), arguments)

    def refused(self, call: ToolCall) -> Observation | None:
        """Return the result of a call that must not be carried out; None if it may be.

        A model that reaches its limit in the middle of a call leaves a call without arguments, or
        with half of them: made with the defaults of the tool, it would be another call.
        """
        if self._cut_off_calls is None:
            self._cut_off_calls = self.run.journal.cut_off_calls(self.base.iteration)
        if call.id not in self._cut_off_calls:
            return None
        now = self.run.journal.now()
        return Observation(call.id, call.name, call.arguments, error=_CUT_OFF, time=now)

    def complete(
        self,
        model: Model,
        messages: Messages,
        tools: Tools,
        *,
        on_text: OnText | None,
        deadline: float | None,
    ) -> Reply:
        """Return the reply of a model, which is on record if the step asked the same before."""
        with self._lock:
            request, number = self._hasher.hash(messages, tools), self._requests
            self._requests += 1
            known = next((each for each in self._replies if each.request == request), None)
            if known is not None:
                self._replies.remove(known)
        if known is not None:
            reply = known.reply
        else:
            reply = complete_by_deadline(model, messages, tools, on_text, deadline)
            prefix = f"{self.base.iteration}-{number}"
            reply = with_unique_call_ids(reply, self._is_taken, prefix)
            record = RecordedReply(self.base.iteration, number, request, model.name, reply)
            self.run.journal.record_reply(record, self.base)
        self._call_ids.update(call.id for call in reply.message.calls)
        if reply.is_cut_off:
            self._cut_off_calls = None  # they are read again
        return reply

    def _is_taken(self, id: str) -> bool:
        return id in self._call_ids or self.run.has_call(id)


def complete_by_deadline(
    model: Model,
    messages: Messages,
    tools: Tools,
    on_text: OnText | None,
    deadline: float | None,
) -> Reply:
    """Return the validated reply of a model; `deadline` is a time of `time.monotonic`.

    With a deadline the model runs in a thread, which is abandoned when the time is up.

    Raises:
        RunStopped: the time is up.
        BadReply: the reply is not valid.
    """

    def ask(on_text: OnText | None) -> Reply:
        try:  # a user's model may return anything, also a coroutine
            answer = await_if_needed(model.complete(messages, tools=tools, on_text=on_text))
        except CancelledError as error:  # not an Exception, so that it would not be recorded
            raise ModelFailed("the model was cancelled", hint="run it again") from error
        return validate_reply(as_reply(answer))

    if deadline is None:
        return ask(on_text)
    work: Callable[[OnText], Reply] = ask if on_text is not None else lambda _: ask(None)
    try:
        seconds = deadline - time.monotonic()
        return run_in_thread(work, name="model", seconds=seconds, on_text=on_text)
    except DeadlinePassed:
        raise RunStopped("seconds", getattr(model, "retry_reason", "")) from None
