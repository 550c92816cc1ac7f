"""Python's own value types come back exactly, and damaged ones do not come back at all."""

from __future__ import annotations

import uuid
from collections import OrderedDict, defaultdict
from decimal import Context, Decimal, localcontext
from pathlib import Path, PosixPath, PurePosixPath, PureWindowsPath

import pytest

from otolith.codecs import Codecs, identical
from otolith.errors import BadValue, Corrupt
from otolith.testing import codec_contract
from otolith.types import Tag

CODECS = Codecs()
NAN = float("nan")


def there_and_back(value):
    return codec_contract.walk_up(codec_contract.walk_down(value, CODECS), CODECS)


@pytest.mark.parametrize(
    "value",
    [
        2**64,
        -(2**63) - 1,
        2**71 - 1,
        2**71,
        -(2**71),
        -(2**71) - 1,
        10**1000,
        "\ud800",
        "a\udfffb\U0001f600",
        "\ud83d\ude00",
        (),
        (1, True, 1.0, (2,)),
        set(),
        {1, "a", (2, frozenset({3}))},
        frozenset({b"x"}),
        complex(0.0, -0.0),
        complex(-0.0, NAN),
        complex(float("inf"), -1),
        bytearray(b"\x00\xff"),
        uuid.UUID(int=0),
        uuid.UUID(int=2**128 - 1),
        Path("/a/../b"),
        Path(),
        PurePosixPath("a", "b"),
        PurePosixPath("//two/slashes"),
        PurePosixPath("not\udcffutf8"),
        PureWindowsPath("C:/Users/x"),
        PureWindowsPath("//host/share/x"),
        PureWindowsPath("c:relative"),
        {(1, 2): {"x": (3,)}, 2**70: [{4}]},
    ],
    ids=repr,
)
def test_what_goes_in_comes_out(value):
    assert identical(there_and_back(value), value)


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "0.00",
        "-0E+7",
        "1.50",
        "1E+5",
        "1E-999999",
        "Infinity",
        "-Infinity",
        "NaN",
        "-NaN",
        "NaN123",
        "sNaN",
        "-sNaN7",
        "123456789012345678901234567890.123456789012345678",
    ],
)
def test_a_decimal_keeps_its_sign_digits_and_exponent(text):
    lifted = there_and_back(Decimal(text))

    assert lifted.as_tuple() == Decimal(text).as_tuple()


def test_a_decimal_is_lowered_alike_in_every_decimal_context():
    with localcontext(Context(prec=2, capitals=0)):
        assert CODECS.lower(Decimal("1.23456E+90")).data == "1.23456E+90"


def test_an_int_is_as_short_as_it_can_be():
    assert CODECS.lower(2**64).data == b"\x01" + bytes(8)
    assert CODECS.lower(-(2**71)).data == b"\x80" + bytes(8)
    assert CODECS.lower(2**71).data == b"\x00\x80" + bytes(8)


def test_a_pair_of_surrogates_is_not_the_letter_they_would_be_in_utf_16():
    assert there_and_back("\ud83d\ude00") != "\U0001f600"


def test_a_lifted_set_shares_nothing_with_what_it_was_lifted_from():
    data = {1: None}
    lifted = CODECS.lift(Tag.SET, data)
    assert isinstance(lifted, set)
    lifted.add(2)

    assert data == {1: None}


@pytest.mark.parametrize(("kind", "flavour"), [(2, PurePosixPath), (3, PureWindowsPath)])
def test_a_concrete_path_is_concrete_at_home_and_pure_elsewhere(kind, flavour):
    lifted = CODECS.lift(Tag.PATH, [kind, "a"])
    is_home = issubclass(type(Path()), flavour)

    assert type(lifted) is (type(Path()) if is_home else flavour)


@pytest.mark.skipif(type(Path()) is not PosixPath, reason="needs a POSIX machine")
def test_a_concrete_path_is_not_lowered_as_a_pure_one():
    assert CODECS.lower(Path("a")).data != CODECS.lower(PurePosixPath("a")).data


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (Tag.BIGINT, b""),
        (Tag.BIGINT, b"\x05"),
        (Tag.BIGINT, b"\x00" + b"\x01" + bytes(8)),
        (Tag.BIGINT, b"\xff\xff" + bytes(8)),
        (Tag.BIGINT, 5),
        (Tag.BIGINT, bytearray(9)),
        (Tag.TEXT, b"no surrogates"),
        (Tag.TEXT, b"\xff"),
        (Tag.TEXT, "text"),
        (Tag.TUPLE, (1,)),
        (Tag.TUPLE, None),
        (Tag.SET, [1]),
        (Tag.SET, {1: 1}),
        (Tag.FROZENSET, {1}),
        (Tag.DECIMAL, "1e5"),
        (Tag.DECIMAL, " 1"),
        (Tag.DECIMAL, "1_0"),
        (Tag.DECIMAL, "٣"),
        (Tag.DECIMAL, "inf"),
        (Tag.DECIMAL, "+1"),
        (Tag.DECIMAL, "one"),
        (Tag.DECIMAL, "1E+99999999999999999999"),
        (Tag.DECIMAL, 1),
        (Tag.UUID, bytes(15)),
        (Tag.UUID, "0" * 32),
        (Tag.PATH, [0, "a//b"]),
        (Tag.PATH, [0, ""]),
        (Tag.PATH, [1, "a/b"]),
        (Tag.PATH, [4, "a"]),
        (Tag.PATH, [-1, "a"]),
        (Tag.PATH, [True, "a"]),
        (Tag.PATH, (0, "a")),
        (Tag.COMPLEX, [1, 2.0]),
        (Tag.COMPLEX, [1.0]),
        (Tag.BYTEARRAY, [1]),
    ],
    ids=repr,
)
def test_data_in_another_form_is_corrupt(code, data):
    with pytest.raises(Corrupt) as raised:
        CODECS.lift(code, data)

    assert raised.value.hint


class _Shout(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "way_out"),
    [
        (OrderedDict(a=1), "dict(...)"),
        (defaultdict(list), "dict(...)"),
        (_Shout("x"), "str(...)"),
        (type("Ids", (list,), {})(), "list(...)"),
        (type("Count", (int,), {})(3), "int(...)"),
        (type("Both", (tuple,), {})(), "tuple(...)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_is_not_flattened_to_what_it_extends(value, way_out):
    with pytest.raises(BadValue, match="cannot store a") as raised:
        CODECS.lower(value)

    assert way_out in raised.value.hint
    assert "register" in raised.value.hint
