"""Jobs: one attempt of a task, as an executor runs it, and how it ended.

A job is called wherever the executor puts it: in this thread, another one, another process or
another machine. It knows nothing of the state: the arguments come with it, and its end goes back to
the worker that has the task, which commits it. `TaskContext` is what its function sees of the run;
what it can do only in the process of its worker is in `in_worker.py`.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any, Protocol

from otolith.errors import Error, Invalid, Unsupported
from otolith.flows.flow_definition import FEEDBACK, RESULTS, TASK, FlowTask, listed_tasks
from otolith.shapes import check_argument
from otolith.state import Misfit, type_check
from otolith.types import short_repr

ERROR_LETTERS = 4000
_OURS = str(Path(__file__).parent)


class TaskQuestion(BaseException):
    """Ends an attempt that waits for an answer. No Exception: user code does not catch it."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


@short_repr("how", "text")
@dataclass(frozen=True, slots=True)
class JobEnd:
    """How an attempt ended: `returned`, `failed`, `refused`, `skipped`, `asked` or `lost`."""

    how: str
    result: Any = None
    text: str = ""  # the error, why it was refused, or the question
    seconds: float = 0.0
    parts: tuple[FlowTask, ...] = ()  # tasks that are added as parts of this one


class TaskContext:
    """What a function sees of its task: the parameter `task`."""

    def __init__(self, job: TaskJob) -> None:
        self._job = job
        self.name = job.name
        self.run = job.run
        self.attempt = job.attempt
        self.key = job.key
        """The same for every attempt of this piece of work: for services that take such a key."""
        self.feedback = job.feedback
        """Why the last attempt was not good enough; "" at first."""
        self.inputs = job.inputs
        """What the run was given."""
        self.results = job.results
        """The results of all tasks that this one comes after, by name."""
        self._names: set[str] = set()
        self._counts: Counter[tuple[object, ...]] = Counter()

    def __repr__(self) -> str:
        return f"<TaskContext {self.run}/{self.name}, attempt {self.attempt}>"

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more: long work should look, and return."""
        cancelled = self._job.cancelled
        return cancelled is not None and cancelled.is_set()

    @property
    def state(self) -> Any:
        """The state: what is changed here is committed together with the result, or not at all.

        Raises:
            Unsupported: the task runs in another process.
        """
        return self._job.here.state()

    def branch(self) -> Any:
        """Return a branch for what commits by itself: an agent, a workspace.

        It is the same when the task is tried again because its process died. What was committed
        there is merged in the commit that has the result; if the attempt fails, it is not, and the
        next one gets a new branch.

        Raises:
            Unsupported: the task runs in another process.
        """
        return self._job.here.branch()

    @property
    def here(self) -> Any:
        """What the task can do only in the process of its worker; see `in_worker.py`."""
        return self._job.here

    def expand(self, tasks: Iterable[FlowTask]) -> None:
        """Add parts to this task: they come after it, and what comes after it waits for them.

        They are added together with the result, or not at all.
        """
        self._job.parts += listed_tasks(tasks, len(self._job.parts))

    def ask(self, question: str) -> Any:
        """Return the answer of a person; without one, the task waits, and is called again then."""
        check_argument(question, "question", str, "a text")
        if question in self._job.answers:
            return self._job.answers[question]
        raise TaskQuestion(question)

    def once(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        asks: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function with an effect on the world at most once, however often this is tried.

        The result is recorded under the name, and returned to later attempts, on every branch. An
        exception says that it did not happen, unless it is a time-out: then, and if the process
        died in the middle, nobody knows. `asks(key)` tells, by returning the result, or None if it
        did not happen.

        Raises:
            EffectUnknown: it may have happened, and there is nobody to ask.
            Invalid: this attempt has used the name before.
            Unsupported: the task runs in another process.
        """
        check_argument(name, "name", str, "a text")
        if name in self._names:
            raise Invalid(
                f"task {self.name} has called {name!r} once already",
                hint="give each call a name of its own, such as 'mail to Ann'",
            )
        self._names.add(name)
        return self._job.here.once(
            f"{self.key}/{name}", lambda: awaited(function(*args, **kwargs)), name=name, asks=asks
        )

    def is_of(self, function: object) -> bool:
        """Tell whether a function is that of the task, not one that is called in it."""
        return self._job.task.function is function

    def count(self, *what: object) -> int:
        """Return how often this attempt has counted the same, this time included."""
        self._counts[what] += 1
        return self._counts[what]

    def call(self, thing: Any, /, **arguments: Any) -> Any:
        """Call what knows how to be part of a task: a tool or a task of an agent, a step of code.

        Raises:
            Invalid: it does not.
            EffectUnknown: a call of a tool was begun before, must not happen twice, and may have
                happened.
        """
        run = getattr(thing, "run_in_task", None)
        if run is None:
            raise Invalid(
                f"{thing!r:.80} cannot be called in a task",
                hint="give a tool or a task of an agent; a function is simply called",
            )
        return run(self, arguments)


class Here(Protocol):
    """What a job can do that runs in the process of its worker."""

    def state(self) -> Any:
        """Return the handle on the state that the task edits."""
        ...

    def branch(self) -> Any:
        """Return the branch for what the task does by commits."""
        ...

    def once(
        self,
        key: str,
        act: Callable[[], Any],
        *,
        name: str,
        asks: Callable[[str], Any] | None,
    ) -> Any:
        """Call a function at most once."""
        ...


class Elsewhere:
    """What a job can do in another process: nothing with the state."""

    def state(self) -> Any:
        """Refuse."""
        raise self._refusal("task.state")

    def branch(self) -> Any:
        """Refuse."""
        raise self._refusal("task.branch")

    def reopened(self) -> Any:
        """Refuse."""
        raise self._refusal("the ledger of effects")

    def once(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise self._refusal("task.once")

    @staticmethod
    def _refusal(what: str) -> Unsupported:
        return Unsupported(
            f"{what} is not there in another process",
            hint="return the result, or let the task run in a thread: run.work(executor=None)",
        )


_ELSEWHERE = Elsewhere()


@short_repr("name", "attempt")
@dataclass(slots=True)
class TaskJob:
    """One attempt of a task. It can be pickled, and runs in another process without `here`."""

    run: str
    name: str
    attempt: int
    key: str
    task: FlowTask
    inputs: Mapping[str, Any]
    results: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict)  # the arguments of the task itself
    answers: Mapping[str, Any] = field(default_factory=dict)
    feedback: str = ""
    timeout_seconds: float | None = None
    here: Here = _ELSEWHERE
    cancelled: Event | None = None
    parts: list[FlowTask] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {**fields, "here": None, "cancelled": None}

    def __setstate__(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self, name, value)
        self.here = _ELSEWHERE

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the function: results, what the task and the run were given.

        Raises:
            Invalid: a parameter is none of these.
        """
        known: dict[str, Any] = {RESULTS: self.results, FEEDBACK: self.feedback}
        known |= {**self.inputs, **self.given, **self.results}
        found: dict[str, Any] = {}
        for name, each in self.task.parameters.items():
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                continue
            if name == TASK and TASK not in known and not self.task.is_run_in_task:
                found[name] = TaskContext(self)
            elif name in known:
                found[name] = known[name]
            elif each.default is each.empty:
                raise Invalid(
                    f"task {self.name} has no value for its parameter {name}",
                    hint="name a task that it comes after, an input of the run, or give it inputs=",
                )
        return found

    def call(self) -> JobEnd:
        """Run it to its end; errors of its code are part of the end."""
        began = perf_counter()
        end = self._call()
        return replace(end, seconds=perf_counter() - began, parts=tuple(self.parts))

    def _call(self) -> JobEnd:
        try:
            arguments = self.arguments()
            if self.task.when is not None and not _with_known(self.task.when, arguments):
                return JobEnd("skipped")
            result = awaited(self._result(arguments))
            why = self._refusal(result, arguments)
        except TaskQuestion as asked:
            return JobEnd("asked", text=asked.question)
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001
            return JobEnd("failed", text=error_text(error))
        return JobEnd("returned", result) if not why else JobEnd("refused", result, why)

    def _result(self, arguments: Mapping[str, Any]) -> Any:
        if self.task.is_run_in_task:
            return TaskContext(self).call(self.task.function, **arguments)
        return self.task(**arguments)

    def _refusal(self, result: Any, arguments: Mapping[str, Any]) -> str:
        """Return why a result is not good enough; "" if it is."""
        hint = self.task.result_hint
        if hint is not None:
            try:
                type_check(hint)(result)
            except Misfit as misfit:
                return f"the result does not fit its type: {misfit}"
        if self.task.validate is None:
            return ""
        try:
            verdict = awaited(_with_known(self.task.validate, arguments, result))
        except (AssertionError, ValueError, TypeError, KeyError, AttributeError) as error:
            return error_text(error) or "the check raised an AssertionError"
        if isinstance(verdict, str):
            return verdict
        if verdict is False:
            return f"the check {_name(self.task.validate)} returned False for {result!r:.200}"
        return ""


def error_text(error: BaseException) -> str:
    """Return an error as text: what was raised, and where in the code of the user."""
    name = "" if isinstance(error, Error) else f"{type(error).__name__}: "
    try:
        said = f"{name}{error}"
    except Exception:  # noqa: BLE001 - of a class whose text cannot be made
        said = name
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)
    ]
    where = f" (line {frames[-1].lineno} of {frames[-1].name})" if frames and name else ""
    return (said.removesuffix(": ") + where).encode("utf-8", "replace").decode()[:ERROR_LETTERS]


def awaited(found: Any) -> Any:
    """Return the result of an awaitable, also inside of a loop; any other value unchanged."""
    if not inspect.isawaitable(found):
        return found

    async def wait() -> Any:
        return await found

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _with_known(function: Callable[..., Any], known: Mapping[str, Any], *first: Any) -> Any:
    """Call a check with what comes first, and those arguments of the task that it has too."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[len(first) :]
    except (TypeError, ValueError):
        return function(*first)
    names = [each.name for each in parameters if each.name in known]
    return function(*first, **{name: known[name] for name in names})


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
