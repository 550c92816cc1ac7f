"""Where a conversation turns to another topic, and when it comes back.

For each turn (something that a user says, with the answers to it):

1. `leaving.py` adds up what speaks for and against another topic: words shared with the topic and
   with its last turn, fields of meaning (`fields.py`), what is said and done (`cues.py`), time.
2. What leaves goes back to an earlier topic if it says so ("back to the flight") and the topic is
   there, or if it shares much more with that one than with the present one. Else it opens a topic.

The answer to a question is looked at with it, so the last turn is decided again as it grows; those
before it stay as they are. One more message costs a look at its words and at the topics with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from otolith.agent.conversation.entities import said
from otolith.agent.conversation.folding import Folds
from otolith.agent.conversation.message import Message, Role
from otolith.agent.conversation.topics.cohesion import (
    Rarity,
    Vocabulary,
    reply_vocabulary,
    shared_fields,
    shared_words,
    vocabulary,
)
from otolith.agent.conversation.topics.cues import cues_in, introduced, reply_act
from otolith.agent.conversation.topics.leaving import leaving
from otolith.agent.conversation.topics.subject import Subject, Turn
from otolith.agent.conversation.topics.topic import Span, Topic, TopicStatus
from otolith.errors import BadValue

_PULL, _MARGIN, _RETURN = 3.0, 0.1, 0.4
"""How much another topic pulls that a turn fits better; from which fit on it is a return."""
_BACK, _AGAIN = 0.2, 0.3
_ENOUGH = 4
"""A turn of fewer words fits less well, whatever it shares."""
_MOST_ALIKE = 20
"""How many topics with one word are looked at, the latest ones."""
_KEYWORDS, _LABEL = 6, 3
_MOST_TEXT = 4_000


class Proposal(NamedTuple):
    """What the rules make of a turn: the topic it belongs to (None is a new one), and why."""

    topic: int | None
    score: float
    why: str


Judge: TypeAlias = Callable[[Sequence[Message], Sequence[Message], Proposal], int | str | None]
"""A judge of your own, perhaps a model.

What was said before, the turn, and the proposal in; the number of a topic, "new", or None for no
opinion out.
"""


class Segmenter:
    """Follows the topics of a conversation, message by message."""

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge
        self._messages: list[Message] = []
        self._subjects: list[Subject] = []
        self._current = -1
        self._turn: Turn | None = None
        self._by_word: dict[str, list[int]] = {}
        """For each word, the topics that have it."""
        self._rarity = Rarity()
        self._count = 0
        self._time = 0
        self._act = ""  # what the last answer did last

    def add(self, message: Message) -> None:
        """Take one more message in."""
        text = said(message)[:_MOST_TEXT]
        is_user = message.role is Role.USER
        if self._turn is None or (is_user and self._has_spoken()):
            if self._turn is not None:
                self._settle(self._turn)
            self._turn = Turn(self._count, self._count, gap=self._gap(message), after=self._act)
            self._act = ""
        turn = self._turn
        turn.stop = self._count = self._count + 1
        if message.role is not Role.SYSTEM:
            self._read(turn, text, is_user=is_user)
        if message.role is Role.ASSISTANT and message.text.strip():
            self._act = reply_act(message.text)
        self._time = message.time or self._time
        if self._judge is not None:
            self._messages.append(message)

    def spans_at(self, message: int) -> list[tuple[int, int]]:
        """Return the spans of the topic that a message belongs to, as far as it is decided."""
        turn = self._turn
        if turn is None:
            return []
        if message >= turn.start:
            at = self._decide(turn).topic
            spans = [] if at is None else self._subjects[at].spans
            return [
                *((span.start, span.stop) for span in spans),
                (turn.start, max(turn.stop, message)),
            ]
        for subject in self._subjects:
            if any(span.start <= message < span.stop for span in subject.spans):
                return [(span.start, span.stop) for span in subject.spans]
        return []

    def topics(self) -> list[Topic]:
        """Return the topics, in the order in which they came up."""
        if self._turn is None:
            return []
        proposal = self._decide(self._turn)
        spans = [list(subject.spans) for subject in self._subjects]
        words = [subject.vocabulary for subject in self._subjects]
        closed = [subject.is_closed for subject in self._subjects]
        at = proposal.topic
        if at is None:
            at = len(spans)
            spans.append([])
            words.append(self._turn.all)
            closed.append(False)
        elif at == self._current and spans[at]:
            last = spans[at].pop()
            spans[at].append(last._replace(stop=self._turn.stop))
        if not spans[at] or spans[at][-1].stop != self._turn.stop:
            spans[at].append(Span(self._turn.start, self._turn.stop, proposal.why))
        closed[at] = "close" in self._turn.cues
        statuses = [TopicStatus.CLOSED if each else TopicStatus.SUSPENDED for each in closed]
        statuses[at] = TopicStatus.CLOSED if closed[at] else TopicStatus.ACTIVE
        parts = zip(words, spans, statuses, strict=True)
        return [self._topic(number, *each) for number, each in enumerate(parts)]

    def _topic(
        self, number: int, words: Vocabulary, spans: list[Span], status: TopicStatus
    ) -> Topic:
        found = self._rarity.keywords(words.words, _KEYWORDS)
        label = ", ".join(found[:_LABEL]) or f"topic {number + 1}"
        return Topic(number, label, found, tuple(spans), status)

    # Reading

    def _has_spoken(self) -> bool:
        """Tell whether the turn at hand has begun; a system prompt belongs to what follows it."""
        return self._turn is not None and bool(self._turn.all.words or self._turn.cues)

    def _gap(self, message: Message) -> int:
        return message.time - self._time if message.time and self._time else 0

    def _read(self, turn: Turn, text: str, *, is_user: bool) -> None:
        self._rarity.see(text)
        said_here = vocabulary(text) if is_user else reply_vocabulary(text)
        turn.all.take(said_here)
        if is_user:
            turn.asked.take(said_here)
            turn.cues |= cues_in(text)
            turn.things += introduced(text)

    # Deciding

    def _settle(self, turn: Turn) -> None:
        """Decide about a turn for good."""
        proposal = self._decide(turn)
        at = proposal.topic
        if at is None:
            at = len(self._subjects)
            self._subjects.append(Subject())
        subject = self._subjects[at]
        if at == self._current:
            subject.spans[-1] = subject.spans[-1]._replace(stop=turn.stop)
        else:
            subject.spans.append(Span(turn.start, turn.stop, proposal.why))
        subject.take(turn)
        for word in turn.all.words:
            places = self._by_word.setdefault(word, [])
            if at not in places[-_MOST_ALIKE:]:
                places.append(at)
        self._rarity.take(turn.all.words)
        self._current = at

    def _decide(self, turn: Turn) -> Proposal:
        proposal = self._propose(turn)
        if self._judge is None or self._current < 0:
            return proposal
        before, here = self._messages[: turn.start], self._messages[turn.start : turn.stop]
        said = self._judge(before, here, proposal)
        if said is None or said == proposal.topic:
            return proposal
        if said != "new" and not (isinstance(said, int) and 0 <= said < len(self._subjects)):
            raise BadValue(f"{said!r} is no topic", hint='answer with a number, "new" or None')
        return Proposal(said if isinstance(said, int) else None, 1.0, "the judge says so")

    def _propose(self, turn: Turn) -> Proposal:
        if self._current < 0:
            return Proposal(None, 1.0, "the beginning")
        score, why = leaving(turn, self._subjects[self._current], self._rarity)
        here, _ = self._fit(turn, self._current)
        there, best, common = self._best_other(turn)
        how = f"shares {', '.join(map(self._rarity.surface, common[:3]))}" if common else "alike"
        if "back" in turn.cues and best > _BACK and best >= 0.8 * here:
            return Proposal(there, best, f"{turn.cues['back']!r}, {how}")
        if "again" in turn.cues and best > _AGAIN and best > here:
            return Proposal(there, best, f"{turn.cues['again']!r}, {how}")
        pull = max(0.0, best - here - _MARGIN)
        if pull and best >= _RETURN and score + _PULL * pull >= 0:
            return Proposal(there, best, f"back without a word: {how}")
        if score >= 0:
            return Proposal(None, score, why)
        return Proposal(self._current, -score, "goes on")

    def _fit(self, turn: Turn, at: int) -> tuple[float, list[str]]:
        topic = self._subjects[at].vocabulary
        words, common = shared_words(turn.asked, topic, self._rarity)
        enough = min(1.0, len(turn.asked.words) / _ENOUGH)
        return 1.2 * words * enough + 0.4 * shared_fields(turn.all, topic), common

    def _best_other(self, turn: Turn) -> tuple[int, float, list[str]]:
        """Return which earlier topic a turn has most in common with; the latest of equals."""
        best: tuple[int, float, list[str]] = (-1, 0.0, [])
        spoken = (self._by_word.get(word, [])[-_MOST_ALIKE:] for word in turn.asked.words)
        for at in sorted({at for places in spoken for at in places} - {self._current}):
            fit, common = self._fit(turn, at)
            if fit >= best[1]:
                best = at, fit, common
        return best


_FOLDS = Folds(Segmenter)


def topics_of(messages: Sequence[Message], *, judge: Judge | None = None) -> list[Topic]:
    """Return the topics of a conversation, in the order in which they came up.

    Every message belongs to one span of one topic. `judge` may overrule what the rules say of a
    turn; keep a `Segmenter(judge)` of your own to have it asked once about each.
    """
    if judge is not None:
        segmenter = Segmenter(judge)
        for message in messages:
            segmenter.add(message)
        return segmenter.topics()
    with _FOLDS.upto(messages) as fold:
        return fold.topics()
