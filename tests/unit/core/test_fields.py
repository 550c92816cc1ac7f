"""Models merge, differ and are decided by field, as dicts are by key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

import otolith
from otolith.codecs import Codecs
from otolith.errors import Invalid, MergeConflict, UnknownType
from otolith.stores import MemoryStore
from otolith.types import Tag, Tagged


@dataclass
class Config:
    retries: int = 3
    timeout: float = 1.0
    tags: list[str] = field(default_factory=list)
    inner: Any = None


@dataclass
class Other:
    retries: int = 3
    timeout: float = 1.0
    tags: list[str] = field(default_factory=list)
    inner: Any = None


@dataclass
class Secretive:
    """Stored as it says itself, so as one value."""

    a: int
    b: int

    def __getstate__(self):
        return {"a": self.a, "b": self.b}


@attrs.define
class Range:
    low: int = attrs.field()
    high: int = attrs.field()

    @high.validator
    def _check(self, _attribute, high):
        if self.low > high:
            raise ValueError("low is above high")


class Bounds(msgspec.Struct):
    low: int
    high: int

    def __post_init__(self):
        if self.low > self.high:
            raise ValueError("low is above high")


class Limits(pydantic.BaseModel):
    low: int
    high: int

    @pydantic.model_validator(mode="after")
    def _check(self):
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Still(pydantic.BaseModel, frozen=True):
    low: int = pydantic.Field(alias="from")
    high: int

    @pydantic.model_validator(mode="after")
    def _check(self):
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Budget(pydantic.BaseModel):
    spent: int = pydantic.Field(default=0, le=100)


@attrs.define(on_setattr=[])
class Clock:
    """Its program sets what its own validator refuses."""

    minutes: Any = attrs.field(validator=attrs.validators.instance_of(str))
    zone: str = "UTC"


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 0
    _seen: int = pydantic.PrivateAttr(default=0)


RANGES = [Range, Bounds, Limits]
ranges = pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.__name__)


@pytest.fixture
def repo():
    return otolith.open("memory:")


def forked(repo, policies=(), **base):
    main = repo.session("s")
    for name, value in base.items():
        main[name] = value
    for pattern, policy in dict(policies).items():
        main.policy(pattern, policy)
    main.commit(allow_empty=True)
    return main, main.fork("fork")


def merged(main, fork):
    """Commit both sides, and merge the second into the first; return the paths in conflict."""
    main.commit()
    fork.commit()
    return [conflict.path for conflict in main.merge(fork).conflicts]


# ---------------------------------------------------------------- merging


def test_two_writers_who_set_different_fields_do_not_conflict(repo):
    main, fork = forked(repo, cfg=Config())
    main["cfg"].retries = 5
    fork["cfg"].timeout = 9.0

    assert merged(main, fork) == []
    assert main["cfg"] == Config(retries=5, timeout=9.0)


def test_a_commit_that_lost_a_race_merges_by_field(repo):
    main, _ = forked(repo, cfg=Config())
    other = repo.session("s")
    main["cfg"].retries = 5
    other["cfg"].timeout = 9.0
    main.commit()
    other.commit()

    assert other["cfg"] == Config(retries=5, timeout=9.0)


def test_models_inside_of_models_dicts_and_fields_merge(repo):
    base = {"team": {"a": Config(inner=Config(inner={"x": 1}))}}
    main, fork = forked(repo, **base)
    main["team"]["a"].inner.retries = 5
    main["team"]["a"].tags.append("ours")
    fork["team"]["a"].inner.inner["x"] = 2
    fork["team"]["a"].inner.inner["y"] = 3
    fork["team"]["a"].tags.append("theirs")

    assert merged(main, fork) == []
    inner = Config(retries=5, inner={"x": 2, "y": 3})
    assert main["team"]["a"] == Config(tags=["ours", "theirs"], inner=inner)


def test_a_model_in_a_list_is_an_element_like_any_other(repo):
    main, fork = forked(repo, steps=[Config(1), Config(2)])
    main["steps"][0].retries = 5
    fork["steps"][0].timeout = 9.0

    assert merged(main, fork) == ["steps"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Config(retries=5), Other(timeout=9.0)),
        (Config(retries=5), {"retries": 3, "timeout": 9.0}),
        (Config(retries=5), None),
    ],
)
def test_values_of_two_types_are_one_conflict(repo, ours, theirs):
    main, fork = forked(repo, cfg=Config())
    main["cfg"], fork["cfg"] = ours, theirs

    assert merged(main, fork) == ["cfg"]


def test_a_class_with_pickle_methods_of_its_own_is_one_value(repo):
    main, fork = forked(repo, x=Secretive(1, 1))
    main["x"].a = 2
    fork["x"].b = 2

    assert merged(main, fork) == ["x"]
    assert [change.path for change in main.diff("fork", "main")] == ["x"]


def model(*parts):
    return Tagged(Tag.MODEL, list(parts))


class AsStored(Codecs):
    """Stores what is tagged as it is, and reads no classes."""

    def __init__(self):
        super().__init__(opaque=True)

    def lower(self, value):
        return value if isinstance(value, Tagged) else super().lower(value)


def stored(base, ours, theirs, codecs=None):
    """Return two branches with values that are given as they are stored."""
    repo = otolith.Repo(MemoryStore(), codecs=codecs or AsStored())
    main, fork = forked(repo, x=base)
    main["x"], fork["x"] = ours, theirs
    return main, fork


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (model("m:C", 1, {"a": 2, "b": 1}), model("m:C", 2, {"a": 1, "b": 2})),
        (model("m:C", 1, {"a": 2, "b": 1}), model("m:D", 1, {"a": 1, "b": 2})),
        (model("m:C", 1, {"a": 2, "b": 1}), model("m:C", 1, {"a": 1, "b": 1, "c": 1})),
        (model("m:C", 1, {"a": 2}), model("m:C", 1, {"b": 2})),
        (
            model("m:C", 1, {"a": 2, "b": 1}, [["a"], {}, None]),
            model("m:C", 1, {"a": 1, "b": 2}, [["a"], None, None]),
        ),
        (model("m:C", 1, {"a": 2, "b": 1}), model("m:C", 1, {"a": 1, "b": 2}, [[], None, None])),
    ],
)
def test_models_of_two_classes_versions_or_shapes_are_one_conflict(ours, theirs):
    main, fork = stored(model("m:C", 1, {"a": 1, "b": 1}), ours, theirs)

    assert merged(main, fork) == ["x"]


@pytest.mark.parametrize("base", [0, {"a": 1, "b": 1}, model("m:C", 2, {"a": 1, "b": 1})])
def test_without_a_base_of_the_class_fields_that_differ_are_conflicts(base):
    main, fork = stored(base, model("m:C", 1, {"a": 1, "b": 2}), model("m:C", 1, {"a": 1, "b": 3}))

    assert merged(main, fork) == ["x/b"]
    assert main.conflicts[0].kind == "add/add"


def test_attributes_that_are_not_fields_merge_by_name(repo):
    main, fork = forked(repo, cfg=Config())
    main["cfg"].mark, fork["cfg"].note = 1, "n"
    fork["cfg"].retries = 5
    assert merged(main, fork) == []
    assert vars(main["cfg"]) == {**vars(Config(retries=5)), "mark": 1, "note": "n"}

    fork.merge("main")
    del main["cfg"].mark
    fork["cfg"].mark, fork["cfg"].timeout = 2, 2.0
    assert merged(main, fork) == ["cfg/mark"]
    assert main.conflicts[0].kind == "edit/delete"
    main.resolve_conflict("cfg/mark", take="theirs")
    main.commit()
    assert (main["cfg"].mark, main["cfg"].timeout) == (2, 2.0)


def test_the_last_attribute_that_is_not_a_field_can_go(repo):
    main, fork = forked(repo, cfg=Config())
    main["cfg"].mark = 1
    main.commit()
    fork.merge("main")
    del main["cfg"].mark
    fork["cfg"].retries = 5

    assert merged(main, fork) == []
    assert vars(main["cfg"]) == vars(Config(retries=5))
    main["cfg"] = Config(retries=5)
    assert main.is_clean


def test_extra_and_private_attributes_of_pydantic_merge_by_name(repo):
    main, fork = forked(repo, x=Open.model_validate({"gone": 1}))
    main["x"].ours = 1
    del main["x"].gone
    fork["x"].theirs = 2
    fork["x"]._seen = 3

    assert merged(main, fork) == []
    found = main["x"]
    assert (found.__pydantic_extra__, found._seen) == ({"ours": 1, "theirs": 2}, 3)
    main.commit()
    fork.merge("main")
    main["x"]._seen, fork["x"]._seen = 4, 5
    assert merged(main, fork) == ["x/_seen"]


def test_a_field_that_one_side_reset_is_set_where_the_value_of_the_other_wins(repo):
    main, fork = forked(repo, {"x/a": "max"}, x=Open(a=1))
    main["x"], fork["x"].a = Open(), 5

    assert merged(main, fork) == []
    assert main["x"].model_dump(exclude_unset=True) == {"a": 5}
    fork.merge("main")
    main["x"], fork["x"].a = Open(), -1
    assert merged(main, fork) == []
    assert main["x"].model_dump(exclude_unset=True) == {}


def test_a_model_that_one_side_removed_and_the_other_changed_is_a_conflict(repo):
    main, fork = forked(repo, cfg=Config())
    del main["cfg"]
    fork["cfg"].retries = 5

    assert merged(main, fork) == ["cfg"]
    assert main.conflicts[0].theirs == Config(retries=5)


def test_below_reserved_names_a_model_is_one_value(repo):
    main, fork = forked(repo, x=1)
    for branch, value in ((main, 5), (fork, 3)):
        cell = branch.cells.put(Config(retries=value, timeout=value * 1.0))
        branch.write_reserved((".loop", "x"), cell)

    assert merged(main, fork) == [".loop/x"]


# ---------------------------------------------------------------- policies


def test_the_policy_of_a_field_decides_about_it(repo):
    rules = {"cfg/retries": "max", "*/timeout": "min", "cfg/tags": "ours"}
    main, fork = forked(repo, rules, cfg=Config(tags=["a"]))
    main["cfg"], fork["cfg"] = Config(5, 2.0, ["x"]), Config(7, 3.0, ["y"])

    assert merged(main, fork) == []
    assert main["cfg"] == Config(7, 2.0, ["x"])


def test_a_policy_of_the_model_decides_about_the_whole(repo):
    main, fork = forked(repo, {"cfg": "theirs"}, cfg=Config())
    main["cfg"].retries, fork["cfg"].timeout = 5, 9.0

    assert merged(main, fork) == []
    assert main["cfg"] == Config(timeout=9.0)


def test_the_policy_error_makes_a_model_one_value(repo):
    main, fork = forked(repo, {"cfg": "error"}, cfg=Config())
    main["cfg"].retries, fork["cfg"].timeout = 5, 9.0

    assert merged(main, fork) == ["cfg"]


def test_a_pattern_of_any_depth_is_for_what_is_in_a_model(repo):
    main, fork = forked(repo, {"**": "last-writer"}, cfg=Config())
    main["cfg"].retries, fork["cfg"].timeout = 5, 9.0

    assert merged(main, fork) == []
    assert main["cfg"] == Config(retries=5, timeout=9.0)


def test_equal_edits_of_a_field_are_one_unless_its_policy_counts_or_reports_them(repo):
    rules = {"cfg/retries": "counter", "cfg/timeout": "error"}
    main, fork = forked(repo, rules, cfg=Config())
    for side in (main, fork):
        side["cfg"].retries += 1
        side["cfg"].timeout = 2.0
        side["cfg"].inner = "same"

    assert merged(main, fork) == ["cfg/timeout"]
    assert main["cfg"] == Config(5, 2.0, inner="same")


def test_the_policy_map_merges_models_and_nothing_else(repo):
    main, fork = forked(repo, {"cfg": "map"}, cfg=Config())
    main["cfg"].retries, fork["cfg"].timeout = 5, 9.0
    assert merged(main, fork) == []
    fork.merge("main")

    main["cfg"], fork["cfg"] = Config(), Other()
    assert merged(main, fork) == ["cfg"]


# ---------------------------------------------------------------- conflicts


@pytest.fixture
def conflicted(repo):
    main, fork = forked(repo, cfg=Config())
    main["cfg"], fork["cfg"] = Config(5, 2.0), Config(7, 1.0, ["theirs"])
    assert merged(main, fork) == ["cfg/retries"]
    return main


def test_a_conflict_names_the_field(conflicted):
    (conflict,) = conflicted.conflicts

    assert (conflict.base, conflict.ours, conflict.theirs) == (3, 5, 7)
    assert conflicted["cfg"] == Config(5, 2.0, ["theirs"])
    with pytest.raises(MergeConflict, match="cfg/retries"):
        conflicted.commit()


@pytest.mark.parametrize(("side", "retries"), [("ours", 5), ("theirs", 7), ("base", 3)])
def test_a_conflict_about_a_field_is_decided_for_a_side(conflicted, side, retries):
    conflicted.resolve_conflict("cfg/retries", take=side)

    assert conflicted.conflicts == []
    conflicted.commit()
    assert conflicted["cfg"] == Config(retries, 2.0, ["theirs"])


def by_value(state):
    state.resolve_conflict("cfg/retries", value=4)


def by_path(state):
    state["cfg/retries"] = 4


def by_attribute(state):
    state["cfg"].retries = 4
    assert len(state.status()) > 0


def as_a_whole(state):
    state["cfg"] = Config(4, 2.0, ["theirs"])


@pytest.mark.parametrize("decide", [by_value, by_path, by_attribute, as_a_whole])
def test_a_conflict_about_a_field_is_decided_by_writing(conflicted, decide):
    decide(conflicted)

    assert conflicted.conflicts == []
    conflicted.commit()
    assert conflicted["cfg"] == Config(4, 2.0, ["theirs"])


def test_another_process_decides_about_a_field():
    store = MemoryStore()
    main, fork = forked(otolith.Repo(store), cfg=Config())
    main["cfg"].retries, fork["cfg"].retries = 5, 7
    merged(main, fork)
    main.stash()

    other = otolith.Repo(store).session("s")
    other.unstash()
    other.resolve_conflict("cfg/retries", take="theirs")
    other.commit()
    assert other["cfg"].retries == 7


def crossed(repo, ours, theirs):
    """Let two branches merge each other while one field is in conflict, and decide it so."""
    main, fork = forked(repo, cfg=Config())
    main["cfg"], fork["cfg"] = Config(5, 2.0), Config(7, 1.0, ["theirs"])
    mine, yours = main.commit(), fork.commit()
    for state, other, value in ((main, yours, ours), (fork, mine, theirs)):
        state.merge(other)
        state.resolve_conflict("cfg/retries", value=value)
        state.commit()
    return main, fork


def test_branches_that_decided_alike_about_a_field_agree(repo):
    main, fork = crossed(repo, 6, 6)
    main["cfg"].timeout = 3.0
    fork["cfg"].inner = "more"

    assert merged(main, fork) == []
    assert main["cfg"] == Config(6, 3.0, ["theirs"], "more")


def test_branches_that_decided_differently_about_a_field_conflict_there(repo):
    main, fork = crossed(repo, 6, 3)
    main["cfg"].timeout = 3.0

    assert merged(main, fork) == ["cfg/retries"]
    assert main.conflicts[0].base == 3


def test_a_field_that_was_in_dispute_has_no_base_as_a_part_of_the_whole(repo):
    main, fork = crossed(repo, 6, 8)
    main.policy("cfg", "error")
    main.commit()
    fork.policy("cfg", "error")

    assert merged(main, fork) == ["cfg"]
    assert main.conflicts[0].base == Config(3, 2.0, ["theirs"])


# ---------------------------------------------------------------- what a class refuses


@ranges
def test_fields_that_a_class_refuses_together_are_a_conflict_about_the_whole(repo, kind):
    main, fork = forked(repo, x=kind(low=1, high=5), y=1)
    main["x"] = kind(low=4, high=5)
    fork["x"], fork["y"] = kind(low=1, high=2), 2

    assert merged(main, fork) == ["x"]
    assert "low is above high" in main.conflicts[0].why
    assert (main["x"], main["y"]) == (kind(low=4, high=5), 2)
    main.resolve_conflict("x", take="theirs")
    main.commit()
    assert main["x"] == kind(low=1, high=2)


@ranges
def test_fields_that_a_class_accepts_together_merge(repo, kind):
    main, fork = forked(repo, x=kind(low=1, high=5))
    main["x"], fork["x"] = kind(low=2, high=5), kind(low=1, high=4)

    assert merged(main, fork) == []
    assert main["x"] == kind(low=2, high=4)


def test_a_frozen_class_with_aliases_is_asked_too(repo):
    main, fork = forked(repo, x=Still(**{"from": 1}, high=5))
    main["x"], fork["x"] = Still(**{"from": 4}, high=5), Still(**{"from": 1}, high=2)

    assert merged(main, fork) == ["x"]


@ranges
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_all_conflicts_in_a_model_can_be_decided_for_one_side(repo, kind, side):
    main, fork = forked(repo, x=kind(low=1, high=10))
    main["x"], fork["x"] = kind(low=8, high=9), kind(low=2, high=3)
    assert merged(main, fork) == ["x/high", "x/low"]

    for conflict in main.conflicts:
        main.resolve_conflict(conflict.path, take=side)
    main.commit()

    assert main["x"] == (kind(low=8, high=9) if side == "ours" else kind(low=2, high=3))


@ranges
def test_decisions_that_make_what_a_class_refuses_are_refused(repo, kind):
    main, fork = forked(repo, x=kind(low=1, high=10))
    main["x"], fork["x"] = kind(low=8, high=9), kind(low=2, high=3)
    merged(main, fork)

    main.resolve_conflict("x/high", take="theirs")
    for _ in range(2):
        with pytest.raises(Invalid, match="low is above high"):
            main.resolve_conflict("x/low", take="ours")
    assert [conflict.path for conflict in main.conflicts] == ["x/low"]
    main.resolve_conflict("x/low", take="theirs")
    main.commit()
    assert main["x"] == kind(low=2, high=3)


def test_conflicts_among_fields_that_a_class_refuses_are_one_conflict(repo):
    main, fork = forked(repo, x=Bounds(low=1, high=10))
    main["x"], fork["x"] = Bounds(low=5, high=10), Bounds(low=2, high=3)

    assert merged(main, fork) == ["x"]


def test_a_counter_in_a_field_stays_in_its_limits(repo):
    main, fork = forked(repo, {"x/spent": "counter"}, x=Budget(spent=40))
    main["x"].spent, fork["x"].spent = 70, 60
    assert merged(main, fork) == []
    assert main["x"].spent == 90
    fork.merge("main")

    main["x"].spent, fork["x"].spent = 96, 95
    assert merged(main, fork) == ["x"]
    assert "less than or equal to 100" in main.conflicts[0].why


def test_branches_that_refused_the_same_fields_together_decide_about_the_whole(repo):
    main, fork = forked(repo, x=Bounds(low=1, high=5))
    main["x"], fork["x"] = Bounds(low=4, high=5), Bounds(low=1, high=2)
    mine, yours = main.commit(), fork.commit()
    for state, other, side in ((main, yours, "ours"), (fork, mine, "ours")):
        state.merge(other)
        state.resolve_conflict("x", take=side)
        state.commit()

    assert merged(main, fork) == ["x"]


def test_a_class_that_refuses_what_it_consists_of_is_not_asked(repo):
    clock = Clock("90")
    clock.minutes = 90
    main, fork = forked(repo, x=clock)
    main["x"].zone, fork["x"].minutes = "CET", 91

    assert merged(main, fork) == []
    assert (main["x"].zone, main["x"].minutes) == ("CET", 91)


def test_where_a_class_is_not_known_it_is_not_asked():
    store, known = MemoryStore(), Codecs()
    known.register_model(Bounds, name="shop:Bounds")
    main, fork = forked(otolith.Repo(store, codecs=known), x=Bounds(low=1, high=5))
    main["x"], fork["x"] = Bounds(low=4, high=5), Bounds(low=1, high=2)
    main.commit()
    fork.commit()

    stranger = otolith.Repo(store, codecs=Codecs()).session("s")
    assert stranger.merge("fork").ok

    again = otolith.Repo(store, codecs=known).session("s")
    with pytest.raises(UnknownType, match="does not accept its stored fields"):
        again["x"]
    again["x/low"] = 1
    again.commit()
    assert again["x"] == Bounds(low=1, high=2)


# ---------------------------------------------------------------- differences and history


def test_a_diff_names_the_field(repo):
    main, _ = forked(repo, cfg=Config(inner=Config()))
    main["cfg"].retries = 5
    main["cfg"].inner.tags.append("new")

    found = [(change.kind, change.path, change.old, change.new) for change in main.status()]
    assert found == [("added", "cfg/inner/tags/0", None, "new"), ("changed", "cfg/retries", 3, 5)]


def test_a_diff_of_two_classes_names_the_whole(repo):
    main, _ = forked(repo, cfg=Config())
    main["cfg"] = Other()

    assert [(change.kind, change.path) for change in main.status()] == [("changed", "cfg")]


def test_a_diff_tells_of_attributes_that_come_and_go(repo):
    main, _ = forked(repo, x=Open.model_validate({"gone": 1}), cfg=Config())
    main["x"].new, main["cfg"].mark = 2, 3
    del main["x"].gone

    found = [(change.kind, change.path) for change in main.status()]
    assert found == [("added", "cfg/mark"), ("removed", "x/gone"), ("added", "x/new")]


def test_a_field_that_was_set_to_its_default_is_a_change_of_the_model(repo):
    main, _ = forked(repo, x=Open())
    main["x"].a = 0
    assert [(change.kind, change.path) for change in main.status()] == [("changed", "x")]

    main["x"].a = 1
    assert [(change.kind, change.path) for change in main.status()] == [("changed", "x/a")]


def test_another_order_of_extra_attributes_is_a_change_of_the_model(repo):
    main, _ = forked(repo, x=Open.model_validate({"u": 1, "v": 2}))
    main["x"] = Open.model_validate({"v": 2, "u": 1})

    assert [(change.kind, change.path) for change in main.status()] == [("changed", "x")]


def test_history_is_asked_by_field(repo):
    main, fork = forked(repo, cfg=Config(inner={"x": 1}))
    main["cfg"].retries = 5
    retried = main.commit("retries")
    fork["cfg"].inner["x"] = 2
    nested = fork.commit("inner")
    main.merge(fork)

    *_, first = main.log()
    assert {blame.path: blame.commit for blame in main.blame("cfg")} == {
        "cfg/inner": nested,
        "cfg/retries": retried,
        "cfg/tags": first,
        "cfg/timeout": first,
    }
    assert [blame.commit for blame in main.blame("cfg/inner/x")] == [nested]
    assert [commit.message for commit in main.log(path="cfg/retries")] == ["retries", ""]
    assert [commit.message for commit in main.log(path="cfg/inner")] == ["inner", ""]


@dataclass
class Empty:
    pass


def test_blame_of_a_model_without_fields_names_its_writer(repo):
    main, _ = forked(repo, x=Empty())

    assert [blame.path for blame in main.blame("x")] == ["x"]
