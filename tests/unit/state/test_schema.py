"""A schema says of every value whether it fits, and of one that does not, exactly where."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Protocol,
    Required,
    TypedDict,
    TypeVar,
)

import annotated_types
import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from otolith.codecs import migration
from otolith.errors import Invalid, SchemaMismatch, UnknownType
from otolith.state import Schema
from otolith.state.schema.schema import migrate_state

pd = pytest.importorskip("pandas")

T = TypeVar("T")
UserId = NewType("UserId", int)


class Color(Enum):
    RED = 1


class Quacks(Protocol):
    def quack(self) -> None: ...


@dataclass
class Step:
    name: str
    cost: float = 0.0
    after: list[Step] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


class Address(TypedDict):
    street: str
    zip: NotRequired[int]


class Half(TypedDict, total=False):
    street: Required[str]
    zip: int


class Size(NamedTuple):
    width: int
    height: int = 1


@attrs.define
class Ticket:
    seat: str
    tags: list[str] = attrs.Factory(list)


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Guest(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(default=0, ge=0)


@dataclass
class Everything:
    none: None
    flag: bool
    whole: int
    real: float
    z: complex
    text: str
    raw: bytes
    anything: Any
    some: object
    day: date
    moment: datetime
    price: Decimal
    color: Color
    choice: Literal["a", 1]
    maybe: int | None
    either: int | str
    numbers: list[int]
    names: set[str]
    pair: tuple[int, str]
    many: tuple[int, ...]
    empty: tuple[()]
    table: dict[str, list[int]]
    by_number: dict[int, str]
    seq: Sequence[int]
    mapping: Mapping[str, int]
    bare: list  # type: ignore[type-arg]
    plan: Step
    box: Box[int]
    address: Address
    half: Half
    size: Size
    ticket: Ticket
    point: Point
    guest: Guest
    user: UserId
    frame: pd.DataFrame  # type: ignore[name-defined]
    array: np.ndarray[Any, np.dtype[np.float64]]
    duck: Quacks
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]
    code: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=3)]
    few: Annotated[list[int], annotated_types.Len(1, 2)]
    even: Annotated[int, annotated_types.MultipleOf(2)]
    big: Annotated[int, pydantic.Field(gt=9)]


with pytest.warns(UserWarning, match=r"Quacks.* only as far as isinstance goes"):
    SCHEMA = Schema.of(Everything)


class Subclass(Step):
    pass


FITTING: list[tuple[str, Any]] = [
    ("none", None),
    ("flag", True),
    ("whole", 3),
    ("real", 2.5),
    ("real", 2),
    ("z", 1j),
    ("text", "x"),
    ("raw", b"x"),
    ("anything", print),
    ("some", 1),
    ("day", date(2026, 1, 2)),
    ("moment", datetime(2026, 1, 2, tzinfo=UTC)),
    ("price", Decimal(1)),
    ("color", Color.RED),
    ("choice", "a"),
    ("choice", 1),
    ("maybe", None),
    ("maybe", 1),
    ("either", "x"),
    ("numbers", [1, 2]),
    ("numbers", []),
    ("names", {"a"}),
    ("pair", (1, "a")),
    ("many", (1, 2, 3)),
    ("empty", ()),
    ("table", {"a": [1]}),
    ("by_number", {1: "a"}),
    ("seq", (1, 2)),
    ("seq", [1]),
    ("mapping", {"a": 1}),
    ("bare", [1, "a"]),
    ("plan", Step("a", 1.0, [Step("b")])),
    ("plan", Subclass("a")),
    ("box", Box(1)),
    ("address", {"street": "x"}),
    ("address", {"street": "x", "zip": 1}),
    ("half", {"street": "x"}),
    ("size", Size(1)),
    ("ticket", Ticket("1a")),
    ("point", Point(1)),
    ("guest", Guest(name="x")),
    ("user", 5),
    ("frame", pd.DataFrame({"a": [1]})),
    ("array", np.zeros(3)),
    ("duck", 1),
    ("share", 0.5),
    ("code", "abc"),
    ("few", [1]),
    ("even", 4),
    ("big", 10),
]

MISFITS: list[tuple[str, Any, str, str]] = [
    ("none", 0, "none", "expected None, found int 0"),
    ("flag", 1, "flag", "expected bool, found int 1"),
    ("whole", "3", "whole", "expected int, found str '3'"),
    ("whole", True, "whole", "expected int, found bool True"),
    ("whole", 3.0, "whole", "expected int, found float 3.0"),
    ("real", True, "real", "expected float, found bool True"),
    ("real", "2.5", "real", "expected float"),
    ("z", "1", "z", "expected complex"),
    ("text", b"x", "text", "expected str, found bytes b'x'"),
    ("raw", "x", "raw", "expected bytes"),
    (
        "day",
        datetime(2026, 1, 2, tzinfo=UTC),
        "day",
        "expected datetime.date, found datetime.datetime",
    ),
    ("moment", "2026-01-02", "moment", "expected datetime.datetime"),
    ("price", 1.0, "price", "expected decimal.Decimal"),
    ("color", 1, "color", "Color, found int 1"),
    ("choice", True, "choice", "expected 'a' or 1, found bool True"),
    ("choice", [], "choice", "expected 'a' or 1, found list"),
    ("maybe", "x", "maybe", "expected int or None, found str 'x'"),
    ("either", None, "either", "expected int or str, found None"),
    ("numbers", [1, "2"], "numbers/1", "expected int, found str '2'"),
    ("numbers", (1, 2), "numbers", "expected list, found tuple"),
    ("names", {1}, "names", "expected str, found int 1"),
    ("names", ["a"], "names", "expected set, found list"),
    ("pair", (1, 2), "pair/1", "expected str"),
    ("pair", (1,), "pair", "expected a tuple of 2, found tuple"),
    ("pair", [1, "a"], "pair", "expected a tuple of 2, found list"),
    ("many", (1, None), "many/1", "expected int, found None"),
    ("empty", (1,), "empty", "expected a tuple of 0"),
    ("table", {"a/b": [1, 2.0]}, "table/a~1b/1", "expected int, found float 2.0"),
    ("table", {1: []}, "table/~:1", "expected a key that is str, found int 1"),
    ("by_number", {7: 7}, "by_number/~:7", "expected str, found int 7"),
    ("seq", {1}, "seq", "expected collections.abc.Sequence, found set"),
    ("plan", {"name": "a"}, "plan", "Step, found dict"),
    ("plan", Step("a", 1.0, [Step("b"), Step(5)]), "plan/after/1/name", "expected str"),  # type: ignore[arg-type]
    ("box", Box("x"), "box/content", "expected int"),
    ("address", {}, "address", "expected a key 'street'"),
    (
        "address",
        {"street": "x", "zap": 1},
        "address/zap",
        "expected no other keys than street, zip",
    ),
    ("address", {"street": "x", "zip": "1"}, "address/zip", "expected int"),
    ("half", {"zip": 1}, "half", "expected a key 'street'"),
    ("size", Size(1, "2"), "size/height", "expected int"),  # type: ignore[arg-type]
    ("size", (1, 2), "size", "Size, found tuple"),
    ("ticket", Ticket("a", [1]), "ticket/tags/0", "expected str"),  # type: ignore[list-item]
    ("point", Point(1, "2"), "point/y", "expected int"),  # type: ignore[arg-type]
    ("guest", {"name": "x"}, "guest", "Guest, found dict"),
    ("guest", Guest.model_construct(name=5), "guest/name", "expected a valid string, found int 5"),
    ("guest", Guest.model_construct(name="x", age=-1), "guest/age", "greater than or equal to 0"),
    ("user", "5", "user", "expected int"),
    ("frame", {"a": [1]}, "frame", "DataFrame, found dict"),
    ("array", [1.0], "array", "expected numpy.ndarray, found list"),
    ("share", 1.5, "share", "expected <= 1, found float 1.5"),
    ("code", "AB", "code", "expected text like '^[a-z]+$'"),
    ("code", "abcd", "code", "expected at most 3 long"),
    ("few", [], "few", "expected at least 1 long"),
    ("even", 3, "even", "expected a multiple of 2"),
    ("big", 9, "big", "expected greater than 9"),
]


@pytest.mark.parametrize(("key", "value"), FITTING, ids=lambda value: repr(value)[:30])
def test_what_fits_passes(key, value):
    SCHEMA.check(key, value, when="in")


@pytest.mark.parametrize(
    ("key", "value", "path", "said"),
    MISFITS,
    ids=[f"{key}-{value!r:.30}" for key, value, *_ in MISFITS],
)
def test_what_does_not_fit_is_refused_at_its_path(key, value, path, said):
    with pytest.raises(SchemaMismatch) as raised:
        SCHEMA.check(key, value, when="in")

    assert raised.value.path == path
    assert said in raised.value.message
    assert raised.value.message.startswith(f"{path} does not fit {__name__}:Everything: ")


def test_nothing_is_converted_or_touched():
    step = Step("a", 1)

    SCHEMA.check("plan", step, when="in")

    assert type(step.cost) is int


def test_a_model_that_holds_itself_in_its_type_is_checked_all_the_way_down():
    deep = Step("a", after=[Step("b", after=[Step("c", cost="dear")])])  # type: ignore[arg-type]

    with pytest.raises(SchemaMismatch, match="expected float") as raised:
        SCHEMA.check("plan", deep, when="in")

    assert raised.value.path == "plan/after/0/after/0/cost"


def test_a_value_that_holds_itself_is_refused():
    step = Step("a")
    step.after.append(step)

    with pytest.raises(SchemaMismatch, match="too deeply"):
        SCHEMA.check("plan", step, when="in")


def test_a_field_that_was_never_set_is_refused():
    step = Step("a")
    del step.name

    with pytest.raises(SchemaMismatch, match="never set") as raised:
        SCHEMA.check("plan", step, when="in")

    assert raised.value.path == "plan/name"


def test_on_the_way_out_the_error_speaks_of_what_is_stored():
    with pytest.raises(SchemaMismatch, match="what is stored at whole does not fit") as raised:
        SCHEMA.check("whole", "3", when="out")

    assert "@migration" in raised.value.hint


# ---------------------------------------------------------------- names


def test_an_unknown_name_suggests_the_one_that_was_meant():
    with pytest.raises(SchemaMismatch, match="has no field nubmers") as raised:
        SCHEMA.check("nubmers", [], when="in")

    assert raised.value.hint == "did you mean numbers?"


def test_an_unknown_name_far_from_all_lists_those_there_are():
    with pytest.raises(SchemaMismatch) as raised:
        Schema.of(Address).check("q", 1, when="in")

    assert raised.value.hint == "it has street, zip"


def test_names_that_belong_to_otolith_are_not_checked():
    Schema.of(Address).check(".schema", {}, when="in")


@pytest.mark.parametrize(
    ("model", "required"),
    [
        (Step, "name"),
        (Address, "street"),
        (Half, "street"),
        (Size, "width"),
        (Ticket, "seat"),
        (Point, "x"),
        (Guest, "name"),
    ],
)
def test_what_is_required_must_be_there_and_nothing_else(model, required):
    schema = Schema.of(model)

    schema.complete([required])
    with pytest.raises(SchemaMismatch, match=f"requires {required}") as raised:
        schema.complete([])

    assert raised.value.path == required


@pytest.mark.parametrize("bad", [int, dict, 5, list[int], Color, "Step", Quacks], ids=repr)
def test_what_is_no_model_makes_no_schema(bad):
    with pytest.raises(Invalid, match="is not a model"):
        Schema.of(bad)


def test_a_schema_of_a_schema_is_itself():
    assert Schema.of(SCHEMA) is SCHEMA


def test_a_generic_model_is_checked_with_what_it_was_given():
    Schema.of(Box[int]).check("content", 1, when="in")
    with pytest.raises(SchemaMismatch, match="expected int"):
        Schema.of(Box[int]).check("content", "1", when="in")


def test_an_annotation_that_cannot_be_resolved_is_named():
    @dataclass
    class Broken:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(Invalid, match="Broken cannot be resolved"):
        Schema.of(Broken)


def test_a_bad_version_is_refused():
    @dataclass
    class Bad:
        __otolith_version__ = "2"

    with pytest.raises(Invalid, match="schema version '2'"):
        Schema.of(Bad)


# ---------------------------------------------------------------- pydantic


class Inner(pydantic.BaseModel):
    x: int

    @pydantic.model_validator(mode="after")
    def _x_is_small(self):
        if self.x > 100:
            raise ValueError("too large")
        return self


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, str_max_length=5)
    id: int = pydantic.Field(ge=1, validation_alias="Id")
    note: str = ""
    items: list[Inner] = []
    by_name: dict[str, Inner | None] = {}
    part_of: Order | None = None
    even: int = pydantic.Field(default=0, frozen=True)

    @pydantic.field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @pydantic.model_validator(mode="after")
    def _needs_all_fields(self):
        assert self.id  # would fail on a part of a state
        return self


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    x: int


ORDER = Schema.of(Order)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 1),
        ("note", "hi"),
        ("items", [Inner(x=1)]),
        ("by_name", {"a": None}),
        ("part_of", Order.model_construct(id=2)),
        ("even", 2),
    ],
    ids=str,
)
def test_pydantic_takes_what_fits_one_field_at_a_time(key, value):
    ORDER.check(key, value, when="in")


@pytest.mark.parametrize(
    ("key", "value", "path", "said"),
    [
        ("id", "1", "id", "expected a valid integer, found str '1'"),
        ("id", True, "id", "expected a valid integer, found bool True"),
        ("id", 0, "id", "expected greater than or equal to 1"),
        ("note", "too long", "note", "string should have at most 5 characters"),
        ("items", [Inner(x=1), {"x": 1}], "items/1", "found dict"),
        ("items", [Inner.model_construct(x="1")], "items/0/x", "expected a valid integer"),
        ("items", (Inner(x=1),), "items", "expected a valid list, found tuple"),
        ("items", [Inner.model_construct(x=101)], "items/0", "too large"),
        ("by_name", {"a": Inner.model_construct(x=None)}, "by_name/a/x", "found None"),
        ("part_of", Order.model_construct(id="x"), "part_of/id", "expected a valid integer"),
        ("even", 3, "even", "must be even"),
    ],
    ids=str,
)
def test_pydantic_refuses_strictly_to_the_leaf(key, value, path, said):
    with pytest.raises(SchemaMismatch) as raised:
        ORDER.check(key, value, when="in")

    assert raised.value.path == path
    assert said in raised.value.message


def test_pydantic_models_may_allow_more_names():
    Schema.of(Open).check("y", object(), when="in")
    with pytest.raises(SchemaMismatch):
        ORDER.check("y", 1, when="in")


def test_a_root_model_has_no_names():
    with pytest.raises(Invalid, match="no fields"):
        Schema.of(pydantic.RootModel[list[int]])


def test_a_schema_without_pydantic_does_not_import_it():
    script = (
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from otolith.state import Schema\n"
        "@dataclass\n"
        "class Job:\n"
        "    x: list[int]\n"
        "Schema.of(Job).check('x', [1], when='in')\n"
        "assert not {'pydantic', 'pydantic_core', 'attrs', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


# ---------------------------------------------------------------- whole states


@dataclass
class Trip:
    __otolith_version__ = 3
    budget_cents: int
    notes: list[str] = field(default_factory=list)


@migration(Trip, 1, 2, formerly="old:Journey")
def in_cents(fields):
    fields["budget_cents"] = fields.pop("budget") * 100
    return fields


@migration(Trip, 2, 3)
def drop_mood(fields):
    fields.pop("mood", None)
    return fields


TRIP = Schema.of(Trip)


def test_a_record_is_the_name_and_version_of_the_model():
    assert TRIP.record() == {"name": f"{__name__}:Trip", "version": 3}


def test_a_state_of_an_older_version_goes_through_its_migrations():
    old = {"name": f"{__name__}:Trip", "version": 1}

    assert migrate_state(TRIP, old, {"budget": 5, "mood": "?"}) == {"budget_cents": 500}


def test_a_state_whose_model_moved_goes_through_its_migrations():
    old = {"name": "old:Journey", "version": 1}

    assert migrate_state(TRIP, old, {"budget": 5}) == {"budget_cents": 500}


@pytest.mark.parametrize("record", [None, {"name": f"{__name__}:Trip", "version": 3}])
def test_a_state_of_today_or_without_a_record_stays_as_it_is(record):
    assert migrate_state(TRIP, record, {"budget": 5}) == {"budget": 5}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"name": "other:Thing", "version": 1}, "other:Thing and not with"),
        ({"name": f"{__name__}:Trip", "version": 4}, "version 4"),
        ({"name": f"{__name__}:Trip", "version": "1"}, "version 1"),
        ({}, "None and not with"),
    ],
    ids=str,
)
def test_a_state_kept_with_another_schema_is_refused(record, said):
    with pytest.raises(SchemaMismatch, match="was stored with the schema") as raised:
        migrate_state(TRIP, record, {})

    assert raised.value.path == ".schema"
    assert said in raised.value.message


def test_a_migration_of_a_state_must_end_with_the_names_of_today():
    old = {"name": f"{__name__}:Trip", "version": 2}

    with pytest.raises(SchemaMismatch, match="has no field colour"):
        migrate_state(TRIP, old, {"budget_cents": 1, "colour": 2})
    with pytest.raises(SchemaMismatch, match="requires budget_cents"):
        migrate_state(TRIP, old, {})


def test_a_migration_of_a_state_that_fails_is_named():
    with pytest.raises(UnknownType, match="in_cents"):
        migrate_state(TRIP, {"name": f"{__name__}:Trip", "version": 1}, {})
