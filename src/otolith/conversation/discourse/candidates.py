"""What a noun or a name may mean: what is called so, or is of that type, recent or not."""

from __future__ import annotations

import re

from otolith.agent.conversation.entities import Known, stem
from otolith.agent.conversation.references.asked import Asked
from otolith.agent.conversation.references.situation import (
    ASIDE,
    FAR,
    FORMS,
    MOST_RECENT,
    NEAR,
    VALUES,
    Situation,
    Weighed,
)

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


def noun(asked: Asked, now: Situation) -> list[Weighed]:
    """Return what a noun with an article, or a name, may mean."""
    candidates = enumerate(_candidates(asked, now))
    found = [each for rank, known in candidates if (each := _by_noun(asked, known, now, rank))]
    if asked.number != "singular" and asked.kind != "name":
        found += _noun_lists(asked, now)
    if asked.kind != "name" and asked.number != "plural":
        best = max((each.score for each in found), default=0.0)
        found += _unnamed(asked, now, most=_UNNAMED if best < _UNNAMED else 0.5 * best)
    return found


def _unnamed(asked: Asked, now: Situation, most: float) -> list[Weighed]:
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


def _candidates(asked: Asked, now: Situation) -> list[Known]:
    register = now.register
    listed = [*register.recent(now.moment, 3 * MOST_RECENT), *register.headed(asked.head)]
    for word in (asked.head, *asked.words):
        listed += register.named(word)
    for word in _SYNONYMS.get(asked.head, ()):
        listed += register.headed(word)
    return list({known.id: known for known in [*listed, *now.variables]}.values())


def _by_noun(asked: Asked, known: Known, now: Situation, rank: int) -> Weighed | None:
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


def _called(asked: Asked, known: Known, now: Situation) -> tuple[float, str]:
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


def _by_type(asked: Asked, known: Known) -> tuple[float, str]:
    types = _TYPE_NOUNS.get(asked.head, ())
    if known.type not in types or (types == ("thing",) and known.first.form != "value"):
        return 0.0, ""
    gender = _GENDERS.get(asked.head, "")
    if gender and known.gender and gender != known.gender:
        return 0.0, ""
    is_shown = known.first.form in ("name", "value", "variable")
    return (0.75 if is_shown else 0.5), f"it is a {known.type}"


def _details(asked: Asked, known: Known) -> float:
    """Return how many of the other words fit."""
    if not asked.words or asked.kind == "name":
        return 1.0
    line = set(known.words)
    for found in known.found:
        line |= {stem(word) for word in re.findall(r"\w+", found.line)}
    hits = sum(word in line for word in asked.words)
    return 0.4 + 0.7 * hits / len(asked.words)


def _noun_lists(asked: Asked, now: Situation) -> list[Weighed]:
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
