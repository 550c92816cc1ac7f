"""Notes: written, used, fading, recalled and forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from otolith.agent.memory.fading import HALF_LIFE_SECONDS
from otolith.agent.memory.note import MOST_VERSIONS, Note, is_number
from otolith.agent.memory.recalling import Recalled, Relevance, Words, relevances
from otolith.agent.memory.record import NOTES, Record
from otolith.agent.memory.view import View
from otolith.core import Reading
from otolith.errors import BadValue, KeyNotFound
from otolith.types import Clock


class Notes(Mapping[str, Note]):
    """The notes that are not forgotten, by key; each is read when it is asked for."""

    def __init__(self, state: Reading, record: Record) -> None:
        self._state = state
        self._record = record

    def __getitem__(self, key: str) -> Note:
        with self._state.turn():
            note = self._record.note(key) if key and isinstance(key, str) else None
        if note is None or note.is_forgotten:
            raise KeyNotFound(f"nothing is noted under {key!r}", hint="see list(memory.notes)")
        return note

    def __iter__(self) -> Iterator[str]:
        return iter([note.key for note in self.all()])

    def __len__(self) -> int:
        return len(self.all())

    def __repr__(self) -> str:
        return f"<Notes: {', '.join(self) or 'none'}>"

    def all(self) -> list[Note]:
        """Return the notes, in the order of their keys."""
        with self._state.turn():
            notes = [self._record.load_note(*each) for each in self._record.note_cells()]
        return [note for note in notes if not note.is_forgotten]


class Noting(View):
    """The part of a memory that is about notes."""

    def __init__(
        self,
        state: Reading,
        *,
        clock: Clock | None = None,
        half_life_seconds: float = HALF_LIFE_SECONDS,
        relevance: Relevance | None = None,
    ) -> None:
        if not (is_number(half_life_seconds) and half_life_seconds > 0):
            raise BadValue(f"half_life_seconds={half_life_seconds!r}", hint="use a number above 0")
        super().__init__(state, clock=clock)
        self.half_life_seconds = half_life_seconds
        self._relevance = relevance
        self._words = Words()

    @property
    def notes(self) -> Notes:
        """What is noted, by key."""
        return Notes(self.state, self._record)

    def note(
        self,
        key: str,
        value: Any,
        importance: float | None = None,
        *,
        pinned: bool | None = None,
        source: str = "",
        half_life_seconds: float | None = None,
        replaces: str = "",
    ) -> Note:
        """Note something under a key; what was noted there before is linked from it.

        `importance` is from 0 to 1: 0.5, or what it was before. What is pinned never fades, and
        stays pinned until somebody says otherwise. `replaces` is the key of another note that this
        one contradicts: it is not recalled any more, and says what replaced it.

        Raises:
            BadValue: the value cannot be kept, or the importance is no such number.
            KeyNotFound: there is no note to be replaced.
        """
        if type(key) is not str or not key:
            raise BadValue(f"{key!r} is no key", hint="use a word")
        with self.state.turn():
            before = self._record.note(key) or Note(key, None, is_forgotten=True)
            now = max(self._now(), before.time)
            made = _after(before, value, source, now, is_same=self._says(key, value))
            given: dict[str, Any] = {
                "importance": importance,
                "is_pinned": pinned,
                "half_life_seconds": half_life_seconds,
            }
            made = replace(made, **{n: each for n, each in given.items() if each is not None})
            if replaces:
                self._record.keep_note(replace(self.notes[replaces], replaced_by=key, time=now))
            self._record.keep_note(made)
        return made

    def use(self, *keys: str) -> None:
        """Say that notes served: they fade from now on, and more slowly.

        Raises:
            KeyNotFound: nothing is noted there.
        """
        with self.state.turn():
            for note in [self.notes[key] for key in keys]:
                used = max(self._now(), note.used)
                self._record.keep_note(replace(note, uses=note.uses + 1, used=used))

    def pin(self, key: str) -> None:
        """Let a note never fade."""
        with self.state.turn():
            self._record.keep_note(replace(self.notes[key], is_pinned=True))

    def unpin(self, key: str) -> None:
        """Let a note fade again, from now on."""
        with self.state.turn():
            note = self.notes[key]
            now = max(self._now(), note.used)
            self._record.keep_note(replace(note, is_pinned=False, used=now))

    def forget(self, key: str) -> None:
        """Drop a note from the view; the history of the state still has it.

        Raises:
            KeyNotFound: nothing is noted there.
        """
        with self.state.turn():
            note = self.notes[key]
            now = max(self._now(), note.time)
            self._record.keep_note(Note(key, None, time=now, is_forgotten=True))

    def strength(self, key: str, *, now: int | None = None) -> float:
        """Return what is left of the importance of a note; `now` is in microseconds since 1970."""
        if now is not None and not is_number(now):
            raise BadValue(f"now={now!r}", hint="use microseconds since 1970")
        note = self.notes[key]
        return note.strength(self._now() if now is None else now, **self._half_life())

    def recall(self, query: str, k: int = 5) -> list[Recalled]:
        """Return the notes that answer a question, by relevance x strength.

        Nothing is reinforced by that: say `use(key)` for those that served. A question without a
        word of its own ("what is it?") asks for the strongest.

        Raises:
            BadValue: `k` is no count, or the query no text.
        """
        if not isinstance(query, str):
            raise BadValue(f"{query!r} is no question", hint="ask in words")
        if type(k) is not int or k < 0:
            raise BadValue(f"k={k!r}", hint="use a count")
        return self._ranked(query)[:k]

    def _ranked(self, query: str, *, with_pinned: bool = False) -> list[Recalled]:
        there = {note.key: note for note in self.notes.all()}
        notes = {key: note for key, note in there.items() if note.replaced_by not in there}
        if self._relevance is None:
            words = {key: self._words.of(note) for key, note in notes.items()}
            relevant = relevances(query, words)
        else:
            relevant = {key: self._relevance(query, note) for key, note in notes.items()}
        now = self._now()
        found = list[Recalled]()
        for key, note in notes.items():
            strength = note.strength(now, **self._half_life())
            if relevant[key] > 0 or (with_pinned and note.is_pinned):
                score = relevant[key] * strength
                found.append(Recalled(note, score, relevant[key], strength))
        return sorted(found, key=lambda each: (-each.score, -each.note.time, each.key))

    def _says(self, key: str, value: Any) -> bool:
        """Tell whether a note says this already, by what would be kept of both."""
        kept = self._record.cell(NOTES, key, "value")
        return kept is not None and self.state.cells.same(kept, self.state.cells.put(value))

    def _half_life(self) -> dict[str, float]:
        return {"half_life_seconds": self.half_life_seconds}


def _after(before: Note, value: Any, source: str, now: int, *, is_same: bool) -> Note:
    """Return a note that takes the place of another one, which may say the same."""
    if before.is_forgotten:
        return Note(before.key, value, source=source, time=now)
    versions = () if is_same else (before.as_version(),)
    return replace(
        before,
        value=value,
        source=source,
        time=now,
        versions=(*versions, *before.versions)[:MOST_VERSIONS],
        replaced_by="",
    )
