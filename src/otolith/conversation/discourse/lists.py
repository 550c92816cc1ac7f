"""Lists in a text: numbered, with dots or letters, in tables, in sentences, and from tools.

An item is called by what comes before the first mark or number of its line: of "1. **Astoria** -
120 €, 0.3 km", Astoria. The rest of the line is what it measures. Tools return lists as arrays of
JSON, or as lines of one kind one below the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from otolith.conversation.discourse.entities import Mention
from otolith.conversation.discourse.measures import field_measures, measures_in
from otolith.text.words import content_words, stem

_BOLD = re.compile(r"^\*\*(.+?)\*\*:?")
_NAME_ENDS = re.compile(
    "\\s[-\u2013\u2014|]\\s|:\\s|\\s?\\(|,\\s|;\\s|\\s[-\u2013\u2014]$|\\.\\s|\\s{2,}"
    r"|\s(?=[$€£]\s?\d)|\s(?:for|at|with|which|that|is|has|weighs|takes|runs|starts|costs?|leaves"
    r"|departs|hat|wiegt|mit|für|ab|um|kostet|ist)\s(?=.*\d)"
)
_ARTICLES = re.compile(
    r"^(?:one|another|a|an|the|ein|eine[rsnm]?|der|die|das|den)\s+"
    r"(?:(?:in|at|from|by|of|am|im|von|aus|bei)\s+)?",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"^(?P<space>[ \t]*)(?:(?P<number>\d{1,3})[.):]|\((?P<round>\d{1,3})\)|(?P<letter>[A-Za-z])[.)]"
    "|[-*•\u2013])[ \\t]+(?P<text>\\S.*)$",
    re.MULTILINE,
)
_INLINE_ITEM = re.compile(
    r"(?<!\S)\(?(\d{1,2}|[a-dA-D])\)\s+(.+?)"
    r"(?=[,;]?\s+(?:and |or |und |oder )?\(?(?:\d{1,2}|[a-dA-D])\)\s|$)"
)
_TABLE_ROW = re.compile(r"^\s*\|(.+)\|\s*$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[\s|:-]+$")
_AFTER_COLON = re.compile(r":\s+(?P<list>(?:[^.!?\n]|[.!?](?=[\w\"”“,)]))+)")
_ANNOUNCES = re.compile(
    r"\b(?:two|three|four|five|six|[2-9]|options?|choices|these|following|zwei|drei|vier|fünf|sechs|"
    r"folgende[ns]?|diese|vorschläge|möglichkeiten)\b",
    re.IGNORECASE,
)
_COMMA = re.compile(r",\s+(?:and |or |und |oder )?|\s+(?:and|or|und|oder)\s+")
_SEMICOLON = re.compile(r";\s*(?:and |or |und |oder )?")
_UNBROKEN = re.compile(r"\([^)]*\)|\"[^\"]*\"|„[^“”\"]*[“”\"]|“[^”]*”")
_STARTS_ITEM = re.compile(r"(?:the|an?|one|another|your|my|der|die|das|den|eine?n?)\b")
_COLUMN = re.compile("\\s*[;|\\t]\\s*|,\\s+|\\s+[-\u2013\u2014]\\s+|\\s{2,}")
_NAME_FIELDS = (
    "name", "title", "titel", "label", "subject", "betreff", "flight", "flug", "hotel",
    "restaurant", "product", "produkt", "filename", "file", "path", "datei", "airline", "train",
    "zug", "event", "description", "summary", "text", "id",
)  # fmt: skip
_MAX_WORDS, _MAX_ITEMS, _MAX_DEPTH = 14, 200, 6


@dataclass(frozen=True, slots=True)
class ListText:
    """A list where it stands in a text."""

    start: int
    end: int
    items: tuple[Mention, ...]
    noun: str = ""
    """The stem of what the items are, if the text says so."""
    marks: tuple[str, ...] = ()
    """The number or letter of each item; empty if the list has none."""


def lists_in(text: str) -> Iterator[ListText]:
    """Yield the lists of a text that a person or a model wrote."""
    yield from _item_lines(text)
    yield from _table(text)
    if not _ITEM.search(text):
        yield from list(_inline(text)) or _sentences(text)


def tool_lists(text: str, tool: str) -> Iterator[ListText]:
    """Yield the lists in what a tool returned; `tool` is its name, which may say what they are."""
    noun = (content_words(tool) or [""])[-1]
    data = json_of(text)
    if data is None:
        for found in [*lists_in(text)] or _columns(text):
            yield found if found.noun else replace(found, noun=noun)
        return
    for name, array in _arrays(data, "", 0):
        items = tuple(_json_item(each, at) for at, each in enumerate(array[:_MAX_ITEMS]))
        if items:
            yield ListText(0, 0, items, (content_words(name) or [noun])[-1])


def json_of(text: str) -> Any:
    """Return the value of a JSON object or array; None if the text is something else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _item(line: str, whole: str, start: int) -> Mention:
    """Return an item by the line that opens it, and all that is said of it."""
    bold = _BOLD.match(line)
    name = bold[1] if bold else line
    cut = _NAME_ENDS.search(name)
    if cut is not None and cut.start() >= 2:
        name = name[: cut.start()]
    name = _ARTICLES.sub("", name.strip(' *_`:.,"„“”')) or name.strip()
    return _item_mention(name, start, measures_in(whole), whole.replace("**", ""))


def _record(label: str, fields: Mapping[str, Any], start: int) -> Mention:
    """Return an item that is a record with fields."""
    line = ", ".join(f"{key}: {value}" for key, value in fields.items())
    return _item_mention(label, start, field_measures(fields), line)


def _item_mention(name: str, start: int, measures: Mapping[str, float], line: str) -> Mention:
    words = tuple(dict.fromkeys(content_words(name)))
    return Mention(
        start=start,
        text=name,
        type="item",
        form="item",
        words=words,
        head=words[-1] if words else "",
        number="singular",
        measures=measures,
        line=line,
    )


def _announced_noun(text: str) -> str:
    """Return the stem of the first plural noun in the sentence before a list."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for word in re.findall(r"[^\W\d_]{4,}", lines[-1].split(". ")[-1]) if lines else []:
        lower = word.lower()
        is_english = lower.endswith("s") and not lower.endswith(("ss", "us", "is"))
        is_german = word[0].isupper() and lower.endswith(("en", "er", "e", "s", "n"))
        if (is_english or is_german) and content_words(word):
            return stem(word)
    return ""


# Lines that begin with a number, a letter or a dot


def _item_lines(text: str) -> Iterator[ListText]:
    run: list[re.Match[str]] = []
    for found in _ITEM.finditer(text):
        if run and _starts_list(text, run, found):
            yield _lines(text, run)
            run = []
        run.append(found)
    if run:
        yield _lines(text, run)


def _starts_list(text: str, run: Sequence[re.Match[str]], found: re.Match[str]) -> bool:
    """Tell whether an item opens another list: after prose, or with a second number one."""
    between = text[run[-1].end() : found.start()].splitlines()
    if any(line.strip() and not line.startswith((" ", "\t")) for line in between):
        return True
    is_one = (found["number"] or found["round"]) == "1"
    return is_one and len(run) > 1 and len(found["space"]) <= len(run[0]["space"])


def _lines(text: str, run: Sequence[re.Match[str]]) -> ListText:
    """Return a list of lines; what is indented further belongs to the item above it."""
    indents = [len(found["space"].expandtabs(4)) for found in run]
    tops = [at for at, indent in enumerate(indents) if indent <= min(indents) + 1]
    items, marks = [], []
    for at, following in zip(tops, [*tops[1:], len(run)], strict=True):
        first, last = run[at], run[following - 1]
        whole = text[first.start("text") : last.end()]
        items.append(_item(first["text"], whole, first.start("text")))
        marks.append(first["number"] or first["round"] or (first["letter"] or "").lower())
    start = run[0].start()
    noun = _announced_noun(text[:start])
    return ListText(start, run[-1].end(), tuple(items), noun, tuple(marks))


def _table(text: str) -> Iterator[ListText]:
    rows = list(_TABLE_ROW.finditer(text))
    if len(rows) < 3 or not _TABLE_RULE.match(rows[1][1]):
        return
    names = [cell.strip() for cell in rows[0][1].split("|")]
    is_numbered = names[0].lower() in ("#", "no", "no.", "nr", "nr.", "") and len(names) > 1
    items, marks = [], []
    for row in rows[2:]:
        cells = [cell.strip().strip("*") for cell in row[1].split("|")]
        label = cells[1] if is_numbered and len(cells) > 1 else cells[0]
        items.append(_record(label, dict(zip(names, cells, strict=False)), row.start()))
        marks.append(cells[0] if is_numbered else "")
    start = rows[0].start()
    noun = _announced_noun(text[:start]) or stem(names[is_numbered])
    yield ListText(start, rows[-1].end(), tuple(items), noun, tuple(marks))


# Lists in a sentence


def _inline(text: str) -> Iterator[ListText]:
    """Yield "a) the Astoria, b) the Bristol"."""
    found = list(_INLINE_ITEM.finditer(text))
    if len(found) > 1:
        items = tuple(_item(each[2], each[2], each.start(2)) for each in found)
        marks = tuple(each[1].lower() for each in found)
        start = found[0].start()
        yield ListText(start, found[-1].end(), items, _announced_noun(text[:start]), marks)


def _sentences(text: str) -> Iterator[ListText]:
    """Yield "Two models fit: the Aero 14 at 1099 euros and the Nova X at 949"."""
    for found in _AFTER_COLON.finditer(text):
        before = re.split(r"[.!?\n]", text[: found.start()])[-1]
        noun = _announced_noun(before)
        if not noun and not _ANNOUNCES.search(before):
            continue
        parts = _enumerated(found["list"], found.start("list"))
        if len(parts) > 1 and all(len(part.split()) <= _MAX_WORDS for part, _ in parts):
            items = tuple(_item(part, part, start) for part, start in parts)
            yield ListText(found.start("list"), found.end(), items, noun)


def _enumerated(text: str, start: int) -> list[tuple[str, int]]:
    """Return the parts of an enumeration; what is in brackets or quotes stays together.

    A part that opens no item ("and costs little") belongs to the part before it.
    """
    bare = _UNBROKEN.sub(lambda found: "x" * len(found.group()), text)
    cuts = list((_SEMICOLON if ";" in text else _COMMA).finditer(bare))
    begins = [0, *(cut.end() for cut in cuts)]
    ends = [*(cut.start() for cut in cuts), len(text)]
    parts = [
        (part.strip(), start + begin + len(part) - len(part.lstrip()))
        for begin, end in zip(begins, ends, strict=True)
        if (part := text[begin:end]).strip()
    ]
    opens = [not part[:1].islower() or bool(_STARTS_ITEM.match(part)) for part, _ in parts]
    if not any(opens):
        return parts
    joined: list[tuple[str, int]] = []
    for (part, at), is_open in zip(parts, opens, strict=True):
        if is_open or not joined:
            joined.append((part, at))
        else:
            joined[-1] = f"{joined[-1][0]}, {part}", joined[-1][1]
    return joined


# Results of tools


def _arrays(data: Any, name: str, depth: int) -> Iterator[tuple[str, list[Any]]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(data, list) and all(isinstance(each, str | dict) for each in data):
        yield name, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _arrays(value, str(key), depth + 1)


def _json_item(value: Any, at: int) -> Mention:
    if not isinstance(value, dict):
        return _item(str(value), str(value), at)
    fields = {str(key): each for key, each in value.items()}
    lower = {key.lower(): each for key, each in fields.items()}
    texts = (each for each in fields.values() if isinstance(each, str) and each)
    named = (str(lower[name]) for name in _NAME_FIELDS if lower.get(name))
    return _record(next(named, "") or next(texts, f"#{at + 1}"), fields, at)


def _columns(text: str) -> Iterator[ListText]:
    """Yield lines with the same delimiter, one below the other, as tools print them."""
    run: list[tuple[int, str]] = []
    mark = ""
    for found in re.finditer(r"[^\n]+|\Z", text):
        cut = _COLUMN.search(found.group())
        if run and (cut is None or cut.group()[0] != mark):
            if len(run) > 1:
                yield _column_list(run)
            run = []
        if cut is not None:
            mark = cut.group()[0]
            run.append((found.start(), found.group()))


def _column_list(run: Sequence[tuple[int, str]]) -> ListText:
    has_header = not re.search(r"\d", run[0][1]) and bool(re.search(r"\d", run[1][1]))
    rows = run[1:] if has_header and len(run) > 2 else run
    items = tuple(_item(_COLUMN.split(line.strip())[0], line, at) for at, line in rows)
    return ListText(run[0][0], run[-1][0] + len(run[-1][1]), items)
