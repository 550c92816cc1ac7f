"""Agent: a model with tools; Task: a typed function without a body that an agent carries out.

A call of a task that was cut off resumes when it is made again, with the same arguments in the same
state. A process can also die between the last commit of a run and the return of its result. So that
a finished call is not mistaken for a new one, the return is committed too: the same call begins a
new run only after the result of the last one was returned.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from otolith.agent.flow_tasks import run_agent, with_feedback
from otolith.agent.ledger import LedgerEntry
from otolith.agent.model_step import ActionMode, InputLoader, ModelOrchestrator, task_prompt
from otolith.agent.models.base import Model, OnText, as_model
from otolith.agent.run_store import MAIN
from otolith.agent.state import AgentState, Outcome
from otolith.agent.tools import PlainForm, Signature, Tool, Toolbox, convert, to_plain
from otolith.core import Target
from otolith.errors import BadReply, Busy, Invalid, TimedOut
from otolith.flows import TaskContext
from otolith.live import Live
from otolith.profiles import Profile
from otolith.session import Versioned
from otolith.shapes import NOTHING, check_argument

R = TypeVar("R")
_STATE = "state"


class AgentOptions(TypedDict, total=False):
    """The options of an agent that have defaults; see `ModelOrchestrator`."""

    can_ask: bool
    human: Callable[[str], str | None] | None
    max_repairs: int
    context_tokens: int | None
    profile: Profile | None
    profile_tokens: int
    on_text: OnText | None
    on_step: Callable[[AgentState], None] | None
    progress: bool | None


class Agent:
    """A model that acts: `Agent(model=…)`, then `@agent.tool` and `@agent.task`."""

    def __init__(
        self,
        model: Model | Callable[..., Any],
        *,
        name: str = MAIN,
        instructions: str = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        acts: ActionMode = "tools",
        max_steps: int | None = 50,
        max_seconds: float | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        """Make an agent.

        It acts by calling tools, or by writing code (`acts="code"`) that runs in the workspace of
        the state. `can_ask` lets the model ask the user: `human` answers, or the run pauses.
        `context_tokens` limits how much of a conversation is sent to the model. `profile` is that
        of the user: the model is told of it in `profile_tokens`, and what the user says is learned.
        """
        if acts not in ("tools", "code"):
            raise Invalid(f'acts must be "tools" or "code", got {acts!r}')
        _check_options(options)
        check_argument(name, "name", str, "a text")
        check_argument(instructions, "instructions", str, "a text")
        check_argument(max_steps, "max_steps", (int, NOTHING), "a whole number, or None")
        check_argument(max_seconds, "max_seconds", (float, NOTHING), "a number, or None")
        self.model = as_model(model)
        self.name = name
        self.tools = Toolbox(tools)
        self._limits: dict[str, Any] = {"max_steps": max_steps, "max_seconds": max_seconds}
        self._acts = acts
        self._options: dict[str, Any] = {"can_ask": "human" in options, **options}
        self._instructions = instructions
        self._running: list[ModelOrchestrator] = []

    def __repr__(self) -> str:
        return f"<Agent {self.name} of {self.model.name}, {len(self.tools)} tools>"

    @overload
    def tool(self, function: Callable[..., Any], **settings: Any) -> Tool: ...
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
        """Make a task of a function: its types give inputs and result, its docstring the task."""
        return Task(self, function) if function is not None else lambda found: Task(self, found)

    def orchestrator(
        self,
        state: Any = None,
        *,
        result: Any = str,
        inputs: dict[str, Any] | InputLoader | None = None,
        model: Model | None = None,
    ) -> ModelOrchestrator:
        """Return an orchestrator that runs this agent in a state, a repo or a store."""
        if isinstance(result, str) and not result:
            raise Invalid("result must be a type, got ''", hint="use result=str for a text")
        made = ModelOrchestrator(
            Versioned() if state is None and self._acts == "code" else state,
            instructions=self._instructions,
            result=result,
            acts=self._acts,
            inputs=inputs,
            model=self.model if model is None else model,
            tools=self.tools.values(),
            name=self.name,
            **self._options,
        )
        made.code_name = "Agent"
        return made

    def run(
        self,
        input: str | None = None,
        state: Any = None,
        *,
        session: str = MAIN,
        answer: str | None = None,
        to: str | None = None,
        again: bool = False,
        **limits: Any,
    ) -> Outcome:
        """Answer a request in words, in a state, a repo or a store.

        See `Orchestrator.run`: the same request resumes the task that it began, or returns its
        outcome, unless `again` begins it again; `answer` is for a run that waits for one, `to` the
        id of its question.
        """
        limits = {**self._limits, **limits}
        with self.stoppable(self.orchestrator(state)) as runner:
            return runner.run(input, session=session, answer=answer, to=to, again=again, **limits)

    def run_in_task(self, task: TaskContext, arguments: Mapping[str, Any]) -> Any:
        """Answer a request in a task of a flow: `task.call(agent, input=…)`."""
        check_argument(task, "task", TaskContext, "the context of a task")
        check_argument(arguments, "arguments", Mapping, "arguments by name")
        return self.orchestrator().run_in_task(task, arguments, **self._limits)

    @property
    def limits(self) -> dict[str, Any]:
        """The default `max_steps` and `max_seconds` of a run."""
        return dict(self._limits)

    @contextmanager
    def stoppable(self, runner: ModelOrchestrator) -> Iterator[ModelOrchestrator]:
        """Return a context in which `stop` of this agent stops an orchestrator."""
        self._running.append(runner)
        try:
            yield runner
        finally:
            self._running.remove(runner)

    # Decided by the user; see `Orchestrator`

    def stop(self) -> None:
        """End all runs of this agent before their next step; from any thread."""
        for runner in list(self._running):
            runner.stop()

    def abandon(self, state: Any, *, session: str = MAIN, why: str = "abandoned") -> None:
        """End a task that is not over, so that the session is free for another one."""
        self.orchestrator(state).abandon(session, why)

    def unknown_effects(self, state: Any, *, session: str = MAIN) -> list[LedgerEntry]:
        """Return the calls that may have happened or not."""
        return self.orchestrator(state).unknown_effects(session)

    def settle(
        self, key: str, state: Any, *, happened: bool, result: Any = None, session: str = MAIN
    ) -> None:
        """Decide whether a call has happened whose outcome is unknown."""
        self.orchestrator(state).settle(key, happened=happened, result=result, session=session)

    def rollback(self, target: Target, state: Any, *, session: str = MAIN) -> list[LedgerEntry]:
        """Go back to an earlier commit; return the later effects, which stay in the world."""
        return self.orchestrator(state).rollback(target, session=session)


class Task(Generic[R]):
    """A function whose body is an agent."""

    def __init__(self, agent: Agent, function: Callable[..., R]) -> None:
        """Make a task of a function with a docstring.

        Raises:
            Invalid: it has no docstring, or its signature cannot be read.
        """
        self.agent = agent
        self.signature = Signature(function, hidden=frozenset({_STATE}), for_model=False)
        self.name = self.signature.name
        self.__doc__ = function.__doc__
        self.__name__ = self.name
        self.__qualname__ = getattr(function, "__qualname__", self.name)
        self.__module__ = getattr(function, "__module__", __name__)
        self.__wrapped__ = function
        if not self.signature.text:
            raise Invalid(f"{self.name} does not say what to do", hint="give it a docstring")
        kind = self.signature.result
        self._result_type = Any if kind is None or kind is type(None) else kind

    def __repr__(self) -> str:
        return f"<Task {self.name} of {self.agent.name}>"

    def __call__(self, *args: Any, state: Live | Versioned | None = None, **kwargs: Any) -> R:
        """Let the agent do the task, and return the result.

        `state=` is where the run is stored: None, `Live()`, or a `Versioned` in which each step is
        a commit, and a call that was cut off resumes when it is made again.

        Raises:
            BadReply: the model gave no valid result.
            TimedOut: a limit was reached; the same call resumes.
            Busy: it waits for a person; see `resume`.
        """
        outcome = self.run(*args, state=state, **kwargs)
        if outcome.ended == "done":
            return self._typed(outcome.answer)
        if outcome.ended == "error":
            raise BadReply(f"{self.name}: {outcome.error}", hint="see the events of the state")
        if outcome.ended == "paused":
            raise Busy(f"{self.name} waits for an answer: {outcome.question}", hint="use .resume")
        raise TimedOut(
            f"{self.name} ended after {outcome.steps} steps ({outcome.ended})",
            hint="the same call resumes it, if its state has history",
        )

    def _typed(self, answer: Any) -> R:
        """Return an answer as what the function says that it returns."""
        if self._result_type is not Any:
            answer = convert(answer, self._result_type, what="the result")
        result: R = answer
        return result

    def run_in_task(self, task: TaskContext, arguments: Mapping[str, Any]) -> R:
        """Let the agent do it as a task of a flow, or as a part of one: `task.call(book, …)`."""
        inputs = self.signature.bind(**arguments)
        own = "" if task.is_of(self) else self.name
        made = self.orchestrator(inputs=inputs)
        with self.agent.stoppable(made):
            return self._typed(
                run_agent(
                    task, made, lambda why: self.prompt(inputs, why), part=own,
                    limits=self.agent.limits,
                )
            )  # fmt: skip

    def code_text(self) -> str:
        """Return what makes it the task that it is, for a flow to tell whether it was edited."""
        parts = [self.signature.text, self.signature.schema, str(self._result_type)]
        return repr([*parts, self.agent.orchestrator().instructions])

    def run(self, *args: Any, state: Live | Versioned | None = None, **kwargs: Any) -> Outcome:
        """Let the agent do the task, and return how it ended."""
        if state is not None and not isinstance(state, Live | Versioned):
            raise Invalid(
                f"state must be None, Live or Versioned, got {type(state).__name__}",
                hint="use None, Live() or Versioned(…)",
            )
        inputs = self.signature.bind(*args, **kwargs)
        runner, session = self.orchestrator(state, inputs=inputs), _session_of(state)
        # A process may have died before it returned the result: then this call returns it.
        again = runner.is_result_returned(session)
        with self.agent.stoppable(runner):
            limits = self.agent.limits
            outcome = runner.run(self.prompt(inputs), session=session, again=again, **limits)
        return _mark_returned(outcome, runner, session)

    def resume(self, state: Any, answer: str | None = None, *, to: str | None = None) -> Outcome:
        """Resume a call that paused, was stopped or reached a limit; see `Orchestrator.run`."""
        session = _session_of(state)
        with self.agent.stoppable(self.orchestrator(state)) as runner:
            outcome = runner.resume(session, answer, to=to, **self.agent.limits)
        return _mark_returned(outcome, runner, session)

    def inputs(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return plain data as the arguments that the task is annotated with.

        Raises:
            BadValue: one does not fit; the message says which.
            Invalid: it takes what no plain data can be made into.
        """
        return Signature(self.__wrapped__, hidden=frozenset({_STATE})).arguments(given)

    def prompt(self, inputs: dict[str, Any], feedback: str = "") -> str:
        """Return the prompt for the model: the task and its inputs."""
        text = with_feedback(self.signature.text, feedback)
        return task_prompt(text, self.name, to_plain(inputs))

    def orchestrator(
        self, state: Any = None, *, inputs: dict[str, Any] | None = None
    ) -> ModelOrchestrator:
        """Return an orchestrator that runs this task in a state, a repo or a store.

        Without `inputs`, a call that has begun resumes with the inputs in its prompt.
        """
        loader = self._inputs_of_prompt if inputs is None else inputs
        made = self.agent.orchestrator(state, result=self._result_type, inputs=loader)
        made.code_name = self.name
        return made

    def _inputs_of_prompt(self, given: dict[str, Any]) -> dict[str, Any]:
        untyped = [name for name in given if not self.signature.has_type(name)]
        if untyped:
            raise Invalid(f"{', '.join(untyped)} could be of any type", hint="annotate it")
        found = self.inputs(given)
        secret = [name for name, value in found.items() if PlainForm(value).has_secret]
        if secret:
            raise Invalid(f"{', '.join(secret)} holds a secret, which is not stored")
        return found


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse an argument that an agent does not have; Python checks only those with a name."""
    arguments = inspect.signature(Agent.__init__).parameters
    known = [each for each in (*arguments, *AgentOptions.__annotations__) if each != "options"]
    for name in options:
        if name not in AgentOptions.__annotations__:
            near = get_close_matches(name, known[1:], n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known[1:])}"
            raise Invalid(f"Agent has no argument {name}", hint=hint)


def _mark_returned(outcome: Outcome, runner: ModelOrchestrator, session: str) -> Outcome:
    if outcome.state.is_over and not runner.is_result_returned(session):
        runner.mark_result_returned(session)
    return outcome


def _session_of(state: object) -> str:
    return state.session if isinstance(state, Versioned) else MAIN
