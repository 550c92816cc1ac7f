"""Whatever Arrow can hold is kept by what it shows, and comes back."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import arrow
from otolith.errors import Corrupt, UnknownType
from otolith.types import Tag
from tests.unit.codecs.storing import again, damaged, data_of, encoded, lift

LEAVES = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.string_view(): st.text(max_size=20),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    pa.date32(): st.dates(),
    pa.duration("s"): st.integers(-(2**40), 2**40).map(lambda n: dt.timedelta(seconds=n)),
    pa.dictionary(pa.int16(), pa.string()): st.text("abc", max_size=1),
}


@st.composite
def typed(draw, depth=2):
    """A type and what makes values of it."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(list(LEAVES.items())))
    kind, values = draw(typed(depth=depth - 1))
    some = st.none() | values
    size = draw(st.integers(0, 3))
    return draw(
        st.sampled_from(
            [
                (pa.list_(kind), st.lists(some, max_size=3)),
                (pa.large_list(kind), st.lists(some, max_size=3)),
                (pa.list_view(kind), st.lists(some, max_size=3)),
                (pa.list_(kind, size), st.lists(some, min_size=size, max_size=size)),
                (
                    pa.struct([("a", kind), ("b", pa.int8())]),
                    st.fixed_dictionaries({"a": some, "b": st.none() | st.integers(0, 9)}),
                ),
                (
                    pa.map_(pa.string(), kind),
                    st.dictionaries(st.text(max_size=2), some, max_size=3).map(
                        lambda pairs: list(pairs.items())
                    ),
                ),
            ]
        )
    )


@st.composite
def arrays(draw, min_size=0):
    """Arrays of any type, some of them seen through a slice."""
    kind, values = draw(typed())
    array = pa.array(draw(st.lists(st.none() | values, min_size=min_size, max_size=12)), kind)
    start = draw(st.integers(0, max(len(array) - min_size, 0)))
    return array.slice(start, draw(st.integers(min_size, max(len(array) - start, min_size))))


@st.composite
def hidden(draw, array):
    """The same array with nulls where the mask says so, and what was there still there."""
    mask = draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array)))
    fields = [pa.field("a", array.type)]
    return pa.StructArray.from_arrays([array], fields=fields, mask=pa.array(mask, pa.bool_()))


def _shown(array):
    return repr(array.to_pylist())


@given(arrays())
def test_arrays_come_back(array):
    back = again(array)

    assert back.type == array.type
    assert _shown(back) == _shown(array)
    assert back.null_count == array.null_count


@given(arrays())
def test_equal_arrays_are_kept_alike_whatever_their_past(array):
    made_anew = pa.array(array.to_pylist(maps_as_pydicts=None), array.type)
    if not _has_dictionary(array.type):
        assert encoded(made_anew) == encoded(array)
    assert encoded(again(array)) == encoded(array)


def _has_dictionary(kind):
    # A slice has the dictionary of the whole, and the dictionary is part of the value.
    return "dictionary" in str(kind)


@given(arrays(), st.data())
def test_what_a_null_struct_hides_is_no_part_of_it(array, draw):
    struct = draw.draw(hidden(array))

    if not _has_dictionary(array.type):
        assert encoded(pa.array(struct.to_pylist(), struct.type)) == encoded(struct)
    assert encoded(again(struct)) == encoded(struct)


@given(arrays(), st.lists(st.integers(0, 12), max_size=4))
def test_where_a_column_is_cut_into_chunks_does_not_matter(array, cuts):
    edges = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    pieces = [array.slice(a, b - a) for a, b in pairwise(edges)]

    assert encoded(pa.chunked_array(pieces)) == encoded(pa.chunked_array([array]))


@given(st.lists(arrays(min_size=3).map(lambda array: array.slice(0, 3)), max_size=4))
def test_tables_come_back_and_so_do_their_columns_alone(columns):
    table = pa.table(columns, names=[f"c{at}" for at in range(len(columns))])

    back = again(table)

    assert back.schema == table.schema
    assert [_shown(each) for each in back.columns] == [_shown(each) for each in table.columns]
    head = data_of(table)
    for at, value in enumerate(head.pop("columns")):
        assert _shown(arrow.column(head, at, value)) == _shown(table.column(at))


@given(st.lists(st.none() | st.integers(0, 2), max_size=20), st.integers(0, 20))
def test_runs_are_kept_by_what_they_show(values, start):
    runs = pc.run_end_encode(pa.array(values, pa.int8()))
    part = runs.slice(min(start, len(values)))

    assert _shown(again(part)) == _shown(part)
    assert encoded(pc.run_end_encode(pc.run_end_decode(part))) == encoded(part)


@given(arrays(), st.data())
def test_damaged_data_is_refused_or_is_a_sound_array(array, draw):
    data = draw.draw(damaged(data_of(array)))
    try:
        back = lift(Tag.TABLE, data)
    except (Corrupt, UnknownType):
        return
    if isinstance(back, pa.Array | pa.ChunkedArray) and len(back) < 10_000:
        back.validate(full=True)
        str(back)


@st.composite
def series(draw):
    """Series of polars: what it makes of an Arrow array."""
    # As they come back: polars trips over slices, and over what lies under a null.
    array = again(draw(arrays().filter(_is_known_to_polars)))
    return pl.Series(draw(st.text(max_size=5)), array).slice(draw(st.integers(0, 3)))


def _is_known_to_polars(array):
    return "list_view" not in str(array.type) and ">[0]" not in str(array.type)


@given(series())
def test_series_of_polars_come_back(value):
    back = again(value)

    assert (back.name, back.dtype) == (value.name, value.dtype)
    assert repr(back.to_list()) == repr(value.to_list())
    assert encoded(back) == encoded(value)


@given(series(), st.data())
def test_damaged_data_is_refused_or_is_a_sound_series(value, draw):
    data = draw.draw(damaged(data_of(value)))
    try:
        back = lift(Tag.POLARS, data)
    except (Corrupt, UnknownType):
        return
    if isinstance(back, pl.Series) and len(back) < 10_000:
        back.to_list()
