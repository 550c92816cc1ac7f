"""What differs between two nested values, by looking at everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from otolith.codecs import identical
from otolith.testing.model.places import ABSENT, Path, find


class ModelChange(NamedTuple):
    """One path whose value was added (old is ABSENT), removed (new is ABSENT) or changed."""

    path: Path
    old: Any
    new: Any


class Edit(NamedTuple):
    """Elements `start` to `stop` of a list that became others, from `new_start` on."""

    start: int
    stop: int
    new_start: int
    new: list[Any]


def brute_changes(old: Any, new: Any, path: Path = ()) -> Iterator[ModelChange]:
    """Yield every change from one value to another; lists that differ are one change."""
    if identical(old, new):
        return
    if type(old) is dict and type(new) is dict:
        for key in {**old, **new}:
            yield from brute_changes(old.get(key, ABSENT), new.get(key, ABSENT), (*path, key))
    else:
        yield ModelChange(path, old, new)


def edits(old: list[Any], new: list[Any]) -> list[Edit]:
    """Return how one list became another."""
    tokens: list[Any] = []
    before, after = [_token(tokens, part) for part in old], [_token(tokens, part) for part in new]
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [Edit(a, b, c, new[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]


def _token(tokens: list[Any], part: Any) -> int:
    """Number values, so that identical ones have one number; they need not be hashable."""
    for number, known in enumerate(tokens):
        if identical(known, part):
            return number
    tokens.append(part)
    return len(tokens) - 1


def patched(old: Any, changes: Iterable[ModelChange]) -> Any:
    """Return what a value becomes by changes.

    In a list, removed and changed elements are named by their old index, added ones by their
    new index.
    """
    changed = deepcopy(old)
    rest = list(changes)
    if any(change.path == () for change in rest):
        return rest[-1].new
    below: dict[Any, list[ModelChange]] = {}
    for change in rest:
        below.setdefault(change.path[0], []).append(change._replace(path=change.path[1:]))
    if type(changed) is list:
        return _patched_list(changed, below)
    for key, some in below.items():
        value = patched(find(changed, (key,)), some)
        if value is ABSENT:
            del changed[key]
        else:
            changed[key] = value
    return changed


def _patched_list(old: list[Any], below: dict[Any, list[ModelChange]]) -> list[Any]:
    kept: list[Any] = []
    added: dict[int, Any] = {}
    for key, some in below.items():
        added |= {
            int(key): change.new for change in some if change.old is ABSENT and not change.path
        }
    for at, part in enumerate(old):
        some = [
            change for change in below.get(str(at), []) if change.path or change.old is not ABSENT
        ]
        value = patched(part, some) if some else part
        if value is not ABSENT:
            kept.append(value)
    for at in sorted(added):
        kept.insert(at, added[at])
    return kept
