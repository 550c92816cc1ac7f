"""Every family of values keeps the contract of codecs."""

from __future__ import annotations

from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.codecs.documents import DocumentCodec
from otolith.testing import codec_contract
from otolith.testing import strategies as values
from otolith.types import Tag
from tests.unit.codecs import classes as c
from tests.unit.codecs import data, texts

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
    return Codecs().lowering(type(value)) is not None


def _codecs() -> Codecs:
    codecs = Codecs()
    codecs.register(c.Money, name="money", lower=c.lower_money, lift=c.lift_money)
    return codecs


class EveryCodec(codec_contract.CodecContract):
    codec = _codecs()

    def may_become_another(self, code, lowered):
        return code == Tag.PATH and lowered[0] == 3  # a path of Windows, read elsewhere


class TestPlain(EveryCodec):
    values = values.rich_values().filter(_lowered_by_codec)


class TestModels(EveryCodec):
    values = MODELS


class TestEnums(EveryCodec):
    values = MEMBERS


class TestCustom(EveryCodec):
    values = MONEY


class TestArrays(EveryCodec):
    values = data.arrays() | data.scalars()

    def same(self, left, right):
        return data.same(left, right)


class TestFrames(TestArrays):
    values = data.pandas_values()


class TestDocuments(codec_contract.CodecContract):
    codec = DocumentCodec()
    values = texts.documents()


def test_every_tag_has_a_codec():
    assert Codecs().codes == frozenset(Tag) - {Tag.ORDERED}  # which only the core makes
