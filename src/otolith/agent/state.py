"""AgentState: where an agent is, as one immutable value; the `Outcome` and `Progress` of a run.

A transition returns another state and leaves this one unchanged; what two states share is frozen
to the leaves. The chart `AGENT` of `otolith.statecharts` defines which transitions there are; any
other one raises `IllegalTransition` with a list of those that are allowed.

    s = AgentState.from_user_input("Book a flight")        # planning
    s = s.to_executing().note("city", "NYC").to_done("booked")
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TextIO, TypeAlias

from otolith import shapes
from otolith.agent.tools import result_text
from otolith.conversation import Message, Role, Text, ToolCall, ToolResult
from otolith.core import digest
from otolith.errors import BadValue, Corrupt, IllegalTransition, Invalid, SchemaMismatch
from otolith.frozen import freeze, thaw
from otolith.shapes import Shape
from otolith.statecharts import AGENT, Phase
from otolith.text.lines import clip_line
from otolith.types import short_repr

SCHEMA = 1
"""The version of the data that `AgentState.to_data` returns."""

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the data of a state of one schema version into that of the next."""
Ended: TypeAlias = Literal["done", "error", "paused", "steps", "seconds", "stopped"]

_START = AGENT.start().snapshot
_OVER = frozenset({Phase.DONE, Phase.ERROR})
_REPR_LETTERS = 80
_QUESTION_ID_BYTES = 4
_TERMINAL_WIDTHS = (40, 120)
_METHODS = {
    "new_task": "to_planning()",
    "replan": "to_planning()",
    "plan_ready": "to_executing()",
    "proceed": "to_executing()",
    "step_complete": "to_executing()",
    "observe": "to_reflecting()",
    "needs_input": "ask(…)",
    "input_received": "answered(…)",
    "task_complete": "to_done(…)",
    "fail": "to_error(…)",
}
"""The method for each event of the chart."""

# Stored fields, in the order in which they are written.
_CALL_NAMES: Shape = {"id": str, "name": str}
_CALL_REST: Shape = {
    "arguments": dict,
    "result": object,
    "error": str,
    "duration_ms": float,
    "time": int,
}
_NOTEPAD: Shape = {"goal": str, "steps": list, "completed": list, "notes": dict}
_HEAD: Shape = {
    "schema": int,
    "session": str,
    "phase": str,
    "task": str,
    "iteration": int,
    "final_answer": object,
    "error": str,
    "question": str,
    "data": dict,
}


@short_repr("name", "arguments", "result", "error")
@dataclass(frozen=True, slots=True)
class Observation:
    """One finished tool call: what was asked, and the result or the error."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str = ""
    duration_ms: float = 0.0
    time: int = 0
    """When it began, in microseconds since 1970."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", freeze(dict(self.arguments)))
        object.__setattr__(self, "result", freeze(self.result))

    @property
    def text(self) -> str:
        """What a model gets as the result: the error, the text, or JSON of anything else."""
        return self.error or result_text(self.result)

    def to_data(self) -> dict[str, Any]:
        """Return the call as plain data."""
        return {name: thaw(getattr(self, name)) for name in (*_CALL_NAMES, *_CALL_REST)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Observation:
        """Return the call that `to_data` described.

        Raises:
            Corrupt: the data does not describe a call.
        """
        return cls(**shapes.fields(data, "a finished call", _CALL_NAMES, _CALL_REST))


@short_repr("goal", "steps", "notes", "tool_calls")
@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """What an agent has in mind while it works; every change is another value."""

    goal: str = ""
    steps: tuple[str, ...] = ()
    """The plan, in order."""
    completed: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    tool_calls: tuple[Observation, ...] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "completed", "tool_calls"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "notes", freeze(dict(self.notes)))

    @property
    def pending(self) -> tuple[str, ...]:
        """The steps that are not done."""
        done = set(self.completed)
        return tuple(step for step in self.steps if step not in done)

    def plan(self, steps: Iterable[str]) -> WorkingMemory:
        """Return it with another plan; completed steps stay completed."""
        return replace(self, steps=tuple(steps))

    def done(self, step: str) -> WorkingMemory:
        """Return it with a step done.

        Raises:
            Invalid: the plan has no such step.
        """
        if step not in self.steps:
            raise Invalid(f"the plan has no step {step!r}", hint=f"it has {list(self.steps)}")
        return self if step in self.completed else replace(self, completed=(*self.completed, step))

    def note(self, key: str, value: Any) -> WorkingMemory:
        """Return it with a note."""
        shapes.check_argument(key, "key", str, "a text")
        return replace(self, notes={**self.notes, key: value})

    def record(self, call: Observation) -> WorkingMemory:
        """Return it with one more tool call."""
        return replace(self, tool_calls=(*self.tool_calls, call))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return self.notepad_data() | {"tool_calls": [call.to_data() for call in self.tool_calls]}

    def notepad_data(self) -> dict[str, Any]:
        """Return the small parts as plain data: all but the tool calls."""
        lists = {"steps": list(self.steps), "completed": list(self.completed)}
        return {"goal": self.goal, **lists, "notes": thaw(self.notes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> WorkingMemory:
        """Return the memory that `to_data` described.

        Raises:
            Corrupt: the data does not describe a memory.
        """
        shape = {**_NOTEPAD, "tool_calls": list}
        found = shapes.fields(data, "a working memory", shape, is_open=True)
        steps, done = (shapes.several(found[each], each, str) for each in ("steps", "completed"))
        calls = tuple(map(Observation.from_data, found["tool_calls"]))
        return cls(found["goal"], tuple(steps), tuple(done), found["notes"], calls)


@short_repr("session", "phase", "iteration", "task", "question", "error", "final_answer")
@dataclass(frozen=True, slots=True)
class AgentState:
    """Where an agent is: its phase, its messages, its working memory, and how it ended."""

    session: str
    phase: Phase = Phase.IDLE
    task: str = ""
    """The last request of the user."""
    messages: tuple[Message, ...] = ()
    memory: WorkingMemory = field(default_factory=WorkingMemory)
    iteration: int = 0
    """The number of finished steps."""
    final_answer: Any = None
    error: str = ""
    question: str = ""
    """The open question to a person, in `waiting_feedback`."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Values that steps pass on to later steps."""

    migrations: ClassVar[dict[int, Migration]] = {}

    def __post_init__(self) -> None:
        shapes.check_argument(self.session, "session", str, "a name")
        try:
            phase = Phase(self.phase)
        except ValueError as error:
            hint = f"use one of {', '.join(Phase)}"
            raise Invalid(f"there is no phase {self.phase!r:.60}", hint=hint) from error
        shapes.check_argument(self.messages, "messages", Iterable, "a list of messages")
        shapes.check_argument(self.memory, "memory", WorkingMemory, "a WorkingMemory")
        shapes.check_argument(self.data, "data", Mapping, "a mapping")
        object.__setattr__(self, "phase", phase)
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "final_answer", freeze(self.final_answer))
        object.__setattr__(self, "data", freeze(dict(self.data)))

    @classmethod
    def from_user_input(
        cls, text: str, *, session: str = "main", messages: tuple[Message, ...] = ()
    ) -> AgentState:
        """Return the state that a request begins: it is planning, and the request is its goal."""
        if not isinstance(text, str):
            raise Invalid(f"a task must be a text, got {text!r}", hint="describe it in words")
        if not text.strip():
            raise Invalid("a task must not be empty", hint="say what you want")
        start = cls(session, task=text, messages=messages, memory=WorkingMemory(goal=text))
        return start.say(text_message(Role.USER, text)).to_planning()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, with an answer or with an error."""
        return self.phase in _OVER

    @property
    def is_paused(self) -> bool:
        """Whether it waits for a person."""
        return self.phase is Phase.WAITING_FEEDBACK

    @property
    def question_id(self) -> str:
        """The id of the open question: no other question of the session has it; "" without one."""
        if not self.is_paused:
            return ""
        asked = f"{self.session}\n{self.iteration}\n{self.task}\n{self.question}"
        return digest(asked.encode("utf-8", "replace"))[:_QUESTION_ID_BYTES].hex()

    @property
    def allowed(self) -> tuple[str, ...]:
        """The events that its phase accepts."""
        return () if self.is_over else AGENT.allowed(_START._replace(configuration=(self.phase,)))

    # Transitions

    def to_planning(self) -> AgentState:
        """Return it planning: from idle, or from reflecting when the plan did not hold."""
        return self._after("replan" if self.phase is Phase.REFLECTING else "new_task")

    def to_executing(self) -> AgentState:
        """Return it executing: from planning, reflecting, or executing once more."""
        known = {Phase.REFLECTING: "proceed", Phase.EXECUTING: "step_complete"}
        return self._after(known.get(self.phase, "plan_ready"))

    def to_reflecting(self) -> AgentState:
        """Return it reflecting on what it has seen while executing."""
        return self._after("observe")

    def to_done(self, answer: Any) -> AgentState:
        """Return it done; a text becomes the last message, unless it is already."""
        done = replace(self._after("task_complete"), final_answer=answer)
        last = self.messages[-1] if self.messages else None
        is_said = last is not None and last.role is Role.ASSISTANT and last.text == answer
        if not isinstance(answer, str) or is_said:
            return done
        return done.say(text_message(Role.ASSISTANT, answer))

    def to_error(self, message: str) -> AgentState:
        """Return it failed, with an error message."""
        return replace(self._after("fail"), error=str(message) or "failed")

    def ask(self, question: str) -> AgentState:
        """Return it waiting for a person to answer; the run pauses there."""
        return replace(self._after("needs_input"), question=question)

    def answered(self, text: str) -> AgentState:
        """Return it executing again, with the answer of the person."""
        moved = replace(self._after("input_received"), question="")
        if self.question and not self._has_asked(self.question):
            moved = moved.say(text_message(Role.ASSISTANT, self.question))
        return moved.say(text_message(Role.USER, text))

    def say(self, *messages: Message) -> AgentState:
        """Return it with more messages."""
        return replace(self, messages=(*self.messages, *messages))

    def plan(self, *steps: str) -> AgentState:
        """Return it with another plan."""
        return self.remember(self.memory.plan(steps))

    def done(self, step: str) -> AgentState:
        """Return it with a step of the plan done."""
        return self.remember(self.memory.done(step))

    def note(self, key: str, value: Any) -> AgentState:
        """Return it with a note."""
        return self.remember(self.memory.note(key, value))

    def remember(self, memory: WorkingMemory) -> AgentState:
        """Return it with another working memory, tool calls included."""
        return replace(self, memory=memory)

    def with_data(self, **values: Any) -> AgentState:
        """Return it with more values for later steps."""
        return replace(self, data={**self.data, **values})

    def record_observation(self, call: Observation) -> AgentState:
        """Return it with a finished tool call, and the messages about it.

        If no message of the model asks for the call, one that does is added first.
        """
        shapes.check_argument(call, "call", Observation, "an Observation")
        result = ToolResult(call.id, call.text, is_error=bool(call.error))
        messages = [Message(Role.TOOL, (result,), name=call.name, time=call.time)]
        last = next((each for each in reversed(self.messages) if each.role is not Role.TOOL), None)
        if last is None or all(asked.id != call.id for asked in last.calls):
            request = ToolCall(call.id, call.name, call.arguments)
            messages.insert(0, Message(Role.ASSISTANT, (request,)))
        return self.remember(self.memory.record(call)).say(*messages)

    def _after(self, event: str) -> AgentState:
        """Return it after an event of the chart."""
        at = _START._replace(
            configuration=(self.phase,), status="done" if self.is_over else "running"
        )
        try:
            return replace(self, phase=Phase(AGENT.step(at, event).snapshot.phase))
        except IllegalTransition as error:
            ways = ", ".join(dict.fromkeys(_METHODS[each] for each in error.allowed))
            error.hint = f"from {self.phase} there is: {ways}" if ways else "begin another task"
            raise

    def _has_asked(self, question: str) -> bool:
        """Tell whether the assistant's last message asks this, in text or by a tool call."""
        spoken = (each for each in reversed(self.messages) if each.role is Role.ASSISTANT)
        last = next(spoken, None)
        if last is None:
            return False
        arguments = (value for call in last.calls for value in call.arguments.values())
        return last.text == question or question in "\n".join(map(str, arguments))

    # Data

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data that JSON can carry (except bytes in attachments)."""
        messages = [message.to_data() for message in self.messages]
        return self.head_data() | {"messages": messages, "memory": self.memory.to_data()}

    def head_data(self) -> dict[str, Any]:
        """Return the small parts as plain data: all but messages and memory."""
        values = {name: thaw(getattr(self, name)) for name in _HEAD if name != "schema"}
        return {"schema": SCHEMA, **values, "phase": str(self.phase)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> AgentState:
        """Return the state that `to_data` described; older data goes through `migrations`.

        Raises:
            SchemaMismatch: it is of another schema version, and no migration leads here.
            Corrupt: the data does not describe a state.
        """
        if not isinstance(data, Mapping):
            raise Corrupt("this is not the data of an agent's state", hint="restore an older one")
        what = "this, which is not the data of an agent's state,"
        shape = {**_HEAD, "messages": list, "memory": dict}
        found = shapes.fields(cls._migrated(dict(data)), what, shape, is_open=True)
        del found["schema"]
        try:
            found["phase"] = Phase(found["phase"])
            found["messages"] = tuple(map(Message.from_data, found["messages"]))
            found["memory"] = WorkingMemory.from_data(found["memory"])
            if found["iteration"] < 0:
                raise BadValue(f"iteration must be at least 0, got {found['iteration']}")
            return cls(**found)
        except ValueError as error:  # one of ours, or an unknown phase
            why = f"this is not the data of an agent's state: {error}"
            raise Corrupt(why, hint="restore an older one") from error

    @classmethod
    def _migrated(cls, data: dict[str, Any]) -> dict[str, Any]:
        while (version := data.get("schema")) != SCHEMA:
            step = cls.migrations.get(version) if type(version) is int else None
            if step is None or not isinstance(version, int) or version > SCHEMA:
                raise SchemaMismatch(
                    f"the schema version of a state must be {SCHEMA}, got {version!r}",
                    path="schema",
                    hint="upgrade otolith, or register AgentState.migrations[version] = function",
                )
            data = {**step(data), "schema": version + 1}
        return data


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """How a run ended. Any but `done` and `error` can be resumed."""

    state: AgentState
    ended: Ended
    """`paused` for a person, out of `steps` or `seconds`, or `stopped` by `stop()`."""
    steps: int = 0
    """The number of steps of this call."""
    why: str = ""
    """What it was waiting for when its time was up, if that is known."""

    @property
    def answer(self) -> Any:
        """The final answer; None if there is none."""
        return self.state.final_answer

    @property
    def question(self) -> str:
        """The open question to a person, if it is paused."""
        return self.state.question

    @property
    def question_id(self) -> str:
        """The id of the open question, for `run(answer=…, to=…)`; "" if there is none."""
        return self.state.question_id

    @property
    def error(self) -> str:
        """The error message, if it ended with an error."""
        return self.state.error

    def __repr__(self) -> str:
        text = str(self)
        return f"<Outcome {self.ended} after {self.steps} steps{text and f': {text}'}>"

    def __str__(self) -> str:
        """Return the answer, the question, the error or what it waited for, cut to one line."""
        reason = self.question or self.error or self.why
        return clip_line(str(self.answer) if self.ended == "done" else reason, _REPR_LETTERS)


def text_message(role: Role, text: str) -> Message:
    """Return a message with one text."""
    return Message(role, (Text(text),))


class Progress:
    """Prints a line for each step of a run."""

    def __init__(
        self, name: str = "", *, is_wanted: bool | None = None, stream: TextIO | None = None
    ) -> None:
        """Print to a stream, by default to standard error if that is a terminal.

        `name` is that of a run which is not the main one of its session.
        """
        self._name = f"/{name}" if name else ""
        self._stream = sys.stderr if stream is None else stream  # None under pythonw
        is_terminal = self._stream is not None and self._stream.isatty()
        self._is_on = is_terminal if is_wanted is None else is_wanted and self._stream is not None
        self._start = time.monotonic()

    def step(self, after: AgentState, before: AgentState | None) -> None:
        """Print what a step has done."""
        if not self._is_on:
            return
        known = 0 if before is None else len(before.memory.tool_calls)
        calls = ", ".join(call.name for call in after.memory.tool_calls[known:])
        last = after.messages[-1].text if after.messages else ""
        text = after.question or calls or last
        printable = "".join(each if each.isprintable() else " " for each in text)
        seconds = time.monotonic() - self._start
        run = f"[{after.session}{self._name}]"
        line = f"{run} {after.iteration:>3} {after.phase!s:<16} {seconds:6.1f}s  {printable}"
        least, most = _TERMINAL_WIDTHS
        width = min(max(shutil.get_terminal_size().columns - 1, least), most)
        self._stream.write(line[:width].rstrip() + "\n")
        self._stream.flush()
