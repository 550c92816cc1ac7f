"""The merge of two memories: steps by their progress, notes by their time.

A *note* that both sides changed has the later value. The other value becomes the first of its
versions, so that nothing is lost and the contradiction is visible. Uses add up. Having been
forgotten is a change like any other: the later side decides.

A *step* that one side settled is settled, because it happened; otherwise the later change holds.
A step that one side removed is removed, unless the other side settled it.

Both functions return the same result whichever side is called ours: equal times are ordered by
content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from otolith.errors import Error
from otolith.memory.notes import MAX_VERSIONS, Note, NoteVersion
from otolith.memory.plan import Plan, PlanStep

_INDEPENDENT_FIELDS = ("importance", "is_pinned", "half_life_seconds", "replaced_by")
"""Fields of a note that can change without its value being written again."""
_COMPARED_BY_REPR = ("builtins", "datetime", "decimal", "fractions", "uuid")
"""Modules whose values differ in `repr` when they differ."""


def merge_notes(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two versions of one note; return NotImplemented if the data are not notes."""
    try:
        before = None if base is None else Note.from_data("", base)
        mine, yours = Note.from_data("", ours), Note.from_data("", theirs)
    except (Error, AttributeError):
        return NotImplemented
    newer, older = sorted((mine, yours), key=lambda note: (note.time, repr(note)), reverse=True)
    is_same = _identity(newer.value) == _identity(older.value)
    replaced = [] if is_same or older.is_forgotten else [older.as_version()]
    return replace(
        newer,
        **{name: _merge_field(name, before, newer, older) for name in _INDEPENDENT_FIELDS},
        uses=max(mine.uses + yours.uses - (before.uses if before else 0), 0),
        used=max(mine.used, yours.used),
        versions=_newest([*replaced, *newer.versions, *older.versions], newer),
    ).to_data()


def merge_plans(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two plans; return NotImplemented if the data are not plans."""
    try:
        before, mine, yours = (
            {id: PlanStep.from_data(id, step) for id, step in (plan or {}).items()}
            for plan in (base, ours, theirs)
        )
    except (Error, AttributeError):
        return NotImplemented
    steps = [
        step
        for id in dict.fromkeys((*mine, *yours))
        if (step := _merge_step(before.get(id), mine.get(id), yours.get(id))) is not None
    ]
    return Plan.of(steps).numbered().to_data()


RESOLVERS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "memory-note": merge_notes,
    "memory-plan": merge_plans,
}
"""The merge functions a repo needs for memories, by the names of the policies that use them."""


def _merge_field(name: str, before: Note | None, newer: Note, older: Note) -> Any:
    """Return a field of a note: if only one side changed it, as that side has it."""
    if before is None or getattr(newer, name) != getattr(before, name):
        return getattr(newer, name)
    return getattr(newer if newer.is_forgotten else older, name)


def _newest(versions: list[NoteVersion], current: Note) -> tuple[NoteVersion, ...]:
    different = {_identity(version): version for version in versions}
    different.pop(_identity(current.as_version()), None)
    ordered = sorted(different.values(), key=lambda each: (each.time, repr(each)), reverse=True)
    return tuple(ordered[:MAX_VERSIONS])


def _identity(value: object) -> object:
    """Return a key that equal values share; long arrays and frames are equal to nothing else."""
    return repr(value) if _has_exact_repr(value) else id(value)


def _has_exact_repr(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(map(_has_exact_repr, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_has_exact_repr, value))
    return type(value).__module__ in _COMPARED_BY_REPR


def _merge_step(
    before: PlanStep | None, mine: PlanStep | None, yours: PlanStep | None
) -> PlanStep | None:
    if mine is None or yours is None:
        only = mine or yours
        if before is None or only is None:
            return only  # one side has added it
        return only if only.state.is_settled and only != before else None
    return max(mine, yours, key=lambda step: (step.state.is_settled, step.time, repr(step)))
