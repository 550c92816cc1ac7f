"""Lists that tools return: arrays of JSON, or lines of one kind one below the other.

The items of a list that was shown: what each is called, and what it measures.

Lists told in a sentence: "Two models fit: the Aero 14 at 1099 euros and the Nova X at 949".

Lists that were shown in a text: numbered, with dots or letters, in tables, or in a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from otolith.conversation.discourse.mentions import Found
from otolith.conversation.discourse.values import field_measures, measures_in
from otolith.text.lexicon import word_set
from otolith.text.words import content_words, stem

_BOLD = re.compile(r"^\*\*(.+?)\*\*:?")
_CUT = re.compile(
    "\\s[-\u2013\u2014|]\\s|:\\s|\\s?\\(|,\\s|;\\s|\\s[-\u2013\u2014]$|\\.\\s|\\s{2,}"
    r"|\s(?=[$€£]\s?\d)|\s(?:for|at|with|which|that|is|has|weighs|takes|runs|starts|costs?|leaves"
    r"|departs|hat|wiegt|mit|für|ab|um|kostet|ist)\s(?=.*\d)"
)
_LEADING = re.compile(
    r"^(?:one|another|a|an|the|ein|eine[rsnm]?|der|die|das|den)\s+"
    r"(?:(?:in|at|from|by|of|am|im|von|aus|bei)\s+)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A list that was shown, and what its items are called."""

    items: tuple[Found, ...]
    noun: str = ""
    """The stem of what they are, if somebody said."""
    marks: tuple[str, ...] = ()
    """How each is marked: by a number, a letter, or not at all."""
    start: int = 0


def item_of(line: str, whole: str, start: int, type: str = "item") -> Found:
    """Return an item of a list: its name is what comes before the first mark or number."""
    bold = _BOLD.match(line)
    name = bold.group(1) if bold else line
    cut = _CUT.search(name)
    if cut is not None and cut.start() >= 2:
        name = name[: cut.start()]
    name = _LEADING.sub("", name.strip(' *_`:.,"„“”')) or name.strip()
    words = tuple(dict.fromkeys(content_words(name)))
    return Found(
        name,
        type,
        start,
        words,
        head=words[-1] if words else "",
        form="item",
        number="singular",
        measures=measures_in(whole),
        line=whole.replace("**", ""),
    )


def record_item(label: str, fields: Mapping[str, Any], start: int) -> Found:
    """Return an item that is a record with fields."""
    line = ", ".join(f"{key}: {value}" for key, value in fields.items())
    words = tuple(dict.fromkeys(content_words(label)))
    return Found(
        label,
        "item",
        start,
        words,
        head=words[-1] if words else "",
        form="item",
        number="singular",
        measures=field_measures(fields),
        line=line,
    )


def noun_before(text: str) -> str:
    """Return the stem of the plural noun by which a list is announced."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    words = re.findall(r"[^\W\d_]+", lines[-1].split(". ")[-1]) if lines else []
    plural = [word for word in words if _is_plural(word)]
    return stem(plural[0]) if plural else ""


def _is_plural(word: str) -> bool:
    lower = word.lower()
    if not content_words(word):
        return False
    is_english = lower.endswith("s") and not lower.endswith(("ss", "us", "is", "'s"))
    is_german = word[0].isupper() and lower.endswith(("en", "er", "e", "s", "n"))
    return len(word) > 3 and (is_english or is_german)


_AFTER_COLON = re.compile(r":\s+(?P<list>(?:[^.!?\n]|[.!?](?=[\w\"”“,)]))+)")
_SEVERAL = re.compile(
    r"\b(?:two|three|four|five|six|[2-9]|options?|choices|these|following|zwei|drei|vier|fünf|sechs|"
    r"folgende[ns]?|diese|vorschläge|möglichkeiten)\b",
    re.IGNORECASE,
)
_COMMA = re.compile(r",\s+(?:and |or |und |oder )?|\s+(?:and|or|und|oder)\s+")
_SEMICOLON = re.compile(r";\s*(?:and |or |und |oder )?")
_KEPT = re.compile(r"\([^)]*\)|\"[^\"]*\"|„[^“”\"]*[“”\"]|“[^”]*”")
_OPENERS = word_set("the a an one another your my der die das den ein eine einen")
_MOST_WORDS = 14


def announced(text: str) -> Iterator[tuple[int, int, Shown]]:
    """Yield what is told after a colon, if something says that there will be several."""
    for found in _AFTER_COLON.finditer(text):
        before = re.split(r"[.!?\n]", text[: found.start()])[-1]
        if not _SEVERAL.search(before) and not noun_before(before):
            continue
        parts = _whole(list(_split(found["list"], found.start("list"))))
        if len(parts) > 1 and all(len(part.split()) <= _MOST_WORDS for part, _ in parts):
            items = tuple(item_of(part, part, start) for part, start in parts)
            marks = tuple("" for _ in items)
            start = found.start("list")
            yield start, found.end(), Shown(items, noun_before(before), marks, start)


def _split(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the parts of an enumeration; what is in brackets or quotes stays together."""
    mark = _SEMICOLON if ";" in text else _COMMA
    bare = _KEPT.sub(lambda kept: "x" * len(kept.group()), text)
    begin = 0
    for cut in [*mark.finditer(bare), None]:
        end = len(text) if cut is None else cut.start()
        part = text[begin:end]
        if part.strip():
            yield part.strip(), start + begin + len(part) - len(part.lstrip())
        begin = end if cut is None else cut.end()


def _whole(parts: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Join what goes on with the item before: "the A weighs a lot and costs little, the B …"."""
    opens = [not part[:1].islower() or part.split()[0] in _OPENERS for part, _ in parts]
    if not any(opens):
        return parts
    out: list[tuple[str, int]] = []
    for (part, start), is_open in zip(parts, opens, strict=True):
        if is_open or not out:
            out.append((part, start))
        else:
            before, at = out[-1]
            out[-1] = f"{before}, {part}", at
    return out


_ITEM = re.compile(
    r"^(?P<space>[ \t]*)(?:(?P<number>\d{1,3})[.):]|\((?P<round>\d{1,3})\)|(?P<letter>[A-Za-z])[.)]"
    "|[-*•\u2013])[ \\t]+(?P<text>\\S.*)$",
    re.MULTILINE,
)
_INLINE = re.compile(
    r"(?<!\S)\(?(\d{1,2}|[a-dA-D])\)\s+(.+?)"
    r"(?=[,;]?\s+(?:and |or |und |oder )?\(?(?:\d{1,2}|[a-dA-D])\)\s|$)"
)
_ROW = re.compile(r"^\s*\|(.+)\|\s*$", re.MULTILINE)
_RULE = re.compile(r"^[\s|:-]+$")


def lists_in(text: str) -> Iterator[tuple[int, int, Shown]]:
    """Yield the lists of a text with where they begin and end."""
    yield from _listed(text)
    yield from _tables(text)
    if not _ITEM.search(text):
        inline = list(_inline(text))
        yield from inline or announced(text)


def _listed(text: str) -> Iterator[tuple[int, int, Shown]]:
    run: list[re.Match[str]] = []
    for found in _ITEM.finditer(text):
        if run and (_is_far(text, run[-1], found) or _starts_anew(run, found)):
            yield from _run(text, run)
            run = []
        run.append(found)
    if run:
        yield from _run(text, run)


def _is_far(text: str, before: re.Match[str], found: re.Match[str]) -> bool:
    """Tell whether prose stands between two items; what is indented belongs to the first."""
    between = text[before.end() : found.start()].splitlines()
    return any(line.strip() and not line.startswith((" ", "\t")) for line in between)


def _starts_anew(run: list[re.Match[str]], found: re.Match[str]) -> bool:
    top = len(run[0]["space"])
    return (
        len(found["space"]) <= top and (found["number"] or found["round"]) == "1" and len(run) > 1
    )


def _run(text: str, run: list[re.Match[str]]) -> Iterator[tuple[int, int, Shown]]:
    top = min(len(found["space"].expandtabs(4)) for found in run)
    heads = [at for at, found in enumerate(run) if len(found["space"].expandtabs(4)) <= top + 1]
    items, marks = [], []
    for at, following in zip(heads, [*heads[1:], len(run)], strict=True):
        first, last = run[at], run[following - 1]
        whole = text[first.start("text") : last.end()]
        items.append(item_of(first["text"], whole, first.start("text")))
        marks.append(first["number"] or first["round"] or (first["letter"] or "").lower())
    start, end = run[0].start(), run[-1].end()
    yield start, end, Shown(tuple(items), noun_before(text[:start]), tuple(marks), start)


def _tables(text: str) -> Iterator[tuple[int, int, Shown]]:
    rows = list(_ROW.finditer(text))
    if len(rows) < 3 or not _RULE.match(rows[1].group(1)):
        return
    names = [cell.strip() for cell in rows[0].group(1).split("|")]
    is_numbered = names[0].lower() in ("#", "no", "no.", "nr", "nr.", "")
    items, marks = [], []
    for row in rows[2:]:
        cells = [cell.strip().strip("*") for cell in row.group(1).split("|")]
        fields = dict(zip(names, cells, strict=False))
        label = cells[1] if is_numbered and len(cells) > 1 else cells[0]
        items.append(record_item(label, fields, row.start()))
        marks.append(cells[0] if is_numbered else "")
    start = rows[0].start()
    noun = noun_before(text[:start]) or stem(names[1 if is_numbered and len(names) > 1 else 0])
    yield start, rows[-1].end(), Shown(tuple(items), noun, tuple(marks), start)


def _inline(text: str) -> Iterator[tuple[int, int, Shown]]:
    found = list(_INLINE.finditer(text))
    if len(found) < 2:
        return
    items = tuple(item_of(each[2], each[2], each.start(2)) for each in found)
    marks = tuple(each[1].lower() for each in found)
    start = found[0].start()
    yield start, found[-1].end(), Shown(items, noun_before(text[:start]), marks, start)


_DELIMITER = re.compile("\\s*[;|\\t]\\s*|,\\s+|\\s+[-\u2013\u2014]\\s+|\\s{2,}")
_NAMES = """
name title titel label subject betreff flight flug hotel restaurant product produkt filename file
path datei airline train zug event description summary text id
"""
_NAME_FIELDS = tuple(_NAMES.split())
_MOST = 200
_DEEPEST = 6


def tool_lists(text: str, tool: str = "") -> Iterator[Shown]:
    """Yield the lists in what a tool returned: arrays of JSON; `tool` is the name of the tool."""
    data = parsed(text)
    if data is None:
        for _, _, shown in [*lists_in(text)] or rows_in(text):
            yield shown if shown.noun else _named(shown, _tool_noun(tool))
        return
    for name, array in _arrays(data, "", 0):
        items = tuple(_json_item(each, at) for at, each in enumerate(array[:_MOST]))
        if items:
            noun = stem(content_words(name)[-1]) if content_words(name) else _tool_noun(tool)
            yield Shown(items, noun, tuple("" for _ in items))


def parsed(text: str) -> Any:
    """Return what JSON a text is; None if it is none."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _named(shown: Shown, noun: str) -> Shown:
    return Shown(shown.items, noun, shown.marks, shown.start)


def _tool_noun(tool: str) -> str:
    words = content_words(tool)
    return words[-1] if words else ""


def _arrays(data: Any, name: str, depth: int) -> Iterator[tuple[str, list[Any]]]:
    if depth > _DEEPEST:
        return
    if isinstance(data, list) and all(isinstance(each, str | dict) for each in data):
        yield name, data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _arrays(value, str(key), depth + 1)


def _json_item(value: Any, at: int) -> Found:
    if not isinstance(value, dict):
        return item_of(str(value), str(value), at)
    fields = {str(key): each for key, each in value.items()}
    lower = {key.lower(): each for key, each in fields.items()}
    label = next((str(lower[name]) for name in _NAME_FIELDS if lower.get(name)), "")
    if not label:
        texts = (each for each in fields.values() if isinstance(each, str) and each)
        label = next(texts, f"#{at + 1}")
    return record_item(label, fields, at)


def rows_in(text: str) -> Iterator[tuple[int, int, Shown]]:
    """Yield lines of one kind, one below the other, as tools print them."""
    run: list[tuple[int, str]] = []
    mark = ""
    for found in re.finditer(r"[^\n]+|\Z", text):
        line = found.group()
        cut = _DELIMITER.search(line)
        if run and (cut is None or cut.group()[0] != mark[0]):
            if len(run) > 1:
                yield _rows(run)
            run = []
        if cut is not None:
            mark = cut.group()
            run.append((found.start(), line))


def _rows(run: list[tuple[int, str]]) -> tuple[int, int, Shown]:
    has_header = not re.search(r"\d", run[0][1]) and bool(re.search(r"\d", run[1][1]))
    kept = run[1:] if has_header and len(run) > 2 else run
    items = tuple(item_of(_DELIMITER.split(line.strip())[0], line, at) for at, line in kept)
    start, end = run[0][0], run[-1][0] + len(run[-1][1])
    return start, end, Shown(items, "", tuple("" for _ in items), start)
