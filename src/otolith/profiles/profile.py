"""The profile of a user: what was set, what is learned, why, and what the user agrees to.

Every change is staged like any edit of the state of the user, and committed with the rest. Nothing
that is believed is stored: it follows from the evidence (`key_view.py`), so two sessions that learn
at once believe the same after a merge as if they had learned one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from otolith.core import PROFILE, Blame, Branch, Commit, Path, Snapshot, StateReader
from otolith.durations import Duration, duration_microseconds
from otolith.errors import BadValue, CommitNotFound, Invalid, KeyNotFound, ReadOnly, Unsupported
from otolith.profiles import profile_export, statements
from otolith.profiles.current_view import CurrentView
from otolith.profiles.declared_settings import Settings, declarations
from otolith.profiles.evidence import (
    FEEDBACK_WEIGHT,
    Evidence,
    EvidenceKind,
    check_context,
    check_key,
    check_source,
    check_value,
    check_weight,
    source_id,
)
from otolith.profiles.key_view import changes_in, contradictions_in
from otolith.profiles.preference import (
    Contradiction,
    EvidenceLine,
    Explanation,
    Preference,
    PreferenceChange,
)
from otolith.profiles.profile_prompt import PreferenceIndex, ProfilePrompt, fill_prompt
from otolith.profiles.purposes import LEARNING, Purpose, Purposes, check_purpose, retention_seconds
from otolith.profiles.storage import EVIDENCE, PURPOSES, READ, SET, SETTINGS, StoredProfile
from otolith.shapes import check_argument
from otolith.state.base import clock_of
from otolith.text.tokens import estimate_tokens
from otolith.types import Clock

MIN_CONFIDENCE = 0.4
"""How sure the learner must be of a value for it to hold."""
_MAX_AHEAD = 24 * 3600 * 1_000_000
"""How far ahead of the clock imported evidence may be."""
_DROPPED_AT_ONCE = 64
"""How much evidence is looked at, whether it is too old, each time some is added."""


class Profile:
    """What is known about a user: `repo.user("ann").profile`.

        ann = repo.user("ann").profile
        ann.set("seat", "aisle")
        ann.prefer("seat").value         # "aisle"
        ann.commit("asked")

    `min_confidence` is how sure the learner must be of a value for it to hold. `clock` is that of
    the repo by default; the profile of a snapshot uses the time of its commit.
    """

    def __init__(
        self,
        state: StateReader,
        *,
        clock: Clock | None = None,
        min_confidence: float = MIN_CONFIDENCE,
        entropy: Callable[[int], bytes] | None = None,
        blame: Callable[[Path], list[Blame]] | None = None,
        erase: Callable[..., Any] | None = None,
    ) -> None:
        is_share = type(min_confidence) in (int, float) and 0 <= min_confidence <= 1
        if not is_share:
            raise BadValue(
                f"min_confidence must be from 0 to 1, got {min_confidence!r}",
                hint=f"{MIN_CONFIDENCE} is the default",
            )
        self.state = state
        self.min_confidence = min_confidence
        self._clock = clock_of(state) if clock is None else clock
        self._entropy = entropy
        self._blame = blame
        self._erase = erase
        self._store = StoredProfile(state)
        self._current = CurrentView(self._store, self._now, min_confidence, self._commits)
        self._ranking = PreferenceIndex()

    def __repr__(self) -> str:
        name = getattr(self.state, "session", "") or self.state
        return f"<Profile of {name}, {len(self.keys())} keys>"

    def _now(self) -> int:
        if self._clock is not None:
            return self._clock()
        return self.state.commit.time if isinstance(self.state, Snapshot) else 0

    # What is known

    def set(self, key: str, value: Any, *, context: str = "", source: Any = "") -> Evidence:
        """Set what the user wants; it holds until it is unset, whatever is observed.

        `context` is when it holds, such as "business trips".

        Raises:
            BadValue: the value is not plain data, or does not fit the declared setting.
        """
        self.settings.check(check_key(key), value)
        return self._add(Evidence(key, value, EvidenceKind.SET, context=context), source)

    def unset(self, key: str, *, context: str = "") -> None:
        """Take back what was set; what is learned holds again.

        Raises:
            KeyNotFound: nothing was set.
        """
        with self.state.lock:
            view = self._current.view(check_key(key)).context(check_context(context))
            if view.explicit is None:
                raise KeyNotFound(f"{key} is not set", hint="see profile.why(key)")
            self._add(Evidence(key, None, EvidenceKind.UNSET, context=context), "")

    def observe(
        self,
        key: str,
        value: Any,
        *,
        weight: float = 1.0,
        source: Any = "",
        purpose: str = LEARNING,
        context: str = "",
    ) -> Evidence:
        """Add evidence that the user prefers a value; what was set stays.

        `source` is where it is known from: a message, or the id of anything. The same from the same
        source counts once. Evidence that is older than a `forget` of the key is not added.

        Raises:
            NoConsent: the user has not agreed to the purpose, or to a sensitive subject.
            BadValue: the value is not plain data, or does not fit the declared setting.
        """
        self.settings.check(check_key(key), value)
        found = Evidence(
            key,
            value,
            EvidenceKind.CHOICE,
            weight=check_weight(weight),
            purpose=check_purpose(purpose),
            context=context,
        )
        return self._add(found, source)

    def feedback(
        self,
        key: str,
        value: Any,
        *,
        liked: bool,
        weight: float = FEEDBACK_WEIGHT,
        source: Any = "",
        purpose: str = LEARNING,
        context: str = "",
    ) -> Evidence:
        """Add that the user liked or disliked a value."""
        check_argument(liked, "liked", bool, "True or False")
        self.settings.check(check_key(key), value)
        found = Evidence(
            key,
            value,
            EvidenceKind.FEEDBACK,
            weight=check_weight(weight) if liked else -check_weight(weight),
            purpose=check_purpose(purpose),
            context=context,
        )
        return self._add(found, source)

    def _add(self, evidence: Evidence, source: Any) -> Evidence:
        """Check, date and stage a piece of evidence; return it as it is stored."""
        check_value(evidence.key, evidence.value)
        source_name, said = _source(source)
        evidence = replace(evidence, source=source_name, context=check_context(evidence.context))
        with self.state.lock:
            if not evidence.is_explicit:
                self.purposes.check(evidence)
            forgotten = self._store.forgotten(evidence.key)
            last = max(self._store.last_time(evidence.key), forgotten)
            time = max(self._now(), last + 1) if said is None else said
            if source_name:
                kind, key, value = evidence.kind, evidence.key, evidence.value
                id = source_id(kind, key, value, evidence.context, source_name)
            else:
                id = self._random_id()
            evidence = replace(evidence, time=time, id=id)
            if time > forgotten and not self._current.knows(evidence):
                before = self._store.cell(EVIDENCE, evidence.key)
                self._store.add(evidence)
                if not evidence.is_explicit:
                    self._current.extend(evidence, before)
                self._drop_old(evidence.key)
        return evidence

    def _random_id(self) -> str:
        if self._entropy is None:
            raise ReadOnly("this profile is for looking only", hint="open it with repo.user(id)")
        return self._entropy(8).hex()

    def _drop_old(self, key: str) -> None:
        """Remove some of the oldest evidence of a key whose time of retention is over."""
        purposes, now = self.purposes, self._now()
        if purposes.shortest_retention is not None:
            for old in list(islice(self._store.evidence(key), _DROPPED_AT_ONCE)):
                if purposes.is_over(old, now):
                    self._store.drop(old)

    # What follows

    def prefer(
        self, key: str, default: Any = None, *, context: str = "", purpose: str = LEARNING
    ) -> Preference:
        """Return what holds for a key: what was set, else what is learned, else the default.

        With a context, what holds in it comes before what holds always. Only evidence for the
        purpose counts. Without `default`, that of the declared setting is meant.
        """
        with self.state.lock:
            found = self._current.prefer(key, context, purpose)
        if found.basis == "default" and default is not None:
            return replace(found, value=default)
        is_plain = not isinstance(found.value, list | dict)
        return found if is_plain else replace(found, value=deepcopy(found.value))

    def preferences(self, *, purpose: str = LEARNING) -> list[Preference]:
        """Return all that holds, what was set first, then what is surest; no defaults."""
        with self.state.lock:
            found = [
                self.prefer(key, context=each.name, purpose=purpose)
                for key in self.keys()
                for each in [*self._current.view(key, purpose).contexts.values()]
            ]
        held = {(each.key, each.context): each for each in found if each.basis != "default"}
        return sorted(held.values(), key=lambda each: (-each.confidence, each.key, each.context))

    def keys(self) -> list[str]:
        """Return the keys of which anything is known, in their order."""
        with self.state.lock:
            return self._store.known_keys()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._store.knows(key)

    # Why

    def history(self, key: str) -> list[Evidence]:
        """Return all evidence of a key, the oldest first."""
        with self.state.lock:
            return self._store.history(check_key(key))

    def why(self, key: str, *, context: str = "") -> Explanation:
        """Return what holds for a key, with all of its evidence, each with its commit.

        Raises:
            KeyNotFound: nothing is known of it.
        """
        with self.state.lock:
            found = self.history(key)
            if not found:
                raise KeyNotFound(
                    f"nothing is known of {key!r}", hint="profile.keys() lists what is known"
                )
            is_used, commits = self._current.usable(key, None), self._commits_by_stamp(key)
            lines = [
                EvidenceLine(each, commits.get(each.stamp, ""), is_used(each)) for each in found
            ]
        return Explanation(self.prefer(key, context=context), tuple(lines))

    def _commits(self, evidence: Sequence[Evidence]) -> list[str]:
        """Return the ids of the commits of evidence of one key, each once."""
        if not evidence:
            return []
        commits = self._commits_by_stamp(evidence[0].key)
        found = (commits.get(each.stamp) for each in evidence)
        return list(dict.fromkeys(id for id in found if id is not None))

    def _commits_by_stamp(self, key: str) -> dict[str, str]:
        """Return which commit each piece of evidence of a key is from."""
        if self._blame is None:
            return {}
        found = [
            each
            for table in (SET, EVIDENCE)
            if self._store.cell(table, key) is not None
            for each in self._blame((PROFILE, table, key))
        ]
        return {each.path.rpartition("/")[2]: each.commit.id for each in found}

    def changes(
        self, since: datetime | Duration | Commit | None = None, *, key: str | None = None
    ) -> list[PreferenceChange]:
        """Return what changed: what was set and unset, and where taste drifted, in order of time.

        `since` is a time, a commit, or how long ago: "30d".
        """
        start = _start(since, self._now())
        with self.state.lock:
            keys = self.keys() if key is None else [check_key(key)]
            found = [
                each for name in keys for each in changes_in(name, self._current.whole_view(name))
            ]
        return sorted(
            (each for each in found if each.time >= start), key=lambda each: (each.time, each.key)
        )

    def contradictions(self) -> list[Contradiction]:
        """Return what to ask the user: evidence against what was set, statements that differ."""
        with self.state.lock:
            return [
                each
                for key in self.keys()
                for each in contradictions_in(key, self._current.view(key))
            ]

    def at(self, target: Commit | str | datetime) -> Profile:
        """Return the profile at a commit, or at a time, read-only.

        Raises:
            CommitNotFound: the profile did not exist yet.
        """
        if isinstance(target, datetime):
            target = self._commit_before(target)
        state: Any = self.state
        if not hasattr(state, "at"):
            raise Invalid(
                "this profile is of one commit already", hint="open repo.user(id).profile"
            )
        found = state.at(target)
        return Profile(
            found,
            min_confidence=self.min_confidence,
            blame=lambda path: state.blame(path, at=found.commit),
        )

    def _commit_before(self, time: datetime) -> Commit:
        """Return the last commit up to a time."""
        if time.tzinfo is None:
            time = time.astimezone()
        limit = int(time.timestamp() * 1_000_000)
        log: Iterator[Commit] = self.state.log()  # type: ignore[attr-defined]
        for commit in log:
            if commit.time <= limit:
                return commit
        raise CommitNotFound(
            f"there is no commit of this user up to {time:%Y-%m-%d %H:%M}",
            hint="see repo.user(id).log()",
        )

    # From conversations, for models

    def learn(self, conversation: statements.Dialogue, model: Any = None) -> statements.Learned:
        """Add what the user says of themselves in a conversation; each message is read once.

        Statements such as "I always want an aisle seat" are found by rules, in English. A `model`
        proposes more; what it proposes must be quoted from a message of the user.

        Raises:
            NoConsent: the user has not agreed to learning.
        """
        return statements.learn(self, conversation, model)

    def recall(self, question: str, k: int = 5) -> list[Preference]:
        """Return the best `k` preferences for a question."""
        check_argument(question, "question", str, "a text")
        if type(k) is not int or k < 0:
            raise BadValue(f"k must be 0 or more, got {k!r}", hint="use a count")
        with self.state.lock:
            return self._ranking.rank(self.preferences(), question)[:k]

    def prompt(
        self,
        budget: int = 300,
        *,
        about: str = "",
        purpose: str = LEARNING,
        count: Callable[[str], int] | None = None,
    ) -> ProfilePrompt:
        """Return what a model is told about the user, within a budget of tokens.

        What fits a question `about` comes first, then what was set, then what is surest. Values
        are quoted as data, so that none can pass for an instruction. `count` counts the tokens of
        a text; by default they are estimated.

        Raises:
            BadValue: the budget is not a count.
        """
        found = self.preferences(purpose=purpose)
        first = self._ranking.rank(found, about) if about else []
        ordered = list({(each.key, each.context): each for each in [*first, *found]}.values())
        return fill_prompt(ordered, budget, count=count or estimate_tokens)

    # What the user controls

    @property
    def settings(self) -> Settings:
        """The settings of the application: declared, typed, with defaults."""
        return Settings(self, self._store)

    def declare(self, model: type) -> Settings:
        """Declare settings by the fields of a class, with types and defaults.

        class Answers:
            length: Annotated[Literal["short", "long"], "How long answers are"] = "short"

        Raises:
            BadValue: a field has no default, or a type that a setting cannot have.
        """
        found = declarations(model)
        with self.state.lock:
            for name, data in found.items():
                self._store.put(data, SETTINGS, name)
        return self.settings

    @property
    def purposes(self) -> Purposes:
        """What evidence may be used for, by name."""
        return self._current.purposes

    def consent(self, purpose: str, granted: bool) -> Purpose:  # noqa: FBT001 - `consent("x", True)` reads as it is meant
        """Record whether the user agrees to a purpose or to a sensitive subject.

        Without consent, its evidence is neither written nor used; what is there is used again if
        the user agrees again, unless it was forgotten meanwhile.
        """
        check_argument(granted, "granted", bool, "True or False")
        return self._edit_purpose(purpose, consent=granted, since=self._now())

    def retain(self, purpose: str, time: Duration | None, *, about: str | None = None) -> Purpose:
        """Use evidence of a purpose for so long: "90d"; None for as long as the profile exists."""
        given: dict[str, Any] = {} if about is None else {"about": about}
        return self._edit_purpose(purpose, retention_seconds=retention_seconds(time), **given)

    def _edit_purpose(self, name: str, **given: Any) -> Purpose:
        with self.state.lock:
            found = replace(self.purposes.get(check_purpose(name), Purpose(name)), **given)
            self._store.put(found.to_data(), PURPOSES, name)
        return found

    def forget(self, key: str) -> None:
        """Drop all that is known of a key; the history of the user still has it.

        What is read again from older messages is not learned again.

        Raises:
            KeyNotFound: nothing is known of it.
        """
        with self.state.lock:
            if check_key(key) not in self:
                raise KeyNotFound(f"nothing is known of {key!r}", hint="see profile.keys()")
            last = max(self._store.last_time(key), self._store.forgotten(key))
            self._store.forget(key, max(self._now(), last))

    def expire(self) -> int:
        """Remove all evidence that is too old, or was forgotten; return how much it was."""
        with self.state.lock:
            now, is_over = self._now(), self.purposes.is_over
            outdated = [
                each
                for key in self.keys()
                for each in [*self._store.settled(key), *self._store.evidence(key)]
                if each.time <= self._store.forgotten(key)
                or (not each.is_explicit and is_over(each, now))
            ]
            for old in outdated:
                self._store.drop(old)
        return len(outdated)

    def export(self, path: Any = None) -> dict[str, Any]:
        """Return all that is known as plain data, and write it to a file as JSON if one is named.

        The data has what is believed, all evidence, purposes and settings.
        """
        with self.state.lock:
            return profile_export.export(self._store, self.preferences(), self.purposes, path)

    def load(self, source: Any) -> int:
        """Add what was exported, from a file or its data; return how much evidence was new.

        Raises:
            BadValue: it is not such an export; nothing is added.
            NoConsent: the user has not agreed to what some of it is for; nothing is added.
        """
        with self.state.lock:
            count, refused = profile_export.load(self._store, source, self._check_loaded)
            for name in refused:
                if self.purposes.get(name, Purpose(name)).consent is None:
                    self.consent(name, granted=False)
        return count

    def _check_loaded(self, evidence: Evidence) -> None:
        """Refuse evidence of an export that could not be added here."""
        if evidence.time > self._now() + _MAX_AHEAD:
            raise BadValue(f"{evidence.key}: {evidence.stamp} is of the future", hint="correct it")
        if evidence.weight < 0 and evidence.kind is EvidenceKind.CHOICE:
            raise BadValue(f"{evidence.key}: a choice has a weight above 0", hint="correct it")
        check_source(evidence.source)
        if evidence.kind is not EvidenceKind.UNSET:
            self.settings.check(evidence.key, evidence.value)
        if not evidence.is_explicit:
            self.purposes.check(evidence)

    def erase(self, *, sessions: str | None = None, rebuild: bool = True) -> Any:
        """Erase all of this user: every branch of the state, and its history.

        Sessions that are linked to the user hold copies: `sessions` says whether to "delete" or to
        "keep" them. With `rebuild` the store is pruned at once, so that no file of it has a byte of
        what was dropped. Afterwards the profile cannot be opened again: `Erased`. Returns a
        receipt, which the store keeps too, without the name.

        Raises:
            Invalid: there are such sessions, and `sessions` does not say what to do with them.
        """
        if self._erase is None:
            raise Invalid(
                "a profile at a commit cannot be erased", hint="open repo.user(id).profile"
            )
        receipt = self._erase(sessions=sessions, rebuild=rebuild)
        self._store.is_erased = True
        return receipt

    def commit(self, message: str = "", **options: Any) -> Commit:
        """Commit the state of the user: `profile.state.commit`."""
        commit: Commit = self.state.commit(message, **options)  # type: ignore[attr-defined]
        return commit

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to commit in the state of the user."""
        return isinstance(self.state, Branch) and self.state.is_clean

    # For statements

    def add_statement(self, evidence: Evidence, source: Any) -> Evidence:
        """Stage what the user said; a statement that is known already is not added again."""
        return self._add(evidence, source)

    def read_until(self, thread: str) -> Any:
        """Return how far a conversation was read."""
        return self._store.value(READ, thread)

    def mark_read(self, thread: str, place: Any) -> None:
        """Stage how far a conversation was read."""
        self._store.put(place, READ, thread)


def open_profile(state: Any, *, erase: Callable[..., Any]) -> Profile:
    """Return the profile in the state of a user.

    Raises:
        Unsupported: this is the state of something else.
    """
    if state.scope != "user":
        raise Unsupported(
            f"the {state.scope} {state.session} has no profile; users have one",
            hint="repo.user(id).profile, or state.user.profile of a session with user=id",
        )

    def blame(path: Path) -> list[Blame]:
        found: list[Blame] = [] if state.head is None else state.blame(path)
        return found

    return Profile(state, entropy=state.repo.backend.entropy, blame=blame, erase=erase)


def _source(source: Any) -> tuple[str, int | None]:
    """Return the name of a source, and its time if it has one: of a text, or of a message.

    Raises:
        BadValue: it is neither.
    """
    if isinstance(source, str):
        return check_source(source), None
    id, time = getattr(source, "id", None), getattr(source, "time", None)
    if not isinstance(id, str) or not id:
        raise BadValue(
            f"source must be a text, or something with an id such as a message, got {source!r}",
            hint="give the id of what it is known from",
        )
    return check_source(id), time if type(time) is int and time > 0 else None


def _start(since: datetime | Duration | Commit | None, now: int) -> int:
    """Return the time from which changes are meant, in microseconds since 1970.

    Raises:
        BadValue: it is something else.
    """
    if since is None:
        return -1
    if isinstance(since, Commit):
        return since.time + 1
    if isinstance(since, datetime):
        moment = since if since.tzinfo is not None else since.astimezone()
        return int(moment.timestamp() * 1_000_000)
    ago = duration_microseconds(since)
    if ago is None:
        raise BadValue(
            f"since must be a time, a commit, or how long ago, got {since!r}", hint='use "30d"'
        )
    return now - ago
