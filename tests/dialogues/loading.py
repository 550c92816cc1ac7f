"""Read the dialogues, and say what is wrong with one that does not hold together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROLES = ("user", "assistant", "tool")
KINDS = ("pronoun", "ordinal", "demonstrative", "definite", "ellipsis")
REASONS = ("ambiguous", "nothing", "statement")


@dataclass(frozen=True)
class Message:
    """One message; `items` are the things it showed, in order."""

    role: str
    text: str
    items: tuple[str, ...] = ()
    tool: str | None = None

    def names(self, entity: str) -> bool:
        return any(entity in told for told in (self.text, *self.items))


@dataclass(frozen=True)
class Topic:
    """What a stretch of messages, or several, is about; a span holds its last message too."""

    label: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Reference:
    """A phrase that stands for things mentioned earlier; for none if `entities` is empty."""

    message: int
    phrase: str
    start: int
    kind: str
    entities: tuple[str, ...]
    mentioned_in: tuple[int, ...]
    also: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True)
class Dialogue:
    """A conversation and what a careful reader says of it."""

    id: str
    language: str
    messages: tuple[Message, ...]
    topics: tuple[Topic, ...]
    references: tuple[Reference, ...]

    def topic_of(self, index: int) -> str | None:
        """Return the label of the topic a message belongs to, or None for small talk."""
        for topic in self.topics:
            if any(first <= index <= last for first, last in topic.spans):
                return topic.label
        return None


def dialogues() -> list[Dialogue]:
    """Return every dialogue, sorted by id."""
    return [load(path) for path in sorted(FOLDER.glob("d[0-9][0-9].json"))]


def load(path: Path) -> Dialogue:
    """Read one file; whether what it says makes sense is for `problems` to tell."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Dialogue(
        id=raw["id"],
        language=raw["language"],
        messages=tuple(map(_message, raw["messages"])),
        topics=tuple(map(_topic, raw["topics"])),
        references=tuple(map(_reference, raw["references"])),
    )


def problems(dialogue: Dialogue) -> list[str]:
    """Return a sentence for everything that does not hold together; none is how it should be."""
    return [*_of_messages(dialogue), *_of_topics(dialogue), *_of_references(dialogue)]


def _message(raw: dict[str, Any]) -> Message:
    return Message(raw["role"], raw["text"], tuple(raw.get("items", ())), raw.get("tool"))


def _topic(raw: dict[str, Any]) -> Topic:
    return Topic(raw["label"], tuple((first, last) for first, last in raw["spans"]))


def _reference(raw: dict[str, Any]) -> Reference:
    return Reference(
        message=raw["message"],
        phrase=raw["phrase"],
        start=raw["start"],
        kind=raw["kind"],
        entities=_several(raw["entity"]),
        mentioned_in=_several(raw["mentioned_in"]),
        also=tuple(raw.get("also", ())),
        why=raw.get("why"),
    )


def _several(one_or_more: Any) -> tuple[Any, ...]:
    if one_or_more is None:
        return ()
    return tuple(one_or_more) if isinstance(one_or_more, list) else (one_or_more,)


def _of_messages(dialogue: Dialogue) -> Iterator[str]:
    for index, message in enumerate(dialogue.messages):
        if message.role not in ROLES:
            yield f"message {index} has the unknown role {message.role!r}"
        if not message.text.strip():
            yield f"message {index} is empty"
        if (message.tool is not None) != (message.role == "tool"):
            yield f"message {index}: tool results name their tool, and nothing else does"


def _of_topics(dialogue: Dialogue) -> Iterator[str]:
    count = len(dialogue.messages)
    holders = Counter[int]()
    for topic in dialogue.topics:
        for first, last in topic.spans:
            if not 0 <= first <= last < count:
                yield f"topic {topic.label!r} has the span {first} to {last} of {count} messages"
            holders.update(range(first, last + 1))
        if not topic.spans:
            yield f"topic {topic.label!r} has no span"
    for index, times in sorted(holders.items()):
        if times > 1:
            yield f"message {index} is in {times} spans"


def _of_references(dialogue: Dialogue) -> Iterator[str]:
    for reference in dialogue.references:
        where = f"{reference.phrase!r} in message {reference.message}"
        if not 0 <= reference.message < len(dialogue.messages):
            yield f"{where}: there is no such message"
            continue
        text = dialogue.messages[reference.message].text
        if not (reference.phrase and text.startswith(reference.phrase, reference.start)):
            yield f"{where} is not at {reference.start}"
        if reference.kind not in KINDS:
            yield f"{where} has the unknown kind {reference.kind!r}"
        if reference.entities:
            yield from (f"{where}: {wrong}" for wrong in _of_entities(dialogue, reference))
        elif reference.why not in REASONS or reference.mentioned_in:
            yield f"{where} stands for nothing, and does not say why"


def _of_entities(dialogue: Dialogue, reference: Reference) -> Iterator[str]:
    if len(reference.entities) != len(reference.mentioned_in):
        yield "each entity is mentioned in one message"
    for entity, index in zip(reference.entities, reference.mentioned_in, strict=False):
        if not 0 <= index <= reference.message:
            yield f"{entity!r} is mentioned in {index}, which is not earlier"
        elif not dialogue.messages[index].names(entity):
            yield f"{entity!r} is not in message {index}"
