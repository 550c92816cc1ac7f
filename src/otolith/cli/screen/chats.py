"""Conversations, events and runs on the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from otolith.agent import (
    AgentState,
    Attachment,
    Context,
    Event,
    Hit,
    Message,
    Outcome,
    Recorded,
    Text,
    Topic,
)
from otolith.cli.screen.output import table
from otolith.cli.screen.values import one_line, to_json
from otolith.cli.screen.words import counted, moment, safe

_COLORS = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


def message_lines(index: int, message: Message) -> Iterator[str]:
    """Yield a message: who, then what was said, called and answered."""
    role = str(message.role)
    when = f"  {moment(message.time)}" if message.time else ""
    yield f"{click.style(f'[{index}] {role}', fg=_COLORS[role], bold=True)}{when}"
    for line in safe(message.text).splitlines():
        yield f"    {line}"
    for call in message.calls:
        shown = one_line(dict(call.arguments)) if call.arguments else safe(call.raw)
        yield f"    -> {safe(call.name)} {shown}"
    for result in message.results:
        sign = click.style("!!", fg="red") if result.is_error else "<-"
        text = result.content if isinstance(result.content, str) else _parts_text(result.content)
        yield from (f"    {sign} {line}" for line in safe(text).splitlines() or [""])
    for part in message.parts:
        if isinstance(part, Attachment):
            yield f"    ({safe(_named(part))})"


def _parts_text(parts: Sequence[object]) -> str:
    shown = (part.text if isinstance(part, Text) else f"({_named(part)})" for part in parts)
    return "\n".join(shown)


def _named(part: object) -> str:
    if isinstance(part, Attachment):
        return ", ".join(filter(None, (part.name, part.media_type, part.url)))
    return type(part).__name__.lower()


def message_json(index: int, message: Message) -> dict[str, Any]:
    """Return a message for programs."""
    found: dict[str, Any] = to_json({"index": index, **message.to_data()})
    return found


def hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield what was found, the best first."""
    for hit in hits:
        yield f"[{hit.index}] {hit.message.role}  {hit.score:.2f}  {one_line(safe(hit.snippet))}"
    if not hits:
        yield "nothing found"


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit for programs."""
    return {
        "index": hit.index,
        "role": str(hit.message.role),
        "score": hit.score,
        "words": list(hit.words),
        "snippet": hit.snippet,
    }


def topic_lines(topics: Sequence[Topic]) -> Iterator[str]:
    """Yield what a conversation is about."""
    rows = [["topic", "status", "messages", "keywords"]]
    for topic in topics:
        spans = ", ".join(f"{span.start}..{span.stop - 1}" for span in topic.spans)
        rows.append([safe(topic.label), str(topic.status), spans, safe(", ".join(topic.keywords))])
    yield from table(rows)


def topic_json(topic: Topic) -> dict[str, Any]:
    """Return a topic for programs."""
    return {
        "id": topic.id,
        "label": topic.label,
        "status": str(topic.status),
        "keywords": list(topic.keywords),
        "spans": [[span.start, span.stop] for span in topic.spans],
    }


def context_lines(context: Context) -> Iterator[str]:
    """Yield what a model would be sent, and what not."""
    if context.system is not None:
        yield f"system  {one_line(context.system)}"
    for message in context.messages:
        yield f"{message.get('role', message.get('type', '')):<10} {_shown(message)}"
    kept = counted(len(context.messages), "message")
    used = f"{context.tokens:,} of {context.budget:,} tokens"
    yield f"{kept}, {used}, {len(context.dropped)} left out"
    for reason in sorted(context.why):
        last = f"..{reason.stop - 1}" if reason.stop - 1 > reason.start else ""
        yield safe(f"  [{reason.start}{last}] {reason.done}: {reason.why}")


def context_json(context: Context) -> dict[str, Any]:
    """Return a context for programs."""
    found: dict[str, Any] = to_json(
        {
            "for": context.for_,
            "budget": context.budget,
            "tokens": context.tokens,
            "system": context.system,
            "messages": context.messages,
            "dropped": list(context.dropped),
            "why": [reason._asdict() for reason in context.why],
        }
    )
    return found


def _shown(message: dict[str, Any]) -> str:
    rest = {key: value for key, value in message.items() if key != "role"}
    content = rest.pop("content", None)
    text = content if isinstance(content, str) else json.dumps(content, default=repr)
    return one_line(safe(text)) + (f"  {one_line(rest)}" if rest else "")


def event_line(event: Event) -> str:
    """Return an event on one line."""
    by = f" {event.agent}" if event.agent else ""
    commit = (event.commit or "")[:10] or "(staged)"
    kind = click.style(event.kind, fg="red" if event.kind == "error" else "cyan")
    return f"{moment(event.time)}  {commit}{safe(by)}  {kind}  {one_line(event.data)}"


def event_json(event: Event) -> dict[str, Any]:
    """Return an event for programs."""
    found: dict[str, Any] = to_json(event.to_dict())
    return found


def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """Yield how a run came to rest."""
    state = outcome.state
    yield f"{outcome.ended} after {counted(outcome.steps, 'step')} ({state.iteration} in all)"
    told = outcome.question or outcome.error
    if not told and outcome.answer is not None:
        told = outcome.answer if isinstance(outcome.answer, str) else one_line(outcome.answer)
    if told:
        yield safe(told)


def run_lines(name: str, state: AgentState) -> Iterator[str]:
    """Yield where a run is, and what it takes to go on."""
    yield safe(f"{name}: {state.phase}, step {state.iteration}, {state.task!r}")
    told = state.question or state.error
    if told:
        yield f"  {safe(told)}"
    if not state.is_over:
        answer = " --answer TEXT" if state.is_paused else ""
        yield f"  to go on, say --with FILE.py:NAME{answer}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome for programs."""
    state = outcome.state
    return {
        "ended": outcome.ended,
        "steps": outcome.steps,
        "iteration": state.iteration,
        "phase": str(state.phase),
        "task": state.task,
        "answer": to_json(outcome.answer),
        "question": outcome.question,
        "error": outcome.error,
    }


def recorded_lines(recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield what models answered, on a line each."""
    rows = [["step", "request", "model", "tokens", "answer"]]
    for each in recorded:
        calls = ", ".join(call.name for call in each.reply.message.calls)
        usage = each.reply.usage
        rows.append([
            str(each.iteration + 1), each.request[:10], safe(each.model),
            f"{usage.input_tokens}+{usage.output_tokens}",
            one_line(safe(each.reply.text)) + (f" -> {safe(calls)}" if calls else ""),
        ])  # fmt: skip
    yield from table(rows)


def recorded_json(recorded: Recorded) -> dict[str, Any]:
    """Return what a model answered, for programs."""
    return {
        "step": recorded.iteration + 1,
        "request": recorded.request,
        "model": recorded.model,
        "reply": to_json(recorded.reply.to_data()),
    }
