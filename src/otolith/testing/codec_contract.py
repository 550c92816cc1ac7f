"""The promises of a codec, as tests, and a walker that lowers whole values as the core does.

class TestMine(CodecContract):
    codec = my_codecs            # a Codec; a Codecs with your types registered is one
    values = st.builds(Mine)     # a Hypothesis strategy

Glossary: to *lower* a value is to replace it by plainer data and a code; to *lift* is the way back.
A codec lowers one level; its data may contain values of other codecs. `walk_down` continues until
all is plain, and `walk_up` lifts from the inside out, as the core does when it stores and loads.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otolith.codecs import Codec, Codecs, identical
from otolith.errors import BadValue, Corrupt, MissingExtra, UnknownType
from otolith.testing import strategies
from otolith.types import Raw, Tag, Tagged


class ValueCodecs(Protocol):
    """The part of `Codecs` that the core uses."""

    def lower(self, value: object) -> Tagged:
        """Return plainer data for a value, with a tag."""

    def lift(self, code: int, data: object) -> object:
        """Return the value of tagged data."""


class DictPairs(NamedTuple):
    """A lowered dict as pairs, because a lowered key may not be hashable."""

    pairs: tuple[tuple[object, object], ...]


def walk_down(value: object, codecs: ValueCodecs) -> object:
    """Lower a value completely: plain data, `Tagged` and `DictPairs`."""
    if type(value) is list:
        return [walk_down(part, codecs) for part in value]
    if type(value) is dict:
        return _pairs(value, codecs)
    if type(value) is Raw:
        return as_stored(value)
    if _is_plain(value):
        return value
    code, data = codecs.lower(value)
    if type(data) is not dict or code == Tag.GRAPH:
        return Tagged(code, walk_down(data, codecs))
    # A form has no order, nor have the elements of a set.
    pairs = _pairs(data, codecs).pairs
    return Tagged(code, DictPairs(tuple(sorted(pairs, key=lambda pair: repr(pair[0])))))


def as_stored(data: Any) -> Any:
    """Return data of a codec with its raw bytes cut into chunks, as a store has them."""
    if type(data) is Raw:
        return [bytes(chunk) for chunk in data.chunks()]
    if type(data) is list:
        return [as_stored(part) for part in data]
    return {key: as_stored(part) for key, part in data.items()} if type(data) is dict else data


def walk_up(data: object, codecs: ValueCodecs) -> object:
    """Lift the result of `walk_down`, from the innermost part outwards."""
    if type(data) is list:
        return [walk_up(part, codecs) for part in data]
    if isinstance(data, DictPairs):
        return {walk_up(key, codecs): walk_up(part, codecs) for key, part in data.pairs}
    if isinstance(data, Tagged):
        return codecs.lift(data.code, walk_up(data.data, codecs))
    return data


def _pairs(value: dict[Any, Any], codecs: ValueCodecs) -> DictPairs:
    """Return the lowered entries of a dict, in its order.

    Raises:
        BadValue: two keys are stored alike.
    """
    pairs = [(walk_down(key, codecs), walk_down(part, codecs)) for key, part in value.items()]
    if len({repr(key) for key, _ in pairs}) < len(pairs):
        raise BadValue("two keys have the same stored form")
    return DictPairs(tuple(pairs))


def _is_plain(value: object) -> bool:
    """Return whether the core stores a value itself, without a codec."""
    if type(value) is int:
        return -(2**63) <= value < 2**64
    if type(value) is str:
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return type(value) in {type(None), bool, float, bytes}


class _OneCodec:
    """The codec under test for its own types, and all others for the parts of its values."""

    def __init__(self, codec: Codec) -> None:
        self._codec, self._others = codec, Codecs()

    def lower(self, value: object) -> Tagged:
        """Return the plainer data of a value, by its own codec or another."""
        lowering = self._codec.lowering(type(value))
        return self._others.lower(value) if lowering is None else lowering(value)

    def lift(self, code: int, data: object) -> object:
        """Return the value of data, by the codec that has the code."""
        owner = self._codec if code in self._codec.codes else self._others
        return owner.lift(code, data)


class CodecContract:
    """Subclass it, name the codec and its values, and run pytest."""

    codec: Codec
    values: strategies.Values

    def same(self, left: object, right: object) -> bool:
        """Whether two values are the same; for families that cannot be compared part by part."""
        return identical(left, right)

    def may_become_another(self, code: int, data: object) -> bool:
        """Whether this data is rightly lifted to a value that is lowered to other data."""
        return False

    def test_what_goes_in_comes_out_type_and_all(self) -> None:
        """A value that is lowered and lifted is the same, down to its types."""
        whole = _OneCodec(self.codec)

        @given(self.values)
        def check(value: Any) -> None:
            assert self.same(walk_up(walk_down(value, whole), whole), value)

        check()

    def test_equal_values_are_lowered_alike(self) -> None:
        """The same value has the same data always, or it would be stored twice."""
        whole = _OneCodec(self.codec)

        @given(self.values)
        def check(value: Any) -> None:
            lowered = walk_down(value, whole)
            assert identical(walk_down(deepcopy(value), whole), lowered)
            assert identical(walk_down(walk_up(lowered, whole), whole), lowered)

        check()

    def test_lowering_does_not_change_the_value(self) -> None:
        """`lower` must not change the value of the caller."""

        @given(self.values)
        def check(value: Any) -> None:
            before = deepcopy(value)
            walk_down(value, _OneCodec(self.codec))
            assert self.same(value, before)

        check()

    def test_every_code_it_gives_is_one_of_its_own(self) -> None:
        """`codes` lists every code that `lower` uses; `lift` is chosen by it."""

        @given(self.values)
        def check(value: Any) -> None:
            assert self._lower(value).code in self.codec.codes

        check()

    @pytest.mark.parametrize("kind", [object, type, type(print), type(iter([]))])
    def test_types_it_does_not_know_are_left_to_others(self, kind: type) -> None:
        """`lowering` returns None for a type that the codec does not know."""
        assert self.codec.lowering(kind) is None

    def test_data_of_something_else_is_refused(self) -> None:
        """Data that no value has is `Corrupt` or `UnknownType`, never another exception."""

        @given(st.sampled_from(sorted(self.codec.codes)), strategies.rich_values(max_leaves=6))
        def check(code: int, data: Any) -> None:
            self._lift_or_refuse(code, data)

        check()

    def test_damaged_data_is_refused_or_means_something_else(self) -> None:
        """Damaged data is refused, or is the data of the value it is lifted to."""

        @given(self.values, st.data())
        def check(value: Any, draw: st.DataObject) -> None:
            code, data = self._lower(value)
            self._lift_or_refuse(code, draw.draw(_damaged(as_stored(data))))

        check()

    def _lower(self, value: object) -> Tagged:
        """Lower a value by the codec under test, which must know its type."""
        lowering = self.codec.lowering(type(value))
        assert lowering is not None, f"{value!r} is not of this family"
        return lowering(value)

    def _lift_or_refuse(self, code: int, data: Any) -> None:
        """Lift data; unless it is refused, the value must be lowered to the same data."""
        given_data = deepcopy(data)
        try:
            value = self.codec.lift(code, data)
        except (Corrupt, UnknownType, MissingExtra):
            return
        if not self.may_become_another(code, data):
            again, lowered = self._lower(value)
            assert again == code
            whole = _OneCodec(self.codec)
            assert identical(walk_down(lowered, whole), walk_down(given_data, whole))


def _damaged(data: Any) -> strategies.Values:
    """Return a strategy for data that is almost this data."""
    if type(data) is list:
        return _ANYTHING | _damaged_list(data)
    if type(data) is dict and data:
        return st.builds(lambda key, part: {**data, key: part}, st.sampled_from([*data]), _ANYTHING)
    if type(data) is bytes:
        return st.integers(0, len(data)).map(lambda cut: data[:cut] + b"\xff" + data[cut + 1 :])
    return _ANYTHING


@st.composite
def _damaged_list(draw: st.DrawFn, data: list[Any]) -> list[Any]:
    """Draw a list with one element more, less or damaged."""
    at = draw(st.integers(0, len(data)))
    how = draw(st.sampled_from(["insert", "drop", "replace"]))
    put = [] if how == "drop" else [draw(_damaged(data[at]) if at < len(data) else _ANYTHING)]
    return [*data[:at], *put, *data[at + (how != "insert") :]]


_ANYTHING = strategies.rich_values(max_leaves=4)
