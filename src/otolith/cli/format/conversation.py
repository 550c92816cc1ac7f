"""Conversations on the screen.

What an agent has in mind, on the screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from otolith.cli.format.history import counted, moment
from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import safe, table
from otolith.conversation import Attachment, Context, Hit, Message, Reasoning, Text, Topic

if TYPE_CHECKING:
    from otolith.session import SessionSnapshot


_COLORS = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


def message_lines(index: int, message: Message) -> Iterator[str]:
    """Yield a message: who, then what was said, called and answered."""
    role = str(message.role)
    when = f"  {moment(message.time)}" if message.time else ""
    yield f"{click.style(f'[{index}] {role}', fg=_COLORS[role], bold=True)}{when}"
    for line in _thoughts(message):
        yield click.style(f"    (thinks) {line}", dim=True)
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


def _thoughts(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, Reasoning):
            yield from safe(part.text).splitlines()


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


class Thread(NamedTuple):
    """A thread: how much was said in it, when it began, when the last was said, and of what."""

    name: str
    messages: int
    began: int
    last: int
    parent: str


def thread_lines(threads: Sequence[Thread]) -> Iterator[str]:
    """Yield the threads of a conversation, a line each."""
    rows = [["thread", "messages", "last", "forked from"]]
    for each in threads:
        last = moment(each.last) if each.last else ""
        rows.append([safe(each.name), f"{each.messages:,}", last, safe(each.parent)])
    yield from table(rows, right=(1,))


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
        who = safe(str(message.get("role", message.get("type", ""))))
        yield f"{who:<10} {_shown(message)}"
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


_SIGNS = {"pending": " ", "active": ">", "done": "x", "failed": "!", "skipped": "-"}


def memory_lines(then: SessionSnapshot) -> Iterator[str]:
    """Yield the goal, the plan, the data of the task and the notes; what is empty is left out."""
    task = then.memory.task
    parts = [*_plan(then), *_data(then), *_notes(then)]
    if not (task.goal or parts or len(then.memory.tool_calls)):
        yield "nothing in mind"
        return
    yield f"{click.style(safe(task.goal) or '(no goal)', bold=True)}  ({safe(task.status)})"
    yield from parts
    calls = len(then.memory.tool_calls)
    if calls:
        yield f"{counted(calls, 'call')} of tools"


def _plan(then: SessionSnapshot) -> Iterator[str]:
    for number, step in enumerate(then.memory.steps):
        if not number:
            yield "Plan"
        why = f"  ({step.why})" if step.why else ""
        yield safe(f"  [{_SIGNS.get(step.state, '?')}] {step.text}{why}")


def _data(then: SessionSnapshot) -> list[str]:
    rows = [[f"  {safe(name)}", one_line(value)] for name, value in then.memory.task.data.items()]
    return ["Data of the task", *table(rows)] if rows else []


def _notes(then: SessionSnapshot) -> list[str]:
    rows = []
    for note in then.memory.notes.all():
        about = ["pinned"] * note.is_pinned + [f"from {note.source}"] * bool(note.source)
        about += [f"replaced by {note.replaced_by}"] * bool(note.replaced_by)
        told = safe(", ".join(about))
        rows.append([f"  {safe(note.key)}", one_line(note.value), moment(note.time), told])
    return ["Notes", *table(rows)] if rows else []


def memory_json(then: SessionSnapshot) -> dict[str, Any]:
    """Return it for programs."""
    memory = then.memory
    steps = [
        {"id": step.id, "text": step.text, "state": str(step.state), "why": step.why}
        for step in memory.steps
    ]
    notes = [
        {
            "key": note.key,
            "value": note.value,
            "importance": note.importance,
            "pinned": note.is_pinned,
            "source": note.source,
            "time": note.time,
            "replaced_by": note.replaced_by,
        }
        for note in memory.notes.all()
    ]
    found: dict[str, Any] = to_json(
        {
            "task": memory.task.to_dict(),
            "plan": steps,
            "notes": notes,
            "calls": len(memory.tool_calls),
        }
    )
    return found
