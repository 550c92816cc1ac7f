"""Arrow's types, fields and schemas, written in words that never change.

Forms (they never change, see `docs/reference/format-v1.md`)

    type    "int64" and the like: a type without parameters is its name
            [name, parameter, ...]: the parameters are numbers, words, types and fields
    field   [name, type, nullable, metadata]
    schema  [fields, metadata]

Metadata is None or a dict of bytes. Arrow's own description of a schema is not used: its bytes
differ from one version of the library to the next.

Of extension types only those of Arrow itself are stored. One that was made in Python is rebuilt by
running the code that it names, and one kind of them by unpickling; data must not decide that.

Each type with parameters is one line of `_TYPES`: the test for it, its words, and its constructor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import types as of

from otolith.codecs.base import VERIFY, parts
from otolith.errors import BadValue, Corrupt, UnknownType

_PLAIN = (
    "null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "date32", "date64", "month_day_nano_interval",
    "string", "binary", "large_string", "large_binary", "string_view", "binary_view",
)  # fmt: skip
_BY_NAME = {name: getattr(pa, "bool_" if name == "bool" else name)() for name in _PLAIN}
_NAME_OF = {kind: name for name, kind in _BY_NAME.items()}

MISFITS = (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError)
"""What Arrow raises for data that does not fit."""


def lower_type(kind: pa.DataType) -> object:
    """Return a type in words.

    Raises:
        BadValue: it is an extension type that was not made by Arrow itself.
    """
    if isinstance(kind, pa.BaseExtensionType):
        layout = _EXTENSIONS.get(kind.extension_name)
        if layout is None or isinstance(kind, pa.ExtensionType):
            raise BadValue(
                f"cannot store values of the extension type {kind.extension_name}: making them"
                " again would run code that the data names",
                hint="store its storage: cast the column to its storage type",
            )
        return [kind.extension_name, *layout.words(kind)]
    if (name := _NAME_OF.get(kind)) is not None:
        return name
    for name, layout in _TYPES.items():
        if layout.fits(kind):
            return [name, *layout.words(kind)]
    raise BadValue(f"cannot store values of Arrow's type {kind}", hint="cast it to another type")


def lower_field(field: pa.Field) -> list[object]:
    """Return a field in words."""
    return [field.name, lower_type(field.type), field.nullable, field.metadata]


def lower_schema(schema: pa.Schema) -> list[object]:
    """Return a schema in words."""
    return [[lower_field(field) for field in schema], schema.metadata]


def lift_type(words: object) -> pa.DataType:
    """Return the type that these words describe.

    Raises:
        Corrupt: they describe none.
        UnknownType: the Arrow that is installed here does not know it.
    """
    if type(words) is str and words in _BY_NAME:
        return _BY_NAME[words]
    if type(words) is not list or not words or type(words[0]) is not str:
        raise Corrupt(f"{words!r:.60} is not a type of Arrow", hint=VERIFY)
    layout = _TYPES.get(words[0]) or _EXTENSIONS.get(words[0])
    if layout is None:
        raise UnknownType(
            f"Arrow's type {words[0]:.40} is not known here", hint="upgrade otolith, or pyarrow"
        )
    try:
        return layout.make(*words[1:])
    except MISFITS as error:
        raise Corrupt(f"Arrow has no type {words[0]} like this: {error}", hint=VERIFY) from error


def lift_field(words: object) -> pa.Field:
    """Return the field that these words describe."""
    name, kind, nullable, metadata = parts(words, "a field", str, object, bool, object)
    made = lift_type(kind)
    try:
        return pa.field(name, made, nullable, _metadata(metadata))
    except MISFITS as error:
        raise Corrupt(f"Arrow has no field {name!r:.40} like this: {error}", hint=VERIFY) from error


def lift_schema(words: object) -> pa.Schema:
    """Return the schema that these words describe."""
    fields, metadata = parts(words, "a schema", list, object)
    return pa.schema([lift_field(field) for field in fields], _metadata(metadata))


def _metadata(data: object) -> dict[bytes, bytes] | None:
    """Return metadata, once it is None or a dict of bytes."""
    if data is None:
        return None
    if type(data) is dict and all(type(x) is bytes for pair in data.items() for x in pair):
        return data
    raise Corrupt("the metadata of a schema is not a dict of bytes", hint=VERIFY)


def _size(number: object) -> int:
    """Return a size, checked: below zero would mean lists of any length."""
    # Below zero would mean that lists may be of any length.
    if type(number) is not int or not 0 <= number < 2**31:
        raise ValueError(f"{number!r:.40} is not a size")
    return number


def _lower_fields(kind: pa.DataType) -> list[list[object]]:
    return [lower_field(kind.field(at)) for at in range(kind.num_fields)]


def _lift_fields(words: list[object]) -> list[pa.Field]:
    return [lift_field(each) for each in words]


def _tensor_words(kind: Any) -> list[object]:
    """Return what describes a tensor type: values, shape, names and order of dimensions."""
    names, order = kind.dim_names, kind.permutation
    return [
        lower_type(kind.value_type),
        list(kind.shape),
        None if names is None else list(names),
        None if order is None else list(order),
    ]


class _TypeLayout(NamedTuple):
    """A type with parameters: which types it is, its parameters in words, and the way back."""

    fits: Callable[[Any], bool]
    words: Callable[[Any], list[object]]
    make: Callable[..., pa.DataType]


def _list_layout(fits: Callable[[Any], bool], make: Callable[[pa.Field], Any]) -> _TypeLayout:
    """Return how a type of lists is stored: by its field."""
    return _TypeLayout(
        fits, lambda kind: [lower_field(kind.value_field)], lambda field: make(lift_field(field))
    )


def _union_layout(mode: str, make: Callable[..., Any]) -> _TypeLayout:
    """Return how a union type is stored: by its fields and codes."""
    return _TypeLayout(
        lambda kind: of.is_union(kind) and kind.mode == mode,
        lambda kind: [_lower_fields(kind), list(kind.type_codes)],
        lambda fields, codes: make(_lift_fields(fields), codes),
    )


def _unit(kind: Any) -> list[object]:
    return [kind.unit]


_TYPES: dict[str, _TypeLayout] = {
    "timestamp": _TypeLayout(of.is_timestamp, lambda kind: [kind.unit, kind.tz], pa.timestamp),
    "time32": _TypeLayout(of.is_time32, _unit, pa.time32),
    "time64": _TypeLayout(of.is_time64, _unit, pa.time64),
    "duration": _TypeLayout(of.is_duration, _unit, pa.duration),
    "fixed_size_binary": _TypeLayout(
        of.is_fixed_size_binary,
        lambda kind: [kind.byte_width],
        lambda width: pa.binary(_size(width)),
    ),
    "fixed_size_list": _TypeLayout(
        of.is_fixed_size_list,
        lambda kind: [lower_field(kind.value_field), kind.list_size],
        lambda field, size: pa.list_(lift_field(field), _size(size)),
    ),
    "list": _list_layout(of.is_list, pa.list_),
    "large_list": _list_layout(of.is_large_list, pa.large_list),
    "list_view": _list_layout(of.is_list_view, pa.list_view),
    "large_list_view": _list_layout(of.is_large_list_view, pa.large_list_view),
    "struct": _TypeLayout(
        of.is_struct,
        lambda kind: [_lower_fields(kind)],
        lambda fields: pa.struct(_lift_fields(fields)),
    ),
    "map": _TypeLayout(
        of.is_map,
        lambda kind: [lower_field(kind.key_field), lower_field(kind.item_field), kind.keys_sorted],
        lambda key, item, is_sorted: pa.map_(lift_field(key), lift_field(item), is_sorted),
    ),
    "sparse_union": _union_layout("sparse", pa.sparse_union),
    "dense_union": _union_layout("dense", pa.dense_union),
    "dictionary": _TypeLayout(
        of.is_dictionary,
        lambda kind: [lower_type(kind.index_type), lower_type(kind.value_type), kind.ordered],
        lambda index, values, ordered: pa.dictionary(lift_type(index), lift_type(values), ordered),
    ),
    "run_end_encoded": _TypeLayout(
        of.is_run_end_encoded,
        lambda kind: [lower_type(kind.run_end_type), lower_type(kind.value_type)],
        lambda ends, values: pa.run_end_encoded(lift_type(ends), lift_type(values)),
    ),
    **{
        f"decimal{bits}": _TypeLayout(
            getattr(of, f"is_decimal{bits}"),
            lambda kind: [kind.precision, kind.scale],
            getattr(pa, f"decimal{bits}"),
        )
        for bits in (32, 64, 128, 256)
        if hasattr(pa, f"decimal{bits}")
    },
}


def _extension_layout(
    maker: str, words: Callable[[Any], list[object]], make: Callable[..., Any] | None = None
) -> _TypeLayout | None:
    """Return the layout of an extension type that this version of Arrow may not have."""
    found = getattr(pa, maker, None)
    if found is None:
        return None
    return _TypeLayout(lambda _: False, words, make or found)


_EXTENSIONS: dict[str, _TypeLayout | None] = {
    "arrow.uuid": _extension_layout("uuid", lambda _: []),
    "arrow.bool8": _extension_layout("bool8", lambda _: []),
    "arrow.json": _extension_layout(
        "json_",
        lambda kind: [lower_type(kind.storage_type)],
        lambda storage: pa.json_(lift_type(storage)),
    ),
    "arrow.opaque": _extension_layout(
        "opaque",
        lambda kind: [lower_type(kind.storage_type), kind.type_name, kind.vendor_name],
        lambda storage, name, vendor: pa.opaque(lift_type(storage), name, vendor),
    ),
    "arrow.fixed_shape_tensor": _extension_layout(
        "fixed_shape_tensor",
        _tensor_words,
        lambda values, shape, names, order: pa.fixed_shape_tensor(
            lift_type(values), [_size(each) for each in shape], names, order
        ),
    ),
}
