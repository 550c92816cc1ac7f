"""Versioned: opened again it is where it was, what cannot be kept is named, scopes are seen."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

import otolith
from otolith import Cache, Disk, Memory, Versioned, care
from otolith.errors import (
    Closed,
    Invalid,
    KeyNotFound,
    NotKept,
    QuotaExceeded,
    RefNotFound,
    SchemaMismatch,
    Unstorable,
)


@dataclass
class Trip:
    budget: int
    plan: list[str] = field(default_factory=list)


class Counting(Disk):
    """A store that counts the objects that are read."""

    reads = 0

    def read(self, hashes):
        self.reads += len(hashes)
        return super().read(hashes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


def test_opening_again_finds_the_last_commit(path):
    state = Versioned(Disk(path))
    state["cfg"] = {"a": [1, 2]}
    made = state.commit("loaded")
    state.close()

    again = Versioned(Disk(path))

    assert again.head == made
    assert again["cfg"] == {"a": [1, 2]}


def test_every_place_holds_the_same_state(path):
    for store in (None, Memory(), Disk(path), Cache(Disk(path.with_suffix(".two"))), "memory:"):
        state = Versioned(store)
        state["cfg"] = {"a": [1]}
        first = state.commit("one")
        state["cfg"]["a"].append(2)
        state.commit("two")
        assert state["cfg"] == {"a": [1, 2]}
        assert state.checkout(first)["cfg"] == {"a": [1]}
        state.rollback(steps=1)
        assert state["cfg"] == {"a": [1]}
        state.close()


def test_a_check_out_is_read_only():
    state = Versioned()
    state["n"] = 1
    then = state.checkout(state.commit())

    with pytest.raises(TypeError):
        then["n"] = 2  # type: ignore[index]


def test_every_value_that_cannot_be_kept_is_named_with_the_way_out():
    state = Versioned()
    state["rows"] = [1]
    state.commit()
    state["cursor"] = sqlite3.connect(":memory:").execute("select 1")
    state["deep"] = {"list": [lambda: 1]}
    state["rows"].append(2)

    with pytest.raises(Unstorable, match="2 value") as raised:
        state.commit()

    assert set(raised.value.values) == {"cursor", "deep"}
    assert "sqlite3.Cursor" in raised.value.values["cursor"]
    assert "list/0" in raised.value.values["deep"]
    assert "store the result" in raised.value.hint
    assert "skip_unstorable" in raised.value.hint


def test_what_could_not_be_kept_is_still_there_and_the_rest_is_committed_once_it_is_gone():
    state = Versioned()
    state["x"] = 1
    state.commit()
    state["x"] = made = (n for n in range(3))
    state["y"] = [1]
    with pytest.raises(Unstorable):
        state.commit()

    assert state["x"] is made
    state["x"] = list(made)
    state.commit()

    assert Versioned(state.repo).to_dict() == {"x": [0, 1, 2], "y": [1]}


def test_skipping_stores_the_rest_and_never_brings_an_old_value_back():
    state = Versioned()
    state["x"] = "old"
    state.commit()
    state["x"], state["y"] = (n for n in range(3)), [1]

    state.commit(skip_unstorable=True)

    assert next(state["x"]) == 0
    later = Versioned(state.repo)
    assert later["y"] == [1]
    with pytest.raises(NotKept, match="x could not be stored: it was a builtins:generator"):
        later["x"]
    with pytest.raises(NotKept):
        later.get("x", "default")


def test_what_was_skipped_is_not_skipped_again_every_time():
    state = Versioned()
    state["x"] = (n for n in range(3))
    first = state.commit(skip_unstorable=True)

    assert state.commit() == first
    state["y"] = 1
    state.commit()
    state["x"] = (n for n in range(3))
    with pytest.raises(Unstorable):
        state.commit()


def test_what_was_skipped_is_recorded_as_an_event():
    state = Versioned()
    state["deep"] = {"rows": (n for n in range(3))}
    made = state.commit(skip_unstorable=True)

    (event,) = otolith.events(state, kind="skipped")

    assert event.data["path"] == "deep"
    assert "generator" in event.data["why"]
    assert event.commit == made.id


def test_a_value_that_can_be_kept_after_all_takes_the_place_of_what_stood_for_it():
    state = Versioned()
    state["x"] = {"rows": (n for n in range(3))}
    state.commit(skip_unstorable=True)
    state["x"]["rows"] = [0, 1, 2]
    state.commit()

    assert Versioned(state.repo)["x"] == {"rows": [0, 1, 2]}


def test_a_limit_refuses_the_commit_and_keeps_what_was_changed(path):
    state = Versioned(Disk(path, size_limit=400_000))
    state["log"] = ["small"]
    first = state.commit()
    state["log"].append(os.urandom(1_000_000))

    with pytest.raises(QuotaExceeded):
        state.commit()

    assert len(state["log"]) == 2
    assert Versioned(Disk(path)).head == first
    state.close()
    later = Versioned(Disk(path))
    later["log"].append("more")
    later.commit()
    assert Versioned(Disk(path))["log"] == ["small", "more"]


def test_a_session_records_what_it_saw_of_its_user_and_application():
    repo = otolith.open("memory:")
    ann = repo.user("ann")
    ann["seat"] = "aisle"
    ann.commit()
    trip = repo.session("trip", user="ann", app="shop")
    trip["seat"] = trip.user["seat"]
    first = trip.commit()
    trip.user["seat"] = "window"
    trip.user.commit()
    trip["again"] = True
    second = trip.commit()

    assert trip.at(first).user["seat"] == "aisle"
    assert repo.at(second).user["seat"] == "window"
    assert set(first.reads) == {"user/ann/main"}


def test_a_session_finds_its_user_again():
    repo = otolith.open("memory:")
    repo.user("ann")["seat"] = "aisle"
    ann = repo.user("ann")
    ann["seat"] = "aisle"
    ann.commit()
    trip = repo.session("trip", user="ann")
    trip["n"] = 1
    trip.commit()

    assert repo.session("trip").user["seat"] == "aisle"
    assert repo.session("trip").fork("other").user["seat"] == "aisle"


def test_a_session_without_a_user_says_how_to_get_one():
    state = otolith.open("memory:").session("trip")

    with pytest.raises(RefNotFound, match="not linked to any user") as raised:
        state.user  # noqa: B018
    assert "user=" in raised.value.hint


def test_scopes_of_one_name_are_strangers():
    repo = otolith.open("memory:")
    for state in (repo.session("x"), repo.user("x"), repo.app("x")):
        state["scope"] = state.scope
        state.commit()
        state["staged"] = 1
        state.stash()

    assert [s["scope"] for s in (repo.session("x"), repo.user("x"), repo.app("x"))] == [
        "session",
        "user",
        "app",
    ]
    assert [session.id for session in repo.sessions()] == ["x"]
    assert [user.id for user in repo.sessions(scope="user")] == ["x"]
    assert list(repo.branches("x", scope="app")) == ["main"]
    assert repo.user("x").resolve("main") == repo.user("x").head


def test_what_a_session_saw_is_not_collected(path):
    repo = otolith.open(path)
    ann = repo.user("ann")
    ann["seat"] = "aisle" * 1000
    ann.commit()
    trip = repo.session("trip", user="ann")
    trip["n"] = 1
    made = trip.commit()
    repo.delete_branch("ann", "main", scope="user")
    care.prune(repo, expire_seconds=0)

    assert otolith.open(path).at(made).user["seat"] == "aisle" * 1000


def test_a_schema_is_checked_on_the_way_in_and_when_committed():
    state = Versioned(schema=Trip)
    with pytest.raises(SchemaMismatch, match="budget does not fit"):
        state["budget"] = "500"
    with pytest.raises(SchemaMismatch, match="did you mean budget"):
        state.__setitem__("bugdet", 1)
    state["plan"] = ["a"]
    with pytest.raises(SchemaMismatch, match="requires budget"):
        state.commit()
    state["budget"] = 500
    state["plan"].append(3)

    with pytest.raises(SchemaMismatch) as raised:
        state.commit()

    assert raised.value.path == "plan/1"
    assert state.head is None


def test_a_schema_is_checked_on_the_way_out():
    repo = otolith.open("memory:")
    bare = repo.session("trip")
    bare["budget"] = "500"
    bare.commit()

    with pytest.raises(SchemaMismatch, match="what is stored at budget"):
        repo.session("trip", schema=Trip)["budget"]


def test_a_part_of_a_value_is_checked_when_it_is_committed():
    state = Versioned(schema=Trip)
    state["budget"], state["plan"] = 1, ["a"]
    state.commit()
    state["plan/0"] = 7

    with pytest.raises(SchemaMismatch, match="plan/0"):
        state.commit()


def test_parts_of_a_repo_are_not_given_to_a_repo():
    with pytest.raises(Invalid, match="author"):
        Versioned(otolith.open("memory:"), author="me")


def test_nothing_is_read_before_it_is_asked_for(path):
    state = Versioned(Disk(path))
    for number in range(200):
        state[f"key {number}"] = [number] * 2000
    state.commit()
    state.close()
    store = Counting(path)

    assert Versioned(store)["key 7"] == [7] * 2000

    assert store.reads < 12


def test_a_key_that_is_gone_says_so():
    with pytest.raises(KeyNotFound, match="nothing at x"):
        Versioned()["x"]


def test_a_value_that_takes_the_place_of_one_that_is_alike_stores_the_difference():
    state = Versioned()
    state["frame"] = frame = pd.DataFrame({f"c{n}": np.random.rand(20_000) for n in range(10)})
    state.commit()
    state["frame"] = changed = frame.assign(c3=0.0)

    made = state.commit()

    assert made.stats is not None
    assert made.stats.bytes < 400_000
    assert Versioned(state.repo)["frame"].equals(changed)
    state["frame"] = frame.copy()
    state.discard()
    state["frame"] = frame
    state.commit()
    assert Versioned(state.repo)["frame"].equals(frame)


def test_what_cannot_be_kept_is_not_put_away_either():
    state = Versioned()
    state["x"] = (n for n in range(3))

    with pytest.raises(Unstorable, match="x"):
        state.stash()


def test_a_state_closes_its_store_when_its_block_ends(path):
    with Versioned(Disk(path)) as state:
        state["n"] = [1]
        state.commit()

    with pytest.raises(Closed):
        state.commit(allow_empty=True)
