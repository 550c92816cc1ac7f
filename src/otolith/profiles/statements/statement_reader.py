"""Reads conversations: each message of the user once, what it says as evidence, what was refused.

How far a conversation was read is stored with the profile, for the rules and for models apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from otolith import text as language
from otolith.core import digest
from otolith.errors import BadValue, Error, NoConsent
from otolith.profiles.declared_settings import Settings
from otolith.profiles.evidence import STATEMENT_WEIGHT, Evidence, EvidenceKind, check_key
from otolith.profiles.preference import Contradiction, Preference
from otolith.profiles.purposes import LEARNING, Purposes, sensitive_subjects
from otolith.profiles.statements.clauses import MAX_LETTERS
from otolith.profiles.statements.facts import Fact
from otolith.profiles.statements.model_proposals import (
    MAX_QUOTE_LETTERS,
    Said,
    answer_of,
    batches,
    fact_in,
    proposals_in,
)
from otolith.profiles.statements.preference_rules import read_facts
from otolith.profiles.statements.setting_matcher import SettingMatcher
from otolith.profiles.statements.statement_words import word_list
from otolith.types import short_repr

_USER, _ASSISTANT = "user", "assistant"
_MODEL = " (model)"
_ACCOUNT = re.compile(r"(?:\d[ -]?){7}")


class DialogueMessage(Protocol):
    """What a message offers: an id, who wrote it, its text, and when."""

    @property
    def id(self) -> str:
        """Its id; empty if it has none."""

    @property
    def role(self) -> str:
        """The author: "user", "assistant" …"""

    @property
    def text(self) -> str:
        """Its text."""

    @property
    def time(self) -> int:
        """In microseconds since 1970; 0 if unknown."""


class Dialogue(Protocol):
    """What a conversation offers: its name and its messages, the oldest first."""

    @property
    def thread_name(self) -> str:
        """The name of the thread."""

    def __len__(self) -> int: ...
    def messages(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield messages from a place on."""


class StatementStore(Protocol):
    """What a `Profile` offers for statements."""

    state: Any

    @property
    def settings(self) -> Settings:
        """The declared settings."""

    @property
    def purposes(self) -> Purposes:
        """What the user agrees to."""

    def __contains__(self, key: object) -> bool: ...
    def keys(self) -> list[str]:
        """Return the keys of which anything is known."""

    def history(self, key: str) -> list[Evidence]:
        """Return all evidence of a key, the oldest first."""

    def prefer(self, key: str) -> Preference:
        """Return what holds for a key."""

    def contradictions(self) -> list[Contradiction]:
        """Return what to ask the user."""

    def add_statement(self, evidence: Evidence, source: Any) -> Evidence:
        """Stage what the user said."""

    def read_until(self, thread: str) -> Any:
        """Return how far a conversation was read."""

    def mark_read(self, thread: str, place: Any) -> None:
        """Stage how far a conversation was read."""


@short_repr("reason", "key", "message")
@dataclass(frozen=True, slots=True)
class RefusedStatement:
    """Something that was said, or proposed, and not learned."""

    reason: str
    key: str = ""
    """Empty if it is about a sensitive subject."""
    message: str = ""
    """The id of the message."""
    purpose: str = ""
    """The purpose that the user has not agreed to, such as "health"."""

    def __str__(self) -> str:
        return ": ".join(each for each in (self.key, self.reason) if each)


@short_repr("evidence", "refused", "contradictions")
@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned from a conversation."""

    evidence: tuple[Evidence, ...] = ()
    """What is new, in the order in which it was said."""
    refused: tuple[RefusedStatement, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    """Of the keys that something new was said about, each with what to ask."""
    messages: int = 0
    """How many messages were read."""

    def __str__(self) -> str:
        count = len(self.evidence)
        head = f"{count} statement{'' if count == 1 else 's'} from {self.messages} messages"
        found = [f'  {_line(each)}  "{each.quote}"' for each in self.evidence]
        refused = [f"  not learned: {each}" for each in self.refused]
        asked = [f"  ask: {each.question}" for each in self.contradictions]
        return "\n".join([head, *found, *refused, *asked])


def _line(evidence: Evidence) -> str:
    sign = "not " if evidence.weight < 0 else ""
    where = f" ({evidence.context})" if evidence.context else ""
    return f"{evidence.key}: {sign}{evidence.option}{where}"


class _Source(NamedTuple):
    """A message as `Profile` stores it: what is said later in it has a later time."""

    id: str
    time: int


def learn(profile: StatementStore, conversation: Dialogue, model: Any = None) -> Learned:
    """Add what the user says of themselves in a conversation; each message is read once.

    Raises:
        NoConsent: the user has not agreed to learning; what they said so far is never learned.
        BadValue: this is not a conversation.
    """
    if not callable(getattr(conversation, "messages", None)):
        raise BadValue(
            f"learn reads a conversation, got {type(conversation).__name__}",
            hint="give state.conversation",
        )
    with profile.state.lock:
        if not profile.purposes[LEARNING].allowed:
            for suffix in ("", _MODEL):  # what is said now is not learned later either
                place = _Place(profile, conversation, suffix)
                place.unread()
                place.mark()
        profile.purposes.check(Evidence("statements", None, EvidenceKind.STATEMENT))
        reader = _Reader(profile)
        place = _Place(profile, conversation, "")
        said = place.unread()
        for each in said:
            reader.read(each)
        place.mark()
    if model is not None:
        place = _Place(profile, conversation, _MODEL)
        asked = place.unread()
        if asked and reader.ask(model, asked, conversation):
            place.mark()
        said = said or asked
    return reader.learned(len(said))


class _Place:
    """How far a conversation was read: how many messages, and the id of the last of them.

    Another branch, or an edited thread, has another message there; then all of it is read again,
    which adds nothing twice.
    """

    def __init__(self, profile: StatementStore, conversation: Dialogue, suffix: str) -> None:
        session = getattr(getattr(conversation, "state", None), "session", "")
        self._profile = profile
        self._conversation = conversation
        self._name = f"{session}/{conversation.thread_name}{suffix}"
        self._length, self._last = len(conversation), ""

    def unread(self) -> list[Said]:
        """Return the messages of the user that were not read."""
        start = self._start()
        found: list[Said] = []
        is_answered = False
        first = max(start - 1, 0)
        for at, message in enumerate(self._conversation.messages(first), first):
            role, text = str(message.role), message.text
            self._last = _id(message, at)
            if at >= start and role == _USER and text:
                found.append(Said(self._last, text, message.time, is_answered))
            is_answered = role == _ASSISTANT
        return found

    def _start(self) -> int:
        stored = self._profile.read_until(self._name)
        count, last = (
            (stored.get("count"), stored.get("id")) if isinstance(stored, dict) else (0, "")
        )
        if type(count) is not int or not 0 < count <= self._length:
            return 0
        at = count - 1
        before = next(iter(self._conversation.messages(at, count)), None)
        return count if before is not None and _id(before, at) == last else 0

    def mark(self) -> None:
        """Stage that all of it was read."""
        if self._last:
            self._profile.mark_read(self._name, {"count": self._length, "id": self._last})


def _id(message: DialogueMessage, at: int) -> str:
    """Return the id of a message; of one without, a digest of its place and text."""
    return message.id or digest(f"{at}\0{message.role}\0{message.text}".encode())[:8].hex()


@dataclass(slots=True)
class _Reader:
    """Adds what messages say to a profile, and notes what it does not add."""

    profile: StatementStore
    matcher: SettingMatcher = field(init=False)
    evidence: list[Evidence] = field(default_factory=list)
    refused: list[RefusedStatement] = field(default_factory=list)
    known: dict[str, set[str]] = field(default_factory=dict)
    """The ids of the evidence of the keys that something was said about."""

    def __post_init__(self) -> None:
        self.matcher = SettingMatcher(self.profile.settings)

    def read(self, said: Said) -> None:
        """Add what the rules find in a message."""
        if len(said.text) > MAX_LETTERS:
            reason = f"only the first {MAX_LETTERS:,} letters of the message were read"
            self._refuse(reason, said)
        for number, fact in enumerate(read_facts(said.text, follows_answer=said.follows_answer)):
            if fact.forgets:
                self._forget(fact, said, number)
            elif not fact.is_wish or self._knows(fact.key):
                self._add(fact, said, number)

    def _knows(self, key: str) -> bool:
        return key in self.profile or self.matcher.match(key, None) is not None

    def _add(self, fact: Fact, said: Said, number: int) -> None:
        """Add a fact, unless the user has not agreed, or it does not fit a setting."""
        reason = _secret_reason(fact)
        if reason:
            self._refuse(reason, said, fact.key)
            return
        if subject := self._forbidden(fact):
            self._refuse(f"the user has not agreed to {subject}", said, purpose=subject)
            return
        key, value = self.matcher.fit(fact.key, fact.value)
        is_choice = fact.is_wish
        weight = 1.0 if is_choice else STATEMENT_WEIGHT
        evidence = Evidence(
            key,
            value,
            EvidenceKind.CHOICE if is_choice else EvidenceKind.STATEMENT,
            weight=-weight if fact.is_against else weight,
            context=fact.context,
            quote=language.clip(fact.quote, MAX_QUOTE_LETTERS),
        )
        self._store(evidence, said, number)

    def _forbidden(self, fact: Fact) -> str:
        """Return the sensitive subject of a fact or its quotation that was not agreed to."""
        subjects = sensitive_subjects(f"{fact.key} {fact.quote}", fact.value, fact.context)
        purposes = self.profile.purposes
        return next((each for each in subjects if not purposes[each].allowed), "")

    def _store(self, evidence: Evidence, said: Said, number: int) -> None:
        try:
            check_key(evidence.key)
            self.profile.settings.check(evidence.key, evidence.value)
            source = _Source(said.id, said.time + number if said.time > 0 else 0)
            known = self._ids(evidence.key)
            stored = self.profile.add_statement(evidence, source)
        except NoConsent as error:
            self._refuse(error.message, said, purpose=error.purpose)
        except BadValue as error:
            self._refuse(error.message, said, evidence.key)
        else:
            if stored.id not in known:
                known.add(stored.id)
                self.evidence.append(stored)

    def _ids(self, key: str) -> set[str]:
        """Return the ids of the evidence of a key."""
        if key not in self.known:
            self.known[key] = {each.id for each in self.profile.history(key)}
        return self.known[key]

    def _forget(self, fact: Fact, said: Said, number: int) -> None:
        """Speak against what was said before about what is to be forgotten."""
        stems = set(language.content_words(fact.forgets))
        for key in list(self.profile.keys()):
            if not stems or not stems <= set(language.content_words(key)):
                continue
            if self.profile.prefer(key).basis == "set":
                reason = "it was set, and stays set; profile.unset(key) takes it back"
                self._refuse(reason, said, key)
            for each in _held(self.profile.history(key), said):
                taken_back = replace(
                    each,
                    kind=EvidenceKind.STATEMENT,
                    weight=-STATEMENT_WEIGHT,
                    quote=language.clip(fact.quote, MAX_QUOTE_LETTERS),
                )
                self._store(taken_back, said, number)

    def _refuse(self, reason: str, said: Said, key: str = "", *, purpose: str = "") -> None:
        self.refused.append(RefusedStatement(reason, key, said.id, purpose))

    # Models

    def ask(self, model: Any, said: Sequence[Said], conversation: Dialogue) -> bool:
        """Add what a model proposes; return whether every answer of it could be read."""
        is_read = True
        for batch in batches(said):
            answer = answer_of(model, batch, conversation, self.profile.keys())
            try:
                proposals = proposals_in(answer)
            except BadValue as error:
                self.refused.append(RefusedStatement(error.message))
                is_read = False
                continue
            with self.profile.state.lock:
                for number, data in enumerate(proposals):
                    self._add_proposal(data, batch, number)
        return is_read

    def _add_proposal(self, data: Any, batch: Sequence[Said], number: int) -> None:
        """Add one proposal, if it is one and quotes a message."""
        try:
            fact = fact_in(data)
        except (Error, ValueError) as error:
            message = error.message if isinstance(error, Error) else str(error)
            self.refused.append(RefusedStatement(f"proposal {number + 1}: {message}"))
            return
        source = next((each for each in batch if fact.quote in each.text), None)
        if source is None:
            reason = f"proposal {number + 1}: no message of the user says {fact.quote[:80]!r}"
            self.refused.append(RefusedStatement(reason, fact.key))
        else:
            self._add(fact, source, 100 + number)

    def learned(self, messages: int) -> Learned:
        """Return what was learned, with the contradictions in it."""
        keys = dict.fromkeys(each.key for each in self.evidence)
        stored = {(key, each.id) for key in keys for each in self.profile.history(key)}
        evidence = [each for each in self.evidence if (each.key, each.id) in stored]
        asked = [each for each in self.profile.contradictions() if each.key in keys] if keys else []
        return Learned(tuple(evidence), tuple(self.refused), tuple(asked), messages)


def _secret_reason(fact: Fact) -> str:
    """Return why a fact looks like a secret; empty if it does not."""
    text = f"{fact.key} {fact.value if isinstance(fact.value, str) else ''}"
    words = {word.lower for word in language.words_in(text)}
    if words & word_list("secret"):
        return "it looks like a secret, and secrets are not learned"
    return "it looks like a number of an account" if _ACCOUNT.search(text) else ""


def _held(history: Iterable[Evidence], said: Said) -> list[Evidence]:
    """Return what was said before a message and not taken back, once for each value and context."""
    held: dict[tuple[str, str], Evidence] = {}
    for each in history:
        place = each.option, each.context
        if each.kind is not EvidenceKind.STATEMENT or (0 < said.time <= each.time):
            continue
        if each.source == said.id:
            continue
        if each.weight > 0:
            held[place] = each
        else:
            held.pop(place, None)
    return list(held.values())
