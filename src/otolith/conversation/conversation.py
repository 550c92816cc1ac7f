"""Conversation: the messages of one thread of a state, and everything that is done with them.

    chat = state.conversation
    chat.user("Find me a flight to NYC")
    state.commit()

`chat.user(…)` stages a message, `state.commit()` makes it last. Whatever a state can do, its
conversations can: they are read at an older commit, forked, rolled back and merged.

A conversation owns a `ConversationStore` (storage.py), which reads and stages messages, and a
`Discourse`, which follows what they are about. A `ContextBuilder` (context/builder.py) makes each
context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from otolith.conversation import discourse, formats
from otolith.conversation.append import (
    MAX_ATTACHMENT_BYTES,
    Content,
    MessageAppender,
    to_message,
    to_result_content,
)
from otolith.conversation.context import Context, ContextBuilder, ContextRules, MessageSource
from otolith.conversation.formats.recognition import PlainMessage, read_plain
from otolith.conversation.message import Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from otolith.conversation.search import Embed, Hit, SearchIndex, searched_text, snippet
from otolith.conversation.storage import (
    USAGE,
    AttachmentStore,
    ConversationStore,
    scan,
    scan_back,
)
from otolith.conversation.summaries import (
    Summariser,
    Summary,
    SummaryStore,
    extractive,
    summarise,
    summariser_key,
)
from otolith.conversation.threads import (
    Thread,
    Turns,
    check_thread_name,
    create_thread,
    describe_thread,
    fork_thread,
    list_threads,
    remove_thread,
    truncate_thread,
)
from otolith.conversation.token_counts import (
    MAX_PROVIDER_COUNTS,
    Calibration,
    ProviderCount,
    TokenCounter,
    TokenTotal,
    estimated_tokens,
    to_counter,
)
from otolith.core import Branch, StateReader
from otolith.errors import BadMessage, BadValue, Error, Invalid, OverBudget
from otolith.shapes import FUNCTION, NOTHING, check_argument
from otolith.state.base import clock_of
from otolith.types import Clock

if TYPE_CHECKING:
    from otolith.conversation.discourse import (
        Candidate,
        Entity,
        ReferenceJudge,
        Topic,
        TopicJudge,
        Tracker,
    )

MAIN = "main"
Variables = Iterable[str] | Mapping[str, str]
"""Names of variables that a phrase may refer to, perhaps with the type of each."""


class Discourse:
    """The topics, entities and references of a thread.

    Nothing of this is stored. It is derived from the messages, once for each, in this process.
    """

    def __init__(self, messages: Sequence[Message], store: ConversationStore) -> None:
        self._messages = messages
        self._store = store

    def topics(self, judge: TopicJudge | None) -> list[Topic]:
        """Return the topics; with a judge, all messages are read again."""
        if judge is not None:
            return discourse.topics_of(list(self._messages), judge=judge)
        with self._store.state.lock:
            return self._tracker().segmenter.topics()

    def entities(self) -> list[Entity]:
        """Return the entities that were mentioned."""
        with self._store.state.lock:
            tracker = self._tracker()
            end = (len(tracker.clock), 0)
            return [each.entity(end) for each in tracker.register.entities if each.before(end)]

    def resolve(
        self, phrase: str, at: int | None, variables: Variables, judge: ReferenceJudge | None
    ) -> list[Candidate]:
        """Return what a phrase may refer to; before the end, messages up to `at` are read again."""
        messages = self._messages
        if at is None or at == len(messages):
            tracker = self._tracker()
            return discourse.resolve(
                messages, phrase, variables=variables, judge=judge, tracker=tracker
            )
        return discourse.resolve(list(messages), phrase, at=at, variables=variables, judge=judge)

    def _tracker(self) -> Tracker:
        """Return the tracker of the whole thread, after it has read new messages."""
        return self._store.fold(self._store.cache.trackers, discourse.Tracker)


class Conversation(Sequence[Message]):
    """One thread of messages in a state, the oldest first: `state.conversation`."""

    def __init__(
        self,
        state: StateReader,
        *,
        thread: str = MAIN,
        clock: Clock | None = None,
        attachment_limit_bytes: int = MAX_ATTACHMENT_BYTES,
        variables: Callable[[], Variables] = tuple,
    ) -> None:
        """Open a thread; it begins to exist with its first message.

        `variables` returns the names that `resolve` considers beside what was mentioned.

        Raises:
            Invalid: the name of the thread is not valid.
        """
        self.state = state
        self.thread_name = check_thread_name(thread)
        self._clock = clock_of(state) if clock is None else clock
        self._limit_bytes = attachment_limit_bytes
        self._variables = variables
        self._store = ConversationStore(state, thread)
        self._attachments = AttachmentStore(self._store)
        self._discourse = Discourse(self, self._store)

    def __repr__(self) -> str:
        return f"<Conversation {self.thread_name}, {len(self)} messages>"

    # Reading

    def __len__(self) -> int:
        with self.state.lock:
            return self._store.length()

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        with self.state.lock:
            length = self._store.length()
            if isinstance(index, slice):
                start, stop, step = index.indices(length)
                if step == 1:
                    return self._read(start, max(start, stop))
                return [self[at] for at in range(start, stop, step)]
            check_argument(index, "the number of a message", SupportsIndex, "a whole number")
            at = index + length if index < 0 else index
            if not 0 <= at < length:
                raise IndexError(f"there is no message {index} among {length}")
            return self._read(at, at + 1)[0]

    def __iter__(self) -> Iterator[Message]:
        return self.messages()

    def messages(self, start: int = 0, stop: int | None = None) -> Iterator[Message]:
        """Yield messages, the oldest first, reading some at a time."""
        for index in (start, stop):
            check_argument(index, "the number of a message", (int, NOTHING), "a whole number")
        start, stop, _ = slice(start, stop).indices(len(self))
        return (message for _, message in scan(lambda a, b: self[a:b], start, stop))

    @property
    def turns(self) -> Turns:
        """The messages of the user, each with its replies; the last ones are found from the end."""
        return Turns(lambda start, stop: self[start:stop], len(self))

    @property
    def tokens(self) -> int:
        """The tokens of all messages, as estimated when they were added."""
        with self.state.lock:
            return self._store.fold(self._store.cache.totals, TokenTotal).tokens

    def _read(self, start: int, stop: int) -> list[Message]:
        """Return messages with the bytes of their attachments, and whether they are pinned."""
        permanent = self._store.permanent()
        return [
            replace(each, is_pinned=True) if permanent.get(each.id, (0, False))[1] else each
            for each in map(self._attachments.load, self._store.read(start, stop))
        ]

    def _index(self, at: int | None) -> int:
        """Return an index that counts from 0; without one, the length.

        Raises:
            IndexError: the log is shorter.
        """
        check_argument(at, "the number of a message", (SupportsIndex, NOTHING), "a whole number")
        length = self._store.length()
        end = length if at is None else at + length if at < 0 else at
        if not 0 <= end <= length:
            raise IndexError(f"there is no message {at} among {length}")
        return end

    # Writing

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, after checking that the state can be written to."""
        self._store.branch()
        with self.state.lock:
            yield

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    def system(self, content: Content, *, name: str = "") -> Message:
        """Add instructions for the model; they are in every context.

        To replace those that are there, set `system_prompt`.
        """
        return self.append(to_message(Role.SYSTEM, content, name=name))

    @property
    def system_prompt(self) -> str:
        """The text of the system messages that the thread begins with; set it to replace them.

        Another prompt takes their place in the log, as one message; nothing (`None`) removes them.
        Earlier commits have the old ones. Raises `BadMessage` if it cannot be a system message.
        """
        with self.state.lock:
            return "\n".join(each.text for each in self._read(0, self._store.prompt_length()))

    @system_prompt.setter
    def system_prompt(self, content: Content | None) -> None:
        prompt = None if content is None else to_message(Role.SYSTEM, content)
        with self._writing():
            self._appender().replace_prompt(prompt)

    def user(self, content: Content, *, name: str = "", is_pinned: bool = False) -> Message:
        """Add a message of the user: text, or parts such as text and attachments.

        Dicts as a provider writes them are taken as well: blocks of content, or a whole message.
        """
        message = to_message(Role.USER, content, name=name)
        return self.append(replace(message, is_pinned=True) if is_pinned else message)

    def assistant(
        self,
        content: Content | None = None,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        reasoning: str | Reasoning | Iterable[Reasoning] | None = None,
        name: str = "",
    ) -> Message:
        """Add a message of the model: its text, its reasoning and its tool calls.

        Content and calls may be dicts as a provider writes them, or the content a whole message.
        """
        check_argument(tool_calls, "tool_calls", (Iterable, NOTHING), "a list of tool calls")
        thoughts: tuple[Part, ...] = ()
        if isinstance(reasoning, str):
            thoughts = (Reasoning(reasoning),) if reasoning else ()
        elif reasoning is not None:
            check_argument(reasoning, "reasoning", (Reasoning, Iterable), "a text or reasoning")
            thoughts = (reasoning,) if isinstance(reasoning, Reasoning) else tuple(reasoning)
        message = to_message(Role.ASSISTANT, content, calls=tool_calls, name=name)
        if thoughts:
            message = replace(message, parts=(*thoughts, *message.parts))
        return self.append(message)

    def tool(self, call_id: str, result: Any, *, is_error: bool = False) -> Message:
        """Add the result of a tool call: text, parts, or data that becomes JSON.

        Raises:
            BadMessage: no call with this id waits for a result.
        """
        part = ToolResult(call_id, to_result_content(result), is_error=is_error)
        return self.append(Message(Role.TOOL, (part,)))

    def append(self, message: Message | PlainMessage) -> Message:
        """Add a message; return it as stored, with its id, time and tokens.

        A dict of OpenAI or Anthropic is taken as well, or such an object of their packages.

        Raises:
            BadMessage: it cannot be part of this conversation; `problem` says why.
            ReadOnly: the conversation belongs to a snapshot.
        """
        return self.extend([message])[0]

    def extend(
        self, messages: Iterable[Message | PlainMessage], *, allow_empty: bool = False
    ) -> list[Message]:
        """Add messages, or dicts of them, all or none; return them as stored.

        Raises:
            BadMessage: one of them cannot be part of this conversation.
        """
        check_argument(messages, "messages", Iterable, "a list of messages")
        found: list[Any] = list(messages)
        if not all(isinstance(each, Message) for each in found):
            found = read_plain(found)
        with self._writing():
            return self._appender(allow_empty=allow_empty).append(found)

    def _appender(self, *, allow_empty: bool = False) -> MessageAppender:
        return MessageAppender(
            self._store, now=self._now(), limit_bytes=self._limit_bytes, allow_empty=allow_empty
        )

    @staticmethod
    def dialogue(turns: Iterable[str]) -> list[Message]:
        """Return texts of a user and an assistant, who take turns, as messages; store nothing."""
        roles = (Role.USER, Role.ASSISTANT)
        return [Message(roles[at % 2], (Text(text),)) for at, text in enumerate(turns)]

    def pop(self) -> Message:
        """Remove the last message, and return it; earlier commits have it.

        If it is the result of a call, the call waits again. A merge removes it from the other
        branch, too, and leaves there what was said after it.

        Raises:
            IndexError: there is no message.
        """
        with self._writing():
            message = self[-1]
            truncate_thread(self._store, len(self) - 1)
            return message

    def clear(self) -> None:
        """Remove all messages, also the system prompt; earlier commits have them."""
        with self._writing():
            truncate_thread(self._store, 0)

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

    def pin(self, index: int, *, is_pinned: bool = True) -> None:
        """Let a message be in every context, with its calls and results; or no longer."""
        with self._writing():
            message = self[index]
            for at in self._with_partners(message, range(len(self))[index]):
                (each,) = self._store.read(at, at + 1)
                self._store.set_pinned(at, each, is_pinned=is_pinned)

    def _with_partners(self, message: Message, at: int) -> list[int]:
        """Return the indices of a message, the calls it answers and the results of its calls.

        One message may answer the calls of two others: these belong to it, and so on.
        """
        store, found, queue = self._store, {at}, [(at, message)]
        while queue:
            place, each = queue.pop()
            near = {store.find_call(result.call_id) for result in each.results}
            near |= {store.find_result(call.id, place) for call in each.calls}
            for other in near:
                if other is not None and other not in found:
                    found.add(other)
                    queue.append((other, store.read(other, other + 1)[0]))
        return sorted(found)

    # Contexts

    def context(
        self,
        budget: int,
        for_: str = "plain",
        *,
        system: Content | None = None,
        tools_tokens: int = 0,
        keep_last: int = 4,
        keep_results: int = 5,
        slack: float = 0.25,
        summariser: Summariser | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
    ) -> Context:
        """Return the messages for a request: valid for a provider, within a budget of tokens.

        `for_` is openai, responses, anthropic or plain. `system` takes the place of the system
        prompt in this context; "" leaves it out. `tools_tokens` is the size of the tool
        descriptions. A summariser is called if something has to go; its summary is staged with the
        thread, so that it is called once. Nothing else is ever written.

        Raises:
            OverBudget: the permanent messages do not fit; `needed` is the size they take.
        """
        rules = ContextRules(
            budget=budget,
            for_=for_,
            system=None if system is None else to_message(Role.SYSTEM, system),
            tools_tokens=tools_tokens,
            keep_last=keep_last,
            keep_results=keep_results,
            slack=slack,
            summariser=summariser,
            counter=to_counter(counter),
        )
        with self.state.lock:
            source = self._source(rules)
            context = ContextBuilder(source, rules).build()
        return replace(context, _previous=lambda: self._previous_context(source, rules))

    def _source(self, rules: ContextRules) -> MessageSource:
        """Return the thread as it is now, for a context."""
        store, log, load = self._store, self._store.log(), self._attachments.load
        summaries = SummaryStore(store)
        key = None if rules.summariser is None else summariser_key(rules.summariser)

        def read(start: int, stop: int) -> list[Message]:
            """Read messages with the text of text files, which is counted and cut."""
            return [load(message, "text/") for message in store.read(start, stop, log)]

        def put_summary(summary: Summary) -> None:
            """Stage a summary; one of a read-only snapshot is not stored."""
            if isinstance(self.state, Branch):
                summaries.put(summary)

        return MessageSource(
            self.state.cells.length(log),
            read,
            permanent=store.permanent_indices(),
            permanent_then=store.permanent_indices,
            last_user=store.last_user_index(),
            prompt_length=store.prompt_length(),
            load_files=load,
            calibration=self._calibration(),
            counts=store.cache.counts,
            has_summaries=not summaries.is_empty,
            find_summary=lambda first, last: next(summaries.find(first, last, key), None),
            last_summary=lambda stop: summaries.longest(stop - 1, key),
            put_summary=put_summary,
        )

    def _previous_context(self, source: MessageSource, rules: ContextRules) -> Context | None:
        """Return the context that the last reply answered; None if there is none."""
        replies = (
            (at, message)
            for at, message in scan_back(source.read, source.length)
            if message.role is Role.ASSISTANT
        )
        with self.state.lock, suppress(OverBudget):  # then no request was made within this budget
            for at, reply in replies:
                then, rules = (
                    source.until(at, self._calibration(at)),
                    replace(rules, summariser=None),
                )
                if any(each.time > reply.time for each in then.read(0, then.prompt_length)):
                    rules = replace(rules, system=Message(Role.SYSTEM, ()))  # it was another prompt
                return ContextBuilder(then, rules).build()
        return None

    def usage(
        self, *, input_tokens: int, output_tokens: int = 0, context: Context | None = None
    ) -> None:
        """Record what a provider counted for the last request, so that estimates get better.

        Call it after the reply was added. `context` is what was sent; by default, all messages.
        """
        counts = input_tokens, output_tokens
        check_argument(context, "context", (Context, NOTHING), "a Context")
        if any(type(count) is not int or count < 0 for count in counts):
            raise Invalid(
                f"counts of tokens must be 0 or more, got {counts}",
                hint="give what the provider reported",
            )
        with self._writing():
            length = self._store.length()
            last = self._store.read(max(length - 1, 0), length)
            is_reply = bool(last) and last[0].role is Role.ASSISTANT
            stop, reply = (length - 1, estimated_tokens(last[0])) if is_reply else (length, 0)
            estimate, start = self.tokens - reply, 0
            if context is not None:
                estimate, start, stop = context.estimate, context.start, context.stop
            count = ProviderCount(stop, input_tokens, output_tokens, estimate, start)
            self._store.extend([list(count)], USAGE)

    def _calibration(self, before: int | None = None) -> Calibration:
        """Return the calibration by the counts of providers; `before` leaves out later ones."""
        cell, cells = self._store.cell(USAGE), self.state.cells
        if cell is None:
            return Calibration()
        length = cells.length(cell)
        rows = cells.load_all(cells.elements(cell, max(length - MAX_PROVIDER_COUNTS, 0), length))
        counts = [ProviderCount(*row) for row in rows if isinstance(row, list)]
        return Calibration([each for each in counts if before is None or each.stop < before])

    def summarise(
        self, stop: int | None = None, *, summariser: Summariser | None = None
    ) -> Summary:
        """Make and stage a summary of all messages before an index, by default of all.

        Contexts that are cut there use it. A summary that this summariser made of the same
        messages before is returned. By default `extractive` picks sentences.

        Raises:
            BadValue: the summariser did not return a text.
        """
        check_argument(summariser, "summariser", (FUNCTION, NOTHING), "a function")
        summariser = extractive if summariser is None else summariser
        with self._writing():
            end = self._index(stop)
            if end == 0:
                raise Invalid("there is nothing to summarise", hint="add messages first")
            summaries, key = SummaryStore(self._store), summariser_key(summariser)
            known = summaries.longest(end, key)
            if known is not None and known.stop == end:
                return known
            start = 0 if known is None else known.stop
            summary = summarise(summariser, self._read(start, end), known, end)
            summaries.put(summary)
            return summary

    # Discourse

    def topics(self, *, judge: TopicJudge | None = None) -> list[Topic]:
        """Return the topics of the conversation, in the order in which they came up.

        Each topic has its spans of messages, its keywords, and whether it is active, suspended or
        closed. `judge`, perhaps a model, may overrule the rules for a turn.
        """
        return self._discourse.topics(judge)

    def entities(self) -> list[Entity]:
        """Return the people and things that were mentioned, in the order in which they came up."""
        return self._discourse.entities()

    def resolve(
        self,
        phrase: str,
        *,
        at: int | None = None,
        variables: Variables | None = None,
        judge: ReferenceJudge | None = None,
    ) -> list[Candidate]:
        """Return what a phrase ("it", "the second one") may refer to, the best first, with reasons.

        The phrase is in the next message, or in message `at`. `variables` are names that may be
        meant as well; for `state.conversation` these are the variables of the workspace, by
        default. `judge`, perhaps a model, may choose among the candidates. A candidate was always
        mentioned before; two close scores are ambiguous.

        Raises:
            BadValue: there is no message `at`.
        """
        with self.state.lock:
            names = self._variables() if variables is None else variables
            return self._discourse.resolve(phrase, at, names, judge)

    # Searching

    def search(self, text: str, k: int = 5, *, embed: Embed | None = None) -> list[Hit]:
        """Return the best `k` messages for a query, the best first.

        `embed` gives texts vectors, so that synonyms are found too. The vectors stay in memory as
        long as the same function is given.

        Raises:
            BadValue: the query is not a text, or `embed` does not return one vector a text.
        """
        if not isinstance(text, str):
            raise BadValue(f"the query must be a text, got {text!r}", hint="use words")
        check_argument(embed, "embed", (FUNCTION, NOTHING), "a function of texts")
        if type(k) is not int or k < 0:
            raise BadValue(f"k must be 0 or more, got {k!r}", hint="give a number of messages")
        with self.state.lock:
            index = self._store.fold(self._store.cache.indices, SearchIndex)
            matches = index.find(text, k if embed is None else 10 * k)
            if embed is not None:
                matches = index.fuse(text, matches, k, embed, lambda at: searched_text(self[at]))
            hits = []
            for each in matches:
                message = self[each.key]
                shown = snippet(searched_text(message), each.place)
                hits.append(Hit(each.key, message, each.score, each.words, shown))
            return hits

    # Threads

    def threads(self) -> dict[str, Thread]:
        """Return the threads of the state, by name."""
        with self.state.lock:
            return list_threads(self.state)

    def thread(self, name: str) -> Conversation:
        """Return another thread of the same state, to continue it or to begin it."""
        return Conversation(
            self.state,
            thread=name,
            clock=self._clock,
            attachment_limit_bytes=self._limit_bytes,
            variables=self._variables,
        )

    @property
    def about(self) -> Thread:
        """When this thread began, and what it was forked from."""
        with self.state.lock:
            return describe_thread(self._store)

    def create(self, name: str, *, meta: Mapping[str, Any] | None = None) -> Conversation:
        """Begin a thread without messages.

        Raises:
            Exists: there is a thread with this name.
        """
        created = self.thread(name)
        with self._writing():
            create_thread(ConversationStore(self.state, name), now=self._now(), meta=meta or {})
        return created

    def fork(self, at: int | None = None, name: str | None = None) -> Conversation:
        """Begin a thread with the first `at` messages of this one, which both share.

        A negative number leaves out so many at the end; by default all are shared. The default
        name is that of this thread with a number.

        Raises:
            Exists: there is a thread with this name.
        """
        with self._writing():
            end = self._index(at)
            if name is None:
                taken, number = self.threads(), 2
                while f"{self.thread_name}-{number}" in taken:
                    number += 1
                name = f"{self.thread_name}-{number}"
            forked = self.thread(name)
            fork_thread(self._store, name, end, now=self._now())
            return forked

    def edit(self, index: int, content: Content | Message, name: str | None = None) -> Conversation:
        """Begin a thread that is like this one up to a message, with another message in its place.

        This thread is unchanged. The messages after the edited one are not in the new thread.

        Raises:
            BadMessage: the message has calls or results, and `content` is not a whole message.
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
                plain = formats.without_unknown_fields(old)
                new = to_message(old.role, content)
                meta = {**plain.meta, **new.meta}
                content = replace(plain, parts=new.parts, meta=meta, id="", time=0)
            made = self.fork(range(len(self))[index], name)
            try:
                made.append(replace(content, tokens=None))
            except Error:
                remove_thread(ConversationStore(self.state, made.thread_name))
                raise
            return made
