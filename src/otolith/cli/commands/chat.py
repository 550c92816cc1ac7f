"""`chat` reads and searches the conversation of a session; `memory` shows its working memory.

All of it is read-only, and shows what is committed: staged edits do not count, because agents
commit while a person has edits staged. `--at` names an earlier commit. The JSON of `show`, `search`
and `topics` names the thread beside the list; `format/conversation.py` describes the objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from otolith.cli.errors import terminal_error
from otolith.cli.format.conversation import (
    ThreadSummary,
    context_json,
    context_lines,
    hit_json,
    hit_lines,
    memory_json,
    memory_lines,
    message_json,
    message_lines,
    thread_lines,
    topic_json,
    topic_lines,
)
from otolith.cli.location import open_current
from otolith.cli.options import (
    GlobalOptions,
    SessionCommand,
    at_option,
    json_option,
    session_argument,
)
from otolith.cli.terminal import output
from otolith.conversation import Conversation
from otolith.errors import KeyNotFound

_thread = click.option(
    "--thread", default="main", show_default=True, metavar="NAME", help="Which thread."
)


@click.group("chat")
def chat() -> None:
    """Read and search the conversation of the session, and preview a model's context."""


@contextmanager
def _open_thread(options: GlobalOptions, thread: str | None, ref: str) -> Iterator[Conversation]:
    """Open a thread at a commit, the main one by default.

    Raises:
        KeyNotFound: the session has no messages, or no thread of that name.
    """
    with open_current(options, read_only=True, unstash=False) as current:
        found = Conversation(current.at(ref), thread=thread or "main")
        known = found.threads()
        if not known:
            message = f"{current.owner} has no messages"
            raise terminal_error(KeyNotFound, message, "see `otolith log`")
        if thread is not None and thread not in known:
            hint = f"the session has {', '.join(known)}"
            raise terminal_error(KeyNotFound, f"there is no thread {thread!r}", hint)
        yield found


@chat.command("show", cls=SessionCommand)
@click.option("-n", "--last", type=click.IntRange(min=0), metavar="N", help="The last N messages.")
@_thread
@at_option
@json_option
@click.pass_obj
def show(options: GlobalOptions, *, last: int | None, thread: str, ref: str) -> None:
    """Show the messages, oldest first."""
    with _open_thread(options, thread, ref) as found:
        start = 0 if last is None else max(len(found) - last, 0)
        messages = list(enumerate(found[start:], start))
        output(
            options,
            lambda: {"thread": thread, "messages": [message_json(*each) for each in messages]},
            (line for each in messages for line in message_lines(*each)),
        )


@chat.command("threads", cls=SessionCommand)
@at_option
@json_option
@click.pass_obj
def threads(options: GlobalOptions, *, ref: str) -> None:
    """List the threads, with their number of messages and the time of the last."""
    known = []
    with _open_thread(options, None, ref) as found:
        for name, each in found.threads().items():
            last = found.thread(name)[-1].time if each.messages else 0
            known.append(ThreadSummary(each.name, each.messages, each.time, last, each.parent))
    output(options, lambda: {"threads": [each._asdict() for each in known]}, thread_lines(known))


@chat.command("search", cls=SessionCommand)
@click.argument("text")
@click.option("-k", default=5, show_default=True, type=click.IntRange(min=1), help="How many.")
@_thread
@at_option
@json_option
@click.pass_obj
def search(options: GlobalOptions, text: str, *, k: int, thread: str, ref: str) -> None:
    """Find messages by their words, best match first."""
    with _open_thread(options, thread, ref) as found:
        hits = found.search(text, k)
        output(options, lambda: {"thread": thread, "hits": [*map(hit_json, hits)]}, hit_lines(hits))


@chat.command("topics", cls=SessionCommand)
@_thread
@at_option
@json_option
@click.pass_obj
def topics(options: GlobalOptions, *, thread: str, ref: str) -> None:
    """List the topics of the conversation, and the messages of each."""
    with _open_thread(options, thread, ref) as found:
        about = found.topics()
        output(
            options,
            lambda: {"thread": thread, "topics": [*map(topic_json, about)]},
            topic_lines(about),
        )


@chat.command("context", cls=SessionCommand)
@click.option("--budget", required=True, type=click.IntRange(min=1), metavar="N", help="Tokens.")
@click.option(
    "--for", "form", default="plain", show_default=True,
    type=click.Choice(["plain", "openai", "responses", "anthropic"]), help="For which provider.",
)  # fmt: skip
@_thread
@at_option
@json_option
@click.pass_obj
def context(options: GlobalOptions, *, budget: int, form: str, thread: str, ref: str) -> None:
    """Show the messages that fit a model's token budget, and why the others do not."""
    with _open_thread(options, thread, ref) as found:
        made = found.context(budget, form)
        output(options, lambda: context_json(made), context_lines(made))


@click.command("memory", cls=SessionCommand)
@session_argument
@at_option
@json_option
@click.pass_obj
def memory(options: GlobalOptions, *, ref: str) -> None:
    """Show the goal, the plan, the task's data and the notes of an agent."""
    with open_current(options, read_only=True, unstash=False) as current:
        snapshot = current.at(ref)
        output(options, lambda: memory_json(snapshot), memory_lines(snapshot))
