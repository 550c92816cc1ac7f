"""Models come back without their constructors, and never as anything they were not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, make_dataclass

import pytest

from otolith.codecs import Codecs, identical
from otolith.core import Encoding
from otolith.errors import BadValue, Corrupt, Exists, UnknownType
from otolith.testing import codec_contract
from otolith.types import Tag
from tests.unit.codecs import classes as c

HERE = c.__name__


@pytest.fixture
def codecs():
    return Codecs()


def there_and_back(value, codecs):
    return codec_contract.walk_up(codec_contract.walk_down(value, codecs), codecs)


def stored(codecs, kind, *, version=1, **fields):
    return codecs.lift(Tag.MODEL, [f"{HERE}:{kind}", version, fields])


@pytest.mark.parametrize(
    "value",
    [
        c.Step("a", cost=(1, {2})),
        c.Place(-0.0, float("nan")),
        c.Strict(5, seed=1),
        c.Box(c.Step("inner")),
        c.Box[int](3),
        c.Versioned(1),
        c.Outer.Inner(1),
        c.Ticket("1a", ["x"]),
        c.Coin(5),
        c.Note("n"),
        c.Point(1, 2),
        c.Pair(1, "b"),
        c.Named("x"),
        c.Person(name="x"),
        c.Person(name="x", age=3),
        c.Person.model_construct(name=5, age=-1),
        c.Loose.model_validate({"name": "x", "other": (1,)}),
        c.Numbers([1, 2]),
        {c.Place(1, 2): 1, c.Coin(3): 2, c.Loose(name="k"): 3},
    ],
    ids=repr,
)
def test_what_goes_in_comes_out(value, codecs):
    assert identical(there_and_back(value, codecs), value)


def test_neither_constructor_nor_checks_run_again(codecs):
    value = c.Strict(5, seed=1)
    value.amount, value.made = -5, [9, 9]

    assert vars(there_and_back(value, codecs)) == {"amount": -5, "made": [9, 9]}


def test_what_a_struct_does_after_init_is_not_done_twice(codecs):
    assert there_and_back(c.Picky(1), codecs).x == 2


def test_a_pydantic_model_remembers_which_fields_were_set_and_its_private_ones(codecs):
    value = c.Person(name="x")
    value._seen = 7

    lifted = there_and_back(value, codecs)

    assert lifted.model_dump(exclude_unset=True) == {"name": "x"}
    assert lifted._seen == 7


def test_a_lifted_model_can_be_changed_and_checked_as_usual(codecs):
    lifted = there_and_back(c.Person(name="x"), codecs)
    lifted.age = 4

    assert lifted.model_validate(lifted.model_dump()).age == 4


@pytest.mark.parametrize("value", [c.Coin(5), c.Note("n")])
def test_a_cached_hash_is_made_again(value, codecs):
    hash(value)

    assert hash(there_and_back(value, codecs)) == hash(value)


def test_a_cached_property_is_left_behind(codecs):
    value = c.Step("a")
    assert value.shout == "A"

    assert "shout" not in vars(there_and_back(value, codecs))


def test_the_form_is_name_version_and_fields(codecs):
    assert codecs.lower(c.Versioned(7)) == (Tag.MODEL, [f"{HERE}:Versioned", 3, {"size": 7}])
    assert codecs.lower(c.Person(name="x")).data == [
        f"{HERE}:Person", 1, {"name": "x", "age": 0}, [["name"], None, {"_seen": 0}],
    ]  # fmt: skip


def test_attributes_that_are_not_fields_are_stored(codecs):
    step, spot = c.Step("a"), c.Spot(1, "b")
    step.note = ["mine"]  # type: ignore[attr-defined]
    spot.note = "here"  # type: ignore[attr-defined]

    for value in (step, spot, c.Words("a b"), c.Chapter("a b", 3)):
        assert identical(there_and_back(value, codecs), value)
        assert vars(there_and_back(value, codecs)) == vars(value)


def test_other_attributes_are_stored_beside_the_fields(codecs):
    assert codecs.lower(c.Words("a")).data == [
        f"{HERE}:Words", 1, {"text": "a"}, [{"words": ["a"]}],
    ]  # fmt: skip


def test_an_attribute_that_a_pydantic_model_does_not_know_is_refused(codecs):
    value = c.Person(name="x")
    vars(value)["note"] = 1

    with pytest.raises(BadValue, match="'note' is not a field"):
        codecs.lower(value)


def test_what_getstate_leaves_out_is_not_stored(codecs):
    assert codecs.lower(c.Client("me", "SECRET")) == (
        Tag.STATE, [f"{HERE}:Client", 1, {"user": "me", "token": None}],
    )  # fmt: skip
    assert b"SECRET" not in Encoding(codecs).encode(
        [c.Client("me", "SECRET"), c.Badge("a", "SECRET")]
    )


def test_setstate_gets_what_getstate_returned(codecs):
    assert there_and_back(c.Client("me", "SECRET"), codecs) == c.Client("me", None, ready=True)
    assert there_and_back(c.Badge("me", "SECRET"), codecs) == c.Badge("me", "")


def test_without_setstate_a_state_is_the_attributes(codecs):
    lifted = there_and_back(c.Draft("a", cache=object()), codecs)

    assert vars(lifted) == {"text": "a"}


def test_a_class_with_its_own_reduce_is_pickled():
    codecs = Codecs(pickle="signed", key=lambda: bytes(32))

    assert codecs.lower(c.Vault("a", "SECRET")).code == Tag.PICKLE
    assert there_and_back(c.Vault("a", "SECRET"), codecs) == c.Vault("a", "")
    with pytest.raises(BadValue, match="Vault"):
        Codecs().lower(c.Vault("a", "SECRET"))


def test_instances_stored_before_the_class_had_getstate_are_still_read(codecs):
    data = [f"{HERE}:Client", 1, {"user": "me", "token": "t", "ready": False}]

    assert codecs.lift(Tag.MODEL, data) == c.Client("me", "t")


def test_a_field_that_was_never_set_is_refused(codecs):
    value = c.Step("a")
    del value.name

    with pytest.raises(BadValue, match="never set"):
        codecs.lower(value)


def test_a_slot_that_is_not_a_field_is_stored(codecs):
    assert there_and_back(c.Slotted(1, 2), codecs).hidden == 2


def test_a_model_that_is_more_than_its_fields_is_refused(codecs):
    with pytest.raises(BadValue, match="Failure"):
        codecs.lower(c.Failure(1))


def test_a_local_class_is_refused_with_the_way_out(codecs):
    @dataclass
    class Local:
        x: int

    with pytest.raises(BadValue, match="local to a function") as raised:
        codecs.lower(Local(1))

    assert "top level" in raised.value.hint


def test_a_class_that_could_not_be_found_again_is_refused(codecs):
    made = make_dataclass("Made", ["x"])

    with pytest.raises(BadValue, match="not found by that name"):
        codecs.lower(made(1))


def test_a_local_class_can_be_given_a_name(codecs):
    @dataclass
    class Local:
        x: int

    codecs.register_model(Local, name="local")

    assert codecs.lower(Local(1)).data == ["local", 1, {"x": 1}]
    assert there_and_back(Local(1), codecs) == Local(1)


def test_a_name_belongs_to_one_class(codecs):
    codecs.register_model(c.Step, name="it")

    with pytest.raises(Exists):
        codecs.register_model(c.Place, name="it")


def test_an_unknown_class_says_what_to_import(codecs):
    with pytest.raises(UnknownType, match=r"myapp.models:User") as raised:
        codecs.lift(Tag.MODEL, ["myapp.models:User", 1, {}])

    assert "import myapp.models before reading" in raised.value.hint


def test_reading_never_imports(codecs):
    sys.modules.pop("this", None)

    with pytest.raises(UnknownType):
        codecs.lift(Tag.MODEL, ["this:Zen", 1, {}])

    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        "subprocess:Popen",
        "builtins:dict",
        "os:system",
        "sys:modules",
        f"{HERE}:Money",
        f"{HERE}:T",
        f"{HERE}:Color",
        f"{HERE}:Step.shout",
        f"{HERE}:",
        ":",
        "",
        "sys:modules.sys",
        HERE,
    ],
)
def test_a_stored_name_makes_nothing_but_models(name, codecs):
    with pytest.raises(UnknownType):
        codecs.lift(Tag.MODEL, [name, 1, {}])


def test_another_version_names_both(codecs):
    with pytest.raises(UnknownType, match="version 3 here and was stored with version 2") as raised:
        stored(codecs, "Versioned", version=2, size=1)

    assert "upgrade" in raised.value.hint
    assert "opaque=True" in raised.value.hint


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"x": 1.0}, "not stored: y"), ({"x": 1.0, "y": 2.0, "z": 3.0}, "does not have here: z")],
)
def test_other_fields_are_named(fields, named, codecs):
    with pytest.raises(UnknownType, match=named):
        stored(codecs, "Place", **fields)


def test_an_upgrade_brings_old_fields_up_to_date(codecs):
    codecs.register_model(c.Versioned, upgrade=lambda version, old: {"size": old["len"] * version})

    assert stored(codecs, "Versioned", version=2, len=4) == c.Versioned(8)


def test_an_upgrade_that_leaves_the_fields_wrong_is_an_error(codecs):
    codecs.register_model(c.Versioned, upgrade=lambda version, old: old)

    with pytest.raises(UnknownType, match="not stored: size"):
        stored(codecs, "Versioned", version=2, len=4)


def test_a_class_is_found_under_its_former_name(codecs):
    codecs.register_model(c.Step, formerly=["old.home:Step"])

    assert codecs.lift(Tag.MODEL, ["old.home:Step", 1, {"name": "a", "cost": 1}]) == c.Step("a", 1)


def test_a_version_is_a_positive_int(codecs):
    class Bad(c.Step):
        __otolith_version__ = "2"

    with pytest.raises(BadValue, match="schema version '2'"):
        codecs.lower(Bad("a"))


def test_extra_fields_that_are_no_longer_allowed_are_an_error(codecs):
    code, (_, version, fields, rest) = codecs.lower(
        c.Loose.model_validate({"name": "x", "more": 1})
    )

    with pytest.raises(UnknownType, match="more"):
        codecs.lift(code, [f"{HERE}:Person", version, {**fields, "age": 1}, rest])


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        ["a:B", 1],
        ["a:B", 0, {}],
        ["a:B", True, {}],
        ["a:B", 1, {1: 2}],
        [1, 1, {}],
        ["a:B", 1, {}, [], []],
        ("a:B", 1, {}),
    ],
    ids=repr,
)
def test_data_in_another_form_is_corrupt(data, codecs):
    with pytest.raises(Corrupt):
        codecs.lift(Tag.MODEL, data)


def test_classes_of_a_script_are_kept():
    script = (
        "from dataclasses import dataclass\n"
        "from otolith.codecs import Codecs\n"
        "@dataclass\n"
        "class Job:\n"
        "    x: int\n"
        "tagged = Codecs().lower(Job(1))\n"
        "assert tagged.data[0] == '__main__:Job'\n"
        "assert Codecs().lift(*tagged) == Job(1)\n"
        "import sys\n"
        "assert not {'pydantic', 'attrs', 'attr', 'msgspec'} & set(sys.modules)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
