"""Arrow's tables, arrays, scalars and types, kept column by column and buffer by buffer.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    TABLE  {"type": "Table" or "RecordBatch", "schema": schema, "rows": int, "columns": [array]}
           {"type": "ChunkedArray" or "Array" or "Scalar", "of": type, "values": array}
           {"type": "Schema", "schema": schema}
           {"type": "Field", "field": field}
           {"type": "DataType", "of": type}

    schema, field, type   as in `arrow_types`
    array                 as in `arrow_arrays`; that of a Scalar has one element

Chunks are not kept: a column of several is lowered as one, and comes back as one. So tables with
the same content are stored alike however they were put together, and so are a table and its slice
once it is a table of its own. The columns of a table do not depend on each other: `column` makes
one from its own part and the head, which is all the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from otolith.codecs.arrow.arrays import Form, load, lower
from otolith.codecs.arrow.types import (
    describe,
    describe_field,
    describe_schema,
    field_of,
    schema_of,
    type_of,
)
from otolith.codecs.base import VERIFY, Lowering
from otolith.errors import BadValue, Corrupt
from otolith.types import Tag, Tagged


class Tables:
    """Lowers and lifts the values of pyarrow."""

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({Tag.TABLE})

    def lowering(self, kind: type) -> Lowering | None:
        return next((lower for base, lower in _LOWER.items() if issubclass(kind, base)), None)

    def lift(self, code: int, data: object) -> object:
        name = _part(data, "type", str)
        if name not in _LIFT:
            raise Corrupt(f"there is no {name:.40} of Arrow", hint=VERIFY)
        return _LIFT[name](data)


def labels(head: dict[str, object]) -> list[str]:
    """Return the names of the columns, given what is kept of the table without its columns."""
    return list(schema_of(_part(head, "schema", list)).names)


def column(head: dict[str, object], position: int, value: object) -> pa.ChunkedArray:
    """Return one column of a table, given what is kept of the table without its columns.

    Raises:
        Corrupt: the value is not that of such a column.
    """
    schema = schema_of(_part(head, "schema", list))
    return pa.chunked_array([_column(schema, _rows(head), position, value)])


def _lower_tabular(value: Any) -> Tagged:
    head = {
        "type": "Table" if isinstance(value, pa.Table) else "RecordBatch",
        "schema": describe_schema(value.schema),
        "rows": value.num_rows,
    }
    return Tagged(Tag.TABLE, {**head, "columns": [_values(each) for each in value.columns]})


def _lower_values(name: str, whole: Callable[[Any], pa.Array]) -> Lowering:
    def lower_values(value: Any) -> Tagged:
        data = {"type": name, "of": describe(value.type), "values": _values(whole(value))}
        return Tagged(Tag.TABLE, data)

    return lower_values


def _values(array: Any) -> Form:
    try:
        return lower(_whole(array))
    except pa.ArrowException as error:
        raise BadValue(
            f"cannot keep a column of {array.type!s:.80}: {error}",
            hint="cast it to a plainer type; strings beyond 2 GiB to large_string",
        ) from error


def _whole(array: Any) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)


def _column(schema: pa.Schema, rows: int, position: int, value: object) -> pa.Array:
    if not 0 <= position < len(schema):
        raise Corrupt(f"a table has no column {position}", hint=VERIFY)
    array = load(schema.field(position).type, value)
    if len(array) != rows:
        raise Corrupt(f"a column has {len(array)} rows instead of {rows}", hint=VERIFY)
    return array


def _lift_tabular(data: object) -> Any:
    schema, rows = schema_of(_part(data, "schema", list)), _rows(data)
    values = _part(data, "columns", list)
    if len(values) != len(schema):
        raise Corrupt(f"a table has {len(values)} columns instead of {len(schema)}", hint=VERIFY)
    columns = [_column(schema, rows, at, value) for at, value in enumerate(values)]
    kind = pa.Table if _part(data, "type", str) == "Table" else pa.RecordBatch
    if not columns:
        # Without columns only a selection of none can have rows.
        bare = pa.schema([("bare", pa.null())], schema.metadata)
        return kind.from_arrays([pa.nulls(rows)], schema=bare).select([])
    return kind.from_arrays(columns, schema=schema)


def _lift_values(data: object) -> pa.Array:
    return load(type_of(_part(data, "of", object)), _part(data, "values", dict))


def _lift_scalar(data: object) -> pa.Scalar:
    array = _lift_values(data)
    if len(array) != 1:
        raise Corrupt(f"a scalar has {len(array)} values", hint=VERIFY)
    return array[0]


def _rows(head: object) -> int:
    rows = _part(head, "rows", int)
    if not 0 <= rows < 2**60:
        raise Corrupt(f"a table has {rows} rows", hint=VERIFY)
    return int(rows)


def _part(data: object, name: str, kind: type) -> Any:
    part = data.get(name, _ABSENT) if type(data) is dict else _ABSENT
    if part is _ABSENT or (kind is not object and type(part) is not kind):
        raise Corrupt(f"a value of Arrow is kept without its {name}", hint=VERIFY)
    return part


_ABSENT = object()

_LOWER: dict[type, Lowering] = {
    pa.Table: _lower_tabular,
    pa.RecordBatch: _lower_tabular,
    pa.ChunkedArray: _lower_values("ChunkedArray", lambda value: value),
    pa.Array: _lower_values("Array", lambda value: value),
    pa.Scalar: _lower_values("Scalar", lambda value: pa.repeat(value, 1)),
    pa.Schema: lambda value: Tagged(
        Tag.TABLE, {"type": "Schema", "schema": describe_schema(value)}
    ),
    pa.Field: lambda value: Tagged(Tag.TABLE, {"type": "Field", "field": describe_field(value)}),
    pa.DataType: lambda value: Tagged(Tag.TABLE, {"type": "DataType", "of": describe(value)}),
}

_LIFT: dict[str, Callable[[object], object]] = {
    "Table": _lift_tabular,
    "RecordBatch": _lift_tabular,
    "ChunkedArray": lambda data: pa.chunked_array([_lift_values(data)]),
    "Array": _lift_values,
    "Scalar": _lift_scalar,
    "Schema": lambda data: schema_of(_part(data, "schema", list)),
    "Field": lambda data: field_of(_part(data, "field", list)),
    "DataType": lambda data: type_of(_part(data, "of", object)),
}

CODEC = Tables()
