"""No merge commits what the schema forbids: by itself, or inside a commit that lost a race."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

import pytest
from annotated_types import MaxLen

import otolith
from otolith.errors import MergeConflict, SchemaMismatch


class Trip(TypedDict):
    """Three tags at most, and a name."""

    tags: Annotated[list[str], MaxLen(3)]
    name: NotRequired[str]


@pytest.fixture
def repo():
    with otolith.open("memory:") as repo:
        state = repo.session("trip", schema=Trip)
        state["tags"] = ["x"]
        state.commit("base")
        yield repo


def test_a_lost_race_that_would_break_the_schema_is_a_conflict(repo):
    one, two = (repo.session("trip", schema=Trip) for _ in range(2))
    one["tags"].extend(["a", "b"])
    two["tags"].extend(["c", "d"])
    two["name"] = "Rome"
    first = one.commit()

    with pytest.raises(MergeConflict) as refused:
        two.commit()

    assert refused.value.paths == ("tags",)
    (conflict,) = two.conflicts
    assert (conflict.base, conflict.ours) == (["x"], ["x", "c", "d"])
    assert (conflict.theirs, "Trip" in conflict.why) == (["x", "a", "b"], True)
    assert repo.session("trip").head == first
    two["tags"] = ["a", "c"]
    two.commit()
    assert repo.session("trip", schema=Trip).to_dict() == {"tags": ["a", "c"], "name": "Rome"}


def test_a_merge_that_would_break_the_schema_is_a_conflict(repo):
    state = repo.session("trip", schema=Trip)
    other = state.fork("other")
    state["tags"].extend(["a", "b"])
    other["tags"].extend(["c", "d"])
    other["name"] = "Rome"
    state.commit()
    other.commit()
    head = state.head

    result = state.merge(other)

    assert (result.kind, [each.path for each in result.conflicts]) == ("conflicted", ["tags"])
    assert repo.session("trip").head == head
    assert state.to_dict() == {"tags": ["x", "a", "b"], "name": "Rome"}
    with pytest.raises(MergeConflict):
        state.commit()
    state.resolve_conflict("tags", take="theirs")
    assert len(state.commit().parents) == 2
    assert state["tags"] == ["x", "c", "d"]


def test_a_merge_that_fits_is_a_merge(repo):
    state = repo.session("trip", schema=Trip)
    other = state.fork("other")
    state["tags"].append("a")
    other["tags"].append("b")
    state.commit()
    other.commit()

    assert state.merge(other).kind == "merged"
    assert sorted(state["tags"]) == ["a", "b", "x"]


def test_what_was_committed_without_the_schema_is_a_conflict_when_it_is_merged(repo):
    state = repo.session("trip", schema=Trip)
    free = repo.session("trip").fork("free")
    free["tags"], free["weather"] = [1], "fine"
    free.commit()

    result = state.merge("free")  # else a fast-forward

    assert [each.path for each in result.conflicts] == ["tags", "weather"]
    assert state.to_dict() == {"tags": ["x"]}
    for name in ("tags", "weather"):
        state.resolve_conflict(name, take="ours")
    state.commit()
    assert state.to_dict() == {"tags": ["x"]}


def test_what_others_committed_without_the_schema_does_not_stop_a_commit_elsewhere(repo):
    state = repo.session("trip", schema=Trip)
    free = repo.session("trip")
    free["tags"] = [1]
    free.commit()
    state["name"] = "Rome"
    state.commit()

    assert repo.session("trip").to_dict() == {"tags": [1], "name": "Rome"}
    with pytest.raises(SchemaMismatch):
        state["tags"]


def test_a_decision_that_does_not_fit_is_refused_as_any_value(repo):
    state = repo.session("trip", schema=Trip)
    other = state.fork("other")
    state["tags"].extend(["a", "b"])
    other["tags"].extend(["c", "d"])
    state.commit()
    other.commit()
    state.merge(other)

    with pytest.raises(SchemaMismatch):
        state.resolve_conflict("tags", value=["1", "2", "3", "4"])
