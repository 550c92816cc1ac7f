"""How stored arrays and frames look: their outline, and a few rows of those that are short.

Looks: how a thing is described, whether it is an object in memory or a cell of a tree.

How objects in memory look; no code of the user's is run.

How stored values look: described from the tree, so that a long one is not read to be named.

Values are lifted as they are stored: no class is looked up, no pickle is loaded. Only the first
rows of a short frame are read as its library would read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from otolith.codecs import FRAMES, AsStored, Codecs, Opaque, column, labels
from otolith.core import Cells, Encoding, format_path
from otolith.errors import Corrupt, MissingExtra
from otolith.state.tracking.fingerprints import is_fixed
from otolith.text.tokens import DOTS
from otolith.types import Tag, Tagged

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Looks(Protocol[T_contra]):
    """What can be told of a thing."""

    def what(self, thing: T_contra) -> str:
        """Return what it is: its type, how much is in it, its size."""
        ...

    def pieces(self, thing: T_contra) -> Iterator[str]:
        """Yield it as text, bit by bit; whoever has enough stops."""
        ...

    def parts(self, thing: T_contra) -> Parts | None:
        """Return what is in it by name, if it has names in it."""
        ...


class Item(NamedTuple):
    """A thing with a name."""

    name: str
    thing: Any
    looks: Looks[Any]

    @property
    def head(self) -> str:
        """Its name, and what it is."""
        return f"{self.name}: {self.looks.what(self.thing)}"

    def text(self, limit: int) -> str:
        """Return it as text of about so many characters; a longer one ends in dots."""
        return joined(self.looks.pieces(self.thing), limit)

    def parts(self) -> Parts | None:
        """Return what is in it."""
        return self.looks.parts(self.thing)


class Parts(NamedTuple):
    """Things with names, and how many there are; they are looked at when they are shown."""

    items: Iterable[Item]
    total: int
    noun: str = "keys"


def joined(pieces: Iterator[str], limit: int) -> str:
    """Return as many pieces as fit; if there were more, dots at the end."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > limit:
            return text[: max(limit - 1, 0)] + DOTS
    return text


def between(first: str, last: str, parts: Iterable[Iterator[str]]) -> Iterator[str]:
    """Yield parts with commas between them, in brackets."""
    yield first
    for count, part in enumerate(parts):
        if count:
            yield ", "
        yield from part
    yield last


def quoted(text: str) -> str:
    """Return a text on one line."""
    return printable(json.dumps(text, ensure_ascii=False))


def key_text(key: object) -> str:
    """Return a key of a dict as text."""
    return key if isinstance(key, str) and key.isidentifier() else one_line(key)


def one_line(value: object) -> str:
    """Return a plain value as text."""
    return quoted(value) if isinstance(value, str) else printable(str(value))


def printable(text: str) -> str:
    """Return a text in which every sign can be seen: others are escaped, each by itself."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def dotted(type_name: str) -> str:
    """Return a stored name of a type as Python spells it."""
    return printable(type_name.replace(":", ".").removeprefix("builtins."))


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}" if count != 1 else f"1 {noun.removesuffix('s')}"


def bytes_text(size: int) -> str:
    """Return a size as a person says it."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def frame_pieces(columns: list[tuple[str, str]], rows: list[list[object]]) -> Iterator[str]:
    """Yield the columns of a frame with their types, and a few rows."""
    yield from between("", "", (iter([f"{name} {dtype}"]) for name, dtype in columns))
    for row in rows:
        yield " | "
        yield from between("", "", (iter([one_line(value)]) for value in row))


_DATA = ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch")
_FEW_ROWS, _FEW_LIVE_ELEMENTS, _LONG_TEXT, _DEEPEST = 3, 16, 20_000, 20
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}")
}  # fmt: skip


class ObjectLooks:
    """Looks of Python objects."""

    def what(self, thing: Any) -> str:
        kind = type(thing)
        if kind is dict:
            return f"dict, {number_of(len(thing), 'keys')}"
        if kind in _BRACKETS:
            return f"{kind.__name__}, {number_of(len(thing), 'items')}"
        if kind is str:
            return f"str, {number_of(len(thing), 'characters')}" if len(thing) > 80 else "str"
        if kind in (bytes, bytearray):
            return f"{kind.__name__}, {bytes_text(len(thing))}"
        if _library(thing) in _DATA:
            return data_what(thing)
        return dotted(f"{kind.__module__}:{kind.__qualname__}")

    def pieces(self, thing: Any) -> Iterator[str]:
        return self._pieces(thing, 0)

    def _pieces(self, thing: Any, depth: int) -> Iterator[str]:
        kind = type(thing)
        if depth > _DEEPEST:
            yield DOTS
        elif kind is dict:
            entries = (self._entry(key, part, depth) for key, part in list(thing.items()))
            yield from between("{", "}", entries)
        elif kind in _BRACKETS:
            parts = (self._part(part, depth) for part in list(thing))
            yield from between(*_BRACKETS[kind], parts)
        elif kind is str:
            yield quoted(thing[:_LONG_TEXT])
        elif kind in (bytes, bytearray):
            yield repr(bytes(thing[:_LONG_TEXT]))
        elif _library(thing) in _DATA:
            yield from data_pieces(thing)
        elif is_fixed(kind):
            yield one_line(thing)
        elif is_dataclass(thing):
            named = [(each.name, getattr(thing, each.name, None)) for each in fields(thing)]
            entries = (self._entry(name, part, depth) for name, part in named)
            yield from between(f"{kind.__name__}(", ")", entries)

    def _entry(self, key: object, value: object, depth: int) -> Iterator[str]:
        yield f"{key_text(key)}: "
        yield from self._part(value, depth)

    def _part(self, value: object, depth: int) -> Iterator[str]:
        if _is_shown(value):
            yield from self._pieces(value, depth + 1)
        else:
            yield f"<{self.what(value)}>"

    def parts(self, thing: Any) -> Parts | None:
        if type(thing) is not dict:
            return None
        return Parts(
            (Item(format_path((key,)), part, self) for key, part in list(thing.items())), len(thing)
        )


def _is_shown(value: object) -> bool:
    kind = type(value)
    return kind in (dict, str, bytes, bytearray) or kind in _BRACKETS or is_fixed(kind)


def _library(thing: object) -> str:
    return type(thing).__module__.partition(".")[0]


def data_what(thing: Any) -> str:
    """Return what an array or a frame is: its type, its shape, the type of its elements."""
    name = type(thing).__name__
    shape = getattr(thing, "shape", None)
    size = getattr(thing, "nbytes", None)
    words = [name]
    if isinstance(shape, tuple) and len(shape) == 2 and hasattr(thing, "columns"):
        words += [f"{number_of(shape[0], 'rows')} x {number_of(shape[1], 'columns')}"]
    elif isinstance(shape, tuple):
        words += [" x ".join(f"{length:,}" for length in shape)] if shape else []
        words += [str(thing.dtype)] if hasattr(thing, "dtype") else []
    return ", ".join([*words, *([bytes_text(size)] if isinstance(size, int) else [])])


def data_pieces(thing: Any) -> Iterator[str]:
    """Yield what an array or a frame begins with."""
    if hasattr(thing, "columns") and hasattr(thing, "shape"):
        names, types = _columns(thing)
        rows = [column_head(_column(thing, at)) for at in range(len(names))]
        yield from frame_pieces(
            list(zip(names, types, strict=True)), [list(row) for row in zip(*rows, strict=False)]
        )
    elif hasattr(thing, "tolist") and hasattr(thing, "ravel"):
        values = thing.ravel()[:_FEW_LIVE_ELEMENTS].tolist()
        last = f", {DOTS}]" if thing.size > _FEW_LIVE_ELEMENTS else "]"
        yield from between("[", last, (iter([one_line(value)]) for value in values))


def _columns(frame: Any) -> tuple[list[str], list[str]]:
    if _library(frame) == "pyarrow":
        return list(frame.column_names), [str(each) for each in frame.schema.types]
    dtypes = frame.dtypes
    return [str(name) for name in frame.columns], [str(each) for each in dtypes]


def _column(frame: Any, at: int) -> Any:
    if _library(frame) == "pandas":
        return frame.iloc[:_FEW_ROWS, at]
    return frame.column(at) if _library(frame) == "pyarrow" else frame.to_series(at)


def column_head(column: Any) -> list[object]:
    """Return the first elements of a column of any library."""
    if _library(column) == "pyarrow":
        return list(column.slice(0, _FEW_ROWS).to_pylist())
    if _library(column) == "polars":
        return list(column.head(_FEW_ROWS).to_list())
    return list(column.iloc[:_FEW_ROWS].tolist())


_SHORT_BYTES = 262_144
"""Of a longer column, or of a frame with longer labels, no rows are shown."""

_MOST_COLUMNS, _FEW_ELEMENTS = 30, 16
_COLUMNS = "columns"
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_NAMES = {"StringArray": "str", "Categorical": "category", "DatetimeArray": "datetime"}


class Tables:
    """Looks of what numpy, pandas, Arrow, polars and their relatives have."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._reading = Cells(cells.objects, Encoding(Codecs(opaque=True)), cells.salt)

    def what(self, code: int, data: bytes) -> str:
        """Return the type, and the shape."""
        parts = self._parts(data)
        name = printable(str(self._plain(parts, "type") or Tag(code).name.lower()))
        shape = self._plain(parts, "shape")
        if _COLUMNS in parts and (rows := self._rows(parts)) is not None:
            columns = number_of(self._cells.length(parts[_COLUMNS]), _COLUMNS)
            return f"{name}, {number_of(rows, 'rows')} x {columns}"
        words = [name]
        if isinstance(shape, list) and shape:
            words.append(" x ".join(f"{length:,}" for length in shape))
        if "dtype" in parts:
            words.append(_dtype(self._plain(parts, "dtype")))
        return ", ".join(words)

    def _parts(self, data: bytes) -> dict[object, bytes]:
        if self._cells.kind(data) != "map":
            return {}
        return {self._cells.encoding.unkey(key): part for key, part in self._cells.entries(data)}

    def _plain(self, parts: dict[object, bytes], name: str) -> object:
        """Return a part that is a word, a number or a list of them."""
        cell = parts.get(name)
        if cell is None or self._cells.full_size(cell) > _SHORT_BYTES:
            return None
        return self._cells.load(cell)

    def _rows(self, parts: dict[object, bytes]) -> int | None:
        rows = self._plain(parts, "rows")
        if isinstance(rows, int):
            return rows
        index = self._inner(parts.get("index"))
        span = self._plain(index, "range")
        if isinstance(span, list):
            return len(range(*span))
        columns = parts[_COLUMNS]
        first = self._cells.element(columns, 0) if self._cells.length(columns) else None
        return self._length(first) if first is not None else self._length(index.get("array"))

    def _inner(self, cell: bytes | None) -> dict[object, bytes]:
        tagged = self._cells.tag(cell) if cell is not None else None
        return self._parts(tagged.data) if tagged and isinstance(tagged.data, bytes) else {}

    def _length(self, cell: bytes | None) -> int | None:
        """Return how long an array is, whatever it is made of."""
        parts = self._inner(cell)
        shape = self._plain(parts, "shape")
        if isinstance(shape, list) and shape:
            return int(shape[0])
        inner = (parts[name] for name in _MADE_OF if name in parts)
        return next((found for each in inner if (found := self._length(each)) is not None), None)

    # As text

    def pieces(self, code: int, data: bytes) -> Iterator[str]:
        """Yield columns with their types and a few rows, or what an array begins with."""
        parts = self._parts(data)
        if code in FRAMES and _COLUMNS in parts:
            yield from self._frame_pieces(code, parts)
        elif code == Tag.ARRAY and self._cells.full_size(data) <= _SHORT_BYTES:
            yield from self._array_pieces(code, data)

    def _frame_pieces(self, code: int, parts: dict[object, bytes]) -> Iterator[str]:
        columns = list(self._cells.elements(parts[_COLUMNS], 0, _MOST_COLUMNS))
        rest = {key: part for key, part in parts.items() if key != _COLUMNS}
        types = self._types(parts, columns)
        if sum(map(self._cells.full_size, rest.values())) > _SHORT_BYTES:
            yield from frame_pieces([("", each) for each in types], [])
            return
        try:
            head = {str(key): self._reading.load(part) for key, part in rest.items()}
            names = [str(label) for label in labels(code, head)[: len(columns)]]
            rows = self._head_rows(code, head, columns)
        except (MissingExtra, ImportError, Corrupt):
            names, rows = ["" for _ in columns], []
        yield from frame_pieces(list(zip(map(printable, names), types, strict=True)), rows)
        if self._cells.length(parts[_COLUMNS]) > _MOST_COLUMNS:
            yield f" {DOTS}"

    def _head_rows(
        self, code: int, head: dict[str, Any], columns: list[bytes]
    ) -> list[list[object]]:
        if any(self._cells.full_size(each) > _SHORT_BYTES for each in columns):
            return []
        read = (column(code, head, at, self._reading.load(c)) for at, c in enumerate(columns))
        return [list(row) for row in zip(*map(column_head, read), strict=False)]

    def _types(self, parts: dict[object, bytes], columns: list[bytes]) -> list[str]:
        schema = self._plain(parts, "schema")
        if isinstance(schema, list):  # of polars; Arrow has one in a list with more
            fields = schema[0] if len(schema) == 2 and schema[1] is None else schema
            return [_named_type(field) for field in fields[: len(columns)]]
        return [self._type(each) for each in columns]

    def _type(self, cell: bytes) -> str:
        parts = self._inner(cell)
        kind = str(self._plain(parts, "type"))
        if "dtype" in parts:
            return _dtype(self._plain(parts, "dtype"))
        return _NAMES.get(kind) or (self._type(parts["data"]) if "data" in parts else kind)

    def _array_pieces(self, code: int, data: bytes) -> Iterator[str]:
        cell = self._reading.tagged_cell(code, data)
        array: Any = self._reading.load(cell)
        if isinstance(array, Opaque) or not hasattr(array, "ravel"):
            return
        values = array.ravel()[:_FEW_ELEMENTS].tolist()
        last = f", {DOTS}]" if array.size > _FEW_ELEMENTS else "]"
        yield from between("[", last, (iter([one_line(value)]) for value in values))


_MADE_OF = ("data", "codes", "lengths", "left", "array")


def _named_type(field: object) -> str:
    named = isinstance(field, list) and len(field) > 1
    return printable(str(field[1])) if named and isinstance(field, list) else "?"


def _dtype(code: object) -> str:
    """Return what numpy calls a type, given its code: `<f8` is float64."""
    text = str(code)
    kind, size = text.lstrip("<>|=")[:1], text.lstrip("<>|=")[1:]
    if kind in _KINDS and size.isdecimal():
        return f"{_KINDS[kind]}{int(size) * 8}"
    if kind in "Mm" and "[" in text:
        return ("datetime64" if kind == "M" else "timedelta64") + text[text.index("[") :]
    return {"b1": "bool", "O": "object"}.get(kind + size, text)


_HEAD_BYTES = 20_000
_SMALL_BYTES = 65_536
_LONG_STORED_TEXT = 80
_DATA_TAGS = (Tag.ARRAY, Tag.FRAME, Tag.TABLE, Tag.POLARS, Tag.SPARSE, Tag.TENSOR, Tag.IMAGE)
_NAMED = (Tag.MODEL, Tag.CUSTOM, Tag.ENUM, Tag.PICKLE, Tag.LOST)
_BRACKETS_BY_TAG = {Tag.TUPLE: "()", Tag.SET: "{}", Tag.FROZENSET: "{}"}


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
        return f"{kind}, {size}" if self._cells.full_size(thing) > _LONG_STORED_TEXT else kind

    def _tagged(self, cell: bytes) -> tuple[int, bytes] | None:
        found: Tagged | None = self._cells.tag(cell) if self._cells.kind(cell) == "tagged" else None
        return (found.code, found.data) if found and isinstance(found.data, bytes) else None

    def _tag_name(self, code: int, data: bytes) -> str:
        if code in _DATA_TAGS:
            return self._tables.what(code, data)
        if code in _BRACKETS_BY_TAG:
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
        if code in _DATA_TAGS:
            yield from self._tables.pieces(code, data)
        elif code == Tag.TUPLE:
            yield from between("(", ")", map(self.pieces, self._cells.elements(data)))
        elif code in _BRACKETS_BY_TAG:
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
