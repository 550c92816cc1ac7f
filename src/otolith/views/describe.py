"""Descriptions of values: an outline, the value as text, and the named parts in it.

An *outline* says what a value is: its type, how much is in it, its size. Its *pieces* are the value
as text on one line, made only as far as they are read. Its *parts* are what is in it by name. A
value may be an object in memory or a cell of a tree; both are described in the same words.

No code of the user's runs. Stored values are read as they are stored: no class is looked up and no
pickle is loaded; of a long value, only the beginning is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

from otolith.codecs import FRAMES, Codecs, Document, InertCodecs, Opaque, column, labels
from otolith.core import Cells, Encoding, format_path
from otolith.errors import Corrupt, MissingExtra
from otolith.state.tracker.fingerprints import is_fixed
from otolith.text.lines import (
    ELLIPSIS,
    bracketed,
    clip_pieces,
    counted,
    dotted_name,
    key_text,
    plain_line,
    printable,
    quoted,
    size_text,
)
from otolith.types import Tag, Tagged


class NamedValue(NamedTuple):
    """A value with its name and outline; its text and its parts are made when they are shown."""

    name: str
    outline: str
    """What the value is: "dict, 3 keys, 1.2 kB"."""
    pieces: Callable[[], Iterator[str]] = lambda: iter(())
    parts: Callable[[], NamedValues | None] = lambda: None

    @property
    def head(self) -> str:
        """The name and the outline."""
        return f"{self.name}: {self.outline}"

    def text(self, limit: int) -> str:
        """Return the value as text of at most `limit` characters."""
        return clip_pieces(self.pieces(), limit)


class NamedValues(NamedTuple):
    """Values with names, described as far as `items` is read, and how many there are."""

    items: Iterable[NamedValue]
    total: int
    noun: str = "keys"
    """What those that do not fit are counted as: "… 12 more keys"."""


def frame_pieces(columns: list[tuple[str, str]], rows: list[list[object]]) -> Iterator[str]:
    """Yield the columns of a frame with their types, and a few rows."""
    yield from bracketed("", "", ([f"{name} {dtype}"] for name, dtype in columns))
    for row in rows:
        yield " | "
        yield from bracketed("", "", ([plain_line(value)] for value in row))


def _array_pieces(array: Any) -> Iterator[str]:
    """Yield the first elements of an array."""
    values = array.ravel()[:_FEW_ELEMENTS].tolist()
    last = f", {ELLIPSIS}]" if array.size > _FEW_ELEMENTS else "]"
    return bracketed("[", last, ([plain_line(value)] for value in values))


# Objects in memory

_LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch")
_FEW_ROWS, _FEW_ELEMENTS, _LONG_TEXT, _MAX_DEPTH = 3, 16, 20_000, 20
"""Of a frame and an array, what is shown; of a text, what is read; how deep values are followed."""
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}")
}  # fmt: skip


def describe_object(name: str, value: object) -> NamedValue:
    """Return the description of a Python object."""
    return NamedValue(
        name, object_outline(value), partial(object_pieces, value), partial(object_parts, value)
    )


def object_outline(value: Any) -> str:
    """Return what an object is."""
    kind = type(value)
    if kind is dict:
        return f"dict, {counted(len(value), 'keys')}"
    if kind in _BRACKETS:
        return f"{kind.__name__}, {counted(len(value), 'items')}"
    if kind is str:
        return f"str, {counted(len(value), 'characters')}" if len(value) > 80 else "str"
    if kind in (bytes, bytearray):
        return f"{kind.__name__}, {size_text(len(value))}"
    if _library(value) in _LIBRARIES:
        return _data_outline(value)
    return dotted_name(f"{kind.__module__}:{kind.__qualname__}")


def object_pieces(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield an object as text; of objects that are not plain data, nothing."""
    kind = type(value)
    if depth > _MAX_DEPTH:
        yield ELLIPSIS
    elif kind is dict:
        entries = (_entry_pieces(key, part, depth) for key, part in list(value.items()))
        yield from bracketed("{", "}", entries)
    elif kind in _BRACKETS:
        yield from bracketed(*_BRACKETS[kind], (_part_pieces(part, depth) for part in list(value)))
    elif kind is str:
        yield quoted(value[:_LONG_TEXT])
    elif kind in (bytes, bytearray):
        yield repr(bytes(value[:_LONG_TEXT]))
    elif _library(value) in _LIBRARIES:
        yield from _data_pieces(value)
    elif kind is Document:
        text = value.readable
        yield printable(repr(value)) if text is None else quoted(text[:_LONG_TEXT])
    elif is_fixed(kind):
        yield plain_line(value)
    elif is_dataclass(value):
        named = [(each.name, getattr(value, each.name, None)) for each in fields(value)]
        entries = (_entry_pieces(name, part, depth) for name, part in named)
        yield from bracketed(f"{kind.__name__}(", ")", entries)


def object_parts(value: object) -> NamedValues | None:
    """Return the entries of a dict; None for any other object."""
    if type(value) is not dict:
        return None
    entries = list(value.items())
    items = (describe_object(format_path((key,)), part) for key, part in entries)
    return NamedValues(items, len(entries))


def _entry_pieces(key: object, value: object, depth: int) -> Iterator[str]:
    """Yield an entry of a dict, or a field of a dataclass."""
    yield f"{key_text(key)}: "
    yield from _part_pieces(value, depth)


def _part_pieces(value: object, depth: int) -> Iterator[str]:
    """Yield a value inside another one: plain data as text, any other object as its outline."""
    kind = type(value)
    is_plain = kind in (dict, str, bytes, bytearray) or kind in _BRACKETS or is_fixed(kind)
    return object_pieces(value, depth + 1) if is_plain else iter([f"<{object_outline(value)}>"])


def _library(value: object) -> str:
    """Return the top package of the type of a value, without importing it."""
    return type(value).__module__.partition(".")[0]


def _data_outline(value: Any) -> str:
    """Return the type, the shape and the size of an array or a frame."""
    shape, size = getattr(value, "shape", None), getattr(value, "nbytes", None)
    words = [type(value).__name__]
    if isinstance(shape, tuple) and len(shape) == 2 and hasattr(value, "columns"):
        words += [f"{counted(shape[0], 'rows')} x {counted(shape[1], 'columns')}"]
    elif isinstance(shape, tuple):
        words += [" x ".join(f"{length:,}" for length in shape)] if shape else []
        words += [str(value.dtype)] if hasattr(value, "dtype") else []
    return ", ".join([*words, *([size_text(size)] if isinstance(size, int) else [])])


def _data_pieces(value: Any) -> Iterator[str]:
    """Yield what an array or a frame begins with."""
    if hasattr(value, "columns") and hasattr(value, "shape"):
        library = _library(value)
        names = value.column_names if library == "pyarrow" else value.columns
        types = value.schema.types if library == "pyarrow" else value.dtypes
        rows = zip(*(_head_of(_column(value, at)) for at in range(len(names))), strict=False)
        columns = list(zip(map(str, names), map(str, types), strict=True))
        yield from frame_pieces(columns, [list(row) for row in rows])
    elif hasattr(value, "tolist") and hasattr(value, "ravel"):
        yield from _array_pieces(value)


def _column(frame: Any, at: int) -> Any:
    """Return a column of a frame, by its position; names may occur twice."""
    if _library(frame) == "pandas":
        return frame.iloc[:_FEW_ROWS, at]
    return frame.column(at) if _library(frame) == "pyarrow" else frame.to_series(at)


def _head_of(column: Any) -> list[object]:
    """Return the first elements of a column of any library."""
    if _library(column) == "pyarrow":
        return list(column.slice(0, _FEW_ROWS).to_pylist())
    if _library(column) == "polars":
        return list(column.head(_FEW_ROWS).to_list())
    return list(column.iloc[:_FEW_ROWS].tolist())


# Stored arrays, frames and tables

_SHORT_BYTES = 262_144
"""The rows of a frame are not shown if a column, or its labels, are longer."""

_MAX_COLUMNS = 30
_COLUMNS = "columns"
_DTYPE_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_ARRAY_NAMES = {"StringArray": "str", "Categorical": "category", "DatetimeArray": "datetime"}


class _StoredTables:
    """Descriptions of stored values of numpy, pandas, Arrow, polars and their relatives.

    Each is stored as a map of parts. An array has a `dtype` and a `shape`, or it wraps another
    array in one of the parts of `_MADE_OF`. A frame has `columns`, a list of arrays, and says how
    long they are by `rows` or by its `index`; polars and Arrow name their columns in a `schema`.
    Parts are read one by one, so that a long column is never loaded for its type.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._reading = Cells(cells.objects, Encoding(Codecs(opaque=True)), cells.salt)

    def outline(self, code: int, data: bytes) -> str:
        """Return the type and the shape."""
        parts = self._parts(data)
        name = printable(str(self._plain(parts, "type") or Tag(code).name.lower()))
        shape = self._plain(parts, "shape")
        if _COLUMNS in parts and (rows := self._rows(parts)) is not None:
            columns = counted(self._cells.length(parts[_COLUMNS]), _COLUMNS)
            return f"{name}, {counted(rows, 'rows')} x {columns}"
        words = [name]
        if isinstance(shape, list) and shape:
            words.append(" x ".join(f"{length:,}" for length in shape))
        if "dtype" in parts:
            words.append(_dtype(self._plain(parts, "dtype")))
        return ", ".join(words)

    def _parts(self, data: bytes) -> dict[object, bytes]:
        """Return the cells of a stored value by their names; nothing of one that is not a map."""
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
        """Return how many rows a stored frame has; None if nothing short tells.

        That is its own count, the range of its index, or the length of its first column.
        """
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
        """Return the parts of a tagged cell."""
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

    def pieces(self, code: int, data: bytes) -> Iterator[str]:
        """Yield columns with their types and a few rows, or what an array begins with."""
        parts = self._parts(data)
        if code in FRAMES and _COLUMNS in parts:
            yield from self._frame_pieces(code, parts)
        elif code == Tag.ARRAY and self._cells.full_size(data) <= _SHORT_BYTES:
            yield from self._array_pieces(code, data)

    def _frame_pieces(self, code: int, parts: dict[object, bytes]) -> Iterator[str]:
        """Yield the columns of a stored frame, and its first rows if they are short enough.

        Without the library of the frame, its names and rows are left out.
        """
        columns = list(self._cells.elements(parts[_COLUMNS], 0, _MAX_COLUMNS))
        rest = {key: part for key, part in parts.items() if key != _COLUMNS}
        schema = self._plain(parts, "schema")
        if isinstance(schema, list):  # of polars; Arrow has one in a list with more
            named = schema[0] if len(schema) == 2 and schema[1] is None else schema
            types = [_field_type(field) for field in named[: len(columns)]]
        else:
            types = [self._type(each) for each in columns]
        if sum(map(self._cells.full_size, rest.values())) > _SHORT_BYTES:
            yield from frame_pieces([("", each) for each in types], [])
            return
        try:
            head = {str(key): self._reading.load(part) for key, part in rest.items()}
            names = [str(label) for label in labels(code, head)[: len(columns)]]
            rows = []
            if all(self._cells.full_size(each) <= _SHORT_BYTES for each in columns):
                cells = enumerate(columns)
                read = (column(code, head, at, self._reading.load(cell)) for at, cell in cells)
                rows = [list(row) for row in zip(*map(_head_of, read), strict=False)]
        except (MissingExtra, ImportError, Corrupt):
            names, rows = ["" for _ in columns], []
        yield from frame_pieces(list(zip(map(printable, names), types, strict=True)), rows)
        if self._cells.length(parts[_COLUMNS]) > _MAX_COLUMNS:
            yield f" {ELLIPSIS}"

    def _type(self, cell: bytes) -> str:
        """Return the type of a stored column: its dtype, or that of the data that it wraps."""
        parts = self._inner(cell)
        kind = str(self._plain(parts, "type"))
        if "dtype" in parts:
            return _dtype(self._plain(parts, "dtype"))
        return _ARRAY_NAMES.get(kind) or (self._type(parts["data"]) if "data" in parts else kind)

    def _array_pieces(self, code: int, data: bytes) -> Iterator[str]:
        """Yield the first elements of a stored array; nothing without numpy."""
        cell = self._reading.tagged_cell(code, data)
        array: Any = self._reading.load(cell)
        if isinstance(array, Opaque) or not hasattr(array, "ravel"):
            return
        yield from _array_pieces(array)


_MADE_OF = ("data", "codes", "lengths", "left", "array")
"""Parts that are arrays as long as the array they belong to, in the order in which they tell."""


def _field_type(field: object) -> str:
    """Return the type in a field of a stored schema."""
    return printable(str(field[1])) if isinstance(field, list) and len(field) > 1 else "?"


def _dtype(code: object) -> str:
    """Return what numpy calls a type, given its code: `<f8` is float64."""
    text = str(code)
    kind, size = text.lstrip("<>|=")[:1], text.lstrip("<>|=")[1:]
    if kind in _DTYPE_KINDS and size.isdecimal():
        return f"{_DTYPE_KINDS[kind]}{int(size) * 8}"
    if kind in "Mm" and "[" in text:
        return ("datetime64" if kind == "M" else "timedelta64") + text[text.index("[") :]
    return {"b1": "bool", "O": "object"}.get(kind + size, text)


# Stored values

_HEAD_BYTES = 20_000
"""How much of a long text is read."""
_SMALL_BYTES = 65_536
"""A value of another tag is loaded to be shown if it is not larger."""
_MOST_EDIT_BYTES = 1 << 20
"""A document with more bytes of edits is not read to be shown."""
_LONG_STORED_TEXT = 80
"""A text or bytes of more bytes has its size in its outline."""
_DATA_TAGS = (Tag.ARRAY, Tag.FRAME, Tag.TABLE, Tag.POLARS, Tag.SPARSE, Tag.TENSOR, Tag.IMAGE)
_NAMED = (Tag.MODEL, Tag.STATE, Tag.CUSTOM, Tag.ENUM, Tag.PICKLE, Tag.LOST)
_BRACKETS_BY_TAG = {Tag.TUPLE: "()", Tag.SET: "{}", Tag.FROZENSET: "{}"}


class CellDescriber:
    """Describes cells of a tree, without loading what is long.

    Its codecs are inert: a value that only code could restore is described by the name of its type.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = Cells(cells.objects, Encoding(InertCodecs()), cells.salt)
        self._tables = _StoredTables(self._cells)

    def named(self, name: str, cell: bytes) -> NamedValue:
        """Return the description of a cell."""
        return NamedValue(
            name, self.outline(cell), partial(self.pieces, cell), partial(self.parts, cell)
        )

    def outline(self, cell: bytes) -> str:
        """Return what a stored value is."""
        kind, size = self._cells.kind(cell), size_text(self._cells.full_size(cell))
        if kind == "map":
            return f"dict, {counted(self._cells.length(cell), 'keys')}, {size}"
        if kind == "list":
            return f"list, {counted(self._cells.length(cell), 'items')}, {size}"
        if kind == "scalar":
            return type(self._cells.load(cell)).__name__
        tagged = self._tagged(cell)
        if tagged is not None:
            return f"{self._tag_name(*tagged)}, {size}"
        return f"{kind}, {size}" if self._cells.full_size(cell) > _LONG_STORED_TEXT else kind

    def _tagged(self, cell: bytes) -> tuple[int, bytes] | None:
        """Return the tag and the data of a tagged cell; None for other cells."""
        found: Tagged | None = self._cells.tag(cell) if self._cells.kind(cell) == "tagged" else None
        return (found.code, found.data) if found and isinstance(found.data, bytes) else None

    def _tag_name(self, code: int, data: bytes) -> str:
        """Return what a tagged value is, by its tag and the type that it names."""
        if code in _DATA_TAGS:
            return self._tables.outline(code, data)
        if code in _BRACKETS_BY_TAG:
            count = counted(self._cells.length(data), "items")
            return f"{Tag(code).name.lower()}, {count}"
        if code in _NAMED:
            name = dotted_name(str(self._cells.load(self._cells.element(data, 0))))
            return {Tag.PICKLE: f"pickled {name}", Tag.LOST: f"lost {name}"}.get(Tag(code), name)
        known = code in Tag.__members__.values()
        return {"bigint": "int", "text": "str"}.get(
            name := Tag(code).name.lower() if known else f"tag {code}", name
        )

    def pieces(self, cell: bytes) -> Iterator[str]:
        """Yield a stored value as text; of a pickle, nothing."""
        kind = self._cells.kind(cell)
        if kind == "map":
            unkey = self._cells.encoding.unkey
            entries = self._cells.entries(cell)
            yield from bracketed("{", "}", (self._entry(unkey(k), part) for k, part in entries))
        elif kind == "list":
            yield from bracketed("[", "]", map(self.pieces, self._cells.elements(cell)))
        elif kind in ("str", "bytes"):
            yield self._atom(cell, kind)
        elif (tagged := self._tagged(cell)) is not None:
            yield from self._tag_pieces(cell, *tagged)
        else:
            yield plain_line(self._cells.load(cell))

    def _entry(self, key: object, cell: bytes) -> Iterator[str]:
        """Yield an entry of a stored dict."""
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
        """Yield a tagged value as text: of a model its fields, of a lost value the reason."""
        if code in _DATA_TAGS:
            yield from self._tables.pieces(code, data)
        elif code == Tag.TUPLE:
            yield from bracketed("(", ")", map(self.pieces, self._cells.elements(data)))
        elif code in _BRACKETS_BY_TAG:
            elements = (self._cells.encoding.unkey(key) for key, _ in self._cells.entries(data))
            yield from bracketed("{", "}", ([self._element(each)] for each in elements))
        elif code in (Tag.MODEL, Tag.STATE, Tag.CUSTOM, Tag.GRAPH):
            yield from self.pieces(data if code == Tag.GRAPH else self._cells.element(data, 2))
        elif code == Tag.DOCUMENT:
            yield from self._document_pieces(data)
        elif code == Tag.SAME:
            steps = "/".join(
                str(each) for each in map(self._cells.load, self._cells.elements(data))
            )
            yield f"<same as {printable(steps)}>" if steps else "<itself>"
        elif code == Tag.LOST:
            yield printable(str(self._cells.load(self._cells.element(data, 1))))
        elif code == Tag.ENUM:
            yield from bracketed("", "", map(self.pieces, self._cells.elements(data, 1)))
        elif code != Tag.PICKLE and self._cells.full_size(cell) <= _SMALL_BYTES:
            yield self._element(self._cells.load(cell))

    def _document_pieces(self, data: bytes) -> Iterator[str]:
        """Yield the text that edits make; where they are too many, or without the library, why."""
        if self._cells.full_size(data) > _MOST_EDIT_BYTES:
            yield "<a long history of edits>"
            return
        document = Document.of(self._cells.load(data))
        text = document.readable
        yield printable(repr(document)) if text is None else quoted(text[:_HEAD_BYTES])

    def _element(self, value: object) -> str:
        """Return a loaded value on one line; one that cannot be loaded, by its type."""
        return f"<{printable(value.type_name)}>" if isinstance(value, Opaque) else plain_line(value)

    def parts(self, cell: bytes) -> NamedValues | None:
        """Return the entries of a dict, or the fields of a model; None for other values."""
        inner: bytes | None = cell
        tagged = self._tagged(cell)
        if tagged is not None and tagged[0] in (Tag.MODEL, Tag.STATE):
            inner = self._cells.element(tagged[1], 2)
        if inner is None or self._cells.kind(inner) != "map":
            return None
        return NamedValues(self._items(inner), self._cells.length(inner))

    def top(self, root: bytes, count: int) -> NamedValues:
        """Return the top names of a whole state, but for the reserved ones."""
        return NamedValues((item for item in self._items(root) if item.name[:1] != "."), count)

    def _items(self, cell: bytes) -> Iterator[NamedValue]:
        """Yield the entries of a map with their names."""
        unkey = self._cells.encoding.unkey
        for key, part in self._cells.entries(cell):
            yield self.named(format_path((unkey(key),)), part)
