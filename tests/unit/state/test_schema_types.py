"""Annotations of every kind: what fits them is accepted, and nothing else, to the leaf."""

from __future__ import annotations

import dataclasses
import typing
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Generic, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
import typing_extensions

from otolith.errors import Invalid, SchemaMismatch
from otolith.state import Schema

T = TypeVar("T")
S = TypeVar("S")
B = TypeVar("B", bound=int)
Ts = typing_extensions.TypeVarTuple("Ts")
Pair = typing_extensions.TypeAliasType("Pair", tuple[T, T], type_params=(T,))
Table = typing_extensions.TypeAliasType("Table", dict[S, list[T]], type_params=(T, S))
Tree = typing_extensions.TypeAliasType("Tree", "list[Tree] | int")


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class IntBox(Box[int]):
    pass


@dataclass
class NamedBox(Box[list[S]], Generic[S]):
    name: S


@dataclass
class Swapped(Box[int], Generic[T]):
    """Its T is not that of its base."""

    other: T


class Titled(typing_extensions.TypedDict, Generic[T]):
    title: T


class Numbered(Titled[str], Generic[T]):
    number: T


NAIVE = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
UNPACK: Any = typing_extensions.Unpack


def strip(text: str) -> str:
    return text.strip()


def refuse_odd(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number


FITS: list[tuple[Any, Any, Any]] = [
    # annotation, a value that fits, one that does not
    (Annotated[int, pydantic.Field(gt=0)], 1, 0),
    (Annotated[int, pydantic.AfterValidator(refuse_odd)], 0, 1),
    (Annotated[int, pydantic.AfterValidator(lambda v: v)], 0, "0"),
    (Annotated[int, pydantic.BeforeValidator(int)], 5, "5"),
    (Annotated[int, pydantic.PlainSerializer(lambda v: "")], 5, "5"),
    (Annotated[str, pydantic.AfterValidator(strip)], " a", 1),
    (Annotated[str, pydantic.StringConstraints(pattern="^a+$")], "aa", "b"),
    (list[Annotated[int, pydantic.Field(le=9)]], [9], [10]),
    (Annotated[list[int], pydantic.Field(max_length=1)], [1], [1, 2]),
    (pydantic.PositiveInt, 1, 0),
    (pydantic.PastDate, date(2000, 1, 1), date(9999, 1, 1)),
    (Annotated[int, annotated_types.Predicate(lambda v: v > 1)], 2, 1),
    (Annotated[datetime, msgspec.Meta(tz=True)], datetime.now(UTC), NAIVE),
    (Pair[int], (1, 2), (1, "x")),
    (Pair[Pair[str]], (("a", "b"), ("c", "d")), (("a", "b"), ("c", 1))),
    (Table[int, str], {"a": [1]}, {"a": ["1"]}),
    (Pair, (1, "x"), (1, 2, 3)),
    (tuple[int, UNPACK[tuple[str, ...]]], (1, "a", "b"), (1, ("a",))),
    (tuple[int, *tuple[str, ...], float], (1, "a", 2.0), (1, "a", "b")),
    (tuple[int, *tuple[str, ...], float], (1, 2.0), (1,)),
    (tuple[int, *tuple[str, bool]], (1, "a", True), (1, "a")),
    (tuple[int, UNPACK[Ts]], (1, "a", None), ("a",)),
    (IntBox, IntBox(1), IntBox("x")),  # type: ignore[arg-type]
    (NamedBox[str], NamedBox(["a"], "b"), NamedBox("a", "b")),  # type: ignore[arg-type]
    (NamedBox[str], NamedBox(["a"], "b"), NamedBox(["a"], 1)),
    (Swapped[str], Swapped(1, "a"), Swapped("a", "a")),  # type: ignore[arg-type]
    (Swapped[str], Swapped(1, "a"), Swapped(1, 1)),
    (Numbered[int], {"title": "a", "number": 1}, {"title": 1, "number": 1}),
    (Numbered[int], {"title": "a", "number": 1}, {"title": "a", "number": "1"}),
    (Iterable[int], [1], ["x"]),
    (Iterable[int], {1}, {"x"}),
    (Counter[str], Counter({"a": 1}), Counter({"a": "x"})),
    (Counter[str], Counter({"a": 1}), Counter({1: 1})),
    (type[int], bool, str),
    (type[int | str], str, bytes),
    (type[B], bool, str),
    (type[Any], str, "str"),
    (typing.LiteralString, "a", 1),
]


def check(hint: Any, value: Any) -> None:
    model = dataclasses.make_dataclass("Model", [("field", hint)])
    Schema.of(model).check("field", value, when="in")


@pytest.mark.parametrize(("hint", "fitting", "other"), FITS)
def test_what_fits_is_accepted_and_nothing_else(hint, fitting, other):
    check(hint, fitting)
    with pytest.raises(SchemaMismatch):
        check(hint, other)


def test_a_value_is_stored_as_it_was_written_whatever_a_validator_returns():
    given = [" a "]
    check(list[Annotated[str, pydantic.AfterValidator(strip)]], given)
    assert given == [" a "]


def test_the_path_leads_into_what_pydantic_judges():
    with pytest.raises(SchemaMismatch) as raised:
        check(dict[str, Annotated[list[int], pydantic.Field(max_length=2)]], {"a": [1, 2, 3]})
    assert raised.value.path == "field/a"


@pytest.mark.parametrize("hint", [Callable[[int], str], Iterator[int]])
def test_what_cannot_be_checked_is_said_when_the_schema_is_made(hint):
    model = dataclasses.make_dataclass("Model", [("field", hint)])
    with pytest.warns(UserWarning, match="checked only as far as isinstance goes"):
        Schema.of(model)


def test_a_plain_class_needs_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(Callable, len)


def test_what_pydantic_cannot_judge_is_refused_when_the_schema_is_made():
    model = dataclasses.make_dataclass(
        "Model", [("f", Annotated[int, pydantic.Field(discriminator="a")])]
    )
    with pytest.raises(Invalid, match="pydantic cannot judge"):
        Schema.of(model)
