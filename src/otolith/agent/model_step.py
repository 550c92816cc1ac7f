"""ModelOrchestrator: an orchestrator whose step asks a model, and acts by tool calls or by code.

A step is one reply of the model and all calls in it. A reply without calls ends the run if it is a
valid result; otherwise the model gets the reason, at most `max_repairs` times in a row.

With `acts="code"` the model writes Python that runs as a step of the state's workspace. The
workspace commits each run by itself, with the key of the call in the commit: a step that was cut
off after that finds the commit, and does not run the code a second time.

The prompt of a task is its docstring, its name, and its inputs as JSON, one on a line. They can be
read back from it (`inputs_in`), so that a task can be resumed without its arguments.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any, Literal, TypeAlias

import msgspec

from otolith.agent.history import BEGIN, effective_history
from otolith.agent.journal import StepBase
from otolith.agent.live_run import AgentRun
from otolith.agent.models.base import Reply
from otolith.agent.orchestrator import Orchestrator
from otolith.agent.state import AgentState, Observation, text_message
from otolith.agent.tools import PlainForm, Tool, Toolbox, convert, to_plain
from otolith.conversation import Context, Conversation, Message, Role, ToolCall, read
from otolith.core import WORKSPACE, Commit
from otolith.errors import BadReply, BadValue, Error, Invalid, KeyNotFound, NoConsent, NotKept
from otolith.profiles import Profile
from otolith.session import Versioned
from otolith.shapes import NOTHING, check_argument
from otolith.statecharts import Phase
from otolith.text.tokens import estimate_tokens
from otolith.workspace import Workspace

ActionMode: TypeAlias = Literal["tools", "code"]
InputLoader: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the plain inputs in a prompt into the values that the task is annotated with."""

RUN_CODE, GIVE_VARIABLE = "run_code", "give_variable"
GIVE_RESULT, ASK_USER = "give_result", "ask_user"
"""The tools of the loop itself. Names and docstrings are part of each request, whose hash is
stored with the reply: changing one makes the replies on record useless for a replay."""
_REPAIRS, _PROFILE = "repairs", "profile"
"""Names in the data of a run."""
_SHORTER = "Your answer was cut off. Give all of it, in fewer words."
_OUTPUT_LETTERS = 8000
_HAS_INPUTS = re.compile(r"\n\nTask: \w+\n\w+ = ")


def task_prompt(text: str, name: str, inputs: Mapping[str, Any]) -> str:
    """Return the prompt of a task with plain inputs."""
    lines = [f"{each} = {msgspec.json.encode(value).decode()}" for each, value in inputs.items()]
    return "\n".join([f"{text}\n\nTask: {name}", *lines])


def inputs_in(prompt: str) -> dict[str, Any]:
    """Return the plain inputs in a prompt; {} if it is not the prompt of a task."""
    found = _HAS_INPUTS.search(prompt)
    if found is None:
        return {}
    lines = prompt[found.start() + 2 :].split("\n")[1:]  # JSON has no line breaks
    pairs = (line.partition(" = ") for line in lines)
    return {name: msgspec.json.decode(value) for name, _, value in pairs}


class CodeRunner:
    """Runs the code of one task in the workspace of its state."""

    def __init__(self, orchestrator: Orchestrator, inputs: dict[str, Any] | InputLoader) -> None:
        self._orchestrator = orchestrator
        self.inputs = inputs
        """The inputs of the task, or a function that makes them of those in its prompt."""
        self._workspace: Workspace | None = None
        self._base: StepBase | None = None
        self._run_counts: Counter[str] = Counter()
        """How often each code was run in the step of `_base`."""

    @property
    def workspace(self) -> Workspace:
        """The workspace of the state; of a `Live` one, that of its rooms."""
        if self._workspace is None:
            self._workspace = self._orchestrator.state.workspace()
        return self._workspace

    def put_inputs(self, task: str) -> None:
        """Make the inputs of a task variables, once: from then on they belong to the code.

        Raises:
            Invalid: they are neither variables yet nor known to this process.
        """
        if _HAS_INPUTS.search(task) is None or self._has_inputs():
            return
        try:
            inputs = self.inputs(inputs_in(task)) if callable(self.inputs) else self.inputs
        except Invalid:  # the prompt alone does not say what some of them are
            inputs = {}
        if not inputs:
            raise Invalid(
                "the inputs of this task are unknown to this process, and not yet variables",
                hint="call the task again with the same arguments: it resumes",
            )
        self.workspace.put(**inputs)

    def _has_inputs(self) -> bool:
        """Tell whether any process has put the inputs since the task began."""
        for commit in effective_history(self.workspace.state):
            if commit.message.startswith(BEGIN) and "run" in commit.meta:
                return False
            if commit.message.startswith("put ") and commit.kind == "run":
                return True
        return False

    def tools(self, check: Callable[[Any], Any]) -> list[Tool]:
        """Return the tools for code; `check` returns a value that is a valid result."""

        def run_code(code: str) -> str:
            """Run Python in the session: variables, imports and files stay for the next run.

            Print what you want to see; the value of the last expression is shown too.
            """
            raise AssertionError("the loop runs it")

        def give_variable(name: str) -> tuple[Any]:
            """Hand over a variable of the session as the result of the task. This ends it."""
            if name not in self.workspace:
                raise BadValue(f"there is no variable {name}")
            try:
                found = PlainForm(self.workspace[name])
            except NotKept as error:
                raise BadValue(str(error)) from error
            if found.has_secret:
                raise BadValue(f"{name} holds a secret, which is not handed over")
            return (check(found.data),)

        return [Tool(run_code, name=RUN_CODE), Tool(give_variable, name=GIVE_VARIABLE)]

    def run(self, call: ToolCall, base: StepBase) -> Observation:
        """Run the code of a call, unless another process has done it in the same step."""
        began, start = self._orchestrator.now(), time.perf_counter()
        code = call.arguments.get("code")
        if not isinstance(code, str) or not code.strip():
            error = f"the arguments of {RUN_CODE}: `code` must be a text"
            return Observation(call.id, RUN_CODE, call.arguments, error=error, time=began)
        if self._base != base:
            self._base, self._run_counts = base, Counter()
        self._run_counts[code] += 1
        key = self._orchestrator.key(RUN_CODE, code, self._run_counts[code])
        commit = self._commit_of(key, base)
        if commit is not None:
            result, error = self._stored_output(commit)
        else:
            step = self.workspace.run(code, meta={"call": key})
            trace = "it failed" if step.error is None else step.error.traceback
            result, error = _output(
                step.stdout, step.stderr, step.shown or "", error="" if step.ok else trace
            )
        took = round((time.perf_counter() - start) * 1000, 3)
        return Observation(call.id, RUN_CODE, call.arguments, result, error, took, began)

    def close(self) -> None:
        """End all processes."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    def _commit_of(self, key: str, base: StepBase) -> Commit | None:
        """Return the commit of a call, if this step has made it before."""
        for commit in effective_history(self.workspace.state):
            if commit.id == base.commit:
                return None
            if commit.meta.get("call") == key:
                return commit
        return None

    def _stored_output(self, commit: Commit) -> tuple[str, str]:
        past = self.workspace.state.at(commit)
        cell = past.cell_at((WORKSPACE, "output"))
        output: Any = {} if cell is None else past.cells.load(cell)
        texts = (output.get(part, "") for part in ("stdout", "stderr", "shown"))
        is_ok = commit.meta.get("ok", True)
        return _output(*texts, error="" if is_ok else output.get("error", "the code failed"))


def _output(*texts: str, error: str) -> tuple[str, str]:
    """Return the output of code as a result and an error, one of which is empty."""
    text = "\n".join(each.rstrip("\n") for each in texts if each.strip())
    if len(text) > _OUTPUT_LETTERS:
        half = _OUTPUT_LETTERS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} letters left out …\n{text[-half:]}"
    return ("", f"{text}\n{error}".strip()[-_OUTPUT_LETTERS:]) if error else (text, "")


class ModelOrchestrator(Orchestrator):
    """Asks a model in each step, and acts by tool calls or by code."""

    def __init__(
        self,
        where: Any = None,
        *,
        instructions: str = "",
        result: Any = str,
        acts: ActionMode = "tools",
        can_ask: bool = False,
        max_repairs: int = 3,
        context_tokens: int | None = None,
        inputs: dict[str, Any] | InputLoader | None = None,
        profile: Profile | None = None,
        profile_tokens: int = 300,
        **parts: Any,
    ) -> None:
        """Make one; `result` is the type of the result, `parts` are those of `Orchestrator`.

        `inputs` are those of the task, or a function that makes them of those in its prompt.
        """
        check_argument(profile, "profile", (Profile, NOTHING), "repo.user(id).profile")
        self.instructions = instructions
        self.profile = profile
        self.profile_tokens = profile_tokens
        self.result = result
        self.can_ask = can_ask
        self.max_repairs = max_repairs
        self.context_tokens = context_tokens
        self.code_runner = CodeRunner(self, inputs or {}) if acts == "code" else None
        self._is_text_result = result in (str, Any)
        super().__init__(where, **parts)

    def step(self, s: AgentState) -> AgentState:
        """Ask the model, and make the calls of its reply."""
        after = self._reply(s)
        if after.data.get(_PROFILE):
            self._link_user()
        return after

    def _reply(self, s: AgentState) -> AgentState:
        if s.phase is Phase.PLANNING:
            s = self._with_profile(s.to_executing())
            if self.code_runner is not None:
                self.code_runner.put_inputs(s.task)
        reply = self._ask_model(s)
        if reply.is_refused:
            why = reply.text.strip() or "it gave no reason"
            return s.to_error(f"the model refused to answer ({reply.stop_reason}): {why}")
        s = s.say(reply.message)
        if reply.message.calls:
            return self._act(s, reply)
        if reply.is_cut_off:
            return self._ask_again(s.say(text_message(Role.USER, _SHORTER)))
        if reply.is_paused:
            return s.to_executing()
        return self._finish(s, _last_answer(s.messages))

    def reset(self) -> None:
        """Forget the current run; a copy gets a workspace and tools for itself."""
        super().reset()
        if self.code_runner is not None:
            self.code_runner = CodeRunner(self, self.code_runner.inputs)
        self._loop_tools = self._make_loop_tools()

    def _release(self) -> None:
        if self.code_runner is not None:
            self.code_runner.close()

    # The user

    def _with_profile(self, s: AgentState) -> AgentState:
        """Return the state with what the model is told about the user; it stays for the run."""
        told = ""
        if self.profile is not None:
            told = str(self.profile.prompt(self.profile_tokens, about=s.task))
        return s.with_data(**{_PROFILE: told}) if told or s.data.get(_PROFILE) else s

    def _link_user(self) -> None:
        """Let the commit of this step name the user, so that who erases them finds the session."""
        user, state = self.profile and self.profile.state, self.state
        if not isinstance(user, Versioned) or not isinstance(state, Versioned):
            return
        if user.repo is state.repo and user.head is not None:
            state.carry(reads={user.ref: user.head.hash})

    def _after_commit(self, run: AgentRun, saved: AgentState) -> AgentState:
        """Learn what the user has said, once a run ends or waits for them."""
        saved = super()._after_commit(run, saved)
        if self.profile is not None and (saved.is_over or saved.is_paused):
            try:
                self._learn(self.profile, run, saved)
            except Error as error:  # what the run has done is committed, whatever fails here
                why = f"{type(error).__name__}: {error}"
                run.journal.record_event("error", "the profile learned nothing", error=why)
        return saved

    @staticmethod
    def _learn(profile: Profile, run: AgentRun, saved: AgentState) -> None:
        """Add what the user says in the messages of a run to their profile, and commit it."""
        is_clean = profile.is_clean  # what others have staged is theirs to commit
        with suppress(NoConsent):
            profile.learn(run.conversation(saved.messages))
        if is_clean and not profile.is_clean:
            profile.commit(f"learned in {run.session}")

    # Asking

    def _ask_model(self, s: AgentState) -> Reply:
        """Return a valid reply; after an invalid one, record an event and ask the model again."""
        tools = [*self.tools.for_model, *self._loop_tools]
        instructions = self._instructions(s)
        head = [text_message(Role.SYSTEM, instructions)] if instructions else []
        messages: Sequence[Message] = s.messages
        chat = context = None
        if self.context_tokens is not None:
            chat = self._current_run().conversation(s.messages)
            context = self._context_of(chat, tools, instructions)
            document = {"messages": context.messages}
            if context.system is not None:
                document["system"] = context.system
            messages = read(document, context.for_)
        for left in reversed(range(self.max_repairs + 1)):
            try:
                reply = self.complete([*head, *messages], tools=tools)
            except BadReply as error:
                if not left:
                    raise
                journal = self._current_run().journal
                journal.record_event("error", "invalid reply", error=str(error))
            else:
                usage = reply.usage
                if chat is not None and usage.input_tokens:  # improves later estimates
                    chat.usage(
                        input_tokens=usage.input_tokens,
                        output_tokens=usage.output_tokens,
                        context=context,
                    )
                return reply
        raise AssertionError("the last attempt raises")

    def _instructions(self, s: AgentState) -> str:
        """Return the instructions of the agent, and what it is told about the user."""
        return "\n\n".join(filter(None, [self.instructions, s.data.get(_PROFILE, "")]))

    def _context_of(self, chat: Conversation, tools: Sequence[Tool], instructions: str) -> Context:
        """Return what of a conversation fits beside the instructions and the tools.

        Raises:
            OverBudget: what must stay does not fit.
        """
        described = [[tool.name, tool.description, tool.parameters] for tool in tools]
        taken = estimate_tokens(msgspec.json.encode(described).decode()) if described else 0
        form = getattr(self.model, "message_format", "openai")
        assert self.context_tokens is not None
        return chat.context(
            self.context_tokens, form, tools_tokens=taken + estimate_tokens(instructions)
        )

    # Acting

    def _act(self, s: AgentState, reply: Reply) -> AgentState:
        questions: list[str] = []
        result, calls = None, reply.message.calls
        for call in calls:
            seen, returned = self._call(call)
            s = s.record_observation(seen)
            if returned is not None and call.name == ASK_USER:
                questions.append(str(returned))
            elif returned is not None:
                result = returned
        if result is not None:
            return s.to_done(result[0])
        if questions:
            return s.ask("\n".join(questions))
        ending = {GIVE_RESULT, GIVE_VARIABLE} & {tool.name for tool in self._loop_tools}
        if reply.is_cut_off or any(call.name in ending for call in calls):
            return self._ask_again(s)
        return s.with_data(**{_REPAIRS: 0} if s.data.get(_REPAIRS) else {}).to_executing()

    def _call(self, call: ToolCall) -> tuple[Observation, Any]:
        """Return the finished call, and what a tool of the loop itself returned."""
        if refused := self._current_step().refused(call):
            return refused, None
        if call.name == RUN_CODE and self.code_runner is not None:
            return self.code_runner.run(call, self._current_step().base), None
        own = next((tool for tool in self._loop_tools if tool.name == call.name), None)
        if own is None and call.name in self.tools and self.tools[call.name].for_model:
            return self.call(call), None
        now = self.now()
        try:
            own = own or Toolbox([*self.tools.for_model, *self._loop_tools]).find(call.name)
            returned = own.function(**own.signature.arguments(call.arguments))
            if own.name == GIVE_RESULT:
                returned = (self._valid_result(call.arguments["result"]),)
        except (BadValue, KeyNotFound) as error:
            return Observation(call.id, call.name, call.arguments, error=str(error), time=now), None
        text = "asked; the answer follows" if call.name == ASK_USER else "taken"
        return Observation(call.id, call.name, call.arguments, text, time=now), returned

    def _finish(self, s: AgentState, text: str) -> AgentState:
        """Return the state done if the text is a valid result, else executing with the reason."""
        if self._is_text_result:
            return s.to_done(text)
        try:
            return s.to_done(self._valid_result(_parse_json(text)))
        except BadValue as error:
            why = f"This is not the result: {error.message}. Call {GIVE_RESULT} with it."
            return self._ask_again(s.say(text_message(Role.USER, why)))

    def _ask_again(self, s: AgentState) -> AgentState:
        """Return the state executing again, or failed after too many attempts."""
        attempts = s.data.get(_REPAIRS, 0) + 1
        if attempts > self.max_repairs:
            return s.to_error(f"the model gave no valid result in {attempts} attempts")
        return s.with_data(**{_REPAIRS: attempts}).to_executing()

    def _valid_result(self, given: Any) -> Any:
        """Return a result as the plain data to store, if it is of the type that was asked for.

        That is the plain form of the valid value, with defaults. A model of pydantic may leave
        something out of it, or write it in another way than it is read: if the plain form does not
        make the same value again, it is the data as given.
        """
        value = convert(given, self.result, what="the result")
        form = PlainForm(value)
        try:
            is_same = bool(convert(form.data, self.result, what="the result") == value)
        except Exception:  # noqa: BLE001  # a user's class may raise anything as it compares
            is_same = False
        return form.data if is_same else to_plain(given)

    def _make_loop_tools(self) -> list[Tool]:
        def give_result(result: Any) -> tuple[Any]:
            """Hand over the result of the task. This ends it."""
            return (result,)

        def ask_user(question: str) -> str:
            """Ask the user a question, and wait for the answer."""
            return question

        tools: list[Tool] = []
        if not self._is_text_result:
            give_result.__annotations__["result"] = self.result
            tools.append(Tool(give_result, name=GIVE_RESULT))
        if self.code_runner is not None:
            tools += self.code_runner.tools(self._valid_result)
        if self.can_ask:
            tools.append(Tool(ask_user, name=ASK_USER))
        for tool in tools:
            if tool.name in self.tools:
                raise Invalid(
                    f"{tool.name} is a tool of the loop itself", hint="give your tool another name="
                )
        return tools


def _last_answer(messages: Sequence[Message]) -> str:
    """Return the text of the last answer, which is in several messages if it was paused."""
    parts = list(takewhile(lambda each: each.role is Role.ASSISTANT, reversed(messages)))
    return "\n".join(text for part in reversed(parts) if (text := part.text))


def _parse_json(text: str) -> Any:
    """Return parsed JSON, which may be in a Markdown fence.

    Raises:
        BadValue: it is not JSON.
    """
    bare = text.strip()
    if bare.startswith("```"):
        bare = bare.partition("\n")[2].rpartition("```")[0]
    try:
        return json.loads(bare)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"it is not JSON ({error})") from None
