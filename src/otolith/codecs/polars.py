"""Frames and series of polars, kept column by column through the buffers of Arrow.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    POLARS  {"type": "DataFrame", "schema": [[name, dtype]], "rows": int, "columns": [array]}
            {"type": "Series", "name": str, "dtype": dtype, "values": array}
            {"type": "DataType", "dtype": dtype}

    dtype   "Int64" and the like: a dtype without parameters is its name
            [name, parameter, ...]: the parameters are numbers, words and dtypes
    array   as in `arrow_arrays`, of the type that polars gives to Arrow's older readers

Some dtypes mean nothing to Arrow, or something that depends on what else the process did, and are
kept as what they show: a Categorical or an Enum as strings (a whole column as a dictionary of its
strings, in the order in which they come up), 128-bit integers as their digits, and an Array of no
elements as a List.

Chunks, and what polars knows of a column being sorted, are no part of a value and are not kept.

The dtypes of polars, written in words that never change.

`polars` (the codec) says where they stand. A dtype without parameters is its name, any other one a
list of its name and its parameters:

    ["Datetime", unit, zone or None]    ["Duration", unit]       ["Decimal", precision, scale]
    ["List", dtype]                     ["Array", dtype, size]   ["Struct", [[name, dtype]]]
    ["Map", dtype, dtype]               ["Enum", [category]]
    ["Categorical", name, namespace, physical dtype]   of named categories
    ["Categorical", "lexical"]                         from polars before 1.32, where it is a choice
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from otolith.codecs.arrow.arrays import Form, load, lower
from otolith.codecs.base import VERIFY, Lowering
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag, Tagged

_PLAIN = (
    "Boolean", "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64",
    "UInt128", "Float16", "Float32", "Float64", "String", "Binary", "Date", "Time", "Null",
    "Categorical",
)  # fmt: skip
_NAMED: dict[str, pl.DataType] = {name: getattr(pl, name)() for name in _PLAIN if hasattr(pl, name)}
_AS_TEXT = frozenset({"Categorical", "Enum", "Int128", "UInt128"})
_HAS_CATEGORIES = hasattr(pl, "Categories")
_PHYSICAL = ("UInt8", "UInt16", "UInt32")


def describe(dtype: Any) -> object:
    """Return a dtype in words.

    Raises:
        BadValue: its values cannot be kept.
    """
    name = type(dtype).__name__
    if name in _WORDS:
        return _WORDS[name](dtype)
    if name in _NAMED:
        return name
    raise BadValue(
        f"cannot keep a column of polars' {name}",
        hint="cast it to a dtype that holds data, or keep its values as a list",
    )


def type_of(words: object) -> pl.DataType:
    """Return the dtype that is described so.

    Raises:
        Corrupt: no dtype is.
        UnknownType: the polars that is installed here does not know it.
    """
    if type(words) is str and words in _NAMED:
        return _NAMED[words]
    if type(words) is str and words in _PLAIN:
        raise UnknownType(f"polars' {words} is not known here", hint="upgrade polars")
    if type(words) is not list or not words or type(words[0]) is not str:
        raise Corrupt(f"{words!r:.60} is not a dtype of polars", hint=VERIFY)
    make = _MAKE.get(words[0])
    if make is None:
        raise UnknownType(
            f"polars' {words[0]:.40} is not known here", hint="upgrade otolith, or polars"
        )
    made: pl.DataType = make(*words[1:])
    return made


def plainer(dtype: Any) -> pl.DataType:
    """Return the dtype that values of this one are kept with: itself, if Arrow knows it."""
    name = type(dtype).__name__
    if name in _AS_TEXT:
        return pl.String()
    if name == "List":
        return pl.List(plainer(dtype.inner))
    if name == "Array":
        inner = plainer(dtype.inner)
        # Polars gives arrays of no elements to Arrow, but does not take them back.
        return pl.Array(inner, dtype.size) if dtype.size else pl.List(inner)
    if name == "Struct":
        return pl.Struct({field.name: plainer(field.dtype) for field in dtype.fields})
    if name == "Map":
        made: pl.DataType = type(dtype)(plainer(dtype.key), plainer(dtype.value))
        return made
    kept: pl.DataType = dtype
    return kept


def _describe_categorical(dtype: Any) -> object:
    if not _HAS_CATEGORIES:
        return ["Categorical", "lexical"] if dtype.ordering == "lexical" else "Categorical"
    categories = dtype.categories
    if categories.is_global():
        return "Categorical"
    physical = describe(categories.physical()())
    return ["Categorical", categories.name(), categories.namespace(), physical]


def _make_categorical(*words: object) -> pl.DataType:
    if words == ("lexical",):
        return pl.Categorical() if _HAS_CATEGORIES else pl.Categorical("lexical")
    name, namespace, physical = words
    if type(name) is not str or type(namespace) is not str or physical not in _PHYSICAL:
        raise Corrupt("categories are kept without their names", hint=VERIFY)
    if not _HAS_CATEGORIES:
        raise UnknownType("polars has no named categories here", hint="upgrade polars")
    return pl.Categorical(pl.Categories(name, namespace, type(_NAMED[physical])))


def _make_struct(fields: Any) -> pl.DataType:
    return pl.Struct([pl.Field(name, type_of(dtype)) for name, dtype in fields])


def _make_array(inner: object, size: object) -> pl.DataType:
    if type(size) is not int or not 0 <= size < 2**31:
        raise Corrupt(f"an array of polars has the size {size!r:.40}", hint=VERIFY)
    return pl.Array(type_of(inner), size)


_WORDS: dict[str, Callable[[Any], object]] = {
    "Datetime": lambda dtype: ["Datetime", dtype.time_unit, dtype.time_zone],
    "Duration": lambda dtype: ["Duration", dtype.time_unit],
    "Decimal": lambda dtype: ["Decimal", dtype.precision, dtype.scale],
    "List": lambda dtype: ["List", describe(dtype.inner)],
    "Array": lambda dtype: ["Array", describe(dtype.inner), dtype.size],
    "Struct": lambda dtype: [
        "Struct",
        [[each.name, describe(each.dtype)] for each in dtype.fields],
    ],
    "Map": lambda dtype: ["Map", describe(dtype.key), describe(dtype.value)],
    "Enum": lambda dtype: ["Enum", dtype.categories.to_list()],
    "Categorical": _describe_categorical,
}

_MAKE: dict[str, Callable[..., pl.DataType]] = {
    "Datetime": pl.Datetime,
    "Duration": pl.Duration,
    "Decimal": pl.Decimal,
    "List": lambda inner: pl.List(type_of(inner)),
    "Array": _make_array,
    "Struct": _make_struct,
    "Enum": pl.Enum,
    "Categorical": _make_categorical,
}
if hasattr(pl, "Map"):
    _MAKE["Map"] = lambda key, value: pl.Map(type_of(key), type_of(value))


_MISFITS = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,  # not an Exception; polars has it for what it did not expect
    pa.ArrowException,
    TypeError,
    ValueError,
    LookupError,
    OverflowError,
)
_OLDEST = pl.CompatLevel.oldest()
_DICTIONARY = pa.dictionary(pa.int32(), pa.large_string())


class Polars:
    """Lowers and lifts the values of polars."""

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.POLARS})

    def lowering(self, kind: type) -> Lowering | None:
        if issubclass(kind, pl.DataType):
            return _lower_dtype
        if kind in {pl.LazyFrame, pl.Expr}:
            raise BadValue(
                f"cannot keep a polars {kind.__name__}: it is a plan, not data",
                hint="collect() a lazy frame and keep the result; keep what an expression gives",
            )
        return _LOWER.get(kind)

    def lift(self, code: int, data: object) -> object:
        name = _part(data, "type", str)
        if name not in _LIFT:
            raise Corrupt(f"there is no {name:.40} of polars", hint=VERIFY)
        try:
            return _LIFT[name](data)
        except _MISFITS as error:
            raise Corrupt(f"a {name} of polars is damaged: {error!s:.200}", hint=VERIFY) from None


def labels(head: dict[str, object]) -> list[str]:
    """Return the names of the columns, given what is kept of the frame without its columns."""
    return [str(field[0]) for field in _part(head, "schema", list)]


def column(head: dict[str, object], position: int, value: object) -> pl.Series:
    """Return one column of a frame, given what is kept of the frame without its columns.

    Raises:
        Corrupt: the value is not that of such a column.
    """
    schema, rows = _part(head, "schema", list), _part(head, "rows", int)
    if not 0 <= position < len(schema):
        raise Corrupt(f"a frame has no column {position}", hint=VERIFY)
    try:
        return _column(schema[position], rows, value)
    except _MISFITS as error:
        raise Corrupt(f"a column is damaged: {error!s:.200}", hint=VERIFY) from None


def _lower_frame(value: pl.DataFrame) -> Tagged:
    head = {
        "type": "DataFrame",
        "schema": [[name, describe(dtype)] for name, dtype in value.schema.items()],
        "rows": value.height,
    }
    return Tagged(Tag.POLARS, {**head, "columns": [_values(each) for each in value]})


def _lower_series(value: pl.Series) -> Tagged:
    data = {"type": "Series", "name": value.name, "dtype": describe(value.dtype)}
    return Tagged(Tag.POLARS, {**data, "values": _values(value)})


def _lower_dtype(value: pl.DataType) -> Tagged:
    return Tagged(Tag.POLARS, {"type": "DataType", "dtype": describe(value)})


def _values(series: pl.Series) -> Form:
    try:
        array = _arrow(series)
    except _MISFITS as error:
        raise BadValue(
            f"cannot keep a column of {series.dtype!s:.80}: Arrow cannot take it: {error}",
            hint="cast it to another dtype, or rename the fields of its structs",
        ) from None
    return lower(array)


def _arrow(series: pl.Series) -> pa.Array:
    kept = plainer(series.dtype)
    # Without its name, which may have letters that Arrow's names cannot have.
    plain = series.alias("")
    array = (plain if kept == series.dtype else plain.cast(kept)).to_arrow(compat_level=_OLDEST)
    return array.dictionary_encode() if _is_coded(series.dtype) else array


def _is_coded(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Categorical | pl.Enum)


def _series(dtype: pl.DataType, name: str, value: object) -> pl.Series:
    kept = plainer(dtype)
    kind = pl.Series([], dtype=kept).to_arrow(compat_level=_OLDEST).type
    array = load(_DICTIONARY if _is_coded(dtype) else kind, value)
    series = _polars(array.cast(kind) if _is_coded(dtype) else array).alias(name)
    if series.dtype != kept:
        raise Corrupt(f"a column of {dtype} is kept as {series.dtype}", hint=VERIFY)
    return series if kept == dtype else series.cast(dtype)


def _polars(array: pa.Array) -> pl.Series:
    # As a column of a table: an array of lists of strings, given alone, breaks polars before 2.
    frame = pl.from_arrow(pa.table([array], names=["values"]))
    assert isinstance(frame, pl.DataFrame)
    return frame.to_series()


def _column(field: object, rows: int, value: object) -> pl.Series:
    if type(field) is not list or len(field) != 2 or type(field[0]) is not str:
        raise Corrupt("a column of a frame is not kept as its name and dtype", hint=VERIFY)
    series = _series(type_of(field[1]), field[0], value)
    if len(series) != rows:
        raise Corrupt(f"a column has {len(series)} rows instead of {rows}", hint=VERIFY)
    return series


def _lift_frame(data: object) -> pl.DataFrame:
    schema, rows = _part(data, "schema", list), _part(data, "rows", int)
    values = _part(data, "columns", list)
    if len(values) != len(schema):
        raise Corrupt(f"a frame has {len(values)} columns instead of {len(schema)}", hint=VERIFY)
    columns = [_column(field, rows, value) for field, value in zip(schema, values, strict=True)]
    # Only a polars that knows frames without columns but with rows can have made one.
    return pl.DataFrame(columns) if columns or not rows else pl.DataFrame(height=rows)


def _lift_series(data: object) -> pl.Series:
    dtype = type_of(_part(data, "dtype", object))
    return _series(dtype, _part(data, "name", str), _part(data, "values", dict))


def _part(data: object, name: str, kind: type) -> Any:
    part = data.get(name, _ABSENT) if type(data) is dict else _ABSENT
    if part is _ABSENT or (kind is not object and type(part) is not kind):
        raise Corrupt(f"a value of polars is kept without its {name}", hint=VERIFY)
    return part


_ABSENT = object()

_LOWER: dict[type, Lowering] = {pl.DataFrame: _lower_frame, pl.Series: _lower_series}

_LIFT: dict[str, Callable[[object], object]] = {
    "DataFrame": _lift_frame,
    "Series": _lift_series,
    "DataType": lambda data: type_of(_part(data, "dtype", object)),
}

CODEC = Polars()
