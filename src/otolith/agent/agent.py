"""Agent: a model, its tools, and what it is asked to do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, Unpack, overload

from otolith.agent.loop.acting import Acting, Acts
from otolith.agent.loop.coding import Inputs
from otolith.agent.loop.ledger import Entry
from otolith.agent.loop.looking import MAIN
from otolith.agent.loop.models.model import Model, OnText, as_model
from otolith.agent.loop.outcome import Outcome
from otolith.agent.loop.state import AgentState
from otolith.agent.loop.task import Task
from otolith.agent.loop.tools import Tool, Toolbox
from otolith.agent.session import Versioned
from otolith.core import Target
from otolith.errors import Invalid

R = TypeVar("R")


class Parts(TypedDict, total=False):
    """What of an agent has defaults; see `Acting`."""

    can_ask: bool
    human: Callable[[str], str | None] | None
    max_repairs: int
    context_tokens: int | None
    on_text: OnText | None
    on_step: Callable[[AgentState], None] | None
    progress: bool | None


class Agent:
    """Something that acts: `Agent(model=…)`, then `@agent.tool` and `@agent.task`."""

    def __init__(
        self,
        model: Model | Callable[..., Any],
        *,
        name: str = MAIN,
        instructions: str = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        acts: Acts = "tools",
        max_steps: int | None = 50,
        max_seconds: float | None = None,
        **parts: Unpack[Parts],
    ) -> None:
        """Make one.

        It acts by calling tools, or by writing code (`acts="code"`) that runs in the workspace of
        the state. `can_ask` lets the model ask the user: `human` answers, or the run pauses.
        `context_tokens` is how much of a conversation a model is given.
        """
        if acts not in ("tools", "code"):
            raise Invalid(f"acts={acts!r}", hint='use "tools" or "code"')
        self.model = as_model(model)
        self.name = name
        self.tools = Toolbox(tools)
        self._limits: dict[str, Any] = {"max_steps": max_steps, "max_seconds": max_seconds}
        self._acts = acts
        self._parts: dict[str, Any] = dict(parts)
        self._parts["can_ask"] = parts.get("can_ask", "human" in parts)
        self._instructions = instructions
        self._under_way: list[Acting] = []

    def __repr__(self) -> str:
        return f"<Agent {self.name} of {self.model.name}, {len(self.tools)} tools>"

    @overload
    def tool(self, function: Callable[..., Any]) -> Tool: ...
    @overload
    def tool(self, **settings: Any) -> Callable[[Callable[..., Any]], Tool]: ...
    def tool(self, function: Any = None, **settings: Any) -> Any:
        """Let the model call a function: `@agent.tool` or `@agent.tool(effects="once")`."""
        if function is None:
            return lambda found: self.tools.add(Tool(found, **settings))
        return self.tools.add(Tool(function, **settings))

    @overload
    def task(self, function: Callable[..., R]) -> Task[R]: ...
    @overload
    def task(self) -> Callable[[Callable[..., R]], Task[R]]: ...
    def task(self, function: Any = None) -> Any:
        """Make a task of a function: inputs and result by its types, the docstring says what."""
        return Task(self, function) if function is not None else lambda found: Task(self, found)

    def acting(
        self,
        state: Any = None,
        *,
        result: Any = str,
        inputs: dict[str, Any] | Inputs | None = None,
        model: Model | None = None,
    ) -> Acting:
        """Return what runs this agent in a state, a repo or a store."""
        where = Versioned() if state is None and self._acts == "code" else state
        made = Acting(
            where,
            instructions=self._instructions,
            result=result,
            acts=self._acts,
            inputs=inputs,
            model=self.model if model is None else model,
            tools=self.tools.values(),
            name=self.name,
            **self._parts,
        )
        made.code = "Agent"
        return made

    def run(
        self,
        input: str | None = None,
        state: Any = None,
        *,
        session: str = MAIN,
        answer: str | None = None,
        again: bool = False,
        **limits: Any,
    ) -> Outcome:
        """Let the agent answer a request in words, in a state, a repo or a store.

        See `Orchestrator.run`: the same request goes on with what it began, or returns how that
        ended, unless it is to be done `again`; `answer` is for a run that waits for one.
        """
        with self.doing(self.acting(state)) as acting:
            return acting.run(
                input, session=session, answer=answer, again=again, **{**self._limits, **limits}
            )

    @property
    def limits(self) -> dict[str, Any]:
        """How many steps and seconds a task may take."""
        return dict(self._limits)

    @contextmanager
    def doing(self, acting: Acting) -> Iterator[Acting]:
        """Let `stop` reach what runs meanwhile."""
        self._under_way.append(acting)
        try:
            yield acting
        finally:
            self._under_way.remove(acting)

    # What a user decides; see `Orchestrator`

    def stop(self) -> None:
        """Let all that this agent does end before its next step; from any thread."""
        for acting in list(self._under_way):
            acting.stop()

    def abandon(self, state: Any, *, session: str = MAIN, why: str = "abandoned") -> None:
        """End a task that is not over, so that the session is free for another one."""
        self.acting(state).abandon(session, why)

    def unknown_effects(self, state: Any, *, session: str = MAIN) -> list[Entry]:
        """Return the calls of which nobody knows whether they happened."""
        return self.acting(state).unknown_effects(session)

    def settle(
        self, key: str, state: Any, *, happened: bool, result: Any = None, session: str = MAIN
    ) -> None:
        """Decide about a call of which nobody knows whether it happened."""
        self.acting(state).settle(key, happened=happened, result=result, session=session)

    def rollback(self, target: Target, state: Any, *, session: str = MAIN) -> list[Entry]:
        """Go back to an earlier commit; return the effects since, which stay in the world."""
        return self.acting(state).rollback(target, session=session)
