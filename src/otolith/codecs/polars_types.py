"""The dtypes of polars, written in words that never change.

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

from otolith.codecs.exact import VERIFY
from otolith.errors import BadValue, Corrupt, UnknownType

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
