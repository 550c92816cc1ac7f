"""Generated arrays and frames of every kind, and a strict eye for whether two are the same."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from otolith.codecs import identical
from otolith.testing import strategies as values

# ---------------------------------------------------------------- comparing


def same(left, right):
    """Tell whether two values are the same in type, content and form."""
    if type(left) is not type(right):
        return False
    for kind, rule in _RULES:
        if isinstance(left, kind):
            return bool(rule(left, right))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return identical(left, right)


def _same_dtype(left, right):
    return repr(left) == repr(right) and left == right and same(left.metadata, right.metadata)


def _same_array(left, right):
    if not _same_dtype(left.dtype, right.dtype) or left.shape != right.shape:
        return False
    if left.flags.forc and left.flags.fnc != right.flags.fnc:
        return False
    if left.dtype.names is not None and left.dtype.hasobject:
        return all(same(left[name], right[name]) for name in left.dtype.names)
    if left.dtype.hasobject:
        return same(left.reshape(-1).tolist(), right.reshape(-1).tolist())
    return left.tobytes("A") == right.tobytes("A")


def _same_masked(left, right):
    return (
        same(left.data, right.data)
        and same(np.ma.getmask(left), np.ma.getmask(right))
        and left.hardmask == right.hardmask
        and same(np.asarray(left.fill_value), np.asarray(right.fill_value))
    )


def _same_scalar(left, right):
    if isinstance(left, (str, bytes)):
        return left == right
    if left.dtype.char in "gG":
        return np.array_equal(left, right, equal_nan=True)
    return _same_array(np.asarray(left), np.asarray(right))


def _same_frame(left, right):
    columns = range(left.shape[1])
    return (
        left.shape == right.shape
        and same(left.columns, right.columns)
        and same(left.index, right.index)
        and all(same(left.iloc[:, at].array, right.iloc[:, at].array) for at in columns)
        and _same_rest(left, right)
    )


def _same_series(left, right):
    shared = same(left.name, right.name) and same(left.index, right.index)
    return shared and same(left.array, right.array) and _same_rest(left, right)


def _same_rest(left, right):
    return same(left.attrs, right.attrs) and left.flags == right.flags


def _same_index(left, right):
    if isinstance(left, pd.MultiIndex):
        parts = [list(left.levels), list(left.codes), list(left.names)]
        return same(parts, [list(right.levels), list(right.codes), list(right.names)])
    if isinstance(left, pd.RangeIndex):
        steps = (left.start, left.stop, left.step)
        return steps == (right.start, right.stop, right.step) and same(left.name, right.name)
    freqs = getattr(left, "freq", None), getattr(right, "freq", None)
    return same(left.name, right.name) and freqs[0] == freqs[1] and same(left.array, right.array)


def _same_extension(left, right):
    if left.dtype != right.dtype or repr(left.dtype) != repr(right.dtype):
        return False
    if isinstance(left, pd.Categorical):
        return same([left.codes, left.categories], [right.codes, right.categories])
    if isinstance(left, pd.arrays.SparseArray):
        places = left.sp_index.to_int_index().indices, right.sp_index.to_int_index().indices
        return same(*places) and same(left.sp_values, right.sp_values) and left.kind == right.kind
    if hasattr(left, "asi8"):
        return same(left.asi8, right.asi8)
    return same(list(left), list(right))


_RULES = (
    (np.ma.MaskedArray, _same_masked),
    (np.ndarray, _same_array),
    (np.generic, _same_scalar),
    (np.dtype, _same_dtype),
    (pd.DataFrame, _same_frame),
    (pd.Series, _same_series),
    (pd.Index, _same_index),
    (pd.api.extensions.ExtensionArray, _same_extension),
    (np.random.Generator, lambda *both: same(*(each.bit_generator.state for each in both))),
    (np.random.RandomState, lambda *both: same(*(each.get_state(legacy=False) for each in both))),
)

# ---------------------------------------------------------------- arrays

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
_ODD = st.sampled_from([np.dtype(kind) for kind in ("g", "G", "q", ">M8[25s]", "m8", "V3")])
_ODD_NUMBERS = [np.longdouble(1) / 3, np.clongdouble(1j) / 3, np.longlong(2), np.void(b"abc")]
DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.byte_string_dtypes(max_len=4),
    hnp.unicode_string_dtypes(max_len=4),
    hnp.nested_dtypes(max_leaves=4, max_itemsize=200),
    hnp.array_dtypes(allow_subarrays=True, max_size=3),
).filter(lambda dtype: dtype.subdtype is None)


@st.composite
def buffers(draw):
    """Arrays of any bytes: every NaN there is, and what lies between fields."""
    dtype, shape = draw(DTYPES | _ODD), draw(SHAPES)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = bytearray(draw(st.binary(min_size=size, max_size=size)))
    if dtype.kind == "U" or _has_text(dtype) or not size:
        memory = bytearray(size)
    return draw(placed(np.ndarray(shape, dtype, buffer=memory if size else None)))


def _has_text(dtype):
    fields = [dtype[name] for name in dtype.names or ()]
    return dtype.base.kind == "U" or any(_has_text(each.base) for each in fields)


def placed(array):
    """Say how an array lies in memory: as it is, transposed, or as every other element."""
    ways: list[Any] = [
        lambda a: a,
        np.asfortranarray,
        lambda a: a.T,
        lambda a: a[..., ::2] if a.ndim else a,
    ]
    return st.sampled_from(ways).map(lambda way: way(array))


@st.composite
def objects(draw):
    parts = draw(st.lists(values.rich_values(max_leaves=3), max_size=6))
    return np.fromiter(parts, object, len(parts))


@st.composite
def texts(draw):
    few = draw(st.lists(st.none() | st.just(float("nan")) | st.text(), min_size=1, max_size=8))
    return np.fromiter(few * 80, object, len(few) * 80)


@st.composite
def masked(draw):
    array = draw(hnp.arrays(hnp.scalar_dtypes(), SHAPES))
    mask = draw(st.none() | hnp.arrays(bool, st.just(array.shape)))
    return np.ma.MaskedArray(array, mask=np.ma.nomask if mask is None else mask)


def arrays():
    """Arrays of every kind."""
    plain = hnp.arrays(DTYPES, SHAPES).flatmap(placed)
    return st.one_of(plain, buffers(), objects(), texts(), masked())


def scalars():
    """Numpy's scalars, types and random generators."""
    simple = hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes()
    numbers = simple.flatmap(lambda dtype: hnp.arrays(dtype, ())).map(lambda array: array[()])
    seeds = st.integers(0, 2**70)
    bits = st.sampled_from(["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
    generators = st.builds(
        lambda name, seed: np.random.Generator(getattr(np.random, name)(seed)), bits, seeds
    )
    numbers |= st.sampled_from(_ODD_NUMBERS)
    return st.one_of(numbers, DTYPES, generators, st.integers(0, 99).map(np.random.RandomState))


# ---------------------------------------------------------------- frames

_ZONES = st.sampled_from([None, ZoneInfo("Europe/Berlin"), UTC, timezone(timedelta(hours=2))])
_UNITS = st.sampled_from(["s", "ms", "us", "ns"])
_WORDS = st.text(max_size=5)


def _list(elements, size):
    return st.lists(elements, min_size=size, max_size=size)


def _maybe(elements):
    return st.none() | elements


def _numpy_columns(size):
    kinds = ["f8", "f4", "f2", "i8", "u1", "i2", "?", "c16"]
    return st.sampled_from(kinds).flatmap(lambda kind: hnp.arrays(kind, size))


def _object_columns(size):
    odd = st.one_of(
        values.scalars(), st.sampled_from([pd.NA, pd.NaT, np.float32(1), pd.Timestamp(0)])
    )
    return _list(odd, size).map(lambda parts: np.fromiter(parts, object, len(parts)))


def _nullable_columns(size):
    small = st.builds(
        lambda parts, kind: pd.array(parts, dtype=kind),
        _list(_maybe(st.integers(0, 100)), size),
        st.sampled_from(["Int64", "UInt8", "Int16", "Float64", "Float32"]),
    )
    return small | _list(_maybe(st.booleans()), size).map(lambda p: pd.array(p, dtype="boolean"))


_STRINGS = ["string[python]", "string[pyarrow]"]
with suppress(TypeError):  # pandas 2.2 knows no other
    _STRINGS += [pd.StringDtype(storage, na_value=np.nan) for storage in ("python", "pyarrow")]


def _string_columns(size):
    parts = _list(_maybe(_WORDS), size)
    return st.builds(
        lambda parts, kind: pd.array(parts, dtype=kind), parts, st.sampled_from(_STRINGS)
    )


def _time_columns(size):
    ticks = hnp.arrays("i8", size, elements=st.integers(-(10**9), 10**9))
    moments = st.builds(_zoned, ticks, _UNITS, _ZONES)
    spans = st.builds(lambda n, unit: pd.array(n.view(f"m8[{unit}]")), ticks, _UNITS)
    freqs = st.sampled_from(["M", "D", "Q-FEB", "h", "W-TUE"])
    periods = st.builds(
        lambda n, f: pd.arrays.PeriodArray(n, dtype=pd.PeriodDtype(f)),
        hnp.arrays("i8", size, elements=st.integers(-100, 1000)),
        freqs,
    )
    return moments | spans | periods


def _zoned(ticks, unit, zone):
    naive = pd.DatetimeIndex(ticks.view(f"M8[{unit}]"))
    return (naive if zone is None else naive.tz_localize("UTC").tz_convert(zone)).array


def _other_columns(size):
    categories = st.builds(
        lambda parts, ordered: pd.Categorical(parts, ordered=ordered),
        _list(_maybe(st.sampled_from("abc")), size),
        st.booleans(),
    )
    sparse = st.builds(
        lambda parts, kind: pd.arrays.SparseArray(parts, kind=kind),
        hnp.arrays("f8", size, elements=st.sampled_from([0.0, 1.5, float("nan")])),
        st.sampled_from(["integer", "block"]),
    )
    edges = hnp.arrays("i8", size, elements=st.integers(0, 100))
    intervals = st.builds(
        lambda left, width, closed: pd.arrays.IntervalArray.from_arrays(left, left + width, closed),
        edges,
        edges,
        st.sampled_from(["left", "right", "both", "neither"]),
    )
    arrow = _list(_maybe(st.integers(0, 9)), size).map(
        lambda p: pd.array(p, dtype="int64[pyarrow]")
    )
    return st.one_of(categories, sparse, intervals, arrow)


def columns(size):
    """Arrays of a frame, of every type."""
    return st.one_of(
        _numpy_columns(size), _object_columns(size), _nullable_columns(size),
        _string_columns(size), _time_columns(size), _other_columns(size),
    )  # fmt: skip


def names():
    return st.one_of(st.none(), _WORDS, st.integers(0, 9), st.tuples(_WORDS, st.integers(0, 9)))


@st.composite
def indexes(draw, size):
    """Labels of every kind."""
    kind = draw(st.sampled_from(["range", "array", "multi", "regular"]))
    name = draw(names())
    if kind == "range":
        step = draw(st.sampled_from([-2, 1, 3]))
        return pd.RangeIndex(5, 5 + size * step, step, name=name)
    if kind == "multi" and size:
        parts = [draw(_list(_WORDS, size)), draw(_list(st.integers(0, 3), size))]
        return pd.MultiIndex.from_arrays(parts, names=[name, draw(names())])
    if kind == "regular":
        freq = draw(st.sampled_from(["D", "2h", "W-TUE", "MS", "B"]))
        zone = draw(_ZONES)
        return pd.date_range("2026-01-05", periods=size, freq=freq, tz=zone, name=name)
    array = draw(columns(size).filter(_can_label))
    return pd.Index(array, dtype=array.dtype, name=name, tupleize_cols=False)


def _can_label(array):
    sparse = isinstance(array, pd.arrays.SparseArray)
    hashable = array.dtype != object or all(each.__hash__ for each in array)
    return not sparse and array.dtype != np.float16 and hashable


@st.composite
def frames(draw):
    """Frames of every kind."""
    rows, width = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    index, arrays = draw(indexes(rows)), [draw(columns(rows)) for _ in range(width)]
    series = {
        at: pd.Series(array, index=index, dtype=array.dtype) for at, array in enumerate(arrays)
    }
    frame = pd.DataFrame(series, index=index)
    frame.columns = draw(indexes(width))
    frame.attrs = draw(st.dictionaries(_WORDS, values.plain_values(max_leaves=2), max_size=2))
    return frame


@st.composite
def series(draw):
    rows = draw(st.integers(0, 5))
    array = draw(columns(rows))
    index = draw(indexes(rows))
    return pd.Series(array, index=index, dtype=array.dtype, name=draw(names()))


def pandas_values():
    """Frames, series, labels and arrays of pandas."""
    sizes = st.integers(0, 5)
    extension = sizes.flatmap(columns).filter(lambda array: not isinstance(array, np.ndarray))
    return st.one_of(frames(), series(), sizes.flatmap(indexes), extension)
