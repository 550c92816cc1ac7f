"""Mentions in a text: lists, values, names and nouns, in English and German.

A list is numbered, has dots or letters, is a table, stands in a sentence, or comes from a tool: an
array of JSON, or lines of one kind one below the other. An item is called by what comes before the
first mark or number of its line: of "1. **Astoria** - 120 €, 0.3 km", Astoria. The rest of the line
is what it measures, in one unit whatever the text uses: kilometres, kilograms, bytes, minutes. The
units and their factors are in `[measure_units]` of `words.toml`.

The words in lists and values (prices, dates, files) belong to no phrase. A phrase is a determiner,
then adjectives and nouns or a name, up to a word that ends it:

    Open | the old report | and send | it | to | my sister Julia | .

In English every word ends a phrase that `words.toml` lists as a verb or a small word, and names are
written with capitals. In German all nouns are, and the article or the ending tells the gender. What
is in no list is taken for a noun. That is wrong now and then, and can be seen: a candidate shows
the words it was found by. A noun and the name right after it are one mention, and what is named one
after the other is a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from otolith.conversation.discourse.entities import Mention, MentionedList
from otolith.conversation.discourse.word_lists import (
    keys_by_word,
    number_word,
    pattern,
    type_of,
    word_list,
    word_table,
)
from otolith.text.words import (
    GERMAN_STOP_WORDS,
    STOP_WORDS,
    content_words,
    is_german,
    stem,
    words_in,
)

_MAX_LETTERS = 20_000
"""How much of one text is read; a tool may return a whole book."""

_SENTENCE = re.compile(
    r"(?:[^.!?:\n]|[.!?:](?=\S)|(?<=\b[DM]r)\.|(?<=\bM[rs]s)\.|(?<=\bProf)\.)*(?:[.!?:\n]+|$)"
)
_ITEM = re.compile(
    r"^(?P<space>[ \t]*)(?:\(?(?P<mark>\d{1,3}|[A-Za-z])[.):]|[-*•\u2013])[ \t]+(?P<text>\S.*)$",
    re.MULTILINE,
)
_TABLE = re.compile(r"\|")
_RULE = re.compile(r"^(?=.*\|)(?=.*-)[ \t\r|:-]+$", re.MULTILINE)
_AFTER_COLON = re.compile(r":\s+(?P<list>(?:[^.!?\n]|[.!?](?=[\w\"”“,)]))+)")
_COMMA = re.compile(r",\s+(?:and |or |und |oder )?|\s+(?:and|or|und|oder)\s+")
_SEMICOLON = re.compile(r";\s*(?:and |or |und |oder )?")
_UNBROKEN = re.compile(r"\([^)]*\)|\"[^\"]*\"|„[^“”\"]*[“”\"]|“[^”]*”")
_COLUMN = re.compile("[;|\\t]|,\\s|\\s[-\u2013\u2014]\\s|\\s{2,}")
_MAX_WORDS, _MAX_ITEMS, _MAX_DEPTH = 14, 200, 6
"""Of an item in a sentence, of an array, and of arrays within objects."""
_THOUSANDS = re.compile(r"[.,](?=\d{3}(?!\d))")
"""The marks that a number loses: 1,299.50 and 1.299,50 are the same."""
_ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


class TextMentions(NamedTuple):
    """What a text mentions, in its order."""

    mentions: tuple[Mention, ...]
    lists: tuple[MentionedList, ...]
    """First the rows of mentions ("Anna, Ben and Carl"), then the lists with items of their own."""
    is_german: bool


@lru_cache(maxsize=4096)
def read_mentions(text: str, *, german: bool, tool: str | None = None) -> TextMentions:
    """Return what a text mentions; `tool` is the name of the tool that returned it.

    `german` is the language to assume if the text itself does not tell. Of what a tool returns as
    JSON only the lists are read.
    """
    text = text[:_MAX_LETTERS]
    *_, noun = "", *content_words(tool or "")
    data = None if tool is None else _json_of(text)
    if data is not None:
        return TextMentions((), tuple(_json_lists(data, noun)), german)
    lists = _lists_in(text)
    taken = [(each.start, each.end) for each in lists if tool is None]
    if tool is not None:
        lists = [replace(each, noun=each.noun or noun) for each in lists or _tables(text, _COLUMN)]
    mentions = list(_values(text, taken))
    is_de = is_german(text, default=german)
    for tokens in _sentences(text, taken):
        mentions += _phrases(tokens, text, is_de=is_de)
    found = _with_appositions(text, sorted(mentions, key=lambda each: each.start))
    return TextMentions(tuple(found), (*_rows(text, found), *lists), is_de)


# Lists


def _lists_in(text: str) -> list[MentionedList]:
    """Return the lists of a text that a person or a model wrote."""
    found = [*_item_lines(text)] or [*_enumerations(text)]
    return [*found, *(_tables(text, _TABLE) if _RULE.search(text) else ())]


def _json_lists(data: Any, noun: str, depth: int = 0) -> Iterator[MentionedList]:
    """Yield the arrays of texts or objects in JSON; `noun` is what the tool or the field names."""
    if isinstance(data, list) and data and all(isinstance(each, str | dict) for each in data):
        items = tuple(_json_item(each, at) for at, each in enumerate(data[:_MAX_ITEMS]))
        yield MentionedList(items, noun)
    elif isinstance(data, dict) and depth < _MAX_DEPTH:
        for key, value in data.items():
            yield from _json_lists(value, (content_words(str(key)) or [noun])[-1], depth + 1)


def _json_of(text: str) -> Any:
    """Return the value of a JSON object or array; None if the text is something else."""
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return None


def _item(name: str, line: str, start: int, fields: Mapping[str, Any] | None = None) -> Mention:
    """Return an item by the text that opens it, all that is said of it, and its fields if any."""
    if not fields:
        cut = pattern("name_end").search(name, 2)
        label = (name[: cut.start()] if cut else name).strip(' *_`:.,"„“”')
        name = pattern("article").sub("", label) or name.strip()
    words = tuple(dict.fromkeys(content_words(name)))
    return Mention(
        start=start,
        text=name,
        form="item",
        type="item",
        words=words,
        head=words[-1] if words else "",
        number="singular",
        measures={**measures_in(line), **field_measures(fields or {})},
        line=line.replace("**", ""),
    )


def _announced_noun(text: str) -> str:
    """Return the stem of the first plural or capitalized word in the sentence before a list."""
    sentence = re.split(r"\n|\. ", text.strip())[-1]
    for word in re.findall(r"[^\W\d_]{4,}", sentence):
        is_plural = number_of_noun("", word, is_de=False) == "plural"
        if (is_plural or word[0].isupper()) and content_words(word):
            return stem(word)
    return ""


def _item_lines(text: str) -> Iterator[MentionedList]:
    """Yield lists whose lines begin with a number, a letter or a dot; prose ends a list.

    What is indented further belongs to the item above it.
    """
    runs: list[list[re.Match[str]]] = []
    for found in _ITEM.finditer(text):
        if not runs or re.search(r"\n\S", text[runs[-1][-1].end() : found.start()]):
            runs.append([])
        runs[-1].append(found)
    for run in runs:
        indents = [len(found["space"].expandtabs(4)) for found in run]
        tops = [at for at, indent in enumerate(indents) if indent <= min(indents) + 1]
        items = []
        for at, following in zip(tops, [*tops[1:], len(run)], strict=True):
            whole = text[run[at].start("text") : run[following - 1].end()]
            items.append(_item(run[at]["text"], whole, run[at].start("text")))
        marks = tuple((run[at]["mark"] or "").lower() for at in tops)
        noun = _announced_noun(text[: run[0].start()])
        yield MentionedList(tuple(items), noun, marks, run[0].start(), run[-1].end())


def _tables(text: str, delimiter: re.Pattern[str]) -> Iterator[MentionedList]:
    """Yield lines with the same delimiter one below the other; the first column may number them.

    A first line above a rule, or without digits, names the columns.
    """

    def mark(line: re.Match[str]) -> str | None:
        cut = delimiter.search(line[0])
        return cut and cut[0].strip()

    for key, group in groupby(re.finditer(r"[^\n]+", text), mark):
        run = [] if key is None else list(group)
        lines = [line for line in run if not _RULE.fullmatch(line[0])]
        cells = (delimiter.split(line[0].strip(" |\r")) for line in lines)
        rows = [[each.strip(" *") for each in row] for row in cells]
        is_header = bool(lines) and (len(lines) < len(run) or not re.search(r"\d", lines[0][0]))
        if len(rows) < 2 + is_header:
            continue
        names = rows[0] if is_header else []
        named = int(len(names) > 1 and names[0].lower().rstrip(".") in ("#", "no", "nr", ""))
        items = []
        for row, line in zip(rows[is_header:], lines[is_header:], strict=True):
            fields = dict(zip(names, row, strict=False))
            items.append(_item(row[min(named, len(row) - 1)], line[0], line.start(), fields))
        marks = tuple(row[0] if named else "" for row in rows[is_header:])
        noun = _announced_noun(text[: run[0].start()]) or (stem(names[named]) if names else "")
        yield MentionedList(tuple(items), noun, marks, run[0].start(), run[-1].end())


def _enumerations(text: str) -> Iterator[MentionedList]:
    """Yield "Two models fit: the Aero 14 at 1099 euros and the Nova X at 949"."""
    for found in _AFTER_COLON.finditer(text):
        parts = _enumerated(found["list"])
        if len(parts) > 1 and all(len(part.split()) <= _MAX_WORDS for part in parts):
            start = found.start("list")
            items = tuple(_item(part, part, start + at) for at, part in enumerate(parts))
            noun = _announced_noun(re.split(r"[.!?\n]", text[: found.start()])[-1])
            yield MentionedList(items, noun, (), start, found.end())


def _enumerated(text: str) -> list[str]:
    """Return the parts of an enumeration; what is in brackets or quotes stays together.

    A part that opens no item ("and costs little") belongs to the part before it.
    """
    bare = _UNBROKEN.sub(lambda found: "x" * len(found.group()), text)
    cuts = [found.span() for found in (_SEMICOLON if ";" in text else _COMMA).finditer(bare)]
    edges = [0, *(edge for cut in cuts for edge in cut), len(text)]
    parts = [text[edges[at] : edges[at + 1]].strip() for at in range(0, len(edges), 2)]
    opens = [not part[:1].islower() or bool(pattern("opens_item").match(part)) for part in parts]
    joined: list[str] = []
    for part, is_open in zip(parts, opens, strict=True):
        if is_open or not joined or not any(opens):
            joined.append(part)
        else:
            joined[-1] = f"{joined[-1]}, {part}"
    return [part for part in joined if part]


def _json_item(value: Any, at: int) -> Mention:
    """Return an object by the field that names it, or by its first text."""
    if not isinstance(value, dict):
        return _item(str(value), str(value), at)
    lower = {str(key).lower(): each for key, each in value.items()}
    named = [str(lower[name]) for name in word_table("name_fields").split() if lower.get(name)]
    texts = [each for each in value.values() if isinstance(each, str) and each]
    line = ", ".join(f"{key}: {each}" for key, each in value.items())
    return _item([*named, *texts, f"#{at + 1}"][0], line, at, lower)


# Values, and what things measure


def _values(text: str, taken: list[tuple[int, int]]) -> Iterator[Mention]:
    """Yield the values outside of what is taken, and take their places.

    Files and titles are names. They may be called by their last word: "the report" for report.csv.
    """
    for type in word_table("values"):
        for found in pattern(type, "values").finditer(text):
            start, end = found.span()
            if any(start < stop and begin < end for begin, stop in taken):
                continue
            taken.append((start, end))
            value, is_name = found.group().strip(), type in ("title", "file")
            last_words = content_words(re.sub(r"^.*[/\\]|\.\w+$", "", value))[-1:]
            yield Mention(
                start=start,
                end=end,
                text=value[1:-1].strip(" .,") if type == "title" else value,
                type="thing" if type == "title" else type,
                form="name" if is_name else "value",
                words=tuple(content_words(value)),
                head="".join(last_words) if is_name else "",
                number="singular",
                is_definite=is_name,
            )


@lru_cache(maxsize=8192)
def measures_in(text: str) -> Mapping[str, float]:
    """Return what a line says that something measures, in one unit each; the first one counts."""
    found: dict[str, float] = {}
    for each in pattern("amount").finditer(text):
        unit = (each["before"] or each["unit"] or "").lower().replace(" ", "")[:6]
        (key,) = keys_by_word("measure_units").get(unit, ("",))[:1]
        measure, _, factor = key.partition(" ")
        number = float(_THOUSANDS.sub("", each["number"]).replace(",", "."))
        if measure:
            found.setdefault(measure, number * float(factor or 1))
        elif re.fullmatch(r"(?:19|20)\d\d", each["number"]):
            found.setdefault("year", number)
    date, clock = _ISO_DATE.search(text), pattern("clock").search(text)
    if date is not None:
        found["date"] = float(date[0].replace("-", ""))
    if clock is not None:
        hour, is_afternoon = int(clock[1]), (clock[3] or clock[4] or "").lower() == "pm"
        found["clock"] = 60.0 * (hour + 12 * (is_afternoon and hour < 12)) + int(clock[2] or 0)
    return found


def field_measures(fields: Mapping[str, object]) -> Mapping[str, float]:
    """Return what a record says that something measures, by the names of its fields."""
    found: dict[str, float] = {}
    known = keys_by_word("measure_fields")
    for name, value in fields.items():
        measure = next((known[part][0] for part in name.lower().split("_") if part in known), "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.setdefault(measure or name.lower(), float(value))
        elif isinstance(value, str):
            found = {**measures_in(value), **found}
    return found


# Names and nouns


def noun_type(head: str) -> tuple[str, str]:
    """Return the type of what a noun stands for, by its stem, and the gender of a person."""
    return type_of([head], "noun_types", stems=True)


def number_of_noun(determiner: str, noun: str, *, is_de: bool) -> str:
    """Return whether a noun with its determiner is singular or plural; empty if unknown."""
    if {determiner, noun} & word_list("plural") or (number_word(determiner) or 1) > 1:
        return "plural"
    if is_de:
        return "singular" if determiner else ""
    is_plural = noun.endswith("s") and not noun.endswith(("ss", "us", "is", "news"))
    return "plural" if is_plural else "singular"


class _Token(NamedTuple):
    """A word of a sentence."""

    text: str
    start: int
    end: int
    joins: bool
    """Whether only a space or a hyphen stands between it and the word before."""
    lower: str
    """The word in small letters, without a possessive s."""
    is_capital: bool
    is_number: bool


def _sentences(text: str, taken: Sequence[tuple[int, int]]) -> Iterator[list[_Token]]:
    """Yield the words of each sentence, but for what is taken as a value or a list."""
    for sentence in _SENTENCE.finditer(text):
        tokens: list[_Token] = []
        before = offset = sentence.start()
        for word in words_in(sentence.group()):
            start, end, first = offset + word.start, offset + word.end, word.text[0]
            if not any(begin < end and start < stop for begin, stop in taken):
                gap = text[before:start]
                joins = bool(tokens) and (gap in ("-", ". ") or not gap.strip(" "))
                lower = word.lower.removesuffix("'s")
                kinds = first.isupper(), first.isdigit()
                tokens.append(_Token(word.text, start, end, joins, lower, *kinds))
            before = end
        yield tokens


def _phrases(tokens: Sequence[_Token], text: str, *, is_de: bool) -> Iterator[Mention]:
    """Yield the noun phrases of a sentence; adjectives at the end of one belong to none."""
    kind_of = _german_kind if is_de else _english_kind
    determiners = word_list("german_determiners" if is_de else "determiners")
    at, is_first = 0, True
    while at < len(tokens):
        lower = tokens[at].lower
        has_determiner = lower in determiners or (number_word(lower) or 1) > 1
        begin = last = end = at + has_determiner
        kind = "determiner" if has_determiner else ""
        while kind != "possessive" and end < len(tokens) and (end == at or tokens[end].joins):
            kind = kind_of(tokens, end, kind)
            if not kind:
                break
            end += 1
            last = last if kind == "adjective" else end
        if last > begin:
            before = tokens[at - 1].lower if at else ""
            phrase, determiner = tokens[begin:last], lower if has_determiner else ""
            mention = _mention(phrase, determiner, before, text, is_de=is_de)
            yield replace(mention, start=tokens[at].start, is_first=is_first)
            is_first = False
        at = max(last, at + 1)


def _mention(
    phrase: Sequence[_Token], determiner: str, before: str, text: str, *, is_de: bool
) -> Mention:
    """Return the mention that a phrase is; `before` is the word before its determiner."""
    nouns = [token for token in phrase if token.is_capital or token.is_number or not is_de]
    lowers, last = [token.lower for token in nouns], phrase[-1]
    words = tuple(stem(token.lower) for token in phrase)
    head = words[-1]
    type, gender = type_of(lowers, "names")
    if type == "place" and type_of(lowers[:1], "names")[0] != "place":
        type = "thing"  # "Hotel Paris"
    is_name = phrase[0].is_capital and (last.is_capital or last.is_number)
    if is_de:
        is_name = len(nouns) > 1 or (type != "thing" and noun_type(head)[0] == "thing")
    if not is_name:  # a noun, or a name with one: "the Delta flight"
        type, gender = noun_type(head)
        if is_de and not gender:
            article = "" if determiner == "der" and before else determiner
            endings = keys_by_word("ending_genders").items()
            guesses = (known for ending, known in endings if last.lower.endswith(ending))
            (gender,) = keys_by_word("article_genders").get(article) or next(guesses, ("",))
    is_doubtful = len(phrase) == 1 and not before and not determiner and type == "thing"
    is_part = determiner in ("its", "their", "his", "her", "what", "which")
    is_indefinite = determiner in word_list("indefinite") or number_word(determiner)
    return Mention(
        end=last.end,
        text=re.sub(r"['\u2019]s$", "", text[nouns[0].start : last.end]),
        form="name" if is_name and not is_doubtful else "noun" if determiner else "bare",
        is_aside=before in word_list("prepositions") or (is_part and not is_name),
        type=type,
        words=words,
        head=head,
        number="singular" if is_name else number_of_noun(determiner, last.lower, is_de=is_de),
        gender=gender,
        is_definite=is_name or (bool(determiner) and not is_indefinite),
    )


def _english_kind(tokens: Sequence[_Token], at: int, before: str) -> str:
    """Return what a word is in a phrase; empty if it ends it. `before` is what the last word is."""
    token, lower = tokens[at], tokens[at].lower
    if _is_name_part(tokens, at, is_inner=before == "name"):
        is_last = token.text.endswith(("'s", "\u2019s"))
        return ("possessive" if is_last else "name") if before in ("", "determiner", "name") else ""
    if lower in word_list("adjectives"):
        return "adjective"
    if lower in word_list("verbs") or lower.endswith(("ing", "ed")):
        is_opened = before in ("determiner", "adjective") and lower not in STOP_WORDS
        return "noun" if is_opened and lower[-2:] != "ed" else ""
    is_small = lower in STOP_WORDS or lower in word_list("units") or len(lower) < 2
    return "" if is_small or token.is_number else "noun"


def _is_name_part(tokens: Sequence[_Token], at: int, *, is_inner: bool) -> bool:
    """Tell whether an English word belongs to a name; the first word of a sentence is doubtful."""
    token, lower = tokens[at], tokens[at].lower
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    has_capital = after is not None and after.joins and after.is_capital and after.lower != "i"
    if token.is_number or lower in ("of", "van", "von", "de"):
        return is_inner and (token.is_number or has_capital)  # "DL 47", "Heart of Glass"
    is_verb = at == 0 and (lower in word_list("verbs") or lower.endswith("ing"))
    if not token.is_capital or lower in STOP_WORDS or is_verb:
        return False
    is_plain = lower.endswith(("ed", "ly", "s", "tion")) or lower in word_list("adjectives")
    return at > 0 or has_capital or not is_plain


def _german_kind(tokens: Sequence[_Token], at: int, before: str) -> str:
    """Return what a word is in a phrase; empty if it ends it. All nouns have capitals."""
    token, lower = tokens[at], tokens[at].lower
    is_small = lower in GERMAN_STOP_WORDS or lower in word_list("german_determiners")
    if before == "noun":  # "ICE 612", "Frau Berger"
        return "noun" if token.is_number or (token.is_capital and not is_small) else ""
    if not token.is_capital:
        is_adjective = before in ("determiner", "adjective") and not is_small
        return "adjective" if is_adjective and not token.is_number else ""
    is_alone = at == 0 and not (len(tokens) > 1 and tokens[1].joins)  # "Super, danke"
    is_other = is_small or is_alone or lower in word_list("units") or len(lower) < 2
    return "" if is_other else "noun"


# Phrases that belong together


def _with_appositions(text: str, found: Sequence[Mention]) -> list[Mention]:
    """Make one of a noun and the name right after it: "my sister Julia", "the file a.csv"."""
    joined: list[Mention] = []
    for name in found:
        noun = joined[-1] if joined else Mention(form="")
        gap = pattern("apposition_gap").fullmatch(text, noun.end, name.start)
        if gap is None or (noun.form, name.form) != ("noun", "name"):
            joined.append(name)
            continue
        joined[-1] = replace(
            name,
            type=noun.type if noun.type in ("person", "file") else name.type,
            start=noun.start,
            gender=name.gender or noun.gender,
            words=(*noun.words, *name.words),
            is_first=noun.is_first,
        )
    return joined


def _rows(text: str, found: Sequence[Mention]) -> Iterator[MentionedList]:
    """Yield what is named one after the other; two with only a comma between are not a row."""
    rows: list[list[Mention]] = []
    for mention in found:
        if rows and pattern("row_gap").fullmatch(text, rows[-1][-1].end, mention.start):
            rows[-1].append(mention)
        else:
            rows.append([mention])
    for row in rows:
        between = text[row[0].end : row[-1].start].strip()
        if len(row) > 2 or (len(row) == 2 and between not in (",", ";")):
            yield MentionedList(tuple(row), is_row=True)
