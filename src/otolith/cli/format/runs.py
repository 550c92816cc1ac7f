"""Events, runs and recorded replies of models as text and JSON.

The text of a run is what a person needs to decide what to do next: how it ended, and then its
question, its error, or its answer, whichever there is. JSON has all of them:

    outcome     ended, steps (of this call), iteration (of the run), phase, task, answer,
                question, question_id, error
    reply       step, request (its hash), model, reply
    event       what `Event.to_dict` returns
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from otolith.agent import AgentState, Outcome, RecordedReply
from otolith.cli.format.history import format_time, plural
from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import escape, pick, table
from otolith.state import Event
from otolith.text import clip

_STOPPED_BY = {"steps": "stopped by --max-steps", "seconds": "stopped by --max-seconds"}
_TASK_LETTERS, _ANSWER_LETTERS, _ANSWER_LINES = 120, 400, 12


def event_lines(events: Sequence[Event]) -> list[str]:
    """Return events as a table; without an agent in any of them, without that column."""
    has_agents = any(event.agent for event in events)
    rows = []
    for event in events:
        commit = (event.commit or "")[:10] or "(staged)"
        kind = click.style(escape(event.kind), fg="red" if event.kind == "error" else "cyan")
        agent = [escape(event.agent)] if has_agents else []
        rows.append([format_time(event.time), commit, *agent, kind, one_line(event.data)])
    return table(rows)


def event_json(event: Event) -> object:
    """Return an event as JSON data."""
    return to_json(event.to_dict())


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Yield how a run ended, and its question, error or answer."""
    state = outcome.state
    ended = _STOPPED_BY.get(outcome.ended, outcome.ended)
    yield f"{ended} after {plural(outcome.steps, 'step')} ({state.iteration} in all)"
    text = outcome.question or outcome.error or outcome.why or _answer(outcome.answer)
    if text:
        yield escape(text)


def _answer(answer: object) -> str:
    """Return the answer of a run as text: none is empty, and data is cut to one line."""
    if answer is None:
        return ""
    return answer if isinstance(answer, str) else one_line(answer)


def run_lines(name: str, state: AgentState) -> Iterator[str]:
    """Yield the phase and step of a run, and its question, error or answer, cut to some lines."""
    task = one_line(state.task, _TASK_LETTERS)
    yield f"{escape(name)}: {state.phase}, step {state.iteration}, {task}"
    text = escape(state.question or state.error or _answer(state.final_answer))
    lines = text.splitlines()
    for line in lines[:_ANSWER_LINES]:
        yield f"  {clip(line, _ANSWER_LETTERS)}"
    if len(lines) > _ANSWER_LINES:
        yield f"  … ({plural(len(lines) - _ANSWER_LINES, 'more line')})"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON data."""
    state = outcome.state
    return {
        **pick(outcome, "ended", "steps"),
        "iteration": state.iteration,
        "phase": str(state.phase),
        "task": state.task,
        "answer": to_json(outcome.answer),
        **pick(outcome, "question", "question_id", "error"),
    }


def recorded_lines(recorded: Sequence[RecordedReply]) -> Iterator[str]:
    """Yield the recorded replies of models as a table; tokens are input + output."""
    rows = [["step", "request", "model", "tokens", "answer"]]
    for each in recorded:
        calls = ", ".join(call.name for call in each.reply.message.calls)
        usage = each.reply.usage
        rows.append([
            str(each.iteration + 1), each.request[:10], escape(each.model),
            f"{usage.input_tokens}+{usage.output_tokens}",
            one_line(escape(each.reply.text)) + (f" -> {escape(calls)}" if calls else ""),
        ])  # fmt: skip
    yield from table(rows)


def recorded_json(recorded: RecordedReply) -> dict[str, Any]:
    """Return a recorded reply as JSON data."""
    return {
        "step": recorded.iteration + 1,
        "request": recorded.request,
        "model": recorded.model,
        "reply": to_json(recorded.reply.to_data()),
    }
