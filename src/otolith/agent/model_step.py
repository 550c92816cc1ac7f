"""Acting: the step of an agent that thinks with a model and acts by calling tools.

A step is one answer of the model and all that it asks for. An answer without calls ends the run, if
it is what was asked for; otherwise the model is told what is wrong with it, a few times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from otolith.agent.conversation.message import Message, Role, ToolCall
from otolith.agent.lifecycle.phases import Phase
from otolith.agent.loop.coding import CODE, GIVE_VARIABLE, Coding, Inputs
from otolith.agent.loop.models.model import Reply
from otolith.agent.loop.orchestrator import Orchestrator
from otolith.agent.loop.signature import fitted, plain
from otolith.agent.loop.state import AgentState, said
from otolith.agent.loop.tools import Tool, Toolbox
from otolith.agent.loop.window import Window
from otolith.agent.loop.working import Observation
from otolith.errors import BadReply, BadValue, Invalid, KeyNotFound

Acts: TypeAlias = Literal["tools", "code"]

GIVE, ASK = "give_result", "ask_user"
_REPAIRS = "repairs"
_CUT_OFF = ("length", "max_tokens")
"""Why a provider stopped, where the model had more to say."""
_SHORTER = "Your answer was cut off. Give all of it, in fewer words."


class Acting(Orchestrator):
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
