"""Conversation: the messages of one thread of a state, and what can be done with them.

`chat.user(…)` stages a message, `state.commit()` makes it last. Whatever a state can do, its
conversations can: they are read as they were, forked, rolled back and merged. See storage.py for
how they are kept, conversation.py for reading them, conversation.py for what of them a model is
sent, and conversation.py for what they are about.

The log of a thread: its messages as a list that is read where it is looked at.

A log of which a part is sent to a model: contexts, summaries, and what providers counted.

A log that is followed: what it is about, who and what it speaks of, and what "it" means.

Nothing of this is kept: it is worked out of what was said, once for each message, in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from otolith import workspace
from otolith.conversation import discourse, formats, storage
from otolith.conversation import search as searching
from otolith.conversation.append import LARGEST_BYTES, AppendMessages, Content, answer_of, parts_of
from otolith.conversation.attachments import Files
from otolith.conversation.context import Context, Rules, Source, project
from otolith.conversation.message import Message, Part, Reasoning, Role, ToolCall, ToolResult
from otolith.conversation.search import Embed, Hit, Index
from otolith.conversation.storage import STAYS, USAGE, Record
from otolith.conversation.summaries import Summaries, Summariser, Summary, ask, extractive, key_of
from otolith.conversation.threads import (
    Thread,
    Turns,
    about,
    begin,
    check_name,
    forget,
    fork,
    threads_in,
)
from otolith.conversation.token_counts import (
    LATEST,
    Calibration,
    Counter,
    ProviderCount,
    as_counter,
    estimated,
)
from otolith.core import WORKSPACE, Branch, StateReader
from otolith.errors import BadMessage, BadValue, Error, Invalid, OverBudget
from otolith.state.base import clock_of
from otolith.types import Clock

if TYPE_CHECKING:
    from otolith.conversation.discourse import Candidate, Entity, Topic, TopicJudge, Tracker
    from otolith.conversation.discourse import ReferenceJudge as Chooser


MAIN = "main"
AT_ONCE = 64
"""How many messages are read in one go."""


class Log(Sequence[Message]):
    """The messages of one thread, the oldest first."""

    def __init__(
        self,
        state: StateReader,
        *,
        thread: str = MAIN,
        clock: Clock | None = None,
        attachment_limit_bytes: int = LARGEST_BYTES,
    ) -> None:
        """Look at a thread; it begins with its first message.

        Raises:
            Invalid: a thread cannot have this name.
        """
        self.state = state
        self.thread_name = check_name(thread)
        self._clock = clock_of(state) if clock is None else clock
        self._limit_bytes = attachment_limit_bytes
        self._record = Record(state, thread)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.thread_name}: {len(self)} messages>"

    # Reading

    def __len__(self) -> int:
        with self.state.lock:
            return self._record.length()

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        with self.state.lock:
            length = self._record.length()
            if isinstance(index, slice):
                start, stop, step = index.indices(length)
                if step == 1:
                    return self._full(start, max(start, stop))
                return [self[at] for at in range(start, stop, step)]
            at = index + length if index < 0 else index
            if not 0 <= at < length:
                raise IndexError(f"there is no message {index} among {length}")
            return self._full(at, at + 1)[0]

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(self, start: int = 0, stop: int | None = None) -> Iterator[Message]:
        """Yield messages, the oldest first, reading some at a time."""
        start, stop, _ = slice(start, stop).indices(len(self))
        for first in range(start, stop, AT_ONCE):
            with self.state.lock:
                some = self._full(first, min(first + AT_ONCE, stop))
            yield from some

    @property
    def turns(self) -> Turns:
        """What the user said, each time with what followed; the last is found from the end."""
        return Turns(lambda start, stop: self[start:stop], len(self))

    @property
    def tokens(self) -> int:
        """How many tokens all messages are, as they were estimated when they were added.

        Read once, and then only what is new.
        """
        record = self._record
        with self.state.lock:
            known = record.taken(record.shelf.totals)
            total, length = (0, 0) if known is None else (known.what, known.length)
            for each in record.unread(length):
                total += estimated(each)
            record.shelf.totals[self.thread_name] = record.marked(total)
            return total

    def _full(self, start: int, stop: int) -> list[Message]:
        """Return messages with the bytes of their attachments, and whether they are pinned."""
        read = self._record.read(start, stop)
        pins = self._record.stays() if self._record.cell(STAYS) is not None else {}
        filled = map(Files(self._record).filled, read)
        return [
            replace(each, is_pinned=True) if pins.get(each.id, (0, False))[1] else each
            for each in filled
        ]

    # What stays

    def pin(self, index: int, *, is_pinned: bool = True) -> None:
        """Let a message stay in every context, with its calls and results; or no longer."""
        with self._writing():
            message = self[index]
            for at in self._together(message, range(len(self))[index]):
                (each,) = self._record.read(at, at + 1)
                self._pin(at, each, is_pinned=is_pinned)

    def _pin(self, at: int, message: Message, *, is_pinned: bool) -> None:
        has_stayed = self._record.cell(STAYS, message.id) is not None
        stays = is_pinned or message.role is Role.SYSTEM
        if stays:
            self._record.put([at, is_pinned], STAYS, message.id)
        elif has_stayed:
            self._record.remove(STAYS, message.id)
        if stays != has_stayed:
            storage.note(self._record, at, message.id, is_pinned=stays)

    def _together(self, message: Message, at: int) -> list[int]:
        """Return where a message, the calls it answers and the results of its calls are.

        One message may answer the calls of two others: those belong to it, and so on.
        """
        record, found, queue = self._record, {at}, [(at, message)]
        while queue:
            place, each = queue.pop()
            near = {record.caller(result.call_id) for result in each.results}
            near |= {record.answer(call.id, place) for call in each.calls}
            for other in near - found - {None}:
                assert other is not None
                found.add(other)
                queue.append((other, record.read(other, other + 1)[0]))
        return sorted(found)

    # Small things

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._record.branch()
        with self.state.lock:
            yield


class Windowed(Log):
    """A log that knows how much of it fits into a model."""

    def context(
        self,
        budget: int,
        for_: str = "plain",
        *,
        tools_tokens: int = 0,
        keep_last: int = 4,
        keep_results: int = 5,
        slack: float = 0.25,
        summariser: Summariser | None = None,
        counter: Counter | Callable[[str], int] | None = None,
    ) -> Context:
        """Return what a model is sent: legal messages of a provider that fit into a budget.

        `for_` is openai, responses, anthropic or plain. `tools_tokens` is what the descriptions
        of tools take. A summariser is asked if something has to go, and what it says is staged
        under the thread, so that it is asked once; nothing else is ever written.

        Raises:
            OverBudget: what must stay does not fit; `needed` says what it takes.
        """
        rules = Rules(
            budget=budget,
            for_=for_,
            tools_tokens=tools_tokens,
            keep_last=keep_last,
            keep_results=keep_results,
            slack=slack,
            summariser=summariser,
            counter=as_counter(counter),
        )
        with self.state.lock:
            source = self._source(rules)
            made = project(source, rules)
        return replace(made, _previous=lambda: self._before(source, rules))

    def _source(self, rules: Rules) -> Source:
        record, log = self._record, self._record.log()
        summaries, files = Summaries(record), Files(record)
        key = None if rules.summariser is None else key_of(rules.summariser)
        length = self.state.cells.length(log)
        return Source(
            length,
            lambda start, stop: list(map(files.legible, record.read(start, stop, log))),
            stays=tuple(record.staying()),
            stayed=lambda stop: storage.stayed(record, stop),
            turn=record.turn(),
            filled=files.filled,
            scale=self._scale(),
            counts=record.shelf.counts,
            has_summaries=not summaries.is_empty,
            find_summary=lambda low, high: summaries.first(low, high, key),
            last_summary=lambda before: summaries.find(0, before - 1, key),
            keep_summary=self._keep_summary,
        )

    def _keep_summary(self, summary: Summary) -> None:
        if isinstance(self.state, Branch):
            Summaries(self._record).keep(summary)

    def _before(self, source: Source, rules: Rules) -> Context | None:
        """Return the context that the last reply was an answer to."""
        asking_nobody = replace(rules, summariser=None)
        with self.state.lock, suppress(OverBudget):  # with this budget, nobody was asked then
            at = _last_reply(source)
            if at is not None:
                return project(source.until(at, self._scale(at)), asking_nobody)
        return None

    def usage(
        self, *, input_tokens: int, output_tokens: int = 0, context: Context | None = None
    ) -> None:
        """Record what a provider counted for the last request, so that estimates get better.

        Call it after the reply was added. `context` is what was sent; without it, everything was.
        """
        counts = input_tokens, output_tokens
        if any(type(count) is not int or count < 0 for count in counts):
            raise Invalid(f"{counts} are no numbers of tokens", hint="give what the provider said")
        with self._writing():
            length = self._record.length()
            last = self._record.read(max(length - 1, 0), length)
            is_reply = bool(last) and last[0].role is Role.ASSISTANT
            stop = length - 1 if is_reply else length
            reply = estimated(last[0]) if is_reply else 0
            estimate, start = self.tokens - reply, 0
            if context is not None:
                estimate, start, stop = context.estimate, context.start, context.stop
            anchor = ProviderCount(stop, input_tokens, output_tokens, estimate, start)
            self._record.extend([list(anchor)], USAGE)

    def _scale(self, before: int | None = None) -> Calibration:
        """Return what providers' counts say of estimates; `before` leaves out later ones."""
        cell, cells = self._record.cell(USAGE), self.state.cells
        if cell is None:
            return Calibration()
        length = cells.length(cell)
        kept = cells.load_all(cells.elements(cell, max(length - LATEST, 0), length))
        anchors = [ProviderCount(*each) for each in kept if isinstance(each, list)]
        return Calibration([each for each in anchors if before is None or each.stop < before])

    def summarise(
        self, stop: int | None = None, *, summariser: Summariser | None = None
    ) -> Summary:
        """Make and stage a summary of all messages before an index, the length by default.

        Contexts that are cut there use it. One that was made of the same messages by the same
        summariser is found and not made again. Without one, `extractive` picks sentences.
        """
        summariser = extractive if summariser is None else summariser
        with self._writing():
            length = self._record.length()
            end = length if stop is None else stop + length if stop < 0 else stop
            if not 0 <= end <= length:
                raise IndexError(f"there is no message {stop} among {length}")
            if end == 0:
                raise Invalid("there is nothing to summarise", hint="add messages first")
            summaries, key = Summaries(self._record), key_of(summariser)
            known = summaries.find(end, end, key)
            if known is not None:
                return known
            before = summaries.find(0, end - 1, key)
            start, told = (0, "") if before is None else (before.stop, before.text)
            summary = Summary(end, ask(summariser, self._full(start, end), told), *key)
            summaries.keep(summary)
            return summary


def _last_reply(source: Source) -> int | None:
    for stop in range(source.length, 0, -AT_ONCE):
        start = max(stop - AT_ONCE, 0)
        said = enumerate(source.read(start, stop), start)
        replies = [at for at, message in said if message.role is Role.ASSISTANT]
        if replies:
            return replies[-1]
    return None


class Discourse(Windowed):
    """A log of which it is known what it is about."""

    def topics(self, *, judge: TopicJudge | None = None) -> list[Topic]:
        """Return what the conversation is about, in the order in which it came up.

        Each topic has its spans of messages, its keywords, and whether it is active, suspended or
        closed. `judge`, perhaps a model, may overrule what the rules say of a turn.
        """
        if judge is not None:
            return discourse.topics_of(list(self), judge=judge)
        with self.state.lock:
            return self._tracker().segmenter.topics()

    def entities(self) -> list[Entity]:
        """Return who and what was spoken of, in the order in which it came up."""
        with self.state.lock:
            tracker = self._tracker()
            end = (len(tracker.clock), 0)
            return [each.entity(end) for each in tracker.register.entities if each.before(end)]

    def resolve(
        self,
        phrase: str,
        *,
        at: int | None = None,
        variables: Iterable[str] | Mapping[str, str] | None = None,
        judge: Chooser | None = None,
    ) -> list[Candidate]:
        """Return what a phrase ("it", "the second one") may mean, the best first, with reasons.

        It is said next, or in message `at`. Variables of the workspace may be meant as well, if
        no others are given. `judge`, perhaps a model, may choose among the candidates. Nothing is
        returned that was not spoken of; two scores that are close are ambiguous.

        Raises:
            BadValue: there is no message `at`.
        """
        with self.state.lock:
            names = self._variables() if variables is None else variables
            if at is None or at == len(self):
                tracker = self._tracker()
                return discourse.resolve_next(tracker, self, phrase, variables=names, judge=judge)
            return discourse.resolve(list(self), phrase, at=at, variables=names, judge=judge)

    def _tracker(self) -> Tracker:
        """Return what follows the whole thread, after it has read what is new."""
        record = self._record
        known = record.taken(record.shelf.trackers)
        tracker = discourse.Tracker() if known is None else known.what
        for message in record.unread(0 if known is None else known.length):
            tracker.add(message)
        record.shelf.trackers[self.thread_name] = record.marked(tracker)
        return tracker

    def _variables(self) -> dict[str, str]:
        """Return the variables of the workspace, each with its type."""
        if self.state.cell_at((WORKSPACE,)) is None:
            return {}
        return {each.name: each.type for each in workspace.variables_in(self.state)}


class Conversation(Discourse):
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
            adding = AppendMessages(
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
        with self.state.lock:
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
        with self.state.lock:
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
        with self.state.lock:
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
