"""Arrays are handed over without copying and come back bit by bit; hostile ones are refused."""

from __future__ import annotations

import struct
from datetime import date
from typing import Any

import numpy as np
import pytest

import otolith
from otolith.codecs import Codecs
from otolith.codecs.buffers import join_chunks
from otolith.codecs.numpy import CODEC, lift_array, lower_array
from otolith.errors import BadValue, Corrupt, UnknownType
from otolith.testing import walk_down, walk_up
from otolith.types import CHUNK_BYTES, Raw, Tag
from tests.unit.codecs import data

CODECS = Codecs()


def returned(value) -> Any:
    return walk_up(walk_down(value, CODECS), CODECS)


def stored(array):
    """Return the form of an array as a store gives it to be lifted."""
    form = lower_array(array)
    form["data"] = [bytes(chunk) for chunk in form["data"].chunks()]
    return form


def address(view):
    return np.frombuffer(view, np.uint8).ctypes.data


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10.0),
        np.arange(12).reshape(3, 4),
        np.asfortranarray(np.ones((3, 4))),
        np.ones((2, 3))[1],
        np.array(["2026"], "M8[s]"),
        np.zeros(3, [("a", "i1"), ("b", "f8")]),
    ],
    ids=["1-D", "C", "F", "row", "datetime", "structured"],
)
def test_contiguous_memory_is_handed_over_without_copying(array):
    raw = lower_array(array)["data"]

    assert type(raw) is Raw
    assert address(raw.view) == array.ctypes.data


def test_an_array_owns_its_memory_and_can_be_written_to():
    array = returned(np.arange(5.0))
    array.resize(9)
    array += 1

    assert array.flags.owndata
    assert array.tolist() == [1, 2, 3, 4, 5, 1, 1, 1, 1]


def test_a_read_only_array_comes_back_writable():
    array = np.arange(3)
    array.flags.writeable = False

    assert returned(array).flags.writeable


def test_the_bits_of_a_nan_and_the_sign_of_zero_are_kept():
    odd = struct.pack("<QQ", 0x7FF8_0000_0000_0ABC, 0x8000_0000_0000_0000)

    assert returned(np.frombuffer(odd, "<f8")).tobytes() == odd


def test_a_strided_array_becomes_contiguous():
    array = np.arange(20).reshape(4, 5)[:, ::2]

    assert returned(array).flags.c_contiguous
    assert data.same(returned(array), array)


def test_order_is_kept():
    assert returned(np.asfortranarray(np.ones((3, 4)))).flags.fnc
    assert not returned(np.ones((3, 4))).flags.fnc


def test_an_array_longer_than_a_chunk_changes_in_the_chunk_that_changed():
    array = np.zeros(3 * CHUNK_BYTES, np.uint8)
    before = stored(array)["data"]
    array[CHUNK_BYTES + 7] = 1
    after = stored(array)["data"]

    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.0),
        np.float32("nan"),
        np.longlong(3),
        np.datetime64("2026-01-01T00:00", ("s", 25)),
        np.datetime64("NaT"),
        np.str_("a\0"),
        np.bytes_(b"a\0"),
        np.array([(1, [2])], [("a", "i4"), ("o", "O")])[0],
        np.dtype({"names": ["a"], "formats": ["<f8"], "offsets": [4], "itemsize": 20}),
        np.dtype([(("title", "a"), "i1"), ("b", "f8")], align=True),
        np.dtype("f8", metadata={"unit": ["m"]}),
        np.dtype((">i2", (2, 3))),
        np.array(5),
        np.zeros((0, 3)),
        np.ndarray((3,), "S0"),
        np.array([None, 1, [2], np.arange(2), float("nan"), "a"], object),
        np.array([(1, [2], "x")], [("a", "i4"), ("o", "O"), ("s", "U3")]),
        np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(4).reshape(2, 2).view(np.matrix),
        np.ma.array([1, 2, 3], mask=[False, True, False], fill_value=7, hard_mask=True),
        np.ma.array([(1, 2)], mask=[(False, True)], dtype=[("a", "i4"), ("b", "i4")]),
        np.random.default_rng(5),
        np.random.RandomState(5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_comes_back_as_it_was(value):
    assert data.same(returned(value), value)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no strings")
@pytest.mark.parametrize("na", [{}, {"na_object": None}, {"na_object": float("nan")}])
@pytest.mark.parametrize("length", [3, 100])
def test_strings_of_numpy_come_back(na, length):
    array = np.array(["a", *na.values(), "ä"] * length, np.dtypes.StringDType(**na))

    assert data.same(returned(array), array)


def test_there_is_one_masked_constant():
    assert returned(np.ma.masked) is np.ma.masked


def test_a_generator_goes_on_where_it_stood():
    generator = np.random.default_rng(3)
    generator.normal(size=7)
    again = returned(generator)

    assert again.normal() == generator.normal()
    assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_a_long_column_of_strings_is_a_few_buffers_and_not_many_values():
    words = np.array(["word", None, float("nan"), "ä", "\ud800"] * 8000, object)
    form = lower_array(words)

    assert len(form["text"]["groups"]) == 5
    assert data.same(returned(words), words)


def groups(words):
    return [bytes(group.view) for group in lower_array(words)["text"]["groups"]]


def test_one_string_that_grows_changes_one_group():
    words = np.array([f"word {n}" for n in range(40_000)], object)
    before = groups(words)
    words[16_000] = "longer than it was"
    after = groups(words)

    changed = [one != other for one, other in zip(before, after, strict=True)]
    assert changed == [False, True, False, False, False]


def test_a_scalar_can_be_a_key():
    session = otolith.open("memory:").session("a")
    session["counts"] = {np.int32(1): "one", np.str_("b"): 2}
    session.commit()

    assert {type(key) for key in session["counts"]} == {np.int32, np.str_}


class Own(np.ndarray):
    pass


def test_a_subclass_is_left_to_others():
    assert CODEC.lowering(Own) is None
    assert CODEC.lowering(np.memmap) is None


def test_attributes_that_would_be_lost_are_refused():
    matrix: Any = np.ones((1, 1)).view(np.matrix)
    matrix.note = "mine"

    with pytest.raises(BadValue, match="note"):
        CODECS.lower(matrix)


# ---------------------------------------------------------------- hostile data

_GOOD = stored(np.arange(4.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": [2**60]},
        {"shape": [0, 2**62], "data": []},
        {"shape": [-4]},
        {"shape": [True, 4]},
        {"shape": [1] * 100 + [4]},
        {"dtype": "<f4"},
        {"dtype": "f8,f8"},
        {"dtype": "|O"},
        {"dtype": {"names": ["a"], "formats": ["<f8"], "offsets": [9], "itemsize": 8,
                   "aligned": False, "record": False}},
        {"order": "F"},
        {"order": "K"},
        {"data": [b"\0" * 16, b"\0" * 16]},
        {"data": [b"\0" * 31]},
        {"data": b"\0" * 32},
        {"data": [bytearray(32)]},
        {"more": 1},
        {"type": "recarray", "dtype": "<i8", "shape": [5]},
        {"type": "matrix"},
        {"type": 5},
    ],
    ids=str,
)  # fmt: skip
def test_a_form_that_does_not_fit_is_corrupt(wrong):
    with pytest.raises(Corrupt):
        CODEC.lift(Tag.ARRAY, {**_GOOD, **wrong})


def test_a_type_of_array_that_is_not_known_is_said_to_be_unknown():
    with pytest.raises(UnknownType, match="quaternion"):
        CODEC.lift(Tag.ARRAY, {"type": "quaternion"})


def test_a_long_double_of_another_machine_is_unknown_here():
    with pytest.raises(UnknownType, match="long double"):
        CODEC.lift(Tag.ARRAY, {"type": "dtype", "dtype": "<f16/999"})


@pytest.mark.parametrize("position", [625, -1])
def test_a_generator_that_stands_outside_its_buffer_is_corrupt(position):
    form: Any = CODECS.lower(np.random.MT19937(1)).data
    form["state"]["state"]["pos"] = position

    with pytest.raises(Corrupt):
        CODEC.lift(Tag.ARRAY, form)


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": np.full(70, 2**32 - 1, "<u4")},
        {"lengths": np.ones(70)},
        {"missing": np.full(70, 3, np.uint8)},
        {"missing": np.ones(70, np.uint8)},
        {"groups": [[b"\xff" * 70]]},
        {"groups": [[b"a" * 69]]},
        {"groups": [[b"a" * 70], []]},
    ],
    ids=str,
)
def test_strings_that_do_not_fit_their_lengths_are_corrupt(change):
    text = {"lengths": np.ones(70, "<u4"), "missing": None, "groups": [[b"a" * 70]]}
    form = {"type": "ndarray", "dtype": "|O", "shape": [70], "order": "C"}
    assert lift_array({**form, "text": text})[0] == "a"

    with pytest.raises(Corrupt):
        CODEC.lift(Tag.ARRAY, {**form, "text": {**text, **change}})


def test_chunks_are_gathered_into_memory_that_can_be_written_to():
    chunks = [b"\1" * CHUNK_BYTES, b"\2\3"]

    memory = join_chunks(chunks, size=CHUNK_BYTES + 2)
    memory[0] = 9

    assert bytes(memory[-2:]) == b"\2\3"


@pytest.mark.parametrize(
    "chunks", [None, b"ab", ["ab"], [b""], [b"a", b"b"], [b"a" * (CHUNK_BYTES + 1)], [b"abc"]]
)
def test_what_is_no_list_of_chunks_is_corrupt(chunks):
    with pytest.raises(Corrupt):
        join_chunks(chunks, size=2)


# ---------------------------------------------------------------- objects in several places


def objects(*values):
    array = np.empty(len(values), object)
    for at, each in enumerate(values):
        array[at] = each
    return array


def test_an_object_in_several_places_of_an_array_is_one_when_it_comes_back():
    one, other = [1], {"a": 2}

    found = returned(objects(one, other, 5, one, None, other, one).reshape(1, 7))[0]

    assert found[0] is found[3] is found[6]
    assert found[1] is found[5]
    assert found.tolist() == [[1], {"a": 2}, 5, [1], None, {"a": 2}, [1]]


def test_equal_objects_stay_two_and_are_stored_as_before():
    array = objects([1], [1], "x", "x", None, None)

    assert lower_array(array).keys() == {"type", "dtype", "shape", "order", "items"}
    assert returned(array)[0] is not returned(array)[1]


def test_what_is_hashed_by_its_content_is_stored_as_before():
    day = date(2026, 1, 1)

    assert "items" in lower_array(objects(day, day, ("a",), ("a",), 5, 5))


def test_a_state_shares_what_an_array_has_in_several_places(tmp_path):
    shared = [1]
    with otolith.Versioned(otolith.Disk(tmp_path / "a.db")) as state:
        state["all"] = {"array": objects(shared, shared, [2]), "alone": shared}
        state.commit()

    with otolith.Versioned(otolith.Disk(tmp_path / "a.db")) as state:
        found = state["all"]
        assert found["array"][0] is found["array"][1] is found["alone"]
        found["alone"].append(3)
        assert found["array"].tolist() == [[1, 3], [1, 3], [2]]


@pytest.mark.parametrize(
    "forged",
    [
        None,
        {"items": [[[1]]]},
        {"items": [[[1]]], "places": [0, 0]},
        {"items": [[[1]]], "places": np.array([0, 1])},
        {"items": [[[1]]], "places": np.array([0, -1])},
        {"items": [[[1], [2]]], "places": np.array([0, 0])},
        {"items": [[[1], [2]]], "places": np.array([1, 0])},
        {"items": [[[1]], [[2]]], "places": np.array([0, 1, 0])},
        {"items": [[[1]]], "places": np.array([0.0, 0.0])},
    ],
)
def test_forged_places_of_shared_objects_are_refused(forged):
    form = lower_array(objects([1], [2]))
    del form["items"]

    with pytest.raises(Corrupt):
        lift_array({**form, "shared": forged})
