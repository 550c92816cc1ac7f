"""What could not be read again, or would hurt others, is refused before anything is written."""

from __future__ import annotations

import os
import threading
from time import monotonic

import apsw
import pytest
from blake3 import blake3

import otolith
from otolith.care import prune, verify
from otolith.errors import BadValue, Busy, Invalid, QuotaExceeded
from otolith.stores import Batch, MemoryStore, Object, SqliteStore, Swap
from otolith.stores.base import OBJECT_LIMIT_BYTES
from otolith.types import Hash

TOO_LARGE = bytes(OBJECT_LIMIT_BYTES + 1)


def thing(data: bytes) -> Object:
    return Object(Hash(blake3(data).digest()), data)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    yield made
    made.close()


def test_an_object_that_could_never_be_read_is_refused(store):
    large = thing(TOO_LARGE)
    with pytest.raises(Invalid, match="at most"):
        store.write(Batch(objects=[large], swaps=[Swap("r", None, large.hash)]))

    assert store.refs() == {}
    assert store.usage().objects == 0


def test_an_object_that_is_made_ready_ahead_is_refused_as_well(tmp_path):
    with pytest.raises(Invalid, match="at most"):
        SqliteStore(tmp_path / "a.db").prepare([TOO_LARGE])


@pytest.mark.parametrize(
    "details", [{"message": "a" * (65 << 20)}, {"meta": {"output": "a" * (17 << 20)}}]
)
def test_a_commit_that_could_never_be_read_is_refused_and_its_edits_stay(tmp_path, details):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["x"] = 1
        state.commit()
        state["x"] = 2
        with pytest.raises(BadValue, match="at most"):
            state.commit(**details)
        state.commit("short")
    with otolith.open(path) as repo:
        assert repo.session("s")["x"] == 2


LONG = "a" * (2 << 20)


@pytest.mark.parametrize("value", [{LONG: 1}, {LONG}, frozenset({LONG.encode()}), {(LONG, 1): 2}])
def test_a_key_or_an_element_that_is_too_long_is_refused_where_it_is(value):
    state = otolith.Versioned()
    state["kept"] = 1
    state["x"] = value
    with pytest.raises(otolith.Unstorable) as refused:
        state.commit()

    assert list(refused.value.values) == ["x"]
    del state["x"]
    state.commit()
    assert state.at("@").to_dict() == {"kept": 1}


def test_a_path_that_is_too_long_is_refused():
    state = otolith.open("memory:").session("s")
    with pytest.raises(BadValue, match="at most"):
        state[LONG] = 1


@pytest.mark.parametrize("time", [2**63, -1, 1.0])
def test_a_time_that_no_store_can_keep_is_refused(store, time):
    with pytest.raises(Invalid, match="microseconds"):
        store.write(Batch(objects=[thing(b"a")], time=time))


@pytest.mark.parametrize("token", [2**63, -1, 1.0, True])
def test_a_token_that_is_no_number_is_refused(store, token):
    with pytest.raises(Invalid, match="token"):
        store.write(Batch(fences={"lease": token}))


def test_all_who_wait_for_a_locked_file_are_told_together(tmp_path):
    store = SqliteStore(tmp_path / "a.db", busy_timeout_seconds=0.5)
    holder = apsw.Connection(store.path)
    holder.execute("begin immediate")
    told: list[Exception] = []

    def write(number: int) -> None:
        try:
            store.write(Batch(objects=[thing(b"p%d" % number)]))
        except Busy as error:
            told.append(error)

    began = monotonic()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(told) == len(threads)
    assert monotonic() - began < 0.5 * len(threads) / 2  # one by one, they would take all of it
    holder.close()
    store.close()


# The limit of a store


@pytest.mark.parametrize("limit_bytes", [0, -1, 1.5, "1 GB", True])
@pytest.mark.parametrize("place", ["memory:", "a.db"])
def test_a_limit_is_a_number_of_bytes(tmp_path, place, limit_bytes):
    url = place if place.endswith(":") else str(tmp_path / place)
    with pytest.raises(Invalid, match="at least 1"):
        otolith.open(url, limit_bytes=limit_bytes)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_below_an_empty_store_refuses_everything(tmp_path):
    with pytest.raises(QuotaExceeded, match="the limit of 1000 bytes"):
        otolith.open(tmp_path / "a.db", limit_bytes=1000)


def fill(state, size):
    """Commit random bytes until the store refuses them; return how many commits landed."""
    for number in range(1000):
        state[f"x/{number}"] = os.urandom(size)
        try:
            state.commit()
        except QuotaExceeded:
            return number
    raise AssertionError("there is no limit")


@pytest.mark.parametrize("limit_bytes", [30_000, 50_000, 200_000])
def test_a_file_never_has_more_bytes_than_its_limit(tmp_path, limit_bytes):
    path = tmp_path / "a.db"
    with otolith.open(path, limit_bytes=limit_bytes) as repo:
        state = repo.session("s")
        landed = fill(state, 1000)
        assert len(state.status()) == 1  # nothing is lost: the edit is still staged
    assert path.stat().st_size <= limit_bytes
    with otolith.open(path) as repo:
        assert len(repo.session("s").get("x", {})) == landed
        assert verify(repo, level="deep").ok


def test_a_file_that_is_over_its_limit_takes_commits_again_once_it_was_pruned(tmp_path):
    path = tmp_path / "a.db"
    with otolith.open(path) as repo:
        state = repo.session("s")
        state["w"] = os.urandom(100_000)
        state.commit()
        scratch = state.fork("scratch")
        scratch["x"] = os.urandom(1_000_000)
        scratch.commit()
    with otolith.open(path, limit_bytes=1_000_000) as repo:
        state = repo.session("s")
        state["y"] = 1
        with pytest.raises(QuotaExceeded):
            state.commit()
        repo.delete_branch("s", "scratch")  # what adds no object is written
        prune(repo, expire_seconds=0)
        state.commit()
        assert fill(state, 10_000) > 10
    assert path.stat().st_size <= 1_000_000
