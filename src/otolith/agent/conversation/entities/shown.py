"""Lists that were shown in a text: numbered, with dots or letters, in tables, or in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otolith.agent.conversation.entities.announced import announced
from otolith.agent.conversation.entities.items import Shown, item_of, noun_before, record_item
from otolith.agent.conversation.entities.words import stem

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
