"""`chat` reads and searches the conversation of a session; `memory` shows its working memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from otolith.cli.errors import with_terminal_hint
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
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, json_option, page
from otolith.conversation import Conversation
from otolith.errors import KeyNotFound
from otolith.session import SessionSnapshot

_thread = click.option(
    "--thread", default="main", show_default=True, metavar="NAME", help="Which thread."
)


def _use_session(ctx: click.Context, _: click.Parameter, session: str | None) -> None:
    ctx.obj = ctx.obj.for_session(session)


_session = click.option(
    "--session", metavar="ID", expose_value=False, callback=_use_session,
    help="The session.  [default: the current one]",
)  # fmt: skip
_at = click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")


@click.group("chat")
def chat() -> None:
    """Read and search the conversation of the session, and preview a model's context."""


@contextmanager
def _open_thread(options: GlobalOptions, thread: str | None, ref: str) -> Iterator[Conversation]:
    """Open a thread at a commit, the main one by default."""
    with open_current(options, read_only=True, unstash=False) as current:
        found = Conversation(current.repo.at(current.commit(ref)), thread=thread or "main")
        known = found.threads()
        if not known:
            session = current.branch.session
            raise with_terminal_hint(
                KeyNotFound(f"session {session} has no messages", hint="see `otolith log`")
            )
        if thread is not None and thread not in known:
            named = ", ".join(known)
            raise with_terminal_hint(
                KeyNotFound(f"there is no thread {thread!r}", hint=f"the session has {named}")
            )
        yield found


@chat.command("show")
@click.option("-n", "--last", type=click.IntRange(min=0), metavar="N", help="The last N messages.")
@_thread
@_session
@_at
@json_option
@click.pass_obj
def show(options: GlobalOptions, *, last: int | None, thread: str, ref: str, as_json: bool) -> None:
    """Show the messages, oldest first."""
    with _open_thread(options, thread, ref) as found:
        start = 0 if last is None else max(len(found) - last, 0)
        messages = list(enumerate(found[start:], start))
        if as_json:
            emit({"thread": thread, "messages": [message_json(*each) for each in messages]})
        else:
            page((line for each in messages for line in message_lines(*each)), options)


@chat.command("threads")
@_session
@_at
@json_option
@click.pass_obj
def threads(options: GlobalOptions, *, ref: str, as_json: bool) -> None:
    """List the threads, with their number of messages and the time of the last."""
    with _open_thread(options, None, ref) as found:
        known = [
            ThreadSummary(
                each.name,
                each.messages,
                each.time,
                found.thread(name)[-1].time if each.messages else 0,
                each.parent,
            )
            for name, each in found.threads().items()
        ]
        if as_json:
            emit({"threads": [each._asdict() for each in known]})
        else:
            page(thread_lines(known), options)


@chat.command("search")
@click.argument("text")
@click.option("-k", default=5, show_default=True, type=click.IntRange(min=1), help="How many.")
@_thread
@_session
@_at
@json_option
@click.pass_obj
def search(
    options: GlobalOptions, text: str, *, k: int, thread: str, ref: str, as_json: bool
) -> None:
    """Find messages by their words, best match first."""
    with _open_thread(options, thread, ref) as found:
        hits = found.search(text, k)
        if as_json:
            emit({"thread": thread, "hits": list(map(hit_json, hits))})
        else:
            page(hit_lines(hits), options)


@chat.command("topics")
@_thread
@_session
@_at
@json_option
@click.pass_obj
def topics(options: GlobalOptions, *, thread: str, ref: str, as_json: bool) -> None:
    """List the topics of the conversation, and the messages of each."""
    with _open_thread(options, thread, ref) as found:
        about = found.topics()
        if as_json:
            emit({"thread": thread, "topics": list(map(topic_json, about))})
        else:
            page(topic_lines(about), options)


@chat.command("context")
@click.option("--budget", required=True, type=click.IntRange(min=1), metavar="N", help="Tokens.")
@click.option(
    "--for", "form", default="plain", show_default=True,
    type=click.Choice(["plain", "openai", "responses", "anthropic"]), help="For which provider.",
)  # fmt: skip
@_thread
@_session
@_at
@json_option
@click.pass_obj
def context(
    options: GlobalOptions, *, budget: int, form: str, thread: str, ref: str, as_json: bool
) -> None:
    """Show the messages that fit a model's token budget, and why the others do not."""
    with _open_thread(options, thread, ref) as found:
        made = found.context(budget, form)
        if as_json:
            emit(context_json(made))
        else:
            page(context_lines(made), options)


@click.command("memory")
@click.argument("session", required=False)
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def memory(options: GlobalOptions, *, session: str | None, ref: str, as_json: bool) -> None:
    """Show the goal, the plan, the task's data and the notes of an agent."""
    options = options.for_session(session)
    with open_current(options, read_only=True, unstash=False) as current:
        snapshot = current.repo.at(current.commit(ref))
        assert isinstance(snapshot, SessionSnapshot)
        if as_json:
            emit(memory_json(snapshot))
        else:
            page(memory_lines(snapshot), options)
