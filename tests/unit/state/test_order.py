"""Dicts come back in their order, whatever is done with a state, and whatever they are part of."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict, defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

import otolith
from otolith.codecs import identical


@dataclass
class Trip:
    to: str
    at: dict[str, int]
    by: str = "train"


@attrs.define
class Hotel:
    name: str
    city: str


class Turn(msgspec.Struct):
    role: str
    content: dict[str, int]


class Profile(pydantic.BaseModel, extra="allow"):
    name: str
    age: int
    home: dict[str, int]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "agent.db"


def reopened(place, **values):
    """Commit values in one repo, and return the state as another one reads it."""
    with otolith.open(place) as repo:
        state = repo.session("s")
        state.update(values)
        state.commit("values")
    return otolith.open(place).session("s")


ROW = {"zip": "N1", "age": 36, "name": {"last": "L", "first": "A"}}
LARGE = {f"key {number}": dict(ROW) for number in range(900)}


@pytest.mark.parametrize("value", [ROW, [ROW, [ROW]], (ROW, 1), LARGE, {"deep": {"er": LARGE}}])
def test_dicts_are_in_their_order_after_a_restart(place, value):
    assert identical(reopened(place, x=value)["x"], value)
    assert identical(reopened(place, x=value).to_dict(), {"x": value})


@pytest.mark.parametrize("value", [ROW, LARGE])
def test_every_verb_keeps_the_order(value):
    repo = otolith.open("memory:")
    state = repo.session("s")
    state["x"] = dict(value)
    first = state.commit("first")
    key = next(iter(value))
    state["x"][key] = state["x"].pop(key)
    state.commit("the first key is the last")
    turned = [*list(value)[1:], key]

    assert list(state.fork("fork")["x"]) == turned
    assert list(state.at(first)["x"]) == list(value)
    state.undo()
    assert list(state["x"]) == list(value)
    state.redo()
    assert list(state["x"]) == turned
    state.rollback(first)
    assert list(state["x"]) == list(value)


def test_a_commit_that_only_changes_the_order_is_one(place):
    state = reopened(place, x=dict(ROW), y=dict(LARGE))
    before = state.head
    state["x"]["zip"] = state["x"].pop("zip")
    state["y"]["key 7"] = state["y"].pop("key 7")

    assert {change.path for change in state.status()} == {"x", "y"}
    assert state.commit("order").root != before.root
    assert list(otolith.open(place).session("s")["x"]) == ["age", "name", "zip"]


def test_reading_in_another_process_makes_no_change(place):
    state = reopened(place, x=dict(ROW), y=dict(LARGE), z={"s": set("zyx")})
    for name in state:
        assert state[name] is not None

    assert state.is_clean
    assert state.commit("nothing") == state.head


def test_models_have_the_fields_of_their_class_in_order(place):
    extra: dict[str, Any] = {"zoo": 1, "ant": 2}
    profile = Profile(name="Ada", age=36, home={"z": 1, "a": 2}, **extra)
    values = {
        "profile": profile,
        "trip": Trip("Rome", {"z": 1, "a": 2}),
        "hotel": Hotel("Grand", "Rome"),
        "turn": Turn("user", {"z": 1, "a": 2}),
    }
    dumped = profile.model_dump_json()
    trip, hotel, turn = (json.dumps(as_data(values[name])) for name in ("trip", "hotel", "turn"))
    state = reopened(place, **values)

    assert state["profile"].model_dump_json() == dumped
    assert list(vars(state["trip"])) == ["to", "at", "by"]
    assert [json.dumps(as_data(state[name])) for name in ("trip", "hotel", "turn")] == [
        trip, hotel, turn,
    ]  # fmt: skip


def as_data(value: Any) -> Any:
    if isinstance(value, Trip):
        return asdict(value)
    return attrs.asdict(value) if isinstance(value, Hotel) else msgspec.to_builtins(value)


def test_dicts_of_other_classes_have_their_order(place):
    kinds = {
        "counter": Counter("zzabbb"),
        "ordered": OrderedDict(z=1, a=2),
        "default": defaultdict(list, {"z": [1], "a": [2]}),
    }
    state = reopened(place, **kinds)

    assert {name: repr(state[name]) for name in kinds} == {
        name: repr(value) for name, value in kinds.items()
    }


def test_a_frame_made_of_stored_rows_has_its_columns_in_order(place):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([ROW])
    frame.attrs = {"source": 1, "by": 2}
    state = reopened(place, rows=[ROW], frame=frame)

    assert list(pd.DataFrame(state["rows"]).columns) == ["zip", "age", "name"]
    assert list(state["frame"].attrs) == ["source", "by"]


def test_events_have_their_data_in_order(place):
    with otolith.open(place) as repo:
        state = repo.session("s")
        state.events.append("booked", hotel="Grand", city="Rome", at={"z": 1, "a": 2})
        state.commit("event")
    (event,) = otolith.open(place).session("s").events

    assert list(event.data) == ["hotel", "city", "at"]
    assert list(event.data["at"]) == ["z", "a"]


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
def test_a_provider_is_sent_the_arguments_of_a_tool_in_their_order(place, provider):
    arguments = {"to": "Rome", "adults": 2, "at": {"month": 5, "day": 1}}
    with otolith.open(place) as repo:
        state = repo.session("s")
        chat = state.conversation
        chat.user("book")
        chat.assistant("", tool_calls=[otolith.ToolCall("c1", "book", arguments)])
        chat.tool("c1", {"ok": True, "id": 7})
        state.commit("talk")
        before = json.dumps(chat.dump(provider))
    chat = otolith.open(place).session("s").conversation

    text = json.dumps(chat.dump(provider)).replace("\\", "").replace(" ", "")
    assert json.dumps(chat.dump(provider)) == before
    assert '{"to":"Rome","adults":2,"at":{"month":5,"day":1}}' in text
    assert '{"ok":true,"id":7}' in text
