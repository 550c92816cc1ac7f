"""Conversations and working memory as text and JSON.

A message is shown with its index, by which topics, search results and contexts name it. JSON has
messages and notes in full; text shortens arguments and values to a line each.

JSON objects:

    message     index, and what `Message.to_data` returns
    hit         index, role, score, words, snippet
    topic       id, label, status, keywords, spans (pairs of start and stop)
    context     for, budget, tokens, system, messages, dropped, why
    memory      task, plan (id, text, state, why), notes (key, value, importance, pinned, source,
                time, replaced_by), calls
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from otolith.cli.format.history import format_time, plural
from otolith.cli.format.values import one_line, to_json
from otolith.cli.terminal import escape, pick, table
from otolith.conversation import Attachment, Context, Hit, Message, Reasoning, Text, Topic

if TYPE_CHECKING:
    from otolith.session_snapshot import SessionSnapshot


_COLORS = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}


def message_lines(index: int, message: Message) -> Iterator[str]:
    """Yield a message: its role, then its text, tool calls and results.

    Calls are marked by `->`, results by `<-`, failed ones by `!!`. Thoughts come first, dim;
    attachments last, by name and type only.
    """
    role = str(message.role)
    when = f"  {format_time(message.time)}" if message.time else ""
    yield f"{click.style(f'[{index}] {role}', fg=_COLORS[role], bold=True)}{when}"
    for part in message.parts:
        if isinstance(part, Reasoning):
            for line in escape(part.text).splitlines():
                yield click.style(f"    (thinks) {line}", dim=True)
    for line in escape(message.text).splitlines():
        yield f"    {line}"
    for call in message.calls:
        shown = one_line(dict(call.arguments)) if call.arguments else escape(call.raw)
        yield f"    -> {escape(call.name)} {shown}"
    for result in message.results:
        sign = click.style("!!", fg="red") if result.is_error else "<-"
        content = result.content
        if not isinstance(content, str):
            texts = (
                part.text if isinstance(part, Text) else f"({_label(part)})" for part in content
            )
            content = "\n".join(texts)
        yield from (f"    {sign} {line}" for line in escape(content).splitlines() or [""])
    for part in message.parts:
        if isinstance(part, Attachment):
            yield f"    ({escape(_label(part))})"


def _label(part: object) -> str:
    """Return what a part without text is: an attachment by name and type, others by their class."""
    if isinstance(part, Attachment):
        return ", ".join(filter(None, (part.name, part.media_type, part.url)))
    return type(part).__name__.lower()


def message_json(index: int, message: Message) -> object:
    """Return a message as JSON data."""
    return to_json({"index": index, **message.to_data()})


class ThreadSummary(NamedTuple):
    """A thread of a conversation; the fields are those of its JSON object."""

    name: str
    messages: int
    began: int  # when it was created, in microseconds
    last: int  # the time of its last message; 0 if it has none
    parent: str  # the thread it was forked from; empty for none


def thread_lines(threads: Sequence[ThreadSummary]) -> Iterator[str]:
    """Yield the threads of a conversation, a line each."""
    rows = [["thread", "messages", "last", "forked from"]]
    for each in threads:
        last = format_time(each.last) if each.last else ""
        rows.append([escape(each.name), f"{each.messages:,}", last, escape(each.parent)])
    yield from table(rows, right=(1,))


def hit_lines(hits: Sequence[Hit]) -> Iterator[str]:
    """Yield search results, the best first."""
    for hit in hits:
        yield f"[{hit.index}] {hit.message.role}  {hit.score:.2f}  {one_line(escape(hit.snippet))}"
    if not hits:
        yield "nothing found"


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a search result as JSON data."""
    role = str(hit.message.role)
    return {"index": hit.index, "role": role, **pick(hit, "score", "words", "snippet")}


def topic_lines(topics: Sequence[Topic]) -> Iterator[str]:
    """Yield the topics of a conversation as a table."""
    rows = [["topic", "status", "messages", "keywords"]]
    for topic in topics:
        spans = ", ".join(f"{span.start}..{span.stop - 1}" for span in topic.spans)
        rows.append(
            [escape(topic.label), str(topic.status), spans, escape(", ".join(topic.keywords))]
        )
    yield from table(rows)


def topic_json(topic: Topic) -> dict[str, Any]:
    """Return a topic as JSON data."""
    return {
        "id": topic.id,
        "label": topic.label,
        "status": str(topic.status),
        "keywords": list(topic.keywords),
        "spans": [[span.start, span.stop] for span in topic.spans],
    }


def context_lines(context: Context) -> Iterator[str]:
    """Yield the messages of a context, a line each, and why the others are left out.

    The messages are in the form of the provider, so that keys other than the role and content
    are shown as data.
    """
    if context.system is not None:
        yield f"system  {one_line(context.system)}"
    for message in context.messages:
        who = escape(str(message.get("role", message.get("type", ""))))
        rest = {key: value for key, value in message.items() if key != "role"}
        content = rest.pop("content", None)
        text = content if isinstance(content, str) else json.dumps(content, default=repr)
        yield f"{who:<10} {one_line(escape(text))}" + (f"  {one_line(rest)}" if rest else "")
    sent = plural(len(context.messages), "message")
    used = f"{context.tokens:,} of {context.budget:,} tokens"
    yield f"{sent}, {used}, {len(context.dropped)} left out"
    for reason in sorted(context.why):
        last = f"..{reason.stop - 1}" if reason.stop - 1 > reason.start else ""
        yield escape(f"  [{reason.start}{last}] {reason.done}: {reason.why}")


def context_json(context: Context) -> object:
    """Return a context as JSON data: the messages as the provider gets them, and the reasons."""
    dropped, why = list(context.dropped), [reason._asdict() for reason in context.why]
    found = pick(context, "budget", "tokens", "system", "messages")
    return to_json({"for": context.for_, **found, "dropped": dropped, "why": why})


# The state of a step of a plan -> its box.
_SIGNS = {"pending": " ", "active": ">", "done": "x", "failed": "!", "skipped": "-"}


def memory_lines(snapshot: SessionSnapshot) -> Iterator[str]:
    """Yield the goal, the plan, the data of the task and the notes; empty parts are left out."""
    memory = snapshot.memory
    plan = []
    for step in memory.steps:
        why = f"  ({step.why})" if step.why else ""
        plan.append(escape(f"  [{_SIGNS.get(step.state, '?')}] {step.text}{why}"))
    data = [[f"  {escape(name)}", one_line(value)] for name, value in memory.task.data.items()]
    notes = []
    for note in memory.notes.all():
        about = ["pinned"] * note.is_pinned + [f"from {note.source}"] * bool(note.source)
        about += [f"replaced by {note.replaced_by}"] * bool(note.replaced_by)
        row = [f"  {escape(note.key)}", one_line(note.value), format_time(note.time)]
        notes.append([*row, escape(", ".join(about))])
    parts = {"Plan": plan, "Data of the task": table(data), "Notes": table(notes)}
    goal, calls = memory.task.goal, len(memory.tool_calls)
    if not (goal or any(parts.values()) or calls):
        yield "working memory is empty"
        return
    yield f"{click.style(escape(goal) or '(no goal)', bold=True)}  ({escape(memory.task.status)})"
    for title, lines in parts.items():
        yield from (title, *lines) if lines else ()
    if calls:
        yield plural(calls, "tool call")


def memory_json(snapshot: SessionSnapshot) -> object:
    """Return a working memory as JSON data."""
    memory = snapshot.memory
    steps = [
        pick(step, "id", "text") | {"state": str(step.state), "why": step.why}
        for step in memory.steps
    ]
    notes = [
        pick(note, "key", "value", "importance")
        | {"pinned": note.is_pinned}
        | pick(note, "source", "time", "replaced_by")
        for note in memory.notes.all()
    ]
    calls = len(memory.tool_calls)
    return to_json({"task": memory.task.to_dict(), "plan": steps, "notes": notes, "calls": calls})
