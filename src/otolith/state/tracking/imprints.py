"""What a value looked like when it was last encoded, so that encoding it again costs what changed.

An imprint mirrors the cell of a value. Where the value sits in one object, its imprint is one
fingerprint; where it has grown a tree, the imprint knows the parts:

    Whole      one fingerprint                     here
    Lowered    what a codec lowers the value to    here
    Parts      the elements of a list              imprints.py
    Entries    the entries of a dict               imprints.py
    Chunks     the chunks of raw bytes             imprints.py
    Unchanging one object that has the content     imprints.py

A fingerprint is always taken before the encoding it vouches for. If the value changes in between,
the next look finds a difference; the other way round it would be lost.

The imprint of a dict that has a tree of its own.

The imprint of a list that has a tree of its own.

The imprint of raw bytes: arrays, columns and buffers, a fingerprint to a chunk.

The imprint of a value whose content lies in one object that never changes.

Taking it costs nothing. What the parts looked like is found out when the value turns out to have
another content, from a twin that still has the old one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from xxhash import xxh3_128_intdigest

from otolith.codecs import content_of
from otolith.core import Cells
from otolith.errors import BadValue
from otolith.state.tracking.fingerprints import (
    Dirt,
    Mark,
    MarkOf,
    circle_in,
    common_ends,
    fingerprint,
    look_again,
    marks,
    never_changes,
    unmarked,
)
from otolith.types import Raw, Tag, Tagged


class Imprint(ABC):
    """The cell that stands for a value, and the means to tell whether it still does."""

    __slots__ = ("cell",)

    def __init__(self, cell: bytes) -> None:
        self.cell = cell

    @abstractmethod
    def describes(self, value: object) -> bool:
        """Tell whether `again` can go on from here with this value."""

    @abstractmethod
    def again(self, value: Any, how: Imprints) -> Imprint:
        """Return the imprint of the value as it is now: this very one if nothing changed."""

    def keeps(self) -> Iterable[object]:
        """Return the objects of the value that this has references to, each as often as it has."""
        return ()


Shape: TypeAlias = "Callable[[object, bytes, Imprints], Imprint | None]"
"""Takes the imprint of a value that has a tree, if it is of the kind that this is for."""


class Imprints:
    """Takes imprints, and encodes again what changed since they were taken."""

    def __init__(self, cells: Cells, *shapes: Shape) -> None:
        self.cells = cells
        self._shapes = shapes

    def fresh(self, value: object) -> Imprint:
        """Encode a value and take its imprint.

        Raises:
            BadValue: it cannot be kept, or was changed while it was being encoded.
        """
        before = self.print(value)
        if before is None and (found := circle_in(value)) is not None:
            steps, part = found
            where = f"at {'/'.join(map(str, steps[:8]))}: " if steps else ""
            raise Endless(
                f"{where}a {type(part).__name__} has itself inside",
                hint="refer to it by a key instead",
            )
        cell = self.cells.put(value)
        if before is None:
            return Whole(cell, None)  # nothing vouches for it, and it is encoded again next time
        imprint = self.of(value, cell)
        if self.print(value) != before:
            raise changing(value)
        return imprint

    def of(self, value: object, cell: bytes) -> Imprint:
        """Take the imprint of a value that nobody else has seen since it was in this cell."""
        if self.cells.is_grown(cell):
            for shape in self._shapes:
                if (found := shape(value, cell, self)) is not None:
                    return found
        return Whole(cell, self.print(value))

    def again(self, value: object, old: Imprint) -> Imprint:
        """Return the imprint of a value as it is now: the old one itself if nothing changed.

        Raises:
            BadValue: it cannot be kept any more, or was changed while it was being encoded.
        """
        return old.again(value, self) if old.describes(value) else self.fresh(value)

    def part(self, value: object, old: Imprint | None) -> tuple[bytes, Imprint | None]:
        """Encode one part of a container; it has an imprint if it has a tree of its own."""
        if old is not None:
            imprint: Imprint | None = self.again(value, old)
        else:
            cell = self.cells.put(value)
            imprint = self.of(value, cell) if self.cells.is_grown(cell) else None
            if imprint is None:
                return cell, None
        assert imprint is not None
        return imprint.cell, imprint if self.cells.is_grown(imprint.cell) else None

    def print(self, value: object) -> int | None:
        """Return the fingerprint of a value."""
        return fingerprint(value, self.lower)

    def lower(self, value: object) -> Tagged:
        """Return a value one step plainer."""
        return self.cells.encoding.codec.lower(value)


class Whole(Imprint):
    """A value that is encoded in one go."""

    __slots__ = ("mark",)

    def __init__(self, cell: bytes, print: int | None) -> None:
        super().__init__(cell)
        self.mark = print

    def describes(self, value: object) -> bool:
        return True

    def again(self, value: Any, how: Imprints) -> Imprint:
        if self.mark is not None and how.print(value) == self.mark:
            return self
        new = how.fresh(value)
        if not how.cells.same(new.cell, self.cell):
            return new
        if isinstance(new, Whole):  # the same content in another order
            self.mark = new.mark
        return self


class Lowered(Imprint):
    """A value of a type that a codec keeps."""

    __slots__ = ("_data", "_kind")

    def __init__(self, cell: bytes, kind: type, data: Imprint) -> None:
        super().__init__(cell)
        self._kind = kind
        self._data = data

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        stored = how.cells.tag(cell)
        if stored is None:
            return None
        code, data = how.lower(value)
        below = stored.data
        if code != stored.code or not isinstance(below, bytes) or not _fits(how, code, data, below):
            return None  # it was stored in a form of the past, and is replaced as a whole
        return cls(cell, type(value), how.of(data, below))

    def describes(self, value: object) -> bool:
        return type(value) is self._kind

    def again(self, value: Any, how: Imprints) -> Imprint:
        code, data = how.lower(value)
        new = how.again(data, self._data)
        if new is self._data:
            return self
        cell = how.cells.tagged_cell(code, new.cell)
        if not how.cells.is_grown(cell):
            return how.fresh(value)
        return Lowered(cell, self._kind, new)


class Endless(BadValue):
    """A value goes round in a circle, or is nested too deep to be walked through."""


class Changing(BadValue):
    """A value did not hold still while it was encoded."""


def changing(value: object) -> Changing:
    """Return the error for a value that did not hold still."""
    return Changing(
        f"a {type(value).__name__} was changed while it was being encoded",
        hint="another thread writes to it: commit when that is done, or give it a copy",
    )


def _fits(how: Imprints, code: int, data: object, cell: bytes) -> bool:
    """Tell whether data has the form that is stored, so that parts of it may be replaced."""
    cells, kind = how.cells, how.cells.kind(cell)
    if type(data) is dict:
        return kind == "map" and (code in _SETS or _has_keys(how, data, cell))
    if type(data) is not list:
        return True
    if kind != "list" or len(data) != cells.length(cell):
        return False
    if code not in _VERSIONED:
        return True
    name, version, content = (cells.element(cell, at) for at in range(3))
    is_same = cells.same(name, cells.put(data[0])) and cells.same(version, cells.put(data[1]))
    return is_same and (type(data[2]) is not dict or _has_keys(how, data[2], content))


def _has_keys(how: Imprints, data: dict[Any, Any], cell: bytes) -> bool:
    if how.cells.kind(cell) != "map" or len(data) != how.cells.length(cell):
        return False
    key = how.cells.encoding.key
    return all(how.cells.entry(cell, key(name)) is not None for name in data)


_SETS = frozenset({Tag.SET, Tag.FROZENSET})
_VERSIONED = frozenset({Tag.MODEL, Tag.CUSTOM})


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
        return cls(
            cell, elements, marks(0, len(elements), _element_run(elements, inner, how)), inner
        )

    def keeps(self) -> Iterable[object]:
        return chain(self._elements, *(each.keeps() for each in self._inner.values()))

    def describes(self, value: object) -> bool:
        return type(value) is list

    def again(self, value: Any, how: Imprints) -> Imprint:
        now = value.copy()
        ends = common_ends(self._elements, now)
        inner = self._moved(now, ends)
        run = _element_run(now, inner, how)
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


def _element_run(elements: list[Any], inner: dict[int, Imprint], how: Imprints) -> MarkOf:
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


class Chunks(Imprint):
    """A fingerprint of all bytes, to see whether they changed; one of each chunk, to see where."""

    __slots__ = ("_prints", "_whole")

    def __init__(self, cell: bytes, whole: tuple[int, int], prints: list[int]) -> None:
        super().__init__(cell)
        self._whole = whole
        self._prints = prints

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        if type(value) is not Raw:
            return None
        return cls(cell, _print(value), _prints(value))

    def describes(self, value: object) -> bool:
        return type(value) is Raw

    def again(self, value: Any, how: Imprints) -> Imprint:
        whole = _print(value)
        if whole == self._whole:
            return self
        prints, old = _prints(value), self._prints
        chunks, cell = value.chunks(), self.cell
        differ = [at for at, new in enumerate(prints) if at >= len(old) or new != old[at]]
        for start, stop in reversed(runs(differ)):
            cells = [how.cells.chunk_cell(chunk) for chunk in chunks[start:stop]]
            cell = how.cells.splice(cell, start, min(stop, len(old)), cells)
        if len(prints) < len(old):
            cell = how.cells.splice(cell, len(prints), len(old), [])
        if _prints(value) != prints or _print(value) != whole:
            raise changing(value)
        return Chunks(cell, whole, prints) if how.cells.is_grown(cell) else how.fresh(value)


def _print(raw: Raw) -> tuple[int, int]:
    return len(raw.view), xxh3_128_intdigest(raw.view)


def _prints(raw: Raw) -> list[int]:
    return [xxh3_128_intdigest(chunk) for chunk in raw.chunks()]


def runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Return where positions that follow each other start and stop; they come in order."""
    found: list[tuple[int, int]] = []
    for at in positions:
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


class Unchanging(Imprint):
    """The object with the content, and a twin of the value, which nobody else can change."""

    __slots__ = ("_content", "_twin")

    def __init__(self, cell: bytes, value: Any, content: object) -> None:
        super().__init__(cell)
        self._content = content
        self._twin = value.copy()

    @classmethod
    def of(cls, value: object, cell: bytes, how: Imprints) -> Imprint | None:
        content = content_of(value)
        if content is None or how.cells.tag(cell) is None:
            return None
        return cls(cell, value, content)

    def describes(self, value: object) -> bool:
        return type(value) is type(self._twin)

    def again(self, value: Any, how: Imprints) -> Imprint:
        content = content_of(value)
        if content is self._content and value.dtype == self._twin.dtype:
            return self
        old = Lowered.of(self._twin, self.cell, how)
        new = how.fresh(value) if old is None else how.again(value, old)
        if content is None or not how.cells.is_grown(new.cell):
            return new
        if how.cells.same(new.cell, self.cell):
            self._content, self._twin = content, value.copy()
            return self
        return Unchanging(new.cell, value, content)
