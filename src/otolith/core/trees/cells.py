"""Cells opened: the maps, lists, tags and blobs in them, read and edited wherever they sit."""

from __future__ import annotations

from collections.abc import Iterator

from otolith.core.trees.encoding import container_header_size, join_list, join_map
from otolith.core.trees.layout import MARK, TAGGED_KIND, Link, is_link, read_link
from otolith.core.trees.maps import Edit
from otolith.core.trees.places import (
    BYTES_KIND,
    EMPTY_LIST,
    EMPTY_MAP,
    INLINE_BYTES,
    LIST_KIND,
    MAP_KIND,
    PACKED_BYTES,
    PACKED_KIND,
    STATE_BYTES,
    TEXT_KIND,
    Places,
    first_byte_kind,
    link_cell,
    packed_hash,
)
from otolith.core.trees.weights import full_size
from otolith.errors import Corrupt
from otolith.types import Hash, Tagged

__all__ = ["EMPTY_LIST", "EMPTY_MAP", "Cells"]


class Cells(Places):
    """What is in a cell, whether it is inline, packed or a tree."""

    def frozen(self) -> Cells:
        """Return these cells as they are now; what is staged can still be read when it is gone."""
        return Cells(self.objects.copy(), self.encoding, self.salt)

    def is_grown(self, cell: bytes) -> bool:
        """Tell whether a value has a tree of its own, or is a tag around one that has."""
        return cell[0] == MARK and cell[1] != PACKED_KIND

    def kind(self, cell: bytes) -> str:
        """Name what a cell holds: map, list, str, bytes, tagged or scalar."""
        if cell[0] == MARK:
            if cell[1] == PACKED_KIND:
                return self.kind(self.objects.data(Hash(cell[2:34]))[1:])
            return _KINDS[cell[1]]
        return first_byte_kind(cell[0])

    def tag(self, cell: bytes) -> Tagged | None:
        """Return the code of a tagged cell and the loose cell of its data."""
        if cell[0] == MARK and cell[1] == TAGGED_KIND:
            return Tagged(cell[2], self.loosen(cell[3:]))
        loose = self.loosen(cell)
        if loose[0] != MARK and first_byte_kind(loose[0]) == "tagged":
            return Tagged(*self.encoding.tagged(loose))
        return None

    def tree(self, cell: bytes) -> Link | None:
        """Return the link to the tree of a map or list, as the tree itself counts its size."""
        if cell[0] != MARK or cell[1] not in (MAP_KIND, LIST_KIND):
            return None
        link = read_link(cell, 2)
        return link._replace(size=link.size - container_header_size(link.length))

    def blob(self, cell: bytes) -> Link | None:
        """Return the link to the blob of a long str or bytes."""
        if cell[0] != MARK or cell[1] not in (BYTES_KIND, TEXT_KIND):
            return None
        link = read_link(cell, 2)
        return link._replace(size=link.length)

    def entries(self, cell: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield key bytes and cells of a map, in order."""
        link = self.tree(cell)
        if link is not None:
            return self.maps.items(link)
        return iter(self.encoding.split_map(self.loosen(cell)).items())

    def entries_from(self, cell: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield key bytes and cells of a map, in order, from the first key not before `start`."""
        link = self.tree(cell)
        if link is not None:
            return self.maps.items(link, start=start)
        return (pair for pair in self.entries(cell) if pair[0] >= start)

    def elements(self, cell: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the cells of a list."""
        link = self.tree(cell)
        if link is not None:
            return self.lists.items(link, start, stop)
        return iter(self.encoding.split_list(self.loosen(cell))[start:stop])

    def element(self, cell: bytes, at: int) -> bytes:
        """Return the cell of one element of a list."""
        found = next(iter(self.elements(cell, at, at + 1)), None)
        if found is None:
            raise Corrupt(f"a list has no element {at}, but counts it", hint="run otolith fsck")
        return found

    def length(self, cell: bytes) -> int:
        """Return how many entries a map or list has."""
        link = self.tree(cell)
        if link is not None:
            return link.length
        loose = self.loosen(cell)
        if self.kind(loose) == "map":
            return len(self.encoding.split_map(loose))
        return len(self.encoding.split_list(loose))

    def entry(self, cell: bytes, key: bytes) -> bytes | None:
        """Return the cell at a key of a map."""
        link = self.tree(cell)
        if link is not None:
            return self.maps.get(link, key)
        return self.encoding.split_map(self.loosen(cell)).get(key)

    def edit_map(
        self, cell: bytes, edits: dict[bytes, bytes | None], *, most: int = PACKED_BYTES
    ) -> bytes:
        """Return a map with these loose cells put in, or removed where None.

        Up to `most` bytes it has no tree.
        """
        link = self.tree(cell)
        if link is not None:
            return self.map_cell(self.maps.apply(link, self._settled(link, edits)), most=most)
        entries = self.encoding.split_map(self.loosen(cell))
        for key, new in edits.items():
            if new is None:
                entries.pop(key, None)
            else:
                entries[key] = new
        return self._gather(sorted(entries.items()), most)

    def state(self, cell: bytes) -> bytes:
        """Return the loose cell of a whole state, given the loose cell of a map."""
        return cell if is_link(cell) or len(cell) <= STATE_BYTES else self.edit_state(cell, {})

    def edit_state(self, cell: bytes, edits: dict[bytes, bytes | None]) -> bytes:
        """Return a whole state with these loose cells put in, or removed where None."""
        return self.edit_map(cell, edits, most=STATE_BYTES)

    def _settled(self, link: Link, edits: dict[bytes, bytes | None]) -> list[Edit]:
        """Settle new cells; one that is packed is probably like the one it replaces."""
        out: list[Edit] = []
        for key in sorted(edits):
            new = edits[key]
            base = None
            if new is not None and new[0] != MARK and len(new) > INLINE_BYTES:
                base = packed_hash(self.maps.get(link, key))
            out.append((key, None if new is None else self.settle(new, base=base)))
        return out

    def _gather(self, entries: list[tuple[bytes, bytes]], most: int) -> bytes:
        """Return the loose cell of a map with these loose entries, in order."""
        cells = [(key, self.loosen(cell)) for key, cell in entries]
        if not any(is_link(cell) for _, cell in cells):
            data = join_map(cells)
            if len(data) <= most:
                return data
        built = self.maps.build((key, self.settle(cell)) for key, cell in cells)
        return self.map_cell(built, most=most)

    def splice(self, cell: bytes, start: int, stop: int, parts: list[bytes]) -> bytes:
        """Return a list with elements replaced by these loose cells."""
        link = self.tree(cell)
        if link is not None:
            settled = self._settled_after(link, start, parts)
            return self.list_cell(self.lists.splice(link, start, stop, settled))
        elements = self.encoding.split_list(self.loosen(cell))
        elements[start:stop] = [self.loosen(part) for part in parts]
        if not any(map(is_link, elements)):
            data = join_list(elements)
            if len(data) <= PACKED_BYTES:
                return data
        return self.list_cell(self.lists.build(self.settle(part) for part in elements))

    def _settled_after(self, link: Link, start: int, parts: list[bytes]) -> list[bytes]:
        """Settle new elements of a list; one that is packed is probably like the one before it."""
        if start == 0 or not any(len(part) > INLINE_BYTES for part in parts):
            return [self.settle(part) for part in parts]
        before = self.element(link_cell(LIST_KIND, link), start - 1)
        settled: list[bytes] = []
        for part in parts:
            before = self.settle(part, base=packed_hash(before))
            settled.append(before)
        return settled

    def full_size(self, cell: bytes) -> int:
        """Return the length of the full encoding of the value in a cell, without reading it."""
        return full_size(cell)

    def same(self, a: bytes | None, b: bytes | None) -> bool:
        """Tell whether two cells hold the same value, settled or loose."""
        if a == b or a is None or b is None or (is_link(a) and is_link(b)):
            return a == b
        return full_size(a) == full_size(b) and self.loosen(a) == self.loosen(b)


_KINDS = {
    MAP_KIND: "map",
    LIST_KIND: "list",
    BYTES_KIND: "bytes",
    TEXT_KIND: "str",
    TAGGED_KIND: "tagged",
}
