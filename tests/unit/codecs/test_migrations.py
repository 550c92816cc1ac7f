"""Migrations lead stored fields to the class of today, step by step, or say where the way ends."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from otolith.codecs import Codecs, Opaque, migrate, migration, moved_class
from otolith.errors import BadValue, Exists, Invalid, UnknownType
from otolith.types import Tag
from tests.unit.codecs import classes as c

HERE = __name__


@dataclass
class Hotel:
    __otolith_version__ = 3
    name: str
    rating: float
    city: str


@migration(Hotel, 1, 2, formerly="old.trip:Inn")
def stars_to_rating(fields):
    return {"name": fields["name"], "rating": fields["stars"] * 2.0}


@migration(Hotel, 2, 3)
def add_city(fields):
    return {**fields, "city": "?"}


@dataclass
class Gap:
    __otolith_version__ = 4
    x: int


@migration(Gap, 1, 2)
def first(fields):
    return fields


@migration(Gap, 3, 4)
def last(fields):
    return fields


@attrs.define
class Ticket:
    __otolith_version__ = 2
    seat: str


@migration(Ticket, 1, 2)
def only_the_seat(fields):
    return {"seat": f"{fields['row']}{fields['place']}"}


class Point(msgspec.Struct):
    __otolith_version__ = 2
    x: int


@migration(Point, 1, 2)
def drop_y(fields):
    del fields["y"]
    return fields


class Person(pydantic.BaseModel):
    __otolith_version__ = 2
    model_config = pydantic.ConfigDict(extra="allow")
    full: str
    age: int = 0
    _seen: int = pydantic.PrivateAttr(default=7)


@migration(Person, 1, 2)
def join_names(fields):
    first, last = fields.pop("first"), fields.pop("last")
    return {**fields, "full": f"{first} {last}"}


class Closed(pydantic.BaseModel):
    __otolith_version__ = 2
    name: str


@migration(Closed, 1, 2)
def keep_the_name(fields):
    return {"name": fields.get("nick", fields["name"])}


@pytest.fixture
def codecs():
    return Codecs()


def stored(codecs, kind, version, fields, *rest):
    return codecs.lift(Tag.MODEL, [f"{HERE}:{kind}", version, fields, *rest])


def test_migrations_are_applied_one_after_the_other(codecs):
    hotel = stored(codecs, "Hotel", 1, {"name": "Aurora", "stars": 3})

    assert hotel == Hotel("Aurora", 6.0, "?")


def test_the_way_starts_at_the_version_that_was_stored(codecs):
    assert stored(codecs, "Hotel", 2, {"name": "A", "rating": 1.0}) == Hotel("A", 1.0, "?")


def test_a_value_of_today_goes_through_no_migration(codecs):
    fields = {"name": "A", "rating": 1.0, "city": "Porto"}

    assert stored(codecs, "Hotel", 3, fields).city == "Porto"


def test_a_class_that_moved_is_found_by_its_former_name(codecs):
    found = codecs.lift(Tag.MODEL, ["old.trip:Inn", 1, {"name": "A", "stars": 1}])

    assert found == Hotel("A", 2.0, "?")
    assert moved_class("old.trip:Inn") is Hotel


def test_what_is_lowered_again_has_the_name_and_version_of_today(codecs):
    found = codecs.lift(Tag.MODEL, ["old.trip:Inn", 1, {"name": "A", "stars": 1}])

    assert codecs.lower(found).data[:2] == [f"{HERE}:Hotel", 3]


def test_a_gap_names_the_class_both_versions_and_the_step_that_is_missing(codecs):
    with pytest.raises(UnknownType, match="no migration from version 2") as raised:
        stored(codecs, "Gap", 1, {"x": 1})

    assert "version 4 here and was stored with version 1" in raised.value.message
    assert "@migration(Gap, 2, 3)" in raised.value.hint


def test_a_step_past_the_version_of_today_is_no_way():
    with pytest.raises(UnknownType, match="no migration from version 1"):
        migrate(Jumped, {}, old=1, new=2)


@dataclass
class Jumped:
    __otolith_version__ = 3


@migration(Jumped, 1, 3)
def at_once(fields):
    return fields


def test_a_migration_that_raises_is_named_with_its_versions(codecs):
    with pytest.raises(UnknownType, match="stars_to_rating") as raised:
        stored(codecs, "Hotel", 1, {"name": "A"})

    assert "from version 1 to 2 raised KeyError: 'stars'" in raised.value.message
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("wrong", [None, [], {1: 2}], ids=repr)
def test_a_migration_that_returns_no_fields_is_named(wrong, codecs):
    @dataclass
    class Local:
        __otolith_version__ = 2

    codecs.register_model(Local, name="local")
    migration(Local, 1, 2)(lambda _: wrong)

    with pytest.raises(UnknownType, match="not a dict of fields"):
        codecs.lift(Tag.MODEL, ["local", 1, {}])


def test_fields_that_are_wrong_after_the_last_step_are_named(codecs):
    with pytest.raises(UnknownType, match="not stored: x, after its migration from version 3"):
        stored(codecs, "Gap", 3, {})


def test_a_migration_gets_a_dict_of_its_own(codecs):
    fields = {"x": 1, "y": 2}

    assert stored(codecs, "Point", 1, fields) == Point(1)
    assert fields == {"x": 1, "y": 2}


def test_a_newer_version_than_ours_is_an_error(codecs):
    with pytest.raises(UnknownType, match="version 3 here and was stored with version 9"):
        stored(codecs, "Hotel", 9, {})


def test_other_fields_under_the_same_version_are_an_error(codecs):
    with pytest.raises(UnknownType, match="not stored: city, rating") as raised:
        stored(codecs, "Hotel", 3, {"name": "A"})

    assert "__otolith_version__" in raised.value.hint


def test_an_upgrade_that_was_registered_goes_before_migrations(codecs):
    codecs.register_model(
        Hotel, upgrade=lambda version, old: {"name": "own", "rating": 0.0, "city": str(version)}
    )

    assert stored(codecs, "Hotel", 1, {"name": "A", "stars": 1}) == Hotel("own", 0.0, "1")


def test_migrations_hold_for_every_codecs_of_the_process():
    assert stored(Codecs(), "Ticket", 1, {"row": 3, "place": "b"}) == Ticket("3b")


def test_with_opaque_a_value_without_a_way_is_held_whole():
    found = stored(Codecs(opaque=True), "Gap", 1, {"x": 1})

    assert isinstance(found, Opaque)
    assert found.version == 1


# ---------------------------------------------------------------- pydantic


def test_what_migrations_made_counts_as_set_and_what_was_not_set_stays_so(codecs):
    fields = {"first": "Ada", "last": "L", "age": 0}

    person = stored(codecs, "Person", 1, fields, [["first", "last"], {}, None])

    assert person.model_dump(exclude_unset=True) == {"full": "Ada L"}


def test_extra_fields_go_through_migrations_and_stay_extra(codecs):
    fields = {"first": "Ada", "last": "L", "age": 0}

    person = stored(codecs, "Person", 1, fields, [["first", "last", "pet"], {"pet": "cat"}, None])

    assert person.model_extra == {"pet": "cat"}


def test_private_attributes_that_are_new_start_as_in_a_new_model(codecs):
    fields = {"first": "Ada", "last": "L", "age": 0}

    assert stored(codecs, "Person", 1, fields, [[], {}, {"_gone": 1}])._seen == 7


def test_extra_fields_can_be_migrated_into_fields(codecs):
    closed = stored(codecs, "Closed", 1, {"name": "x"}, [["name"], {"nick": "y"}, None])

    assert closed == Closed(name="y")


def test_a_class_may_become_a_model_of_another_family(codecs):
    person = stored(codecs, "Person", 1, {"first": "Ada", "last": "L", "age": 3})
    point = stored(codecs, "Point", 1, {"x": 1, "y": 2}, [["x"], None, None])

    assert person == Person(full="Ada L", age=3)
    assert point == Point(1)


def test_without_a_migration_another_family_is_an_error(codecs):
    with pytest.raises(UnknownType, match="no longer the kind of model"):
        stored(codecs, "Point", 2, {"x": 1}, [["x"], None, None])


# ---------------------------------------------------------------- declaring


@pytest.mark.parametrize("versions", [(2, 1), (1, 1), (0, 1), ("1", 2), (True, 2)], ids=repr)
def test_a_migration_goes_from_one_version_up_to_another(versions):
    with pytest.raises(Invalid):
        migration(Hotel, *versions)


def test_two_functions_cannot_migrate_from_one_version():
    with pytest.raises(Exists, match="stars_to_rating"):

        @migration(Hotel, 1, 2)
        def another(fields):
            return fields


def test_the_same_function_may_be_declared_again():
    assert migration(Hotel, 2, 3)(add_city) is add_city


def test_a_former_name_has_one_heir():
    with pytest.raises(Exists, match=r"old\.trip:Inn"):
        migration(Ticket, 5, 6, formerly="old.trip:Inn")(only_the_seat)


def test_a_new_class_with_a_name_that_was_given_away_is_not_kept(codecs, monkeypatch):
    home = ModuleType("old.trip")
    inn: Any = dataclass(type("Inn", (), {"__module__": "old.trip", "__annotations__": {"x": int}}))
    home.Inn = inn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "old.trip", home)

    with pytest.raises(BadValue, match=r"test_migrations:Hotel had formerly"):
        codecs.lower(inn(1))


# ---------------------------------------------------------------- asking what today would be


def test_today_tells_the_name_and_version_a_value_would_get(codecs):
    assert codecs.current_type(Tag.MODEL, "old.trip:Inn", 1, fields={"any"}) == (f"{HERE}:Hotel", 3)


def test_today_is_nothing_for_what_is_of_today(codecs):
    assert codecs.current_type(Tag.MODEL, f"{HERE}:Point", 2, fields=["x"]) is None


def test_today_knows_that_an_upgrade_brings_other_fields(codecs):
    codecs.register_model(Point, upgrade=lambda _, old: old)

    assert codecs.current_type(Tag.MODEL, f"{HERE}:Point", 2, fields=["x", "y"]) == (
        f"{HERE}:Point",
        2,
    )


def test_a_class_is_found_by_the_name_it_was_stored_under(codecs):
    assert codecs.find("old.trip:Inn") is Hotel


def test_today_runs_no_migration_and_finds_the_gap(codecs):
    with pytest.raises(UnknownType, match="no migration from version 2"):
        codecs.current_type(Tag.MODEL, f"{HERE}:Gap", 1, fields={"x"})


def test_today_finds_a_class_that_changed_in_silence(codecs):
    with pytest.raises(UnknownType, match="not stored: city, rating"):
        codecs.current_type(Tag.MODEL, f"{HERE}:Hotel", 3, fields={"name"})


def test_today_knows_registered_types(codecs):
    codecs.register(
        c.Money, name="m", version=2, lower=c.lower_money, lift=c.lift_money, older={1: c.Money}
    )

    assert codecs.current_type(Tag.CUSTOM, "m", 1, fields=()) == ("m", 2)
    assert codecs.current_type(Tag.CUSTOM, "m", 2, fields=()) is None
    with pytest.raises(UnknownType):
        codecs.current_type(Tag.CUSTOM, "m", 9, fields=())
