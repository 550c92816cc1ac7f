"""Acting by code: what the model writes runs as a step of the state's workspace.

The workspace commits each run by itself, with the key of the call in the commit: a step that was
cut off after that does not run the code a second time, but finds the commit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

from otolith.agent.conversation.message import ToolCall
from otolith.agent.live import Live
from otolith.agent.loop.journal import Base
from otolith.agent.loop.prompting import has_inputs, inputs_in
from otolith.agent.loop.signature import plain
from otolith.agent.loop.standing import standing
from otolith.agent.loop.tools import Tool
from otolith.agent.loop.working import Observation
from otolith.agent.session import Versioned
from otolith.agent.workspace import Step, Workspace
from otolith.core import WORKSPACE, Commit
from otolith.errors import BadValue, Invalid, NotKept, Unsupported

Inputs: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

CODE, GIVE_VARIABLE = "run_code", "give_variable"
_MOST_LETTERS = 8000


class Works(Protocol):
    """An orchestrator in a step."""

    @property
    def state(self) -> Versioned | Live: ...
    @property
    def base(self) -> Base: ...
    def key(self, *parts: Any) -> str: ...
    def now(self) -> int: ...


class Coding:
    """Runs the code of one task."""

    def __init__(self, orchestrator: Works, inputs: dict[str, Any] | Inputs) -> None:
        self._orchestrator = orchestrator
        self.inputs = inputs
        """The inputs of the task, or what makes them of the plain data that its prompt tells."""
        self._workspace: Workspace | None = None
        self._runs_of: Base | None = None
        self._runs: Counter[str] = Counter()
        """How often each code was run in the step that is under way."""

    @property
    def workspace(self) -> Workspace:
        """The workspace of the state.

        Raises:
            Unsupported: the state has no workspace.
        """
        if self._workspace is None:
            state = self._orchestrator.state
            if not isinstance(state, Versioned):
                raise Unsupported(
                    'acts="code" needs a state with history', hint="give state=Versioned(…)"
                )
            self._workspace = state.workspace()
        return self._workspace

    def begin(self, task: str) -> None:
        """Make the inputs of the task variables, once: from then on they belong to the code.

        Raises:
            Invalid: nobody has put them there before, and this process was not told them.
        """
        if not has_inputs(task) or self._is_put():
            return
        self.workspace.put(**self._inputs(task))

    def _inputs(self, task: str) -> dict[str, Any]:
        try:
            found = self.inputs(inputs_in(task)) if callable(self.inputs) else self.inputs
        except Invalid:  # some of them are only told, and not as what they are
            found = {}
        if not found:
            raise Invalid(
                "the inputs of this task are not known here, and are no variables yet",
                hint="call the task again with the same arguments: it goes on where it was",
            )
        return found

    def _is_put(self) -> bool:
        """Tell whether the inputs were put since the task began, by whichever process."""
        for commit in standing(self.workspace.state):
            if commit.message.startswith("begin ") and "run" in commit.meta:
                return False
            if commit.message.startswith("put ") and commit.kind == "run":
                return True
        return False

    def tools(self, check: Callable[[Any], Any]) -> list[Tool]:
        """Return what a model can do with code; `check` returns a result that fits."""

        def give_variable(name: str) -> tuple[Any]:
            """Hand over a variable of the session as the result of the task. This ends it."""
            if name not in self.workspace:
                raise BadValue(f"there is no variable {name}")
            try:
                return (check(plain(self.workspace[name])),)
            except NotKept as error:
                raise BadValue(str(error)) from error

        return [Tool(_run_code, name=CODE), Tool(give_variable, name=GIVE_VARIABLE)]

    def run(self, call: ToolCall) -> Observation:
        """Run the code of a call, unless that was done before this process."""
        began, start = self._orchestrator.now(), time.perf_counter()
        code = call.arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            error = f"the arguments of {CODE}: `code` is a text"
            return Observation(call.id, CODE, call.arguments, error=error, time=began)
        base = self._orchestrator.base
        if self._runs_of != base:
            self._runs_of, self._runs = base, Counter()
        self._runs[code] += 1
        key = self._orchestrator.key(CODE, code, self._runs[code])
        done = self._find(key)
        if done is not None:
            result, error = self._past(done)
        else:
            step = self.workspace.run(code, meta={"call": key})
            result, error = _told(step)
        took = round((time.perf_counter() - start) * 1000, 3)
        return Observation(call.id, CODE, call.arguments, result, error, took, began)

    def close(self) -> None:
        """End all processes."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _find(self, key: str) -> Commit | None:
        """Return the commit of a run of this key, if this step has made it before."""
        return next((each for each in self._since() if each.meta.get("call") == key), None)

    def _since(self) -> Iterator[Commit]:
        """Yield the commits of the step that is under way, the latest first."""
        base = self._orchestrator.base
        for commit in standing(self.workspace.state):
            if commit.id == base.commit:
                return
            yield commit

    def _past(self, commit: Commit) -> tuple[str, str]:
        then = self.workspace.state.at(commit)
        cell = then.cell_at((WORKSPACE, "output"))
        output: Any = {} if cell is None else then.cells.load(cell)
        text = _joined(*(output.get(part, "") for part in ("stdout", "stderr", "shown")))
        if commit.meta.get("ok", True):
            return text, ""
        return "", _failed(text, output.get("error", "the code failed"))


def _run_code(code: str) -> str:
    """Run Python in the session: variables, imports and files stay for the next run.

    Print what you want to see; the value of the last expression is shown too.
    """
    raise AssertionError("the loop runs it")


def _told(step: Step) -> tuple[str, str]:
    text = _joined(step.stdout, step.stderr, step.shown or "")
    if step.ok:
        return text, ""
    return "", _failed(text, step.error.traceback if step.error is not None else "it failed")


def _failed(text: str, trace: str) -> str:
    return f"{text}\n{trace}".strip()[-_MOST_LETTERS:]


def _joined(stdout: str, stderr: str, shown: str) -> str:
    parts = [part.rstrip("\n") for part in (stdout, stderr, shown) if part.strip()]
    text = "\n".join(parts)
    if len(text) <= _MOST_LETTERS:
        return text
    half = _MOST_LETTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} letters left out …\n{text[-half:]}"
