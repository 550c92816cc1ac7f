"""A second reader of format 1, written from `docs/reference/format-v1.md` alone.

It imports nothing of otolith. A value is read back as its full encoding; on the way every hash,
every boundary, every count and every place of a value is checked against the specification.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from blake3 import blake3
from xxhash import xxh3_64_intdigest

from tests.compat.reader_rows import Rows
from tests.compat.reader_values import (
    Ext,
    canonical,
    header,
    in_key_order,
    key_bytes,
    parse,
    text_header,
)

INLINE, STATE, PACKED, ATOM = 256, 4096, 16384, 65536
ORDERED = 34
FIELDS = ["cell", "parents", "generation", "time", "author", "message", "kind", "reads", "meta"]


class Wrong(Exception):
    """The store breaks the specification."""


def check(condition: object, message: str) -> None:
    if not condition:
        raise Wrong(message)


class Link(NamedTuple):
    hash: bytes
    elements: int
    size: int


class Whole(NamedTuple):
    """A tree as read: its entries, and what its link must say."""

    parts: list[tuple[bytes, bytes]]
    elements: int
    size: int


class Reader:
    """Reads a store, and checks everything it touches."""

    def __init__(self, path: str) -> None:
        self.rows = Rows(path)
        self._known: dict[bytes, bytes] = {}
        self.nodes: set[tuple[bytes, int]] = set()  # the kinds and levels that were met
        config = self.object(self.rows.refs[".config"])
        check(config[:1] == b"p", "the constants are a packed value")
        fields = dict(parse(config[1:]))
        check(fields["format"] == 1, "this is another format")
        self.salt = fields["salt"]

    def object(self, hash: bytes) -> bytes:
        data = self.rows.object(hash)
        check(blake3(data).digest() == hash, "an object is not what its hash says")
        return data

    # Commits

    def commit(self, id: bytes) -> dict[str, Any]:
        """Return a commit, and the full encoding of its state."""
        data = self.object(id)
        check(data[:1] == b"C", "this is no commit")
        fields = parse(data[1:])
        check(len(fields) == len(FIELDS), "a commit has nine fields")
        check(canonical(fields) == data[1:], "a commit is not in its canonical form")
        commit = dict(zip(FIELDS, fields, strict=True))
        check(commit["cell"][:1] == b"\xc1", "the cell of a commit is a link")
        commit["state"] = self.value(commit["cell"], is_root=True)
        check(in_key_order(parse(commit["state"])), "the names of a state are not in key order")
        return commit

    # Cells

    def value(self, cell: bytes, *, is_root: bool = False) -> bytes:
        """Return the full encoding of the value in a cell."""
        if cell[0] != 0xC1:
            check(len(cell) <= INLINE, "an inline value is too long")
            check(canonical(parse(cell)) == cell, "an inline value is not canonical")
            return cell
        if cell not in self._known:
            self._known[cell] = self._tagged(cell) if cell[1] == 5 else self._linked(cell, is_root)
        return self._known[cell]

    def _linked(self, cell: bytes, is_root: bool) -> bytes:
        link = read_link(cell, 2)
        data = (self._packed, self._map, self._list, self._bytes, self._text)[cell[1]](link)
        check(len(data) == link.size, "a link says another size")
        if cell[1] == 0:
            check(is_root or len(data) > INLINE, "a short value is packed")
            is_atom = type(parse(data)) in (str, bytes)
            most = STATE if is_root else ATOM if is_atom else PACKED
            check(len(data) <= most, "a long value is packed")
        else:
            least = STATE if is_root else ATOM if cell[1] > 2 else PACKED
            check(len(data) > least, "a short value is a tree")
        return data

    def _tagged(self, cell: bytes) -> bytes:
        inner = self.value(cell[3:])
        data = canonical(Ext(cell[2], inner))
        check(len(data) > PACKED, "a short tagged value is split")
        if cell[2] == ORDERED:
            self._check_order(cell[3:], parse(inner))
        return data

    def _check_order(self, cell: bytes, parts: list[Any]) -> None:
        """Check the tree and the tail of a dict that is not in key order."""
        check(cell[:2] == b"\xc1\x02" and len(parts) == 2, "an order has two parts")
        tree = self._tree(read_link(cell, 2), b"l").parts[0][1]
        check(tree[:2] == b"\xc1\x01", "a dict with an order has no tree")
        keys = [key_bytes(key) for key, _ in parts[0]]
        tail = [key_bytes(key) for key in parts[1]]
        check(tail and len(set(tail)) == len(tail), "a tail is empty or names a key twice")
        check(set(tail) <= set(keys), "a tail names a key that is not there")
        head = [key for key in keys if key not in set(tail)]
        check(head and tail[0] < head[-1], "a tail starts too early")

    def _packed(self, link: Link) -> bytes:
        data = self.object(link.hash)
        check(data[:1] == b"p" and link.elements == 1, "this is no packed value")
        check(canonical(parse(data[1:])) == data[1:], "a packed value is not canonical")
        return data[1:]

    def _map(self, link: Link) -> bytes:
        whole = self._tree(link, b"m")
        keys = [key for key, _ in whole.parts]
        check(all(a < b for a, b in pairwise(keys)), "keys are not in order")
        pieces = [piece for key, cell in whole.parts for piece in (_key(key), self.value(cell))]
        data = header(len(keys), 0x80, 0xDE) + b"".join(pieces)
        check(len(data) == whole.size + len(header(len(keys), 0x80, 0xDE)), "sizes do not add up")
        return data

    def _list(self, link: Link) -> bytes:
        whole = self._tree(link, b"l")
        pieces = [self.value(cell) for _, cell in whole.parts]
        return header(len(pieces), 0x90, 0xDC) + b"".join(pieces)

    def _blob(self, link: Link) -> bytes:
        chunks = []
        for _, payload in self._tree(link, b"b").parts:
            chunk = read_link(payload)
            data = self.object(chunk.hash)
            check(data[:1] == b"c", "this is no chunk")
            check(len(data) - 1 == chunk.elements == chunk.size, "a chunk has another length")
            chunks.append(data[1:])
        whole = b"".join(chunks)
        check(chunk_lengths(whole) == [len(chunk) for chunk in chunks], "chunks end elsewhere")
        return whole

    def _bytes(self, link: Link) -> bytes:
        data = self._blob(link)
        return (b"\xc5" + len(data).to_bytes(2, "big") if len(data) < 65536
                else b"\xc6" + len(data).to_bytes(4, "big")) + data  # fmt: skip

    def _text(self, link: Link) -> bytes:
        data = self._blob(link)
        data.decode()
        return text_header(len(data)) + data

    # Trees

    def _tree(self, link: Link, kind: bytes) -> Whole:
        """Return the entries of a tree, having checked every node of it."""
        level, entries = self._node(link.hash, kind)
        check(level == 0 or len(entries) > 1, "a root has one entry and is no leaf")
        whole = self._level(kind, level, [(link.hash, entries)], is_root=True)
        check(whole.elements == link.elements, "a link says another count")
        return whole

    def _level(
        self,
        kind: bytes,
        level: int,
        nodes: list[tuple[bytes, list[Any]]],
        *,
        is_root: bool = False,
    ) -> Whole:
        """Check the boundaries of all nodes of one level, then go down."""
        flat = [entry for _, entries in nodes for entry in entries]
        is_small = kind == b"m" and len(flat) <= 32
        check(is_root or not is_small, "a small level is not the root")
        for place, (_, entries) in enumerate(nodes if not is_small else []):
            self._check_cut(kind, level, entries, is_last=place == len(nodes) - 1)
        if level == 0:
            return Whole(flat, *self._totals(kind, flat))
        below = []
        for key, payload in flat:
            child = read_link(payload)
            lower, entries = self._node(child.hash, kind)
            check(lower == level - 1, "a child is at another level")
            check(not key or entries[-1][0] == key, "an entry's key is not the last one below")
            below.append((child.hash, entries))
        whole = self._level(kind, level - 1, below)
        links = [read_link(payload) for _, payload in flat]
        check(sum(link.elements for link in links) == whole.elements, "counts do not add up")
        check(sum(link.size for link in links) == whole.size, "sizes do not add up")
        return whole

    def _totals(self, kind: bytes, flat: list[tuple[bytes, bytes]]) -> tuple[int, int]:
        if kind == b"b":
            links = [read_link(payload) for _, payload in flat]
            return sum(link.elements for link in links), sum(link.size for link in links)
        keys = sum(len(_key(key)) for key, _ in flat) if kind == b"m" else 0
        return len(flat), keys + sum(_full_size(cell) for _, cell in flat)

    def _check_cut(
        self, kind: bytes, level: int, entries: list[tuple[bytes, bytes]], *, is_last: bool
    ) -> None:
        ends = [self._ends(kind, level, place, *entry) for place, entry in enumerate(entries, 1)]
        check(not any(ends[:-1]), "a node goes on after its end")
        check(is_last or ends[-1], "a node ends too early")

    def _ends(self, kind: bytes, level: int, length: int, key: bytes, payload: bytes) -> bool:
        if kind == b"m":
            return height(key, self.salt) > level
        cut = xxh3_64_intdigest(payload, self.salt) & 31 == 0
        return length == 128 or (length >= 8 and cut)

    def _node(self, hash: bytes, kind: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
        data = self.object(hash)
        check(data[:1] == kind, "a node of another kind")
        self.nodes.add((kind, data[1]))
        count = int.from_bytes(data[2:4], "little")
        parts = list(_bins(data[4:]))
        if kind != b"m":
            check(len(parts) == count, "a node has another number of entries")
            return data[1], [(b"", part) for part in parts]
        check(len(parts) == 2 * count, "a node has another number of entries")
        return data[1], list(zip(parts[::2], parts[1::2], strict=True))


def height(key: bytes, salt: int) -> int:
    bits = xxh3_64_intdigest(key, salt)
    zeros = 64 if bits == 0 else (bits & -bits).bit_length() - 1
    return zeros // 5


def permutation(number: int) -> list[int]:
    order = sorted(range(256), key=lambda byte: blake3(bytes((number, byte))).digest())
    return [order.index(byte) for byte in range(256)]


def mixtures(data: bytes) -> list[int]:
    """Return the mixture of every byte, one by one, as the page has it."""
    for number, shifts in ((0, (11, 29, 53)), (1, (13, 41))):
        ranks = permutation(number)
        plain = [0] * 8 + [ranks[byte] for byte in data]
        data = bytes(
            _spread(plain[at - 7 : at + 1], shifts) for at in range(8, len(plain))
        )  # fmt: skip
    return list(data)


def _spread(last: list[int], shifts: tuple[int, ...]) -> int:
    """XOR the last of eight bytes with what a shift of the ones before it brings there."""
    value = last[-1]
    for shift in shifts:
        whole, bits = divmod(shift, 8)
        value ^= (last[-1 - whole] << bits | last[-2 - whole] >> 8 - bits) & 0xFF
    return value


def chunk_lengths(data: bytes) -> list[int]:
    mixed = mixtures(data)
    lengths, start, at = [], 0, 16384
    while at < len(data):
        if mixed[at - 2] == mixed[at - 1] == 0 or at - start == 262144:
            lengths.append(at - start)
            start, at = at, at + 16384
        else:
            at += 1
    return lengths + ([len(data) - start] if start < len(data) else [])


def read_link(data: bytes, at: int = 0) -> Link:
    numbers = []
    place = at + 32
    for _ in range(2):
        number = shift = 0
        while data[place] & 0x80:
            number |= (data[place] & 0x7F) << shift
            place, shift = place + 1, shift + 7
        numbers.append(number | data[place] << shift)
        place += 1
    check(place == len(data), "a link is followed by something")
    return Link(data[at : at + 32], *numbers)


def _full_size(cell: bytes) -> int:
    if cell[0] != 0xC1:
        return len(cell)
    if cell[1] != 5:
        return read_link(cell, 2).size
    inner = _full_size(cell[3:])
    return inner + (3 if inner < 256 else 4 if inner < 65536 else 6)


def _key(key: bytes) -> bytes:
    return key[1:] if key[:1] == b"\xff" else text_header(len(key)) + key


def _bins(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4}[data[at]]
        size = int.from_bytes(data[at + 1 : at + 1 + width], "big")
        at += 1 + width
        yield data[at : at + size]
        at += size
