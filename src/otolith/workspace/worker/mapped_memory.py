"""Raw bytes mapped into memory, and which of their pages were written to.

The host sends a descriptor of sealed memory. It is mapped privately: pages are shared with the host
until they are written to, and copied then. The kernel knows which were: a page of a private mapping
that is no longer one of the file is a copy (`/proc/self/pagemap`, bit 61). So a frame of a gigabyte
is available at once, and its changes are found without reading it.

The second half is about arrays that overlap in memory which no variable covers. A state stores a
view as a view of another array that is in it. If that array has no name, the variables that overlap
are stored as objects, in one pickle that has the memory as well.
"""

from __future__ import annotations

import mmap
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import addressof, c_char
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_intdigest

from otolith.codecs import Order
from otolith.core import Cells
from otolith.state.tracker.imprints import ConcurrentChange, Imprint, Imprinter, runs
from otolith.state.tracker.shared_objects import (
    STAND_IN,
    identity,
    is_array,
    levels,
    places_of,
    view_in,
)
from otolith.types import CHUNK_BYTES, Piece, Raw, Tag
from otolith.workspace.protocol import Host

WORTH_BYTES = 1 << 20
"""Shorter values are not mapped: reading their chunks is as fast."""

_PAGE = mmap.PAGESIZE


class MappedBytes:
    """The raw bytes of a cell, mapped into memory."""

    __slots__ = ("cell", "memory", "size", "start")

    def __init__(self, cell: bytes, descriptor: int, size: int) -> None:
        self.cell = cell
        self.size = size
        self.memory = mmap.mmap(
            descriptor, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )
        self.start = addressof(c_char.from_buffer(self.memory))

    def written_chunks(self) -> set[int]:
        """Return the numbers of the chunks that were written to."""
        count = (self.size + _PAGE - 1) // _PAGE
        with Path("/proc/self/pagemap").open("rb", buffering=0) as pagemap:
            pagemap.seek(self.start // _PAGE * 8)
            entries = pagemap.read(count * 8)
        chunks: set[int] = set()
        for page in _copied_pages(entries):
            first = page * _PAGE
            chunks.update(range(first // CHUNK_BYTES, (first + _PAGE - 1) // CHUNK_BYTES + 1))
        last = (self.size - 1) // CHUNK_BYTES
        return {chunk for chunk in chunks if chunk <= last}


def _copied_pages(entries: bytes) -> Iterable[int]:
    """Yield the pages that are copies.

    The last byte of an entry has bits 56 to 63; a table says which values of it mean a copy.
    """
    marks = entries[7::8].translate(_IS_COPY)
    at = marks.find(b"\1")
    while at >= 0:
        yield at
        at = marks.find(b"\1", at + 1)


_IN_FILE, _SWAPPED, _PRESENT = 1 << 5, 1 << 6, 1 << 7
_IS_COPY = bytes(
    bool(top & _SWAPPED or (top & _PRESENT and not top & _IN_FILE)) for top in range(256)
)


class MemoryMappings:
    """All mappings of this process. They stay, so that an address always means the same bytes."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._starts: list[int] = []
        self._mappings: list[MappedBytes] = []

    def load(self, cell: bytes) -> Piece | None:
        """Map the raw bytes of a cell; None if the host has none for it."""
        found = self.host.map(cell)
        if found is None:
            return None
        descriptor, size = found
        try:
            mapping = MappedBytes(cell, descriptor, size)
        finally:
            os.close(descriptor)
        at = bisect_right(self._starts, mapping.start)
        self._starts.insert(at, mapping.start)
        self._mappings.insert(at, mapping)
        return Piece(memoryview(mapping.memory))

    def find(self, raw: Raw) -> MappedBytes | None:
        """Return the mapping that has exactly these raw bytes; None if there is none."""
        size = raw.view.nbytes
        if size < WORTH_BYTES or not self._starts or raw.view.readonly:
            return None
        start = addressof(c_char.from_buffer(raw.view))
        at = bisect_right(self._starts, start) - 1
        found = self._mappings[at] if at >= 0 else None
        return found if found and (found.start, found.size) == (start, size) else None

    def imprint(self, value: object, cell: bytes, imprinter: Imprinter) -> Imprint | None:
        """Return the imprint of mapped raw bytes, without reading them."""
        mapping = self.find(value) if type(value) is Raw else None
        if mapping is None or not imprinter.cells.same(mapping.cell, cell):
            return None
        return MappedImprint(cell, mapping, self, {})


class MappedImprint(Imprint):
    """The imprint of mapped raw bytes: the kernel knows what was written to."""

    __slots__ = ("_mapping", "_mappings", "_prints")

    def __init__(
        self, cell: bytes, mapping: MappedBytes, mappings: MemoryMappings, prints: dict[int, int]
    ) -> None:
        super().__init__(cell)
        self._mapping = mapping
        self._mappings = mappings
        self._prints = prints  # of written chunks, when they were last compared

    def fits(self, value: object) -> bool:
        """Tell whether this is the imprint of a value."""
        return type(value) is Raw and self._mappings.find(value) is self._mapping

    def update(self, value: Any, imprinter: Imprinter) -> Imprint:
        """Return the imprint of the value now."""
        chunks = value.chunks()
        prints = {at: xxh3_128_intdigest(chunks[at]) for at in self._mapping.written_chunks()}
        changed = sorted(at for at, print in prints.items() if self._prints.get(at) != print)
        cell = self.cell
        for start, stop in runs(changed):
            cells = [imprinter.cells.chunk_cell(chunk) for chunk in chunks[start:stop]]
            cell = imprinter.cells.splice(cell, start, stop, cells)
        if any(xxh3_128_intdigest(chunks[at]) != prints[at] for at in changed):
            raise ConcurrentChange.of(value)
        self._prints = prints
        if imprinter.cells.same(cell, self.cell):
            return self
        return MappedImprint(cell, self._mapping, self._mappings, prints)


class MappingCells(Cells):
    """Cells that map long raw bytes instead of reading them."""

    mappings: MemoryMappings | None = None
    _expects_raw = 0

    @contextmanager
    def expecting_raw(self) -> Iterator[None]:
        """Treat long lists of chunks as raw bytes; elsewhere they may be lists of the user."""
        self._expects_raw += 1
        try:
            yield
        finally:
            self._expects_raw -= 1

    def load(self, cell: bytes) -> object:
        """Return the value of a cell; long raw bytes as mapped memory."""
        if self.is_grown(cell) and self.kind(cell) == "tagged":
            tag = self.tag(cell)
            if tag is not None and tag.code in _RAW_INSIDE:
                with self.expecting_raw():
                    return super().load(cell)
        if self._expects_raw and self.mappings is not None and self._is_worth_mapping(cell):
            piece = self.mappings.load(cell)
            if piece is not None:
                return piece
        return super().load(cell)

    def _is_worth_mapping(self, cell: bytes) -> bool:
        """Tell by its length whether this may be a long list of chunks, or of lists of them."""
        link = self.tree(cell)
        if link is None or link.size < WORTH_BYTES or self.kind(cell) != "list":
            return False
        return link.size >= link.length * _CHUNKY_BYTES


_RAW_INSIDE = frozenset({Tag.ARRAY, Tag.FRAME, Tag.TABLE, Tag.POLARS, Tag.SPARSE, Tag.TENSOR})
_CHUNKY_BYTES = 2048


_MOST_WORK = 10_000
_ALIGNED_BYTES = 64


def overlapping_names(
    held: Mapping[str, object], reached: Iterable[object], order: Order
) -> set[str]:
    """Return the variables whose arrays overlap with others outside of any variable.

    `held` are variables that are data, `reached` the objects in pickles.
    """
    if "numpy" not in sys.modules:
        return set()
    others = [thing for thing in reached if is_array(thing)]
    common = _shared_memory(held, {identity(each) for each in others})
    if not common:
        return set()
    arrays = [
        (name, part)
        for name, value in held.items()
        for _, part in places_of(value, common, order)
        if is_array(part)
    ]
    groups: dict[int, list[tuple[str, Any]]] = {}
    for name, part in [*arrays, *(("", other) for other in others)]:
        if identity(part) in common:
            groups.setdefault(identity(part), []).append((name, part))
    return {
        name for group in groups.values() if _overlap_outside(group) for name, _ in group if name
    }


def span(arrays: list[Any]) -> Any:
    """Return the memory that arrays of one owner are views of, as bytes, and no more of it."""
    owner = arrays[0]
    if owner.dtype.hasobject or any(each is owner for each in arrays[1:]):
        return owner
    start = addresses(owner)[0]
    bounds = list(map(addresses, arrays[1:]))
    low = (min(low for low, _ in bounds) - start) // _ALIGNED_BYTES * _ALIGNED_BYTES
    high = max(high for _, high in bounds) - start
    return owner.reshape(-1, order="A").view("u1")[low:high]


def addresses(array: Any) -> tuple[int, int]:
    """Return where the memory of an array starts and ends."""
    low, high = sys.modules["numpy"].lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def base_array(array: Any) -> Any:
    """Return the array that an array is a view of; None if it is not a view."""
    base = array.base
    if type(base).__name__ == STAND_IN:
        base = base.base
    return base if is_array(base) else None


def owner_of(array: Any) -> Any:
    """Return the array that all views of the same memory go back to."""
    while (base := base_array(array)) is not None:
        array = base
    return array if array.flags.forc and (array.size or not array.dtype.hasobject) else None


def _shared_memory(held: Mapping[str, object], others: set[int]) -> set[int]:
    """Return the memory of arrays in more than one place."""
    once, twice = set(others), set[int]()
    for value in held.values():
        for each in _memory(value):
            (twice if each in once else once).add(each)
    return twice


def _memory(value: object) -> Iterator[int]:
    """Yield the memory of the arrays in a value, twice if two of them use it."""
    numpy = sys.modules["numpy"]
    seen: set[int] = set()
    arrays: set[int] = set()
    for level, again in levels([value], seen):
        if numpy.ndarray in set(map(type, level)):
            new = {identity(each) for each in level if is_array(each)}
            arrays |= new
            yield from new
        yield from again & arrays


def _overlap_outside(group: list[tuple[str, Any]]) -> bool:
    """Tell whether arrays of one memory overlap where no variable covers it."""
    solid = [part for name, part in group if name and part.flags.forc]
    whole = max(solid, key=lambda part: int(part.nbytes), default=None)
    distinct = list({id(part): part for _, part in group}.values())
    beyond = [each for each in distinct if not _covers(whole, each)]
    return any(other is not each and _overlap(each, other) for each in beyond for other in distinct)


def _covers(whole: Any, array: Any) -> bool:
    return array is whole or (whole is not None and view_in(whole, array) is not None)


def _overlap(one: Any, other: Any) -> bool:
    numpy = sys.modules["numpy"]
    try:
        return bool(numpy.shares_memory(one, other, max_work=_MOST_WORK))
    except numpy.exceptions.TooHardError:
        return True
