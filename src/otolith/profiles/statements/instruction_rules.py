"""Rules for instructions: how answers should be, what is always or never to be done, and names.

Each rule gets a clause and yields what it says; nothing if the clause is not for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from otolith.profiles.statements.clauses import Clause
from otolith.profiles.statements.facts import (
    Fact,
    attitudes,
    begins_with,
    choices,
    fact_of,
    is_usable,
    manner_of,
    of_answers,
)
from otolith.profiles.statements.noun_phrases import read_phrases, singular
from otolith.profiles.statements.statement_words import pattern, word_keys, word_list

_UNITS = frozenset(["unit", "system"])


def name(clause: Clause) -> Iterator[Fact]:
    """Read "call me Ann"."""
    refused = pattern("not_name").match(clause.text)
    found = refused or pattern("name").match(clause.text)
    if found is None:
        return
    words = re.sub(
        r"\s+(?:please|from now on|instead|now|ok|okay|thanks)\b.*$",
        "",
        found["name"],
        flags=re.IGNORECASE,
    )
    parts = words.split()
    capital = all(each[0].isupper() for each in parts)
    if not parts or len(parts) > 4 or parts[0].lower() in word_list("not_a_name"):
        return
    if not capital and len(parts) > 1 and parts[0].lower() not in word_list("first_name_title"):
        return
    if re.fullmatch(r"[^\W\d_][\w.' -]{0,40}", words):
        yield fact_of(clause, "name", words.rstrip("."), against=refused is not None)


def order(clause: Clause) -> Iterator[Fact]:
    """Read "never book morning flights", "from now on, use metric units"."""
    found = pattern("order").match(clause.text)
    if found is None:
        return
    always = re.sub(r"\s+", " ", (found["always"] or "").strip().lower())
    if found["verb"].lower().endswith("ing") and always not in {"stop", "avoid"}:
        return
    is_no = always in {"stop", "avoid", "don't", "do not", "dont", "no longer"} or "ever" in always
    text = pattern("standing_end").sub("", found["object"])
    if begins_with(text, "the", "it", "this", "that", "them", "you", "to", "my", "your"):
        text = re.sub(r"^the\s+(?=\w+\s+(?:system|units?|format)\b)", "", text)
        if begins_with(text, "the", "it", "this", "that", "them", "you", "to", "my", "your"):
            return
    phrases = read_phrases(text)
    items = [item for item in phrases.items if is_usable(item)]
    writes = found["verb"].lower().startswith(("us", "writ", "add", "includ"))
    features = [item for item in items if writes and of_answers(item, likes=True)]
    units = [
        item for item in items if item.text.lower() in word_keys("kinds") or item.kind in _UNITS
    ]
    if not (clause.is_standing or features or units):
        return
    if is_no:
        yield from attitudes(clause, phrases, likes=False)
    elif always or clause.is_standing or features or (units and found["verb"].lower() == "use"):
        yield from choices(clause, phrases)


def no_more(clause: Clause) -> Iterator[Fact]:
    """Read "no more emojis"."""
    found = pattern("no_more").match(clause.text)
    if found is None:
        return
    for item in read_phrases(found["object"]).items:
        known = of_answers(item, likes=False)
        if known is not None:
            yield fact_of(clause, *known)
        elif (
            found["more"]
            and item.kind.islower()
            and item.noun.lower().endswith("s")
            and is_usable(item)
        ):
            yield fact_of(clause, item.key, value=False)


def answer_manner(clause: Clause) -> Iterator[Fact]:
    """Read "answer in German", "be brief", "too long"."""
    text = clause.text
    in_what = pattern("answer_in").match(text) or pattern("in_language").match(text)
    if in_what is not None:
        value = in_what["value"].lower()
        if value in word_list("language"):
            yield fact_of(clause, "answers/language", value.capitalize())
        elif singular(value) in word_list("answer_feature"):
            yield fact_of(clause, f"answers/{singular(value)}", value=True)
        elif text.lower().split()[0] != "write" and value.split()[0] in word_keys("length"):
            yield fact_of(clause, "answers/length", word_keys("length")[value.split()[0]])
        return
    manner = pattern("manner").match(text)
    if manner is not None:
        words = manner["be"] or manner["keep"] or manner["adverb"] or manner["alone"] or ""
        words = re.sub(r"^(?:more|a bit|a little)\s+", "", words.lower())
        words = words.removesuffix("ly") if manner["adverb"] else words
        known = manner_of(words.strip(), likes=True)
        needs_answer = manner["alone"] or re.search(r"\b(?:it|things)\b", text)
        if known is not None and (clause.follows_answer or not needs_answer):
            yield fact_of(clause, *known)
            return
    yield from _complaint(clause)


def _complaint(clause: Clause) -> Iterator[Fact]:
    found = pattern("complaint").match(clause.text)
    if found is None or not clause.follows_answer:
        return
    how = found["how"].lower()
    is_bare = re.match(r"(?:that|this|it|your)\b", clause.text, re.IGNORECASE) is None
    if how == "so" and is_bare:
        return
    known = manner_of(found["what"], likes=how == "more")
    if known is not None:
        yield fact_of(clause, *known)


def forgotten(clause: Clause) -> Iterator[Fact]:
    """Read "forget what I said about seats"."""
    found = pattern("forget").match(clause.text)
    if found is None:
        return
    items = read_phrases(found["about"] or found["mind"] or found["care"]).items
    for item in items[:1]:
        yield Fact("", None, clause.text, forgets=item.text.lower())
