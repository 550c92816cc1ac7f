"""Candidates: what a phrase may mean, each with a score and reasons.

Rules:

1. A *pronoun* means something recent that agrees with it. What was named or picked counts more than
   a noun, a noun more than an item of a list that was only shown; the user's words more than the
   assistant's; what a sentence begins with more than what it mentions in passing.
2. A *noun* means what is called so: by that noun, by a word of its name, by a synonym, or by the
   noun of the list it was picked from. If nothing is, it may mean what was named lately, with a low
   score. Distance matters less than for a pronoun.
3. A *place or comparison* picks from the latest list; older lists, rows in a sentence, and things
   that only look like a list count less.
4. Distance is counted in messages of the current topic; other topics are further away.

Every score is a product of factors from 0 to a little over 1, so that a candidate that fails one
rule badly cannot win by the others. The factors were chosen with the dialogues of
`tests/unit/conversation/development.py`, and adjusted with public ones, see
`docs/explanation/topics-and-references.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from otolith.conversation.discourse.entities import (
    Mention,
    MentionedList,
    Moment,
    Register,
    TrackedEntity,
)
from otolith.conversation.discourse.nouns import german_gender
from otolith.conversation.discourse.phrases import ReferenceQuery
from otolith.conversation.discourse.word_lists import keys_by_stem, stem_list, synonyms
from otolith.text.words import content_words, stem

_NEAR, _FAR, _LIST = 0.84, 0.95, 0.96
"""What is left of a score with each message in between: of a pronoun, a noun, a list."""
_ELSEWHERE = 3
"""How many messages further away something is that belongs to another topic."""
_OTHER_MESSAGE, _SAME_CLAUSE, _THEME, _ASIDE = 0.85, 0.5, 1.2, 0.75
"""A mention in another message counts less, so does one in the clause of the phrase ("an aisle seat
on it") and one in passing; what a topic began with counts more."""
_FORMS = {
    "reference": 1.0, "name": 1.0, "noun": 0.85, "bare": 0.65, "item": 0.45, "variable": 0.3,
    "value": 0.2,
}  # fmt: skip
_SOURCES = {"user": 1.0, "assistant": 0.9, "tool": 0.7, "system": 0.5, "variable": 0.3}
_VALUES = ("price", "number", "date", "time")
_ROW, _OLDER_LIST, _OTHER_NOUN = 0.7, 0.75, 0.45
_MAX_RECENT = 40
_UNNAMED = 0.4
_GENDER_NOUNS = {"man": "m", "guy": "m", "mann": "m", "woman": "f", "ladi": "f", "frau": "f"}


@dataclass(frozen=True, slots=True)
class ScoredEntities:
    """What a phrase may mean: one entity, or several together."""

    entities: tuple[TrackedEntity, ...]
    score: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Situation:
    """The moment at which a phrase is said, and what was mentioned by then."""

    register: Register
    moment: Moment
    clock: Sequence[int]
    """For each message, how many were said before it; results of tools are not counted."""
    around: str = ""
    """The words before and after the phrase."""
    clause: int = 0
    """Where the clause of the phrase begins."""
    topic: Sequence[tuple[int, int]] = ()
    """The messages of the current topic: first, and last + 1, of each span."""
    variables: list[TrackedEntity] = field(default_factory=list)

    def distance(self, message: int) -> int:
        """Return how many messages ago a message was, those of other topics left out."""
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


def candidates_for(asked: ReferenceQuery, now: Situation) -> list[ScoredEntities]:
    """Return what a phrase may mean, the best first."""
    if asked.kind == "pronoun":
        found = _by_pronoun(asked, now)
    elif asked.kind in ("definite", "demonstrative", "name"):
        found = _by_noun(asked, now)
    else:
        found = list(_from_lists(asked, now))
    return sorted(found, key=lambda each: -each.score)


# Pronouns: something recent that agrees in number, gender and type


def _by_pronoun(asked: ReferenceQuery, now: Situation) -> list[ScoredEntities]:
    found = []
    for entity in now.register.recent(now.moment, _MAX_RECENT):
        fit, why = _agreement(asked, entity)
        mentions = entity.before(now.moment)
        if fit and mentions:
            last = [each for each in mentions[-8:] if each.message == mentions[-1].message]
            distance = now.distance(last[-1].message)
            score = fit * _salience(entity, last, now) * _NEAR**distance
            if all(each.is_aside for each in last) and asked.types != ("person",):
                score *= _ASIDE
            if now.topic and mentions[0].message == now.topic[0][0] != now.moment[0]:
                score *= _THEME if mentions[0].is_first else 1.0
            how = f"mentioned {distance} messages ago as {last[-1].text!r}"
            found.append(ScoredEntities((entity,), min(score, 1.0), (why, how)))
    return found + (_groups(now) if asked.number != "singular" else [])


def _salience(entity: TrackedEntity, last: Sequence[Mention], now: Situation) -> float:
    """Return how much the last message that mentions an entity is about it."""
    score = max(_FORMS[each.form] for each in last) * _SOURCES[last[-1].source]
    score *= 1.0 if any(each.is_first for each in last) else 0.88
    verbs = (keys_by_stem("verb_objects").get(stem(x), ()) for x in re.findall(r"\w+", now.around))
    wanted = {type for types in verbs for type in types}
    score *= 1.25 if {entity.type, "thing" if entity.type == "item" else ""} & wanted else 1.0
    if last[-1].message != now.moment[0]:
        return score * _OTHER_MESSAGE
    return score * (_SAME_CLAUSE if last[-1].start >= now.clause and now.around else 1.0)


def _agreement(asked: ReferenceQuery, entity: TrackedEntity) -> tuple[float, str]:
    """Return how well an entity fits a pronoun, and why; 0 if it does not."""
    if asked.types == ("person",) and _may_be_person(entity):
        return 0.45, "a name, perhaps of a person"
    if asked.types:
        is_place = "place" in asked.types and entity.first.type == "place"
        if (entity.type not in asked.types and not is_place) or entity.number == "plural":
            return 0.0, ""
        if asked.genders and entity.gender not in (*asked.genders, ""):
            return 0.0, ""
        return (0.6 if asked.genders and not entity.gender else 1.0), f"a {asked.types[0]}"
    if asked.is_german:
        return _german_agreement(asked, entity)
    if asked.number == "plural":
        return (1.0, "plural") if entity.number == "plural" else _as_several(entity)
    if entity.number == "plural" or entity.type == "person":
        return 0.0, ""
    if _may_be_person(entity) and " " not in entity.first.text:
        return 0.8, "singular, perhaps a person"
    return (0.5 if entity.type in _VALUES else 1.0), "singular, no person"


def _german_agreement(asked: ReferenceQuery, entity: TrackedEntity) -> tuple[float, str]:
    if entity.number == "plural":
        return float(asked.number == "plural" or "plural" in asked.genders), "plural"
    if asked.number == "plural":
        return (0.3 if entity.type == "person" else 0.0), "may be more than one"
    if entity.type in _VALUES:
        return 0.4, "a value"
    nouns = (german_gender(each.noun) for each in reversed(entity.lists) if each.noun)
    gender = entity.gender or next(filter(None, nouns), "")
    if not gender:
        return 0.55, "its gender is not known"
    if gender in asked.genders:
        return 1.0, f"gender {gender}"
    if entity.type == "person" or (entity.gender and "any" not in asked.genders):
        return 0.0, ""
    return 0.6, "of another gender, but that may not matter"


def _may_be_person(entity: TrackedEntity) -> bool:
    """Tell whether a name of unknown type may be that of a person."""
    name, form = entity.first.text, entity.first.form
    is_name = form == "name" or (form == "item" and len(name.split()) == 2)
    is_plain = name.istitle() and name.replace(" ", "").isalpha()
    return is_name and is_plain and entity.type in ("thing", "item")


def _as_several(entity: TrackedEntity) -> tuple[float, str]:
    """Return how well "they" fits one thing: a team, a person, a firm or a band by its name."""
    why = "may be more than one"
    if entity.heads & stem_list("groups"):
        return 0.8, why
    if entity.type == "person":
        return 0.45, why
    if entity.first.form != "name" or entity.type != "thing":
        return 0.0, ""
    return (0.6 if entity.first.text.endswith("s") else 0.25), why


def _groups(now: Situation) -> list[ScoredEntities]:
    """Return the lists and rows that "them" may mean."""
    found = []
    for age, shown in enumerate(now.register.lists_before(now.moment)):
        if len(shown.members) > 1:
            distance = now.distance(shown.moment[0])
            is_named = all(item.form in ("name", "item") for item in shown.items)
            score = (0.9 if is_named else 0.5) * _SOURCES[shown.source] ** 0.5 * _NEAR**distance
            score *= 0.4 if any(member.type in _VALUES for member in shown.members) else 1.0
            score *= 0.97**age * (1.0 if shown.moment[0] == now.moment[0] else _OTHER_MESSAGE)
            reason = f"{len(shown.members)} named together {distance} messages ago"
            found.append(ScoredEntities(shown.members, score, (reason,)))
    return found


# Nouns and names: what is called so, or is of that type


def _by_noun(asked: ReferenceQuery, now: Situation) -> list[ScoredEntities]:
    register = now.register
    listed = [*register.recent(now.moment, 3 * _MAX_RECENT), *register.by_head(asked.head)]
    for word in (asked.head, *asked.words):
        listed += register.by_word(word)
    for word in synonyms(asked.head):
        listed += register.by_head(word)
    entities = {each.id: each for each in [*listed, *now.variables]}.values()
    found = [scored for each in entities if (scored := _called(asked, each, now))]
    if asked.kind != "name" and asked.number != "singular":
        found += _lists_of(asked, now)
    if asked.kind != "name" and asked.number != "plural":
        best = max((each.score for each in found), default=0.0)
        found += _recent_names(asked, now, _UNNAMED if best < _UNNAMED else 0.5 * best)
    return found


def _called(asked: ReferenceQuery, entity: TrackedEntity, now: Situation) -> ScoredEntities | None:
    mentions = entity.before(now.moment)
    if not mentions and entity not in now.variables:
        return None
    score, why = (_name_fit if asked.kind == "name" else _noun_fit)(asked, entity, now)
    if score == 0:
        return None
    distance = now.distance(mentions[-1].message) if mentions else 0
    if asked.kind != "name":
        if asked.number and entity.number and asked.number != entity.number:
            score *= 0.4
            why += ", in another number"
        if asked.words:
            line = content_words(entity.shown.line) if entity.shown else []
            hits = sum(word in entity.words or word in line for word in asked.words)
            score *= 0.4 + 0.7 * hits / len(asked.words)
    if asked.kind == "demonstrative":  # the latest, rather than what is mentioned most often
        score *= (_NEAR if score < 0.9 else _FAR) ** distance
    else:
        score *= _FAR**distance * (1 + 0.02 * min(len(mentions), 5))
    return ScoredEntities((entity,), min(score / 1.1, 1.0), (why, f"{distance} messages ago"))


def _name_fit(asked: ReferenceQuery, entity: TrackedEntity, now: Situation) -> tuple[float, str]:
    """Return how well a name fits what an entity is called."""
    if len(asked.words) == 1 and _was_listed(entity, asked.head, now) == "picked":
        return 0.97, "picked from a list of them"
    shared = sorted(set(asked.words) & entity.words)
    fit = len(shared) / len(set(asked.words)) if asked.words else 0.0
    form = max((_FORMS[each.form] for each in entity.before(now.moment)), default=0.5)
    return (fit * (0.8 + 0.2 * form) if fit > 0.5 else 0.0), f"its name has {', '.join(shared)}"


def _noun_fit(asked: ReferenceQuery, entity: TrackedEntity, now: Situation) -> tuple[float, str]:
    """Return how well a noun names what an entity is."""
    head, label = asked.head, entity.first.text
    if head in entity.heads:
        return 1.0, f"called {label!r}"
    if entity.type == "file" and "file" in asked.types:
        return 0.9, "a file"
    if head in entity.words:
        return 0.9, f"the word is in its name, {label!r}"
    if synonyms(head) & (entity.heads | entity.words):
        return 0.85, f"{label!r} means the same"
    if len(head) > 3 and any(each.endswith(head) for each in entity.heads):
        return 0.85, f"{label!r} ends like that"
    listed = _was_listed(entity, head, now)
    if listed:
        return (0.97 if listed == "picked" else 0.6), f"{listed} in a list of them"
    types = keys_by_stem("type_nouns").get(head, ("",))[0].split()
    if entity.type not in types or (types == ["thing"] and entity.first.form != "value"):
        return 0.0, ""
    if {_GENDER_NOUNS.get(head, ""), entity.gender} >= {"m", "f"}:
        return 0.0, ""
    is_named = entity.first.form in ("name", "value", "variable")
    return (0.75 if is_named else 0.5), f"a {entity.type}"


def _was_listed(entity: TrackedEntity, head: str, now: Situation) -> str:
    """Tell whether an entity was shown in a list of such things, and picked from it since."""
    lists = (each for each in entity.lists if each.moment < now.moment)
    if not any(_is_noun_of(each, head) for each in lists):
        return ""
    is_picked = any(each.form == "reference" for each in entity.before(now.moment))
    return "picked" if is_picked else "shown"


def _is_noun_of(shown: MentionedList, head: str) -> bool:
    nouns = {head, *synonyms(head)}
    return shown.noun in nouns or any(len(x) > 3 and shown.noun.endswith(x) for x in nouns)


def _lists_of(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield the lists that a plural noun may mean: "those hotels"."""
    for age, shown in enumerate(now.register.lists_before(now.moment)):
        heads = all(asked.head in member.heads for member in shown.members)
        types = all(x.type in asked.types and x.type != "thing" for x in shown.members)
        if len(shown.members) > 1 and (heads or types or _is_noun_of(shown, asked.head)):
            score = 0.98 * _FAR ** now.distance(shown.moment[0]) * 0.97**age
            reason = f"a list of {len(shown.members)} of them"
            yield ScoredEntities(shown.members, score, (reason,))


def _recent_names(asked: ReferenceQuery, now: Situation, most: float) -> Iterator[ScoredEntities]:
    """Yield what was named lately, though never by this noun: "the museum" for the Uffizi."""
    if asked.head in keys_by_stem("type_nouns"):
        return
    for entity in now.register.recent(now.moment, _MAX_RECENT):
        mentions = entity.before(now.moment)
        is_named = any(each.form in ("name", "reference") for each in mentions)
        if not is_named or entity.first.form == "noun" or entity.type in _VALUES:
            continue
        if ("person" in asked.types) == (entity.type == "person"):
            distance = now.distance(mentions[-1].message)
            aside = _ASIDE if all(each.is_aside for each in mentions) else 1.0
            reason = f"{entity.first.text!r} was mentioned {distance} messages ago"
            yield ScoredEntities((entity,), most * aside * _NEAR**distance, (reason,))


# Lists: the second, the last two, the cheapest, the one with breakfast

_Choice = tuple[Sequence[TrackedEntity], float, str]
_NOTHING: _Choice = ((), 0.0, "")


def _from_lists(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield what a phrase picks from each list, the latest list first."""
    lists = list(now.register.lists_before(now.moment))
    known = [{member.id for member in shown.members} for shown in lists]
    lists += [
        shown
        for shown in _implied_lists(now)
        if not any({member.id for member in shown.members} <= ids for ids in known)
    ]
    age = 0
    for shown in lists:
        members, sure, how = _choose(asked, shown, now)
        distance = now.distance(shown.moment[0])
        score = sure * _OLDER_LIST**age * _LIST**distance * (_ROW if shown.is_row else 1.0)
        why = f"a list of {len(shown.members)} shown {distance} messages ago"
        if asked.head and not _lists_kind(shown, asked.head):
            score, why = score * _OTHER_NOUN, f"{why}, of other things"
        age += not shown.is_row
        if members and score > 0:
            yield ScoredEntities(tuple(members), min(score, 1.0), (how, why))


def _lists_kind(shown: MentionedList, head: str) -> bool:
    if shown.noun == head or (len(head) > 3 and shown.noun.endswith(head)):
        return True
    return any(head in x.heads for x in shown.members) or any(
        head in content_words(item.line) for item in shown.items
    )


def _implied_lists(now: Situation) -> Iterator[MentionedList]:
    """Yield things mentioned lately that have one noun, or are named in one message."""
    by_head: dict[str, list[TrackedEntity]] = {}
    by_message: dict[tuple[int, str], list[TrackedEntity]] = {}
    for entity in sorted(now.register.recent(now.moment, 12), key=lambda each: each.id):
        first = entity.first
        if first.form == "noun" and entity.number != "plural" and first.head:
            by_head.setdefault(first.head, []).append(entity)
        if first.form == "name" and entity.type != "file":
            by_message.setdefault((first.message, entity.type), []).append(entity)
    named = sorted(by_message.items(), key=lambda each: (each[0][0], len(each[1])), reverse=True)
    for noun, members in [*by_head.items(), *(("", members) for _, members in named)]:
        if len(members) > 1:
            items = tuple(each.first for each in members)
            last = items[-1]
            yield MentionedList(last.moment, last.source, noun, tuple(members), items, is_row=True)


def _choose(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Return the members that a phrase picks, how sure that is, and why."""
    members, count = shown.members, len(shown.members)
    if asked.kind == "ordinal":
        return _by_place(asked, shown)
    if asked.kind == "superlative":
        return _by_measure(asked, shown)
    if asked.kind == "described":
        return _by_words(asked, shown)
    if asked.kind == "several":
        fits = count > 1 and asked.count in (0, count)
        return (members, 1.0, "all of it") if fits else _NOTHING
    if asked.kind == "middle":
        return ([members[count // 2]], 1.0, "in the middle") if count % 2 else _NOTHING
    return _by_last(asked, shown, now)


def _by_place(asked: ReferenceQuery, shown: MentionedList) -> _Choice:
    members, mark = shown.members, asked.mark
    if mark in shown.marks and mark:
        return [members[shown.marks.index(mark)]], 1.0, f"marked {mark}"
    first = asked.first if asked.first >= 0 else len(members) + asked.first
    if mark:
        first = int(mark) - 1 if mark.isdigit() else "abcdefgh".find(mark)
        first = -1 if any(shown.marks) else first
    taken = members[first : first + asked.count] if first >= 0 else ()
    if len(taken) < asked.count:
        return _NOTHING
    return taken, 1.0, f"number {first + 1} of {len(members)}"


def _by_measure(asked: ReferenceQuery, shown: MentionedList) -> _Choice:
    for measure in asked.measures:
        numbers = [item.measures.get(measure) for item in shown.items]
        known = [number for number in numbers if number is not None]
        if len(known) > 1:
            best = (max if asked.is_most else min)(known)
            sure = len(known) / len(numbers) / numbers.count(best)
            sure *= 1.0 if asked.count in (1, len(known)) else 0.5  # "the cheaper one" is of two
            which = "most" if asked.is_most else "least"
            return [shown.members[numbers.index(best)]], sure, f"the {which} {measure}: {best:g}"
    return _NOTHING


def _by_words(asked: ReferenceQuery, shown: MentionedList) -> _Choice:
    fits = [_share_of(asked.words, item) for item in shown.items]
    best = max(fits, default=0.0)
    if best < 0.5:
        return _NOTHING
    members = [each for each, fit in zip(shown.members, fits, strict=True) if fit == best]
    why = f"it says {', '.join(asked.words)}"
    return (
        (members, best, why)
        if asked.number == "plural"
        else (members[:1], best / len(members), why)
    )


def _share_of(words: Iterable[str], item: Mention) -> float:
    """Return which part of the words an item has, or begins with."""
    said = {*item.words, *map(stem, re.findall(r"\w+", f"{item.text} {item.line}"))}
    hits = [
        word in said
        or any(len(word) > 4 < len(x) and (x.startswith(word) or word.startswith(x)) for x in said)
        for word in words
    ]
    return sum(hits) / len(hits)


def _by_last(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Pick by the member mentioned last after the list: the next one, the others."""
    last, at = (-1, -1), -1
    for place, member in enumerate(shown.members):
        for each in member.before(now.moment)[-8:]:
            if each.form != "item" and each.message > shown.moment[0] and each.moment > last:
                last, at = each.moment, place
    if at < 0:
        return _NOTHING
    if asked.kind == "other":
        rest = [*shown.members[:at], *shown.members[at + 1 :]]
        fits = len(rest) == 1 or (asked.number == "plural" and rest)
        return (rest, 1.0, "not the one mentioned last") if fits else _NOTHING
    at += 1 if asked.kind == "next" else -1
    inside = 0 <= at < len(shown.members)
    return ([shown.members[at]], 1.0, f"{asked.kind} in the list") if inside else _NOTHING
