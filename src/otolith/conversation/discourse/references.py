"""Resolving references: a phrase in, ranked candidates with reasons out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from otolith.conversation.discourse.candidates import Situation, Weighed
from otolith.conversation.discourse.entities import Known, Moment, said
from otolith.conversation.discourse.folds import Folds
from otolith.conversation.discourse.mentions import Entity, Found
from otolith.conversation.discourse.phrases import parsed
from otolith.conversation.discourse.tracker import Tracker, around, clause_start, weighed
from otolith.conversation.message import Message
from otolith.errors import BadValue
from otolith.text.words import content_words, is_german

_LEAST = 0.02
_MOST = 10
_FOLDS = Folds(Tracker)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that a phrase may mean, how likely, and why."""

    entity: Entity
    score: float
    reasons: tuple[str, ...]


ReferenceJudge: TypeAlias = Callable[
    [str, Sequence[Message], Sequence[Candidate]], Sequence[int] | None
]
"""A judge of your own, perhaps a model: phrase, messages and candidates in, their order out.

It answers with the places of the candidates it takes, the best first, or None for no opinion. It
can choose among them and leave some out; it cannot add what was not spoken of.
"""


def resolve(
    messages: Sequence[Message],
    phrase: str,
    *,
    at: int | None = None,
    start: int | None = None,
    variables: Iterable[str] | Mapping[str, str] = (),
    judge: ReferenceJudge | None = None,
) -> list[Candidate]:
    """Return what a phrase may mean, the best first; nothing, if nothing fits.

    `at` is the message in which the phrase is said: it sees what came before, in that message too;
    `start` is where it stands there, if not where it is found first. By default it is said after
    all messages. `variables` are names of variables that may be meant, with the kind of each if it
    is known. Scores are from 0 to 1: two that are close are ambiguous.

    Raises:
        BadValue: there is no message `at`.
    """
    check_phrase(phrase)
    if at is not None and (type(at) is not int or not 0 <= at <= len(messages)):
        raise BadValue(f"at={at!r}: there are {len(messages)} messages", hint="leave it out")
    with _FOLDS.upto(messages, at) as tracker:
        moment, near, clause = _moment(messages, phrase, at, start)
        known = _variables(variables)
        now = tracker.situation(moment, around=near, clause=clause, variables=known)
        found = _ranked(phrase, now, german=tracker.is_german)
    return _judged(phrase, messages, moment[0], found, judge)


def resolve_next(
    tracker: Tracker,
    messages: Sequence[Message],
    phrase: str,
    *,
    variables: Iterable[str] | Mapping[str, str] = (),
    judge: ReferenceJudge | None = None,
) -> list[Candidate]:
    """Return what a phrase may mean that is said next, after all that a tracker has read."""
    check_phrase(phrase)
    now = tracker.situation((len(tracker.clock), 0), variables=_variables(variables))
    found = _ranked(phrase, now, german=tracker.is_german)
    return _judged(phrase, messages, len(tracker.clock), found, judge)


def check_phrase(phrase: object) -> None:
    """Refuse what is no phrase.

    Raises:
        BadValue: it is no text.
    """
    if not isinstance(phrase, str):
        raise BadValue(f"{phrase!r:.60} is no phrase", hint='give words, as in "the second one"')


def _judged(
    phrase: str,
    messages: Sequence[Message],
    stop: int,
    found: list[Candidate],
    judge: ReferenceJudge | None,
) -> list[Candidate]:
    if judge is None or not found:
        return found
    order: Any = judge(phrase, messages[:stop], found)
    if order is None:
        return found
    places: list[Any] = list(order) if isinstance(order, Iterable) else [None]
    if any(type(place) is not int or not 0 <= place < len(found) for place in places):
        why = f"a judge chose {order!r:.60} of {len(found)} candidates"
        raise BadValue(why, hint="answer with a list of places, from 0 on, or None")
    return [found[place] for place in dict.fromkeys(places)]


def entities_of(messages: Sequence[Message], *, at: int | None = None) -> list[Entity]:
    """Return who and what a conversation has spoken of, in the order in which it came up."""
    end = len(messages) if at is None else at
    with _FOLDS.upto(messages, end) as tracker:
        known = [each for each in tracker.register.entities if each.before((end, 0))]
        return [each.entity((end, 0)) for each in known]


def _moment(
    messages: Sequence[Message], phrase: str, at: int | None, start: int | None
) -> tuple[Moment, str, int]:
    if at is None or at >= len(messages):
        return (len(messages), 0), "", 0
    text = said(messages[at])
    words = r"\W+".join(map(re.escape, re.findall(r"\w+", phrase)))
    article = r"(?:\b(?:the|this|that|my|der|die|das|den|dem|zum|zur|im|vom)\s+)?"
    wanted = re.compile(rf"{article}\b{words}\b", re.IGNORECASE)
    found = [each for each in wanted.finditer(text) if start is None or each.end() > start]
    place = found[0] if found and words else None
    if place is None:
        return (at, 0), "", 0
    near = around(text, place.start(), len(place.group()))
    return (at, place.start()), near, clause_start(text, place.start())


def _ranked(phrase: str, now: Situation, *, german: bool) -> list[Candidate]:
    language = is_german(phrase)
    asked = parsed(phrase, german=german if language is None else language)
    if asked is None:
        return []
    found = sorted(weighed(asked, now), key=lambda each: -each.score)
    best: dict[tuple[int, ...], Candidate] = {}
    for each in found:
        ids = tuple(one.id for one in each.known)
        if each.score >= _LEAST and ids not in best:
            best[ids] = Candidate(_entity(each, now.moment), round(each.score, 4), each.reasons)
    return list(best.values())[:_MOST]


def _entity(weighed: Weighed, moment: Moment) -> Entity:
    members = tuple(known.entity(moment) for known in weighed.known)
    if len(members) == 1:
        return members[0]
    mentions = tuple(sorted((m for each in members for m in each.mentions), key=_when))
    label = ", ".join(each.label for each in members)
    types = {each.type for each in members}
    type = types.pop() if len(types) == 1 else "thing"
    return Entity(-1, label, type, "plural", "", mentions, (label,), members=members)


def _when(mention: object) -> tuple[int, int]:
    return mention.message, mention.start  # type: ignore[attr-defined]


def _variables(given: Iterable[str] | Mapping[str, str]) -> list[Known]:
    return [_variable(number, name, given) for number, name in enumerate(given)]


def _variable(number: int, name: str, kinds: Iterable[str] | Mapping[str, str]) -> Known:
    kind = kinds[name] if isinstance(kinds, Mapping) else ""
    words = content_words(name)
    found = Found(name, "variable", 0, tuple(words), form="variable", number="singular")
    heads = {*words[-1:], *content_words(kind), *content_words(kind.lower())}
    return Known(-2 - number, found, {*words, *heads}, heads, found=[found])
