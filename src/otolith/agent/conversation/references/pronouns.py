"""What a pronoun may mean: something recent that fits in number and gender."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

from otolith.agent.conversation.entities import Known, Mention, stem
from otolith.agent.conversation.entities.kinds import german_gender
from otolith.agent.conversation.entities.lexicon import word_set
from otolith.agent.conversation.references.asked import Asked
from otolith.agent.conversation.references.situation import (
    ASIDE,
    BEFORE,
    FORMS,
    MOST_RECENT,
    NEAR,
    SOURCES,
    THEME,
    VALUES,
    Situation,
    Weighed,
)

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


def pronoun(asked: Asked, now: Situation) -> list[Weighed]:
    """Return what a pronoun may mean."""
    found = [
        weighed
        for known in now.register.recent(now.moment, MOST_RECENT)
        if (weighed := _by_pronoun(asked, known, now)) is not None
    ]
    if asked.number != "singular":
        found += _groups(now)
    return found


def _by_pronoun(asked: Asked, known: Known, now: Situation) -> Weighed | None:
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


def _agreement(asked: Asked, known: Known) -> tuple[float, tuple[str, ...]]:
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


def _english_agreement(asked: Asked, known: Known) -> tuple[float, tuple[str, ...]]:
    if asked.number == "plural":
        is_plural = known.number == "plural"
        return (1.0, ("plural",)) if is_plural else (_as_several(known), ("may be more than one",))
    if known.number == "plural" or known.type == "person":
        return 0.0, ()
    if _may_be_person(known) and " " not in known.first.text:
        return _PERHAPS, ("singular, perhaps a person",)
    return (0.5 if known.type in VALUES else 1.0), ("singular, no person",)


def _german_agreement(asked: Asked, known: Known) -> tuple[float, tuple[str, ...]]:
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
