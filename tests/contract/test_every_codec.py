"""Every codec keeps the contract, alone and behind the registry."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.codecs.custom import Customs, Registered
from otolith.codecs.enums import Enums
from otolith.codecs.models import Models
from otolith.codecs.names import Names
from otolith.codecs.plain import Plain
from otolith.testing import strategies as values
from otolith.testing.codec_contract import CodecContract
from otolith.types import Tag
from tests.unit.codecs import classes as c

PARTS = values.rich_values(max_leaves=4)

MODELS = st.one_of(
    st.builds(c.Step, name=st.text(), cost=PARTS),
    st.builds(c.Place, x=st.floats(), y=st.floats()),
    st.builds(c.Ticket, seat=st.text(), tags=st.lists(st.text())),
    st.builds(c.Coin, cents=st.integers()),
    st.builds(c.Note, text=st.text()),
    st.builds(c.Point, x=st.integers()),
    st.builds(c.Pair, PARTS, PARTS),
    st.builds(c.Named, st.text()),
    st.builds(c.Person, name=st.text()),
    st.builds(c.Loose, name=st.text(), more=st.integers()),
    st.builds(c.Numbers, st.lists(st.integers())),
)
MEMBERS = st.one_of(
    st.sampled_from([*c.Color, *c.Level, *c.Word, *c.Odd]),
    st.integers(0, 7).map(c.Right),
    st.integers(0, 200).map(c.Bits),
)
MONEY = st.builds(c.Money, st.integers(), st.text())


def _lowered_by_codec(value: object) -> bool:
    if type(value) is int:
        return not -(2**63) <= value < 2**64
    if type(value) is str:
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    return Plain().lowering(type(value)) is not None


def _codecs() -> Codecs:
    codecs = Codecs()
    codecs.register(c.Money, name="money", lower=c.lower_money, lift=c.lift_money)
    return codecs


def _customs() -> Customs:
    customs = Customs()
    customs.register(Registered(c.Money, "money", 1, c.lower_money, {1: c.lift_money}))
    return customs


class TestPlain(CodecContract):
    codec = Plain()
    values = values.rich_values().filter(_lowered_by_codec)

    def may_become_another(self, code, data):
        return code == Tag.PATH and data[0] == 3  # a path of Windows, read elsewhere


class TestModels(CodecContract):
    codec = Models(Names())
    values = MODELS


class TestEnums(CodecContract):
    codec = Enums(Names())
    values = MEMBERS


class TestCustoms(CodecContract):
    codec = _customs()
    values = MONEY


class TestAllTogether(CodecContract):
    codec = _codecs()
    values = st.one_of(MODELS, MEMBERS, MONEY)
    may_become_another = TestPlain.may_become_another


def test_no_two_codecs_share_a_code():
    all_codecs = (Plain(), Models(Names()), Enums(Names()), Customs())

    assert sum(len(codec.codes) for codec in all_codecs) == len(set(Tag)) == len(Codecs().codes)


def test_a_decimal_is_lowered_alike_in_every_decimal_context():
    import decimal

    with decimal.localcontext(decimal.Context(prec=2, capitals=0)):
        assert Codecs().lower(Decimal("1.23456E+90")).data == "1.23456E+90"
