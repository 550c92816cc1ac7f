"""Tasks of flows that are agents, calls of tools, and steps of code.

    @flow.task(after="search")      # an agent is the task
    @agent.task
    def book(search: list[str]) -> str: ...

    @flow.task
    def pay(task, book):            # a task that calls a tool with an effect, and an agent
        return task.call(charge, amount=3), task.call(write, about=book)

Rules
1. An agent works on the branch of the task (`TaskContext.branch`): its steps are commits there,
   and they are merged in the commit that has the result. So several of them run beside each other,
   and one that is refused leaves nothing in the run but its effects.
2. Its run has the name of the flow's run and of the task. On a new branch it begins; on one that is
   there already, since its process died, it resumes. `flow` in the journal tells the two apart.
3. After an attempt that failed, the agent goes on with the conversation of that attempt, and is
   told why. A run that is over went wrong as a whole: its branch is closed, and merged into the
   next, where what others have done since wins. One that is not over resumes where it was.
4. A question pauses the agent, and makes the task wait; the answer resumes both.
5. A call of a tool with effects is in the ledger of the branch of the run, at once. Its key is that
   of the piece of work: the same for all attempts, and on all branches.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from otolith.agent.history import RUNS, effective_history
from otolith.agent.journal import Journal, StepBase, head_value, value_at
from otolith.agent.ledger import LedgerEntry, call_key
from otolith.agent.state import AgentState, Outcome
from otolith.agent.timeouts import call_with_retries
from otolith.agent.tool_runner import ToolRunner
from otolith.agent.tools import KEY_PARAMETER, Tool, Toolbox, canonical_bytes, to_plain
from otolith.conversation import ToolCall
from otolith.core import WORKSPACE, Commit, digest
from otolith.errors import (
    BadReply,
    EffectUnknown,
    Invalid,
    NotFound,
    StepFailed,
    TimedOut,
    Unavailable,
)
from otolith.flows import TaskContext
from otolith.frozen import thaw
from otolith.owners import register_owner
from otolith.session import Versioned
from otolith.shapes import NOTHING, check_argument
from otolith.workspace import Runner

_BEGUN = "flow"
_STEP_ID = "step_id"
_MOST_SAME_QUESTIONS = 3
_NOT_IN_NAME = re.compile(r"[/.]")


class _Runner(Protocol):
    """An orchestrator, as it is used here."""

    on_step: Callable[[AgentState], None] | None
    code_name: str

    def copy_for(self, state: Versioned, name: str) -> Self: ...
    def load(self, session: str) -> AgentState | None: ...
    def run(
        self,
        input: str | None = None,
        *,
        session: str,
        answer: str | None = None,
        to: str | None = None,
        again: bool = False,
        max_steps: int | None = 50,
        max_seconds: float | None = None,
    ) -> Outcome: ...
    def abandon(self, session: str, why: str) -> None: ...
    def stop(self) -> None: ...


def run_agent(
    task: TaskContext,
    made: _Runner,
    request: Callable[[str], str],
    *,
    part: str = "",
    limits: Mapping[str, Any],
) -> Any:
    """Let an agent do a part of a task, or all of it, and return its answer.

    `request` returns what it is asked for, given why the last attempt was not good enough.

    Raises:
        BadReply: the model gave no valid result.
        TimedOut: a limit was reached; the next attempt resumes.
    """
    state = task.branch()
    runner = made.copy_for(state, _run_name(task, part))
    return _AgentPart(task, state, runner).run(request, limits)


class _AgentPart:
    """The run of an agent on the branch of a task."""

    def __init__(self, task: TaskContext, state: Versioned, runner: Any) -> None:
        self._task = task
        self._state = state
        self._runner: _Runner = runner
        self._name: str = runner.name
        self._session = state.session

    def run(self, request: Callable[[str], str], limits: Mapping[str, Any]) -> Any:
        """Begin or resume it, and return its answer."""
        self._task.here.resumes = True
        is_new = self._is_new(request(""))
        self._runner.on_step = self._stop_if_cancelled(self._runner.on_step)
        prompt = request(self._task.feedback) if is_new else None
        outcome = self._runner.run(prompt, session=self._session, again=is_new, **limits)
        for _ in range(_MOST_SAME_QUESTIONS):
            if outcome.ended != "paused":
                break
            answer = str(self._task.ask(outcome.question))
            to = outcome.state.question_id
            outcome = self._runner.run(session=self._session, answer=answer, to=to, **limits)
        self._task.here.resumes = not outcome.state.is_over
        return self._answer(outcome)

    def _answer(self, outcome: Outcome) -> Any:
        if outcome.ended == "done":
            return outcome.answer
        if outcome.ended == "error":
            raise BadReply(f"{self._name}: {outcome.error}", hint="see the events of its branch")
        why = f"it asks again: {outcome.question}" if outcome.question else outcome.ended
        raise TimedOut(
            f"{self._name} ended after {outcome.steps} steps ({why})",
            hint="the next attempt resumes it",
        )

    def _is_new(self, request: str) -> bool:
        """Tell whether the agent has this to begin yet, and note on the branch that it has."""
        state, path = self._state, (*RUNS, self._name)
        state.refresh()
        mark = f"{state.name} {call_key(request, state=state)}"
        known = value_at(state, (*path, _BEGUN))
        if isinstance(known, str) and known.rpartition(" ")[0] == mark:
            return bool(known == f"{mark} {head_value(state, path, _STEP_ID, '')}")
        self._take_over()
        last = self._runner.load(self._session)
        if last is not None and not last.is_over:
            self._runner.abandon(self._session, "its task is done anew")
        marked = f"{mark} {head_value(state, path, _STEP_ID, '')}"
        state.write_reserved((*path, _BEGUN), state.cells.put(marked))
        state.commit(f"{self._name}: begins", kind="note")
        return True

    def _take_over(self) -> None:
        """Merge what the last attempt did; where others have done something else, theirs stays."""
        try:
            commit = self._state.resolve(self._task.here.last_branch or "@")
        except NotFound:  # the branch was deleted
            return
        self._state.stage_merge(commit)
        self._state.commit(f"{self._name}: goes on from the last attempt", kind="note")

    def _stop_if_cancelled(
        self, on_step: Callable[[AgentState], None] | None
    ) -> Callable[[AgentState], None]:
        def stop(state: AgentState) -> None:
            if self._task.is_cancelled:
                self._runner.stop()
            if on_step is not None:
                on_step(state)

        return stop


def _run_name(task: TaskContext, part: str = "") -> str:
    """Return the name of an agent's run: the same for all attempts, unlike that of other tasks."""
    names = [task.run, task.name, *([part] if part else [])]
    number = task.count("run", part)
    words = [*names, *([str(number)] if number > 1 else [])]
    clear = ".".join(_NOT_IN_NAME.sub("-", each) for each in words)
    if any(_NOT_IN_NAME.search(each) for each in words):
        clear = f"{clear}.{digest(repr(words).encode('utf-8', 'replace'))[:3].hex()}"
    return clear


def with_feedback(text: str, feedback: str) -> str:
    """Return a request that says why the last attempt was not good enough."""
    if not feedback:
        return text
    why = feedback.replace("\n", "\n  ")  # so that it cannot look like the inputs of a task
    return f"{text}\n\nThe last attempt was not good enough:\n  {why}"


def request_in(arguments: Mapping[str, Any]) -> str:
    """Return what an agent without typed inputs is asked for in a task.

    Raises:
        Invalid: it was given something else.
    """
    found = arguments.get("input")
    if not isinstance(found, str) or len(arguments) != 1:
        raise Invalid(
            f"an agent is called with input=, a text, got {', '.join(arguments) or 'nothing'}",
            hint='task.call(agent, input="Book a flight"); @agent.task takes typed inputs',
        )
    return found


# Tools


class _TaskJournal:
    """The journal of calls in a task, which no step of a run makes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def known_call(self, entry: LedgerEntry, base: StepBase) -> LedgerEntry | None:
        """Return what is known about a call; None if it was never begun, or did not happen.

        What failed is called again by the next attempt. What is unknown is looked into again.
        """
        found = self._journal.known_call(entry, base)
        if found is None or found.status in ("begun", "done"):
            return found
        begun = found.ended("begun", error="") if found.status == "unknown" else None
        self._journal.write_entry(entry.key, begun, base)
        return begun

    def untold_call(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Return None: there is no earlier step."""


def call_tool(tool: Tool, task: TaskContext, arguments: Mapping[str, Any]) -> Any:
    """Call a tool in a task; the result of one with effects is that on record.

    Raises:
        EffectUnknown: it must not happen twice, was begun, and its outcome is unknown.
        Busy: another process is in the middle of it.
        TimedOut: it took too long.
        Unavailable: it raised an error, which says that it did not happen.
        BadValue: the arguments do not fit.
    """
    plain = {name: to_plain(value) for name, value in arguments.items()}
    whole = tool.signature.arguments(plain, arguments)
    if tool.effects == "none":
        limits: dict[str, Any] = {"timeout_seconds": tool.timeout_seconds, "retries": tool.retries}
        more = {KEY_PARAMETER: task.key} if tool.takes_key else {}
        return call_with_retries(tool.function, whole | more, **limits)
    number = task.count(tool.name, canonical_bytes(plain))
    journal = Journal(task.here.reopened(), f"{task.run}.{task.name}")
    calls: Any = _TaskJournal(journal)
    call = ToolCall(f"{tool.name}-{number}", tool.name, plain)
    with register_owner() as journal.owner_id:
        runner = ToolRunner(Toolbox([tool]), calls, StepBase.of_task(task.key, number))
        seen = runner.call(call, dict(arguments))
    if not seen.error:
        return thaw(seen.result)
    if seen.error.startswith("TimedOut: "):
        if tool.effects == "once":
            raise EffectUnknown(
                f"{tool.name} was begun, and may have happened: {seen.error}",
                key=next(iter(runner.effect_keys)),
                hint="find out, then run.settle(key, happened=True or False)",
            )
        raise TimedOut(f"{tool.name}: {seen.error}", hint="the next attempt calls it again")
    raise Unavailable(f"{tool.name}: {seen.error}", hint="the next attempt calls it again")


# Code


class WorkspaceStep:
    """Code that runs in the workspace of the state, as a task of a flow.

    flow.task(WorkspaceStep("total = sum(prices)", takes=["prices"], returns="total"), name="add")
    """

    def __init__(
        self,
        code: str,
        *,
        takes: Iterable[str] = (),
        returns: str | None = None,
        runner: Runner | None = None,
    ) -> None:
        """Make a step of code.

        `takes` are the arguments that become variables before it runs: results, or inputs.
        `returns` is the variable that is the result, by default the value of the last expression.
        """
        check_argument(code, "code", str, "the source")
        check_argument(returns, "returns", (str, NOTHING), "the name of a variable")
        self.code = code
        self.returns = returns
        self._runner = runner
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(name, kind) for name in takes]
        self.__signature__ = inspect.Signature(parameters)

    def __repr__(self) -> str:
        return f"<WorkspaceStep {self.code.strip().partition(chr(10))[0]:.60}>"

    def __call__(self, **arguments: Any) -> Any:
        """Refuse: it needs the state of a run."""
        raise Invalid("a step of code runs in a flow", hint="flow.task(step, name=…)")

    def code_text(self) -> str:
        """Return the code, for a flow to tell whether it was edited."""
        return self.code

    def run_in_task(self, task: TaskContext, arguments: Mapping[str, Any]) -> Any:
        """Run the code on the branch of a task, unless an attempt before this one has.

        Raises:
            StepFailed: the code failed.
        """
        state: Versioned = task.branch()
        mark = f"{task.key}/{task.count('code', self.code)}"
        with (
            TemporaryDirectory(prefix="otolith-step-") as folder,
            state.workspace(runner=self._runner, folder=folder) as workspace,
        ):
            commit = _commit_marked(state, mark)
            if commit is None:
                if arguments:
                    workspace.put(**arguments)
                step = workspace.run(self.code, meta={"task": mark})
                if step.commit is None:  # its process died: nothing of it is stored
                    raise _code_failed("" if step.error is None else step.error.message)
                commit = step.commit
            past = state.at(commit)
            if not commit.meta.get("ok", True):
                raise _code_failed(str((value_at(past, (WORKSPACE, "output")) or {}).get("error")))
            if self.returns is None:
                return value_at(past, (WORKSPACE, "last", "value"))
            return workspace[self.returns]


def _commit_marked(state: Versioned, mark: str) -> Commit | None:
    """Return the commit of a step of code, if an attempt of the same task has made it."""
    found = (each for each in effective_history(state) if each.meta.get("task") == mark)
    return next(found, None)


def _code_failed(why: str) -> StepFailed:
    return StepFailed(why.strip() or "it failed", place="the code", hint="correct it")
