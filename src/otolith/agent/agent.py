"""Agent: a model, its tools, and what it is asked to do with them.

Task: a typed function without a body, which an agent carries out.

A call that was cut off goes on when it is made again, with the same arguments in the same state. So
it must be known whether one that is over was cut off, too: between its last commit and its return.
That its result was handed over is committed; whoever asks after that begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from otolith.agent.invocation import Outcome
from otolith.agent.ledger import Entry
from otolith.agent.model_step import Acts, Inputs, ModelOrchestrator, prompt_of
from otolith.agent.models.base import Model, OnText, as_model
from otolith.agent.run_store import MAIN
from otolith.agent.state import AgentState
from otolith.agent.tools import Signature, Tool, Toolbox, fitted, plain
from otolith.core import Target
from otolith.errors import BadReply, Busy, Invalid, TimedOut
from otolith.session import Versioned
from otolith.state.live import Live

R = TypeVar("R")
_STATE = "state"


class Does(Protocol):
    """An agent, as far as a task needs to know it."""

    @property
    def limits(self) -> dict[str, Any]: ...
    def acting(
        self, state: Any = None, *, result: Any = str, inputs: dict[str, Any] | Inputs | None = None
    ) -> ModelOrchestrator: ...
    def doing(self, acting: ModelOrchestrator) -> AbstractContextManager[ModelOrchestrator]: ...


class Task(Generic[R]):
    """A function whose body is an agent."""

    def __init__(self, agent: Does, function: Callable[..., R]) -> None:
        """Make one.

        Raises:
            Invalid: it has no docstring, or its types cannot be given to a model.
        """
        self.agent = agent
        self.signature = Signature(function, hidden=frozenset({_STATE}), is_filled=False)
        self.name = self.signature.name
        self.__doc__ = function.__doc__
        self.__name__ = self.name
        self.__wrapped__ = function
        if not self.signature.text:
            raise Invalid(f"{self.name} does not say what to do", hint="give it a docstring")

    def __call__(self, *args: Any, state: Live | Versioned | None = None, **kwargs: Any) -> R:
        """Let the agent do it, and return the result.

        `state=` is where it remembers: None, `Live()`, or a `Versioned` in which each step is a
        commit, and a call that was cut off goes on when it is made again.

        Raises:
            BadReply: the model gave nothing that fits the result type.
            TimedOut: it reached a limit; the same call goes on.
            Busy: it waits for a person; see `run`.
        """
        outcome = self.run(*args, state=state, **kwargs)
        if outcome.ended == "done":
            found: R = self._result(outcome.answer)
            return found
        if outcome.ended == "error":
            raise BadReply(f"{self.name}: {outcome.error}", hint="see the events of the state")
        if outcome.ended == "paused":
            raise Busy(f"{self.name} waits for an answer: {outcome.question}", hint="use .resume")
        raise TimedOut(
            f"{self.name} ended after {outcome.steps} steps ({outcome.ended})",
            hint="the same call goes on where it was, if its state has history",
        )

    def run(self, *args: Any, state: Live | Versioned | None = None, **kwargs: Any) -> Outcome:
        """Let the agent do it; return how it came to rest, whatever that is."""
        _check_state(state)
        inputs = self.signature.named(*args, **kwargs)
        prompt = self.prompt(inputs)
        acting, session = self.acting(state, inputs=inputs), _session(state)
        # A process that died with the result in its hands is not known to have given it to anybody.
        again = acting.is_handed_over(session)
        with self.agent.doing(acting):
            outcome = acting.run(prompt, session=session, again=again, **self.agent.limits)
        return _handed_over(outcome, acting, session)

    def resume(self, state: Any, answer: str | None = None) -> Outcome:
        """Go on with a call that paused, was stopped or reached a limit."""
        session = _session(state)
        with self.agent.doing(self.acting(state)) as acting:
            outcome = acting.resume(session, answer, **self.agent.limits)
        return _handed_over(outcome, acting, session)

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain data as the arguments that the task is annotated with.

        Raises:
            BadValue: one does not fit; the message says which.
            Invalid: it takes what no plain data can be made into.
        """
        return Signature(self.__wrapped__, hidden=frozenset({_STATE})).arguments(given)

    def prompt(self, inputs: dict[str, Any]) -> str:
        """Return what the model is told: what to do, and with what."""
        return prompt_of(self.signature.text, self.name, plain(inputs))

    def acting(
        self, state: Any = None, *, inputs: dict[str, Any] | None = None
    ) -> ModelOrchestrator:
        """Return what runs this task in a state, a repo or a store.

        Without `inputs`, a call that was begun goes on with what its prompt tells of them.
        """
        given = self._told_inputs if inputs is None else inputs
        made = self.agent.acting(state, result=self._kind, inputs=given)
        made.code = self.name
        return made

    def _told_inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return inputs as what they were, which only their types can say."""
        untyped = [name for name in given if not self.signature.is_typed(name)]
        if untyped:
            raise Invalid(f"{', '.join(untyped)} could be anything", hint="annotate it")
        return self.inputs(given)

    @property
    def _kind(self) -> Any:
        kind = self.signature.result
        return Any if kind is None or kind is type(None) else kind

    def _result(self, answer: Any) -> Any:
        return answer if self._kind is Any else fitted(answer, self._kind, what="the result")


def _handed_over(outcome: Outcome, acting: ModelOrchestrator, session: str) -> Outcome:
    if outcome.state.is_over and not acting.is_handed_over(session):
        acting.hand_over(session)
    return outcome


def _check_state(state: object) -> None:
    if state is not None and not isinstance(state, Live | Versioned):
        raise Invalid(
            f"a {type(state).__name__} is no state", hint="use None, Live() or Versioned(…)"
        )


def _session(state: object) -> str:
    return state.session if isinstance(state, Versioned) else MAIN


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
        self._under_way: list[ModelOrchestrator] = []

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
    ) -> ModelOrchestrator:
        """Return what runs this agent in a state, a repo or a store."""
        where = Versioned() if state is None and self._acts == "code" else state
        made = ModelOrchestrator(
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
    def doing(self, acting: ModelOrchestrator) -> Iterator[ModelOrchestrator]:
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
