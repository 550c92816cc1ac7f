"""Task: a typed function without a body, which an agent carries out.

A call that was cut off goes on when it is made again, with the same arguments in the same state. So
it must be known whether one that is over was cut off, too: between its last commit and its return.
That its result was handed over is committed; whoever asks after that begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from otolith.agent.live import Live
from otolith.agent.loop.acting import Acting
from otolith.agent.loop.coding import Inputs
from otolith.agent.loop.looking import MAIN
from otolith.agent.loop.outcome import Outcome
from otolith.agent.loop.prompting import prompt_of
from otolith.agent.loop.signature import Signature, fitted, plain
from otolith.agent.session import Versioned
from otolith.errors import BadReply, Busy, Invalid, TimedOut

R = TypeVar("R")
_STATE = "state"


class Does(Protocol):
    """An agent, as far as a task needs to know it."""

    @property
    def limits(self) -> dict[str, Any]: ...
    def acting(
        self, state: Any = None, *, result: Any = str, inputs: dict[str, Any] | Inputs | None = None
    ) -> Acting: ...
    def doing(self, acting: Acting) -> AbstractContextManager[Acting]: ...


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

    def acting(self, state: Any = None, *, inputs: dict[str, Any] | None = None) -> Acting:
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


def _handed_over(outcome: Outcome, acting: Acting, session: str) -> Outcome:
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
