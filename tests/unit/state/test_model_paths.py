"""Paths lead into models: what a diff or a conflict names can be read and written by its path."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

import otolith
from otolith import Live
from otolith.codecs import Codecs, Opaque
from otolith.errors import BadPath, Invalid, KeyNotFound, UnknownType
from otolith.stores import MemoryStore


@dataclass
class Config:
    retries: int = 3
    tags: list[str] = field(default_factory=list)
    inner: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    retries: int = 3
    tags: Any = None
    inner: Any = None


@attrs.frozen(cache_hash=True)
class Coin:
    retries: int = 3
    tags: Any = None
    inner: Any = None


class Struct(msgspec.Struct, frozen=True):
    retries: int = 3
    tags: Any = None
    inner: Any = None


class Closed(pydantic.BaseModel, frozen=True):
    retries: int = 3
    tags: Any = None
    inner: Any = None


Named = namedtuple("Named", "retries tags inner", defaults=(3, None, None))  # noqa: PYI024


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 0
    _seen: int = pydantic.PrivateAttr(default=0)


class Careful(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_assignment=True)
    low: int = 0
    high: int = 5

    @pydantic.model_validator(mode="after")
    def _check(self):
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@attrs.define
class Checked:
    low: int = attrs.field(default=0, validator=attrs.validators.instance_of(int))


KINDS: list[Any] = [Config, Frozen, Coin, Struct, Closed, Named]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@pytest.fixture(params=["held", "not held"])
def reopened(request):
    """Return a function that stores a value, and opens the state again, with it held or not."""

    def reopen(**values):
        repo = otolith.open("memory:")
        state = repo.session("s")
        state.update(values)
        state.commit()
        again = repo.session("s")
        if request.param == "held":
            for name in values:
                again[name]
        return again

    return reopen


# ---------------------------------------------------------------- reading


@kinds
def test_a_path_leads_into_a_model(reopened, kind):
    state = reopened(team={"a": kind(inner=Config(inner=[1, {"x": 2}]))})

    for view in (state, state.at("@"), state.repo.at(state.head)):
        assert view["team/a/retries"] == 3
        assert view["team/a/inner/inner/1/x"] == 2
        assert "team/a/tags" in view
        assert "team/a/none" not in view
        assert view.get("team/a/none", 7) == 7
        with pytest.raises(KeyNotFound, match="nothing at team/a/retries/x"):
            view["team/a/retries/x"]


def test_a_part_of_a_model_is_the_object_that_the_model_has(reopened):
    state = reopened(cfg=Config(tags=["a"]))

    state["cfg/tags"].append("b")
    assert state["cfg"].tags is state["cfg/tags"]
    assert [change.path for change in state.status()] == ["cfg/tags/1"]


def test_methods_and_class_attributes_are_not_parts(reopened):
    state = reopened(x=Open(), cfg=Config())

    for path in ("x/model_dump", "x/model_config", "cfg/__dict__", "cfg/__class__"):
        assert path not in state
        with pytest.raises(KeyNotFound):
            state[path]


def test_attributes_that_are_not_fields_are_read_too(reopened):
    value = Open.model_validate({"a": 1, "more": 2})
    value._seen = 3
    state = reopened(x=value)

    assert (state["x/a"], state["x/more"], state["x/_seen"]) == (1, 2, 3)


def test_handles_work_on_fields(reopened):
    state = reopened(cfg=Config(inner={"seen": {1}, "data": b"12", "map": {}}))

    state.counter("cfg/retries").add(2)
    state.list("cfg/tags").append("a")
    state.set("cfg/inner/seen").add(2)
    state.blob("cfg/inner/data").append(b"3")
    state.map("cfg/inner/map")["k"] = 1
    state.commit()

    inner = {"seen": {1, 2}, "data": b"123", "map": {"k": 1}}
    assert state["cfg"] == state.at("@")["cfg"] == Config(5, ["a"], inner)
    assert state.policies() == {"cfg/retries": "counter"}


def test_a_frame_in_a_field_is_read_by_column():
    pandas = pytest.importorskip("pandas")
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["cfg"] = Config(inner=pandas.DataFrame({"a": [1, 2], "b": [3, 4]}))
    state.commit()

    assert list(repo.session("s").frame("cfg/inner")["b"]) == [3, 4]


# ---------------------------------------------------------------- writing


@kinds
def test_a_field_is_set_by_its_path(reopened, kind):
    state = reopened(x=kind(inner=kind()), team={"a": kind()}, steps=[kind()])

    state["x/retries"] = 5
    state["x/inner/tags"] = ["new"]
    state["team/a/retries"] = 6
    state["steps/0/retries"] = 7

    assert state["x"] == kind(retries=5, inner=kind(tags=["new"]))
    assert (state["team/a"], state["steps"]) == (kind(retries=6), [kind(retries=7)])
    state.commit()
    assert state.at("@").to_dict() == state.to_dict()


def test_the_object_that_is_held_is_the_one_that_is_set():
    state = otolith.open("memory:").session("s")
    cfg = state["cfg"] = Config()
    state["cfg/retries"] = 5

    assert cfg.retries == 5
    assert state["cfg"] is cfg


@kinds
def test_a_frozen_object_stays_as_it_is(kind):
    state = otolith.open("memory:").session("s")
    value = state["x"] = kind()
    hash(value) if kind is not Config else None
    state["x/retries"] = 5

    assert value == kind(retries=5 if kind is Config else 3)
    assert state["x"] == kind(retries=5)
    assert kind is Config or hash(state["x"]) == hash(kind(retries=5))


@pytest.mark.parametrize("value", [1, [1]])
def test_a_name_that_a_model_does_not_have_is_refused(reopened, value):
    state = reopened(cfg=Config(), pt=Named())

    for path in ("cfg/retires", "pt/retires", "cfg/retries/deep", "cfg/none/deep", "cfg/~:1"):
        with pytest.raises((KeyNotFound, BadPath), match=path.partition("/")[0]):
            state[path] = value
    assert state.is_clean


def test_a_field_cannot_be_removed(reopened):
    state = reopened(cfg=Config(inner={"x": 1}))

    with pytest.raises(BadPath, match="cfg/retries is a field"):
        del state["cfg/retries"]
    with pytest.raises(KeyNotFound):
        del state["cfg/none"]
    del state["cfg/inner/x"]
    assert state["cfg"] == Config(inner={})


def test_extra_attributes_come_and_go_by_path(reopened):
    state = reopened(x=Open.model_validate({"gone": 1}))

    state["x/new"] = [2]
    state["x/_seen"] = 3
    del state["x/gone"]

    assert (state["x"].__pydantic_extra__, state["x"]._seen) == ({"new": [2]}, 3)
    assert "new" in state["x"].model_dump(exclude_unset=True)
    state.commit()
    assert state.at("@")["x"] == state["x"]
    with pytest.raises((KeyNotFound, Invalid)):
        state["x/_other"] = 1


def test_what_a_class_refuses_is_refused_by_path(reopened):
    state = reopened(x=Careful(), y=Checked())

    for path, value in {"x/low": 9, "x/high": "many", "y/low": "text"}.items():
        with pytest.raises(Invalid, match=path):
            state[path] = value
    assert state.is_clean
    state["x/low"], state["y/low"] = 4, 7
    assert (state["x"], state["y"]) == (Careful(low=4), Checked(7))


def test_a_list_in_a_field_of_a_model_that_is_not_held_can_be_set():
    repo = otolith.open("memory:")
    repo.session("s")["x"] = 0
    state = repo.session("s")
    state["cfg"] = Config()
    state.commit()

    again = repo.session("s")
    tags = again["cfg/tags"] = ["a"]
    tags.append("b")
    again.commit()
    assert again["cfg"] == Config(tags=["a", "b"])


def test_a_write_that_is_refused_loses_no_change_in_place():
    repo = otolith.open("memory:")
    circle: dict[str, Any] = {"x": 1}
    circle["me"] = circle
    state = repo.session("s")
    state["circle"], state["cfg"] = circle, Config()
    state.commit()
    for name in ("circle", "cfg"):
        again = repo.session("s")
        value = again[name]
        (value if name == "circle" else vars(value))["inner"] = 5
        with pytest.raises((BadPath, KeyNotFound)):
            again[f"{name}/inner/deep"] = 1
        assert again[name] is value
        assert not again.is_clean


# ---------------------------------------------------------------- classes that are not known


@pytest.fixture
def store():
    """Return a store with a model of a class that is known by another name."""
    store, known = MemoryStore(), Codecs()
    known.register_model(Config, name="shop:Config")
    state = otolith.Repo(store, codecs=known).session("s")
    state["cfg"], state["box"] = Config(tags=["a"]), {"cfg": Config()}
    state.commit()
    return store


def known(store):
    codecs = Codecs()
    codecs.register_model(Config, name="shop:Config")
    return otolith.Repo(store, codecs=codecs).session("s")


def test_fields_are_read_and_written_without_the_class(store):
    stranger = otolith.Repo(store, codecs=Codecs()).session("s")
    with pytest.raises(UnknownType):
        stranger["cfg"]
    assert stranger["cfg/retries"] == 3

    stranger["cfg/retries"] = 5
    stranger["cfg/inner"] = ["a", "list"]
    stranger["box/cfg/retries"] = 6
    with pytest.raises(KeyNotFound):
        stranger["cfg/retires"] = 5
    stranger.commit()

    assert known(store)["cfg"] == Config(5, ["a"], ["a", "list"])
    assert known(store)["box"] == {"cfg": Config(6)}


def test_fields_of_opaque_values_are_read_and_written(store):
    opaque = otolith.Repo(store, codecs=Codecs(opaque=True)).session("s")
    assert type(opaque["cfg"]) is Opaque
    assert opaque["cfg/tags"] == ["a"]

    opaque["cfg/retries"] = 5
    opaque["cfg/inner"] = ["a", "list"]
    assert opaque["cfg/retries"] == 5
    for path in ("cfg/tagged", "cfg/retires"):
        with pytest.raises(KeyNotFound):
            opaque[path] = 5
    opaque.commit()

    assert known(store)["cfg"] == Config(5, ["a"], ["a", "list"])


def test_an_opaque_model_notes_which_fields_were_set():
    store, known = MemoryStore(), Codecs()
    known.register_model(Open, name="shop:Open")
    state = otolith.Repo(store, codecs=known).session("s")
    state["x"] = Open.model_validate({"more": 1})
    state.commit()
    opaque = otolith.Repo(store, codecs=Codecs(opaque=True)).session("s")
    assert type(opaque["x"]) is Opaque
    opaque["x/a"], opaque["x/more"], opaque["x/_seen"] = 5, 6, 7
    opaque.commit()

    found = otolith.Repo(store, codecs=known).session("s")["x"]
    assert (found.a, found.more, found._seen) == (5, 6, 7)
    assert found.__pydantic_fields_set__ == {"a", "more"}


@dataclass
class Sized:
    __otolith_version__ = 2
    size: int


@otolith.migration(Sized, 1, 2)
def rename_length(fields):
    return {"size": fields["length"]}


def test_fields_of_an_older_version_are_read_by_the_names_of_today():
    store = MemoryStore()

    @dataclass
    class Before:
        length: int

    codecs = Codecs()
    codecs.register_model(Before, name=f"{__name__}:Sized")
    state = otolith.Repo(store, codecs=codecs).session("s")
    state["x"] = Before(3)
    state.commit()

    again = otolith.Repo(store).session("s")
    assert (again["x/size"], again.at("@")["x/size"]) == (3, 3)
    other = otolith.Repo(store).session("s")
    other["x/size"] = 4
    other.commit()
    assert otolith.Repo(store).session("s")["x"] == Sized(4)


# ---------------------------------------------------------------- without history


@kinds
def test_live_state_reads_and_writes_fields(kind):
    state = Live({"x": kind(inner={"a": 1})})

    state["x/retries"] = 5
    state["x/inner/b"] = 2
    assert (state["x/retries"], state["x/inner/a"]) == (5, 1)
    assert state["x"] == kind(retries=5, inner={"a": 1, "b": 2})
    with pytest.raises(KeyNotFound):
        state["x/retires"]
    with pytest.raises(BadPath):
        del state["x/retries"]


# ---------------------------------------------------------------- objects that are held


class Defined(Config):
    """Has what it computed in its attributes."""

    @cached_property
    def label(self) -> str:
        return f"{self.retries} times"


@attrs.define
class Slotted:
    retries: int = 3
    tags: list[str] = attrs.field(factory=list)
    inner: Any = None


class Mutable(msgspec.Struct):
    retries: int = 3
    tags: list[str] = msgspec.field(default_factory=list)
    inner: Any = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    retries: int = 3
    tags: list[str] = []
    inner: Any = None


@pytest.mark.parametrize("kind", [Config, Slotted, Mutable, Model], ids=lambda kind: kind.__name__)
def test_an_object_that_is_held_has_what_others_committed(kind):
    state = otolith.open("memory:").session("s")
    cfg = state["cfg"] = kind(inner=kind())
    tags, inner = cfg.tags, cfg.inner
    state.commit()
    other = state.fork("other")
    other["cfg/retries"] = 5
    other["cfg/inner/retries"] = 6
    other["cfg/tags"].append("theirs")
    other.commit()
    cfg.tags.append("ours")
    state.commit()

    state.merge("other")
    assert (cfg.retries, cfg.inner.retries, sorted(cfg.tags)) == (5, 6, ["ours", "theirs"])
    assert state["cfg"] is cfg
    assert cfg.tags is tags
    assert cfg.inner is inner
    cfg.retries = 7
    assert [change.path for change in state.status()] == ["cfg/retries"]


def test_a_program_that_lost_a_race_goes_on_with_its_object():
    repo = otolith.open("memory:")
    mine, yours = repo.session("s"), repo.session("s")
    cfg = mine["cfg"] = Config()
    mine.commit()
    yours.refresh()
    for round in range(3):
        cfg.retries += 1
        yours["cfg"].tags.append(str(round))
        yours.commit()
        mine.commit()
        yours.refresh()

    assert mine["cfg"] is cfg
    assert cfg == repo.session("s")["cfg"] == Config(6, ["0", "1", "2"])


def test_what_an_object_computed_is_computed_again():
    state = otolith.open("memory:").session("s")
    value = state["x"] = Defined()
    assert value.label == "3 times"
    state.commit()
    value.retries = 4
    state.commit()
    state.rollback(steps=1)

    assert (state["x"] is value, value.label) == (True, "3 times")


def test_attributes_come_and_go_with_what_others_committed():
    state = otolith.open("memory:").session("s")
    cfg: Any = Config()
    model: Any = Model()
    state["cfg"], state["model"] = cfg, model
    state.commit()
    cfg.mark, model.more = 1, 2
    state.commit()
    state.rollback(steps=1)
    assert (vars(cfg), model.__pydantic_extra__) == (vars(Config()), {})
    state.undo()
    assert (cfg.mark, model.more, model.model_fields_set) == (1, 2, {"more"})


@dataclass(frozen=True)
class Fixed:
    tags: list[str] = field(default_factory=list)


def test_a_frozen_object_is_replaced_by_what_others_committed():
    state = otolith.open("memory:").session("s")
    value = state["x"] = Fixed()
    state.commit()
    other = state.fork("other")
    other["x/tags"].append("new")
    other.commit()
    state.merge("other")

    assert (value, state["x"]) == (Fixed(), Fixed(["new"]))
