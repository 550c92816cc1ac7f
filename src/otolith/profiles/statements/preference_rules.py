"""Rules that find what somebody says of themselves in an English text.

A clause (`clauses.py`) must begin with a pattern: "I prefer …", "never book …", "my favourite … is
…". Its object is read as noun phrases (`noun_phrases.py`), which give key and value (`facts.py`).

What is not sure is left out: a preference that is missed is said again, one that is made up annoys.
Words and patterns are in `words.toml`. The time is linear: a sentence has a longest length, and no
pattern reads a word twice in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from otolith.profiles.purposes import sensitive_subjects
from otolith.profiles.statements import instruction_rules
from otolith.profiles.statements.clauses import INVISIBLE, Clause, clauses_in
from otolith.profiles.statements.facts import (
    Fact,
    attitudes,
    begins_with,
    choices,
    fact_of,
    is_plain,
    is_usable,
    manner_of,
    of_answers,
)
from otolith.profiles.statements.noun_phrases import read_phrases, singular
from otolith.profiles.statements.statement_words import pattern, word_keys, word_list

Rule: TypeAlias = "Callable[[Clause], Iterator[Fact]]"

_ONE_DEED = re.compile(
    r"to\s+\w+(?:\s+\w+)?\s+(?:an?|the|that|this|some|my|one|\d+)\b", re.IGNORECASE
)
"""What "I like to …" asks for once: "to reserve the hotel"."""
_PRESENT = {"loved": "love", "liked": "like", "enjoyed": "enjoy", "preferred": "prefer"}
_DEFINITE = ("the", "how", "what", "that", "this", "it", "your", "her", "his")
_MOMENTS = ("my", "when", "seeing", "being")
_LISTS = {each: each for each in ("like", "dislike", "endure", "want", "habit")}
_LISTS_WITH_BE = {
    "like": "like",
    "dislike": "dislike",
    "endure": "endure",
    "be_like": "like",
    "be_unlike": "dislike",
    "be_only_not": "endure",
}
_CONTINUES = frozenset(["prefer", "dislike", "hate", "loathe", "despise", "detest"])


def read_facts(text: str, *, follows_answer: bool = False) -> Iterator[Fact]:
    """Yield what the author of a text says of themselves.

    `follows_answer` says whether an answer came before it, which "shorter please" may be about.
    """
    for clause in clauses_in(text, follows_answer=follows_answer):
        quote = text[clause.start : clause.start + len(clause.text)].strip()
        yield from (replace(fact, quote=quote) for fact in _facts(clause))


def _facts(clause: Clause) -> Iterator[Fact]:
    """Yield what a clause says, by the first rule that reads it."""
    text = clause.text.strip()
    if len(text) < 4 or INVISIBLE.search(text):
        return
    if text[:4].lower() == "and " or text[:4].lower() == "but ":
        text = text[4:].lstrip()
    if _continues(text, is_continued=clause.is_continued):
        text = f"I {text}"
    elif re.match(r"i've always\s", text, re.IGNORECASE):
        text = re.sub(r"(?i)^i've always\s+", "I 've always ", text)
    clause = clause._replace(text=text)
    for rule in _rules(clause):
        found = [fact for fact in rule(clause) if is_plain(fact)]
        if found:
            yield from found
            return


def _rules(clause: Clause) -> tuple[Rule, ...]:
    """Return the rules that may read a clause."""
    if clause.is_request:
        return (instruction_rules.answer_manner,)
    first = clause.text.split(maxsplit=1)[0].lower()
    return _RULES_OF_I if first in {"i", "i'm", "im", "i've", "i'd"} else _RULES


def _continues(text: str, *, is_continued: bool) -> bool:
    """Tell whether a clause leaves out "I": "… and prefer storytelling"."""
    low = text.lower().split()
    words = [each for each in low[:4] if each not in word_list("adverb") and each != "will"]
    if not words:
        return False
    if words[0] in _CONTINUES:
        return True
    verbs = {"love", "enjoy", "refuse", "avoid", "don't", "cannot", "can't", "won't"}
    opens = {"only", "never", "always", "will", "usually", "exclusively"}
    is_habit = low[0] in opens and words[0] in word_list("habit")
    return is_continued and (words[0] in verbs or is_habit or low[:2] == ["do", "not"])


def _statement(clause: Clause) -> Iterator[Fact]:
    """Read "I (don't) like …", "I always want …", "I'm not into …"."""
    found = pattern("statement").match(clause.text)
    if found is None:
        return
    verb = re.sub(r"\s+", " ", found["verb"].lower())
    verb = re.sub(r"^(?:a )?(?:(?:big|huge|great|massive) )?", "", verb)
    negation = re.sub(r"\s+", " ", (found["negation"] or "").lower())
    said = f"{found.group()[: found.start('verb')].lower()} "
    is_never = re.search(r"\bnever\s", said) is not None
    is_no = bool(negation) and negation != "no longer"
    obj, is_be = found["object"].strip(), bool(found["be"])
    if re.match(r"^(?:for|to)\s", obj) and verb not in {"prefer", "like", "love", "hate", "enjoy"}:
        return
    back = negation == "no longer"
    if negation and re.search(r"(?:n't|not)\s+(?:\w+\s+)?(?:always|only|exclusively|just)\s", said):
        return
    yield from _by_verb(clause, verb, obj, is_no=is_no or is_never, back=back, is_be=is_be)


def _by_verb(
    clause: Clause, verb: str, text: str, *, is_no: bool, back: bool, is_be: bool
) -> Iterator[Fact]:
    """Read the object of a verb by the list that the verb is in."""
    if verb.startswith("'ve always "):
        verb = _PRESENT.get(verb.removeprefix("'ve always "), "dislike")
    kind = _kind(verb, is_be=is_be)
    if kind in {"dislike", "endure"} or is_no:
        text = pattern("the_of").sub("", text)
    if kind == "refuse" and not is_no and not verb.endswith("avoid"):
        yield from attitudes(clause, read_phrases(f"{verb.split()[-1]} {text}"), likes=False)
    elif kind == "deed":
        yield from _preferred_deed(clause, verb.split()[-1], text, is_no=is_no)
    elif kind == "prefer":
        yield from _preferred(clause, text, is_no=is_no, back=back)
    elif kind == "want":
        yield from _wanted(clause, verb, text, is_no=is_no, back=back)
    elif kind == "habit" and not begins_with(text, *_DEFINITE):
        yield from _habit(clause, verb, text, is_no=is_no or back)
    elif kind in {"like", "dislike", "endure"}:
        yield from _attitude(clause, kind, text, is_no=is_no, back=back)


def _attitude(clause: Clause, kind: str, text: str, *, is_no: bool, back: bool) -> Iterator[Fact]:
    """Read the object of "I (don't) like", "I hate" and "I can't stand"."""
    if begins_with(text, *_DEFINITE) or (kind != "endure" and begins_with(text, *_MOMENTS)):
        return
    if kind == "like" and not _ONE_DEED.match(text):
        yield from attitudes(clause, read_phrases(text), likes=not is_no, back=back)
    elif kind == "dislike" and not is_no:
        yield from attitudes(clause, read_phrases(text), likes=False, back=back)
    elif kind == "endure" and is_no:
        yield from attitudes(clause, read_phrases(text), likes=False)


def _kind(verb: str, *, is_be: bool) -> str:
    """Return what a verb says; empty if it says nothing here."""
    if verb.startswith(("refuse to", "prefer not", "prefer to not")):
        return "refuse"
    if verb.startswith("prefer to"):
        return "deed"
    if verb in word_list("prefer"):
        return "prefer"
    lists = _LISTS_WITH_BE if is_be else _LISTS
    return next((kind for name, kind in lists.items() if verb in word_list(name)), "")


def _preferred(clause: Clause, text: str, *, is_no: bool, back: bool) -> Iterator[Fact]:
    phrases = read_phrases(text, compares=True)
    if begins_with(text, "the") and len(text.split()) > 3 and not phrases.context:
        return
    if begins_with(text, "the") and any(item.noun[:1].isupper() for item in phrases.items):
        return
    if back or is_no:
        yield from attitudes(clause, phrases, likes=True, back=True)
    else:
        yield from choices(clause, phrases)


def _preferred_deed(clause: Clause, verb: str, text: str, *, is_no: bool) -> Iterator[Fact]:
    """Read "I prefer to avoid …", "I prefer to sit at the window"."""
    if is_no:
        return
    if verb in {"avoid", "skip"} or (verb in {"stay", "steer"} and "from" in text[:12] + " of"):
        rest = re.sub(r"^(?:away from|clear of)\s+", "", text)
        yield from attitudes(clause, read_phrases(rest), likes=False)
    elif verb in word_list("light_verb") or verb in word_list("habit") or not text.strip():
        yield from choices(clause, read_phrases(f"to {verb} {text}", compares=True), verb=verb)


def _wanted(clause: Clause, verb: str, text: str, *, is_no: bool, back: bool) -> Iterator[Fact]:
    """Read "I always want …": without "always" it may be meant for once."""
    if re.match(r"(?:to|you)\b", text) or begins_with(text, "the", "it", "that", "this"):
        return
    phrases = read_phrases(text)
    answers = [found for item in phrases.items if (found := of_answers(item, likes=not is_no))]
    if answers:
        yield from (fact_of(clause, *found) for found in answers)
    elif back or is_no:
        if verb == "want" and (back or clause.is_standing):
            yield from attitudes(clause, phrases, likes=False)
    elif clause.is_standing and not any(each.isdigit() for each in text.split()):
        yield from choices(clause, phrases)
    elif len(phrases.items) == 1 and phrases.items[0].words and not phrases.context:
        yield from (replace(fact, is_wish=True) for fact in choices(clause, phrases))


def _wish(clause: Clause) -> Iterator[Fact]:
    """Read "I'd prefer shorter answers"; any other wish may be for once."""
    found = pattern("wish").match(clause.text)
    for item in read_phrases(found["object"]).items if found else ():
        known = of_answers(item, likes=True)
        if known is not None:
            yield fact_of(clause, *known)


def _habit(clause: Clause, verb: str, text: str, *, is_no: bool) -> Iterator[Fact]:
    phrases = read_phrases(text, compares=True)
    if begins_with(text, "or", "and"):
        return
    if is_no:
        yield from attitudes(clause, phrases, likes=False)
    elif re.search(
        r"\b(?:always|only|exclusively|usually|generally|strictly|normally|typically|tend to)\b",
        clause.text,
        re.IGNORECASE,
    ):
        yield from choices(clause, phrases, verb=verb)


def _possession(clause: Clause) -> Iterator[Fact]:
    """Read "I have a strong aversion to …"."""
    found = pattern("have").match(clause.text)
    if found is None:
        return
    noun = re.sub(r"\s+", " ", found["noun"].lower())
    is_none = bool(found["none"] or found["negation"])
    if (noun == "interest in" and is_none) or (noun in word_list("noun_unlike") and not is_none):
        yield from attitudes(clause, read_phrases(found["object"]), likes=False)
    elif noun in word_list("noun_like") and not is_none:
        yield from choices(clause, read_phrases(found["object"], compares=True))


def _judgement(clause: Clause) -> Iterator[Fact]:
    """Read "I find flashcards ineffective"."""
    found = pattern("find").match(clause.text)
    if found is None or begins_with(
        found["object"] or "", "the", "it", "this", "that", "my", "your"
    ):
        return
    yield from attitudes(clause, read_phrases(found["object"] or found["late"]), likes=False)


def _not_for_me(clause: Clause) -> Iterator[Fact]:
    found = pattern("not_for_me").match(clause.text)
    if found is not None and not begins_with(
        found["object"], "the", "it", "this", "that", "he", "she"
    ):
        yield from attitudes(clause, read_phrases(found["object"]), likes=False)


def _favourite(clause: Clause) -> Iterator[Fact]:
    found = pattern("favourite").match(clause.text) or pattern("is_favourite").match(clause.text)
    if found is None or begins_with(
        found["value"], "the", "that", "this", "it", "when", "how", "not"
    ):
        return
    items = read_phrases(found["value"]).items
    noun = read_phrases(found["noun"]).items
    if not noun or not is_usable(noun[0]) or not items or not is_usable(items[0]):
        return
    value = f"{items[0].words} {items[0].noun}".strip()
    key = noun[0].text.lower()
    if found.groupdict().get("least"):
        yield fact_of(clause, f"{key}/{value.lower()}", value=False)
    else:
        yield fact_of(clause, word_keys("same").get(key, key), value)


def _diet(clause: Clause) -> Iterator[Fact]:
    found = pattern("diet").match(clause.text)
    if found is not None:
        diet = found["diet"] or found["named"] or found["on"]
        yield fact_of(clause, "diet", diet.lower(), against=bool(found["negation"]))


def _condition(clause: Clause) -> Iterator[Fact]:
    """Read "I'm pregnant", "I have a severe peanut allergy": whoever learns it needs consent."""
    found = pattern("condition").match(clause.text)
    if found is None:
        return
    words = found["what"].split()
    subjects = sensitive_subjects("", found["what"])
    if subjects and len(words) <= 4:
        yield fact_of(clause, f"{subjects[0]}/{found['what'].lower().strip()}", value=True)


def _my_thing(clause: Clause) -> Iterator[Fact]:
    """Read "I like my coffee black"."""
    found = pattern("my_thing").match(clause.text)
    if found is None or len(found["value"].split()) > 5:
        return
    noun, value = singular(found["noun"].lower()), found["value"].strip().lower()
    if noun in {singular(each) for each in word_list("answer")}:
        known = manner_of(value, likes=True)
        language = re.fullmatch(r"in (\w+)", value)
        if language and language[1] in word_list("language"):
            known = ("answers/language", language[1].capitalize())
        yield fact_of(clause, *(known or ("answers/format", value)))
    else:
        yield fact_of(clause, noun, value)


_RULES: tuple[Rule, ...] = (
    instruction_rules.forgotten,
    instruction_rules.name,
    _favourite,
    instruction_rules.order,
    instruction_rules.answer_manner,
    instruction_rules.no_more,
    _not_for_me,
)
_RULES_OF_I: tuple[Rule, ...] = (
    instruction_rules.forgotten,
    instruction_rules.name,
    _diet,
    _condition,
    _my_thing,
    _possession,
    _judgement,
    _statement,
    _wish,
    instruction_rules.order,
    instruction_rules.answer_manner,
)
