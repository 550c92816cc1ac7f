"""Acting: the step of an agent that thinks with a model and acts by calling tools.

A step is one answer of the model and all that it asks for. An answer without calls ends the run, if
it is what was asked for; otherwise the model is told what is wrong with it, a few times.

What a model is told of a task: what to do, the name of the task, and its inputs.

Acting by code: what the model writes runs as a step of the state's workspace.

The workspace commits each run by itself, with the key of the call in the commit: a step that was
cut off after that does not run the code a second time, but finds the commit.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from otolith.agent.context_window import Window
from otolith.agent.ledger import effective_history
from otolith.agent.models.base import Reply
from otolith.agent.orchestrator import Orchestrator
from otolith.agent.run_store import Base
from otolith.agent.state import AgentState, Observation, said
from otolith.agent.tools import Tool, Toolbox, fitted, plain
from otolith.conversation.message import Message, Role, ToolCall
from otolith.core import WORKSPACE, Commit
from otolith.errors import BadReply, BadValue, Invalid, KeyNotFound, NotKept, Unsupported
from otolith.session import Versioned
from otolith.state.live import Live
from otolith.statecharts.agent_phases import Phase
from otolith.workspace import Step, Workspace

_HAS_INPUTS = re.compile(r"\n\nTask: \w+\n\w+ = ")


def prompt_of(text: str, name: str, inputs: Mapping[str, Any]) -> str:
    """Return the prompt of a task, given its inputs as plain data."""
    lines = [f"{each} = {msgspec.json.encode(value).decode()}" for each, value in inputs.items()]
    return "\n".join([f"{text}\n\nTask: {name}", *lines])


def inputs_in(prompt: str) -> dict[str, Any]:
    """Return the inputs that a prompt tells, as plain data; none if it is not that of a task."""
    found = _HAS_INPUTS.search(prompt)
    if found is None:
        return {}
    lines = prompt[found.start() + 2 :].split("\n")[1:]  # one for each: JSON has none of its own
    pairs = (line.partition(" = ") for line in lines)
    return {name: msgspec.json.decode(value) for name, _, value in pairs}


def has_inputs(prompt: str) -> bool:
    """Tell whether a prompt is that of a task with inputs."""
    return _HAS_INPUTS.search(prompt) is not None


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
        for commit in effective_history(self.workspace.state):
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
        for commit in effective_history(self.workspace.state):
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


Acts: TypeAlias = Literal["tools", "code"]

GIVE, ASK = "give_result", "ask_user"
_REPAIRS = "repairs"
_CUT_OFF = ("length", "max_tokens")
"""Why a provider stopped, where the model had more to say."""
_SHORTER = "Your answer was cut off. Give all of it, in fewer words."


class ModelOrchestrator(Orchestrator):
    """Thinks with a model, and acts by tool calls or by code."""

    def __init__(
        self,
        where: Any = None,
        *,
        instructions: str = "",
        result: Any = str,
        acts: Acts = "tools",
        can_ask: bool = False,
        max_repairs: int = 3,
        context_tokens: int | None = None,
        inputs: dict[str, Any] | Inputs | None = None,
        **parts: Any,
    ) -> None:
        """Make one; `result` is the type of what it returns, `parts` are an orchestrator's.

        `inputs` are those of the task, or a function that makes them of what its prompt tells.
        """
        self.instructions = instructions
        self.result = result
        self.can_ask = can_ask
        self.max_repairs = max_repairs
        self.context_tokens = context_tokens
        self.coding = Coding(self, inputs or {}) if acts == "code" else None
        self._wants_text = result in (str, Any)
        super().__init__(where, **parts)

    def step(self, s: AgentState) -> AgentState:
        """Let the model answer, and do what it asks for."""
        is_new = s.phase is Phase.PLANNING
        s = s.to_executing() if is_new else s
        if is_new and self.coding is not None:
            self.coding.begin(s.task)
        reply = self._think(s)
        s = s.say(reply.message)
        if not reply.message.calls and reply.stopped in _CUT_OFF:
            return self._repaired(s.say(said(Role.USER, _SHORTER)))
        if not reply.message.calls:
            return self._finished(s, reply.text)
        return self._act(s, reply.message.calls)

    def reset(self) -> None:
        """Forget what runs, and let a copy have a workspace and tools of its own."""
        super().reset()
        if self.coding is not None:
            self.coding = Coding(self, self.coding.inputs)
        self._extra = self._own_tools()

    def _rest(self) -> None:
        if self.coding is not None:
            self.coding.close()

    # Thinking

    def _think(self, s: AgentState) -> Reply:
        """Ask the model; an answer that is none is told as an event, and asked for again."""
        asked = self._context(s)
        offered = [*self.tools.values(), *self._extra]
        for left in reversed(range(self.max_repairs + 1)):
            try:
                reply = self.complete(asked, tools=offered)
            except BadReply as error:
                if not left:
                    raise
                self._running().note("error", "a reply that is none", error=str(error))
            else:
                self._running().counted(reply.usage)
                return reply
        raise AssertionError("the last try raises")

    def _context(self, s: AgentState) -> list[Message]:
        head = [said(Role.SYSTEM, self.instructions)] if self.instructions else []
        if self.context_tokens is None:
            return [*head, *s.messages]
        form = getattr(self.model, "speaks", "openai")
        tools = [*self.tools.values(), *self._extra]
        window = Window.beside(self.context_tokens, form, self.instructions, tools)
        return [*head, *self._running().context(window, s.messages)]

    # Acting

    def _act(self, s: AgentState, calls: Sequence[ToolCall]) -> AgentState:
        questions: list[str] = []
        given = None
        for call in calls:
            seen, found = self._one_call(call)
            s = s.record_observation(seen)
            if found is None:
                continue
            if call.name == ASK:
                questions.append(str(found))
            else:
                given = found
        if given is not None:
            return s.to_done(given[0])
        if questions:
            return s.ask("\n".join(questions))
        own = {tool.name for tool in self._extra}
        if any(call.name in (GIVE, GIVE_VARIABLE) and call.name in own for call in calls):
            return self._repaired(s)
        return s.to_executing()

    def _one_call(self, call: ToolCall) -> tuple[Observation, Any]:
        """Return what came of a call, and what it hands to the loop, if it is one of our own."""
        if call.name == CODE and self.coding is not None:
            return self.coding.run(call), None
        own = next((tool for tool in self._extra if tool.name == call.name), None)
        now = self._running().now()
        if own is None and call.name in self.tools:
            return self.call(call), None
        try:
            own = own or Toolbox([*self.tools.values(), *self._extra]).find(call.name)
            found = own.function(**own.signature.arguments(call.arguments))
        except (BadValue, KeyNotFound) as error:
            return Observation(call.id, call.name, call.arguments, error=str(error), time=now), None
        told = "asked; the answer follows" if call.name == ASK else "taken"
        return Observation(call.id, call.name, call.arguments, told, time=now), found

    def _finished(self, s: AgentState, text: str) -> AgentState:
        """Return it done, if the text is what was asked for."""
        if self._wants_text:
            return s.to_done(text)
        try:
            return s.to_done(self._checked(_json_in(text)))
        except BadValue as error:
            why = f"This is not the result: {error.message}. Call {GIVE} with it."
            return self._repaired(s.say(said(Role.USER, why)))

    def _repaired(self, s: AgentState) -> AgentState:
        """Return it executing again, unless the model was told too often."""
        count = s.data.get(_REPAIRS, 0) + 1
        if count > self.max_repairs:
            return s.to_error(f"the model gave no result that fits in {count} attempts")
        return s.with_data(**{_REPAIRS: count}).to_executing()

    def _checked(self, value: Any) -> Any:
        """Return a result as plain data, if it fits what was asked for."""
        return plain(fitted(value, self.result, what="the result"))

    # What the loop itself offers

    def _own_tools(self) -> list[Tool]:
        own: list[Tool] = []
        if not self._wants_text:
            own.append(_giving(self.result))
        if self.coding is not None:
            own += self.coding.tools(self._checked)
        if self.can_ask:
            own.append(Tool(_ask, name=ASK))
        for tool in own:
            if tool.name in self.tools:
                raise Invalid(
                    f"{tool.name} is what the loop itself offers",
                    hint="give your tool another name=",
                )
        return own


def _giving(kind: Any) -> Tool:
    def give(result: Any) -> tuple[Any]:
        return (plain(result),)

    give.__annotations__["result"] = kind
    return Tool(give, name=GIVE, description="Hand over the result of the task. This ends it.")


def _ask(question: str) -> str:
    """Ask the user a question, and wait for the answer."""
    return question


def _json_in(text: str) -> Any:
    """Return the JSON that a text is, perhaps in a fence.

    Raises:
        BadValue: it is none.
    """
    bare = text.strip()
    if bare.startswith("```"):
        bare = bare.partition("\n")[2].rpartition("```")[0]
    try:
        return json.loads(bare)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"it is not JSON ({error})") from None
