"""CurrentView: what holds for each key, made when it is first asked for, and then kept current.

What is set holds before what is learned, and what is learned, if it is sure enough, before a
default. Nothing of it is stored. A view of a key is made again when its evidence was changed by
others, when a purpose was changed, and when its oldest evidence is too old to be used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from otolith.profiles.declared_settings import default_of
from otolith.profiles.evidence import Evidence, check_context, check_key
from otolith.profiles.key_view import ContextView, KeyView, window
from otolith.profiles.preference import Preference, RunnerUp, instant
from otolith.profiles.purposes import LEARNING, Purposes
from otolith.profiles.storage import EVIDENCE, PURPOSES, SET, StoredProfile


class _CachedView(NamedTuple):
    """A view of a key, and what it was made from."""

    evidence: bytes | None
    size: int
    """Of how much evidence it was made."""
    others: tuple[bytes | None, ...]
    """What was set, and the purposes."""
    until: int | None
    """When its oldest evidence is not used any more."""
    view: KeyView


class CurrentView:
    """What holds for each key of a profile. Callers hold the lock of the state."""

    def __init__(
        self,
        store: StoredProfile,
        now: Callable[[], int],
        min_confidence: float,
        commits: Callable[[Sequence[Evidence]], list[str]],
    ) -> None:
        self._store = store
        self._now = now
        self._min_confidence = min_confidence
        self._commits = commits
        self._root: bytes | None = None
        self._found: dict[tuple[str, str, str], Preference] = {}
        self._views: dict[tuple[str, str], _CachedView] = {}
        self._ids: dict[str, tuple[bytes | None, set[str]]] = {}
        self._purposes: tuple[bytes | None, Purposes] | None = None

    @property
    def purposes(self) -> Purposes:
        """What evidence may be used for, by name."""
        cell = self._store.cell(PURPOSES)
        if self._purposes is None or self._purposes[0] != cell:
            names = self._store.names(PURPOSES)
            found = Purposes({name: self._store.value(PURPOSES, name) for name in names})
            self._purposes = cell, found
        return self._purposes[1]

    def prefer(self, key: str, context: str, purpose: str) -> Preference:
        """Return what holds for a key."""
        root = self._store.cell()
        if root != self._root or root is None:
            self._root = root
            self._found.clear()
        place = (key, context, purpose)
        found = self._found.get(place)
        if found is None or self._is_over(self._views[key, purpose].until):
            found = self._found[place] = self._made(check_key(key), context, purpose)
        return found

    def knows(self, evidence: Evidence) -> bool:
        """Tell whether there is evidence from the same source."""
        if not evidence.source or evidence.is_explicit:
            return False
        cell, ids = self._ids.get(evidence.key, (None, set[str]()))
        stored = self._store.cell(EVIDENCE, evidence.key)
        if stored != cell:
            ids = self._store.ids(evidence.key)
            self._ids[evidence.key] = stored, ids
        return evidence.id in ids

    def extend(self, evidence: Evidence, before: bytes | None) -> None:
        """Add evidence that was just staged to what is known of its key."""
        key = evidence.key
        after = self._store.cell(EVIDENCE, key)
        if key in self._ids:
            self._ids[key][1].add(evidence.id)
            self._ids[key] = after, self._ids[key][1]
        for place, known in self._views.items():
            size = known.size + 1
            begins_there = size - window(size) == known.size - window(known.size)
            is_current = place[0] == key and known.evidence == before and known.until is None
            if is_current and begins_there and known.view.extend(evidence):
                self._views[place] = known._replace(evidence=after, size=size)

    def view(self, key: str, purpose: str = LEARNING) -> KeyView:
        """Return what follows from the evidence of a key, as far as it may be used."""
        evidence, others = self._store.cell(EVIDENCE, key), self._others(key)
        known = self._views.get((key, purpose))
        is_current = known is not None and (known.evidence, known.others) == (evidence, others)
        if known is not None and is_current and not self._is_over(known.until):
            return known.view
        view = KeyView(self._counted(key), self.usable(key, purpose))
        keep, oldest = self.purposes.shortest_retention, view.oldest_time
        until = None if keep is None or oldest is None else oldest + int(keep * 1_000_000)
        size = self._store.count(key)
        self._views[key, purpose] = _CachedView(evidence, size, others, until, view)
        return view

    def _others(self, key: str) -> tuple[bytes | None, ...]:
        """Return the cells that a view depends on beside its evidence."""
        return self._store.cell(SET, key), self._store.cell(PURPOSES)

    def _is_over(self, until: int | None) -> bool:
        return until is not None and self._now() >= until

    def _counted(self, key: str) -> list[Evidence]:
        """Return the evidence of a key that counts, the oldest first."""
        newest = self._store.newest(key, window(self._store.count(key)))
        return sorted([*self._store.settled(key), *newest], key=lambda each: each.stamp)

    def usable(self, key: str, purpose: str | None = LEARNING) -> Callable[[Evidence], bool]:
        """Return a function that tells whether evidence may be used for a purpose, or for any."""
        purposes, now, forgotten = self.purposes, self._now(), self._store.forgotten(key)

        def is_used(each: Evidence) -> bool:
            if each.time <= forgotten:
                return False
            if each.is_explicit:
                return True
            return purposes.may_use(each, now) and purpose in (None, each.purpose)

        return is_used

    def _made(self, key: str, context: str, purpose: str) -> Preference:
        """Return what holds for a key."""
        view = self.view(key, purpose)
        contexts = [view.context(name) for name in dict.fromkeys([check_context(context), ""])]
        for each in contexts:
            if each.explicit is not None:
                return self._of_explicit(key, each)
        for each in contexts:
            best = each.learner.best()
            if best is not None and best.confidence >= self._min_confidence:
                return self._of_learner(key, each)
        return Preference(key, default_of(self._store, key), 0.0, "default")

    def _of_explicit(self, key: str, view: ContextView) -> Preference:
        found = view.explicit
        assert found is not None
        best = view.learner.best()
        runner = None
        if best is not None and best.text != found.option:
            runner = RunnerUp(json.loads(best.text), best.confidence)
        return Preference(
            key,
            found.value,
            1.0,
            "set",
            instant(found.time),
            runner,
            view.name,
            lambda: self._commits([found]),
        )

    def _of_learner(self, key: str, view: ContextView) -> Preference:
        best, *others = view.learner.ranking()
        runner = RunnerUp(json.loads(others[0].text), others[0].confidence) if others else None
        start = view.learner.since(best.text)
        return Preference(
            key,
            json.loads(best.text),
            best.confidence,
            "learned",
            instant(view.learned[start].time),
            runner,
            view.name,
            lambda: self._commits(view.learned),
        )

    def whole_view(self, key: str) -> KeyView:
        """Return what follows from all evidence of a key, however old."""
        return KeyView(self._store.history(key), self.usable(key))
