"""Conversation: the messages of one thread of a state, and what can be done with them.

`chat.user(…)` stages a message, `state.commit()` makes it last. Whatever a state can do, its
conversations can: they are read as they were, forked, rolled back and merged. See record.py for how
they are kept, log.py for reading them, windowed.py for what of them a model is sent, and
followed.py for what they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from otolith.agent.conversation import formats, searching
from otolith.agent.conversation.adding import Adding
from otolith.agent.conversation.checking import Content, answer_of, parts_of
from otolith.agent.conversation.followed import Followed
from otolith.agent.conversation.message import Message, Part, Reasoning, Role, ToolCall, ToolResult
from otolith.agent.conversation.record import Record
from otolith.agent.conversation.searching import Embed, Hit, Index
from otolith.agent.conversation.threads import (
    Thread,
    about,
    begin,
    check_name,
    forget,
    fork,
    threads_in,
)
from otolith.errors import BadMessage, BadValue, Error


class Conversation(Followed):
    """One thread of messages in a state: `state.conversation`."""

    # Saying something

    def system(self, content: Content, *, name: str = "") -> Message:
        """Add what the model is told about its task; it stays in every context."""
        return self.append(Message(Role.SYSTEM, parts_of(content), name=name))

    def user(self, content: Content, *, name: str = "", is_pinned: bool = False) -> Message:
        """Add what the user said: text, or parts such as text and attachments."""
        said = Message(Role.USER, parts_of(content), name=name, is_pinned=is_pinned)
        return self.append(said)

    def assistant(
        self,
        content: Content | None = None,
        *,
        tool_calls: Iterable[ToolCall] = (),
        reasoning: str | Reasoning | Iterable[Reasoning] | None = None,
        name: str = "",
    ) -> Message:
        """Add what the model said, thought, and wants done."""
        thoughts: tuple[Part, ...] = ()
        if isinstance(reasoning, str):
            thoughts = (Reasoning(reasoning),) if reasoning else ()
        elif reasoning is not None:
            thoughts = (reasoning,) if isinstance(reasoning, Reasoning) else tuple(reasoning)
        parts = (*thoughts, *parts_of(content), *tool_calls)
        return self.append(Message(Role.ASSISTANT, parts, name=name))

    def tool(self, call_id: str, result: Any, *, is_error: bool = False) -> Message:
        """Add what a tool answered: text, parts, or data that becomes JSON.

        Raises:
            BadMessage: no call of this id waits for a result.
        """
        answer = ToolResult(call_id, answer_of(result), is_error=is_error)
        return self.append(Message(Role.TOOL, (answer,)))

    def append(self, message: Message) -> Message:
        """Add a message; return it as it is kept, with its id, time and tokens.

        Raises:
            BadMessage: it cannot be part of this conversation; `problem` says why.
            ReadOnly: this is a conversation as it was.
        """
        return self.extend([message])[0]

    def extend(self, messages: Iterable[Message], *, allow_empty: bool = False) -> list[Message]:
        """Add messages, all of them or none; return them as they are kept.

        Raises:
            BadMessage: one of them cannot be part of this conversation.
        """
        with self._writing():
            adding = Adding(
                self._record,
                now=self._now(),
                limit_bytes=self._limit_bytes,
                allow_empty=allow_empty,
            )
            return adding.run(list(messages))

    def load(self, document: Any, format: str) -> list[Message]:
        """Add the messages of a document: openai, responses, anthropic or plain.

        Raises:
            BadValue: it is not such a document.
            BadMessage: it has a result without a call, or a call twice. Nothing was added.
        """
        return self.extend(formats.read(document, format), allow_empty=True)

    def dump(self, format: str) -> Any:
        """Return all messages as a document: openai, responses, anthropic or plain."""
        return formats.write(self, format)

    # Searching

    def search(self, text: str, k: int = 5, *, embed: Embed | None = None) -> list[Hit]:
        """Return the messages that fit a query best, the best first.

        `embed` gives texts vectors; then what means the same is found as well, and costs one
        vector a message, which is kept in memory as long as it is the same function that is given.

        Raises:
            BadValue: the query is no text, or `embed` does not give a vector for each.
        """
        if not isinstance(text, str):
            raise BadValue(f"{text!r} is no query", hint="use words")
        if type(k) is not int or k < 0:
            raise BadValue(f"k={k!r} is no number of messages", hint="give 0 or more")
        with self.state.turn():
            index = self._index()
            found = index.find(text, k if embed is None else 10 * k)
            if embed is not None:
                found = index.fused(text, found, k, embed, lambda at: searching.said(self[at]))
            return [self._hit(each) for each in found]

    def _hit(self, found: searching.Found) -> Hit:
        message = self[found.index]
        shown = searching.snippet(searching.said(message), found.place)
        return Hit(found.index, message, found.score, found.words, shown)

    def _index(self) -> Index:
        """Return the words of the whole thread, reading only what is new."""
        record = self._record
        known = record.taken(record.shelf.indices)
        index = Index() if known is None else known.what
        for message in record.unread(index.length):
            index.add(message)
        record.shelf.indices[self.thread_name] = record.marked(index)
        return index

    # Threads

    def threads(self) -> dict[str, Thread]:
        """Return the threads of the state, by name."""
        with self.state.turn():
            return threads_in(self.state)

    def thread(self, name: str) -> Conversation:
        """Return another thread of the same state, to go on with it or to begin it."""
        return Conversation(
            self.state,
            thread=name,
            clock=self._clock,
            attachment_limit_bytes=self._limit_bytes,
        )

    @property
    def about(self) -> Thread:
        """When this thread began, and what it was forked from."""
        with self.state.turn():
            return about(self._record)

    def create(self, name: str, *, meta: Mapping[str, Any] | None = None) -> Conversation:
        """Begin a thread in which nothing is said yet.

        Raises:
            Exists: there is one of this name.
        """
        found = self.thread(name)
        with self._writing():
            begin(Record(self.state, name), now=self._now(), meta=meta or {})
        return found

    def fork(self, at: int | None = None, name: str | None = None) -> Conversation:
        """Begin a thread with the first `at` messages of this one, which both share.

        A negative number leaves out so many at the end; without one, all are shared. Without a
        name it is called after this thread, with a number.

        Raises:
            Exists: there is a thread of this name.
        """
        with self._writing():
            length = self._record.length()
            end = length if at is None else at + length if at < 0 else at
            if not 0 <= end <= length:
                raise IndexError(f"there is no message {at} among {length}")
            chosen = check_name(self._free_name() if name is None else name)
            fork(self._record, chosen, end, now=self._now())
            return self.thread(chosen)

    def edit(self, index: int, content: Content | Message, name: str | None = None) -> Conversation:
        """Begin a thread that is like this one up to a message, and says something else there.

        This thread stays as it is. What followed the message is not in the new thread.

        Raises:
            BadMessage: nothing takes the place of calls but a whole message.
        """
        with self._writing():
            old = self[index]
            if not isinstance(content, Message):
                if old.role is Role.TOOL or old.calls:
                    raise BadMessage(
                        "a message with calls or results is edited as a whole",
                        problem="misplaced",
                        hint="give a Message",
                    )
                content = replace(
                    formats.without_residue(old), parts=parts_of(content), id="", time=0
                )
            made = self.fork(range(len(self))[index], name)
            try:
                made.append(replace(content, tokens=None))
            except Error:
                forget(Record(self.state, made.thread_name))
                raise
            return made

    def _free_name(self) -> str:
        taken, number = self.threads(), 2
        while f"{self.thread_name}-{number}" in taken:
            number += 1
        return f"{self.thread_name}-{number}"
