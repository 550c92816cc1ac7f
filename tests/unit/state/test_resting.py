"""A value that nobody has any more is not looked at; one that somebody can still change is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otolith import Memory, Versioned
from otolith.state.tracker import fingerprints, imprints

SHORT = {"rows": [{"n": 1}, {"n": 2}], "tags": ["a"], "pair": ([1], 2)}
LONG = {"rows": [{"n": number, "text": "x" * 50} for number in range(1000)], "tags": ["a"]}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was fingerprinted, by type: a reference would keep it from resting."""
    seen: list[str] = []
    print = fingerprints.fingerprint

    def note(value: object, lower: Any) -> int | None:
        seen.append(type(value).__name__)
        return print(value, lower)

    monkeypatch.setattr(imprints, "fingerprint", note)
    yield seen
    seen.clear()


@pytest.fixture(params=["short", "long"])
def state(request: pytest.FixtureRequest) -> Versioned:
    state = Versioned(Memory())
    value = SHORT if request.param == "short" else LONG
    state["cfg"] = {key: part.copy() if type(part) is list else part for key, part in value.items()}
    state["other"] = [0]
    state.commit("first")
    return Versioned(state.repo)


def settle(state: Versioned) -> None:
    """Commit often enough for everything to rest that can."""
    for number in range(3):
        state["number"] = number
        state.commit()


def test_what_nobody_has_is_not_looked_at(state: Versioned, looks: list[str]) -> None:
    assert state["cfg"]["tags"] == ["a"]
    settle(state)
    looks.clear()
    settle(state)
    assert looks == []


def test_a_change_just_before_letting_go_is_seen(state: Versioned) -> None:
    settle(state)
    state["cfg"]["tags"].append("b")
    settle(state)
    assert Versioned(state.repo)["cfg"]["tags"] == ["a", "b"]


def test_a_change_after_resting_and_reading_again_is_seen(state: Versioned) -> None:
    assert state["cfg/rows/0/n"] is not None
    settle(state)
    state["cfg/tags"].append("b")
    settle(state)
    state["cfg/rows/0/n"] = 77
    settle(state)
    again = Versioned(state.repo)["cfg"]
    assert (again["tags"], again["rows"][0]["n"]) == (["a", "b"], 77)


KEEPERS: dict[str, Callable[[Any], Any]] = {
    "the value": lambda cfg: cfg,
    "a part": lambda cfg: cfg["rows"][1],
    "a method": lambda cfg: cfg["rows"][1].update,
    "a view": lambda cfg: cfg["rows"][1].items(),
    "an iterator": lambda cfg: iter(cfg["rows"]),
    "a closure": lambda cfg: lambda: cfg,
    "a list of it": lambda cfg: [cfg["rows"][1]],
}


@pytest.mark.parametrize("keeper", KEEPERS)
def test_whoever_still_has_it_can_change_it(state: Versioned, keeper: str) -> None:
    kept = KEEPERS[keeper](state["cfg"])
    settle(state)
    held: Any = state._held._holds[("cfg",)].value
    row = held["rows"][1]
    row["n"] = 99
    del held, row
    settle(state)
    assert Versioned(state.repo)["cfg"]["rows"][1]["n"] == 99, kept


def test_a_part_that_is_in_another_value_too_can_change_there(state: Versioned) -> None:
    state["both"] = {"tags": state["cfg"]["tags"]}
    settle(state)
    state["both"]["tags"].append("b")
    settle(state)
    assert Versioned(state.repo)["cfg"]["tags"] == ["a", "b"]


def test_what_rests_follows_a_rollback(state: Versioned) -> None:
    before = state.head
    state["cfg"]["tags"].append("b")
    settle(state)
    state.rollback(before)
    assert state["cfg"]["tags"] == ["a"]
    settle(state)
    assert Versioned(state.repo)["cfg"]["tags"] == ["a"]


def test_what_rests_follows_another_writer(state: Versioned) -> None:
    assert state["cfg"]["tags"] == ["a"]
    settle(state)
    other = Versioned(state.repo)
    other["cfg"]["tags"].append("b")
    other.commit()
    state.refresh()
    state["cfg"]["tags"].append("c")
    settle(state)
    assert Versioned(state.repo)["cfg"]["tags"] == ["a", "b", "c"]


def test_an_object_with_weak_references_never_rests(looks: list[str]) -> None:
    state = Versioned(Memory())
    state["words"] = {"a", "b"}
    settle(state)
    looks.clear()
    settle(state)
    assert looks
