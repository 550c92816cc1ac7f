"""What one message speaks of: read once, and remembered by what the message says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from otolith.agent.conversation.entities.items import Shown
from otolith.agent.conversation.entities.mention import Found
from otolith.agent.conversation.entities.prose import prose_in
from otolith.agent.conversation.entities.returned import parsed, tool_lists
from otolith.agent.conversation.entities.shown import lists_in
from otolith.agent.conversation.entities.values import values_in
from otolith.agent.conversation.entities.words import is_german
from otolith.agent.conversation.message import Attachment, Message, Text, ToolResult

_JOIN = re.compile(
    r"^\s*(?:,|;|&|/|and|or|und|oder|vs\.?|bzw\.?|,\s*(?:and|or|und|oder))\s*(?:the|a|an|der|die|das|den|dem|ein|eine|einen)?\s*$",
    re.IGNORECASE,
)
MOST_LETTERS = 20_000
"""How much of one text is read; a tool may return a whole book."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a text speaks of, in its order."""

    found: tuple[Found, ...]
    lists: tuple[Shown, ...]
    rows: tuple[tuple[int, ...], ...]
    """Which of `found` were named in one row: "Anna, Ben and Carl"."""
    is_german: bool


def texts_of(message: Message) -> Iterator[tuple[str, str, str]]:
    """Yield what a message says: text, source, and the id of the call that a result is for."""
    for part in message.parts:
        if isinstance(part, Text):
            yield part.text, str(message.role), ""
        elif isinstance(part, ToolResult):
            yield result_text(part), "tool", part.call_id
        elif isinstance(part, Attachment) and part.name:
            yield part.name, str(message.role), ""


def result_text(result: ToolResult) -> str:
    """Return what a tool answered, as text."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


def said(message: Message) -> str:
    """Return all that a message says, results of tools as well."""
    return "\n".join(text for text, _, _ in texts_of(message))


@lru_cache(maxsize=4096)
def read(text: str, *, german: bool, tool: str | None = None) -> Read:
    """Return what a text speaks of; `tool` is the name of the tool that returned it."""
    text = text[:MOST_LETTERS]
    returned = () if tool is None else tuple(tool_lists(text, tool))
    if tool is not None and parsed(text) is not None:
        return Read((), returned, (), german)
    spans = [] if returned else list(lists_in(text))
    lists = returned or tuple(shown for _, _, shown in spans)
    taken = [(start, end) for start, end, _ in spans]
    values = [each for each in values_in(text) if not _is_in(each[0], taken)]
    outside = taken + [(start, end) for start, end, _ in values]
    language = is_german(text)
    is_de = german if language is None else language
    prose = prose_in(text, outside, is_german=is_de)
    found = _joined(text, sorted([*values, *prose], key=lambda each: each[:2]))
    rows = tuple(_rows(text, found))
    return Read(tuple(each for _, _, each in found), lists, rows, is_de)


def _joined(text: str, found: list[tuple[int, int, Found]]) -> list[tuple[int, int, Found]]:
    """Make one of a noun and the name right after it: "my sister Julia", "the file a.csv"."""
    out: list[tuple[int, int, Found]] = []
    for start, end, each in found:
        before = out[-1] if out else None
        if before is not None and _is_apposition(before[2], each, text[before[1] : start]):
            noun = before[2]
            type = noun.type if noun.type in ("person", "file") else each.type
            words = tuple(dict.fromkeys((*each.words, *noun.words)))
            gender = each.gender or noun.gender
            one = replace(each, type=type, start=noun.start, words=each.words, head=noun.head)
            one = replace(one, gender=gender, aside=words, is_first=noun.is_first)
            out[-1] = before[0], end, one
        else:
            out.append((start, end, each))
    return out


def _is_apposition(noun: Found, name: Found, gap: str) -> bool:
    is_pair = noun.form == "noun" and noun.number != "plural" and name.form == "name"
    if is_pair and re.fullmatch(r",?\s+(?:called|named|namens)\s+[\"„“]?", gap):
        return True
    return is_pair and noun.is_definite and gap in (" ", " `", ' "', " '", " „", " “")


def _is_in(start: int, spans: list[tuple[int, int]]) -> bool:
    return any(begin <= start < end for begin, end in spans)


def _rows(text: str, found: list[tuple[int, int, Found]]) -> Iterator[tuple[int, ...]]:
    """Yield what is named one after the other; two with only a comma between are no row."""
    row: list[int] = []
    gaps = ""
    for at, (start, _, each) in enumerate(found):
        gap = text[found[row[-1]][1] : start] if row else ""
        if row and _JOIN.match(gap) and _goes_with(found[row[-1]][2], each):
            row.append(at)
            gaps += gap
            continue
        if len(row) > 2 or (len(row) == 2 and re.search(r"\w|[&/]", gaps)):
            yield tuple(row)
        row, gaps = [at], ""
    if len(row) > 2 or (len(row) == 2 and re.search(r"\w|[&/]", gaps)):
        yield tuple(row)


def _goes_with(one: Found, other: Found) -> bool:
    return one.type == other.type or "value" not in (one.form, other.form)
