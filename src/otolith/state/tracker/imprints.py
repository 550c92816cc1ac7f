"""Imprints: what a value looked like when it was encoded, so that the next time costs what changed.

An imprint mirrors the cell of a value. A value that is stored in one object has one fingerprint;
one that has grown a tree has an imprint that knows its parts:

    WholeImprint      one fingerprint of everything
    CodecImprint      the imprint of what a codec lowers the value to
    ListImprint       marks of runs of elements; imprints of elements with trees of their own
    DictImprint       marks of runs of entries; imprints of values with trees of their own
    BytesImprint      a fingerprint for each chunk of raw bytes: arrays, columns, buffers
    ContentImprint    the one immutable object that has the content, such as an Arrow buffer

Rules:

1. A fingerprint is taken before the encoding that it vouches for. If the value changes in between,
   the next comparison finds a difference; the other way round the change would be lost.
2. After a part was encoded its run is marked again. If the mark differs, another thread is writing
   to the value: `ConcurrentChange`, and the caller tries again.
3. `update` returns the same imprint if nothing changed, so that callers compare with `is`.
4. An update ends in the same cell as encoding the value from scratch would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from xxhash import xxh3_128_intdigest

from otolith.codecs import content_of, cyclic_objects, graph_form
from otolith.core import Cells
from otolith.errors import BadValue
from otolith.state.tracker.fingerprints import (
    DirtyRun,
    Mark,
    MarkOf,
    common_ends,
    compare_runs,
    fingerprint,
    forget_marks,
    marks,
    never_changes,
)
from otolith.types import Raw, Tag, Tagged


class Imprint(ABC):
    """The cell that stands for a value, and the means to tell whether it still does.

    A *form* is a dict that a codec lowers a value to, such as the elements of a set. It has no
    order: it is stored in key order.
    """

    __slots__ = ("cell", "is_form")

    def __init__(self, cell: bytes) -> None:
        self.cell = cell
        self.is_form = False

    @abstractmethod
    def fits(self, value: object) -> bool:
        """Tell whether `update` can start from this imprint for a value."""

    @abstractmethod
    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the imprint of the value as it is now: this one if nothing changed."""

    def references(self) -> Iterable[object]:
        """Return the objects of the value that the imprint refers to, one for each reference."""
        return ()


ImprintKind: TypeAlias = "Callable[[object, bytes, Imprinter], Imprint | None]"
"""Returns the imprint of a value that has a tree, or None if the value is of another kind."""


class Imprinter:
    """Takes imprints, and encodes again what changed since they were taken."""

    def __init__(self, cells: Cells, *kinds: ImprintKind) -> None:
        self.cells = cells
        self._kinds = kinds
        self._cycles = 0  # how many values were met that contain themselves

    def encode(self, value: object, *, is_form: bool = False) -> Imprint:
        """Encode a value and take its imprint; `is_form` if it is a dict without an order.

        Raises:
            BadValue: it cannot be stored, or was changed while it was being encoded.
        """
        form: object | None = value
        before = fingerprint(value, self.lower)
        if before is None and (form := self._graph_form(value)) is not None:
            before = fingerprint(form, self.lower)
        plain = value if form is None else form
        if is_form and isinstance(plain, dict):
            plain = self.cells.encoding.in_key_order(plain)
        cell = self.cells.put(plain)
        # Without a fingerprint it is encoded every time.
        imprint = WholeImprint(cell, None) if before is None else self.take(value, cell)
        imprint.is_form = is_form
        if before is None:
            return imprint
        if self.fingerprint(value) != before:
            raise ConcurrentChange.of(value)
        return imprint

    def put(self, value: object) -> bytes:
        """Return the cell of a value, which may contain itself.

        Raises:
            BadValue: it cannot be stored.
        """
        try:
            return self.cells.put(value)
        except BadValue:
            form = self._graph_form(value)
            if form is None:
                raise
            return self.cells.put(form)

    def put_all(self, values: list[Any]) -> list[bytes]:
        """Return the cells of many values."""
        try:
            return self.cells.put_all(values)
        except BadValue:
            return list(map(self.put, values))

    def _graph_form(self, value: object) -> object | None:
        """Return a value in a form without cycles, or None if there are none in it."""
        form = graph_form(value, self.lower, self.cells.encoding.key)
        self._cycles += form is not None
        return form

    def take(self, value: object, cell: bytes) -> Imprint:
        """Return the imprint of a value that was just read from, or encoded to, a cell."""
        if self.cells.is_grown(cell):
            for take in self._kinds:
                if (found := take(value, cell, self)) is not None:
                    return found
        return WholeImprint(cell, self.fingerprint(value))

    def update(self, value: object, old: Imprint) -> Imprint:
        """Return the imprint of a value as it is now: the old one itself if nothing changed.

        Raises:
            BadValue: it cannot be stored any more, or was changed while it was being encoded.
        """
        if not old.fits(value):
            return self.encode(value, is_form=old.is_form)
        cycles = self._cycles
        new = old.update(value, self)
        if self._cycles != cycles and new is not old and id(value) in cyclic_objects(value):
            return self.encode(value)  # it is part of a cycle now, and stored as a whole
        return new

    def encode_part(self, value: object, old: Imprint | None) -> tuple[bytes, Imprint | None]:
        """Encode one part of a container; it has an imprint if it has a tree of its own."""
        if old is not None:
            new = self.update(value, old)
            return new.cell, new if self.cells.is_grown(new.cell) else None
        cell = self.put(value)
        return cell, self.take(value, cell) if self.cells.is_grown(cell) else None

    def fingerprint(self, value: object) -> int | None:
        """Return the fingerprint of a value."""
        found = fingerprint(value, self.lower)
        if found is None and (form := self._graph_form(value)) is not None:
            return fingerprint(form, self.lower)
        return found

    def lower(self, value: object) -> Tagged:
        """Return a value one step plainer."""
        return self.cells.encoding.codec.lower(value)


class WholeImprint(Imprint):
    """The imprint of a value that is encoded in one go."""

    __slots__ = ("fingerprint",)

    def __init__(self, cell: bytes, fingerprint: int | None) -> None:
        super().__init__(cell)
        self.fingerprint = fingerprint

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return True

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        if self.fingerprint is not None and imprinter.fingerprint(value) == self.fingerprint:
            return self
        new = imprinter.encode(value, is_form=self.is_form)
        if not imprinter.cells.same(new.cell, self.cell):
            return new
        if isinstance(new, WholeImprint):  # a set with the same content in another order
            self.fingerprint = new.fingerprint
        return self


class CodecImprint(Imprint):
    """The imprint of a value of a type that a codec lowers to plainer data."""

    __slots__ = ("_data", "_kind")

    def __init__(self, cell: bytes, kind: type, data: Imprint) -> None:
        super().__init__(cell)
        self._kind = kind
        self._data = data

    @classmethod
    def take(cls, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint, or None if the value is of another kind."""
        stored = imprinter.cells.tag(cell)
        if stored is None or stored.code == Tag.GRAPH:
            return None
        code, data = imprinter.lower(value)
        below = stored.data
        if (
            code != stored.code
            or not isinstance(below, bytes)
            or not _has_stored_form(imprinter, code, data, below)
        ):
            return None  # stored in an older form, and replaced as a whole
        taken = imprinter.take(data, below)
        taken.is_form = imprinter.cells.encoding.is_form(code, data)
        return cls(cell, type(value), taken)

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return type(value) is self._kind

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        code, data = imprinter.lower(value)
        new = imprinter.update(data, self._data)
        if new is self._data:
            return self
        cell = imprinter.cells.tagged_cell(code, new.cell)
        if not imprinter.cells.is_grown(cell):
            return imprinter.encode(value)
        return CodecImprint(cell, self._kind, new)


class NestedTooDeep(BadValue):
    """A value is nested too deep to be walked through."""


class ConcurrentChange(BadValue):
    """A value was changed by another thread while it was encoded."""

    @classmethod
    def of(cls, value: object) -> ConcurrentChange:
        """Return the error for a value."""
        return cls(
            f"a {type(value).__name__} was changed while it was being encoded",
            hint="another thread writes to it: commit when that is done, or give it a copy",
        )


def _has_stored_form(imprinter: Imprinter, code: int, data: object, cell: bytes) -> bool:
    """Tell whether data has the form that is stored, so that parts of it may be replaced."""
    cells, kind = imprinter.cells, imprinter.cells.kind(cell)
    if type(data) is dict:
        return kind == "map" and (code in _SETS or _has_keys(imprinter, data, cell))
    if type(data) is not list:
        return True
    if kind != "list" or len(data) != cells.length(cell):
        return False
    if code not in _VERSIONED:
        return True
    name, version, content = (cells.element(cell, at) for at in range(3))
    is_same = cells.same(name, cells.put(data[0])) and cells.same(version, cells.put(data[1]))
    return is_same and (type(data[2]) is not dict or _has_keys(imprinter, data[2], content))


def _has_keys(imprinter: Imprinter, data: dict[Any, Any], cell: bytes) -> bool:
    """Return whether a stored map has exactly the keys of a dict."""
    if imprinter.cells.kind(cell) != "map" or len(data) != imprinter.cells.length(cell):
        return False
    key = imprinter.cells.encoding.key
    return all(imprinter.cells.entry(cell, key(name)) is not None for name in data)


_SETS = frozenset({Tag.SET, Tag.FROZENSET})
_VERSIONED = frozenset({Tag.MODEL, Tag.CUSTOM, Tag.STATE})


class ContainerImprint(Imprint):
    """The imprint of a list or dict: its parts, marks of runs of them, imprints of large ones.

    `parts` are the elements of a list or the keys of a dict. The imprint refers to them, so that a
    new object never has the id of one that is gone. `inner` has the imprints of elements or values
    with trees of their own, by position or key; marks leave these out.
    """

    __slots__ = ("_inner", "_marks", "_parts")

    def __init__(
        self, cell: bytes, parts: list[Any], marks: list[Mark], inner: dict[Any, Imprint]
    ) -> None:
        super().__init__(cell)
        self._parts = parts
        self._marks = marks
        self._inner = inner

    def references(self) -> Iterable[object]:
        """Return the parts, the keys of inner imprints, and what those refer to."""
        inner = (each.references() for each in self._inner.values())
        return chain(self._parts, self._inner, *inner)


class DictImprint(ContainerImprint):
    """The imprint of a dict, whose keys are the parts."""

    __slots__ = ()

    @classmethod
    def take(cls, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint, or None if the value is of another kind."""
        if (
            type(value) is not dict
            or imprinter.cells.kind(cell) != "map"
            or not _are_immutable(value)
        ):
            return None
        unkey = imprinter.cells.encoding.unkey
        inner = {
            (key := unkey(name)): imprinter.take(value[key], part)
            for name, part in imprinter.cells.entries_from(cell, b"")
            if imprinter.cells.is_grown(part)
        }
        return cls(cell, list(value), marks(0, len(value), _run(value, inner, imprinter)), inner)

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return type(value) is dict

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        now = value.copy()
        keys = list(now)
        inner = {key: old for key, old in self._inner.items() if key in now}
        run = _run(now, inner, imprinter)
        lengths, ends = (len(self._parts), len(keys)), common_ends(self._parts, keys)
        fresh, dirt = compare_runs(self._marks, ends, lengths, run)
        gone = [key for each in dirt for key in self._parts[each.start : each.stop]]
        dirty = dict.fromkeys(key for each in dirt for key in keys[each.new_start : each.new_stop])
        if not _are_immutable(dirty):
            return imprinter.encode(value, is_form=self.is_form)
        key_of = imprinter.cells.encoding.key
        edits: dict[bytes, bytes | None] = dict.fromkeys(map(key_of, gone))
        grown: dict[Any, Imprint] = {}
        for key in dirty | dict.fromkeys(inner):
            old = inner.get(key)
            cell, imprint = imprinter.encode_part(now[key], old)
            if imprint is not None:
                grown[key] = imprint
            if key in dirty or imprint is not old:
                edits[key_of(key)] = cell
        if any(marks(each.new_start, each.new_stop, run) != each.marks for each in dirt):
            raise ConcurrentChange.of(value)
        cell = self._edited(edits, imprinter)
        if not imprinter.cells.is_grown(cell) or imprinter.cells.length(cell) != len(now):
            # This refuses keys that are stored alike, such as two NaNs.
            return imprinter.encode(value, is_form=self.is_form)
        if not self.is_form and not _only_appends(self._parts, keys, ends, key_of):
            cell = imprinter.cells.reorder(cell, [*map(key_of, keys)])
        fresh = _forget(fresh, keys, inner, grown)
        if cell is self.cell:
            self._parts, self._marks, self._inner = keys, fresh, grown
            return self
        new = DictImprint(cell, keys, fresh, grown)
        new.is_form = self.is_form
        return new

    def _edited(self, edits: dict[bytes, bytes | None], imprinter: Imprinter) -> bytes:
        """Return the cell of the dict with edits applied; new keys come last."""
        cells = imprinter.cells
        entry = cells.entries_of(self.cell)
        real = {key: cell for key, cell in edits.items() if not cells.same(entry(key), cell)}
        return cells.edit_map(self.cell, real, is_table=self.is_form) if real else self.cell


def _only_appends(
    old: list[Any], new: list[Any], ends: tuple[int, int], key_of: Callable[[object], bytes]
) -> bool:
    """Tell whether keys were removed and put last, and the others stayed in their order."""
    start, end = ends
    before = dict.fromkeys(map(key_of, old[start : len(old) - end]))
    after = dict.fromkeys(map(key_of, new[start : len(new) - end]))
    stayed = [key for key in before if key in after]
    return list(after)[: len(stayed)] == stayed and not (end and len(stayed) < len(after))


def _are_immutable(keys: Iterable[Any]) -> bool:
    """Tell whether no key is mutable: one that changes would move its entry."""
    return all(type(key) is str or never_changes(key) for key in keys)


def _run(value: dict[Any, Any], inner: dict[Any, Imprint], imprinter: Imprinter) -> MarkOf:
    """Return what fingerprints a run of entries; of those with imprints of their own, the key."""
    items = list(value.items())

    def print(start: int, stop: int) -> int | None:
        run = items[start:stop]
        if inner:
            run = [(key, None if key in inner else part) for key, part in run]
        return imprinter.fingerprint(run)

    return print


def _forget(
    fresh: list[Mark], keys: list[Any], inner: dict[Any, Imprint], grown: dict[Any, Imprint]
) -> list[Mark]:
    """Forget the marks of runs in which a value got, or lost, a tree of its own."""
    moved = inner.keys() ^ grown.keys()
    return (
        forget_marks(fresh, [at for at, key in enumerate(keys) if key in moved]) if moved else fresh
    )


class _Edit(NamedTuple):
    """Elements to replace: where they were, and the cells of what is there now."""

    start: int
    stop: int
    cells: list[bytes]


class ListImprint(ContainerImprint):
    """The imprint of a list, whose elements are the parts."""

    __slots__ = ()

    @classmethod
    def take(cls, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint, or None if the value is of another kind."""
        if type(value) is not list or imprinter.cells.kind(cell) != "list":
            return None
        elements = value.copy()
        inner = {
            at: imprinter.take(elements[at], part)
            for at, part in enumerate(imprinter.cells.elements(cell))
            if imprinter.cells.is_grown(part)
        }
        return cls(
            cell, elements, marks(0, len(elements), _element_run(elements, inner, imprinter)), inner
        )

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return type(value) is list

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        now = value.copy()
        ends = common_ends(self._parts, now)
        inner = self._moved(now, ends)
        run = _element_run(now, inner, imprinter)
        fresh, dirt = compare_runs(self._marks, ends, (len(self._parts), len(now)), run)
        grown: dict[int, Imprint] = {}
        edits = [_dirty(now, each, inner, grown, imprinter) for each in dirt]
        edited = {at for each in dirt for at in range(each.new_start, each.new_stop)}
        rest = {at: old for at, old in inner.items() if at not in edited}
        edits += self._changed_inside(now, ends, rest, grown, imprinter)
        if any(marks(each.new_start, each.new_stop, run) != each.marks for each in dirt):
            raise ConcurrentChange.of(value)
        cell = self._edited(edits, imprinter)
        if not imprinter.cells.is_grown(cell):
            return imprinter.encode(value)
        fresh = forget_marks(fresh, inner.keys() ^ grown.keys())
        if imprinter.cells.same(cell, self.cell):
            self._parts, self._marks, self._inner = now, fresh, grown
            return self
        return ListImprint(cell, now, fresh, grown)

    def _moved(self, now: list[Any], ends: tuple[int, int]) -> dict[int, Imprint]:
        """Return the imprints by the current position of their elements, where that is known."""
        if not self._inner:
            return {}
        (start, end), before, shift = ends, len(self._parts), len(now) - len(self._parts)
        by_identity = {id(part): at for at, part in enumerate(now[start : len(now) - end], start)}
        moved: dict[int, Imprint] = {}
        for at, imprint in self._inner.items():
            if at < start:
                moved[at] = imprint
            elif at >= before - end:
                moved[at + shift] = imprint
            else:
                found = by_identity.get(id(self._parts[at]), None if shift else at)
                if found is not None:
                    moved[found] = imprint
        return moved

    def _changed_inside(
        self,
        now: list[Any],
        ends: tuple[int, int],
        rest: dict[int, Imprint],
        grown: dict[int, Imprint],
        imprinter: Imprinter,
    ) -> list[_Edit]:
        """Return edits for elements with trees that changed inside and are in no other edit."""
        edits: list[_Edit] = []
        for at, old in rest.items():
            cell, imprint = imprinter.encode_part(now[at], old)
            if imprint is not None:
                grown[at] = imprint
            if imprint is not old:
                was = at if at < ends[0] else at - len(now) + len(self._parts)
                edits.append(_Edit(was, was + 1, [cell]))
        return edits

    def _edited(self, edits: list[_Edit], imprinter: Imprinter) -> bytes:
        """Return the cell of the list with edits applied from the end."""
        cell = self.cell
        for start, stop, cells in sorted(edits, reverse=True):
            cell = _replaced(cell, start, stop, cells, imprinter)
        return cell


def _element_run(elements: list[Any], inner: dict[int, Imprint], imprinter: Imprinter) -> MarkOf:
    """Return what fingerprints a run of elements, those with imprints of their own left out."""

    def print(start: int, stop: int) -> int | None:
        run = elements[start:stop]
        if inner:
            run = [None if at in inner else part for at, part in enumerate(run, start)]
        return imprinter.fingerprint(run)

    return print


def _dirty(
    now: list[Any],
    dirt: DirtyRun,
    inner: dict[int, Imprint],
    grown: dict[int, Imprint],
    imprinter: Imprinter,
) -> _Edit:
    """Encode a run of elements that changed; unchanged parts keep their imprints."""
    positions = range(dirt.new_start, dirt.new_stop)
    if inner.keys().isdisjoint(positions):
        cells = imprinter.put_all(now[dirt.new_start : dirt.new_stop])
        for at, cell in zip(positions, cells, strict=True):
            if imprinter.cells.is_grown(cell):
                grown[at] = imprinter.take(now[at], cell)
        return _Edit(dirt.start, dirt.stop, cells)
    cells = []
    for at in positions:
        cell, imprint = imprinter.encode_part(now[at], inner.get(at))
        cells.append(cell)
        if imprint is not None:
            grown[at] = imprint
    return _Edit(dirt.start, dirt.stop, cells)


def _replaced(
    cell: bytes, start: int, stop: int, cells: list[bytes], imprinter: Imprinter
) -> bytes:
    """Return a list with elements replaced, and those left alone that are the same."""
    old, same = list(imprinter.cells.elements(cell, start, stop)), imprinter.cells.same
    first = 0
    while first < min(len(old), len(cells)) and same(old[first], cells[first]):
        first += 1
    last = 0
    while last < min(len(old), len(cells)) - first and same(old[-1 - last], cells[-1 - last]):
        last += 1
    if first + last == max(len(old), len(cells)):
        return cell
    return imprinter.cells.splice(
        cell, start + first, stop - last, cells[first : len(cells) - last]
    )


class BytesImprint(Imprint):
    """The imprint of raw bytes: one fingerprint of all, to see whether they changed; one for each
    chunk, to see where.
    """

    __slots__ = ("_prints", "_whole")

    def __init__(self, cell: bytes, whole: tuple[int, int], prints: list[int]) -> None:
        super().__init__(cell)
        self._whole = whole
        self._prints = prints

    @classmethod
    def take(cls, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint, or None if the value is of another kind."""
        if type(value) is not Raw:
            return None
        return cls(cell, _print(value), _prints(value))

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return type(value) is Raw

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        whole = _print(value)
        if whole == self._whole:
            return self
        prints, old = _prints(value), self._prints
        chunks, cell = value.chunks(), self.cell
        differ = [at for at, new in enumerate(prints) if at >= len(old) or new != old[at]]
        for start, stop in reversed(runs(differ)):
            cells = [imprinter.cells.chunk_cell(chunk) for chunk in chunks[start:stop]]
            cell = imprinter.cells.splice(cell, start, min(stop, len(old)), cells)
        if len(prints) < len(old):
            cell = imprinter.cells.splice(cell, len(prints), len(old), [])
        if _prints(value) != prints or _print(value) != whole:
            raise ConcurrentChange.of(value)
        return (
            BytesImprint(cell, whole, prints)
            if imprinter.cells.is_grown(cell)
            else imprinter.encode(value)
        )


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


class ContentImprint(Imprint):
    """The imprint of a value whose content is one immutable object.

    Taking it costs nothing. If the value gets another content, a copy that still has the old one
    tells what the parts looked like.
    """

    __slots__ = ("_content", "_copy")

    def __init__(self, cell: bytes, value: Any, content: object) -> None:
        super().__init__(cell)
        self._content = content
        self._copy = value.copy()

    @classmethod
    def take(cls, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint, or None if the value is of another kind."""
        content = content_of(value)
        if content is None or imprinter.cells.tag(cell) is None:
            return None
        return cls(cell, value, content)

    def fits(self, value: object) -> bool:
        """Tell whether a value is of the same type."""
        return type(value) is type(self._copy)

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the current imprint; encode only what changed."""
        content = content_of(value)
        if content is self._content and value.dtype == self._copy.dtype:
            return self
        old = CodecImprint.take(self._copy, self.cell, imprinter)
        new = imprinter.encode(value) if old is None else imprinter.update(value, old)
        if content is None or not imprinter.cells.is_grown(new.cell):
            return new
        if imprinter.cells.same(new.cell, self.cell):
            self._content, self._copy = content, value.copy()
            return self
        return ContentImprint(new.cell, value, content)
