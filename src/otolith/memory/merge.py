"""Two branches of one memory, merged: steps by what became of them, notes by their time.

A *note* that both sides changed says what was said last; the other value is the first of its
versions, so that nothing is lost and the contradiction can be seen. Uses add up, and so does having
been forgotten: by time, like any other change. A *step* that one side settled is settled, whatever
the other side did with it in the meantime, because it happened; otherwise what was done last holds.
Steps that one side took out of the plan are out, unless the other side settled them.

Both give the same answer whoever merges whom: equal times are told apart by content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from otolith.errors import Error
from otolith.memory.notes import MOST_VERSIONS, Note, Version
from otolith.memory.plan import Step, in_order


def merge_notes(base: Any, ours: Any, theirs: Any) -> Any:
    """Return two versions of one note as one; NotImplemented if they are no notes."""
    try:
        before = None if base is None else Note.from_data("", base)
        mine, yours = Note.from_data("", ours), Note.from_data("", theirs)
    except (Error, AttributeError):
        return NotImplemented
    newer, older = sorted((mine, yours), key=_age, reverse=True)
    versions = [*_other(newer, older), *newer.versions, *older.versions]
    kept = {name: _field(name, before, newer, older) for name in _APART}
    return replace(
        newer,
        **kept,
        uses=max(mine.uses + yours.uses - (before.uses if before else 0), 0),
        used=max(mine.used, yours.used),
        versions=_newest(versions, newer),
    ).to_data()


def merge_plans(base: Any, ours: Any, theirs: Any) -> Any:
    """Return two plans as one; NotImplemented if they are no plans."""
    try:
        before, mine, yours = (
            {i: Step.from_data(i, s) for i, s in (plan or {}).items()}
            for plan in (base, ours, theirs)
        )
    except (Error, AttributeError):
        return NotImplemented
    steps = [
        step
        for id in dict.fromkeys((*mine, *yours))
        if (step := _step(before.get(id), mine.get(id), yours.get(id))) is not None
    ]
    placed = enumerate(in_order(steps))
    return {step.id: replace(step, place=place).to_data() for place, step in placed}


RESOLVERS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "memory-note": merge_notes,
    "memory-plan": merge_plans,
}
"""What a repo must know to merge memories, by the names that the policies use."""


_APART = ("importance", "is_pinned", "half_life_seconds", "replaced_by")
"""What is changed by itself, and not only when a note is written anew."""


def _field(name: str, before: Note | None, newer: Note, older: Note) -> Any:
    """Return a field of a note: where only one side changed it, as that side has it."""
    if before is None or getattr(newer, name) != getattr(before, name):
        return getattr(newer, name)
    return getattr(newer if newer.is_forgotten else older, name)


def _age(note: Note) -> tuple[int, str]:
    return note.time, repr(note)


def _other(newer: Note, older: Note) -> list[Version]:
    is_same = _told(newer.value) == _told(older.value)
    return [] if is_same or older.is_forgotten else [older.as_version()]


def _newest(versions: list[Version], current: Note) -> tuple[Version, ...]:
    known = {_told(version): version for version in versions}
    known.pop(_told(current.as_version()), None)
    listed = sorted(known.values(), key=lambda version: (version.time, repr(version)), reverse=True)
    return tuple(listed[:MOST_VERSIONS])


def _told(value: object) -> object:
    """Return what tells a value from others. Long arrays and frames look alike: each is its own."""
    return repr(value) if _is_plain(value) else id(value)


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    return type(value).__module__ in _PLAIN


_PLAIN = ("builtins", "datetime", "decimal", "fractions", "uuid")


def _step(before: Step | None, mine: Step | None, yours: Step | None) -> Step | None:
    if mine is None or yours is None:
        there = mine or yours
        if before is None or there is None:
            return there  # one side has planned it
        return there if there.state.is_settled and there != before else None
    return max(mine, yours, key=lambda step: (step.state.is_settled, step.time, repr(step)))
