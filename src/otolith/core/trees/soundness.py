"""Checks that an object follows the rules of the format, beyond having the right hash.

`flaws` examines one object by itself. `claims` are what it says of the objects it links to, and
`totals` what an object really holds: a caller that has seen both compares them (`Claim.fits`).

The rules, which make equal content have equal bytes:

- A packed value, a chunk and an inline value have at most their longest length, and each value has
  the form that its encoded size asks for (`_FORMS`).
- A value is in its canonical encoding: encoding what was decoded gives the same bytes.
- The keys of a map tree are in order; where a dict is in another, its tail fits the tree
  (`Cells.names` tells). A node ends at a key or element that ends it, and at no other, so the shape
  of a tree depends on its content alone.
- A link claims the kind, level, length and size of the object that it leads to.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from otolith.core.trees.blob import LONGEST as LONGEST_CHUNK
from otolith.core.trees.cells import (
    ATOM_BYTES,
    INLINE_BYTES,
    PACKED_BYTES,
    STATE_BYTES,
    has_order,
)
from otolith.core.trees.encoding import Encoding, container_header_size
from otolith.core.trees.layout import (
    BLOB,
    BYTES_KIND,
    CHUNK,
    LIST,
    LIST_KIND,
    MAP,
    MAP_KIND,
    NODES,
    PACKED,
    PACKED_KIND,
    TAGGED_KIND,
    TEXT_KIND,
    Link,
    Node,
    decode_node,
    entry_size,
    full_size,
    height,
    is_link,
    read_link,
)
from otolith.core.trees.maps import SMALL
from otolith.core.trees.sequence import ends_node
from otolith.errors import Corrupt, UnknownType
from otolith.types import Hash

_FORMS = {
    PACKED_KIND: ("a value is packed", INLINE_BYTES, ATOM_BYTES),
    MAP_KIND: ("a map has a tree", PACKED_BYTES, None),
    LIST_KIND: ("a list has a tree", PACKED_BYTES, None),
    BYTES_KIND: ("bytes have a tree", ATOM_BYTES, None),
    TEXT_KIND: ("a text has a tree", ATOM_BYTES, None),
}
"""The form of a value by the kind of its cell: longer than the first size, up to the second."""


class Totals(NamedTuple):
    """The kind and level of an object, and how many elements and encoded bytes are below it."""

    kind: bytes
    level: int
    length: int
    size: int


class Claim(NamedTuple):
    """The totals that an object claims for one that it links to; a level of -1 is any level."""

    hash: Hash
    totals: Totals

    def fits(self, found: Totals) -> bool:
        """Tell whether what was found is what was claimed."""
        claimed = self.totals
        return claimed in (found, found._replace(level=-1))


def totals(data: bytes) -> Totals | None:
    """Return the totals of an object; None for a commit, about which nothing is claimed."""
    kind = data[:1]
    if kind == PACKED:
        return Totals(kind, 0, 1, len(data) - 1)
    if kind == CHUNK:
        return Totals(kind, 0, len(data) - 1, len(data) - 1)
    if kind not in NODES:
        return None
    node = decode_node(data)
    if node.level or kind == BLOB:
        links = [read_link(payload) for payload in node.payloads]
        length, size = sum(link.length for link in links), sum(link.size for link in links)
        return Totals(kind, node.level, length, size)
    sizes = (
        map(entry_size, node.keys, node.payloads) if kind == MAP else map(full_size, node.payloads)
    )
    return Totals(kind, 0, len(node.payloads), sum(sizes))


def claims(data: bytes) -> Iterator[Claim]:
    """Yield what a node claims of the objects it links to."""
    if data[:1] not in NODES:
        return
    node = decode_node(data)
    for payload in node.payloads:
        if node.level:
            yield _claim(read_link(payload), node.kind, node.level - 1)
        elif node.kind == BLOB:
            yield _claim(read_link(payload), CHUNK, 0)
        else:
            yield from cell_claims(payload)


def _untagged(cell: bytes) -> bytes:
    """Return what is behind the tags of a cell, but for that of an order."""
    while is_link(cell) and cell[1] == TAGGED_KIND and not has_order(cell):
        cell = cell[3:]
    return cell


def cell_claims(cell: bytes) -> Iterator[Claim]:
    """Yield what a cell claims of the value it links to."""
    while is_link(cell) and cell[1] == TAGGED_KIND:
        cell = cell[3:]
    if not is_link(cell):
        return
    link = read_link(cell, 2)
    if cell[1] == PACKED_KIND:
        yield _claim(link, PACKED, 0)
    elif cell[1] in (BYTES_KIND, TEXT_KIND):
        yield _claim(link._replace(size=link.length), BLOB, -1)
    else:
        inner = link._replace(size=link.size - container_header_size(link.length))
        yield _claim(inner, MAP if cell[1] == MAP_KIND else LIST, -1)


def _claim(link: Link, kind: bytes, level: int) -> Claim:
    return Claim(link.hash, Totals(kind, level, link.length, link.size))


def ordered_cells(data: bytes) -> Iterator[bytes]:
    """Yield the cells in a node whose dicts are not in key order."""
    if data[:1] in NODES:
        node = decode_node(data)
        if not node.level and node.kind != BLOB:
            yield from filter(has_order, map(_untagged, node.payloads))


def flaws(data: bytes, encoding: Encoding, salt: int) -> Iterator[str]:
    """Yield what is wrong with an object by itself."""
    kind = data[:1]
    if kind == PACKED and len(data) > ATOM_BYTES + 1:
        yield f"a packed value has {len(data) - 1} bytes"
    elif kind == PACKED:
        yield from _value_flaws(data[1:], encoding)
    elif kind == CHUNK and not 1 < len(data) <= LONGEST_CHUNK + 1:
        yield f"a chunk has {len(data) - 1} bytes"
    elif kind in NODES:
        node = decode_node(data)
        yield from _order_flaws(node, encoding, salt)
        if not node.level and kind != BLOB:
            for cell in node.payloads:
                yield from _form_flaws(cell, encoding)


def root_flaws(cell: bytes) -> Iterator[str]:
    """Yield what is wrong with the cell of a whole state: packed or a tree, by its length."""
    right = PACKED_KIND if full_size(cell) <= STATE_BYTES else MAP_KIND
    if cell[1] != right:
        yield f"a state of {full_size(cell)} bytes is {'packed' if right else 'not packed'}"


def _order_flaws(node: Node, encoding: Encoding, salt: int) -> Iterator[str]:
    """Yield what is wrong with the entries of a node: their order, and where the node ends."""
    if node.kind != MAP:
        size = len(node.payloads)
        if any(ends_node(item, at, salt) for at, item in enumerate(node.payloads[: size - 1], 1)):
            yield "a node continues after an entry that ends it"
        return
    if any(a >= b for a, b in pairwise(node.keys)):
        yield "the keys of a map are not in order"
    heights = [height(key, salt) for key in node.keys[:-1]]
    if len(node.keys) > SMALL and any(tall > node.level for tall in heights):
        yield "a node continues after a key that ends it"
    if node.level and any(tall < node.level for tall in heights):
        yield "a node ends at a key that does not end it"
    for key in node.keys:
        try:
            encoding.unkey(key)
        except UnknownType:
            continue  # not an error: the type may be known elsewhere
        except Corrupt as error:
            yield error.message


def _form_flaws(cell: bytes, encoding: Encoding) -> Iterator[str]:
    """Yield what is wrong with the form of a value, given the length of its full encoding."""
    if not is_link(cell):
        if len(cell) > INLINE_BYTES:
            yield f"a value is inline at {len(cell)} bytes"
        yield from _value_flaws(cell, encoding)
    elif cell[1] in _FORMS:
        form, more_than, most = _FORMS[cell[1]]
        size = full_size(cell)
        if size <= more_than or (most is not None and size > most):
            yield f"{form} at {size} bytes"


def _value_flaws(data: bytes, encoding: Encoding) -> Iterator[str]:
    """Yield what is wrong with an encoding: it cannot be decoded, or another is canonical."""
    try:
        if encoding.reencode(encoding.decode(data)) != data:
            yield "a value is not in its canonical form"
    except UnknownType:
        return  # not an error: the type may be known elsewhere
    except Corrupt as error:
        yield error.message
