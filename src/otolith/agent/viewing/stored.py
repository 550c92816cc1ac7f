"""How stored values look: described from the tree, so that a long one is not read to be named.

Values are lifted as they are stored: no class is looked up, no pickle is loaded. Only the first
rows of a short frame are read as its library would read them.
"""

from __future__ import annotations

from collections.abc import Iterator

from otolith.agent.viewing.looks import (
    Item,
    Parts,
    between,
    bytes_text,
    dotted,
    key_text,
    number_of,
    one_line,
    printable,
    quoted,
)
from otolith.agent.viewing.tables import Tables
from otolith.codecs import AsStored, Opaque
from otolith.core import Cells, Encoding, format_path
from otolith.types import Tag, Tagged

_HEAD_BYTES = 20_000
_SMALL_BYTES = 65_536
_LONG_TEXT = 80
_DATA = (Tag.ARRAY, Tag.FRAME, Tag.TABLE, Tag.POLARS, Tag.SPARSE, Tag.TENSOR, Tag.IMAGE)
_NAMED = (Tag.MODEL, Tag.CUSTOM, Tag.ENUM, Tag.PICKLE, Tag.LOST)
_BRACKETS = {Tag.TUPLE: "()", Tag.SET: "{}", Tag.FROZENSET: "{}"}


class StoredLooks:
    """Looks of cells."""

    def __init__(self, cells: Cells) -> None:
        self._cells = Cells(cells.objects, Encoding(AsStored()), cells.salt)
        self._tables = Tables(self._cells)

    def what(self, thing: bytes) -> str:
        kind, size = self._cells.kind(thing), bytes_text(self._cells.full_size(thing))
        if kind == "map":
            return f"dict, {number_of(self._cells.length(thing), 'keys')}, {size}"
        if kind == "list":
            return f"list, {number_of(self._cells.length(thing), 'items')}, {size}"
        if kind == "scalar":
            return type(self._cells.load(thing)).__name__
        tagged = self._tagged(thing)
        if tagged is not None:
            return f"{self._tag_name(*tagged)}, {size}"
        return f"{kind}, {size}" if self._cells.full_size(thing) > _LONG_TEXT else kind

    def _tagged(self, cell: bytes) -> tuple[int, bytes] | None:
        found: Tagged | None = self._cells.tag(cell) if self._cells.kind(cell) == "tagged" else None
        return (found.code, found.data) if found and isinstance(found.data, bytes) else None

    def _tag_name(self, code: int, data: bytes) -> str:
        if code in _DATA:
            return self._tables.what(code, data)
        if code in _BRACKETS:
            count = number_of(self._cells.length(data), "items")
            return f"{Tag(code).name.lower()}, {count}"
        if code in _NAMED:
            name = dotted(str(self._cells.load(self._cells.element(data, 0))))
            return {Tag.PICKLE: f"pickled {name}", Tag.LOST: f"lost {name}"}.get(Tag(code), name)
        known = code in Tag.__members__.values()
        return {"bigint": "int", "text": "str"}.get(
            name := Tag(code).name.lower() if known else f"tag {code}", name
        )

    # As text

    def pieces(self, thing: bytes) -> Iterator[str]:
        kind = self._cells.kind(thing)
        if kind == "map":
            yield from between("{", "}", self._entries(thing))
        elif kind == "list":
            yield from between("[", "]", map(self.pieces, self._cells.elements(thing)))
        elif kind in ("str", "bytes"):
            yield self._atom(thing, kind)
        elif (tagged := self._tagged(thing)) is not None:
            yield from self._tag_pieces(thing, *tagged)
        else:
            yield one_line(self._cells.load(thing))

    def _entries(self, cell: bytes) -> Iterator[Iterator[str]]:
        unkey = self._cells.encoding.unkey
        return (self._entry(unkey(key), part) for key, part in self._cells.entries(cell))

    def _entry(self, key: object, cell: bytes) -> Iterator[str]:
        yield f"{key_text(key)}: "
        yield from self.pieces(cell)

    def _atom(self, cell: bytes, kind: str) -> str:
        """Return a str or bytes; of a long one, what it begins with."""
        link = self._cells.blob(cell)
        if link is None:
            value = self._cells.load(cell)
            return quoted(value) if isinstance(value, str) else repr(value)
        data = self._cells.blobs.read(link, 0, _HEAD_BYTES)
        return quoted(data.decode(errors="ignore")) if kind == "str" else repr(data)

    def _tag_pieces(self, cell: bytes, code: int, data: bytes) -> Iterator[str]:
        if code in _DATA:
            yield from self._tables.pieces(code, data)
        elif code == Tag.TUPLE:
            yield from between("(", ")", map(self.pieces, self._cells.elements(data)))
        elif code in _BRACKETS:
            elements = (self._cells.encoding.unkey(key) for key, _ in self._cells.entries(data))
            yield from between("{", "}", (iter([self._element(each)]) for each in elements))
        elif code in (Tag.MODEL, Tag.CUSTOM):
            yield from self.pieces(self._cells.element(data, 2))
        elif code == Tag.LOST:
            yield printable(str(self._cells.load(self._cells.element(data, 1))))
        elif code == Tag.ENUM:
            yield from between("", "", map(self.pieces, self._cells.elements(data, 1)))
        elif code != Tag.PICKLE and self._cells.full_size(cell) <= _SMALL_BYTES:
            yield self._element(self._cells.load(cell))

    def _element(self, value: object) -> str:
        return f"<{printable(value.type_name)}>" if isinstance(value, Opaque) else one_line(value)

    # What is in it

    def parts(self, thing: bytes) -> Parts | None:
        inner: bytes | None = thing
        tagged = self._tagged(thing)
        if tagged is not None and tagged[0] == Tag.MODEL:
            inner = self._cells.element(tagged[1], 2)
        if inner is None or self._cells.kind(inner) != "map":
            return None
        return Parts(self._items(inner), self._cells.length(inner))

    def top(self, root: bytes, count: int) -> Parts:
        """Return the top names of a whole state, without those that belong to otolith."""
        return Parts((item for item in self._items(root) if item.name[:1] != "."), count)

    def _items(self, cell: bytes) -> Iterator[Item]:
        unkey = self._cells.encoding.unkey
        for key, part in self._cells.entries(cell):
            yield Item(format_path((unkey(key),)), part, self)
