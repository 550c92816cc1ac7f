"""What a step may use: the state, the model, the tools, and other orchestrators.

A step that was cut off runs again. Here is what makes that harmless: what models said to the same
questions is known, and so is what calls with effects came to.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from otolith.agent.conversation.message import Message, ToolCall
from otolith.agent.live import Live
from otolith.agent.loop.delegating import Runs, delegated
from otolith.agent.loop.hands import Hands
from otolith.agent.loop.loose import LooseRun
from otolith.agent.loop.models.model import Model, OnText, Recorded, Reply, request_hash
from otolith.agent.loop.outcome import Outcome
from otolith.agent.loop.record import Base, KeptRun
from otolith.agent.loop.tools import Tool, Toolbox
from otolith.agent.loop.working import Observation
from otolith.agent.session import Versioned
from otolith.errors import Invalid


class Stopped(BaseException):
    """Ends a step because somebody called `stop`; nobody sees it but the loop."""


class Stepping:
    """What a step may use."""

    model: Model | None
    tools: Toolbox
    name: str
    on_text: OnText | None

    def reset(self) -> None:
        """Forget what runs: for a copy that is to run elsewhere."""
        self.joins: list[str] = []
        """Branches of sub-agents that are merged when the step is committed."""
        self._stop = threading.Event()
        self._run: KeptRun | LooseRun | None = None
        self._base: Base | None = None
        self._hands: Hands | None = None
        self._known: list[Recorded] = []
        self._asked = 0

    def _enter(self, run: KeptRun | LooseRun, iteration: int) -> None:
        self._base = run.base(iteration)
        self._hands = Hands(self.tools, run, self._base)
        self._known, self._asked, self.joins = run.replies(iteration), 0, []

    def _leave(self) -> None:
        self._hands = None

    @property
    def state(self) -> Versioned | Live:
        """The state that the run is kept in; what a step writes there is committed with it."""
        return self._running().state

    def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] | None = None
    ) -> Reply:
        """Ask the model; if this step was cut off after the same question, its answer is known.

        Raises:
            Invalid: there is no model.
        """
        run = self._running()
        if self.model is None:
            raise Invalid("there is no model to ask", hint="give model=")
        offered = list(self.tools.values()) if tools is None else list(tools)
        request, number = request_hash(messages, offered), self._asked
        self._asked += 1
        known = self._known[number] if number < len(self._known) else None
        if known is not None and known.request == request:
            return known.reply
        reply = self.model.complete(messages, tools=offered, on_text=self._text())
        assert self._base is not None
        recorded = Recorded(self._base.iteration, number, request, self.model.name, reply)
        run.record(recorded, self._base)
        return reply

    def call(self, tool: str | ToolCall, /, **arguments: Any) -> Observation:
        """Call a tool by its name, or as a model asked for it; see `hands.py` for how often.

        Raises:
            EffectUnknown: it must not happen twice, was begun, and nobody knows if it happened.
        """
        if self._hands is None:
            raise Invalid("tools are called in a step", hint="call it from step()")
        if isinstance(tool, ToolCall):
            return self._hands.call(tool)
        return self._hands.call(ToolCall(f"{tool}-{self._number()}", tool, arguments))

    def _number(self) -> str:
        assert self._base is not None
        assert self._hands is not None
        return f"{self._base.iteration}-{self._hands.number}"

    def delegate(self, other: Runs, task: str, *, name: str, **limits: Any) -> Outcome:
        """Let another orchestrator do a task on a fork; what it did is merged after this step.

        It is the same fork if the step was cut off and runs again, so that the other goes on too.
        `limits` are those of `run`.

        Raises:
            Unsupported: the state has no history.
        """
        return delegated(self, other, task, name=name, **limits)

    @property
    def base(self) -> Base:
        """The step that is under way."""
        if self._base is None:
            raise Invalid("no step is under way", hint="ask from step()")
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
            if self._stop.is_set():
                raise Stopped
            told(piece)

        return tell

    def _running(self) -> KeptRun | LooseRun:
        if self._run is None:
            raise Invalid("nothing runs", hint="call run() first")
        return self._run
