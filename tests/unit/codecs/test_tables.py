"""Arrow's values come back as they were, and are kept by what they show."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from decimal import Decimal

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pytest

import otolith
from otolith.codecs import arrow
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import CHUNK_BYTES, Raw, Tag
from tests.unit.codecs.storing import again, data_of, encoded, lift, lowered

SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, None]), pa.array(["a", "b", "c"])]
)
DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1, 0], pa.int8()),
    pa.array([1, 0, 0], pa.int32()),
    [pa.array([1, 2]), pa.array(["a"])],
)
RUNS = pc.run_end_encode(pa.array([1.5, 1.5, 2.5, 2.5, None, None]))
PAIR = pa.struct([("a", pa.int8()), ("b", pa.string())])


def _stored(kind, values, storage):
    return pa.ExtensionArray.from_storage(kind, pa.array(values, storage))


ARRAYS = {
    "null": pa.nulls(3),
    "bool": pa.array([True, None, False] * 5),
    "int64": pa.array([1, None, 3]),
    "uint8": pa.array([1, 255], pa.uint8()),
    "float16": pa.array(np.array([1.5, 2.5], np.float16)),
    "float32": pa.array([1.5, None, float("nan"), -0.0], pa.float32()),
    "decimal32": pa.array([Decimal("1.50"), None], pa.decimal32(5, 2)),
    "decimal128": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)),
    "date32": pa.array([dt.date(2020, 1, 1), None], pa.date32()),
    "date64": pa.array([dt.date(2020, 1, 1), None], pa.date64()),
    "time32": pa.array([1, None], pa.time32("s")),
    "time64": pa.array([1, None], pa.time64("ns")),
    "timestamp": pa.array([1, None], pa.timestamp("ns")),
    "timestamp with a zone": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")),
    "duration": pa.array([1, None], pa.duration("ms")),
    "interval": pa.array([None, (1, 2, 3)], pa.month_day_nano_interval()),
    "string": pa.array(["a", None, "", "ü" * 40]),
    "large string": pa.array(["a", None], pa.large_string()),
    "binary": pa.array([b"a", None, b"\xff"]),
    "large binary": pa.array([b"a", None], pa.large_binary()),
    "string view": pa.array(["a", None, "b" * 40], pa.string_view()),
    "binary view": pa.array([b"a", None, b"b" * 40], pa.binary_view()),
    "fixed size binary": pa.array([b"abc", None], pa.binary(3)),
    "binary without bytes": pa.array([b"", None], pa.binary(0)),
    "list": pa.array([[1, None], None, [], [3]], pa.list_(pa.int8())),
    "large list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "list view": pa.array([[1, 2], None, [], [3]], pa.list_view(pa.int8())),
    "large list view": pa.array([["a"], None], pa.large_list_view(pa.string_view())),
    "fixed size list": pa.array([["a", "b"], None], pa.list_(pa.string_view(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}], PAIR),
    "struct without fields": pa.array([{}, None], pa.struct([])),
    "map": pa.array([[("a", 1)], None, [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int8())),
    "sparse union": SPARSE,
    "dense union": DENSE,
    "dictionary": pa.array(["b", "a", None, "b"]).dictionary_encode(),
    "ordered dictionary": pa.array(
        ["b", None], pa.dictionary(pa.int8(), pa.string(), ordered=True)
    ),
    "runs": RUNS,
    "runs of text": pc.run_end_encode(pa.array(["a", "a", None])),
    "nested": pa.array([[{"a": [1]}, None]], pa.list_(pa.struct([("a", pa.list_(pa.int8()))]))),
    "unions and runs in a struct": pa.StructArray.from_arrays(
        [SPARSE, DENSE, RUNS.slice(0, 3)], ["s", "d", "r"], mask=pa.array([True, False, False])
    ),
    "uuid": _stored(pa.uuid(), [b"0" * 16, None], pa.binary(16)),
    "bool8": _stored(pa.bool8(), [1, None], pa.int8()),
    "json": _stored(pa.json_(), ["{}", None], pa.string()),
    "opaque": _stored(pa.opaque(pa.int8(), "kind", "vendor"), [1, None], pa.int8()),
    "tensor": _stored(
        pa.fixed_shape_tensor(pa.int8(), (2, 2), ["x", "y"], [1, 0]),
        [[1, 2, 3, 4], None],
        pa.list_(pa.int8(), 4),
    ),
}
every_array = pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())


def assert_same(back, value):
    assert type(back) is type(value)
    back.validate(full=True)
    # As text, because a NaN is not equal to itself.
    assert back.equals(value) or str(back.to_pylist()) == str(value.to_pylist())
    assert back.type == value.type


@every_array
def test_arrays_come_back_as_they_were(array):
    for part in (array, array.slice(1), array.slice(0, 1), array.slice(0, 0)):
        assert_same(again(part), part)


@every_array
def test_a_slice_is_kept_like_an_array_of_its_own(array):
    part = array.slice(1, len(array) - 1)
    whole = pa.concat_arrays([array, array, array]).slice(len(array) + 1, len(array) - 1)

    assert encoded(part) == encoded(whole) == encoded(again(part))


@every_array
def test_chunks_do_not_matter(array):
    chunks = pa.chunked_array([array.slice(0, 1), array.slice(0, 0), array.slice(1)])

    assert encoded(chunks) == encoded(pa.chunked_array([pa.concat_arrays(chunks.chunks)]))
    assert_same(again(chunks), chunks)


@every_array
def test_an_empty_chunked_array_keeps_its_type(array):
    empty = pa.chunked_array([], type=array.type)

    assert_same(again(empty), empty)


@every_array
def test_scalars_types_and_fields_come_back_as_they_were(array):
    for scalar in (array[0], array[len(array) - 1]):
        assert type(again(scalar)) is type(scalar)
        assert again(scalar).equals(scalar)
    field = pa.field("näme", array.type, metadata={b"k": b"\xff"})
    assert type(again(array.type)) is type(array.type)
    assert again(array.type) == array.type
    assert again(field).equals(field, check_metadata=True)


@every_array
def test_a_table_comes_back_through_a_repo(array):
    table = pa.table({"x": array, "x2": array}, metadata={b"k": b"v"})
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["t"] = table
    session.commit("kept")

    back = repo.session("a")["t"]

    assert_same(back["x2"], table["x2"])
    assert back.schema.equals(table.schema, check_metadata=True)


def test_what_lies_under_a_null_is_no_part_of_a_value():
    mask = pa.array([False, True, False])
    bits = pa.py_buffer(b"\x05")
    text = pa.Array.from_buffers(
        pa.string(),
        3,
        [bits, pa.array([0, 1, 3, 4], pa.int32()).buffers()[1], pa.py_buffer(b"axxb")],
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4]), pa.array([1, 9, 9, 2]), mask=mask)
    pair = pa.StructArray.from_arrays([pa.array([1, 9, 2])], ["a"], mask=mask)

    for hidden, clean in [
        (pa.array([1, 9, 2], mask=np.array([False, True, False])), pa.array([1, None, 2])),
        (text, pa.array(["a", None, "b"])),
        (lists, pa.array([[1], None, [2]])),
        (pair, pa.array([{"a": 1}, None, {"a": 2}])),
    ]:
        assert hidden.equals(clean)
        assert encoded(hidden) == encoded(clean)


def test_runs_of_one_value_are_one_run():
    split = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 4], pa.int32()), pa.array([7, 7, 8]))
    whole = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array([7, 8]))

    assert encoded(split) == encoded(whole)


def test_runs_of_nulls_are_one_run_whatever_lies_under_them():
    hidden = pa.array([7, 8, 9], pa.int8(), mask=np.array([True, True, False]))
    split = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 4], pa.int32()), hidden)
    whole = pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 4], pa.int32()), pa.array([None, 9], pa.int8())
    )

    assert encoded(split) == encoded(whole)


def test_zeros_of_either_sign_are_two_runs():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([0.0, -0.0]))

    assert str(again(runs).values) == str(runs.values)


def test_a_slice_does_not_drag_its_parent_along():
    assert len(encoded(pa.array(range(100_000)).slice(5, 10))) < 300
    assert len(encoded(pa.array(["x" * 100] * 10_000).slice(5, 10))) < 1500
    assert len(encoded(pa.array([[1] * 100] * 1000).slice(5, 1))) < 1200


def test_buffers_are_handed_over_without_a_copy():
    array = pa.array(np.arange(1000.0))

    values = lowered(array)["values"]["values"]

    assert type(values) is Raw
    assert np.shares_memory(np.frombuffer(values.view), np.frombuffer(array.buffers()[1]))


def test_a_large_table_is_lowered_without_memory():
    table = pa.table({str(n): np.arange(250_000.0) + n for n in range(4)})
    lowered(table)

    tracemalloc.start()
    lowered(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 100_000


def test_one_column_is_made_from_its_own_part():
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    data = data_of(table)
    values = data.pop("columns")

    assert arrow.column(data, 1, values[1]).equals(table["b"])


@pytest.mark.parametrize("position", [-1, 2])
def test_a_column_that_is_not_there_is_refused(position):
    data = data_of(pa.table({"a": [1], "b": [2]}))
    values = data.pop("columns")

    with pytest.raises(Corrupt):
        arrow.column(data, position, values[0])


def test_only_the_changed_column_is_stored_anew():
    values = {str(n): np.random.default_rng(n).random(50_000) for n in range(10)}
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["t"] = pa.table(values)
    session.commit("first")
    before = _stored_bytes(repo)
    session["t"] = pa.table({**values, "3": values["3"] + 1})
    session.commit("second")

    assert _stored_bytes(repo) - before < 50_000 * 8 * 1.2


def _stored_bytes(repo):
    return sum(len(data) for data in repo.store._objects.values())


@pytest.mark.parametrize("make", [pa.table, pa.record_batch])
def test_rows_without_columns_are_still_rows(make):
    bare = make({"a": [1, 2]}, metadata={b"k": b"v"}).select([])

    assert type(again(bare)) is type(bare)
    assert again(bare).num_rows == 2
    assert again(bare).schema.equals(bare.schema, check_metadata=True)


def test_columns_of_one_name_are_two_columns():
    table = pa.table([pa.array([1]), pa.array(["a"])], names=["x", "x"])

    assert again(table).equals(table)


def test_a_record_batch_and_a_schema_come_back_as_they_were():
    batch = pa.record_batch({"a": [1, 2]}, metadata={b"k": b"v"})

    assert again(batch).equals(batch, check_metadata=True)
    assert again(batch.schema).equals(batch.schema, check_metadata=True)


def test_dictionaries_of_chunks_become_one():
    chunks = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    )

    assert again(chunks).to_pylist() == ["a", "b", "c", "a"]


class Celsius(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self):
        super().__init__(pa.float64(), "test.celsius")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def test_extension_types_made_in_python_are_refused():
    table = pa.table({"t": _stored(Celsius(), [20.0], pa.float64())})

    with pytest.raises(BadValue, match=r"test\.celsius.*run code.*cast the column"):
        encoded(table)


@pytest.mark.parametrize("name", ["test.celsius", "arrow.py_extension_type"])
def test_data_cannot_name_an_extension_type_into_being(name):
    with pytest.raises(UnknownType):
        lift(Tag.TABLE, {"type": "DataType", "of": [name, "float64", b"cos\nsystem"]})


@pytest.mark.parametrize(
    "words",
    [
        None, "int65", [], [1], ["timestamp"], ["timestamp", "weeks", None], ["decimal128", 99, 0],
        ["fixed_size_binary", -1], ["fixed_size_list", ["a", "int8", True, None], -1],
        ["list", ["a", "int8", True]], ["list", ["a", "null", False, None]],
        ["struct", [["a", "int8", True, {"k": "v"}]]], ["dictionary", "string", "string", False],
        ["dense_union", [["a", "int8", True, None]], [300]], ["run_end_encoded", "int8", "int8"],
    ],
)  # fmt: skip
def test_words_that_name_no_type_are_refused(words):
    with pytest.raises(Corrupt):
        lift(Tag.TABLE, {"type": "DataType", "of": words})


LIES = {
    "more rows than there are": ("int64", {"length": 2**50, "values": [b"\0" * 8]}),
    "too many bytes": ("int64", {"length": 1, "values": [b"\0" * 9]}),
    "a negative length": ("int64", {"length": -1, "values": []}),
    "a short bitmap": ("int64", {"length": 9, "valid": [b"\0"], "values": [b"\0" * 72]}),
    "offsets outside": (
        "string",
        {"length": 1, "offsets": [b"\0\0\0\0\x09\0\0\0"], "values": [b"a"]},
    ),
    "offsets that go back": (
        "string",
        {"length": 2, "offsets": [b"\0\0\0\0\x01\0\0\0\0\0\0\0"], "values": [b"a"]},
    ),
    "text that is not text": (
        "string_view",
        {"length": 1, "offsets": [bytes(8) + b"\x01" + bytes(7)], "values": [b"\xff"]},
    ),
    "an index outside": (
        ["dictionary", "int8", "int8", False],
        {
            "length": 1,
            "indices": {"length": 1, "values": [b"\x07"]},
            "dictionary": {"length": 1, "values": [b"\0"]},
        },
    ),
    "runs that go back": (
        ["run_end_encoded", "int16", "int8"],
        {
            "length": 1,
            "ends": {"length": 2, "values": [b"\x03\0\x01\0"]},
            "values": {"length": 2, "values": [b"\0\0"]},
        },
    ),
    "a code of no child": (
        ["dense_union", [["a", "int8", True, None]], [0]],
        {"length": 1, "codes": [b"\x05"], "children": [{"length": 0, "values": []}]},
    ),
    "children that are missing": (
        ["struct", [["a", "int8", True, None]]],
        {"length": 1, "children": []},
    ),
    "a child that is too short": (
        ["fixed_size_list", ["a", "int8", True, None], 3],
        {"length": 2**40, "items": {"length": 1, "values": [b"\0"]}},
    ),
    "a decimal of more digits": (
        ["decimal128", 1, 0],
        {"length": 1, "values": [b"\xff" * 15 + b"\0"]},
    ),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_data_that_lies_is_refused_before_memory_is_made_for_it(lie):
    kind, values = lie
    with pytest.raises(Corrupt):
        lift(Tag.TABLE, {"type": "Array", "of": kind, "values": values})


@pytest.mark.parametrize("data", [None, [], {}, {"type": "Table"}, {"type": 1}])
def test_data_of_something_else_is_refused(data):
    with pytest.raises(Corrupt):
        lift(Tag.TABLE, data)


def test_a_form_of_a_newer_otolith_is_an_unknown_type():
    with pytest.raises(UnknownType, match="upgrade otolith"):
        lift(Tag.TABLE, {"type": "Tables"})


def test_columns_of_other_lengths_are_refused():
    data = data_of(pa.table({"a": [1, 2]}))
    data["rows"] = 3

    with pytest.raises(Corrupt, match="2 rows instead of 3"):
        lift(Tag.TABLE, data)


def test_values_of_other_libraries_are_left_to_others():
    assert arrow.CODEC.lowering(pa.RecordBatchReader) is None


def test_a_change_in_place_touches_one_chunk():
    numbers = np.arange(100_000.0)
    before = data_of(pa.array(numbers))["values"]["values"]
    numbers[50_000] = -1.0
    after = data_of(pa.array(numbers))["values"]["values"]

    assert [a == b for a, b in zip(before, after, strict=True)].count(False) == 1
    assert len(before) == 800_000 // CHUNK_BYTES + 1
