"""The imprint of a dict that has a tree of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from otolith.agent.tracking.fixed import never_changes
from otolith.agent.tracking.imprint import Imprint, Imprints, changing
from otolith.agent.tracking.marks import Mark, MarkOf, common_ends, look_again, marks, unmarked


class Entries(Imprint):
    """The keys in their order, marks of short values, imprints of those with trees of their own."""

    __slots__ = ("_inner", "_keys", "_marks")

    def __init__(
        self, cell: bytes, keys: list[Any], marks: list[Mark], inner: dict[Any, Imprint]
    ) -> None:
        super().__init__(cell)
        self._keys = keys
        self._marks = marks
        self._inner = inner

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        if type(value) is not dict or how.cells.kind(cell) != "map" or not _are_steady(value):
            return None
        unkey = how.cells.encoding.unkey
        inner = {
            key: how.of(value[key], part)
            for key, part in ((unkey(name), part) for name, part in how.cells.entries(cell))
            if how.cells.is_grown(part)
        }
        return cls(cell, list(value), marks(0, len(value), _run(value, inner, how)), inner)

    def keeps(self) -> Iterable[object]:
        return chain(self._keys, self._inner, *(each.keeps() for each in self._inner.values()))

    def describes(self, value: object) -> bool:
        return type(value) is dict

    def again(self, value: Any, how: Imprints) -> Imprint:
        now = value.copy()
        keys = list(now)
        inner = {key: old for key, old in self._inner.items() if key in now}
        run = _run(now, inner, how)
        lengths = len(self._keys), len(keys)
        fresh, dirt = look_again(self._marks, common_ends(self._keys, keys), lengths, run)
        gone = [key for each in dirt for key in self._keys[each.start : each.stop]]
        dirty = {key for each in dirt for key in keys[each.new_start : each.new_stop]}
        if not _are_steady(dirty):
            return how.fresh(value)
        edits: dict[bytes, bytes | None] = dict.fromkeys(map(how.cells.encoding.key, gone))
        grown: dict[Any, Imprint] = {}
        for key in dirty | inner.keys():
            old = inner.get(key)
            cell, imprint = how.part(now[key], old)
            if imprint is not None:
                grown[key] = imprint
            if key in dirty or imprint is not old:
                edits[how.cells.encoding.key(key)] = cell
        if any(marks(each.new_start, each.new_stop, run) != each.marks for each in dirt):
            raise changing(value)
        cell = self._edited(edits, how)
        if not how.cells.is_grown(cell) or how.cells.length(cell) != len(now):
            return how.fresh(value)  # which refuses keys that are stored alike, as two NaNs are
        fresh = _forget(fresh, keys, inner, grown)
        if cell is self.cell:
            self._keys, self._marks, self._inner = keys, fresh, grown
            return self
        return Entries(cell, keys, fresh, grown)

    def _edited(self, edits: dict[bytes, bytes | None], how: Imprints) -> bytes:
        cells = how.cells
        real = {k: c for k, c in edits.items() if not cells.same(cells.entry(self.cell, k), c)}
        return cells.edit_map(self.cell, real) if real else self.cell


def _are_steady(keys: Iterable[Any]) -> bool:
    """Tell whether no key can change by itself, and with it the place of its entry."""
    return all(type(key) is str or never_changes(key) for key in keys)


def _run(value: dict[Any, Any], inner: dict[Any, Imprint], how: Imprints) -> MarkOf:
    """Return what fingerprints a run of entries; of those with imprints of their own, the key."""
    items = list(value.items())

    def print(start: int, stop: int) -> int | None:
        run = items[start:stop]
        if inner:
            run = [(key, None if key in inner else part) for key, part in run]
        return how.print(run)

    return print


def _forget(
    fresh: list[Mark], keys: list[Any], inner: dict[Any, Imprint], grown: dict[Any, Imprint]
) -> list[Mark]:
    """Forget the marks of runs in which a value got, or lost, a tree of its own."""
    moved = inner.keys() ^ grown.keys()
    return unmarked(fresh, [at for at, key in enumerate(keys) if key in moved]) if moved else fresh
