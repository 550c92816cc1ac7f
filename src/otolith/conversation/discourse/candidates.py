"""What a noun or a name may mean: what is called so, or is of that type, recent or not.

When a phrase is said, what had been spoken of by then, and how far away that is.

What a pronoun may mean: something recent that fits in number and gender.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from otolith.conversation.discourse.entities import Known, Moment, Register
from otolith.conversation.discourse.mentions import Mention
from otolith.conversation.discourse.noun_kinds import german_gender
from otolith.conversation.discourse.phrases import PhraseQuery
from otolith.text.lexicon import word_set
from otolith.text.words import stem

NEAR = 0.84
"""What is left of a chance with each message in between, for a pronoun."""
FAR = 0.95
"""The same for a noun, which finds what is further away."""
MOST_RECENT = 40
BEFORE, _SAME_CLAUSE, THEME, ASIDE = 0.85, 0.5, 1.2, 0.75
"""What was said in another message counts less; "an aisle seat on it" does not speak of the seat;
what a topic began with counts more; what was only spoken of in passing counts less."""
_ELSEWHERE = 3
"""How much further away something is that belongs to another topic."""
FORMS = {
    "reference": 1.0,
    "name": 1.0,
    "noun": 0.85,
    "bare": 0.6,
    "item": 0.45,
    "value": 0.2,
    "variable": 0.3,
}
SOURCES = {"user": 1.0, "assistant": 0.9, "tool": 0.7, "system": 0.5, "variable": 0.3}
VALUES = ("price", "number", "date", "time")


@dataclass(frozen=True, slots=True)
class Weighed:
    """Something that a phrase may mean: one thing, or several together."""

    known: tuple[Known, ...]
    score: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Situation:
    """When a phrase was said, and what had been spoken of by then."""

    register: Register
    moment: Moment
    clock: Sequence[int]
    """For each message, how many were said before it; results of tools are not counted."""
    around: str = ""
    """What stands before and after the phrase."""
    clause: int = 0
    """Where the clause begins in which the phrase stands."""
    topic: Sequence[tuple[int, int]] = ()
    """The messages that are about what is spoken of: from, and up to but not with."""
    variables: list[Known] = field(default_factory=list)

    def distance(self, message: int) -> int:
        """Return how many messages ago a message was."""
        last = len(self.clock) - 1
        if not 0 <= message <= last:
            return 0
        here = min(self.moment[0], last)
        if not any(start <= message < stop for start, stop in self.topic):
            further = _ELSEWHERE if self.topic else 0
            return max(0, self.clock[here] - self.clock[message]) + further
        return sum(
            self.clock[min(stop, here)] - self.clock[max(start, message)]
            for start, stop in self.topic
            if stop > message and start <= here
        )

    def nearness(self, mention: Mention) -> float:
        """Return less for what is in another message, and for what stands in the same clause."""
        if mention.message != self.moment[0]:
            return BEFORE
        return _SAME_CLAUSE if mention.start >= self.clause and self.around else 1.0

    def is_theme(self, mention: Mention) -> bool:
        """Tell whether a mention comes first in the message that opened the topic."""
        opened = self.topic[0][0] if self.topic else -1
        return mention.is_first and mention.message == opened != self.moment[0]

    def latest(self, known: Known) -> tuple[int, int]:
        """Return how far the last mention is, and how many there are."""
        mentions = known.before(self.moment)
        return (self.distance(mentions[-1].message) if mentions else 0), len(mentions)


_SYNONYMS = {
    stem(word): frozenset(map(stem, group.split()))
    for group in (
        "car vehicle auto wagen",
        "flat apartment wohnung",
        "film movie",
        "shop store laden geschäft",
        "trip journey reise tour",
        "meeting appointment termin besprechung treffen sitzung call",
        "bug error issue problem fehler",
        "laptop computer notebook rechner",
        "phone handy telefon smartphone",
        "bike bicycle rad fahrrad",
        "job position stelle",
        "picture image photo bild foto",
        "doctor physician arzt ärztin",
        "document doc file datei dokument report bericht",
        "mail email e-mail message nachricht",
        "town city stadt",
        "price cost preis kosten",
        "dish meal recipe gericht essen rezept",
        "present gift geschenk",
        "firm company firma firmen unternehmen",
        "boss manager chef chefin",
    )
    for word in group.split()
}


def noun(asked: PhraseQuery, now: Situation) -> list[Weighed]:
    """Return what a noun with an article, or a name, may mean."""
    candidates = enumerate(_candidates(asked, now))
    found = [each for rank, known in candidates if (each := _by_noun(asked, known, now, rank))]
    if asked.number != "singular" and asked.kind != "name":
        found += _noun_lists(asked, now)
    if asked.kind != "name" and asked.number != "plural":
        best = max((each.score for each in found), default=0.0)
        found += _unnamed(asked, now, most=_UNNAMED if best < _UNNAMED else 0.5 * best)
    return found


def _unnamed(asked: PhraseQuery, now: Situation, most: float) -> list[Weighed]:
    """Return what nobody has called by this noun, but was named or picked lately: "the museum"."""
    if asked.head in _TYPE_NOUNS:
        return []
    found = []
    for known in now.register.recent(now.moment, MOST_RECENT):
        forms = {each.form for each in known.before(now.moment)}
        if not forms & {"name", "reference"} or known.first.form == "noun" or known.type in VALUES:
            continue
        if ("person" in asked.types) != (known.type == "person"):
            continue
        distance, _ = now.latest(known)
        reason = f"{known.first.text!r} was spoken of {distance} messages ago"
        aside = ASIDE if all(each.is_aside for each in known.before(now.moment)) else 1.0
        found.append(Weighed((known,), most * aside * NEAR**distance, (reason,)))
    return found


def _candidates(asked: PhraseQuery, now: Situation) -> list[Known]:
    register = now.register
    listed = [*register.recent(now.moment, 3 * MOST_RECENT), *register.headed(asked.head)]
    for word in (asked.head, *asked.words):
        listed += register.named(word)
    for word in _SYNONYMS.get(asked.head, ()):
        listed += register.headed(word)
    return list({known.id: known for known in [*listed, *now.variables]}.values())


def _by_noun(asked: PhraseQuery, known: Known, now: Situation, rank: int) -> Weighed | None:
    mentions = known.before(now.moment)
    if not mentions and known not in now.variables:
        return None
    match, why = _called(asked, known, now)
    if match == 0:
        return None
    if asked.number and known.number and asked.number != known.number and asked.kind != "name":
        match *= 0.4
        why += ", in another number"
    detail = _details(asked, known)
    distance, count = now.latest(known)
    decay = NEAR if asked.kind == "demonstrative" and match < 0.9 else FAR
    often = 1.0 if asked.kind == "demonstrative" else 1 + 0.02 * min(count, 5)
    later = 1 - 0.03 * min(rank, 10) if asked.kind == "demonstrative" else 1.0
    score = match * detail * decay**distance * often * later / 1.1
    return Weighed((known,), min(score, 1.0), (why, f"{distance} messages ago"))


def _called(asked: PhraseQuery, known: Known, now: Situation) -> tuple[float, str]:
    """Return how well a noun says what something is."""
    head = asked.head
    if asked.kind == "name":
        shared = set(asked.words) & known.words
        fit = len(shared) / len(set(asked.words)) if asked.words else 0.0
        if len(asked.words) == 1 and _is_picked(known, head, now):
            return 0.97, "it was picked from a list of them"
        form = max((FORMS[each.form] for each in known.before(now.moment)), default=0.5)
        fit = fit * (0.8 + 0.2 * form) if fit > 0.5 else 0.0
        return fit, f"its name has {', '.join(sorted(shared))}"
    if head in known.heads:
        return 1.0, f"it is called {known.first.text!r}"
    if known.type == "file" and "file" in asked.types:
        return 0.9, "it is a file"
    if head in known.words:
        return 0.9, f"the word is in its name, {known.first.text!r}"
    if _SYNONYMS.get(head, frozenset()) & (known.heads | known.words):
        return 0.85, "it is called by another word"
    if len(head) > 3 and any(each.endswith(head) for each in known.heads):
        return 0.85, f"{known.first.text!r} ends like that"
    if _is_listed(known, head, now):
        is_picked = _is_picked(known, head, now)
        return (
            0.97 if is_picked else 0.6
        ), f"{'picked' if is_picked else 'shown'} in a list of them"
    return _by_type(asked, known)


def _is_listed(known: Known, head: str, now: Situation) -> bool:
    shown = (each for each in known.lists if each.moment < now.moment)
    return any(each.noun and _same_noun(each.noun, head) for each in shown)


def _is_picked(known: Known, head: str, now: Situation) -> bool:
    mentions = known.before(now.moment)
    return any(each.form == "reference" for each in mentions) and _is_listed(known, head, now)


def _same_noun(one: str, other: str) -> bool:
    others = {other, *_SYNONYMS.get(other, ())}
    return one in others or any(len(each) > 3 and one.endswith(each) for each in others)


_UNNAMED = 0.4
_TYPE_NOUNS = {
    stem(word): types
    for words, types in (
        ("price cost fare amount fee preis kosten betrag", ("price",)),
        ("date day deadline datum tag termin", ("date",)),
        ("time hour uhrzeit zeit", ("time",)),
        ("place location ort spot", ("place",)),
        ("city town stadt country land", ("place",)),
        ("person guy man woman lady mann frau leute people", ("person",)),
        ("number figure value zahl nummer wert", ("number", "price")),
        ("variable dataframe frame variabl", ("variable",)),
        ("link url website seite address adresse", ("thing",)),
    )
    for word in words.split()
}


_GENDERS = {"man": "m", "guy": "m", "mann": "m", "woman": "f", "ladi": "f", "frau": "f"}


def _by_type(asked: PhraseQuery, known: Known) -> tuple[float, str]:
    types = _TYPE_NOUNS.get(asked.head, ())
    if known.type not in types or (types == ("thing",) and known.first.form != "value"):
        return 0.0, ""
    gender = _GENDERS.get(asked.head, "")
    if gender and known.gender and gender != known.gender:
        return 0.0, ""
    is_shown = known.first.form in ("name", "value", "variable")
    return (0.75 if is_shown else 0.5), f"it is a {known.type}"


def _details(asked: PhraseQuery, known: Known) -> float:
    """Return how many of the other words fit."""
    if not asked.words or asked.kind == "name":
        return 1.0
    line = set(known.words)
    for found in known.found:
        line |= {stem(word) for word in re.findall(r"\w+", found.line)}
    hits = sum(word in line for word in asked.words)
    return 0.4 + 0.7 * hits / len(asked.words)


def _noun_lists(asked: PhraseQuery, now: Situation) -> list[Weighed]:
    found = []
    for at, shown in enumerate(now.register.lists_before(now.moment)):
        heads = [asked.head in member.heads for member in shown.members]
        types = [member.type in asked.types and member.type != "thing" for member in shown.members]
        is_called = bool(shown.noun) and _same_noun(shown.noun, asked.head)
        if len(shown.members) < 2 or not (is_called or all(heads) or all(types)):
            continue
        distance = now.distance(shown.moment[0])
        reason = f"a list of {len(shown.members)} of them"
        found.append(Weighed(shown.members, 0.98 * FAR**distance * 0.97**at, (reason,)))
    return found


_VERBS = {
    stem(word): type
    for type, words in {
        "file": "open read delete edit rename run save upload download attach print "
        "öffne lies lösche drucke speichere",
        "person": "ask tell email invite remind meet thank frag frage erinnere",
        "place": "visit stay eat reserve besuche übernachten",
        "thing": "cost costs price buy order weigh install kostet kaufe bestelle wiegt",
    }.items()
    for word in words.split()
}


def pronoun(asked: PhraseQuery, now: Situation) -> list[Weighed]:
    """Return what a pronoun may mean."""
    found = [
        weighed
        for known in now.register.recent(now.moment, MOST_RECENT)
        if (weighed := _by_pronoun(asked, known, now)) is not None
    ]
    if asked.number != "singular":
        found += _groups(now)
    return found


def _by_pronoun(asked: PhraseQuery, known: Known, now: Situation) -> Weighed | None:
    fit, reasons = _agreement(asked, known)
    if fit == 0:
        return None
    mentions = known.before(now.moment)
    if not mentions:
        return None
    distance = now.distance(mentions[-1].message)
    here = _latest(mentions)
    form = max(
        FORMS[each.form] + (0.12 if each.form == "bare" and each.source == "user" else 0.0)
        for each in here
    )
    if all(each.form == "item" for each in here) and _is_alone(known, now):
        form = 0.9
    first = 1.0 if any(each.is_first for each in here) else 0.88
    score = fit * form * first * SOURCES[here[-1].source] * NEAR**distance
    score *= 1 + 0.07 * min(len(mentions) - 1, 4)
    score *= _wanted_by_verb(known, now) * now.nearness(here[-1])
    score *= ASIDE if all(each.is_aside for each in here) and asked.types != _PERSON else 1.0
    score *= THEME if now.is_theme(mentions[0]) else 1.0
    how = f"{'said' if form < 1 else 'named'} {distance} messages ago as {here[-1].text!r}"
    return Weighed((known,), min(score, 1.0), (*reasons, how))


def _latest(mentions: list[Mention]) -> list[Mention]:
    """Return the mentions in the last message that has any."""
    last = mentions[-1].message
    same = list(takewhile(lambda each: each.message == last, reversed(mentions)))
    return same[::-1]


def _is_alone(known: Known, now: Situation) -> bool:
    """Tell whether something was the only item of the list in which it was shown."""
    return any(len(each.members) == 1 for each in known.lists if each.moment < now.moment)


def _agreement(asked: PhraseQuery, known: Known) -> tuple[float, tuple[str, ...]]:
    """Return how well number, gender and type agree."""
    number, gender = known.number, known.gender
    if asked.types:
        if asked.types == _PERSON and _may_be_person(known):
            return 0.45, ("a name, perhaps of a person",)
        if not _is_type(asked.types, known) or number == "plural":
            return 0.0, ()
        if "person" in asked.types and asked.genders:
            if gender and gender not in asked.genders:
                return 0.0, ()
            return (1.0 if gender else 0.6), ("a person",)
        return 1.0, (f"a {asked.types[0]}",)
    if asked.is_german:
        return _german_agreement(asked, known)
    return _english_agreement(asked, known)


def _english_agreement(asked: PhraseQuery, known: Known) -> tuple[float, tuple[str, ...]]:
    if asked.number == "plural":
        is_plural = known.number == "plural"
        return (1.0, ("plural",)) if is_plural else (_as_several(known), ("may be more than one",))
    if known.number == "plural" or known.type == "person":
        return 0.0, ()
    if _may_be_person(known) and " " not in known.first.text:
        return _PERHAPS, ("singular, perhaps a person",)
    return (0.5 if known.type in VALUES else 1.0), ("singular, no person",)


def _german_agreement(asked: PhraseQuery, known: Known) -> tuple[float, tuple[str, ...]]:
    wants_plural = asked.number == "plural" or "plural" in asked.genders
    if known.number == "plural":
        return (1.0, ("plural",)) if wants_plural else (0.0, ())
    singular = [gender for gender in asked.genders if gender in ("m", "f", "n")]
    if not singular and asked.number == "plural":
        return (0.3 if known.type == "person" else 0.0), ("may be more than one",)
    if known.type in VALUES:
        return 0.4, ("a value",)
    gender = known.gender or _listed_gender(known)
    if not gender:
        return 0.6 if known.type != "person" else 0.5, ("its gender is not known",)
    if gender in singular:
        return 1.0, (f"gender {gender}",)
    if not known.gender and known.type != "person":
        return 0.5, ("listed under a word of another gender",)
    if "any" in asked.genders and known.type != "person":
        return 0.7, ("das may mean anything",)
    return 0.0, ()


_PERSON = ("person",)
_COLLECTIVE = frozenset(
    map(
        stem,
        word_set("""
        group team band family company crew staff board committee couple audience police class club
        agency department
        """),
    )
)
_PERHAPS = 0.8
"""How well "it" fits a name of which nobody knows whether it is one of a person."""


def _may_be_person(known: Known) -> bool:
    """Tell whether a name of something that is not known may be that of a person."""
    name = known.first.text
    is_name = known.first.form == "name" or (known.first.form == "item" and len(name.split()) == 2)
    is_plain = name.istitle() and name.replace(" ", "").isalpha()
    return is_name and is_plain and known.type in ("thing", "item")


def _as_several(known: Known) -> float:
    """Return how well "they" fits one thing: a team, somebody, or a firm or band by its name."""
    if known.heads & _COLLECTIVE:
        return 0.8
    if known.type == "person":
        return 0.45
    if known.first.form != "name" or known.type != "thing":
        return 0.0
    return 0.6 if known.first.text.endswith("s") else 0.25


def _listed_gender(known: Known) -> str:
    """Return the gender of what a list is a list of."""
    nouns = (german_gender(each.noun) for each in reversed(known.lists) if each.noun)
    return next((gender for gender in nouns if gender), "")


def _is_type(types: Iterable[str], known: Known) -> bool:
    if known.type in types:
        return True
    return "place" in types and known.type == "item" and known.first.type == "place"


def _groups(now: Situation) -> list[Weighed]:
    """Return the lists that "them" may mean."""
    found = []
    for at, shown in enumerate(now.register.lists_before(now.moment)):
        if len(shown.members) < 2:
            continue
        distance = now.distance(shown.moment[0])
        is_named = all(item.form in ("name", "item") for item in shown.items)
        weight = (0.9 if is_named else 0.5) * SOURCES[shown.source] ** 0.5
        if any(member.type in VALUES for member in shown.members):
            weight *= 0.4
        reason = f"{len(shown.members)} named together {distance} messages ago"
        weight *= 1.0 if shown.moment[0] == now.moment[0] else BEFORE
        found.append(Weighed(shown.members, weight * NEAR**distance * 0.97**at, (reason,)))
    return found


def _wanted_by_verb(known: Known, now: Situation) -> float:
    """Return more for a file before which "open" stands, and the like."""
    words = re.findall(r"\w+", now.around.lower())
    wanted = {_VERBS[stem(word)] for word in words if stem(word) in _VERBS}
    types = {known.type, "thing" if known.type == "item" else known.type}
    return 1.25 if types & wanted else 1.0
