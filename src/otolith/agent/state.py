"""AgentState: where an agent is, as one value that nobody can change.

A transition returns another state and leaves this one as it was, with all that is in it: what is
shared between two states is frozen to the leaf. Which transitions there are is told by the chart
`AGENT` of `otolith.statecharts`; one that it does not have is an `IllegalTransition` that lists
those that it has.

Working memory as a value: goal, plan, what is done, notes, and every tool call with its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from otolith import shapes
from otolith.agent.tools import told
from otolith.conversation.message import Message, Role, Text, ToolCall, ToolResult
from otolith.errors import BadValue, Corrupt, IllegalTransition, Invalid, SchemaMismatch
from otolith.frozen import EMPTY, freeze, thaw
from otolith.shapes import Shape
from otolith.statecharts.agent_phases import AGENT, Phase


def _nothing() -> Mapping[str, Any]:
    return EMPTY


@dataclass(frozen=True, slots=True)
class Observation:
    """One tool call that has ended: what was asked, and what came of it."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=_nothing)
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
        """What a model is told of it: the error, the text, or the JSON of anything else."""
        return self.error or told(self.result)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "id": self.id,
            "name": self.name,
            "arguments": thaw(self.arguments),
            "result": thaw(self.result),
            "error": self.error,
            "duration_ms": self.duration_ms,
            "time": self.time,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Observation:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no call.
        """
        return cls(**shapes.fields(data, "a call that has ended", *_OBSERVATION))


@dataclass(frozen=True, slots=True)
class WorkingMemory:
    """What an agent has in mind while it works; every change is another value."""

    goal: str = ""
    steps: tuple[str, ...] = ()
    """The plan, in its order."""
    completed: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=_nothing)
    tool_calls: tuple[Observation, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "completed", tuple(self.completed))
        object.__setattr__(self, "notes", freeze(dict(self.notes)))
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))

    @property
    def pending(self) -> tuple[str, ...]:
        """The steps that are not done."""
        done = set(self.completed)
        return tuple(step for step in self.steps if step not in done)

    def plan(self, steps: Iterable[str]) -> WorkingMemory:
        """Return it with another plan; what is completed stays so."""
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
        return replace(self, notes={**self.notes, key: value})

    def record(self, call: Observation) -> WorkingMemory:
        """Return it with one more tool call."""
        return replace(self, tool_calls=(*self.tool_calls, call))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return self.mind_data() | {"tool_calls": [call.to_data() for call in self.tool_calls]}

    def mind_data(self) -> dict[str, Any]:
        """Return what is small in it: all but the tool calls."""
        return {
            "goal": self.goal,
            "steps": list(self.steps),
            "completed": list(self.completed),
            "notes": thaw(self.notes),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> WorkingMemory:
        """Return what `to_data` gave.

        Raises:
            Corrupt: it is no memory.
        """
        given = shapes.fields(data, "a working memory", _MEMORY, is_open=True)
        steps, done = (shapes.several(given[each], each, str) for each in ("steps", "completed"))
        calls = tuple(map(Observation.from_data, given["tool_calls"]))
        return cls(given["goal"], tuple(steps), tuple(done), given["notes"], calls)


SCHEMA = 1
"""The version of the shape that `to_data` gives."""

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the data of a state of one schema version to that of the next."""

_START = AGENT.start().snapshot
_ENDED = frozenset({Phase.DONE, Phase.ERROR})
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
"""How the events of the chart are called here."""


@dataclass(frozen=True, slots=True)
class AgentState:
    """Where an agent is: its phase, what was said, what it has in mind, and how it ended."""

    session: str
    phase: Phase = Phase.IDLE
    task: str = ""
    """What the user asked for last."""
    messages: tuple[Message, ...] = ()
    memory: WorkingMemory = field(default_factory=WorkingMemory)
    iteration: int = 0
    """How many steps of the loop are behind it."""
    final_answer: Any = None
    error: str = ""
    question: str = ""
    """What a person is being asked, in `waiting_feedback`."""
    data: Mapping[str, Any] = field(default_factory=_nothing)
    """Whatever else the steps hand on."""

    migrations: ClassVar[dict[int, Migration]] = {}

    def __post_init__(self) -> None:
        object.__setattr__(self, "phase", Phase(self.phase))
        object.__setattr__(self, "messages", tuple(self.messages))
        object.__setattr__(self, "final_answer", freeze(self.final_answer))
        object.__setattr__(self, "data", freeze(dict(self.data)))

    @classmethod
    def from_user_input(
        cls, text: str, *, session: str = "main", messages: tuple[Message, ...] = ()
    ) -> AgentState:
        """Return the state that a request begins: it is planning, and the request is its goal."""
        if not isinstance(text, str):
            raise Invalid(f"{text!r} is no task", hint="say in words what is to be done")
        if not text.strip():
            raise Invalid("there is nothing to do: the input is empty", hint="say what you want")
        start = cls(session, task=text, messages=messages, memory=WorkingMemory(goal=text))
        return start.say(said(Role.USER, text)).to_planning()

    # What it is

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.phase in _ENDED

    @property
    def is_paused(self) -> bool:
        """Whether it waits for a person."""
        return self.phase is Phase.WAITING_FEEDBACK

    @property
    def allowed(self) -> tuple[str, ...]:
        """The events that its phase accepts."""
        return () if self.is_over else AGENT.allowed(_START._replace(configuration=(self.phase,)))

    # Transitions

    def to_planning(self) -> AgentState:
        """Return it planning: from idle, or from reflecting when the plan did not hold."""
        return self._moved("replan" if self.phase is Phase.REFLECTING else "new_task")

    def to_executing(self) -> AgentState:
        """Return it executing: from planning, reflecting, or executing once more."""
        known = {Phase.REFLECTING: "proceed", Phase.EXECUTING: "step_complete"}
        return self._moved(known.get(self.phase, "plan_ready"))

    def to_reflecting(self) -> AgentState:
        """Return it reflecting on what it has seen while executing."""
        return self._moved("observe")

    def to_done(self, answer: Any) -> AgentState:
        """Return it done, with an answer; text that was not said yet is said."""
        done = replace(self._moved("task_complete"), final_answer=answer)
        if not isinstance(answer, str) or self._said_last(answer):
            return done
        return done.say(said(Role.ASSISTANT, answer))

    def to_error(self, message: str) -> AgentState:
        """Return it failed, with what went wrong."""
        return replace(self._moved("fail"), error=str(message) or "failed")

    def ask(self, question: str) -> AgentState:
        """Return it waiting for a person to answer; the run pauses there."""
        return replace(self._moved("needs_input"), question=question)

    def answered(self, text: str) -> AgentState:
        """Return it executing again, with what the person said."""
        moved = replace(self._moved("input_received"), question="")
        if self.question and not self._has_asked(self.question):
            moved = moved.say(said(Role.ASSISTANT, self.question))
        return moved.say(said(Role.USER, text))

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
        """Return it with something else in mind: all of it, tool calls too."""
        return replace(self, memory=memory)

    def with_data(self, **values: Any) -> AgentState:
        """Return it with more to hand on to later steps."""
        return replace(self, data={**self.data, **values})

    def record_observation(self, call: Observation) -> AgentState:
        """Return it with a tool call that has ended, and the messages that tell a model so.

        A call that no message asks for was the agent's own idea: it is said that it was made.
        """
        result = ToolResult(call.id, call.text, is_error=bool(call.error))
        told = Message(Role.TOOL, (result,), name=call.name, time=call.time)
        asked = Message(Role.ASSISTANT, (ToolCall(call.id, call.name, call.arguments),))
        said = (told,) if self._asks_for(call.id) else (asked, told)
        return replace(self, memory=self.memory.record(call), messages=(*self.messages, *said))

    def _asks_for(self, id: str) -> bool:
        """Tell whether the assistant's last message has a call that waits for a result."""
        for message in reversed(self.messages):
            if message.role is not Role.TOOL:
                return any(call.id == id for call in message.calls)
        return False

    def _moved(self, event: str) -> AgentState:
        at = _START._replace(
            configuration=(self.phase,), status="done" if self.is_over else "running"
        )
        try:
            return replace(self, phase=Phase(AGENT.step(at, event).snapshot.phase))
        except IllegalTransition as error:
            ways = ", ".join(dict.fromkeys(_METHODS[each] for each in error.allowed))
            error.hint = f"from {self.phase} there is: {ways}" if ways else "begin another task"
            raise

    def _said_last(self, text: str) -> bool:
        last = self.messages[-1] if self.messages else None
        return last is not None and last.role is Role.ASSISTANT and last.text == text

    def _has_asked(self, question: str) -> bool:
        """Tell whether the assistant's last message asks this, in words or by a call."""
        spoken = (each for each in reversed(self.messages) if each.role is Role.ASSISTANT)
        last = next(spoken, None)
        if last is None:
            return False
        calls = (value for call in last.calls for value in call.arguments.values())
        return last.text == question or question in "\n".join(map(str, calls))

    # As data

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data that JSON can carry (but for bytes in attachments)."""
        return self.head_data() | {
            "messages": [message.to_data() for message in self.messages],
            "memory": self.memory.to_data(),
        }

    def head_data(self) -> dict[str, Any]:
        """Return what is small in it: all but messages and memory."""
        return {
            "schema": SCHEMA,
            "session": self.session,
            "phase": str(self.phase),
            "task": self.task,
            "iteration": self.iteration,
            "final_answer": thaw(self.final_answer),
            "error": self.error,
            "question": self.question,
            "data": thaw(self.data),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> AgentState:
        """Return what `to_data` gave; data of an older schema goes through `migrations`.

        Raises:
            SchemaMismatch: it is of another schema version, and no migration leads here.
            Corrupt: this is no such data.
        """
        if not isinstance(data, Mapping):
            raise Corrupt("this is not the data of an agent's state", hint="restore an older one")
        what = "this, which is not the data of an agent's state,"
        found = shapes.fields(cls._migrated(dict(data)), what, _STATE, is_open=True)
        del found["schema"]
        try:
            phase, messages = (
                Phase(found["phase"]),
                tuple(map(Message.from_data, found["messages"])),
            )
            memory = WorkingMemory.from_data(found["memory"])
            if found["iteration"] < 0:
                raise BadValue(f"{found['iteration']} is no count")
            return cls(**{**found, "phase": phase, "messages": messages, "memory": memory})
        except ValueError as error:  # of ours, or for a phase that there is not
            why = f"this is not the data of an agent's state: {error}"
            raise Corrupt(why, hint="restore an older one") from error

    @classmethod
    def _migrated(cls, data: dict[str, Any]) -> dict[str, Any]:
        while (version := data.get("schema")) != SCHEMA:
            step = cls.migrations.get(version) if type(version) is int else None
            if step is None or not isinstance(version, int) or version > SCHEMA:
                raise SchemaMismatch(
                    f"this state has schema version {version!r}; here it is {SCHEMA}",
                    path="schema",
                    hint="upgrade otolith, or register AgentState.migrations[version] = function",
                )
            data = {**step(data), "schema": version + 1}
        return data


_OBSERVATION: tuple[Shape, Shape] = (
    {"id": str, "name": str},
    {
        "arguments": dict,
        "result": object,
        "error": str,
        "duration_ms": float,
        "time": int,
    },
)
_MEMORY: Shape = {
    "goal": str,
    "steps": list,
    "completed": list,
    "notes": dict,
    "tool_calls": list,
}
_STATE: Shape = {
    "schema": int,
    "session": str,
    "phase": str,
    "task": str,
    "messages": list,
    "memory": dict,
    "iteration": int,
    "final_answer": object,
    "error": str,
    "question": str,
    "data": dict,
}


def said(role: Role, text: str) -> Message:
    """Return a message of one text."""
    return Message(role, (Text(text),))
