"""References: what a phrase asks for, and what it may mean, with scores and reasons.

    it, she, those, dort            pronoun: agrees in number, gender and type
    the hotel, die Firma            definite: a noun
    that file, diese Datei          demonstrative: a noun, and recent
    Bristol                         name
    the second one, number 3        ordinal: a place, or a mark, in a list
    the last two                    ordinal, with a count
    the cheapest, der frühere       superlative: the least or the most of a measure
    the one with breakfast          described: an item that has these words
    both, all three hotels          several: a whole list
    the other two, the middle one   other, middle: beside what was picked, or between

`parse_reference` tries the forms of a list first: "the last message" is a place in a list before it
is a noun. `candidates_for` then ranks what was mentioned:

1. A *pronoun* means something recent that agrees with it in number, gender and type. What was named
   or picked counts more than a noun, a noun more than an item that was only shown; the user's words
   more than the assistant's; what a sentence begins with more than what it mentions in passing.
2. A *noun* means what is called so: by that noun, by a word of its name, or by the noun of the list
   it was picked from. If nothing is, it may mean what was named lately, with a low score.
3. A *place or comparison* picks from the latest list; older lists, and rows in a sentence, count
   less.
4. Distance is counted in messages; what belongs to another topic is further away.

Every score is a product of factors from 0 to a little over 1, so that a candidate that fails one
rule badly cannot win by the others. How good the answers are is measured in
`docs/explanation/topics-and-references.md`; a rule that earns nothing there was left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from otolith.conversation.discourse.entities import (
    Mention,
    MentionedList,
    Moment,
    Register,
    TrackedEntity,
)
from otolith.conversation.discourse.mentions import noun_type, read_mentions
from otolith.conversation.discourse.topics import Span
from otolith.conversation.discourse.word_lists import (
    keys_by_word,
    number_word,
    pattern,
    stem_list,
    word_list,
    word_table,
)
from otolith.text.words import content_words

NOUN_KINDS = ("definite", "demonstrative", "name")
_DIGIT_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th|\.)")
_NEAR, _FAR = 0.84, 0.95
"""What is left of a score with each message in between: of a pronoun; of a noun or a list."""
_OTHER_TOPIC = 3
"""How many messages further away something is that belongs to another topic."""
_SAME_CLAUSE, _THEME, _ASIDE, _NOT_FIRST = 0.5, 1.2, 0.75, 0.88
"""A mention in the clause of the phrase ("an aisle seat on it") counts less, and so do one in
passing and one that does not begin its sentence; what a topic began with counts more."""
_FORMS = {"reference": 1.0, "name": 1.0, "noun": 0.85, "bare": 0.65, "item": 0.45, "value": 0.2}
_SOURCES = {"user": 1.0, "assistant": 0.9, "tool": 0.7}
_ROW, _OLDER_LIST, _OTHER_NOUN, _NOT_CALLED_SO = 0.7, 0.75, 0.45, 0.3
_MAX_RECENT = 40


@dataclass(frozen=True, slots=True)
class ReferenceQuery:
    """What a phrase asks for."""

    kind: str
    """Of all mentions: pronoun, definite, demonstrative or name. Of a list: ordinal, superlative,
    described, several, other or middle."""
    number: str = ""
    """singular, plural, or empty if the phrase may be either."""
    genders: tuple[str, ...] = ()
    """The genders that fit; "plural" is listed for a German pronoun that fits that as well."""
    types: tuple[str, ...] = ()
    """The types of entities that fit; all of them if it is empty."""
    head: str = ""
    """The stem of the noun, if the phrase has one that names a kind."""
    words: tuple[str, ...] = ()
    """The stems of the other words."""
    first: int = 0
    """The place in a list, from 0; below 0 from its end."""
    count: int = 1
    """How many are asked for; 0 for all of them."""
    mark: str = ""
    """The number or letter of an item: "option b"."""
    measures: tuple[str, ...] = ()
    """What is compared; the first measure that a list shows is taken."""
    is_most: bool = False
    """Whether the most of it is asked for, rather than the least."""


# What a phrase asks for


def parse_reference(phrase: str, *, german: bool = False) -> ReferenceQuery | None:
    """Return what a phrase asks for; None if it asks for nothing.

    `german` is the language to assume where the phrase itself does not tell.
    """
    phrase = phrase.strip().strip(".,;:!?\"'“”„()").strip()
    if not phrase:
        return None
    opened = pattern("leading").match(phrase)
    phrase = (phrase[opened.end() :].lstrip(" ,") if opened else phrase) or "it"
    text = re.sub(r"\s+", " ", phrase).lower()
    pronoun = _pronouns().get(re.sub(r"^(th\w+) ones?$", r"\1", text))
    place = pronoun or _superlative(text) or _ordinal(text) or _form(text)
    return place or _noun(phrase, german=german)


@cache
def _pronouns() -> dict[str, ReferenceQuery]:
    """Return what each pronoun asks for."""
    found: dict[str, ReferenceQuery] = {}
    for row in word_table("pronouns"):
        genders, types = tuple(row.get("genders", "").split()), tuple(row.get("types", "").split())
        query = ReferenceQuery("pronoun", row.get("number", ""), genders, types)
        found |= dict.fromkeys(row["words"].split(), query)
    return found


def _last_noun(text: str) -> str:
    """Return the stem of the last word that names a kind: not "one" or "option"."""
    stems = [word for word in content_words(text) if word not in stem_list("empty_nouns")]
    return stems[-1] if stems else ""


def _form(text: str) -> ReferenceQuery | None:
    """Parse a phrase by the regular expressions of `[forms]`, which are named by their kind."""
    for kind, forms in word_table("forms").items():
        for form in forms:
            found = re.fullmatch(form, text)
            if found is not None:
                parts = found.groupdict()
                count = max(number_word(word) or 0 for word in text.split())
                is_plural = kind == "several" or count > 1 or pattern("several").fullmatch(text)
                mark = parts.get("mark") or ""
                return ReferenceQuery(
                    kind,
                    "plural" if is_plural and not mark else "singular",
                    head=_last_noun(parts.get("noun") or ""),
                    words=tuple(content_words(parts.get("words") or "")),
                    count=count if kind == "several" else 1,
                    mark=str(number_word(mark) or mark),
                )
    return None


def _superlative(text: str) -> ReferenceQuery | None:
    """Parse "the cheapest flight", "the most expensive one", "die günstigere"."""
    if " " not in text and not text.endswith("st"):
        return None  # "later" alone is a time
    joined = re.sub(r"\b(most|least|highest|lowest|best|worst|top) (?=\w)", r"\1-", text)
    for found in [*re.finditer(r"[\w-]+", joined), *re.finditer(r"\w+", text)]:
        for table in ("least", "most"):
            measures = _listed(table, found.group())
            if measures:
                return ReferenceQuery(
                    "superlative",
                    "singular",
                    head=_last_noun(found.string[found.end() :]),
                    measures=tuple(measures.split()),
                    is_most=table == "most",
                )
    return None


def _ordinal(text: str) -> ReferenceQuery | None:
    """Parse "the second to last", "the 3rd", "die letzten beiden"."""
    words = re.findall(r"[\w'-]+\.?", text)
    for at, word in enumerate(words[:3]):
        digits = _DIGIT_ORDINAL.fullmatch(word)
        key = str(int(digits[1]) - 1) if digits else _listed("ordinals", word.rstrip("."))
        if not key:
            continue
        place, rest = int(key), words[at + 1 :]
        if rest[:2] == ["to", "last"]:
            place, rest = -(place + 1), rest[2:]
        count = max(number_word(each) or 1 for each in ("one", *rest[:1], *words[:at][-1:]))
        place = -count if place < 0 and count > 1 else place
        number = "plural" if count > 1 else "singular"
        head = _last_noun(" ".join(rest))
        return ReferenceQuery("ordinal", number, head=head, first=place, count=count)
    return None


def _listed(table: str, word: str) -> str:
    """Return the key of a word in a table, with or without a German ending; empty if none."""
    known = keys_by_word(table)
    root = re.sub(r"(?:er)?e[nrsm]?$", "", word)
    return (known.get(word) or known.get(root) or ("",))[0]


def _noun(phrase: str, *, german: bool) -> ReferenceQuery | None:
    """Parse a noun with a determiner, or a name, as it would be read in a text."""
    first = phrase.partition(" ")[0].lower()
    mentions = read_mentions(phrase, german=german).mentions
    stems = [word for each in mentions for word in each.words] or content_words(phrase)
    if not stems:
        return None
    head, number = (mentions[0].head, mentions[0].number) if mentions else (stems[-1], "")
    has_determiner = first in word_list("determiners") | word_list("german_determiners")
    kind = "definite" if has_determiner else "name"
    kind = "demonstrative" if pattern("demonstrative").fullmatch(first) else kind
    words = tuple(word for word in stems if kind == "name" or word != head)
    return ReferenceQuery(kind, number, head=head, words=words)


# What it may mean


class ScoredEntities(NamedTuple):
    """What a phrase may mean: one entity, or several together."""

    entities: tuple[TrackedEntity, ...]
    score: float
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Situation:
    """The moment at which a phrase is used, and what was mentioned by then."""

    register: Register
    moment: Moment
    clock: Sequence[int]
    """For each message, how many came before it, results of tools aside."""
    clause: int | None = None
    """Where the clause of the phrase begins in its message; None if it stands in no message."""
    topic: Sequence[Span] = ()
    """The messages of the current topic."""
    variables: list[TrackedEntity] = field(default_factory=list)

    def distance(self, message: int) -> int:
        """Return how many messages ago a message was; more if it was about another topic."""
        is_here = not self.topic or any(span.start <= message < span.stop for span in self.topic)
        return self.clock[self.moment[0]] - self.clock[message] + (0 if is_here else _OTHER_TOPIC)


def candidates_for(asked: ReferenceQuery, now: Situation) -> list[ScoredEntities]:
    """Return what a phrase may mean, the best first."""
    if asked.kind == "pronoun":
        found = [*_by_pronoun(asked, now), *_groups(asked, now)]
    elif asked.kind in NOUN_KINDS:
        found = [*_by_noun(asked, now), *_groups(asked, now)]
    else:
        found = list(_from_lists(asked, now))
    return sorted(found, key=lambda each: -each.score)


# Pronouns: something recent that agrees in number, gender and type


def _by_pronoun(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield what agrees with a pronoun, scored by its last mentions and their distance."""
    for entity in now.register.recent(now.moment, _MAX_RECENT):
        fit, why = _agreement(asked, entity)
        if fit:
            mentions = entity.before(now.moment)
            last = [each for each in mentions[-8:] if each.message == mentions[-1].message]
            distance = now.distance(last[-1].message)
            score = fit * _salience(last, now) * _NEAR**distance
            is_theme = now.topic and mentions[0].message == now.topic[0].start != now.moment[0]
            score *= _THEME if is_theme and mentions[0].is_first else 1.0
            how = f"mentioned {distance} messages ago as {last[-1].text!r}"
            yield ScoredEntities((entity,), min(score, 1.0), (why, how))


def _salience(last: Sequence[Mention], now: Situation) -> float:
    """Return how much a message is about an entity, by its mentions there."""
    score = max(_FORMS[each.form] for each in last) * _SOURCES[last[-1].source]
    score *= 1.0 if any(each.is_first for each in last) else _NOT_FIRST
    score *= _ASIDE if all(each.is_aside for each in last) else 1.0
    is_near = now.clause is not None and last[-1].moment >= (now.moment[0], now.clause)
    return score * (_SAME_CLAUSE if is_near else 1.0)


def _agreement(asked: ReferenceQuery, entity: TrackedEntity) -> tuple[float, str]:
    """Return how well an entity fits a pronoun, and why; 0 if it does not.

    A gender that is not known fits a little less than the right one. In English only persons have
    a gender, and "it" is none of them.
    """
    if asked.number == "plural" and entity.number != "plural":
        may_be_several = entity.type == "person" or bool(entity.heads & stem_list("groups"))
        return 0.45 * may_be_several, "may be more than one"
    if entity.number == "plural":
        return float(asked.number == "plural" or "plural" in asked.genders), "plural"
    is_name = entity.first.form == "name" and entity.type in ("thing", "item")
    if asked.types == ("person",) and is_name:
        return 0.45, "a name, perhaps of a person"
    if asked.types and entity.type not in asked.types:
        return 0.0, ""
    if asked.genders:
        is_known, is_same = bool(entity.gender), entity.gender in asked.genders
        return (float(is_same) if is_known else 0.55), f"gender {entity.gender or 'unknown'}"
    if asked.types:
        return 1.0, f"a {asked.types[0]}"
    return float(entity.type != "person"), "singular, no person"


def _groups(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield the lists and rows that "them" or "those hotels" may mean."""
    for shown in _lists(now) if asked.number != "singular" and asked.kind != "name" else ():
        distance = now.distance(shown.moment[0])
        is_named = all(each.form in ("name", "item") for each in shown.items)
        score = (0.9 if is_named else 0.5) * _NEAR**distance
        if asked.head:
            score = 0.98 * _FAR**distance * (shown.noun == asked.head)
        if score and len(shown.members) > 1:
            reason = f"{len(shown.members)} named together {distance} messages ago"
            yield ScoredEntities(shown.members, score, (reason,))


# Nouns and names: what is called so


def _by_noun(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield what a noun or a name may mean; the words of it find what is long ago."""
    listed = now.register.recent(now.moment, 3 * _MAX_RECENT)
    for word in (asked.head, *asked.words):
        listed += now.register.by_word(word)
    for entity in {each.id: each for each in [*listed, *now.variables]}.values():
        mentions = entity.before(now.moment)
        forms = {each.form for each in mentions}
        fit, why = _noun_fit(asked, entity, forms)
        if fit and (mentions or entity in now.variables):
            distance = now.distance(mentions[-1].message) if mentions else 0
            often = _FAR**distance * (1 + 0.02 * min(len(mentions), 5))
            score = fit * (_NEAR**distance if asked.kind == "demonstrative" else often)
            how = f"{distance} messages ago"
            yield ScoredEntities((entity,), min(score / 1.1, 1.0), (why, how))


def _noun_fit(asked: ReferenceQuery, entity: TrackedEntity, forms: set[str]) -> tuple[float, str]:
    """Return how well a name, or a noun with its adjectives and its number, names an entity."""
    share = len(set(asked.words) & entity.words) / (len(set(asked.words)) or 1)
    fit, why = _head_fit(asked.head, entity, forms)
    if asked.number and entity.number and asked.number != entity.number:
        fit, why = 0.4 * fit, f"{why}, in another number"
    if asked.words and fit != _NOT_CALLED_SO:
        fit *= 0.4 + 0.7 * share
    return fit, why


def _head_fit(head: str, entity: TrackedEntity, forms: set[str]) -> tuple[float, str]:
    """Return how well a noun alone names an entity, from its own noun to its type."""
    label, types = entity.first.text, keys_by_word("type_nouns", stems=True).get(head)
    if head in entity.heads:
        return 1.0, f"called {label!r}"
    if head in entity.words:
        return 0.9, f"the word is in its name, {label!r}"
    if len(head) > 3 and any(each.endswith(head) for each in entity.heads):
        return 0.85, f"{label!r} ends like that"
    if head in entity.list_nouns:
        return (0.97 if "reference" in forms else 0.6), "in a list of them"
    if types:  # "the price", "that day"
        return 0.7 * (entity.type in types[0].split()), f"a {entity.type}"
    is_named = bool(forms & {"name", "reference"}) and "noun" not in forms
    is_same = (noun_type(head)[0] == "person") == (entity.type == "person")
    return _NOT_CALLED_SO * (is_named and is_same), "mentioned lately"


# Lists: the second, the last two, the cheapest, the one with breakfast

_Choice = tuple[Sequence[TrackedEntity], float, str]
_NOTHING: _Choice = ((), 0.0, "")


def _lists(now: Situation) -> Iterator[MentionedList]:
    """Yield the lists shown so far, then the names of one type in one message, as rows."""
    yield from now.register.lists_before(now.moment)
    rows: dict[object, list[TrackedEntity]] = {}
    for entity in sorted(now.register.recent(now.moment, 12), key=lambda each: each.id):
        if entity.first.form == "name" and entity.type != "file":
            rows.setdefault((entity.first.message, entity.type), []).append(entity)
    for members in rows.values():
        if len(members) > 1:
            items = tuple(each.first for each in members)
            yield MentionedList(items, members=tuple(members), is_row=True)


def _from_lists(asked: ReferenceQuery, now: Situation) -> Iterator[ScoredEntities]:
    """Yield what a phrase picks from each list, the latest list first."""
    choices = {"superlative": _by_measure, "described": _by_words, "other": _others}
    age = 0
    for shown in _lists(now):
        members, sure, how = choices.get(asked.kind, _by_place)(asked, shown, now)
        distance = now.distance(shown.moment[0])
        score = sure * _OLDER_LIST**age * _FAR**distance * (_ROW if shown.is_row else 1.0)
        why = f"a list of {len(shown.members)} shown {distance} messages ago"
        is_called_so = any(asked.head in each.words for each in shown.items)
        if asked.head and not is_called_so and asked.head != shown.noun:
            score, why = score * _OTHER_NOUN, f"{why}, of other things"
        age += not shown.is_row
        if members and score > 0:
            yield ScoredEntities(tuple(members), min(score, 1.0), (how, why))


def _by_place(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Pick by a number or letter that the list shows, by counting, or the whole list."""
    members, mark, first, count = shown.members, asked.mark, asked.first, asked.count
    size = len(members)
    if mark and mark in shown.marks:
        first = shown.marks.index(mark)
    elif mark:
        first = int(mark) - 1 if mark.isdigit() else "abcdefgh".find(mark)
    elif asked.kind == "middle":
        first = size // 2 if size % 2 else size
    elif asked.kind == "several":
        first, count = 0, size if size > 1 and count in (0, size) else size + 1
    elif first < 0:
        first += size
    taken = members[first : first + count] if first >= 0 else ()
    return (taken, 1.0, f"number {first + 1} of {size}") if len(taken) == count else _NOTHING


def _by_measure(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Pick the item with the least or the most of the first measure that the list shows."""
    for measure in asked.measures:
        numbers = [item.measures.get(measure) for item in shown.items]
        known = [number for number in numbers if number is not None]
        if len(known) > 1:
            best = (max if asked.is_most else min)(known)
            sure = len(known) / len(numbers) / numbers.count(best)
            which = "most" if asked.is_most else "least"
            return [shown.members[numbers.index(best)]], sure, f"the {which} {measure}: {best:g}"
    return _NOTHING


def _by_words(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Pick the items whose lines have most of the words."""
    lines = [content_words(f"{x.text} {x.line}") for x in shown.items]
    fits = [sum(x in line for x in asked.words) / (len(asked.words) or 1) for line in lines]
    best = max(fits, default=0.0)
    members = [each for each, fit in zip(shown.members, fits, strict=True) if fit == best]
    how = f"it has {', '.join(asked.words)}"
    if best < 0.5:
        return _NOTHING
    if asked.number == "plural":
        return members, best, how
    return members[:1], best / len(members), how


def _others(asked: ReferenceQuery, shown: MentionedList, now: Situation) -> _Choice:
    """Pick what is left of a list without the member that was mentioned last after it."""
    mentioned = [
        (each.moment, member.id)
        for member in shown.members
        for each in member.before(now.moment)[-8:]
        if each.form != "item" and each.message > shown.moment[0]
    ]
    rest = [x for x in shown.members if mentioned and x.id != max(mentioned)[1]]
    fits = len(rest) == 1 or asked.number == "plural"
    return (rest, 1.0, "not the one mentioned last") if fits else _NOTHING
