"""Arrow's types, fields and schemas, written in words that never change.

The form is seen by hashes and never changes (`docs/reference/format-v1.md`):

    type    "int64" and the like: a type without parameters is its name
            [name, parameter, ...]: the parameters are numbers, words, types and fields
    field   [name, type, nullable, metadata]
    schema  [fields, metadata]

Metadata is None or a dict of bytes. Arrow's own description of a schema is not used: its bytes
differ from one version of the library to the next.

Of extension types only Arrow's own are taken. One that was made in Python is rebuilt by running
the code that it names, and one kind of them by unpickling; data must not decide that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import types as of

from otolith.codecs.base import VERIFY, parts
from otolith.errors import BadValue, Corrupt, UnknownType

Words: TypeAlias = Callable[[Any], list[object]]

_PLAIN = (
    "null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "date32", "date64", "month_day_nano_interval",
    "string", "binary", "large_string", "large_binary", "string_view", "binary_view",
)  # fmt: skip
_NAMED = {name: getattr(pa, "bool_" if name == "bool" else name)() for name in _PLAIN}
_SIMPLE = {kind: name for name, kind in _NAMED.items()}

_LISTS = {
    "list": (of.is_list, pa.list_),
    "large_list": (of.is_large_list, pa.large_list),
    "list_view": (of.is_list_view, pa.list_view),
    "large_list_view": (of.is_large_list_view, pa.large_list_view),
}
_TIMES = {
    "time32": (of.is_time32, pa.time32),
    "time64": (of.is_time64, pa.time64),
    "duration": (of.is_duration, pa.duration),
}
_DECIMALS = {
    f"decimal{bits}": (getattr(of, f"is_decimal{bits}"), getattr(pa, f"decimal{bits}"))
    for bits in (32, 64, 128, 256)
    if hasattr(pa, f"decimal{bits}")
}
MISFITS = (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError)
"""What Arrow raises when it is given what does not fit."""


def describe(kind: pa.DataType) -> object:
    """Return a type in words.

    Raises:
        BadValue: it is an extension type that was not made by Arrow itself.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return _describe_extension(kind)
    if (name := _SIMPLE.get(kind)) is not None:
        return name
    for fits, words in _WORDS:
        if fits(kind):
            return words(kind)
    raise BadValue(f"cannot keep values of Arrow's type {kind}", hint="cast it to another type")


def describe_field(field: pa.Field) -> list[object]:
    """Return a field in words."""
    return [field.name, describe(field.type), field.nullable, field.metadata]


def describe_schema(schema: pa.Schema) -> list[object]:
    """Return a schema in words."""
    return [[describe_field(field) for field in schema], schema.metadata]


def type_of(words: object) -> pa.DataType:
    """Return the type that is described so.

    Raises:
        Corrupt: no type is.
        UnknownType: the Arrow that is installed here does not know it.
    """
    if type(words) is str and words in _NAMED:
        return _NAMED[words]
    if type(words) is not list or not words or type(words[0]) is not str:
        raise Corrupt(f"{words!r:.60} is not a type of Arrow", hint=VERIFY)
    make = _MAKE.get(words[0])
    if make is None:
        raise UnknownType(
            f"Arrow's type {words[0]:.40} is not known here", hint="upgrade otolith, or pyarrow"
        )
    try:
        kind = make(*words[1:])
    except MISFITS as error:
        raise Corrupt(f"there is no type {words[0]} of Arrow like this: {error}") from error
    return kind


def field_of(words: object) -> pa.Field:
    """Return the field that is described so."""
    name, kind, nullable, metadata = parts(words, "a field", str, object, bool, object)
    made = type_of(kind)
    try:
        return pa.field(name, made, nullable, _metadata(metadata))
    except MISFITS as error:
        raise Corrupt(f"there is no field {name!r:.40} like this: {error}", hint=VERIFY) from error


def schema_of(words: object) -> pa.Schema:
    """Return the schema that is described so."""
    fields, metadata = parts(words, "a schema", list, object)
    return pa.schema([field_of(field) for field in fields], _metadata(metadata))


def _metadata(data: object) -> dict[bytes, bytes] | None:
    if data is None:
        return None
    if type(data) is dict and all(type(x) is bytes for pair in data.items() for x in pair):
        return data
    raise Corrupt("the metadata of a schema is not a dict of bytes", hint=VERIFY)


def _fields_of(words: list[object]) -> list[pa.Field]:
    return [field_of(each) for each in words]


def _fields(kind: pa.DataType) -> list[list[object]]:
    return [describe_field(kind.field(at)) for at in range(kind.num_fields)]


def _size(number: object) -> int:
    # Below zero would mean that lists may be of any length.
    if type(number) is not int or not 0 <= number < 2**31:
        raise ValueError(f"{number!r:.40} is not a size")
    return number


def _describe_union(kind: pa.DataType) -> list[object]:
    return [f"{kind.mode}_union", _fields(kind), list(kind.type_codes)]


def _describe_extension(kind: pa.DataType) -> list[object]:
    name = kind.extension_name
    describe_parameters = _EXTENSIONS.get(name)
    if describe_parameters is None or isinstance(kind, pa.ExtensionType):
        raise BadValue(
            f"cannot keep values of the extension type {name}: making them again would run code"
            " that the data names",
            hint="keep its storage: cast the column to its storage type",
        )
    return [name, *describe_parameters(kind)]


def _describe_tensor(kind: Any) -> list[object]:
    names, order = kind.dim_names, kind.permutation
    return [
        describe(kind.value_type),
        list(kind.shape),
        None if names is None else list(names),
        None if order is None else list(order),
    ]


def _list_words(name: str) -> Words:
    return lambda kind: [name, describe_field(kind.value_field)]


def _time_words(name: str) -> Words:
    return lambda kind: [name, kind.unit]


def _decimal_words(name: str) -> Words:
    return lambda kind: [name, kind.precision, kind.scale]


def _list_maker(make: Callable[[pa.Field], pa.DataType]) -> Callable[..., pa.DataType]:
    return lambda field: make(field_of(field))


_EXTENSIONS: dict[str, Words] = {
    "arrow.uuid": lambda _: [],
    "arrow.bool8": lambda _: [],
    "arrow.json": lambda kind: [describe(kind.storage_type)],
    "arrow.opaque": lambda kind: [describe(kind.storage_type), kind.type_name, kind.vendor_name],
    "arrow.fixed_shape_tensor": _describe_tensor,
}

_WORDS: list[tuple[Callable[[pa.DataType], bool], Words]] = [
    (of.is_timestamp, lambda kind: ["timestamp", kind.unit, kind.tz]),
    (of.is_fixed_size_binary, lambda kind: ["fixed_size_binary", kind.byte_width]),
    (
        of.is_fixed_size_list,
        lambda kind: ["fixed_size_list", describe_field(kind.value_field), kind.list_size],
    ),
    (of.is_struct, lambda kind: ["struct", _fields(kind)]),
    (
        of.is_map,
        lambda kind: [
            "map", describe_field(kind.key_field), describe_field(kind.item_field), kind.keys_sorted
        ],
    ),
    (of.is_union, _describe_union),
    (
        of.is_dictionary,
        lambda kind: [
            "dictionary", describe(kind.index_type), describe(kind.value_type), kind.ordered
        ],
    ),
    (
        of.is_run_end_encoded,
        lambda kind: ["run_end_encoded", describe(kind.run_end_type), describe(kind.value_type)],
    ),
]  # fmt: skip

_MAKE: dict[str, Callable[..., pa.DataType]] = {
    "timestamp": pa.timestamp,
    "fixed_size_binary": lambda width: pa.binary(_size(width)),
    "fixed_size_list": lambda field, size: pa.list_(field_of(field), _size(size)),
    "struct": lambda fields: pa.struct(_fields_of(fields)),
    "map": lambda key, item, ordered: pa.map_(field_of(key), field_of(item), ordered),
    "sparse_union": lambda fields, codes: pa.sparse_union(_fields_of(fields), codes),
    "dense_union": lambda fields, codes: pa.dense_union(_fields_of(fields), codes),
    "dictionary": lambda i, values, ordered: pa.dictionary(type_of(i), type_of(values), ordered),
    "run_end_encoded": lambda ends, values: pa.run_end_encoded(type_of(ends), type_of(values)),
}
_MAKE |= {name: make for name, (_, make) in (_TIMES | _DECIMALS).items()}
_MAKE |= {name: _list_maker(make) for name, (_, make) in _LISTS.items()}
_WORDS += [(fits, _list_words(name)) for name, (fits, _) in _LISTS.items()]
_WORDS += [(fits, _time_words(name)) for name, (fits, _) in _TIMES.items()]
_WORDS += [(fits, _decimal_words(name)) for name, (fits, _) in _DECIMALS.items()]
if hasattr(pa, "uuid"):
    _MAKE["arrow.uuid"] = pa.uuid
if hasattr(pa, "bool8"):
    _MAKE["arrow.bool8"] = pa.bool8
if hasattr(pa, "json_"):
    _MAKE["arrow.json"] = lambda storage: pa.json_(type_of(storage))
if hasattr(pa, "opaque"):
    _MAKE["arrow.opaque"] = lambda storage, name, vendor: pa.opaque(type_of(storage), name, vendor)
_MAKE["arrow.fixed_shape_tensor"] = lambda values, shape, names, order: pa.fixed_shape_tensor(
    type_of(values), [_size(each) for each in shape], names, order
)
