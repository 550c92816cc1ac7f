"""The register: who and what a conversation has spoken of, in the order in which it came up.

It grows by messages and is never taken back, so that one register answers for every moment of its
past: a question asked at message 12 sees what was said before message 12.

What one message speaks of: read once, and remembered by what the message says.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from otolith.conversation.discourse.lists import Shown, lists_in, parsed, tool_lists
from otolith.conversation.discourse.mentions import Entity, Found, Mention
from otolith.conversation.discourse.nouns import prose_in
from otolith.conversation.discourse.values import values_in
from otolith.conversation.message import Attachment, Message, Text, ToolResult
from otolith.text.words import is_german

Moment = tuple[int, int]
"""A message, and a place in its text."""


@dataclass(slots=True)
class Known:
    """Something that was spoken of, with everything that was ever said of it."""

    id: int
    first: Found
    words: set[str]
    heads: set[str]
    mentions: list[Mention] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    lists: list[ShownList] = field(default_factory=list)
    """The lists in which it was shown."""

    @property
    def type(self) -> str:
        """What it is; what was shown as an item may turn out to be a place."""
        kinds = [each.type for each in self.found if each.type != "item"]
        return kinds[0] if kinds else self.first.type

    @property
    def number(self) -> str:
        """Singular or plural, if it is known."""
        return next((each.number for each in self.found if each.number), "")

    @property
    def gender(self) -> str:
        """The gender, if it is known."""
        return next((each.gender for each in self.found if each.gender), "")

    def before(self, moment: Moment) -> list[Mention]:
        """Return the mentions before a moment."""
        if self.mentions and (self.mentions[-1].message, self.mentions[-1].start) < moment:
            return self.mentions
        return [each for each in self.mentions if (each.message, each.start) < moment]

    def entity(self, moment: Moment) -> Entity:
        """Return what was known of it at a moment."""
        mentions = tuple(self.before(moment))
        names = dict.fromkeys(each.text for each in mentions if each.form != "reference")
        shown = [each for each in self.found if each.line]
        return Entity(
            self.id,
            self.first.text,
            self.type,
            self.number,
            self.gender,
            mentions,
            tuple(names) or (self.first.text,),
            measures=shown[-1].measures if shown else {},
            line=shown[-1].line if shown else "",
        )


@dataclass(frozen=True, slots=True)
class ShownList:
    """A list that was shown in a message, with what its items are."""

    moment: Moment
    source: str
    noun: str
    members: tuple[Known, ...]
    items: tuple[Found, ...]
    marks: tuple[str, ...]
    is_row: bool = False
    """It was only named in a row: "the Astoria or the Bristol"."""


class Register:
    """Everything that was spoken of."""

    def __init__(self) -> None:
        self.entities: list[Known] = []
        self.lists: list[ShownList] = []
        self._trail: list[tuple[Moment, Known]] = []
        self._by_key: dict[object, Known] = {}
        self._by_head: dict[str, list[Known]] = {}
        self._by_word: dict[str, list[Known]] = {}

    def touch(self, known: Known, mention: Mention) -> None:
        """Record that an entity was spoken of again."""
        known.mentions.append(mention)
        self._trail.append(((mention.message, mention.start), known))

    def place(self, found: Found, message: int, source: str, *, base: int = 0) -> Known:
        """Record something that a text speaks of; what is known already is spoken of again."""
        known = self._find(found) or self._new(found)
        if len(known.found) < _MOST_FOUND or found.line:
            known.found = [*known.found[-_MOST_FOUND:], found]
        known.words.update(found.words, found.aside)
        if found.head and found.head not in known.heads:
            known.heads.add(found.head)
            self._by_head.setdefault(found.head, []).append(known)
        self._by_key.setdefault(_key(found), known)
        mention = Mention(
            message,
            base + found.start,
            found.text,
            source,
            found.form,
            found.is_first,
            found.is_aside,
        )
        self.touch(known, mention)
        return known

    def show(self, shown: Shown, message: int, source: str, *, base: int = 0) -> ShownList:
        """Record a list that was shown, and each of its items."""
        members = tuple(self.place(item, message, source, base=base) for item in shown.items)
        return self._list(
            ShownList(
                (message, base + shown.start),
                source,
                shown.noun,
                members,
                shown.items,
                shown.marks,
            )
        )

    def row(
        self, members: Sequence[Known], founds: Sequence[Found], moment: Moment, source: str
    ) -> None:
        """Record things that were named one after the other."""
        heads = {found.head for found in founds if found.form != "name"}
        noun = heads.pop() if len(heads) == 1 else ""
        self._list(ShownList(moment, source, noun, tuple(members), tuple(founds), (), is_row=True))

    def recent(self, moment: Moment, most: int) -> list[Known]:
        """Return what was spoken of before a moment, the latest first, each once."""
        end = bisect_left(self._trail, moment, key=lambda each: each[0])
        found: dict[int, Known] = {}
        for _, known in reversed(self._trail[max(0, end - 4 * most) : end]):
            found.setdefault(known.id, known)
            if len(found) >= most:
                break
        return list(found.values())

    def headed(self, head: str) -> list[Known]:
        """Return what is called by a noun."""
        return self._by_head.get(head, [])[-_MOST_ALIKE:]

    def named(self, word: str) -> list[Known]:
        """Return what has a word in its name."""
        return self._by_word.get(word, [])[-_MOST_ALIKE:]

    def lists_before(self, moment: Moment) -> Iterator[ShownList]:
        """Yield the lists shown before a moment, the latest first."""
        end = bisect_left(self.lists, moment, key=lambda each: each.moment)
        yield from reversed(self.lists[max(0, end - _MOST_LISTS) : end])

    def _list(self, shown: ShownList) -> ShownList:
        for member in shown.members:
            member.lists = [*member.lists[-_MOST_LISTS:], shown]
        at = bisect_left(self.lists, shown.moment, key=lambda each: each.moment)
        self.lists.insert(at, shown)
        return shown

    def _new(self, found: Found) -> Known:
        known = Known(len(self.entities), found, set(found.words), set())
        self.entities.append(known)
        if found.form in ("name", "item", "value"):
            for word in found.words:
                self._by_word.setdefault(word, []).append(known)
        return known

    def _find(self, found: Found) -> Known | None:
        known = self._by_key.get(_key(found))
        if known is not None or found.form not in ("name", "item"):
            return known
        return self._alias(found)

    def _alias(self, found: Found) -> Known | None:
        """Return what has a longer or a shorter name with the same words."""
        words = set(found.words)
        for known in reversed(self.named(found.words[-1])[-_MOST_LISTS:] if found.words else []):
            mine = set(known.first.words)
            if found.form == "name" and words <= mine and known.first.form in ("name", "item"):
                return known
            is_person = known.type == found.type == "person"
            if mine <= words and known.first.form == "name" and is_person:
                return known
        return None


_MOST_LISTS = 12
_MOST_ALIKE = 50
_MOST_FOUND = 16
"""How often it is kept how something was called; where it was is kept for ever."""


def _key(found: Found) -> object:
    if found.form == "value":
        return found.type, found.text.lower()
    if found.type == "file" and found.form == "name":
        return "file", found.text.lower()
    if found.form in ("name", "item"):
        return "name", " ".join(found.words) or found.text.lower()
    return "noun", " ".join(found.words), found.number == "plural"


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
