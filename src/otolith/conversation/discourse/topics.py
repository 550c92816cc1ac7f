"""Where a conversation turns to another topic, and when it comes back.

For each turn (something that a user says, with the answers to it):

1. `topics.py` adds up what speaks for and against another topic: words shared with the topic and
   with its last turn, fields of meaning (`cohesion.py`), what is said and done (`topics.py`), time.
2. What leaves goes back to an earlier topic if it says so ("back to the flight") and the topic is
   there, or if it shares much more with that one than with the present one. Else it opens a topic.

The answer to a question is looked at with it, so the last turn is decided again as it grows; those
before it stay as they are. One more message costs a look at its words and at the topics with them.

Phrases by which people open a topic, go back to one, go on with it, or close it.

Topics: what a conversation is about, from which message to which.

Turns and topics while they grow.

How much speaks for it that a turn leaves its topic: each piece of evidence has a weight.

A weight is the logarithm of odds: 0.7 makes leaving twice as likely, -0.7 half as likely. Their
sum is above 0 if leaving is more likely than not. They were fitted to public dialogues and then
rounded; `docs/explanation/topics-and-references.md` says which. Cues like "by the way" and silence
are too rare there: those two weights are guesses, and so is all that is German.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from otolith.conversation.discourse.cohesion import (
    Rarity,
    Vocabulary,
    reply_vocabulary,
    shared_fields,
    shared_words,
    vocabulary,
)
from otolith.conversation.discourse.entities import said
from otolith.conversation.discourse.folds import Folds
from otolith.conversation.message import Message, Role
from otolith.errors import BadValue
from otolith.text.words import content_words

_NEW = (
    r"by the way|btw|another (?:thing|question|topic)|(?:one|two) more (?:thing|question)s?|"
    r"(?:a )?different (?:question|topic|thing)|on another note|on a different note|"
    r"changing (?:the )?(?:topic|subject)|(?:let'?s )?(?:switch|change)(?: the)?(?: topic|"
    r" subject|ing)|new (?:topic|question|subject)|unrelated|"
    r"separately|moving on|next (?:topic|question|up)|before i forget|while i'?m at it|"
    r"totally off[ -]topic|off[ -]topic|quick question|switching gears|speaking of|"
    r"übrigens|(?:eine )?andere frage|(?:etwas|was) ganz anderes|themenwechsel|"
    r"ganz anderes thema|neues thema|nächstes thema|nebenbei|apropos|noch (?:eine|ne) frage|"
    r"bevor ich(?:'s| es) vergesse|außerdem (?:brauche|möchte|wollte|suche)|mal (?:etwas|"
    r"was) anderes|andere sache|kurze (?:zwischen)?frage|zwischenfrage"
)
_BACK_WORDS = (
    r"(?:going |coming |get(?:ting)? |let'?s (?:go|get) |go(?:ing)? |circling |can we (?:go|"
    r"get) |i'?d like to (?:go|come) )?back to|(?:to )?return(?:ing)? to|as (?:for|to) the|"
    r"(?:re)?turning to|(?:about|regarding|concerning) (?:the|that|my|our) [\w -]+ (?:again|"
    r"from (?:before|earlier))|(?:the|that) [\w-]+ (?:from (?:before|earlier)|we (?:talked|"
    r"spoke|discussed)|you (?:mentioned|found|showed|suggested))|where were we|earlier (?:you|"
    r"we|i)|what about (?:the|that) [\w-]+ (?:again|from)|(?:you|we|i) (?:said|"
    r"mentioned) (?:earlier|before)|remember (?:the|that)|(?:noch ?mal |wieder |"
    r"jetzt )?zurück z(?:u|um|ur)|(?:noch ?mal|nochmals|wieder) z(?:u|um|ur)|"
    r"um auf .{3,60} zurückzukommen|was (?:ist|war) (?:nochmal|eigentlich) mit|wegen (?:des|der|"
    r"dem|meine[srm]?) [\w-]+ (?:von vorhin|nochmal)|von vorhin|von eben|(?:wie|was) (?:war|"
    r"waren) (?:nochmal|noch mal|noch)|vorhin"
)
_AGAIN_WORDS = r"\b(?:anyway|anyhow|so anyway|jedenfalls|wie auch immer|nun gut)\b"
_ON = (
    r"^(?:and|but|or|then|so|ok(?:ay)?|yes|yeah|yep|no|nope|sure|great|perfect|good|nice|cool|"
    r"right|exactly|hm+|well|what about|how about|why|which|really|thanks|thank you|please do|"
    r"do it|go ahead|sounds good|got it|und|aber|oder|dann|also|ja|nein|gut|super|prima|genau|"
    r"klar|okay|stimmt|passt|wie wäre|und was|welche[rsnm]?|warum|wirklich|danke|mach das|"
    r"bitte)\b"
)
_CLOSE = (
    r"\b(?:that'?s (?:all|it|everything)|that (?:is|was) all|that'?ll be all|no(?:thing|"
    r" more)(?: else| questions)|all (?:set|done|good)|problem solved|(?:it|that) (?:works|"
    r"worked)(?: now)?|solved|case closed|we'?re done|done with that|"
    r"thanks?(?: you)?(?: so much| a lot| very much)?(?:[,.!] (?:that|bye|perfect|"
    r"great).*)?[.!]*$|perfect,? thanks?|great,? thanks?|goodbye|bye|das (?:war'?s|wars|"
    r"ist alles|wäre alles)|mehr brauche ich nicht|erledigt|problem gelöst|hat geklappt|"
    r"funktioniert jetzt|vielen dank|danke(?: dir| schön| sehr)?[.!]*$|tschüss)"
)
_REFERS = (
    r"\b(?:it|its|they|them|their|he|him|his|she|her|these|those|that one|this one|"
    r"the other one|the (?:first|second|third|last|cheapest|former|latter)(?: one)?|both|"
    r"neither|either of|one of (?:them|those|these)|instead|er|ihn|ihm|sie|ihnen|ihr|"
    r"diese[rnms]?|jene[rnms]?|davon|damit|dafür|darauf|darüber|dazu|dabei|daran|dort|de(?:r|n|"
    r"m)(?:selbe[nrm]?|jenige[nrm]?)|beide[nrm]?|stattdessen|(?:der|die|das|den) (?:erste|"
    r"zweite|dritte|letzte|andere|billigste|günstigste)[nrm]?)\b"
)
_GREETS = r"^(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|guten (?:tag|morgen|abend))\b"
_REQUESTS = (
    r"\bi(?:'d| would| am|'m)?(?: also| really)? (?:need|want|like|looking|trying|planning)\b|"
    r"\b(?:can|could|would|will) you\b|\bhelp me\b|\b(?:is|are) there\b|"
    r"^(?:please )?(?:what|where|when|how|who|tell|give|show|get|find|book|remind|schedule|set|"
    r"check|search|look|make|write|play|add|order)\b|"
    r"\bich (?:suche|brauche|möchte|will|hätte|würde)\b|\b(?:kannst du|könntest du|können sie|"
    r"könnten sie|gibt es|hilf mir)\b|"
    r"^(?:bitte )?(?:was|wo|wann|wie|wer|zeig|such|find|buch|schreib|erinner|plan)[a-zäöü]*\b"
)
_INTRODUCED = re.compile(
    r"\b(?:a|an(?= [aeiouh])|any|some|my|meine?[nrm]?|eine?[nrm]?)\s+"
    r"((?:[^\W\d_-]+[ -]){0,2}[^\W\d_]+)",
    re.IGNORECASE,
)
_MORE = (
    r"\bany(?:thing|where)? (?:else|more|other)|\bsomething else|\bwhat else|\bfurther|"
    r"(?:help|assist) you with|\bwelcome\b|\benjoy\b|\bbye\b|\bhappy to help|"
    r"\b(?:great|nice|good|wonderful|lovely) (?:day|trip|time|stay|one|evening|night)\b|"
    r"\bsonst noch|\bnoch etwas|\bgern geschehen|\bviel (?:spaß|erfolg)|\bschönen tag"
)
_DONE = (
    r"\b(?:done|confirmed|booked|reserved|sent|scheduled|added|created|completed?|saved|ordered|"
    r"success\w*|erledigt|fertig|gebucht|reserviert|gesendet|verschickt|eingetragen|gespeichert|"
    r"bestellt|angelegt)\b"
)

_SETS = {
    "new": re.compile(rf"\b(?:{_NEW})\b", re.IGNORECASE),
    "back": re.compile(rf"\b(?:{_BACK_WORDS})\b", re.IGNORECASE),
    "again": re.compile(_AGAIN_WORDS, re.IGNORECASE),
    "on": re.compile(_ON, re.IGNORECASE),
    "close": re.compile(_CLOSE, re.IGNORECASE),
    "refers": re.compile(_REFERS, re.IGNORECASE),
    "greets": re.compile(_GREETS, re.IGNORECASE),
    "requests": re.compile(_REQUESTS, re.IGNORECASE),
}
_ANYWHERE = ("close", "refers")
_OFFERS = re.compile(_MORE, re.IGNORECASE)
_ENDS = re.compile(_DONE, re.IGNORECASE)
_OPENING, _ENDING = 90, 140
"""A cue for another topic stands at the beginning of what is said; an offer of more, at the end."""


def cues_in(text: str) -> dict[str, str]:
    """Return the cues in what somebody says, each with the words that it was seen by."""
    found = {}
    for name, pattern in _SETS.items():
        where = text if name in _ANYWHERE else text[:_OPENING]
        match = pattern.search(where.strip())
        if match is not None:
            found[name] = match.group().strip()
    return found


def reply_act(text: str) -> str:
    """Return what an answer does last: it "asks" something back, it "ends" a matter, or neither."""
    ending = text.rstrip()[-_ENDING:]
    if _OFFERS.search(ending):
        return "ends"
    if ending.endswith("?"):
        return "asks"
    return "ends" if _ENDS.search(ending) else ""


def introduced(text: str) -> list[list[str]]:
    """Return the words of each thing that is spoken of as new: "a hotel", "my knee"."""
    return [content_words(found[1]) for found in _INTRODUCED.finditer(text[: 2 * _OPENING])]


class TopicStatus(StrEnum):
    """Where a topic stands."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class Span(NamedTuple):
    """Messages in a row: from `start` up to, and not with, `stop`."""

    start: int
    stop: int
    why: str
    """Why a topic begins here."""


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
        """The last message that is about it."""
        return self.spans[-1].stop - 1

    @property
    def returns(self) -> int:
        """How often the conversation came back to it."""
        return len(self.spans) - 1

    def __contains__(self, message: object) -> bool:
        return isinstance(message, int) and any(s.start <= message < s.stop for s in self.spans)


@dataclass(slots=True)
class Turn:
    """Something that a user says, with the answers to it."""

    start: int
    stop: int
    asked: Vocabulary = field(default_factory=Vocabulary)
    all: Vocabulary = field(default_factory=Vocabulary)
    cues: dict[str, str] = field(default_factory=dict)
    things: list[list[str]] = field(default_factory=list)
    """The words of each thing that is spoken of as new: "a hotel"."""
    gap: int = 0
    after: str = ""
    """What the answer before it did last: it asked something back, or it ended a matter."""


@dataclass(slots=True)
class Subject:
    """A topic as it grows."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    last: Vocabulary = field(default_factory=Vocabulary)
    """What its last turn said."""
    spans: list[Span] = field(default_factory=list)
    is_closed: bool = False
    turns: int = 0

    def take(self, turn: Turn) -> None:
        """Add a turn."""
        self.vocabulary.take(turn.all)
        self.last = turn.all
        self.is_closed = "close" in turn.cues
        self.turns += 1

    @property
    def is_young(self) -> bool:
        """Whether there was only one turn about it: people seldom ask one thing only."""
        return self.turns < 2


_MINUTE = 60_000_000
_LONG, _VERY_LONG = 30 * _MINUTE, 240 * _MINUTE
_LONG_GAP, _VERY_LONG_GAP = 1.5, 3.0
_IN_TOPIC, _IN_LAST_TURN, _ALIKE = -3.5, -6.0, -1.25
"""For all words shared with the topic, with its last turn, and for the same fields of meaning."""
_OTHER_FIELD, _NEW_THING = 1.1, 1.5
_ENOUGH_TO_LEAVE, _MISSING_WORD = 4, -0.5
"""A turn of fewer words says less of what it is about."""
_YOUNG = -1.0
_CUES = {"new": 6.0, "requests": 1.2, "greets": 1.0, "refers": -1.0, "close": -1.0}
_GOES_ON = -0.7
_AFTER = {"asks": (-1.6, ""), "ends": (0.8, "the matter before was ended")}

Evidence = Iterator[tuple[float, str]]


def leaving(turn: Turn, subject: Subject, rarity: Rarity) -> tuple[float, str]:
    """Return how much speaks for another topic than the present one, and what does."""
    found = [*_by_words(turn, subject, rarity), *_by_manner(turn), *_by_place(turn, subject)]
    told = sorted((each for each in found if each[0] > 0 and each[1]), key=lambda each: -each[0])
    reasons = [why for _, why in told] or ["shares little with what was said before"]
    return sum(weight for weight, _ in found), ", ".join(reasons)


def _by_words(turn: Turn, subject: Subject, rarity: Rarity) -> Evidence:
    """Weigh what is spoken of."""
    topic = subject.vocabulary
    yield _IN_TOPIC * shared_words(turn.all, topic, rarity)[0], ""
    yield _IN_LAST_TURN * shared_words(turn.all, subject.last, rarity)[0], ""
    alike = shared_fields(turn.all, topic)
    yield _ALIKE * alike, ""
    if turn.asked.fields and topic.fields and not alike:
        yield _OTHER_FIELD, "about other things"
    new = next((each for each in turn.things if each and not topic.words.keys() & each), None)
    if new is not None:
        said = " ".join(map(rarity.surface, new))
        yield _NEW_THING, f"speaks of something new: {said}"
    yield _MISSING_WORD * max(0, _ENOUGH_TO_LEAVE - len(turn.asked.words)), ""


def _by_manner(turn: Turn) -> Evidence:
    """Weigh how it is said."""
    for name, weight in _CUES.items():
        if name in turn.cues:
            yield weight, repr(turn.cues[name])
    if "on" in turn.cues and "requests" not in turn.cues:
        yield _GOES_ON, ""


def _by_place(turn: Turn, subject: Subject) -> Evidence:
    """Weigh what came before it."""
    if subject.is_young:
        yield _YOUNG, ""
    after = "ends" if subject.is_closed else turn.after
    if after:
        yield _AFTER[after]
    if turn.gap >= _LONG:
        weight = _VERY_LONG_GAP if turn.gap >= _VERY_LONG else _LONG_GAP
        yield weight, f"{turn.gap // _MINUTE} minutes later"


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


TopicJudge: TypeAlias = Callable[[Sequence[Message], Sequence[Message], Proposal], int | str | None]
"""A judge of your own, perhaps a model.

What was said before, the turn, and the proposal in; the number of a topic, "new", or None for no
opinion out.
"""


class Segmenter:
    """Follows the topics of a conversation, message by message."""

    def __init__(self, judge: TopicJudge | None = None) -> None:
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


def topics_of(messages: Sequence[Message], *, judge: TopicJudge | None = None) -> list[Topic]:
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
