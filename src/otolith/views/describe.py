"""How stored arrays and frames look: their outline, and a few rows of those that are short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otolith.agent.tokens import DOTS
from otolith.agent.viewing.looks import between, frame_pieces, number_of, one_line, printable
from otolith.agent.viewing.objects import column_head
from otolith.codecs import FRAMES, Codecs, Opaque, column, labels
from otolith.core import Cells, Encoding
from otolith.errors import Corrupt, MissingExtra
from otolith.types import Tag

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
