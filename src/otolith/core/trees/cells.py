"""Cells: values as they stand in a tree, read and edited wherever their bytes are.

The cell of a value holds its encoding, or links to it. Which of the two depends on the length of
the value's full encoding, and on nothing else:

    up to 256 bytes     *inline*: the encoding itself is the cell
    up to 16 KiB        *packed*: the encoding is one object, the cell a link to it
    longer              *grown*: a dict is a map tree, a list a sequence, a str or bytes a blob
                        (a str or bytes of up to 64 KiB is still packed); a tagged value is its
                        code and the cell of its data

A whole state is a map tree from 4 KiB on: it is edited key by key, and a short node is less to
write than all of it.

A cell that is a link starts with 0xC1, its kind, and the link (see layout.py). The size in the
link of a value is the length of the value's full encoding, so a tree knows when it has shrunk
enough to be packed again: the form of a cell is a function of its content, never of its history.

The order of a dict is part of its content. Where it is grown and not in key order, its tree has a
list of keys beside it (see order.py). A *table* is a map that stays in key order whatever is put
in: the names of a state, and what otolith stores by name.

Theory of operation. While they are edited, cells are *loose*: an encoding of up to 16 KiB, or a
link to something longer. `settle` turns a loose cell into the one that stands in a tree, `loosen`
does the reverse; both copy at most one object. Every edit takes and returns loose cells, so nested
edits write only the objects that the outermost value needs in the end.

`walk` follows key bytes down from a cell, through maps, lists and models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeAlias

from otolith.core.trees.blob import Blob
from otolith.core.trees.encoding import (
    FSCK,
    Encoding,
    TooBig,
    bytes_header,
    check_distinct,
    container_header_size,
    encode_plain,
    is_key_order,
    join_list,
    join_map,
    join_tagged,
)
from otolith.core.trees.layout import (
    BYTES_KIND,
    LIST,
    LIST_KIND,
    MAP_KIND,
    MARK,
    PACKED,
    PACKED_KIND,
    TAGGED_KIND,
    TEXT_KIND,
    Link,
    check_parts,
    check_size,
    full_size,
    is_link,
    read_link,
)
from otolith.core.trees.maps import Difference, Edit, MapTree
from otolith.core.trees.model_tables import model_in
from otolith.core.trees.objects import Buffer
from otolith.core.trees.order import Tails, ordered_entries
from otolith.core.trees.sequence import ELEMENT_BYTES
from otolith.core.trees.sequence import Sequence as ListTree
from otolith.errors import (
    BadValue,
    Corrupt,
    Denied,
    Error,
    MissingExtra,
    TooLarge,
    UnknownType,
)
from otolith.types import CHUNK_BYTES, Hash, Raw, Tag, Tagged

INLINE_BYTES, STATE_BYTES, PACKED_BYTES, ATOM_BYTES = 256, 4096, 16384, 65536

EMPTY_MAP = b"\x80"
EMPTY_LIST = b"\x90"

_ORDERED = int(Tag.ORDERED)
_ORDERED_HEAD = bytes((MARK, TAGGED_KIND, _ORDERED, MARK, LIST_KIND))
"""What the cell of a dict with an order of its own starts with: the link to a list follows."""

_MAP_HEAD = bytes((MARK, MAP_KIND))

_BATCH = 256
"""So many packed values are read, and so many short ones encoded, together."""

_LINK_KINDS = {
    MAP_KIND: "map",
    LIST_KIND: "list",
    BYTES_KIND: "bytes",
    TEXT_KIND: "str",
    TAGGED_KIND: "tagged",
}
_FIRST_BYTES = {
    "map": (*range(0x80, 0x90), 0xDE, 0xDF),
    "list": (*range(0x90, 0xA0), 0xDC, 0xDD),
    "str": (*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB),
    "bytes": (0xC4, 0xC5, 0xC6),
    "tagged": (0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)),
}
_KINDS = {first: kind for kind, firsts in _FIRST_BYTES.items() for first in firsts}
"""What an encoding holds, by its first byte; all others are scalars."""


def _link_cell(kind: int, link: Link) -> bytes:
    return bytes((MARK, kind)) + link.encode()


def _packed_hash(cell: bytes | None) -> Hash | None:
    """Return the object of a packed value."""
    if cell is None or cell[0] != MARK or cell[1] != PACKED_KIND:
        return None
    return Hash(cell[2:34])


class Cells:
    """Turns values into cells and back, and edits the maps and lists in cells.

    New objects go into the buffer it was made with; nothing is written to the store here.
    """

    def __init__(self, objects: Buffer, encoding: Encoding, salt: int) -> None:
        self.objects = objects
        self.encoding = encoding
        self.salt = salt
        self.maps = MapTree(objects, salt)
        self.lists = ListTree(objects, salt, kind=LIST)
        self.blobs = Blob(objects, salt)
        self._growing: set[int] = set()  # ids of the values around the one that is being put

    # Values

    def put(self, value: object) -> bytes:
        """Return a value as a loose cell; what is long goes into new objects.

        Raises:
            BadValue: it cannot be stored; the message names the part that cannot.
        """
        if type(value) is str or type(value) is bytes:
            return self._put_atom(value)
        try:
            data = self.encoding.encode(value, limit=PACKED_BYTES)
        except TooBig:
            return self._grow(value)
        return data if len(data) <= PACKED_BYTES else self._grow(value)

    def put_all(self, values: Sequence[object]) -> list[bytes]:
        """Return many values as loose cells; short ones of plain data are encoded together."""
        cells: list[bytes] = []
        for start in range(0, len(values), _BATCH):
            batch = values[start : start + _BATCH]
            try:
                data = encode_plain(list(batch), _BATCH * PACKED_BYTES)
            except TooBig:
                data = None
            if data is None:
                cells += map(self.put, batch)
                continue
            for piece, value in zip(self.encoding.split_list(data), batch, strict=True):
                cells.append(piece if len(piece) <= PACKED_BYTES else self.put(value))
        return cells

    def chunk_cell(self, chunk: memoryview) -> bytes:
        """Return a chunk of raw bytes as it stands in a tree."""
        size = len(chunk)
        if PACKED_BYTES < size <= CHUNK_BYTES:  # as any bytes, and copied once only
            data = b"".join((PACKED, bytes_header(size), chunk))
            return _link_cell(PACKED_KIND, Link(self.objects.put(data), 1, len(data) - 1))
        return self.settle(self._put_atom(bytes(chunk)))

    def _put_atom(self, value: str | bytes) -> bytes:
        """Return the cell of a str or bytes: inline, packed, or a blob."""
        data = self.encoding.encode(value)
        if len(data) <= PACKED_BYTES:
            return data
        if len(data) <= ATOM_BYTES:
            return self._packed(data)
        if type(value) is bytes:
            return self._blob_cell(BYTES_KIND, self.blobs.build([value]))
        if _KINDS.get(data[0]) != "str":
            return self._grow(value)  # a str with lone surrogates is a tagged one
        return self._blob_cell(TEXT_KIND, self.blobs.build([str(value).encode()]))

    def _grow(self, value: object) -> bytes:
        """Write a value that is too long to be packed as a tree."""
        if id(value) in self._growing:
            raise BadValue(
                f"a {type(value).__name__} that holds itself", hint="store its parts under paths"
            )
        self._growing.add(id(value))
        try:
            return self._grown(value)
        finally:
            self._growing.discard(id(value))

    def _grown(self, value: object) -> bytes:
        """Return the cell of a value with a tree; `_grow` guards against values in themselves."""
        if type(value) is dict:
            named = {self.encoding.key(key): part for key, part in value.items()}
            if len(named) != len(value):
                check_distinct([self.encoding.key(key) for key in value])
            names = sorted(named)
            cells = map(self.settle, self.put_all([named[name] for name in names]))
            tree = self.maps.build(zip(names, cells, strict=True))
            return self.map_cell(tree, order=self.tails.of(list(named)))
        if type(value) is list:
            return self.list_cell(self.lists.build(map(self.settle, self.put_all(value))))
        if type(value) is Raw:
            return self.list_cell(self.lists.build(self.chunk_cell(c) for c in value.chunks()))
        code, data = self.encoding.codec.lower(value)
        if isinstance(data, dict) and self.encoding.is_form(code, data):
            data = self.encoding.in_key_order(data)
        return self.tagged_cell(code, self.put(data))

    def load(self, cell: bytes) -> object:
        """Return the value in a cell."""
        if cell[0] != MARK:
            return self.encoding.decode(cell)
        kind = cell[1]
        if kind == TAGGED_KIND:
            is_map = cell[2] == _ORDERED
            return self._load_map(cell) if is_map else self._lifted(cell[2], cell[3:])
        link = read_link(cell, 2)
        if kind == PACKED_KIND:
            return self.encoding.decode(self._unpacked(link))
        if link.size > self.objects.load_limit_bytes or link.length > link.size:
            raise self._too_large(link)
        if kind == MAP_KIND:
            return self._load_map(cell)
        if kind == LIST_KIND:
            cells = list(self.lists.items(link))
            check_parts(link, cells)
            return _guarded(lambda: self.load_all(cells))
        if kind == BYTES_KIND:
            return self.blobs.read(link)
        if kind == TEXT_KIND:
            try:
                return self.blobs.read(link).decode()
            except UnicodeDecodeError as error:
                raise Corrupt(f"a text is not text: {error}", hint=FSCK) from None
        raise Corrupt(f"a cell has the unknown kind {kind}", hint=FSCK)

    def _lifted(self, code: int, data: bytes) -> object:
        return self.encoding.codec.lift(code, self.load(data))

    def _load_map(self, cell: bytes) -> object:
        """Return the dict in a tree, in its order."""
        link = self.tree(cell)
        if link is not None and link.size > self.objects.load_limit_bytes:
            raise self._too_large(link)
        pairs = list(self.entries(cell))
        check_parts(link, (cell for _, cell in pairs))
        self.prefetch(cell for _, cell in pairs)
        unkey = self.encoding.unkey
        return _guarded(lambda: {unkey(key): self.load(cell) for key, cell in pairs})

    def _unpacked(self, link: Link) -> bytes:
        """Return the encoding of a packed value, which is short unless it was forged."""
        data = self.objects.data(link.hash)
        if len(data) - 1 != link.size or link.size > ATOM_BYTES:
            raise Corrupt("a packed value is not as long as its link says", hint=FSCK)
        return data[1:]

    def _too_large(self, link: Link) -> Error:
        """Return the error for a value that is over the load limit, or lies about its size."""
        if link.length > link.size:
            return Corrupt("a value has more parts than bytes", hint=FSCK)
        return TooLarge(
            f"a value of {link.size} bytes is more than {self.objects.load_limit_bytes}",
            hint="read parts of it, or open the repo with a higher load_limit_bytes",
        )

    def load_readable(self, cell: bytes) -> object:
        """Return the value in a cell, with stand-ins for what cannot be read here."""
        try:
            return self.load(cell)
        except (UnknownType, MissingExtra, Denied):
            encoding = Encoding(self.encoding.codec.opaque())
            return Cells(self.objects, encoding, self.salt).load(cell)

    def load_all(self, cells: Iterable[bytes]) -> list[object]:
        """Return the values of many cells, reading their objects together."""
        some = list(cells)
        values: list[object] = []
        for start in range(0, len(some), _BATCH):  # few enough to stay in the cache until used
            few = some[start : start + _BATCH]
            self.prefetch(few)
            values += map(self.load, few)
        return values

    def prefetch(self, cells: Iterable[bytes]) -> None:
        """Read the objects of packed values in one go."""
        packed = (cell for cell in cells if cell[0] == MARK and cell[1] == PACKED_KIND)
        self.objects.prefetch([Hash(cell[2:34]) for cell in packed])

    # The form of a cell

    def settle(self, cell: bytes, *, base: Hash | None = None) -> bytes:
        """Return a loose cell as it stands in a tree."""
        if cell[0] == MARK or len(cell) <= INLINE_BYTES:
            return cell
        return self._packed(cell, base=base)

    def loosen(self, cell: bytes) -> bytes:
        """Return a settled cell as a loose one."""
        if cell[0] == MARK and cell[1] == PACKED_KIND:
            link = read_link(cell, 2)
            if link.size <= PACKED_BYTES:
                return self._unpacked(link)
        return cell

    def _packed(self, data: bytes, *, base: Hash | None = None) -> bytes:
        hash = self.objects.put(PACKED + data, base=base)
        return _link_cell(PACKED_KIND, Link(hash, 1, len(data)))

    def _blob_cell(self, kind: int, link: Link | None) -> bytes:
        """Return the cell of a blob; a short one is stored inline."""
        size = 0 if link is None else link.length + (3 if link.length < 65536 else 5)
        if link is None or size <= ATOM_BYTES:
            data = self.blobs.read(link) if link else b""
            return self._put_atom(data.decode() if kind == TEXT_KIND else data)
        return _link_cell(kind, link._replace(size=size))

    def bytes_cell(self, link: Link | None) -> bytes:
        """Return the cell of a bytes value that is in this blob."""
        return self._blob_cell(BYTES_KIND, link)

    def map_cell(
        self,
        link: Link | None,
        *,
        order: bytes = EMPTY_LIST,
        base: bytes = EMPTY_LIST,
        most: int = PACKED_BYTES,
    ) -> bytes:
        """Return the loose cell of a map that is in this tree; up to `most` bytes it has none.

        `order` is the loose cell of the tail of its keys, `base` one that it resembles.
        """
        if link is None:
            return EMPTY_MAP
        size = container_header_size(link.length) + link.size
        if size <= most:
            entries = self._in_order(self.maps.items(link), order)
            return join_map((key, self.loosen(cell)) for key, cell in entries)
        tree = _link_cell(MAP_KIND, link._replace(size=size))
        if order == EMPTY_LIST:
            return tree
        tail = self.settle(order, base=_packed_hash(self.settle(base)))
        return self.tagged_cell(_ORDERED, self.list_cell(self.lists.build([tree, tail])))

    def list_cell(self, link: Link | None) -> bytes:
        """Return the loose cell of a list that is in this sequence."""
        if link is None:
            return EMPTY_LIST
        size = container_header_size(link.length) + link.size
        if size <= PACKED_BYTES:
            return join_list([self.loosen(cell) for cell in self.lists.items(link)])
        return _link_cell(LIST_KIND, link._replace(size=size))

    def tagged_cell(self, code: int, data: bytes) -> bytes:
        """Return the loose cell of a tagged value, given the loose cell of its data."""
        if data[0] != MARK:
            encoded = join_tagged(code, data)
            if len(encoded) <= PACKED_BYTES:
                return encoded
            data = self.settle(data)
        return bytes((MARK, TAGGED_KIND, code)) + data

    def root(self, cell: bytes, *, base: Hash | None = None) -> bytes:
        """Return the cell of a whole state as it stands in a commit: always a link."""
        return cell if is_link(cell) else self._packed(cell, base=base)

    # Views

    def frozen(self) -> Cells:
        """Return a copy that can still read what is staged now after it was dropped."""
        return Cells(self.objects.copy(), self.encoding, self.salt)

    # What is in a cell

    def is_grown(self, cell: bytes) -> bool:
        """Tell whether a value is a tree, or a tag around one."""
        return cell[0] == MARK and cell[1] != PACKED_KIND

    def kind(self, cell: bytes) -> str:
        """Name what a cell holds: map, list, str, bytes, tagged or scalar."""
        if cell[0] == MARK:
            if cell[1] == PACKED_KIND:
                return self.kind(self._unpacked(read_link(cell, 2)))
            return "map" if cell.startswith(_ORDERED_HEAD) else _LINK_KINDS[cell[1]]
        return _KINDS.get(cell[0], "scalar")

    def tag(self, cell: bytes) -> Tagged | None:
        """Return the code of a tagged cell and the loose cell of its data."""
        if cell[0] == MARK and cell[1] == TAGGED_KIND:
            is_map = cell.startswith(_ORDERED_HEAD)
            return None if is_map else Tagged(cell[2], self.loosen(cell[3:]))
        loose = self.loosen(cell)
        if loose[0] != MARK and _KINDS.get(loose[0]) == "tagged":
            return Tagged(*self.encoding.tagged(loose))
        return None

    def tree(self, cell: bytes) -> Link | None:
        """Return the link to the tree of a map or list, as the tree itself counts its size."""
        if cell[0] != MARK:
            return None
        if has_order(cell):
            cell = self._tree_and_tail(cell)[0]
        if cell[1] not in (MAP_KIND, LIST_KIND):
            return None
        link = read_link(cell, 2)
        return Link(link.hash, link.length, link.size - container_header_size(link.length))

    def blob(self, cell: bytes) -> Link | None:
        """Return the link to the blob of a long str or bytes."""
        if cell[0] != MARK or cell[1] not in (BYTES_KIND, TEXT_KIND):
            return None
        link = read_link(cell, 2)
        return Link(link.hash, link.length, link.length)

    def entries(self, cell: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield key bytes and cells of a map, in its order."""
        link = self.tree(cell)
        if link is not None:
            return self._in_order(self.maps.items(link), self.order(cell))
        return iter(self.encoding.split_map(self.loosen(cell)).items())

    def entries_from(self, cell: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield key bytes and cells of a map in key order, from the first not before `start`."""
        link = self.tree(cell)
        if link is not None:
            return self.maps.items(link, start=start)
        return iter(sorted(pair for pair in self.entries(cell) if pair[0] >= start))

    def map_differences(self, old: bytes, new: bytes) -> list[Difference]:
        """Return the keys whose cells differ between two maps, in key order."""
        old_tree, new_tree = self.tree(old), self.tree(new)
        if old_tree is not None and new_tree is not None:
            return self.maps.diff(old_tree, new_tree)
        before, after = self.all_entries(old), self.all_entries(new)
        pairs = ((key, before.get(key), after.get(key)) for key in sorted({**before, **after}))
        return [(key, a, b) for key, a, b in pairs if not self.same(a, b)]

    def elements(self, cell: bytes, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the cells of a list."""
        link = self.tree(cell)
        if link is not None:
            return self.lists.items(link, start, stop)
        return iter(self.encoding.split_list(self.loosen(cell))[start:stop])

    def all_entries(self, cell: bytes) -> dict[bytes, bytes]:
        """Return key bytes and cells of a map, in any order, checked against its link's size."""
        found = dict(self.entries_from(cell, b""))
        check_parts(self.tree(cell), found.values())
        return found

    def all_elements(self, cell: bytes) -> list[bytes]:
        """Return the cells of a list, checked against the size in its link."""
        link = self.tree(cell)
        if link is not None and link.length > self.objects.load_limit_bytes // ELEMENT_BYTES:
            raise self._too_large(link)
        found = list(self.elements(cell))
        check_parts(link, found)
        return found

    def element(self, cell: bytes, at: int) -> bytes:
        """Return the cell of one element of a list."""
        found = next(iter(self.elements(cell, at, at + 1)), None)
        if found is None:
            raise Corrupt(f"a list has no element {at}, but counts it", hint=FSCK)
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

    def entries_of(self, cell: bytes) -> Callable[[bytes], bytes | None]:
        """Return a function that returns the cell at a key of a map, to look up many."""
        link = self.tree(cell)
        if link is not None:
            return partial(self.maps.get, link)
        return self.encoding.split_map(self.loosen(cell)).get

    def edit_map(
        self,
        cell: bytes,
        edits: dict[bytes, bytes | None],
        *,
        most: int = PACKED_BYTES,
        is_table: bool = False,
    ) -> bytes:
        """Return a map with these loose cells put in, or removed where None.

        New keys come last, in the order of the edits; a table that is in key order stays so. Up to
        `most` bytes the map has no tree.
        """
        link = self.tree(cell)
        if link is not None:
            order = base = self.order(cell)
            new = self.maps.apply(link, self._settled(link, edits))
            if new is not None and not (is_table and order == EMPTY_LIST):
                order = self.tails.after(order, link, new, edits)
            return self.map_cell(new, order=order, base=base, most=most)
        entries = self.encoding.split_map(self.loosen(cell))
        is_sorted = is_table and is_key_order(entries)
        for key, part in edits.items():
            if part is None:
                entries.pop(key, None)
            else:
                entries[key] = part
        return self._gather(sorted(entries.items()) if is_sorted else list(entries.items()), most)

    def state(self, cell: bytes) -> bytes:
        """Return the loose cell of a whole state, given the loose cell of a map."""
        return cell if is_link(cell) or len(cell) <= STATE_BYTES else self.edit_state(cell, {})

    def edit_state(self, cell: bytes, edits: dict[bytes, bytes | None]) -> bytes:
        """Return a whole state with these loose cells put in, or removed where None."""
        return self.edit_map(cell, edits, most=STATE_BYTES, is_table=True)

    # The order of a map

    @cached_property
    def tails(self) -> Tails:
        """How the order of a map with a tree is read and made."""
        return Tails(self, self.maps)

    def order(self, cell: bytes) -> bytes:
        """Return the loose list of the keys that a map with a tree has after its ascending ones."""
        if not has_order(cell):
            return EMPTY_LIST
        return self.loosen(self._tree_and_tail(cell)[1])

    def names(self, cell: bytes) -> list[bytes]:
        """Return the key bytes of a map, in its order."""
        return [key for key, _ in self.entries(cell)]

    def is_sorted(self, cell: bytes) -> bool:
        """Tell whether a map is in key order."""
        if self.tree(cell) is not None:
            return self.order(cell) == EMPTY_LIST
        return is_key_order(self.encoding.split_map(self.loosen(cell)))

    def reorder(self, cell: bytes, names: list[bytes]) -> bytes:
        """Return a map with its keys in this order; `names` are exactly its key bytes."""
        link = self.tree(cell)
        if link is None:
            entries = self.encoding.split_map(self.loosen(cell))
            return join_map((name, entries[name]) for name in names)
        order = self.order(cell)
        return self.map_cell(link, order=self.tails.replaced(order, names), base=order)

    def _tree_and_tail(self, cell: bytes) -> list[bytes]:
        """Return the cells of the tree and of the tail of a map that has an order of its own."""
        if cell.startswith(_ORDERED_HEAD):
            link = read_link(cell, 5)
            node = self.objects.node(link.hash)
            parts = node.payloads
            is_list = node.kind == LIST and not node.level and len(parts) == link.length == 2
            if is_list and parts[0][:2] == _MAP_HEAD and parts[1] != EMPTY_LIST:
                check_size(link, full_size(parts[0]) + full_size(parts[1]))
                return parts
        raise Corrupt("a dict with an order is not a tree and a list of keys", hint=FSCK)

    def _in_order(
        self, entries: Iterator[tuple[bytes, bytes]], order: bytes
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return the entries of a tree in the order of a map."""
        if order == EMPTY_LIST:
            return entries
        return iter(ordered_entries(entries, self.tails.names(order)))

    def _settled(self, link: Link, edits: dict[bytes, bytes | None]) -> list[Edit]:
        """Settle new cells; one that is packed is probably like the one it replaces."""
        out: list[Edit] = []
        for key in sorted(edits):
            new = edits[key]
            base = None
            if new is not None and new[0] != MARK and len(new) > INLINE_BYTES:
                base = _packed_hash(self.maps.get(link, key))
            out.append((key, None if new is None else self.settle(new, base=base)))
        return out

    def _gather(self, entries: list[tuple[bytes, bytes]], most: int) -> bytes:
        """Return the loose cell of a map with these loose entries, in its order."""
        cells = [(key, self.loosen(cell)) for key, cell in entries]
        if not any(is_link(cell) for _, cell in cells):
            data = join_map(cells)
            if len(data) <= most:
                return data
        built = self.maps.build((key, self.settle(cell)) for key, cell in sorted(cells))
        order = self.tails.of([key for key, _ in cells])
        return self.map_cell(built, order=order, most=most)

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
        before = self.element(_link_cell(LIST_KIND, link), start - 1)
        settled: list[bytes] = []
        for part in parts:
            before = self.settle(part, base=_packed_hash(before))
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


def has_order(cell: bytes) -> bool:
    """Tell whether a cell is a dict with a tree that is not in key order."""
    return cell[0] == MARK and cell[1] == TAGGED_KIND and cell[2] == _ORDERED


def _guarded(load: Callable[[], object]) -> object:
    """Load a value; one that is nested too deep is damage."""
    try:
        return load()
    except RecursionError:
        raise Corrupt("a value is nested too deep to be read", hint=FSCK) from None


Names: TypeAlias = tuple[bytes, ...]
"""A path as key bytes."""


def walk(cells: Cells, cell: bytes, names: Names) -> bytes | None:
    """Follow key bytes down from a cell."""
    at: bytes | None = cell
    for name in names:
        kind = cells.kind(at) if at is not None else ""
        if at is not None and kind == "map":
            at = cells.entry(at, name)
        elif at is not None and kind == "list":
            found = index_in(cells.encoding.unkey(name), cells.length(at))
            at = None if found is None else cells.element(at, found)
        elif at is not None and kind == "tagged" and (model := model_in(cells, at)) is not None:
            at = model.entry(name, cells)
        else:
            return None
    return at


def index_in(key: object, length: int) -> int | None:
    """Return the index that a key of a path names in a list of this length."""
    if isinstance(key, str) and key.removeprefix("-").isdecimal():
        key = int(key)
    if type(key) is not int or not -length <= key < length:
        return None
    return key % length
