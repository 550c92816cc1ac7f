"""How objects in memory look; no code of the user's is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from otolith.agent.tokens import DOTS
from otolith.agent.tracking.fixed import is_fixed
from otolith.agent.viewing.looks import (
    Item,
    Parts,
    between,
    bytes_text,
    dotted,
    frame_pieces,
    key_text,
    number_of,
    one_line,
    quoted,
)
from otolith.core import format_path

_DATA = ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch")
_FEW_ROWS, _FEW_ELEMENTS, _LONG_TEXT, _DEEPEST = 3, 16, 20_000, 20
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
        values = thing.ravel()[:_FEW_ELEMENTS].tolist()
        last = f", {DOTS}]" if thing.size > _FEW_ELEMENTS else "]"
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
