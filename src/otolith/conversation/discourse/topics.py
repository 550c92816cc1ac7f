"""Topics: the spans of messages that are about one thing, and returns to an earlier one.

A turn is what a user says, with the answers to it. For each turn:

1. `_evidence` yields the evidence for another topic: shared words and fields of meaning,
   cues such as "by the way", what the answer before did, silence. Each piece has a weight, the
   logarithm of odds: 0.7 makes a change twice as likely, -0.7 half as likely. A sum of 0 or more
   is a change.
2. A turn that changes the topic returns to an earlier one if it says so ("back to the flight") and
   shares words with it, or if it shares much more with that one. Otherwise it opens a topic.

The last turn is decided again while it grows; earlier ones keep their topic. The weights were
fitted to public dialogues and rounded, see `docs/explanation/topics-and-references.md`; those of
cues, of silence and of everything German are guesses.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from otolith.conversation.discourse.word_lists import keys_by_word, pattern, stem_list
from otolith.conversation.formats.parts import content_text
from otolith.conversation.message import Attachment, Message, Role, Text, ToolResult
from otolith.errors import BadValue
from otolith.shapes import FUNCTION, NOTHING, check_argument
from otolith.text.words import content_words, stem, words_in

_MINUTE = 60_000_000
_SILENCES = ((240 * _MINUTE, 3.0), (30 * _MINUTE, 1.5))
_SHARED_WITH_TOPIC, _SHARED_WITH_LAST_TURN, _SHARED_FIELDS = -3.5, -6.0, -1.25
_OTHER_FIELDS, _NEW_THING = 1.1, 1.5
_FEW_WORDS, _MISSING_WORD = 4, -0.5
"""A turn of fewer words says less of what it is about."""
_FIRST_TURN = -1.0
"""Against leaving a topic after one turn: people seldom ask one thing only."""
_CUE_WEIGHTS = {"new": 6.0, "requests": 1.2, "greets": 1.0, "refers": -1.0, "close": -1.0}
_ASKS, _ENDS = -1.6, 0.8
"""What the answer before did: it asked something back, or it ended a matter."""
_BACK, _RETURN, _MARGIN, _NEARLY = 0.2, 0.4, 0.1, -1.0
"""The fit with an earlier topic that a return needs: with "back to" or "anyway", or without a cue;
then also the margin over the current topic, and the least evidence for a change."""
_REPLY = 0.4
"""How much a word of an answer counts."""
_MAX_TOPICS, _MAX_TEXT, _KEYWORDS, _LABEL_WORDS = 20, 4_000, 6, 3
"""How many topics a turn may return to, the latest; how much of a message is read; for a topic."""
_OPENING, _ENDING = 90, 140
"""Most cues stand in the first letters of a turn; an offer of more, in the last of an answer."""


class TopicStatus(StrEnum):
    """Whether the conversation is at a topic, has left it open, or has ended it."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class Span(NamedTuple):
    """Messages in a row: from `start` up to, and not including, `stop`."""

    start: int
    stop: int
    why: str
    """Why the topic begins, or resumes, here."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that a conversation is about."""

    id: int
    label: str
    keywords: tuple[str, ...]
    spans: tuple[Span, ...]
    status: TopicStatus

    @property
    def first(self) -> int:
        """The message that opened it."""
        return self.spans[0].start

    @property
    def last(self) -> int:
        """The last message about it."""
        return self.spans[-1].stop - 1

    @property
    def returns(self) -> int:
        """How often the conversation returned to it."""
        return len(self.spans) - 1

    def __repr__(self) -> str:
        spans = ", ".join(f"{span.start}-{span.stop - 1}" for span in self.spans)
        return f"<Topic {self.label!r}, {self.status}, messages {spans}>"

    def __contains__(self, message: object) -> bool:
        return isinstance(message, int) and any(s.start <= message < s.stop for s in self.spans)


class TopicProposal(NamedTuple):
    """The topic that the rules propose for a turn (None for a new one), and why."""

    topic: int | None
    score: float
    why: str


TopicJudge: TypeAlias = Callable[
    [Sequence[Message], Sequence[Message], TopicProposal], int | str | None
]
"""A function that may overrule a proposal, perhaps a model.

It gets the messages before the turn, those of the turn, and the proposal. It returns the number of
a topic, "new", or None to accept the proposal.
"""


def texts_of(message: Message) -> Iterator[tuple[str, str, str]]:
    """Yield the texts of a message: text, source, and the id of the call that a result is for."""
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield content_text(part.content), "tool", part.call_id
        elif isinstance(part, Text | Attachment):
            yield part.text if isinstance(part, Text) else part.name, str(message.role), ""


def text_of(message: Message) -> str:
    """Return all texts of a message, results of tools included."""
    return "\n".join(text for text, _, _ in texts_of(message))


# Words in common


@dataclass(slots=True)
class _Vocabulary:
    """The stems of a turn or a topic, and their fields of meaning, with how much each counts."""

    words: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    fields: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def read(self, text: str, weight: float) -> None:
        """Add the words of a text, each with a weight."""
        for word in content_words(text):
            if word not in stem_list("filler"):
                self.add(word, weight)

    def add(self, word: str, weight: float) -> None:
        """Add a word, and the fields of meaning that it belongs to."""
        self.words[word] += weight
        for name in keys_by_word("fields", stems=True).get(word, ()):
            self.fields[name] += weight

    def shared_fields(self, other: _Vocabulary) -> float:
        """Return the cosine of the two vectors of fields of meaning."""
        dot = sum(weight * other.fields.get(name, 0.0) for name, weight in self.fields.items())
        norm = math.hypot(*self.fields.values()) * math.hypot(*other.fields.values())
        return dot / norm if norm else 0.0


@dataclass(slots=True)
class _Rarity:
    """How rare words are in a conversation, and how they are spelled."""

    turns: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """In how many settled turns each word is."""
    spellings: dict[str, str] = field(default_factory=dict)
    """How each word was first written."""

    def weight(self, word: str) -> float:
        """Return how much a word says: more if it is rare in the conversation, or long."""
        rare = math.log(1 + (self.turns + 2) / (self.counts[word] + 1))
        return rare * (0.4 if word.isdigit() else 0.6 + 0.1 * min(len(word), 8))

    def spelled(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return how words are written; a part of an identifier as its stem."""
        return tuple(self.spellings.get(word, word) for word in words)

    def keywords(self, words: dict[str, float]) -> tuple[str, ...]:
        """Return the words that say most about a topic."""
        listed = [word for word in words if not word.isdigit() and len(word) > 2]
        listed.sort(key=lambda word: (-words[word] * self.weight(word), word))
        return self.spelled(listed[:_KEYWORDS])

    def shared(self, turn: _Vocabulary, topic: _Vocabulary) -> tuple[float, list[str]]:
        """Return which part of a turn's words a topic has, from 0 to 1, and these words."""
        weights = {x: self.weight(x) * min(count, 1.0) for x, count in turn.words.items()}
        common = sorted((x for x in weights if x in topic.words), key=lambda x: -self.weight(x))
        total = sum(weights.values())
        return (sum(weights[x] for x in common) / total if total else 0.0), common


# Evidence


@dataclass(slots=True)
class _Turn:
    """What a user says, with the answers to it."""

    start: int
    stop: int
    asked: _Vocabulary = field(default_factory=_Vocabulary)
    all: _Vocabulary = field(default_factory=_Vocabulary)
    cues: dict[str, str] = field(default_factory=dict)
    """The cues of the user's words, by their group."""
    new_nouns: list[list[str]] = field(default_factory=list)
    """The stems of what is introduced as new: "a hotel", "my knee"."""
    silence: int = 0
    before: str = ""
    reply: str = ""
    """The answer before it, and the last answer in it."""

    def read(self, text: str, *, is_user: bool) -> None:
        """Add a message; only the user's words have cues and introduce things."""
        self.all.read(text, 1.0 if is_user else _REPLY)
        if is_user:
            self.asked.read(text, 1.0)
            for name in (*_CUE_WEIGHTS, "back"):
                where = text if name in ("close", "refers") else text[:_OPENING]
                found = pattern(name).search(where.strip())
                if found is not None:
                    self.cues[name] = found.group().strip()
            nouns = pattern("new_noun").finditer(text[: 2 * _OPENING])
            self.new_nouns += [content_words(found[1]) for found in nouns]


@dataclass(slots=True)
class _GrowingTopic:
    """A topic while it is followed."""

    vocabulary: _Vocabulary
    last_turn: _Vocabulary = field(default_factory=_Vocabulary)
    spans: list[Span] = field(default_factory=list)
    is_closed: bool = False
    turns: int = 0


def _evidence(turn: _Turn, topic: _GrowingTopic, rarity: _Rarity) -> Iterator[tuple[float, str]]:
    """Yield each piece of evidence as a weight and, if it is for a change, a reason."""
    yield _SHARED_WITH_TOPIC * rarity.shared(turn.all, topic.vocabulary)[0], ""
    yield _SHARED_WITH_LAST_TURN * rarity.shared(turn.all, topic.last_turn)[0], ""
    fields = turn.all.shared_fields(topic.vocabulary)
    yield _SHARED_FIELDS * fields, ""
    if turn.asked.fields and topic.vocabulary.fields and not fields:
        yield _OTHER_FIELDS, "about other things"
    known = topic.vocabulary.words.keys()
    new = next((words for words in turn.new_nouns if words and not known & words), None)
    if new is not None:
        yield _NEW_THING, f"introduces something new: {' '.join(rarity.spelled(new))}"
    yield _MISSING_WORD * max(0, _FEW_WORDS - len(turn.asked.words)), ""
    for name, weight in _CUE_WEIGHTS.items():
        if name in turn.cues:
            yield weight, repr(turn.cues[name])
    yield _FIRST_TURN * (topic.turns < 2), ""
    ending = turn.before.rstrip()[-_ENDING:]
    is_offer = pattern("offers").search(ending)
    if ending.endswith("?") and not is_offer:
        yield _ASKS, ""
    elif is_offer or pattern("ends").search(ending):
        yield _ENDS, "the matter before was ended"
    weight = next((weight for least, weight in _SILENCES if turn.silence >= least), 0.0)
    yield weight, f"{turn.silence // _MINUTE} minutes later"


class Segmenter:
    """Follows the topics of a conversation, message by message.

    `judge` may overrule what the rules propose for a turn; it is asked again while a turn grows.
    """

    def __init__(self, judge: TopicJudge | None = None) -> None:
        check_argument(judge, "judge", (FUNCTION, NOTHING), "a function")
        self._judge = judge
        self._messages: list[Message] = []  # only for the judge
        self._count = 0
        self._topics: list[_GrowingTopic] = []
        self._current = -1
        self._turn: _Turn | None = None
        self._rarity = _Rarity()
        self._time = 0

    def __repr__(self) -> str:
        return f"<Segmenter of {self._count} messages>"

    def add(self, message: Message) -> None:
        """Add the next message; what the user says after an answer begins a turn.

        Raises:
            Invalid: it is not a `Message`.
        """
        check_argument(message, "message", Message, "a Message")
        is_user, at, turn = message.role is Role.USER, self._count, self._turn
        self._messages += [message] if self._judge is not None else []
        if turn is None or (is_user and (turn.all.words or turn.cues)):
            before = "" if turn is None else self._settle(turn)
            silence = message.time - self._time if message.time and self._time else 0
            turn = self._turn = _Turn(at, at, silence=silence, before=before)
        turn.stop = self._count = at + 1
        if message.role is not Role.SYSTEM:
            text = text_of(message)[:_MAX_TEXT]
            for word in words_in(text):
                self._rarity.spellings.setdefault(stem(word.text), word.text)
            turn.read(text, is_user=is_user)
        if message.role is Role.ASSISTANT and message.text.strip():
            turn.reply = message.text
        self._time = message.time or self._time

    def spans_at(self, message: int) -> list[Span]:
        """Return the spans of the topic of a message, as far as it is decided."""
        message = min(message, self._count - 1)
        for topic in reversed(self._followed()[1]):
            if any(span.start <= message < span.stop for span in topic.spans):
                return topic.spans
        return []

    def topics(self) -> list[Topic]:
        """Return the topics, in the order in which they came up."""
        found = []
        current, topics = self._followed()
        for number, topic in enumerate(topics):
            keywords = self._rarity.keywords(topic.vocabulary.words)
            label = ", ".join(keywords[:_LABEL_WORDS]) or f"topic {number + 1}"
            status = TopicStatus.ACTIVE if number == current else TopicStatus.SUSPENDED
            status = TopicStatus.CLOSED if topic.is_closed else status
            found.append(Topic(number, label, keywords, tuple(topic.spans), status))
        return found

    def _followed(self) -> tuple[int, list[_GrowingTopic]]:
        """Return the number of the last turn's topic, and all topics with the span of that turn."""
        turn, topics = self._turn, list(self._topics)
        if turn is None:
            return -1, topics
        proposal = self._decide(turn)
        at = len(self._topics) if proposal.topic is None else proposal.topic
        topic = _GrowingTopic(turn.all) if proposal.topic is None else self._topics[at]
        if at == self._current:
            spans = [*topic.spans[:-1], topic.spans[-1]._replace(stop=turn.stop)]
        else:
            spans = [*topic.spans, Span(turn.start, turn.stop, proposal.why)]
        topics[at : at + 1] = [replace(topic, spans=spans, is_closed="close" in turn.cues)]
        return at, topics

    def _settle(self, turn: _Turn) -> str:
        """Decide about a turn for good; return its last answer."""
        self._current, self._topics = self._followed()
        topic = self._topics[self._current]
        if topic.turns:
            for word, weight in turn.all.words.items():
                topic.vocabulary.add(word, weight)
        topic.last_turn = turn.all
        topic.turns += 1
        self._rarity.turns += 1
        self._rarity.counts.update(turn.all.words.keys())
        return turn.reply

    def _decide(self, turn: _Turn) -> TopicProposal:
        """Return the topic of a turn: what the judge says, or else what the rules propose."""
        proposal = self._propose(turn)
        if self._judge is None or self._current < 0:
            return proposal
        before, here = self._messages[: turn.start], self._messages[turn.start : turn.stop]
        verdict = self._judge(before, here, proposal)
        if verdict is None or verdict == proposal.topic:
            return proposal
        known = range(len(self._topics))
        if verdict != "new" and not (isinstance(verdict, int) and verdict in known):
            raise BadValue(
                f"the judge returned {verdict!r:.60}, and there are {len(known)} topics",
                hint='return the number of a topic, "new" or None',
            )
        return TopicProposal(
            verdict if isinstance(verdict, int) else None, 1.0, "decided by the judge"
        )

    def _propose(self, turn: _Turn) -> TopicProposal:
        """Return the topic that the rules find: an earlier one, a new one, or the current one."""
        if self._current < 0:
            return TopicProposal(None, 1.0, "the beginning")
        evidence = sorted(_evidence(turn, self._topics[self._current], self._rarity), reverse=True)
        score = sum(weight for weight, _ in evidence)
        reasons = [why for weight, why in evidence if weight > 0 and why]
        why = ", ".join(reasons) or "shares little with what was said before"
        here, _ = self._fit(turn, self._current)
        latest = range(max(0, len(self._topics) - _MAX_TOPICS), len(self._topics))
        fits = [(*self._fit(turn, at), at) for at in latest if at != self._current]
        best, common, there = max(fits, key=lambda each: each[::2], default=(0.0, [], -1))
        how = f"shares {', '.join(self._rarity.spelled(common[:3]))}" if common else "alike"
        if "back" in turn.cues and best > max(_BACK, here):
            return TopicProposal(there, best, f"{turn.cues['back']!r}, {how}")
        if best >= max(_RETURN, here + _MARGIN) and score >= _NEARLY:
            return TopicProposal(there, best, f"returns without a cue: {how}")
        if score >= 0:
            return TopicProposal(None, score, why)
        return TopicProposal(self._current, -score, "stays")

    def _fit(self, turn: _Turn, at: int) -> tuple[float, list[str]]:
        """Return how much a turn has in common with a topic, and the words."""
        topic = self._topics[at].vocabulary
        words, common = self._rarity.shared(turn.asked, topic)
        enough = min(1.0, len(turn.asked.words) / _FEW_WORDS)
        return 1.2 * words * enough + 0.4 * turn.all.shared_fields(topic), common
