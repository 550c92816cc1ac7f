"""Lists told in a sentence: "Two models fit: the Aero 14 at 1099 euros and the Nova X at 949"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otolith.agent.conversation.entities.items import Shown, item_of, noun_before
from otolith.agent.conversation.entities.lexicon import word_set

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
