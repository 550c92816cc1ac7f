"""Stores around stores, and the names of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from otolith.errors import Invalid, NotFound, QuotaExceeded, StaleRef, Unavailable, Unsupported
from otolith.stores import (
    Batch,
    CachedStore,
    Layer,
    MemoryStore,
    MirroredStore,
    RetryingStore,
    SqliteStore,
    Swap,
    open_store,
)
from otolith.testing import Fault, FaultyStore, blob, links, put


def test_an_object_is_fetched_once():
    inner = FaultyStore(MemoryStore())
    store = CachedStore(inner)
    item = blob("a")
    inner.inner.write(Batch(objects=[item]))
    assert store.read([item.hash]) == store.read([item.hash]) == {item.hash: item.data}
    assert inner.calls["read"] == 1


def test_refs_are_asked_for_every_time():
    inner = MemoryStore()
    store = CachedStore(inner)
    put(store, "main", blob("a"))
    assert store.ref("main") == blob("a").hash
    put(inner, "main", blob("b"))
    assert store.ref("main") == blob("b").hash


def test_the_limit_is_exact_and_the_oldest_goes_first():
    inner = FaultyStore(MemoryStore())
    store = CachedStore(inner, limit_bytes=30)
    items = [blob(bytes([number]) * 10) for number in range(4)]
    store.write(Batch(objects=items[:3]))
    store.read([items[0].hash])
    store.write(Batch(objects=items[3:]))
    assert store.cached_bytes == 30
    store.read([items[0].hash, items[2].hash, items[3].hash])
    assert inner.calls["read"] == 0
    store.read([items[1].hash])
    assert inner.calls["read"] == 1
    store.write(Batch(objects=[blob(bytes(31))]))
    assert store.cached_bytes == 30


def test_a_failed_write_is_not_remembered():
    store = CachedStore(FaultyStore(MemoryStore(), [Fault("write")]))
    with pytest.raises(Unavailable):
        store.write(Batch(objects=[blob("a")]))
    assert store.read([blob("a").hash]) == {}


def test_needs_are_checked_below_the_cache():
    inner = MemoryStore()
    store = CachedStore(inner)
    store.write(Batch(objects=[blob("a")]))
    inner.collect(links)
    assert store.read([blob("a").hash])
    with pytest.raises(NotFound):
        store.write(Batch(needs=[blob("a").hash]))


def test_a_lost_reply_is_a_write_that_happened():
    store = FaultyStore(MemoryStore(), [Fault("write", at=2, kind="lose")])
    put(store, "main", blob("a"))
    with pytest.raises(Unavailable):
        put(store, "main", blob("b"))
    assert store.ref("main") == blob("b").hash


def test_a_flipped_bit_changes_what_is_read():
    store = FaultyStore(MemoryStore(), [Fault("read", kind="flip")])
    put(store, "main", blob("a"))
    assert store.read([blob("a").hash])[blob("a").hash] != b"a"


# ---------------------------------------------------------------- trying again


class Slow:
    """Takes no time, and counts how long it would have waited."""

    def __init__(self):
        self.pauses = []

    def __call__(self, seconds):
        self.pauses.append(seconds)


def test_a_lost_reply_counts_once():
    inner = MemoryStore()
    faulty = FaultyStore(inner, [Fault("write", at=2, kind="lose")])
    store = RetryingStore(faulty, wait=Slow())
    put(store, "main", blob("a"), time=1)
    put(store, "main", blob("b"), time=2)
    assert [move.new for move in inner.moves("main")] == [blob("b").hash, blob("a").hash]
    assert store.retries == 1


def test_a_lost_reply_is_found_below_the_commits_of_others():
    inner = MemoryStore()
    others = iter([blob("theirs")])

    def meanwhile(seconds):
        for item in others:
            put(inner, "main", item, time=9)

    faulty = FaultyStore(inner, [Fault("write", at=1, kind="lose")])
    store = RetryingStore(faulty, wait=meanwhile)
    put(store, "main", blob("ours"), time=1)
    assert [move.new for move in inner.moves("main")] == [blob("theirs").hash, blob("ours").hash]


def test_a_swap_that_others_have_won_is_refused_after_a_retry():
    inner = MemoryStore()
    others = iter([blob("theirs")])

    def meanwhile(seconds):
        for item in others:
            put(inner, "main", item, time=9)

    store = RetryingStore(FaultyStore(inner, [Fault("write", at=1)]), wait=meanwhile)
    with pytest.raises(StaleRef):
        put(store, "main", blob("ours"), time=1)
    assert inner.ref("main") == blob("theirs").hash


def test_pauses_grow_and_end():
    slow = Slow()
    store = RetryingStore(
        FaultyStore(MemoryStore(), [Fault("read", at=n) for n in range(1, 9)]), wait=slow
    )
    assert store.read([]) == {}
    assert len(slow.pauses) == 8
    assert all(0.01 * 2**n <= pause <= 0.02 * 2**n for n, pause in enumerate(slow.pauses[:7]))
    impatient = RetryingStore(
        FaultyStore(MemoryStore(), [Fault("read")]), patience_seconds=0, wait=slow
    )
    with pytest.raises(Unavailable):
        impatient.read([])


def test_writers_that_failed_together_do_not_come_back_together():
    def pauses():
        slow = Slow()
        faults = [Fault("read", at=number) for number in range(1, 9)]
        RetryingStore(FaultyStore(MemoryStore(), faults), wait=slow).read([])
        return slow.pauses

    first, second = pauses(), pauses()
    assert all(one != other for one, other in zip(first, second, strict=True))


class LateStore(Layer):
    """A store that gets the first batch after its sender has looked for it, and given it up."""

    late = None
    was_first = True

    def write(self, batch):
        if self.was_first:
            self.late, self.was_first = batch, False
            raise Unavailable("no reply")
        super().write(batch)

    def moves(self, name=None, *, limit=None):
        found = super().moves(name, limit=limit)
        if self.late is not None:
            super().write(self.late)
            self.late = None
        return found


def test_a_batch_that_lands_after_it_was_looked_for_counts_once():
    inner = MemoryStore()
    store = RetryingStore(LateStore(inner), wait=Slow())
    put(store, "main", blob("a"), time=1)
    assert [move.new for move in inner.moves("main")] == [blob("a").hash]


def test_what_will_not_get_better_is_raised_at_once():
    slow = Slow()
    store = RetryingStore(MemoryStore(limit_bytes=10), wait=slow)
    with pytest.raises(QuotaExceeded):
        store.write(Batch(objects=[blob("a" * 20)]))
    with pytest.raises(NotFound):
        store.write(Batch(needs=[blob("a").hash]))
    assert slow.pauses == []


# ---------------------------------------------------------------- two stores


def test_a_replica_follows():
    first, second = MemoryStore(), MemoryStore()
    store = MirroredStore(first, second)
    put(store, "main", blob("a"), time=1)
    put(store, "main", blob("b"), time=2)
    store.write(Batch(swaps=[Swap("main", blob("b").hash, None)], time=3))
    assert second.refs() == first.refs() == {}
    assert second.moves("main") == first.moves("main")
    assert set(second.read([blob("a").hash, blob("b").hash])) == {blob("a").hash, blob("b").hash}


def test_a_replica_that_fails_stops_nobody_and_catches_up():
    second = MemoryStore()
    faulty = FaultyStore(second, [Fault("write", at=n) for n in (2, 3)])
    store = MirroredStore(MemoryStore(), faulty)
    for time, text in enumerate("abc", 1):
        put(store, "main", blob(text), time=time)
    assert store.ref("main") == blob("c").hash
    assert (store.lag, second.ref("main")) == (2, blob("a").hash)
    assert "Unavailable" in store.problem
    assert store.catch_up()
    assert (store.lag, store.problem, second.ref("main")) == (0, "", blob("c").hash)
    assert second.moves("main") == store.moves("main")


def test_a_lost_object_is_read_from_the_replica():
    first, second = MemoryStore(), MemoryStore()
    store = MirroredStore(first, second)
    store.write(Batch(objects=[blob("a")]))
    first.collect(links)
    assert first.read([blob("a").hash]) == {}
    assert store.read([blob("a").hash]) == {blob("a").hash: b"a"}


def test_a_replica_that_others_moved_follows_the_primary():
    first, second = MemoryStore(), MemoryStore()
    store = MirroredStore(first, second)
    put(store, "main", blob("a"), time=1)
    put(second, "main", blob("stray"), time=2)
    put(store, "main", blob("b"), time=3)
    assert second.ref("main") == blob("b").hash
    assert store.lag == 0


# ---------------------------------------------------------------- names


def test_a_plain_path_is_a_file(tmp_path):
    store = open_store(tmp_path / "a.db", durability="fast")
    assert isinstance(store, SqliteStore)
    store.close()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:{folder}/a b.db", "{folder}/a b.db"),
        ("sqlite://{folder}/a%20b.db", "{folder}/a b.db"),
        ("SQLITE:some.db", "{folder}/some.db"),
        ("some.db", "{folder}/some.db"),
        ("C:some.db", "{folder}/C:some.db"),
    ],
)
def test_a_url_names_a_file(tmp_path, monkeypatch, url, path):
    monkeypatch.chdir(tmp_path)
    store = open_store(url.format(folder=tmp_path))
    assert isinstance(store, SqliteStore)
    assert Path(store.path).samefile(path.format(folder=tmp_path))
    store.close()


def test_memory_is_a_url():
    assert isinstance(open_store("memory:"), MemoryStore)
    assert open_store("memory:", limit_bytes=5).usage().limit_bytes == 5


def test_an_unknown_scheme_says_which_are_known():
    with pytest.raises(Unsupported, match=r"memory:, sqlite:"):
        open_store("mongodb://localhost")


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://host/a.db", "memory:somewhere"])
def test_an_address_that_makes_no_sense_is_invalid(url):
    with pytest.raises(Invalid):
        open_store(url)


def test_an_unknown_option_is_invalid():
    with pytest.raises(Invalid, match="colour"):
        open_store("memory:", colour="red")


def test_the_moves_of_all_refs_come_newest_first(tmp_path):
    for store in (MemoryStore(), SqliteStore(tmp_path / "a.db")):
        for time, (name, text) in enumerate([("a", "1"), ("b", "2"), ("a", "3")]):
            item = blob(text)
            swap = Swap(name, store.ref(name), item.hash)
            store.write(Batch(objects=[item], swaps=[swap], time=time, note=text))
        store.write(Batch(swaps=[Swap("b", store.ref("b"), None)], time=3, note="4"))
        assert [move.note for move in store.moves()] == ["4", "3", "2", "1"]
        assert [move.note for move in store.moves(limit=2)] == ["4", "3"]
        store.close()
