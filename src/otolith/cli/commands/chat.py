"""`chat`: what was said in a session, read, searched, and as a model would be sent it.

`memory`: what an agent has in mind: its goal and task, its plan, its notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from otolith.cli.errors import worded
from otolith.cli.format.conversation import (
    Thread,
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
from otolith.cli.location import at_hand
from otolith.cli.options import GlobalOptions
from otolith.cli.terminal import emit, json_option, page
from otolith.conversation import Conversation
from otolith.errors import KeyNotFound
from otolith.session import SessionSnapshot

_thread = click.option(
    "--thread", default="main", show_default=True, metavar="NAME", help="Which thread."
)


def _choose(ctx: click.Context, _: click.Parameter, session: str | None) -> None:
    if session is not None:
        ctx.obj = ctx.obj._replace(session=session)


_session = click.option(
    "--session", metavar="ID", expose_value=False, callback=_choose,
    help="The session.  [default: the one at hand]",
)  # fmt: skip
_at = click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")


@click.group("chat")
def chat() -> None:
    """Read and search what was said in the session, and see what a model would be sent."""


@contextmanager
def _opened(asked: GlobalOptions, thread: str | None, ref: str) -> Iterator[Conversation]:
    """Open a thread as it was at a commit, or any of them."""
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        found = Conversation(desk.repo.at(desk.commit(ref)), thread=thread or "main")
        known = found.threads()
        if not known:
            session = desk.branch.session
            raise worded(
                KeyNotFound(f"nothing was said in session {session}", hint="see `otolith log`")
            )
        if thread is not None and thread not in known:
            named = ", ".join(known)
            raise worded(
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
def show(asked: GlobalOptions, *, last: int | None, thread: str, ref: str, as_json: bool) -> None:
    """Show what was said, the oldest first."""
    with _opened(asked, thread, ref) as found:
        start = 0 if last is None else max(len(found) - last, 0)
        messages = list(enumerate(found[start:], start))
        if as_json:
            emit({"thread": thread, "messages": [message_json(*each) for each in messages]})
        else:
            page((line for each in messages for line in message_lines(*each)), asked)


@chat.command("threads")
@_session
@_at
@json_option
@click.pass_obj
def threads(asked: GlobalOptions, *, ref: str, as_json: bool) -> None:
    """List the threads, with how many messages each has, and when the last was said."""
    with _opened(asked, None, ref) as found:
        known = [_about(found.thread(name), each) for name, each in found.threads().items()]
        if as_json:
            emit({"threads": [each._asdict() for each in known]})
        else:
            page(thread_lines(known), asked)


def _about(thread: Conversation, known: Any) -> Thread:
    last = thread[-1].time if known.messages else 0
    return Thread(known.name, known.messages, known.time, last, known.parent)


@chat.command("search")
@click.argument("text")
@click.option("-k", default=5, show_default=True, type=click.IntRange(min=1), help="How many.")
@_thread
@_session
@_at
@json_option
@click.pass_obj
def search(
    asked: GlobalOptions, text: str, *, k: int, thread: str, ref: str, as_json: bool
) -> None:
    """Find messages by their words, the best first."""
    with _opened(asked, thread, ref) as found:
        hits = found.search(text, k)
        if as_json:
            emit({"thread": thread, "hits": list(map(hit_json, hits))})
        else:
            page(hit_lines(hits), asked)


@chat.command("topics")
@_thread
@_session
@_at
@json_option
@click.pass_obj
def topics(asked: GlobalOptions, *, thread: str, ref: str, as_json: bool) -> None:
    """List what the conversation is about, and where it came back to it."""
    with _opened(asked, thread, ref) as found:
        about = found.topics()
        if as_json:
            emit({"thread": thread, "topics": list(map(topic_json, about))})
        else:
            page(topic_lines(about), asked)


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
    asked: GlobalOptions, *, budget: int, form: str, thread: str, ref: str, as_json: bool
) -> None:
    """Show what of the conversation a model would be sent, and why not the rest."""
    with _opened(asked, thread, ref) as found:
        made = found.context(budget, form)
        if as_json:
            emit(context_json(made))
        else:
            page(context_lines(made), asked)


@click.command("memory")
@click.argument("session", required=False)
@click.option("--at", "ref", default="@", metavar="REF", help="As of this commit.")
@json_option
@click.pass_obj
def memory(asked: GlobalOptions, *, session: str | None, ref: str, as_json: bool) -> None:
    """Show the goal of an agent, how far its task and its plan are, and what it has noted."""
    asked = asked if session is None else asked._replace(session=session)
    with at_hand(asked, read_only=True, is_staged=False) as desk:
        then = desk.repo.at(desk.commit(ref))
        assert isinstance(then, SessionSnapshot)
        if as_json:
            emit(memory_json(then))
        else:
            page(memory_lines(then), asked)
