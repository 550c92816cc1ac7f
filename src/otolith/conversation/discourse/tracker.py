"""Following a conversation: topics, entities and references of its messages.

A tracker reads each message once. References are resolved while it reads, from what came before, so
that "it" after "the second one" finds what was picked. The functions below keep the trackers of the
last few conversations and continue where the last call stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeAlias

from otolith.conversation.discourse.entities import (
    Entity,
    Mention,
    Moment,
    Register,
    TrackedEntity,
    group_of,
)
from otolith.conversation.discourse.mentions import TextMentions, read_mentions
from otolith.conversation.discourse.references import (
    NOUN_KINDS,
    ReferenceQuery,
    Situation,
    candidates_for,
    parse_reference,
)
from otolith.conversation.discourse.topics import (
    Segmenter,
    Topic,
    TopicJudge,
    text_of,
    texts_of,
)
from otolith.conversation.discourse.word_lists import pattern
from otolith.conversation.message import Message, Role
from otolith.errors import BadValue
from otolith.shapes import FUNCTION, NOTHING, check_argument
from otolith.text.words import content_words, is_german

_MIN_SCORE, _MAX_CANDIDATES, _MAX_TRACKERS = 0.02, 10, 8
_SURE, _AHEAD = 0.45, 1.15
"""A reference is followed if its best answer has this score, and is so much ahead of the next."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a phrase may mean, with a score from 0 to 1 and the reasons for it."""

    entity: Entity
    score: float
    reasons: tuple[str, ...]


ReferenceJudge: TypeAlias = Callable[
    [str, Sequence[Message], Sequence[Candidate]], Sequence[int] | None
]
"""A function that chooses among candidates, perhaps a model.

It gets the phrase, the messages before it, and the candidates. It returns the places of those it
takes, the best first, or None to accept the order. It can leave some out, but cannot add any.
"""


class Tracker:
    """The topics and entities of a conversation, message by message."""

    def __init__(self) -> None:
        self.register = Register()
        self.segmenter = Segmenter()
        self.clock = [0]
        """For each message, and the next one, how many came before it, results of tools aside."""
        self.is_german = False
        self._tools: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Tracker, {len(self.clock) - 1} messages, {len(self.register.entities)} entities>"

    def add(self, message: Message) -> None:
        """Read the next message."""
        self.segmenter.add(message)
        at, base = len(self.clock) - 1, 0
        self.clock.append(self.clock[-1] + (message.role in (Role.USER, Role.ASSISTANT)))
        self._tools |= {call.id: call.name for call in message.calls}
        for text, source, call_id in texts_of(message) if message.role is not Role.SYSTEM else ():
            tool = self._tools.get(call_id, "") if source == "tool" else None
            read = read_mentions(text, german=self.is_german, tool=tool)
            if tool is None and text.strip():
                self.is_german = read.is_german
            self._add_text(read, text if tool is None else "", at, source, base)
            base += len(text) + 1

    def situation(self, moment: Moment, clause: int | None) -> Situation:
        """Return a moment of the conversation, to look for candidates at."""
        topic = self.segmenter.spans_at(moment[0])
        return Situation(self.register, moment, self.clock, clause, topic)

    def _add_text(self, read: TextMentions, text: str, at: int, source: str, base: int) -> None:
        """Register what a text mentions and follow what it refers to, in its order.

        `base` is where the text begins in the message.
        """

        def here(mention: Mention) -> Mention:
            return replace(mention, message=at, source=source, start=base + mention.start)

        events: list[tuple[Mention, int | None]] = [(here(each), None) for each in read.mentions]
        for found in pattern("references").finditer(text):
            mention = Mention(at, base + found.start(), found.group(), source, "reference")
            events.append((mention, base + _clause_start(found)))
        known: dict[int, TrackedEntity] = {}
        for mention, clause in sorted(events, key=lambda each: (each[0].start, each[1] is None)):
            followed = self._follow(mention, clause)
            if clause is None:
                known[mention.start] = followed or self.register.place(mention)
        for shown in read.lists:
            items = tuple(map(here, shown.items))
            members = [known[x.start] if shown.is_row else self.register.place(x) for x in items]
            self.register.add_list(replace(shown, items=items, members=tuple(members)))

    def _follow(self, mention: Mention, clause: int | None) -> TrackedEntity | None:
        """Register a mention of what it refers to and return that, if it is clear.

        It is a phrase whose clause begins at `clause`, or a noun: "the hotel" may be one that was
        picked from a list.
        """
        asked = None
        if clause is not None:
            asked = parse_reference(mention.text, german=self.is_german)
        elif mention.form == "noun" and mention.is_definite:
            words = mention.words[:-1]
            asked = ReferenceQuery("definite", mention.number, head=mention.head, words=words)
        if asked is None or (clause is not None and asked.kind in NOUN_KINDS):
            return None
        found = candidates_for(asked, self.situation(mention.moment, clause))
        if not found or found[0].score < _SURE or len(found[0].entities) != 1:
            return None
        if len(found) > 1 and found[0].score < _AHEAD * found[1].score:
            return None
        self.register.touch(found[0].entities[0], mention)
        return found[0].entities[0]


def _clause_start(found: re.Match[str]) -> int:
    """Return where the clause of a phrase begins in its text."""
    ends = pattern("clause_end").finditer(found.string, 0, found.start())
    return max((each.end() for each in ends), default=0)


# Functions over a sequence of messages

_trackers: list[tuple[list[Message], Tracker]] = []
_trackers_lock = Lock()


@contextmanager
def _tracker_of(messages: Sequence[Message], stop: int) -> Iterator[Tracker]:
    """Lend the tracker of the first messages; one that has read some of them reads the rest."""
    with _trackers_lock:
        fitting = (x for x in _trackers if len(x[0]) <= stop and x[0] == [*messages[: len(x[0])]])
        read, tracker = next(fitting, ([], Tracker()))
        others = [known for known in _trackers if known[1] is not tracker]
        for message in messages[len(read) : stop]:
            tracker.add(message)
            read.append(message)
        _trackers[:] = [(read, tracker), *others][:_MAX_TRACKERS]
        yield tracker


def _end_of(messages: Sequence[Message], at: int | None) -> int:
    """Return the message before which is asked: `at`, or by default the next one."""
    check_argument(messages, "messages", Sequence, "a sequence of messages")
    if at is not None and (type(at) is not int or not 0 <= at <= len(messages)):
        raise BadValue(
            f"at must be from 0 to {len(messages)}, the number of messages, got {at!r:.60}",
            hint="leave it out to ask after the last message",
        )
    return len(messages) if at is None else at


def topics_of(messages: Sequence[Message], *, judge: TopicJudge | None = None) -> list[Topic]:
    """Return the topics of a conversation, in the order in which they came up.

    Every message belongs to one span of one topic. `judge` may overrule what the rules propose for
    a turn; use a `Segmenter(judge)` to ask it about new turns only.

    Raises:
        Invalid: `messages` is not a sequence of messages.
        BadValue: the judge returned something that is not a topic.
    """
    end = _end_of(messages, None)
    if judge is None:
        with _tracker_of(messages, end) as tracker:
            return tracker.segmenter.topics()
    segmenter = Segmenter(judge)
    for message in messages:
        segmenter.add(message)
    return segmenter.topics()


def entities_of(messages: Sequence[Message], *, at: int | None = None) -> list[Entity]:
    """Return what a conversation has mentioned before message `at`, in the order it came up.

    Raises:
        Invalid: `messages` is not a sequence of messages, or there is no message `at`.
    """
    end = _end_of(messages, at), 0
    with _tracker_of(messages, end[0]) as tracker:
        return [each.entity(end) for each in tracker.register.entities if each.before(end)]


def resolve(
    messages: Sequence[Message],
    phrase: str,
    *,
    at: int | None = None,
    start: int | None = None,
    variables: Iterable[str] | Mapping[str, str] = (),
    judge: ReferenceJudge | None = None,
    tracker: Tracker | None = None,
) -> list[Candidate]:
    """Return what a phrase may mean, the best first; an empty list if nothing fits.

    `at` is the message in which the phrase stands: what comes before it is seen, in that message
    too. `start` is its position there, by default where it is found first. Without `at`, the phrase
    comes after all messages. `variables` are names of variables that may be meant, as a mapping
    with the type of each. `tracker` is one that has read all messages, if there is one. Two scores
    that are close mean that the phrase is ambiguous.

        resolve(messages, "the cheapest one")[0].entity.label

    Raises:
        Invalid: `messages` is not a sequence of messages, or `phrase` is not a text.
        BadValue: there is no message `at`, or the judge chose candidates that do not exist.
    """
    check_argument(phrase, "phrase", str, "a text", hint='"the second one"', error=BadValue)
    check_argument(variables, "variables", Iterable, "a list of names")
    check_argument(judge, "judge", (FUNCTION, NOTHING), "a function")
    check_argument(tracker, "tracker", (Tracker, NOTHING), "a Tracker")
    end = _end_of(messages, at)
    text = text_of(messages[end]) if end < len(messages) else ""
    found = _find_phrase(text, phrase, start)
    moment, clause = (end, found.start() if found else 0), _clause_start(found) if found else None
    with _tracker_of(messages, end + 1) if tracker is None else nullcontext(tracker) as reader:
        now = reader.situation(moment, clause)
        now.variables = _variables(variables)
        candidates = _candidates(phrase, now, german=reader.is_german)
    if judge is None or not candidates:
        return candidates
    return _chosen(judge(phrase, messages[:end], candidates), candidates)


def _find_phrase(text: str, phrase: str, start: int | None) -> re.Match[str] | None:
    """Return where a phrase stands in a text; None if it does not."""
    words = re.findall(r"\w+", phrase)
    inner = r"\W+".join(map(re.escape, words))
    places = re.finditer(rf"\b{inner}\b", text, re.IGNORECASE) if words else ()
    return next((found for found in places if start is None or found.end() > start), None)


def _candidates(phrase: str, now: Situation, *, german: bool) -> list[Candidate]:
    """Return the best candidates for a phrase, each entity or group once."""
    asked = parse_reference(phrase, german=is_german(phrase, default=german))
    best: dict[tuple[int, ...], Candidate] = {}
    for found in candidates_for(asked, now) if asked else ():
        ids = tuple(each.id for each in found.entities)
        if found.score >= _MIN_SCORE and ids not in best:
            entities = [each.entity(now.moment) for each in found.entities]
            entity = entities[0] if len(entities) == 1 else group_of(entities)
            best[ids] = Candidate(entity, round(found.score, 4), found.reasons)
    return list(best.values())[:_MAX_CANDIDATES]


def _chosen(order: object, found: list[Candidate]) -> list[Candidate]:
    """Return the candidates that a judge takes, in its order."""
    if order is None:
        return found
    places: list[Any] = list(order) if isinstance(order, Iterable) else [None]
    if any(type(place) is not int or not 0 <= place < len(found) for place in places):
        raise BadValue(
            f"the judge returned {order!r:.60} for {len(found)} candidates",
            hint="return a list of their places, from 0 on, or None",
        )
    return [found[place] for place in dict.fromkeys(places)]


def _variables(given: Iterable[str] | Mapping[str, str]) -> list[TrackedEntity]:
    """Return variables as entities that no message mentions."""
    entities = []
    for number, name in enumerate(given):
        kind = given[name] if isinstance(given, Mapping) else ""
        words = content_words(name)
        heads = {*words[-1:], *content_words(kind), *content_words(kind.lower())}
        first = Mention(text=name, type="variable", form="variable", number="singular")
        entities.append(TrackedEntity(-2 - number, first, {*words}, heads, type="variable"))
    return entities
