"""Lists that tools return: arrays of JSON, or lines of one kind one below the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from otolith.agent.conversation.entities.items import Shown, item_of, record_item
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.shown import lists_in
from otolith.agent.conversation.entities.words import content_words, stem

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
