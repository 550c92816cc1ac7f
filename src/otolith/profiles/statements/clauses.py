"""Clauses: the parts of a message in which its author may say something of themselves.

1. *Text that is not their own* is blanked: code, quotations, lines of a transcript, and all that
   follows "translate this" or "write a story".
2. *Sentences* become clauses. A clause that is a question, a hypothesis, reported speech or about
   this one occasion says nothing; "on business trips" and "from now on" count for what follows.

What is blanked keeps its length, so that places in it are places in the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from otolith.profiles.statements.statement_words import cues, may_have, pattern, word_list

MAX_LETTERS = 12_000
"""How much of one message is read."""
_MAX_SENTENCE, _MAX_SENTENCES = 400, 200

_STRAIGHT = {ord(each): "'" for each in "\u2019\u2018\u02bc"} | {
    ord(each): " " for each in "\xa0\t"
}
_NOT_OWN = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`|^[ ]{0,3}>[^\n]*|^(?: {4})[^\n]*"
    r"|\"[^\"\n]{0,400}\"|\u201c[^\u201d\n]{0,400}\u201d|\xab[^\xbb\n]{0,400}\xbb"
    r"|(?<!\w)'[^'\n]{2,400}'(?!\w)|https?://\S+",
    re.DOTALL | re.MULTILINE,
)
_TRANSCRIPT = re.compile(r"^[ ]*(?:\[[^\]\n]{1,30}\][ ]*)?[A-Z][\w ]{0,24}:[^\n]*", re.MULTILINE)
_SENTENCE = re.compile(
    r"(?:[^.!?\n]|(?<=\b[DM]r)\.|(?<=\bM[rs]s)\.|(?<=\bProf)\.|[.!?](?=\w))+(?:[.!?]+|\n|$)"
)
_WORD = re.compile(r"[a-z'-]+")
INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


class Clause(NamedTuple):
    """A part of a sentence that may say something."""

    text: str
    start: int
    context: str = ""
    is_standing: bool = False
    follows_answer: bool = False
    is_continued: bool = False
    """Whether "I" was said before, and may be left out."""
    is_request: bool = False
    """Whether it is a question that asks for a manner of answers."""


def own_text(text: str) -> str:
    """Return a text of the same length, in which all that its author only shows is blank."""
    text = text[:MAX_LETTERS].translate(_STRAIGHT)

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", "\x00", found.group())

    text = _NOT_OWN.sub(blank, text)
    if text.count(":") > 1:
        text = _TRANSCRIPT.sub(lambda each: each.group() if _is_lead(each) else blank(each), text)
    return text


def _is_lead(line: re.Match[str]) -> bool:
    """Tell whether a line with a colon only leads in, and names nobody: "Please note: …"."""
    first = line.group().strip().partition(":")[0].lower()
    return len(first.split()) > 2 or first in word_list("lead")


def clauses_in(text: str, *, follows_answer: bool) -> Iterator[Clause]:
    """Yield the clauses of a message that its author means, with their places."""
    for count, found in enumerate(_SENTENCE.finditer(own_text(text))):
        sentence = found.group()
        words = frozenset(_WORD.findall(sentence[:_MAX_SENTENCE].lower()))
        if count >= _MAX_SENTENCES or _is_material(sentence[:_MAX_SENTENCE], words):
            return
        if len(sentence) <= _MAX_SENTENCE and not cues().isdisjoint(words):
            yield from _clauses(sentence, found.start(), words, follows_answer=follows_answer)


def _is_material(sentence: str, words: frozenset[str]) -> bool:
    """Tell whether a sentence asks for work on the text after it, or is the begin of a text."""
    if may_have("material", words) and pattern("material").match(sentence):
        return True
    return ":" in sentence and pattern("exhibit").search(sentence) is not None


def _clauses(
    sentence: str, start: int, words: frozenset[str], *, follows_answer: bool
) -> Iterator[Clause]:
    """Yield the clauses of a sentence that its author means."""
    start += len(sentence) - len(sentence.lstrip())
    sentence = sentence.strip()
    is_question = sentence.endswith("?")
    parts = list(_split(sentence.rstrip(" .!?\n")))
    context, is_standing = "", False
    for number, (at, text) in enumerate(parts):
        lead = pattern("lead").match(text)
        bare = text[lead.end() :] if lead else text
        if _is_unmeant(bare, words):
            return
        is_last = number == len(parts) - 1
        asks = is_question and pattern("question").match(bare) is not None
        if is_question and pattern("polite").match(bare):
            yield Clause(bare, start + at + (lead.end() if lead else 0), is_request=True)
            continue
        if is_question and (asks or (is_last and not _has_reason(text))):
            continue
        occasion = _occasion(bare)
        if occasion is not None:
            if pattern("unreal").search(bare):
                return
            context, is_standing = occasion or context, is_standing or not occasion
            continue
        always = may_have("standing", words) and pattern("standing").search(text) is not None
        if "\x00" not in bare and not pattern("once").search(bare):
            begin = start + at + (lead.end() if lead else 0)
            said = number > 0 and re.search(r"\bI\b", sentence[:at]) is not None
            yield Clause(bare, begin, context, is_standing or always, follows_answer, said)


def _is_unmeant(text: str, words: frozenset[str]) -> bool:
    """Tell whether a clause is a hypothesis, or says who says what follows."""
    if may_have("hypothesis", words) and pattern("hypothesis").match(text):
        return True
    return may_have("report", words) and pattern("report").search(text) is not None


def _split(sentence: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a sentence, each with its place."""
    at = 0
    for found in pattern("split").finditer(sentence):
        if found.start() > at:
            yield from _split_opening(at, sentence[at : found.start()])
        at = found.end()
    if at < len(sentence):
        yield from _split_opening(at, sentence[at:])


def _split_opening(at: int, text: str) -> Iterator[tuple[int, str]]:
    """Yield the occasion that a part begins with, and the rest: "on long flights I prefer …"."""
    opening = pattern("opening").match(text)
    if opening is not None:
        yield at, opening.group()
        at, text = at + opening.end(), text[opening.end() :]
    yield at, text


def _has_reason(text: str) -> bool:
    words = text.lower().split(maxsplit=1)
    return bool(words) and words[0] in {"since", "because", "as", "given", "considering", "but"}


def _occasion(text: str) -> str | None:
    """Return when it holds, if a clause says only that; empty for "from now on"."""
    if pattern("standing").fullmatch(text.strip()):
        return ""
    found = pattern("occasion").match(text)
    if (
        found is None
        or pattern("in_language").match(text.strip())
        or re.search(r"\bi\b.*\bi\b", text, re.IGNORECASE)
    ):
        return None
    rest = re.sub(r"^(?:i'm|i am|i|we|traveling for)\s+", "", found["rest"], flags=re.IGNORECASE)
    if found.group().lower().startswith("in general"):
        return ""
    return rest.strip() if len(rest.split()) <= 6 else None
