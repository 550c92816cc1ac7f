"""The merge of two memories: an edit that one side made holds; of two edits, rules choose one.

A *note* that both sides wrote has the later value. The other value becomes the first of its
versions, so that nothing is lost and the contradiction is visible. Uses add up. Having been
forgotten is a change like any other: the later side decides. That another note replaces it, its
importance, its half-life and its pin are changed by themselves, and merged by themselves.

A *step* whose state both sides changed is settled if one side settled it, because it happened;
otherwise the later change holds. A step that one side removed is removed, unless the other side
settled it. Its text and its place in the plan are merged by themselves.

Both functions return the same result whichever side is called ours: equal times are ordered by
content, and equal content has equal text in every process (`_content`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from otolith.core import digest
from otolith.errors import Error
from otolith.memory.notes import MAX_VERSIONS, Note, NoteVersion
from otolith.memory.plan import Plan, PlanStep

_WRITTEN_FIELDS = ("value", "source", "time", "is_forgotten")
"""Fields of a note that are written together."""
_INDEPENDENT_FIELDS = ("importance", "is_pinned", "half_life_seconds", "replaced_by")
"""Fields of a note that can change without its value being written again."""
_PROGRESS_FIELDS = ("state", "time", "why")
"""Fields of a step that change together."""
_EXACT_REPRS = ("builtins", "datetime", "decimal", "fractions", "uuid")
"""Modules whose values differ in `repr` when they differ, unless they contain others."""


def merge_notes(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge two versions of one note; return NotImplemented if the data are not notes."""
    try:
        before = None if base is None else Note.from_data("", base)
        mine, yours = Note.from_data("", ours), Note.from_data("", theirs)
    except (Error, AttributeError):
        return NotImplemented
    newer, older = _newer_first(before, mine, yours)
    is_same = _identity(newer.value) == _identity(older.value)
    replaced = [] if is_same or older.is_forgotten else [older.as_version()]
    return replace(
        newer,
        **{name: _merge_field(name, before, newer, older) for name in _INDEPENDENT_FIELDS},
        uses=max(mine.uses + yours.uses - (before.uses if before else 0), 0),
        used=max(mine.used, yours.used),
        versions=_newest([*replaced, *newer.versions, *older.versions], newer),
    ).to_data()


def _newer_first(before: Note | None, mine: Note, yours: Note) -> tuple[Note, Note]:
    """Return two notes: the one whose value holds first."""
    if before is not None:
        unchanged = [each for each in (mine, yours) if _written(each) == _written(before)]
        if len(unchanged) == 1:  # the other side alone has written it
            return (yours, mine) if unchanged[0] is mine else (mine, yours)
    first, second = sorted((mine, yours), key=lambda note: (note.time, _content(note.to_data())))
    return second, first


def _written(note: Note) -> tuple[object, ...]:
    return tuple(_identity(getattr(note, name)) for name in _WRITTEN_FIELDS)


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
    ordered = sorted(different.values(), key=lambda each: (each.time, _content(each)), reverse=True)
    return tuple(ordered[:MAX_VERSIONS])


def _identity(value: object) -> object:
    """Return a key that equal values share; a value of unknown content is equal to nothing else."""
    return _content(value) if _has_content(value) else id(value)


def _has_content(value: object) -> bool:
    """Return whether `_content` differs for values that differ."""
    if isinstance(value, Mapping):
        return all(map(_has_content, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_has_content, value))
    return type(value).__module__ in _EXACT_REPRS or _buffer(value) is not None


def _content(value: object) -> str:
    """Return a text that equal values have in every process: sets and dicts are put in order."""
    if isinstance(value, Mapping):
        pairs = sorted(f"{_content(key)}:{_content(each)}" for key, each in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({','.join(sorted(map(_content, value)))})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({','.join(map(_content, value))})"
    if type(value).__module__ in _EXACT_REPRS:
        return repr(value)
    return f"{type(value).__qualname__} {_buffer(value) or repr(value)}"


def _buffer(value: object) -> str | None:
    """Return a hash of the bytes of an array; None if it has no bytes of its own."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]
        return f"{view.format}{view.shape}{digest(view.tobytes()).hex()}"
    except (TypeError, ValueError, BufferError):
        return None


def _merge_step(
    before: PlanStep | None, mine: PlanStep | None, yours: PlanStep | None
) -> PlanStep | None:
    if mine is None or yours is None:
        only = mine or yours
        if before is None or only is None:
            return only  # one side has added it
        return only if only.state.is_settled and _progress(only) != _progress(before) else None
    best, other = sorted(
        (mine, yours),
        key=lambda step: (step.state.is_settled, step.time, repr(step.to_data())),
        reverse=True,
    )
    progress = best
    if before is not None and _progress(best) == _progress(before):
        progress = other  # it alone has changed
    return replace(
        best,
        **{name: getattr(progress, name) for name in _PROGRESS_FIELDS},
        **{name: _one_sided(name, before, best, other) for name in ("text", "place")},
    )


def _progress(step: PlanStep) -> tuple[object, ...]:
    return tuple(getattr(step, name) for name in _PROGRESS_FIELDS)


def _one_sided(name: str, before: PlanStep | None, best: PlanStep, other: PlanStep) -> Any:
    """Return a field of a step as the side has it that alone changed it, else as the best has."""
    if before is not None and getattr(best, name) == getattr(before, name):
        return getattr(other, name)
    return getattr(best, name)
