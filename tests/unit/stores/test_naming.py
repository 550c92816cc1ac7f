"""Stores under the names that users of a state know."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import otolith
from otolith import Repo
from otolith.errors import Closed, Invalid, QuotaExceeded, StoreNotFound
from otolith.stores import (
    Cache,
    CachedStore,
    Disk,
    KeyValueStore,
    KVStore,
    Memory,
    MemoryStore,
    SqliteStore,
    as_store,
    open_store,
)
from otolith.testing import blob, put


class DictKV(KVStore):
    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def set(self, key, value):
        self.values[key] = value


def test_a_disk_is_a_file(tmp_path):
    disk = Disk(tmp_path / "agent")
    disk.close()
    assert (tmp_path / "agent").is_file()


def test_a_disk_in_a_directory_is_a_file_in_it(tmp_path):
    for path in (tmp_path, str(tmp_path), f"{tmp_path}/"):
        disk = Disk(path)
        disk.close()
        assert Path(disk.path) == tmp_path / "otolith.db"


def test_a_disk_finds_the_store_that_the_terminal_made(tmp_path):
    (tmp_path / ".otolith").mkdir()
    made = SqliteStore(tmp_path / ".otolith/store.db")
    put(made, "main", blob("a"))
    made.close()
    for again in (Disk(tmp_path), open_store(tmp_path), open_store(f"sqlite:{tmp_path}")):
        assert again.ref("main") == blob("a").hash
        again.close()


def test_a_disk_needs_its_directory(tmp_path):
    with pytest.raises(StoreNotFound):
        Disk(tmp_path / "no" / "agent")


def test_a_disk_has_everything_after_it_is_opened_again(tmp_path):
    disk = Disk(tmp_path / "agent", durability="fast")
    put(disk, "main", blob("a"))
    disk.close()
    again = Disk(tmp_path / "agent")
    assert again.ref("main") == blob("a").hash
    again.close()


@pytest.mark.parametrize("size_limit", [0, -1, 1.5, "1 GB", True])
def test_a_size_limit_is_a_number_of_bytes(tmp_path, size_limit):
    with pytest.raises(Invalid, match="size_limit"):
        Disk(tmp_path / "agent", size_limit=size_limit)
    with pytest.raises(Invalid, match="size_limit"):
        Memory(size_limit=size_limit)
    assert not (tmp_path / "agent").exists()


def test_a_size_limit_in_the_middle_of_a_commit_leaves_the_last_commit(tmp_path):
    path, noise = tmp_path / "agent", os.urandom(2_000_000)
    with Repo(Disk(path, size_limit=1_000_000)) as repo:
        state = repo.session("a")
        state["small"] = "kept"
        last = state.commit("first")
        state["large"] = noise
        with pytest.raises(QuotaExceeded):
            state.commit("second")
        assert (repo.session("a").head, repo.session("a")["small"]) == (last, "kept")
    with Repo(Disk(path, size_limit=1_000_000)) as repo:
        assert dict(repo.session("a")) == {"small": "kept"}
    with Repo(Disk(path, size_limit=10_000_000)) as repo:
        state = repo.session("a")
        assert state.head == last
        state["large"] = noise
        state.commit("second")
    with Repo(Disk(path)) as repo:
        assert repo.session("a")["large"] == noise


def test_a_size_limit_evicts_nothing(tmp_path):
    with Repo(Disk(tmp_path / "agent", size_limit=400_000, durability="fast")) as repo:
        state = repo.session("a")
        kept = {}
        for number in range(100):
            value = os.urandom(20_000)
            try:
                state[f"key {number}"] = value
                state.commit(str(number))
            except QuotaExceeded:
                break
            kept[f"key {number}"] = value
        assert 5 < len(kept) < 20
        assert dict(repo.session("a")) == kept


def test_memory_with_a_limit_refuses_too():
    with Repo(Memory(size_limit=100_000)) as repo:
        state = repo.session("a")
        state["small"] = 1
        state.commit("first")
        state["large"] = os.urandom(200_000)
        with pytest.raises(QuotaExceeded):
            state.commit("second")
        assert dict(repo.session("a")) == {"small": 1}


def test_a_cache_takes_whatever_a_store_can_be_made_of(tmp_path):
    for place in (Memory(), DictKV(), tmp_path / "a.db", "memory:"):
        cache = Cache(place, max_bytes=100)
        put(cache, "main", blob("a"))
        assert cache.read([blob("a").hash]) == {blob("a").hash: b"a"}
        assert cache.cached_bytes == 1
        cache.close()
        with pytest.raises(Closed):
            cache.ref("main")


def test_a_cache_that_keeps_less_than_nothing_is_invalid():
    with pytest.raises(Invalid):
        Cache(Memory(), max_bytes=-1)


def test_a_name_is_a_kind_of_what_it_names(tmp_path):
    assert issubclass(Memory, MemoryStore)
    assert issubclass(Disk, SqliteStore)
    assert issubclass(Cache, CachedStore)


def test_a_store_is_one_already():
    store = Memory()
    assert as_store(store) is store
    cache = CachedStore(store)
    assert as_store(cache) is cache


def test_a_kvstore_is_adapted():
    kv = DictKV()
    store = as_store(kv)
    assert isinstance(store, KeyValueStore)
    assert store.kv is kv


def test_a_path_or_url_is_opened(tmp_path):
    for place in (tmp_path / "a.db", str(tmp_path / "a.db"), f"sqlite:{tmp_path}/a.db"):
        store = as_store(place)
        assert isinstance(store, SqliteStore)
        store.close()
    assert isinstance(as_store("memory:"), MemoryStore)


@pytest.mark.parametrize("place", [None, 5, {}, object(), b"a.db", Memory, DictKV])
def test_anything_else_is_told_what_is_accepted(place):
    with pytest.raises(Invalid, match=r"Memory\(\), Disk\(path\).*KVStore.*path.*URL"):
        as_store(place)


@pytest.mark.parametrize("url", ["memory:", "memory://", "Memory:"])
def test_a_repo_in_memory_is_named_as_its_store_is(url):
    with otolith.open(url) as repo:
        assert repr(repo) == "<Repo MemoryStore>"
    with pytest.raises(Invalid, match="cannot be read_only"):
        otolith.open(url, read_only=True)
