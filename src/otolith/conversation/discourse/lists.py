"""Lists and values in a text, with what they measure.

A list is numbered, has dots or letters, is a table, stands in a sentence, or comes from a tool: an
array of JSON, or lines of one kind one below the other. An item is called by what comes before the
first mark or number of its line: of "1. **Astoria** - 120 €, 0.3 km", Astoria. The rest of the line
is what it measures, in one unit whatever the text uses: kilometres, kilograms, bytes, minutes. The
units and their factors are in `[measure_units]` of `words.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from otolith.conversation.discourse.entities import Mention, MentionedList
from otolith.conversation.discourse.word_lists import keys_by_word, pattern, word_table
from otolith.text.words import content_words, stem

_NAME_ENDS = re.compile(
    "\\s[-\u2013\u2014|]\\s|:\\s|\\s?\\(|,\\s|;\\s|\\s[-\u2013\u2014]$|\\.\\s|\\s{2,}"
    r"|\s(?=[$€£]\s?\d)|\s(?:for|at|with|which|that|is|has|weighs|takes|runs|starts|costs?|leaves"
    r"|departs|hat|wiegt|mit|für|ab|um|kostet|ist)\s(?=.*\d)"
)
_ARTICLES = re.compile(r"^(?:one|another|an?|the|eine?[rsnm]?|der|die|das|den)\s+", re.IGNORECASE)
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
_NUMBER = r"(?:\d{1,3}(?:[.,]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)?)"
_THOUSANDS = re.compile(r"[.,](?=\d{3}(?!\d))")
"""The marks that a number loses: 1,299.50 and 1.299,50 are the same."""
_AMOUNT = re.compile(
    rf"(?:(?P<before>[$€£]|rated|rating|bewertung|note):?)?\s?(?P<number>{_NUMBER})"
    r"\s?(?P<unit>[$€£%★]|/\s?(?:5|10)\b|m[²2]|[^\W\d_]+)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d{2})\s?([ap]m)?|\s?([ap]m|Uhr))\b", re.IGNORECASE)
_ISO_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")


def lists_in(text: str) -> Iterator[MentionedList]:
    """Yield the lists of a text that a person or a model wrote."""
    yield from _item_lines(text)
    if _RULE.search(text):
        yield from _tables(text, _TABLE)
    if not _ITEM.search(text):
        yield from _enumerations(text)


def tool_lists(text: str, tool: str) -> Iterator[MentionedList]:
    """Yield the lists in what a tool returned; `tool` is its name, which may say what they are."""
    noun = (content_words(tool) or [""])[-1]
    data = json_of(text)
    if data is None:
        for found in [*lists_in(text)] or _tables(text, _COLUMN):
            yield found if found.noun else replace(found, noun=noun)
        return
    for name, array in _arrays(data, "", 0):
        items = tuple(_json_item(each, at) for at, each in enumerate(array[:_MAX_ITEMS]))
        if items:
            yield MentionedList(items, (content_words(name) or [noun])[-1])


def json_of(text: str) -> Any:
    """Return the value of a JSON object or array; None if the text is something else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _item(name: str, line: str, start: int, fields: Mapping[str, Any] | None = None) -> Mention:
    """Return an item by the text that opens it, all that is said of it, and its fields if any."""
    if not fields:
        cut = _NAME_ENDS.search(name, 2)
        label = (name[: cut.start()] if cut else name).strip(' *_`:.,"„“”')
        name = _ARTICLES.sub("", label) or name.strip()
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
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for word in re.findall(r"[^\W\d_]{4,}", lines[-1].split(". ")[-1]) if lines else []:
        is_plural = word.endswith("s") and not word.endswith(("ss", "us", "is"))
        if (is_plural or word[0].isupper()) and content_words(word):
            return stem(word)
    return ""


# Lists that a person or a model wrote


def _item_lines(text: str) -> Iterator[MentionedList]:
    """Yield lists whose lines begin with a number, a letter or a dot; prose ends a list."""
    run: list[re.Match[str]] = []
    for found in _ITEM.finditer(text):
        if run and re.search(r"\n\S", text[run[-1].end() : found.start()]):
            yield _lines(text, run)
            run = []
        run.append(found)
    if run:
        yield _lines(text, run)


def _lines(text: str, run: Sequence[re.Match[str]]) -> MentionedList:
    """Return a list of lines; what is indented further belongs to the item above it."""
    indents = [len(found["space"].expandtabs(4)) for found in run]
    tops = [at for at, indent in enumerate(indents) if indent <= min(indents) + 1]
    items = []
    for at, following in zip(tops, [*tops[1:], len(run)], strict=True):
        whole = text[run[at].start("text") : run[following - 1].end()]
        items.append(_item(run[at]["text"], whole, run[at].start("text")))
    marks = tuple((run[at]["mark"] or "").lower() for at in tops)
    start = run[0].start()
    noun = _announced_noun(text[:start])
    return MentionedList(tuple(items), noun, marks, start, run[-1].end())


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
        start, end = run[0].start(), run[-1].end()
        noun = _announced_noun(text[:start]) or (stem(names[named]) if names else "")
        yield MentionedList(tuple(items), noun, marks, start, end)


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


# Results of tools


def _arrays(data: Any, name: str, depth: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield the arrays of texts or objects, with the name of the field that each is in."""
    if isinstance(data, list) and all(isinstance(each, str | dict) for each in data):
        yield name, data
    elif isinstance(data, dict) and depth < _MAX_DEPTH:
        for key, value in data.items():
            yield from _arrays(value, str(key), depth + 1)


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


@cache
def _value_patterns() -> dict[str, re.Pattern[str]]:
    """Return a pattern for each type of value; what an earlier one takes, a later one leaves."""
    listed = {name: "|".join(word_table(name).split()) for name in ("months", "days", "file_types")}
    month = f"(?:{listed['months']})"
    currency = "|".join(
        each for each in word_table("measure_units")["price"].split() if each.isalpha()
    )
    patterns = {
        "title": r"[\"“„«](?=\w)[^\"“”„«»\n]{1,70}?[\"”“»]",
        "file": rf"(?<![\w./~\\@-])[\w./~\\-]*[\w-]\.(?:{listed['file_types']})\b(?![\w.]*@)",
        "thing": r"https?://\S+[\w/]|(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.]+\w",
        "price": rf"[$€£]\s?{_NUMBER}|{_NUMBER}\s?(?:[$€£]|(?:{currency})\b)",
        "date": r"\b(?:\d{4}-\d{2}-\d{2}|\d{1,2}\.\d{1,2}\.(?:\d{2,4})?|\d{1,2}/\d{1,2}/\d{2,4}"
        rf"|(?:the )?\d{{1,2}}(?:st|nd|rd|th|\.)? (?:of )?{month}\b(?: \d{{4}})?"
        rf"|{month}\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
        rf"|(?:{listed['days']}|next week|nächste woche)\b)",
        "time": r"\b\d{1,2}:\d{2}(?:\s?[ap]m)?\b|\b\d{1,2}\s?(?:[ap]m|Uhr)\b",
    }
    return {type: re.compile(regex, re.IGNORECASE) for type, regex in patterns.items()}


def values_in(text: str) -> Iterator[Mention]:
    """Yield the values of a text; none overlaps another.

    Files and titles are names. They may be called by their last word: "the report" for report.csv.
    """
    taken: list[tuple[int, int]] = []
    for type, regex in _value_patterns().items():
        for found in regex.finditer(text):
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
    for each in _AMOUNT.finditer(text):
        unit = (each["before"] or each["unit"] or "").lower().replace(" ", "")[:6]
        (key,) = keys_by_word("measure_units").get(unit, ("",))[:1]
        measure, _, factor = key.partition(" ")
        number = float(_THOUSANDS.sub("", each["number"]).replace(",", "."))
        if measure:
            found.setdefault(measure, number * float(factor or 1))
        elif re.fullmatch(r"(?:19|20)\d\d", each["number"]):
            found.setdefault("year", number)
    date, clock = _ISO_DATE.search(text), _CLOCK.search(text)
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
