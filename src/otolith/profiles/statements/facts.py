"""Facts: what a clause says of its author, as key and value.

What is chosen has the noun as key and which of its kind as value; what is liked or not has the noun
and which of its kind as key. How answers should be has keys of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from otolith.profiles.statements.clauses import Clause
from otolith.profiles.statements.noun_phrases import Item, Phrases, singular
from otolith.profiles.statements.statement_words import word_keys, word_list

_MAX_VALUE, _MAX_LIKED_WORDS = 80, 4


@dataclass(frozen=True, slots=True)
class Fact:
    """What a clause says of its author."""

    key: str
    value: Any
    quote: str
    """The clause, as it was said."""
    context: str = ""
    is_against: bool = False
    """Whether it speaks against the value."""
    is_wish: bool = False
    """Whether it may be meant for once only: "I want an aisle seat"."""
    forgets: str = ""
    """What is taken back: "seats" of "forget what I said about seats"; then there is no key."""


def is_plain(fact: Fact) -> bool:
    """Tell whether key and value are short texts that can be shown."""
    texts = [
        fact.key,
        fact.forgets,
        fact.context,
        *([fact.value] if type(fact.value) is str else []),
    ]
    return all(len(each) <= _MAX_VALUE and each.isprintable() for each in texts)


def is_usable(item: Item | None) -> bool:
    """Tell whether a thing means something outside of its conversation."""
    if item is None:
        return False
    noun = item.noun.lower()
    first = item.before.lower().split()[:1]
    return (
        len(item.kind) > 1
        and any(letter.isalpha() for letter in noun)
        and noun not in word_list("deictic")
        and not (first and (first[0] in word_list("pointer") or first[0].isdigit()))
        and not {"this", "these", "those", "your"} & set(item.after.lower().split())
    )


def usable_items(phrases: Phrases) -> list[Item]:
    """Return the things that mean something by themselves; none if the first does not."""
    found = [item for item in phrases.items if is_usable(item)]
    return found if found and found[0] is phrases.items[0] else []


def begins_with(text: str, *names: str) -> bool:
    """Tell whether the first word of a text is one of some words."""
    first = text.lower().split(maxsplit=1)[:1]
    return bool(first) and first[0] in names


def _context(clause: Clause, phrases: Phrases) -> str:
    return phrases.context or clause.context


def fact_of(
    clause: Clause, key: str, value: Any, context: str = "", *, against: bool = False
) -> Fact:
    """Return what a clause says, when the clause or `context` says."""
    return Fact(key, value, clause.text, context or clause.context, is_against=against)


def attitudes(
    clause: Clause, phrases: Phrases, *, likes: bool, back: bool = False
) -> Iterator[Fact]:
    """Yield that things are liked or not; `back` takes it back."""
    where = _context(clause, phrases)
    for item in usable_items(phrases):
        if likes and not back and len(item.words.split()) > _MAX_LIKED_WORDS:
            continue
        found = of_answers(item, likes=likes)
        if found is not None:
            yield fact_of(clause, *found, where, against=back)
            continue
        yield fact_of(clause, item.key, likes, where, against=back)
        if item.words and (not likes or back):
            yield fact_of(clause, *_choice(item), where, against=True)


def of_answers(item: Item, *, likes: bool) -> tuple[str, Any] | None:
    """Return key and value of a preference about answers: "long answers", "emojis"."""
    if item.kind in {singular(each) for each in word_list("answer")} and item.words:
        return manner_of(item.words, likes=likes)
    text = item.text.lower()
    if text in word_list("answer_feature") or singular(text) in word_list("answer_feature"):
        return f"answers/{singular(text)}", likes
    return None


def manner_of(words: str, *, likes: bool) -> tuple[str, str] | None:
    """Return key and value of how answers should be."""
    words = re.sub(
        r"^(?:more|very|so|too|overly|really|extremely|rather|a bit|as)\s+", "", words.lower()
    )
    for table in ("length", "tone"):
        value = word_keys(table).get(words)
        if value is not None:
            return f"answers/{table}", value if likes else word_keys("opposite").get(value, value)
    return None


def _choice(item: Item) -> tuple[str, str]:
    """Return a choice as the key of its noun, and which of its kind."""
    kinds = word_keys("kinds")
    if not item.words or item.text.lower() in kinds:
        key = kinds.get(item.text.lower()) or kinds.get(item.kind)
        if key is not None:
            return key, item.text.lower() if item.noun.islower() else item.noun
    return word_keys("same").get(item.kind, item.kind), item.words


def choices(clause: Clause, phrases: Phrases, *, verb: str = "") -> Iterator[Fact]:
    """Yield what is chosen among things of a kind; things without a kind are liked."""
    where = _context(clause, phrases)
    items = usable_items(phrases)
    nouns = {item.kind for item in items}
    if len(items) > 1 and len(nouns) == 1 and all(item.words for item in items):
        before = ", ".join(item.before for item in items if item.before)
        items = [items[-1]._replace(before=before)]
    for item in items:
        found = of_answers(item, likes=True)
        named = word_keys("named").get(verb) if item.noun[:1].isupper() else None
        key, value = _choice(item)
        if found is not None:
            yield fact_of(clause, *found, where)
        elif named is not None:
            yield fact_of(clause, named, f"{item.words} {item.noun}".strip(), where)
        elif value:
            yield fact_of(clause, key, value, where)
        elif phrases.other is not None and not phrases.other.words and is_usable(phrases.other):
            pair = sorted([item.kind, phrases.other.kind])
            yield fact_of(clause, " or ".join(pair), item.kind, where)
        else:
            yield fact_of(clause, item.kind, value=True, context=where)
