"""Frames and series of polars, stored column by column through the buffers of Arrow.

Forms (they never change, see `docs/reference/format-v1.md`)

    POLARS  {"type": "DataFrame", "schema": [[name, dtype]], "rows": int, "columns": [array]}
            {"type": "Series", "name": str, "dtype": dtype, "values": array}
            {"type": "DataType", "dtype": dtype}

    array   as in `arrow.arrays`, of the type that polars gives to Arrow's older readers
    dtype   "Int64" and the like: a dtype without parameters is its name; any other one is
            ["Datetime", unit, zone or None]   ["Duration", unit]   ["Decimal", precision, scale]
            ["List", dtype]   ["Array", dtype, size]   ["Struct", [[name, dtype]]]
            ["Map", dtype, dtype]   ["Enum", [category]]
            ["Categorical", name, namespace, physical dtype]   of named categories
            ["Categorical", "lexical"]          from polars before 1.32, where it is a choice

Some dtypes mean nothing to Arrow, or something that depends on what else the process did, and are
stored as what they show: a Categorical or an Enum as strings (a whole column as a dictionary of its
strings, in the order in which they come up), 128-bit integers as their digits, and an Array of no
elements as a List.

Chunks, and whether polars knows that a column is sorted, are not part of a value and not stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from otolith.codecs.arrow.arrays import lift_array, lower_array
from otolith.codecs.base import VERIFY, Form, FormCodec, FormLayout, check, require
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Tag

_PLAIN = (
    "Boolean", "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64",
    "UInt128", "Float16", "Float32", "Float64", "String", "Binary", "Date", "Time", "Null",
    "Categorical",
)  # fmt: skip
_BY_NAME: dict[str, pl.DataType] = {
    name: getattr(pl, name)() for name in _PLAIN if hasattr(pl, name)
}
_AS_TEXT = frozenset({"Categorical", "Enum", "Int128", "UInt128"})
_HAS_CATEGORIES = hasattr(pl, "Categories")
_PHYSICAL = ("UInt8", "UInt16", "UInt32")
_MISFITS = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,  # not an Exception; polars raises it for what it did not expect
    pa.ArrowException,
    TypeError,
    ValueError,
    LookupError,
    OverflowError,
)
_OLDEST = pl.CompatLevel.oldest()
_DICTIONARY = pa.dictionary(pa.int32(), pa.large_string())


# Dtypes


def lower_dtype(dtype: Any) -> object:
    """Return a dtype in words.

    Raises:
        BadValue: its values cannot be stored.
    """
    name = type(dtype).__name__
    if name in _WORDS:
        return _WORDS[name](dtype)
    if name in _BY_NAME:
        return name
    raise BadValue(
        f"cannot store a column of polars' {name}",
        hint="cast it to a dtype that holds data, or store its values as a list",
    )


def lift_dtype(words: object) -> pl.DataType:
    """Return the dtype that these words describe.

    Raises:
        Corrupt: they describe none.
        UnknownType: the polars that is installed here does not know it.
    """
    if type(words) is str and words in _BY_NAME:
        return _BY_NAME[words]
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


def stored_dtype(dtype: Any) -> pl.DataType:
    """Return the dtype that values of this one are stored with: itself, if Arrow knows it."""
    name = type(dtype).__name__
    if name in _AS_TEXT:
        return pl.String()
    if name == "List":
        return pl.List(stored_dtype(dtype.inner))
    if name == "Array":
        inner = stored_dtype(dtype.inner)
        # Polars gives arrays of no elements to Arrow, but does not take them back.
        return pl.Array(inner, dtype.size) if dtype.size else pl.List(inner)
    if name == "Struct":
        return pl.Struct({field.name: stored_dtype(field.dtype) for field in dtype.fields})
    made: pl.DataType = dtype
    if name == "Map":
        made = type(dtype)(stored_dtype(dtype.key), stored_dtype(dtype.value))
    return made


def _lower_categorical(dtype: Any) -> object:
    if not _HAS_CATEGORIES:
        return ["Categorical", "lexical"] if dtype.ordering == "lexical" else "Categorical"
    categories = dtype.categories
    if categories.is_global():
        return "Categorical"
    physical = lower_dtype(categories.physical()())
    return ["Categorical", categories.name(), categories.namespace(), physical]


def _make_categorical(*words: object) -> pl.DataType:
    if words == ("lexical",):
        return pl.Categorical() if _HAS_CATEGORIES else pl.Categorical("lexical")
    name, namespace, physical = words
    if type(name) is not str or type(namespace) is not str or physical not in _PHYSICAL:
        raise Corrupt("categories are stored without their names", hint=VERIFY)
    if not _HAS_CATEGORIES:
        raise UnknownType("polars has no named categories here", hint="upgrade polars")
    return pl.Categorical(pl.Categories(name, namespace, type(_BY_NAME[physical])))


def _make_array(inner: object, size: object) -> pl.DataType:
    if type(size) is not int or not 0 <= size < 2**31:
        raise Corrupt(f"an array of polars has the size {size!r:.40}", hint=VERIFY)
    return pl.Array(lift_dtype(inner), size)


_WORDS: dict[str, Callable[[Any], object]] = {
    "Datetime": lambda dtype: ["Datetime", dtype.time_unit, dtype.time_zone],
    "Duration": lambda dtype: ["Duration", dtype.time_unit],
    "Decimal": lambda dtype: ["Decimal", dtype.precision, dtype.scale],
    "List": lambda dtype: ["List", lower_dtype(dtype.inner)],
    "Array": lambda dtype: ["Array", lower_dtype(dtype.inner), dtype.size],
    "Struct": lambda dtype: ["Struct", [[x.name, lower_dtype(x.dtype)] for x in dtype.fields]],
    "Map": lambda dtype: ["Map", lower_dtype(dtype.key), lower_dtype(dtype.value)],
    "Enum": lambda dtype: ["Enum", dtype.categories.to_list()],
    "Categorical": _lower_categorical,
}

_MAKE: dict[str, Callable[..., pl.DataType]] = {
    "Datetime": pl.Datetime,
    "Duration": pl.Duration,
    "Decimal": pl.Decimal,
    "List": lambda inner: pl.List(lift_dtype(inner)),
    "Array": _make_array,
    "Struct": lambda fields: pl.Struct([pl.Field(name, lift_dtype(x)) for name, x in fields]),
    "Enum": pl.Enum,
    "Categorical": _make_categorical,
}
if hasattr(pl, "Map"):
    _MAKE["Map"] = lambda key, value: pl.Map(lift_dtype(key), lift_dtype(value))


# Frames and series


def labels(head: Form) -> list[str]:
    """Return the names of the columns, given the form of a frame without its columns."""
    return [str(field[0]) for field in check(head, schema=list, rows=int)[0]]


def column(head: Form, position: int, value: object) -> pl.Series:
    """Return one column of a frame, given the form of the frame without its columns.

    Raises:
        Corrupt: the value is not that of such a column.
    """
    schema, rows = check(head, schema=list, rows=int)
    require(0 <= position < len(schema), f"a frame has no column {position}")
    try:
        return _lift_column(schema[position], rows, value)
    except _MISFITS as error:
        raise Corrupt(f"a column is damaged: {error!s:.200}", hint=VERIFY) from None


def _lower_frame(frame: pl.DataFrame) -> Form:
    return {
        "schema": [[name, lower_dtype(dtype)] for name, dtype in frame.schema.items()],
        "rows": frame.height,
        "columns": [_lower_values(each) for each in frame],
    }


def _lower_series(series: pl.Series) -> Form:
    dtype = lower_dtype(series.dtype)
    return {"name": series.name, "dtype": dtype, "values": _lower_values(series)}


def _lower_values(series: pl.Series) -> Form:
    """Return the values of a column as an array of Arrow."""
    stored = stored_dtype(series.dtype)
    try:
        # Without its name, which may have letters that Arrow's names cannot have.
        plain = series.alias("")
        cast = plain if stored == series.dtype else plain.cast(stored)
        array = cast.to_arrow(compat_level=_OLDEST)
        if _has_dictionary(series.dtype):
            array = array.dictionary_encode()
    except _MISFITS as error:
        raise BadValue(
            f"cannot store a column of {series.dtype!s:.80}: Arrow cannot take it: {error}",
            hint="cast it to another dtype, or rename the fields of its structs",
        ) from None
    return lower_array(array)


def _has_dictionary(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Categorical | pl.Enum)


def _lift_values(dtype: pl.DataType, name: str, value: object) -> pl.Series:
    """Return a column of this dtype from an array of Arrow."""
    stored = stored_dtype(dtype)
    kind = pl.Series([], dtype=stored).to_arrow(compat_level=_OLDEST).type
    if _has_dictionary(dtype):
        array = lift_array(_DICTIONARY, value).cast(kind)
    else:
        array = lift_array(kind, value)
    # As a column of a table: an array of lists of strings, given alone, breaks polars before 2.
    frame = pl.from_arrow(pa.table([array], names=["values"]))
    assert isinstance(frame, pl.DataFrame)
    series = frame.to_series().alias(name)
    if series.dtype != stored:
        raise Corrupt(f"a column of {dtype} is stored as {series.dtype}", hint=VERIFY)
    return series if stored == dtype else series.cast(dtype)


def _lift_column(field: object, rows: int, value: object) -> pl.Series:
    if type(field) is not list or len(field) != 2 or type(field[0]) is not str:
        raise Corrupt("a column of a frame is not stored with its name and dtype", hint=VERIFY)
    series = _lift_values(lift_dtype(field[1]), field[0], value)
    require(len(series) == rows, f"a column has {len(series)} rows instead of {rows}")
    return series


def _lift_frame(schema: list[Any], rows: int, values: list[Any]) -> pl.DataFrame:
    require(
        len(values) == len(schema), f"a frame has {len(values)} columns instead of {len(schema)}"
    )
    columns = [_lift_column(field, rows, x) for field, x in zip(schema, values, strict=True)]
    # Only a polars that knows frames without columns but with rows can have made one.
    return pl.DataFrame(columns) if columns or not rows else pl.DataFrame(height=rows)


def _refuse_plan(value: object) -> NoReturn:
    raise BadValue(
        f"cannot store a polars {type(value).__name__}: it is a plan, not data",
        hint="collect() a lazy frame and store the result; store what an expression returns",
    )


def _lift_plan() -> NoReturn:
    raise Corrupt("a plan of polars is never stored", hint=VERIFY)


CODEC = FormCodec(
    Tag.POLARS,
    (
        FormLayout(
            pl.DataFrame, _lift_frame, {"schema": list, "rows": int, "columns": list}, _lower_frame
        ),
        FormLayout(
            pl.Series,
            lambda name, dtype, values: _lift_values(lift_dtype(dtype), name, values),
            {"name": str, "dtype": object, "values": dict},
            _lower_series,
        ),
        FormLayout(
            pl.DataType,
            lift_dtype,
            {"dtype": object},
            lambda dtype: {"dtype": lower_dtype(dtype)},
            subclasses=True,
        ),
        FormLayout((pl.LazyFrame, pl.Expr), _lift_plan, {}, _refuse_plan),
    ),
    misfits=_MISFITS,
)
