"""One's own types are kept as registered, strangers are refused with the way out."""

from __future__ import annotations

import asyncio
import io
import socket
import threading
from datetime import datetime

import numpy as np
import pytest

from otolith.codecs import Codecs, Opaque
from otolith.errors import BadValue, Corrupt, Exists, Invalid, UnknownType
from otolith.types import Tag
from tests.unit.codecs import classes as c


@pytest.fixture
def codecs():
    codecs = Codecs()
    codecs.register(c.Money, name="money", lower=c.lower_money, lift=c.lift_money, version=2)
    return codecs


def test_a_registered_type_is_kept_by_name_and_version(codecs):
    tagged = codecs.lower(c.Money(5, "eur"))

    assert tagged == (Tag.CUSTOM, ["money", 2, [5, "eur"]])
    assert codecs.lift(*tagged) == c.Money(5, "eur")


def test_a_subclass_of_a_registered_type_is_a_stranger(codecs):
    with pytest.raises(BadValue):
        codecs.lower(type("Coins", (c.Money,), {})(5, "eur"))


def test_registering_wins_over_what_a_model_would_be():
    codecs = Codecs()
    codecs.lower(c.Step("a"))
    codecs.register(c.Step, name="step", lower=lambda step: step.name, lift=c.Step)

    assert codecs.lower(c.Step("a")).data == ["step", 1, "a"]


def test_a_former_version_is_read_by_what_is_left_for_it():
    codecs = Codecs()
    codecs.register(
        c.Money,
        name="money",
        lower=c.lower_money,
        lift=c.lift_money,
        version=2,
        older={1: lambda cents: c.Money(cents, "eur")},
    )

    assert codecs.lift(Tag.CUSTOM, ["money", 1, 5]) == c.Money(5, "eur")


@pytest.mark.parametrize("data", [["money", 1, 5], ["gold", 1, 5]])
def test_an_unregistered_name_or_version_is_unknown(data, codecs):
    with pytest.raises(UnknownType) as raised:
        codecs.lift(Tag.CUSTOM, data)

    assert "regist" in raised.value.hint


@pytest.mark.parametrize(
    "data", [["money", 2, None], ["money", 2, [1]], ["money", 0, 1], ["money"]]
)
def test_data_that_a_registered_codec_cannot_read_is_corrupt(data, codecs):
    with pytest.raises(Corrupt):
        codecs.lift(Tag.CUSTOM, data)


def test_a_value_that_a_registered_codec_cannot_lower_is_bad(codecs):
    broken = c.Money(5, "eur")
    del broken.unit

    with pytest.raises(BadValue, match="'money' could not lower"):
        codecs.lower(broken)


@pytest.mark.parametrize(
    "again", [{"name": "money", "kind": c.Step}, {"name": "m", "kind": c.Money}]
)
def test_a_name_and_a_type_are_registered_once(again, codecs):
    with pytest.raises(Exists):
        codecs.register(again["kind"], name=again["name"], lower=id, lift=id)


@pytest.mark.parametrize("kind", [dict, str, int, tuple, datetime, Opaque])
def test_what_otolith_keeps_itself_is_not_for_others(kind):
    with pytest.raises(Invalid):
        Codecs().register(kind, name="mine", lower=id, lift=id)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": "m", "version": 0}])
def test_a_registration_needs_a_name_and_a_version(wrong):
    with pytest.raises(Invalid):
        Codecs().register(c.Money, lower=c.lower_money, lift=c.lift_money, **wrong)


@pytest.mark.parametrize(
    ("value", "way_out"),
    [
        (object(), "dataclass"),
        (lambda: None, "name"),
        (print, "name"),
        (int, "name"),
        (io.BytesIO(), "handle"),
        (threading.Lock(), "handle"),
        (socket.socketpair, "name"),
        ((each for each in [1]), "handle"),
        (iter([]), "handle"),
        (memoryview(b""), "bytes(...)"),
        (ValueError("x"), "str(error)"),
        (asyncio.Queue(), "register"),
        (np.poly1d([1]), "arrays and numbers"),
        (type("float64", (float,), {"__module__": "numpy"})(1), "arrays and numbers"),
        (c, "name"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_stranger_is_refused_with_the_way_out(value, way_out, codecs):
    with pytest.raises(BadValue, match="cannot store a") as raised:
        codecs.lower(value)

    assert way_out in raised.value.hint


def test_a_code_of_a_newer_otolith_is_unknown(codecs):
    with pytest.raises(UnknownType, match="code 99") as raised:
        codecs.lift(99, None)

    assert "upgrade" in raised.value.hint
