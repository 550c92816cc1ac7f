"""Arrow's tables, arrays, scalars and types, stored column by column and buffer by buffer.

Forms (they never change, see `docs/reference/format-v1.md`)

    TABLE  {"type": "Table" or "RecordBatch", "schema": schema, "rows": int, "columns": [array]}
           {"type": "ChunkedArray" or "Array" or "Scalar", "of": type, "values": array}
           {"type": "Schema", "schema": schema}
           {"type": "Field", "field": field}
           {"type": "DataType", "of": type}

    schema, field, type   as in `types`
    array                 as in `arrays`; that of a Scalar has one element

Chunks are not stored: a column of several is lowered as one, and comes back as one. So tables with
the same content are stored alike however they were put together, and so are a table and its slice
once that is copied. The columns of a table do not depend on each other: `column` makes one from its
own part and the *head*, which is the form without its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from otolith.codecs.arrow.arrays import lift_array, lower_array
from otolith.codecs.arrow.types import (
    lift_field,
    lift_schema,
    lift_type,
    lower_field,
    lower_schema,
    lower_type,
)
from otolith.codecs.base import Form, FormCodec, FormLayout, check, require
from otolith.errors import BadValue
from otolith.types import Tag


def labels(head: Form) -> list[str]:
    """Return the names of the columns of a table, given its head."""
    return list(_schema_and_rows(head)[0].names)


def column(head: Form, position: int, value: object) -> pa.ChunkedArray:
    """Return one column of a table, given its head.

    Raises:
        Corrupt: the value is not that of such a column.
    """
    schema, rows = _schema_and_rows(head)
    return pa.chunked_array([_column(schema, rows, position, value)])


def _schema_and_rows(head: Form) -> tuple[pa.Schema, int]:
    """Return the schema and the number of rows of a stored table."""
    schema, rows = check(head, schema=list, rows=int)
    require(0 <= rows < 2**60, f"a table has {rows} rows")
    return lift_schema(schema), rows


def _lower_table(value: Any) -> Form:
    """Return the form of a table: its schema, rows and columns."""
    return {
        "schema": lower_schema(value.schema),
        "rows": value.num_rows,
        "columns": [_lower_column(each) for each in value.columns],
    }


def _lower_values(value: Any) -> Form:
    array = pa.repeat(value, 1) if isinstance(value, pa.Scalar) else value
    return {"of": lower_type(value.type), "values": _lower_column(array)}


def _lower_column(array: Any) -> Form:
    """Return the form of a column; chunks are joined first."""
    try:
        if isinstance(array, pa.ChunkedArray):
            chunks = array.chunks
            if len(chunks) == 1:
                array = chunks[0]
            else:
                array = pa.concat_arrays(chunks) if chunks else pa.nulls(0, array.type)
        return lower_array(array)
    except pa.ArrowException as error:
        raise BadValue(
            f"cannot store a column of {array.type!s:.80}: {error}",
            hint="cast it to a plainer type; strings beyond 2 GiB to large_string",
        ) from error


def _column(schema: pa.Schema, rows: int, position: int, value: object) -> pa.Array:
    """Return one column of a stored table, checked against its length."""
    require(0 <= position < len(schema), f"a table has no column {position}")
    array = lift_array(schema.field(position).type, value)
    require(len(array) == rows, f"a column has {len(array)} rows instead of {rows}")
    return array


def _lift_table(kind: Any, schema: list[Any], rows: int, columns: list[Any]) -> Any:
    """Return the table or batch of a form."""
    types, rows = _schema_and_rows({"type": kind.__name__, "schema": schema, "rows": rows})
    require(
        len(columns) == len(types), f"a table has {len(columns)} columns instead of {len(types)}"
    )
    if not columns:
        # Without columns only a selection of none can have rows.
        bare = pa.schema([("bare", pa.null())], types.metadata)
        return kind.from_arrays([pa.nulls(rows)], schema=bare).select([])
    arrays = [_column(types, rows, at, value) for at, value in enumerate(columns)]
    return kind.from_arrays(arrays, schema=types)


def _lift_values(of: object, values: dict[str, object]) -> pa.Array:
    return lift_array(lift_type(of), values)


def _lift_scalar(of: object, values: dict[str, object]) -> pa.Scalar:
    """Return the scalar of a form: an array of one value."""
    array = _lift_values(of, values)
    require(len(array) == 1, f"a scalar has {len(array)} values")
    return array[0]


def _layout(
    kind: Any, lift: Callable[..., object], lower: Callable[[Any], Form], **parts: type
) -> FormLayout:
    """Return the layout of a class of Arrow, its subclasses included."""
    return FormLayout(kind, lift, parts, lower, subclasses=True)


_TABLE: dict[str, type] = {"schema": list, "rows": int, "columns": list}
_VALUES: dict[str, type] = {"of": object, "values": dict}

CODEC = FormCodec(
    Tag.TABLE,
    (
        _layout(pa.Table, partial(_lift_table, pa.Table), _lower_table, **_TABLE),
        _layout(pa.RecordBatch, partial(_lift_table, pa.RecordBatch), _lower_table, **_TABLE),
        _layout(
            pa.ChunkedArray,
            lambda of, values: pa.chunked_array([_lift_values(of, values)]),
            _lower_values,
            **_VALUES,
        ),
        _layout(pa.Array, _lift_values, _lower_values, **_VALUES),
        _layout(pa.Scalar, _lift_scalar, _lower_values, **_VALUES),
        _layout(pa.Schema, lift_schema, lambda value: {"schema": lower_schema(value)}, schema=list),
        _layout(pa.Field, lift_field, lambda value: {"field": lower_field(value)}, field=list),
        _layout(pa.DataType, lift_type, lambda value: {"of": lower_type(value)}, of=object),
    ),
    misfits=(pa.ArrowException,),
)
