"""Frames and series of polars come back with their dtypes, names and values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

import otolith
from otolith.codecs import polars as codec
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.types import Raw, Tag
from tests.unit.codecs.storing import again, data_of, encoded, lift, lowered

NOON = 1_600_000_000_000
SUITS = pl.Enum(["clubs", "spades"])
NAMED = pl.Categorical(pl.Categories("fruit", "shop", pl.UInt8))

VALUES: list[Any] = [
    ([1, None, -3], pl.Int8),
    ([1, None, 2**64 - 1], pl.UInt64),
    ([2**126, None, -5], pl.Int128),
    ([2**127, None], pl.UInt128),
    ([1.5, None, float("nan"), -0.0], pl.Float64),
    ([1.5, None], pl.Float16),
    ([True, None, False], pl.Boolean),
    (["a", None, "", "ü" * 40], pl.String),
    ([b"a", None, b"\xff"], pl.Binary),
    ([None, None], pl.Null),
    ([dt.date(2020, 1, 1), None], pl.Date),
    ([dt.time(1, 2, 3), None], pl.Time),
    ([NOON, None], pl.Datetime("ms")),
    ([NOON, None], pl.Datetime("ns", "Europe/Berlin")),
    ([dt.timedelta(1), None], pl.Duration("us")),
    ([Decimal("1.50"), None], pl.Decimal(10, 2)),
    (["spades", None, "clubs"], SUITS),
    (["b", None, "a", "b"], pl.Categorical()),
    (["b", None, "a", "b"], NAMED),
    ([[1], None, []], pl.List(pl.Int8)),
    ([["clubs"], None, []], pl.List(SUITS)),
    ([["a", "b"], None], pl.Array(pl.Categorical(), 2)),
    ([[[1, 2], [3, 4]], None], pl.Array(pl.Int8, (2, 2))),
    ([{"x": 1, "y": ["a"]}, None], pl.Struct({"x": pl.Int128, "y": pl.List(NAMED)})),
    ([[], None], pl.Array(pl.Int8, 0)),
    ([{}, None], pl.Struct([])),
    ([None], pl.List(pl.Null)),
    ([], pl.Int8),
]
SERIES = [pl.Series("näme", values, dtype=dtype) for values, dtype in VALUES]
every_series = pytest.mark.parametrize("series", SERIES, ids=lambda each: str(each.dtype)[:40])


def assert_same(back, series):
    assert (back.name, back.dtype) == (series.name, series.dtype)
    assert back.equals(series)


@every_series
def test_series_come_back_as_they_were(series):
    for part in (series, series.slice(1), series.slice(0, 1), series.clear()):
        assert_same(again(part), part)


@every_series
def test_chunks_and_slices_do_not_matter(series):
    chunks = pl.concat([series, series], rechunk=False)

    assert encoded(chunks) == encoded(chunks.rechunk())
    assert encoded(chunks.slice(len(series))) == encoded(series) == encoded(again(series))


@every_series
def test_a_frame_comes_back_through_a_repo(series):
    frame = pl.DataFrame({"first": series, "second": series})
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["f"] = frame
    session.commit("kept")

    back = repo.session("a")["f"]

    assert back.schema == frame.schema
    assert back.equals(frame)


@every_series
def test_dtypes_come_back_as_they_were(series):
    assert again(series.dtype) == series.dtype
    assert type(again(series.dtype)) is type(series.dtype)


def test_categories_are_kept_as_they_come_up_in_this_column():
    dtype = pl.Categorical(pl.Categories("letters", "", pl.UInt32))
    first = encoded(pl.Series(["b", "a"], dtype=dtype))
    pl.Series(["z", "a", "b"], dtype=dtype)

    assert encoded(pl.Series(["z", "b", "a"], dtype=dtype).slice(1)) == first


def test_an_order_that_was_once_a_choice_is_still_read():
    data = {"type": "DataType", "dtype": ["Categorical", "lexical"]}

    assert type(lift(Tag.POLARS, data)) is pl.Categorical


def test_a_map_comes_back_as_it_was():
    if not hasattr(pl, "Map"):
        pytest.skip("this polars has no maps")
    series = pl.Series([{"k": 1}, None], dtype=pl.Map(pl.String, pl.Int128))

    assert_same(again(series), series)


def test_any_text_is_a_name():
    assert_same(again(pl.Series("a\0b", [1])), pl.Series("a\0b", [1]))


def test_a_field_that_arrow_cannot_name_is_refused():
    with pytest.raises(BadValue, match="rename the fields"):
        encoded(pl.Series([{"a\0b": 1}]))


def test_numbers_are_handed_over_without_a_copy():
    series = pl.Series(np.arange(1000.0))

    values = lowered(series)["values"]["values"]

    assert type(values) is Raw
    assert np.shares_memory(np.frombuffer(values.view), series.to_numpy())


def test_one_column_is_made_from_its_own_part():
    frame = pl.DataFrame({"a": [1, 2], "b": ["x", None]})
    data = data_of(frame)
    values = data.pop("columns")

    assert_same(codec.column(data, 1, values[1]), frame["b"])


def test_a_column_that_is_not_there_is_refused():
    data = data_of(pl.DataFrame({"a": [1]}))
    values = data.pop("columns")

    with pytest.raises(Corrupt):
        codec.column(data, 1, values[0])


def test_frames_without_columns_come_back():
    assert again(pl.DataFrame()).shape == (0, 0)
    if pl.DataFrame({"a": [1]}).drop("a").height:
        assert again(pl.DataFrame({"a": [1]}).drop("a")).height == 1


@pytest.mark.parametrize("plan", [pl.LazyFrame({"a": [1]}), pl.col("a")])
def test_plans_are_refused_with_a_way_out(plan):
    with pytest.raises(BadValue, match=r"a plan, not data \(collect\(\)"):
        encoded(plan)


def test_columns_of_objects_are_refused():
    with pytest.raises(BadValue, match="Object"):
        encoded(pl.DataFrame({"a": pl.Series([object()], dtype=pl.Object)}))


@pytest.mark.parametrize(
    "dtype",
    [
        None, 1, [], ["Datetime", "weeks", None], ["Datetime", "us", "Nowhere/Else"],
        ["Decimal", 500, 2], ["Array", "Int8", -1], ["Array", "Int8", 2**40], ["Struct", [1]],
        ["Enum", [1]], ["Enum", ["a", "a"]], ["List"], ["Categorical", 1, 2, 3],
    ],
)  # fmt: skip
def test_words_that_name_no_dtype_are_refused(dtype):
    data = {"type": "Series", "name": "a", "dtype": dtype, "values": {"length": 0}}
    with pytest.raises(Corrupt):
        lift(Tag.POLARS, data)


@pytest.mark.parametrize("dtype", ["Int4096", ["Tree", "Int8"]])
def test_a_dtype_of_tomorrow_is_unknown_today(dtype):
    data = {"type": "DataType", "dtype": dtype}
    with pytest.raises((UnknownType, Corrupt)):
        lift(Tag.POLARS, data)


def test_what_is_not_of_an_enumeration_is_refused():
    data = data_of(SERIES[16])
    data["dtype"] = ["Enum", ["hearts"]]

    with pytest.raises(Corrupt):
        lift(Tag.POLARS, data)


@pytest.mark.parametrize("rows", [-1, 1, 3, 2**62])
def test_columns_of_other_lengths_are_refused(rows):
    data = data_of(pl.DataFrame({"a": [1, 2]}))
    data["rows"] = rows

    with pytest.raises(Corrupt):
        lift(Tag.POLARS, data)


@pytest.mark.parametrize("data", [None, [], {}, {"type": "DataFrame"}])
def test_data_of_something_else_is_refused(data):
    with pytest.raises(Corrupt):
        lift(Tag.POLARS, data)


def test_a_form_of_a_newer_otolith_is_an_unknown_type():
    with pytest.raises(UnknownType, match="upgrade otolith"):
        lift(Tag.POLARS, {"type": "Frame"})


def test_two_columns_of_one_name_are_refused():
    data = data_of(pl.DataFrame({"a": [1], "b": [2]}))
    data["schema"][1][0] = "a"

    with pytest.raises(Corrupt):
        lift(Tag.POLARS, data)
