"""Following a conversation: what each message speaks of, by name or by reference.

One more message is read once. What it refers to is worked out from what came before, so that "it"
after "the second one" finds what was picked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from otolith.conversation.discourse.candidates import Situation, Weighed, noun, pronoun
from otolith.conversation.discourse.entities import Known, Read, Register, read, texts_of
from otolith.conversation.discourse.list_choice import picked
from otolith.conversation.discourse.mentions import Found, Mention
from otolith.conversation.discourse.phrases import PhraseQuery, parsed
from otolith.conversation.discourse.topics import Segmenter
from otolith.conversation.message import Message, Role

_SURE, _AHEAD = 0.45, 1.15
"""A reference is followed if its best answer has such a score, so much better than the next."""

_PICKS = re.compile(
    r"\b(?:the|that|der|die|das|den|dem)\s+"
    r"(?:(?:first|second|third|fourth|fifth|sixth|last|former|latter|other|next|cheapest|fastest|"
    r"earliest|latest|shortest|longest|newest|oldest|best|closest|nearest|biggest|largest|smallest|"
    r"most expensive|most recent|highest[ -]rated|\d+(?:st|nd|rd|th))"
    r"(?:\s+(?:one|option|two|three|[a-z]+))?|[\w:.-]+ one\b|one (?:with|from|in|at|by) [\w :.-]+|"
    r"(?:erst|zweit|dritt|viert|fünft|letzt|ander|billigst|günstigst|teuerst|schnellst|frühest|"
    r"spätest|kürzest|best|größt|kleinst)e[nrsm]?)"
    r"|\b(?:option|number|nummer|nr\.?|variante)\s+(?:\d{1,2}|[a-h])\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:he|him|his|she|her|it|its|them|they|their|er|ihn|ihm|sie|that one|this one)\b|"
    r"(?<![^.!?\n] )\b(?:der|die|das|den)\b"
    r"(?= (?:nehm|will|möcht|hätt|buch|kauf|find|mag|klingt|ist|wär))",
    re.IGNORECASE,
)


class Reference(NamedTuple):
    """A phrase of a message that refers to something."""

    start: int
    text: str
    asked: PhraseQuery


class Tracker:
    """Who and what a conversation has spoken of, message by message."""

    def __init__(self) -> None:
        self.register = Register()
        self.segmenter = Segmenter()
        self._noun = ""
        self.clock: list[int] = []
        self.count = 0
        self._is_german = False
        self._tools: dict[str, str] = {}

    def add(self, message: Message) -> None:
        """Read one more message."""
        at = len(self.clock)
        self.clock.append(self.count)
        self.count += message.role in (Role.USER, Role.ASSISTANT)
        self.segmenter.add(message)
        self._tools |= {call.id: call.name for call in message.calls}
        if message.role is Role.SYSTEM:
            return
        base = 0
        for text, source, call_id in texts_of(message):
            tool = self._tools.get(call_id, "") if source == "tool" else None
            seen = read(text, german=self._is_german, tool=tool)
            if source != "tool" and text.strip():
                self._is_german = seen.is_german
            if message.role is Role.USER:
                self._noun = _plural_noun(seen) or self._noun
            self._take(seen, text if source != "tool" else "", at, source, base)
            base += len(text) + 1

    def _take(self, seen: Read, text: str, at: int, source: str, base: int) -> None:
        """Take in what a text speaks of, in its order."""
        placed: dict[int, Known] = {}
        events: list[tuple[int, int, object]] = [
            *((found.start, 1, number) for number, found in enumerate(seen.found)),
            *((each.start, 0, each) for each in _references(text, seen)),
        ]
        for _, _, event in sorted(events, key=lambda each: each[:2]):
            if isinstance(event, Reference):
                self._follow(event, at, source, base, text)
            elif isinstance(event, int):
                placed[event] = self._mention(seen.found[event], at, source, base)
        for row in seen.rows:
            founds = [seen.found[number] for number in row]
            moment = at, base + founds[0].start
            self.register.row([placed[number] for number in row], founds, moment, source)
        for shown in seen.lists:
            named = shown if shown.noun else replace(shown, noun=self._noun)
            self.register.show(named, at, source, base=base)

    def _mention(self, found: Found, at: int, source: str, base: int) -> Known:
        if found.form == "noun" and found.is_definite:
            asked = PhraseQuery("definite", found.number, head=found.head, words=found.words[:-1])
            best = self._best(noun(asked, self.situation((at, base + found.start))))
            if best is not None:
                known = best.known[0]
                form = "reference" if known.lists else "noun"
                mention = Mention(
                    at, base + found.start, found.text, source, form, found.is_first, found.is_aside
                )
                self.register.touch(known, mention)
                return known
        return self.register.place(found, at, source, base=base)

    def _follow(self, reference: Reference, at: int, source: str, base: int, text: str) -> None:
        near = around(text, reference.start, len(reference.text))
        clause = base + clause_start(text, reference.start)
        now = self.situation((at, base + reference.start), around=near, clause=clause)
        best = self._best(weighed(reference.asked, now))
        if best is not None:
            mention = Mention(at, base + reference.start, reference.text, source, "reference")
            self.register.touch(best.known[0], mention)

    def _best(self, found: list[Weighed]) -> Weighed | None:
        """Return the best answer, if it is one thing and clearly the best."""
        ranked = sorted(found, key=lambda each: -each.score)
        if not ranked or ranked[0].score < _SURE or len(ranked[0].known) != 1:
            return None
        is_clear = len(ranked) == 1 or ranked[0].score >= _AHEAD * ranked[1].score
        return ranked[0] if is_clear else None

    def situation(
        self,
        moment: tuple[int, int],
        *,
        around: str = "",
        clause: int = 0,
        variables: Sequence[Known] = (),
    ) -> Situation:
        """Return a moment of the conversation, to ask at."""
        clock = self.clock if moment[0] < len(self.clock) else [*self.clock, self.count]
        topic = self.segmenter.spans_at(moment[0])
        return Situation(self.register, moment, clock, around, clause, topic, list(variables))

    @property
    def is_german(self) -> bool:
        """Whether the last thing said was German."""
        return self._is_german


def around(text: str, start: int, length: int) -> str:
    """Return the words before and after a phrase."""
    before = re.split(r"[.!?;\n]", text[:start])[-1].split()[-3:]
    after = re.split(r"[.!?;\n]", text[start + length :])[0].split()[:3]
    return " ".join((*before, *after))


def clause_start(text: str, start: int) -> int:
    """Return where the clause begins in which something stands."""
    breaks = list(_CLAUSE.finditer(text[:start]))
    return breaks[-1].end() if breaks else 0


_CLAUSE = re.compile(
    "[.,;:!?\\n\u2013\u2014]"
    r"|\b(?:and|but|or|so|because|when|if|while|that|und|aber|oder|weil|wenn|dass|denn)\b",
    re.IGNORECASE,
)


def _plural_noun(seen: Read) -> str:
    """Return the first noun in the plural, else the last: a list shown next is likely of these."""
    nouns = [found for found in seen.found if found.head and found.form in ("noun", "bare")]
    plural = (found.head for found in nouns if found.number == "plural")
    return next(plural, nouns[-1].head if nouns else "")


def weighed(asked: PhraseQuery, now: Situation) -> list[Weighed]:
    """Return what a phrase may mean, in no order."""
    if asked.kind == "pronoun":
        return pronoun(asked, now)
    if asked.kind in ("definite", "demonstrative", "name"):
        return noun(asked, now)
    return picked(asked, now)


def _references(text: str, seen: Read) -> list[Reference]:
    found: list[Reference] = []
    for match in [*_PICKS.finditer(text), *_PRONOUN.finditer(text)]:
        is_inside = any(each.start <= match.start() < each.start + len(each.text) for each in found)
        asked = None if is_inside else parsed(match.group(), german=seen.is_german)
        if asked is not None and asked.kind not in ("definite", "demonstrative", "name"):
            found.append(Reference(match.start(), match.group(), asked))
    return found
