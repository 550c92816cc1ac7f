"""What happened in a step, as events: told from the states before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.state import AgentState, Observation
from otolith.conversation.message import Message, Role
from otolith.frozen import thaw
from otolith.statecharts.agent_phases import Phase

_MOST_LETTERS = 100  # so that an event is short enough to stand in its node
_ENDS = {Phase.DONE: "success", Phase.ERROR: "error", Phase.WAITING_FEEDBACK: "question"}


def events_of_step(
    before: AgentState | None, after: AgentState
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of a step: a kind and data each, in the order in which they happened."""
    known = 0 if before is None else len(before.messages)
    done = () if before is None else before.memory.tool_calls
    calls = after.memory.tool_calls
    fresh = list(calls[len(done) :] if calls[: len(done)] == done else calls)
    for at, message in enumerate(after.messages[known:], known):
        yield from _said(message, at)
        ids = {result.call_id for result in message.results}
        yield from (("tool_call", _called(call)) for call in fresh if call.id in ids)
        fresh = [call for call in fresh if call.id not in ids]
    yield from (("tool_call", _called(call)) for call in fresh)
    if before is None or before.phase is not after.phase:
        was = "" if before is None else str(before.phase)
        yield "phase", {"was": was, "phase": str(after.phase), "iteration": after.iteration}
        if after.phase in _ENDS:
            yield _ENDS[after.phase], _ended(after)


def _said(message: Message, at: int) -> Iterator[tuple[str, dict[str, Any]]]:
    said = {"message": at, "text": clipped(message.text)}
    if message.role is Role.USER:
        yield "input", said
    elif message.role is Role.ASSISTANT:
        yield "output", said | {"calls": [call.name for call in message.calls]}


def _called(call: Observation) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": thaw(call.arguments),
        "error": clipped(call.error),
        "duration_ms": call.duration_ms,
    }


def _ended(state: AgentState) -> dict[str, Any]:
    if state.phase is Phase.DONE:
        answer = state.final_answer
        return {"answer": clipped(answer) if isinstance(answer, str) else thaw(answer)}
    return {"error": state.error} if state.phase is Phase.ERROR else {"question": state.question}


def clipped(text: str) -> str:
    """Return a text, or its beginning: the whole of it is in the conversation."""
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"
