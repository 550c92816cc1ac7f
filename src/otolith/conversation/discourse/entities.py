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
from dataclasses import dataclass, field, replace

Moment = tuple[int, int]
"""The number of a message, and a position in its text."""

_NO_MEASURES: Mapping[str, float] = {}
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
    measures: Mapping[str, float] = field(default_factory=lambda: _NO_MEASURES)
    """Numbers that a list shows with it: price, minutes, rating ..."""
    line: str = ""
    """The whole text of an item of a list."""
    aliases: tuple[str, ...] = ()
    """Stems of words by which it is called as well: of "my sister Julia", sister."""

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
    measures: Mapping[str, float] = field(default_factory=lambda: _NO_MEASURES)
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
    mentions: list[Mention] = field(default_factory=list)
    lists: list[MentionedList] = field(default_factory=list)
    type: str = "item"
    number: str = ""
    gender: str = ""
    shown: Mention | None = None
    """The last mention as an item of a list."""

    def learn(self, mention: Mention) -> None:
        """Take over what a mention says about the entity."""
        self.words.update(mention.words, mention.aliases)
        self.type = mention.type if self.type == "item" else self.type
        self.number = self.number or mention.number
        self.gender = self.gender or mention.gender
        self.shown = mention if mention.line else self.shown

    def before(self, moment: Moment) -> list[Mention]:
        """Return the mentions before a moment."""
        if self.mentions and self.mentions[-1].moment < moment:
            return self.mentions
        return [each for each in self.mentions if each.moment < moment]

    def entity(self, moment: Moment) -> Entity:
        """Return what is known of it at a moment."""
        mentions = tuple(self.before(moment))
        names = dict.fromkeys(each.text for each in mentions if each.form != "reference")
        return Entity(
            self.id,
            self.first.text,
            self.type,
            self.number,
            self.gender,
            mentions,
            tuple(names) or (self.first.text,),
            measures=self.shown.measures if self.shown else {},
            line=self.shown.line if self.shown else "",
        )


@dataclass(frozen=True, slots=True)
class MentionedList:
    """A list that a message shows, or things that it names in a row."""

    moment: Moment
    source: str
    noun: str
    """The stem of what the items are, if the text says so."""
    members: tuple[TrackedEntity, ...]
    items: tuple[Mention, ...]
    marks: tuple[str, ...] = ()
    """The number or letter of each item, if it has one."""
    is_row: bool = False
    """Whether it is only a row in a sentence: "the Astoria or the Bristol"."""


class Register:
    """All entities of a conversation, by name, by noun, and in the order of their mentions."""

    def __init__(self) -> None:
        self.entities: list[TrackedEntity] = []
        self.lists: list[MentionedList] = []
        self._trail: list[tuple[Moment, TrackedEntity]] = []
        self._by_key: dict[object, TrackedEntity] = {}
        self._by_head: dict[str, list[TrackedEntity]] = {}
        self._by_word: dict[str, list[TrackedEntity]] = {}

    def touch(self, entity: TrackedEntity, mention: Mention) -> None:
        """Record that a known entity is mentioned again."""
        entity.mentions.append(mention)
        self._trail.append((mention.moment, entity))

    def place(self, mention: Mention) -> TrackedEntity:
        """Record a mention, of a known entity or of a new one."""
        key = _key(mention)
        entity = self._by_key.get(key) or self._alias(mention) or self._new(mention)
        self._by_key.setdefault(key, entity)
        entity.learn(mention)
        if mention.head and mention.head not in entity.heads:
            entity.heads.add(mention.head)
            self._by_head.setdefault(mention.head, []).append(entity)
        self.touch(entity, mention)
        return entity

    def add_list(self, shown: MentionedList) -> None:
        """Record a list whose members are in the register."""
        for member in shown.members:
            member.lists = [*member.lists[-_MAX_LISTS:], shown]
        at = bisect_left(self.lists, shown.moment, key=lambda each: each.moment)
        self.lists.insert(at, shown)

    def add_row(self, members: Sequence[TrackedEntity], mentions: Sequence[Mention]) -> None:
        """Record things that are named one after the other."""
        heads = {each.head for each in mentions if each.form != "name"}
        noun = heads.pop() if len(heads) == 1 else ""
        moment, source = mentions[0].moment, mentions[0].source
        items = tuple(mentions)
        self.add_list(MentionedList(moment, source, noun, tuple(members), items, is_row=True))

    def recent(self, moment: Moment, limit: int) -> list[TrackedEntity]:
        """Return what was mentioned before a moment, the latest first, each once."""
        end = bisect_left(self._trail, moment, key=lambda each: each[0])
        trail = reversed(self._trail[max(0, end - 4 * limit) : end])
        return list({entity.id: entity for _, entity in trail}.values())[:limit]

    def by_head(self, head: str) -> list[TrackedEntity]:
        """Return the latest entities called by a noun."""
        return self._by_head.get(head, [])[-_MAX_SAME_WORD:]

    def by_word(self, word: str) -> list[TrackedEntity]:
        """Return the latest entities with a word in their name."""
        return self._by_word.get(word, [])[-_MAX_SAME_WORD:]

    def lists_before(self, moment: Moment) -> Iterator[MentionedList]:
        """Yield the lists before a moment, the latest first."""
        end = bisect_left(self.lists, moment, key=lambda each: each.moment)
        yield from reversed(self.lists[max(0, end - _MAX_LISTS) : end])

    def _new(self, mention: Mention) -> TrackedEntity:
        entity = TrackedEntity(len(self.entities), mention)
        self.entities.append(entity)
        if mention.form in ("name", "item", "value"):
            for word in set(mention.words):
                self._by_word.setdefault(word, []).append(entity)
        return entity

    def _alias(self, mention: Mention) -> TrackedEntity | None:
        """Return an entity with a longer or a shorter name of the same words."""
        if mention.form not in ("name", "item") or not mention.words:
            return None
        words = set(mention.words)
        for entity in reversed(self.by_word(mention.words[-1])[-_MAX_LISTS:]):
            first, known = entity.first, set(entity.first.words)
            if mention.form == "name" and words <= known and first.form in ("name", "item"):
                return entity
            is_person = entity.type == mention.type == "person"
            if known <= words and first.form == "name" and is_person:
                return entity
        return None


def group_of(members: Sequence[Entity]) -> Entity:
    """Return several entities as one, with the members in it."""
    mentions = sorted((m for each in members for m in each.mentions), key=lambda m: m.moment)
    label = ", ".join(each.label for each in members)
    types = {each.type for each in members}
    type = types.pop() if len(types) == 1 else "thing"
    members = tuple(members)
    return Entity(-1, label, type, "plural", "", tuple(mentions), (label,), members=members)


def placed(mention: Mention, message: int, source: str, base: int) -> Mention:
    """Return a mention read from a text, with the message and the position of that text."""
    return replace(mention, message=message, source=source, start=base + mention.start)


def _key(mention: Mention) -> object:
    if mention.form == "value" or (mention.type == "file" and mention.form == "name"):
        return mention.type, mention.text.lower()
    if mention.form in ("name", "item"):
        return "name", " ".join(mention.words) or mention.text.lower()
    return "noun", " ".join(mention.words), mention.number == "plural"
