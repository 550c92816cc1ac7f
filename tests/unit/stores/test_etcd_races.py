"""Writes and collections of an etcd store that are overtaken by others at the worst time."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread

import pytest

from otolith.errors import Fenced, StaleRef, Unsupported
from otolith.stores import Batch, EtcdStore, Layer, Swap
from otolith.stores.etcd.key_layout import EpochRecord, decode
from otolith.testing import blob, links, node, put
from tests.patience import HANG_SECONDS


@pytest.fixture
def url(etcd_cluster, tmp_path):
    return etcd_cluster.url(tmp_path / "objects.db")


@pytest.fixture
def store(url):
    store = EtcdStore(url, durability="fast")
    yield store
    store.close()


@pytest.fixture
def other(url, store):
    """The same store, as another process has it."""
    other = EtcdStore(url, durability="fast")
    yield other
    other.close()


class HookedStore(Layer):
    """A store for objects that calls a function after the next write, as if frozen there."""

    def __init__(self, inner, hook):
        super().__init__(inner)
        self.hook = hook

    def write(self, batch):
        super().write(batch)
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()


def _is_whole(store, *tops):
    wanted = [hash_ for top in tops for hash_ in (top.hash, *links(top.data))]
    return store.read(wanted).keys() == set(wanted)


def test_a_write_that_is_overtaken_by_a_collection_writes_its_objects_again(store, other):
    leaf = blob("leaf")
    top = node(leaf)
    dropped = []

    def collect() -> None:
        other.collect(links)
        dropped.append(other.read([top.hash, leaf.hash]))

    store._roots.objects = HookedStore(store.inner, collect)
    put(store, "main", top, leaf)
    assert dropped == [{}], "the collection did not come between"
    assert store.ref("main") == top.hash
    assert _is_whole(other, top)
    other.collect(links)
    assert _is_whole(other, top)


def test_a_write_that_needs_what_was_collected_meanwhile_is_refused(store, other):
    shared = blob("shared")
    put(store, "main", shared, time=1)
    put(store, "main", blob("next"), time=2)
    top = node(shared)

    def collect() -> None:
        other.write(Batch(swaps=[Swap("side", top.hash, None)], time=4))
        other.collect(links, forget_moves_before=5)

    put(store, "side", top, time=3)
    store._roots.objects = HookedStore(store.inner, collect)
    with pytest.raises(KeyError):  # NotFound
        store.write(Batch([blob("new")], [Swap("new", None, blob("new").hash)], needs=[top.hash]))
    assert store.ref("new") is None


def test_a_write_whose_lease_ends_before_its_transaction_is_fenced_off(store, other):
    lease = store.lease("work", "a", ttl_seconds=60)
    store._roots.objects = HookedStore(store.inner, lambda: other.release(lease))
    item = blob("late")
    with pytest.raises(Fenced):
        store.write(Batch([item], [Swap("main", None, item.hash)], fences={"work": lease.token}))
    assert store.ref("main") is None


def test_a_renewal_does_not_disturb_a_write(store, other):
    lease = store.lease("work", "a", ttl_seconds=60)
    written = []
    renew = partial(other.lease, "work", "a", ttl_seconds=60)
    store._roots.objects = HookedStore(store.inner, lambda: written.append(renew()))
    transact, calls = store._cluster.transact, []

    def count(*parts):
        calls.append(parts)
        return transact(*parts)

    store._cluster.transact = count
    item = blob("in time")
    store.write(Batch([item], [Swap("main", None, item.hash)], fences={"work": lease.token}))
    assert written[0].token == lease.token
    assert len(calls) == 2  # one that reads, one that writes


def test_a_swap_that_is_overtaken_is_stale_and_a_swap_there_and_back_is_not(store, other):
    a, b = blob("a"), blob("b")
    put(store, "main", a)
    store._roots.objects = HookedStore(store.inner, lambda: put(other, "main", b))
    with pytest.raises(StaleRef) as caught:
        store.write(Batch(swaps=[Swap("main", a.hash, blob("c").hash)]))
    assert caught.value.actual == b.hash

    def there_and_back() -> None:
        put(other, "main", a)
        put(other, "main", b)

    store._roots.objects = HookedStore(store.inner, there_and_back)
    store.write(Batch(swaps=[Swap("main", b.hash, blob("c").hash)]))
    assert [move.new for move in store.moves("main")][:3] == [blob("c").hash, b.hash, a.hash]


def test_a_collection_that_was_frozen_and_wakes_up_late_drops_nothing_that_is_used(store, other):
    """It has read what is used, then sleeps while others commit and collect."""
    tops = [node(blob(f"leaf {number}"), label=str(number)) for number in range(4)]
    put(store, "main", tops[0], blob("leaf 0"))
    has_read, may_continue = Event(), Event()
    add_many = other._roots.add_many

    def frozen(epoch, hashes):
        found = list(hashes)
        has_read.set()
        may_continue.wait(HANG_SECONDS)
        add_many(epoch, found)

    other._roots.add_many = frozen
    late = Thread(target=other.collect, args=(links,))
    late.start()
    has_read.wait(HANG_SECONDS)
    put(store, "a", tops[1], blob("leaf 1"))
    store.collect(links)
    put(store, "b", tops[2], blob("leaf 2"))
    may_continue.set()
    late.join()
    assert _is_whole(store, *tops[:3])
    put(store, "c", tops[3], blob("leaf 3"))
    store.collect(links)
    assert _is_whole(store, *tops)


def test_writers_do_not_wait_for_a_collection(store, other):
    put(store, "main", node(blob("leaf")), blob("leaf"))
    is_marking, may_continue = Event(), Event()

    def slow_links(data):
        is_marking.set()
        may_continue.wait(HANG_SECONDS)
        return links(data)

    late = Thread(target=other.collect, args=(slow_links,))
    late.start()
    is_marking.wait(HANG_SECONDS)
    top = node(blob("new leaf"), label="new")
    put(store, "main", top, blob("new leaf"))
    may_continue.set()
    late.join()
    assert _is_whole(store, top)


def test_a_collection_leaves_one_root_for_each_hash_that_is_used(store):
    for number in range(5):
        put(store, "main", blob(str(number)), time=number)
    store.collect(links, forget_moves_before=5)
    (root,) = store.inner.refs("keep/").values()
    assert root == blob("4").hash
    assert store.inner.moves() == []
    (epoch,) = store._cluster.read([store._cluster.keys.epoch])
    assert decode(epoch.value, EpochRecord).epoch == 2


def test_nothing_of_a_removed_ref_stays_when_its_history_is_forgotten(store):
    put(store, "gone", blob("a"), time=1)
    store.write(Batch(swaps=[Swap("gone", blob("a").hash, None)], time=2))
    store.collect(links, forget_moves_before=2)
    assert len(store.moves("gone")) == 1
    store.collect(links, forget_moves_before=3)
    keys = store._cluster.keys
    assert store._cluster.scan(keys.refs) == store._cluster.scan(keys.moves) == []


def test_an_erasure_says_that_etcd_remembers_what_it_was_not_asked_to_compact(store):
    put(store, "main", blob("a"), time=1)
    put(store, "main", blob("b"), time=2)
    done = store.collect(links, forget_moves_before=3, erase=True)
    assert (done.dropped_objects, done.erased) == (1, False)
    assert "compacted" in done.residue
    assert store.collect(links, erase=True).erased


def test_long_lists_of_refs_come_in_pages_of_one_moment(store, other, monkeypatch):
    monkeypatch.setattr("otolith.stores.etcd.cluster.PAGE", 2)
    names = [f"ref {number}" for number in range(7)]
    old, new = blob("old"), blob("new")
    store.write(Batch([old], [Swap(name, None, old.hash) for name in names]))
    call, pages = store._cluster.gateway.call, []

    def move_all_between(path, body, kind):
        pages.append(body)
        if len(pages) == 2:
            other.write(Batch([new], [Swap(name, old.hash, new.hash) for name in names]))
        return call(path, body, kind)

    store._cluster.gateway.call = move_all_between
    assert store.refs() == dict.fromkeys(names, old.hash)
    assert len(pages) == 4


def test_a_list_whose_moment_was_compacted_away_begins_again(store, other, monkeypatch):
    monkeypatch.setattr("otolith.stores.etcd.cluster.PAGE", 2)
    names = [f"ref {number}" for number in range(7)]
    old, new = blob("old"), blob("new")
    store.write(Batch([old], [Swap(name, None, old.hash) for name in names]))
    call, pages = store._cluster.gateway.call, []

    def compact_between(path, body, kind):
        pages.append(body)
        if len(pages) == 2:
            other.write(Batch([new], [Swap(name, old.hash, new.hash) for name in names]))
            now = {"revision": str(other._cluster.revision())}
            other._cluster.gateway.call("/v3/kv/compaction", now, dict)
        return call(path, body, kind)

    store._cluster.gateway.call = compact_between
    assert store.refs() == dict.fromkeys(names, new.hash)


def test_two_stores_of_one_cluster_can_share_a_store_for_objects(etcd_cluster, store, tmp_path):
    second = EtcdStore(etcd_cluster.url(tmp_path / "objects.db"), durability="fast")
    put(store, "main", blob("mine"))
    put(second, "main", blob("yours"))
    store.collect(links)
    second.collect(links)
    assert store.read([blob("mine").hash, blob("yours").hash]).keys() == {
        blob("mine").hash,
        blob("yours").hash,
    }
    second.close()


def test_objects_in_a_store_that_cannot_collect_are_not_collected(store):
    class Keeps(Layer):
        @property
        def capabilities(self):
            return type(super().capabilities)()

    store._roots.objects = Keeps(store.inner)
    with pytest.raises(Unsupported, match="cannot collect"):
        store.collect(links)
