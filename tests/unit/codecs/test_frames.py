"""Frames are kept column by column and come back in every respect; hostile ones are refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import otolith
from otolith.codecs import Codecs
from otolith.codecs.pandas import CODEC, column
from otolith.errors import Corrupt, UnknownType
from otolith.testing import walk_down, walk_up
from otolith.types import Tag
from tests.unit.codecs import data

CODECS = Codecs()


def returned(value):
    return walk_up(walk_down(value, CODECS), CODECS)


def form_of(value):
    return CODECS.lower(value).data


# ---------------------------------------------------------------- columns


def test_columns_of_one_block_are_cut_apart_without_copying():
    frame = pd.DataFrame({name: np.ones(5) for name in "abc"}).copy()

    arrays = form_of(frame)["columns"]

    assert all(type(array) is np.ndarray and array.flags.c_contiguous for array in arrays)
    assert all(np.shares_memory(array, frame[name].array) for array, name in zip(arrays, "abc"))  # noqa: B905


def test_one_changed_column_of_a_frame_is_what_is_stored(tmp_path):
    frame = pd.DataFrame({f"c{n}": np.random.default_rng(n).random(20_000) for n in range(25)})
    column_bytes = frame["c7"].to_numpy().nbytes

    first = _kept(tmp_path / "state.db", frame)
    second = _kept(tmp_path / "state.db", frame.assign(c7=frame["c7"] * 1.1))

    assert first > 20 * column_bytes
    assert column_bytes / 2 < second - first < 1.5 * column_bytes


def _kept(path: Path, frame: pd.DataFrame) -> int:
    """Commit a frame and return how long the file then is, all else closed and put away."""
    with otolith.open(path) as repo:
        session = repo.session("a")
        session["frame"] = frame
        session.commit()
    return sum(each.stat().st_size for each in path.parent.iterdir())


def test_a_frame_comes_back_through_a_store():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["p", "q"])
    repo = otolith.open("memory:")
    session = repo.session("a")
    session["df"] = frame
    session.commit()

    assert data.same(repo.session("a")["df"], frame)


def test_a_column_is_made_without_the_others():
    frame = pd.DataFrame({("a", 1): [1.5, 2.5], ("b", 2): ["x", "y"]}, index=[7, 8])
    frame.attrs = {"unit": "m"}
    head = form_of(frame)
    columns = head.pop("columns")

    for position, array in enumerate(columns):
        assert data.same(column(head, position, returned(array)), frame.iloc[:, position])


def test_a_column_that_does_not_fit_its_frame_is_corrupt():
    head = form_of(pd.DataFrame({"a": [1, 2]}))
    columns = head.pop("columns")

    with pytest.raises(Corrupt):
        column(head, 1, columns[0])
    with pytest.raises(Corrupt):
        column(head, 0, [1, 2])


def test_a_frame_that_came_back_can_be_changed_and_extended_in_peace():
    for width in (3, 150):
        frame = returned(pd.DataFrame({n: np.ones(4) for n in range(width)}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame["new"] = 1
            frame.iloc[0, 0] = 5.0

        assert frame.iloc[0, 0] == 5


def test_a_subclass_of_a_frame_is_left_to_others():
    class Own(pd.DataFrame):  # type: ignore[misc]
        pass

    assert CODEC.lowering(Own) is None


# ---------------------------------------------------------------- exactness


def test_what_is_missing_is_told_apart():
    missing = [None, float("nan"), pd.NA, pd.NaT, np.float64("nan")]
    series = pd.Series(missing, dtype=object)

    assert list(map(type, returned(series))) == list(map(type, missing))


def test_labels_may_be_of_any_kind_and_occur_twice():
    frame = pd.DataFrame([[1, 2, 3, 4, 5]], columns=["a", "a", 1, (2, "b"), None])

    assert data.same(returned(frame), frame)


def test_names_attributes_and_flags_are_kept():
    frame = pd.DataFrame({"a": [1]}, index=pd.Index([5], name=("i", 1)))
    frame.columns.name = "columns"
    frame.attrs = {"source": {"rows": [1, 2]}}
    frame = frame.set_flags(allows_duplicate_labels=False)

    again = returned(frame)

    assert data.same(again, frame)
    assert not again.flags.allows_duplicate_labels


def test_objects_are_not_taken_for_something_better():
    values = [pd.Timestamp(0), pd.Timestamp(1)]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "s": np.array(["x", "y"], object)})
    frame = frame.astype(object)

    assert list(returned(frame).dtypes) == [object, object]


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(2, 10, 3, name="r"),
        pd.date_range("2026-01-01", periods=4, freq="2D", tz=ZoneInfo("Europe/Berlin")),
        pd.date_range("2026-01-05", periods=4, freq="W-MON")[:0],
        pd.bdate_range("2026", periods=9, freq="C", holidays=["2026-01-02"]),
        pd.timedelta_range(0, periods=3, freq="3h"),
        pd.period_range("2026", periods=3, freq="Q-FEB"),
        pd.interval_range(pd.Timestamp("2026"), periods=3, closed="both"),
        pd.CategoricalIndex(["a", "b", "a"], ordered=True, name="c"),
        pd.MultiIndex.from_product([[1, 2], ["a", None]], names=["x", None]),
        pd.Index([(1, 2), (3, 4)], tupleize_cols=False),
        pd.Index([], dtype=object),
    ],
    ids=lambda index: type(index).__name__,
)
def test_labels_come_back_as_they_were(index):
    assert data.same(returned(index), index)


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp("2026-10-25 00:30", tz="UTC").tz_convert(ZoneInfo("Europe/Berlin")),
        pd.Timestamp("2026-10-25 01:30", tz="UTC").tz_convert(ZoneInfo("Europe/Berlin")),
        pd.Timestamp("1500-01-01").as_unit("s"),
        pd.Timestamp("2026").replace(fold=1),
        pd.Timedelta(-1, "ns"),
        pd.Period("2026-03", "M"),
        pd.Interval(pd.Timestamp(0), pd.Timestamp(1), "left"),
        pd.CategoricalDtype(),
        pd.CategoricalDtype(["b", "a"], ordered=True),
        pd.DatetimeTZDtype("s", ZoneInfo("Asia/Tokyo")),
        pd.PeriodDtype("W-TUE"),
        pd.IntervalDtype("int64", "left"),
        pd.SparseDtype("f4", 1.5),
        pd.StringDtype("python"),
        pd.Int8Dtype(),
        pd.DateOffset(months=1, days=2),
        pd.offsets.Week(weekday=3),
        pd.offsets.BusinessHour(start="10:00", end="12:00"),
    ],
    ids=str,
)
def test_a_scalar_or_type_comes_back_as_it_was(value):
    again = returned(value)

    assert type(again) is type(value)
    assert again == value
    assert repr(again) == repr(value)
    assert getattr(again, "unit", None) == getattr(value, "unit", None)
    assert getattr(again, "fold", None) == getattr(value, "fold", None)


@pytest.mark.parametrize("value", [pd.NaT, pd.NA], ids=str)
def test_there_is_one_of_it(value):
    assert returned(value) is value


def test_the_types_of_a_frame_can_be_kept_too():
    frame = pd.DataFrame({"a": [1], "b": pd.Categorical(["x"]), "c": pd.array([1], dtype="Int8")})

    assert list(returned(frame.dtypes)) == list(frame.dtypes)


def test_what_is_under_a_mask_is_no_part_of_the_value():
    one = pd.arrays.IntegerArray(np.array([1, 5]), np.array([False, True]))
    other = pd.arrays.IntegerArray(np.array([1, 9]), np.array([False, True]))

    assert walk_down(one, CODECS) == walk_down(other, CODECS)


@pytest.mark.parametrize("dtype", ["string[python]", "string[pyarrow]", "str"])
def test_strings_are_stored_alike_however_they_were_put_together(dtype):
    words = ["a", None, "ä", ""] * 600
    whole = pd.Series(words, dtype=dtype)
    parts = pd.concat([whole[:700], whole[700:]])
    slice = pd.Series(["x", *words, "y"], dtype=dtype)[1:-1]

    assert walk_down(parts.array, CODECS) == walk_down(whole.array, CODECS)
    assert walk_down(slice.array, CODECS) == walk_down(whole.array, CODECS)
    assert data.same(returned(whole), whole)


def test_strings_of_arrow_are_handed_over_without_copying():
    pytest.importorskip("pyarrow")
    array = pd.array(["ab", "c"] * 2000, dtype="string[pyarrow]")
    buffer = array.__arrow_array__().chunk(0).buffers()[2]

    group = form_of(array)["groups"][0]

    assert np.frombuffer(group.view, np.uint8).ctypes.data == buffer.address


# ---------------------------------------------------------------- hostile data

_FRAME = form_of(pd.DataFrame({"a": [1, 2], "b": [1.5, 2.5]}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": [np.zeros(2)]},
        {"columns": [np.zeros(2), np.zeros(3)]},
        {"columns": [np.zeros(2), np.zeros((2, 2))]},
        {"columns": [np.zeros(2), np.array(["a", "b"])]},
        {"columns": [np.zeros(2), np.zeros(2, "M8[D]")]},
        {"columns": [np.zeros(2), [1, 2]]},
        {"labels": ["a", "b"]},
        {"labels": pd.Index(["a"])},
        {"index": pd.RangeIndex(3)},
        {"unique": True, "labels": pd.Index(["a", "a"])},
        {"attrs": None},
        {"extra": 1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_frame_that_does_not_fit_is_corrupt(wrong):
    with pytest.raises(Corrupt):
        CODEC.lift(Tag.FRAME, {**_FRAME, **wrong})


@pytest.mark.parametrize(
    "form",
    [
        {"type": "Categorical", "codes": np.array([5], "i1"), "categories": pd.Index(["a"]),
         "ordered": False},
        {"type": "MultiIndex", "levels": [pd.Index(["a"])], "codes": [np.array([1])],
         "sorted": None},
        {"type": "MultiIndex", "levels": [], "codes": [], "sorted": None},
        {"type": "SparseArray", "values": np.ones(1), "positions": np.array([9], "i4"),
         "length": 5, "fill": 0.0, "kind": "integer"},
        {"type": "IntegerArray", "data": np.ones(2, int), "mask": np.ones(3, bool)},
        {"type": "DatetimeArray", "data": np.zeros(2, "M8[D]"), "zone": None},
        {"type": "DatetimeArray", "data": np.zeros(2, "M8[2s]"), "zone": None},
        {"type": "DatetimeArray", "data": np.zeros(2, "M8[ns]"), "zone": [1]},
        {"type": "DatetimeIndex", "array": pd.array(np.zeros(2, "M8[ns]")), "name": None,
         "freq": pd.offsets.Day()},
        {"type": "IntervalArray", "left": pd.Index([2]), "right": pd.Index([1]), "closed": "left"},
        {"type": "RangeIndex", "range": [0, 5, 0], "name": None},
        {"type": "Index", "array": np.zeros(2), "name": []},
        {"type": "Timestamp", "value": -(2**63), "unit": "ns", "zone": None, "fold": 0},
        {"type": "Timestamp", "value": 0, "unit": "D", "zone": None, "fold": 0},
        {"type": "offset", "name": "BaseOffset", "n": 1, "normalize": False, "options": {}},
        {"type": "offset", "name": "Week", "n": 1, "normalize": False, "options": {"weekday": 9}},
        {"type": "nullable", "name": "Int63"},
        {"type": "ArrowDtype", "of": "int64"},
        {"type": "ArrowExtensionArray", "data": [1]},
    ],
    ids=lambda form: form["type"],
)  # fmt: skip
def test_a_form_that_does_not_fit_is_corrupt(form):
    with pytest.raises(Corrupt):
        CODEC.lift(Tag.FRAME, form)


def test_a_zone_that_this_machine_does_not_know_is_said_to_be_unknown():
    form = {"type": "Timestamp", "value": 0, "unit": "s", "zone": "Moon/Tycho", "fold": 0}

    with pytest.raises(UnknownType, match="Moon/Tycho"):
        CODEC.lift(Tag.FRAME, form)
