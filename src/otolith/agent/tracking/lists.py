"""The imprint of a list that has a tree of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from otolith.agent.tracking.imprint import Imprint, Imprints, changing
from otolith.agent.tracking.marks import (
    Dirt,
    Mark,
    MarkOf,
    common_ends,
    look_again,
    marks,
    unmarked,
)


class _Edit(NamedTuple):
    """Elements to replace: where they were, and the cells of what is there now."""

    start: int
    stop: int
    cells: list[bytes]


class Parts(Imprint):
    """The elements, marks of those that are short, and imprints of those with trees of their own.

    The elements are held, so that an object that is gone is never mistaken for a new one.
    """

    __slots__ = ("_elements", "_inner", "_marks")

    def __init__(
        self, cell: bytes, elements: list[Any], marks: list[Mark], inner: dict[int, Imprint]
    ) -> None:
        super().__init__(cell)
        self._elements = elements
        self._marks = marks
        self._inner = inner

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        if type(value) is not list or how.cells.kind(cell) != "list":
            return None
        elements = value.copy()
        inner = {
            at: how.of(elements[at], part)
            for at, part in enumerate(how.cells.elements(cell))
            if how.cells.is_grown(part)
        }
        return cls(cell, elements, marks(0, len(elements), _run(elements, inner, how)), inner)

    def keeps(self) -> Iterable[object]:
        return chain(self._elements, *(each.keeps() for each in self._inner.values()))

    def describes(self, value: object) -> bool:
        return type(value) is list

    def again(self, value: Any, how: Imprints) -> Imprint:
        now = value.copy()
        ends = common_ends(self._elements, now)
        inner = self._moved(now, ends)
        run = _run(now, inner, how)
        fresh, dirt = look_again(self._marks, ends, (len(self._elements), len(now)), run)
        grown: dict[int, Imprint] = {}
        edits = [_dirty(now, each, inner, grown, how) for each in dirt]
        edited = {at for each in dirt for at in range(each.new_start, each.new_stop)}
        rest = {at: old for at, old in inner.items() if at not in edited}
        edits += self._changed_inside(now, ends, rest, grown, how)
        if any(marks(each.new_start, each.new_stop, run) != each.marks for each in dirt):
            raise changing(value)
        cell = self._edited(edits, how)
        if not how.cells.is_grown(cell):
            return how.fresh(value)
        fresh = unmarked(fresh, inner.keys() ^ grown.keys())
        if how.cells.same(cell, self.cell):
            self._elements, self._marks, self._inner = now, fresh, grown
            return self
        return Parts(cell, now, fresh, grown)

    def _moved(self, now: list[Any], ends: tuple[int, int]) -> dict[int, Imprint]:
        """Return the imprints by where their elements are now, as far as that can be told."""
        if not self._inner:
            return {}
        (start, end), before, shift = ends, len(self._elements), len(now) - len(self._elements)
        by_identity = {id(part): at for at, part in enumerate(now[start : len(now) - end], start)}
        moved: dict[int, Imprint] = {}
        for at, imprint in self._inner.items():
            if at < start:
                moved[at] = imprint
            elif at >= before - end:
                moved[at + shift] = imprint
            else:
                found = by_identity.get(id(self._elements[at]), None if shift else at)
                if found is not None:
                    moved[found] = imprint
        return moved

    def _changed_inside(
        self,
        now: list[Any],
        ends: tuple[int, int],
        rest: dict[int, Imprint],
        grown: dict[int, Imprint],
        how: Imprints,
    ) -> list[_Edit]:
        """Look at the elements with trees of their own that no edit took along."""
        edits: list[_Edit] = []
        for at, old in rest.items():
            cell, imprint = how.part(now[at], old)
            if imprint is not None:
                grown[at] = imprint
            if imprint is not old:
                was = at if at < ends[0] else at - len(now) + len(self._elements)
                edits.append(_Edit(was, was + 1, [cell]))
        return edits

    def _edited(self, edits: list[_Edit], how: Imprints) -> bytes:
        cell = self.cell
        for start, stop, cells in sorted(edits, reverse=True):
            cell = _replaced(cell, start, stop, cells, how)
        return cell


def _run(elements: list[Any], inner: dict[int, Imprint], how: Imprints) -> MarkOf:
    """Return what fingerprints a run of elements, those with imprints of their own left out."""

    def print(start: int, stop: int) -> int | None:
        run = elements[start:stop]
        if inner:
            run = [None if at in inner else part for at, part in enumerate(run, start)]
        return how.print(run)

    return print


def _dirty(
    now: list[Any], dirt: Dirt, inner: dict[int, Imprint], grown: dict[int, Imprint], how: Imprints
) -> _Edit:
    positions = range(dirt.new_start, dirt.new_stop)
    if inner.keys().isdisjoint(positions):
        cells = how.cells.put_all(now[dirt.new_start : dirt.new_stop])
        for at, cell in zip(positions, cells, strict=True):
            if how.cells.is_grown(cell):
                grown[at] = how.of(now[at], cell)
        return _Edit(dirt.start, dirt.stop, cells)
    cells = []
    for at in positions:
        cell, imprint = how.part(now[at], inner.get(at))
        cells.append(cell)
        if imprint is not None:
            grown[at] = imprint
    return _Edit(dirt.start, dirt.stop, cells)


def _replaced(cell: bytes, start: int, stop: int, cells: list[bytes], how: Imprints) -> bytes:
    """Return a list with elements replaced, and those left alone that are the same."""
    old, same = list(how.cells.elements(cell, start, stop)), how.cells.same
    first = 0
    while first < min(len(old), len(cells)) and same(old[first], cells[first]):
        first += 1
    last = 0
    while last < min(len(old), len(cells)) - first and same(old[-1 - last], cells[-1 - last]):
        last += 1
    if first + last == max(len(old), len(cells)):
        return cell
    return how.cells.splice(cell, start + first, stop - last, cells[first : len(cells) - last])
