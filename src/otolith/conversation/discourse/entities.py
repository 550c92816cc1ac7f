"""Entities: what a conversation has mentioned, and the register that stores them.

The register grows by mentions and never forgets one, so that one register answers for every moment
of its past: a question at message 12 sees what was said before message 12.

Two mentions are of one entity if they have the same name, the same noun, or the same value; a name
may also be part of a longer one ("Bristol" of "Bristol Inn"). Everything else is decided by the
tracker, which follows references.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Moment = tuple[int, int]
"""The number of a message, and a position in its text."""

_MAX_LISTS, _MAX_SAME_WORD = 12, 50
"""How many lists, and how many entities with one word, are looked at: the latest ones."""


@dataclass(frozen=True, slots=True)
class Mention:
    """An expression that stands for an entity, and where it is."""

    message: int = -1
    start: int = 0
    text: str = ""
    source: str = ""
    """The role that wrote it: user, assistant, tool or system; "variable" for a variable."""
    form: str = "noun"
    """name, noun, bare (a noun without article), value, item (of a list), variable or reference."""
    is_first: bool = False
    """Whether it comes first in its sentence, which is then mostly about it."""
    is_aside: bool = False
    """Whether it is mentioned in passing: Kim in "a message from Kim"."""
    type: str = "thing"
    """person, place, thing, file, number, price, date, time, item or variable."""
    words: tuple[str, ...] = ()
    """The stems of its words, without articles."""
    head: str = ""
    """The stem of the noun that names its kind."""
    number: str = ""
    """singular, plural, or empty if unknown."""
    gender: str = ""
    """m, f, n, or empty if unknown; of German nouns the grammatical gender."""
    is_definite: bool = False
    """Whether it has a definite article or is a name: it may be known already."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Numbers that a list shows with it: price, minutes, rating ..."""
    line: str = ""
    """The whole text of an item of a list."""
    end: int = 0
    """Where it ends in its own text."""

    @property
    def moment(self) -> Moment:
        """The message and the position in it."""
        return self.message, self.start


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that was mentioned, as far as it is known at one moment."""

    id: int
    label: str
    type: str
    number: str
    gender: str
    mentions: tuple[Mention, ...]
    names: tuple[str, ...]
    """All names and nouns used for it, the first one first."""
    measures: Mapping[str, float] = field(default_factory=dict)
    members: tuple[Entity, ...] = ()
    """The members of a group, such as "Tom and Lisa"."""
    line: str = ""

    @property
    def message(self) -> int:
        """The last message that mentions it; -1 for a variable that no message mentions."""
        return self.mentions[-1].message if self.mentions else -1

    @property
    def source(self) -> str:
        """The role that mentioned it first."""
        return self.mentions[0].source if self.mentions else "variable"

    def __repr__(self) -> str:
        return f"<Entity {self.label!r}, a {self.type}, {len(self.mentions)} mentions>"

    def __str__(self) -> str:
        return self.label


@dataclass(slots=True)
class TrackedEntity:
    """An entity in the register, with all of its mentions."""

    id: int
    first: Mention
    words: set[str] = field(default_factory=set)
    heads: set[str] = field(default_factory=set)
    """The stems of the nouns it was called by."""
    mentions: list[Mention] = field(default_factory=list)
    list_nouns: set[str] = field(default_factory=set)
    """The stems of what the lists are lists of that it is in."""
    type: str = "item"
    number: str = ""
    gender: str = ""
    shown: Mention | None = None
    """The last mention as an item of a list."""

    def before(self, moment: Moment) -> list[Mention]:
        """Return the mentions before a moment."""
        if self.mentions and self.mentions[-1].moment < moment:
            return self.mentions
        return [each for each in self.mentions if each.moment < moment]

    def entity(self, moment: Moment) -> Entity:
        """Return what is known of it at a moment."""
        mentions, label = tuple(self.before(moment)), self.first.text
        names = dict.fromkeys(each.text for each in mentions if each.form != "reference")
        known = self.type, self.number, self.gender, mentions, tuple(names) or (label,)
        shown = self.shown or self.first
        return Entity(self.id, label, *known, measures=shown.measures, line=shown.line)


@dataclass(frozen=True, slots=True)
class MentionedList:
    """A list that a text shows, or things that it names in a row."""

    items: tuple[Mention, ...]
    noun: str = ""
    """The stem of what the items are, if the text says so."""
    marks: tuple[str, ...] = ()
    """The number or letter of each item; empty if the list has none."""
    start: int = 0
    end: int = 0
    """Where it stands in its text; 0 and 0 in what a tool returned."""
    members: tuple[TrackedEntity, ...] = ()
    """The entities of the items, once they are in the register."""
    is_row: bool = False
    """Whether it is only a row in a sentence: "the Astoria or the Bristol"."""

    @property
    def moment(self) -> Moment:
        """The message and the position of its first item."""
        return self.items[0].moment


class Register:
    """All entities of a conversation, by name, by noun, and in the order of their mentions."""

    def __init__(self) -> None:
        self.entities: list[TrackedEntity] = []
        self.lists: list[MentionedList] = []
        self._trail: list[tuple[Moment, TrackedEntity]] = []
        self._by_key: dict[object, TrackedEntity] = {}
        self._by_word: dict[str, list[TrackedEntity]] = {}

    def touch(self, entity: TrackedEntity, mention: Mention) -> None:
        """Record that a known entity is mentioned again."""
        entity.mentions.append(mention)
        self._trail.append((mention.moment, entity))

    def place(self, mention: Mention) -> TrackedEntity:
        """Record a mention, of a known entity or of a new one."""
        kind = mention.type if mention.form == "value" else mention.form in ("name", "item")
        key = kind, mention.words or mention.text.lower()
        entity = self._by_key.get(key) or self._longer_name(mention)
        if entity is None:
            entity = TrackedEntity(len(self.entities), mention)
            self.entities.append(entity)
        self._by_key.setdefault(key, entity)
        for word in {mention.head, *mention.words} - entity.words - entity.heads:
            self._by_word.setdefault(word, []).append(entity)
        entity.words.update(mention.words)
        entity.heads.update({mention.head} - {""})
        entity.type = mention.type if entity.type == "item" else entity.type
        entity.number = entity.number or mention.number
        entity.gender = entity.gender or mention.gender
        entity.shown = mention if mention.line else entity.shown
        self.touch(entity, mention)
        return entity

    def add_list(self, shown: MentionedList) -> None:
        """Record a list whose members are in the register."""
        for member in shown.members:
            member.list_nouns.add(shown.noun)
        at = bisect_left(self.lists, shown.moment, key=lambda each: each.moment)
        self.lists.insert(at, shown)

    def recent(self, moment: Moment, limit: int) -> list[TrackedEntity]:
        """Return what was mentioned before a moment, the latest first, each once."""
        end = bisect_left(self._trail, moment, key=lambda each: each[0])
        trail = reversed(self._trail[max(0, end - 4 * limit) : end])
        return list({entity.id: entity for _, entity in trail}.values())[:limit]

    def by_word(self, word: str) -> list[TrackedEntity]:
        """Return the latest entities with a word in their name, or called by it."""
        return self._by_word.get(word, [])[-_MAX_SAME_WORD:]

    def lists_before(self, moment: Moment) -> Iterator[MentionedList]:
        """Yield the lists before a moment, the latest first."""
        end = bisect_left(self.lists, moment, key=lambda each: each.moment)
        yield from reversed(self.lists[max(0, end - _MAX_LISTS) : end])

    def _longer_name(self, mention: Mention) -> TrackedEntity | None:
        """Return an entity whose name has all words of a name."""
        if mention.form != "name" or not mention.words:
            return None
        latest = reversed(self.by_word(mention.words[-1])[-_MAX_LISTS:])
        named = (each for each in latest if each.first.form in ("name", "item"))
        return next((each for each in named if {*mention.words} <= {*each.first.words}), None)


def group_of(members: Sequence[Entity]) -> Entity:
    """Return several entities as one, with the members in it."""
    mentions = sorted((m for each in members for m in each.mentions), key=lambda m: m.moment)
    label = ", ".join(each.label for each in members)
    type = members[0].type if len({each.type for each in members}) == 1 else "thing"
    return Entity(-1, label, type, "plural", "", tuple(mentions), (label,), members=tuple(members))
