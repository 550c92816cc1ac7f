"""A store over keys and values: races, crashes, damage, and what a user's class may do wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from itertools import count

import pytest

from otolith import Repo
from otolith.care import prune, verify
from otolith.errors import (
    Busy,
    Corrupt,
    FormatTooNew,
    Full,
    Invalid,
    NotAStore,
    NotFound,
    QuotaExceeded,
    StaleRef,
    Unavailable,
    Unsupported,
)
from otolith.stores import Batch, KeyValueStore, KVStore, Swap
from otolith.testing import blob, links, node, put
from tests.patience import HANG_SECONDS
from tests.servers.redis import fresh, shown_class


class DictKV(KVStore):
    """Values in a dict; `before` is called with each call's name and key, and may interfere."""

    def __init__(self, values=None):
        self.values = {} if values is None else values
        self.before = lambda call, key: None
        self.calls = []

    def get(self, key):
        self._meet("get", key)
        return self.values.get(key)

    def set(self, key, value):
        self._meet("set", key)
        self.values[key] = value

    def delete(self, key):
        self._meet("delete", key)
        self.values.pop(key, None)

    def keys(self, prefix):
        return [key for key in self.values if key.startswith(prefix)]

    def swap(self, key, old, new):
        self._meet("swap", key)
        if self.values.get(key) != old:
            return False
        self.values[key] = new
        return True

    def _meet(self, call, key):
        self.calls.append((call, key))
        self.before(call, key)


@pytest.fixture
def kv():
    return DictKV()


@pytest.fixture
def store(kv):
    return KeyValueStore(kv, alone=True)


def once(call, act):
    """Return an interference that acts before the first call of a name."""
    left = [act]

    def before(name, key):
        if name == call and left:
            left.pop()()

    return before


def fail(error):
    def act():
        raise error

    return act


# ---------------------------------------------------------------- races


def test_a_race_lost_to_another_ref_is_run_again(kv, store):
    rival = KeyValueStore(DictKV(kv.values))
    kv.before = once("swap", lambda: put(rival, "other", blob("theirs")))
    put(store, "main", blob("ours"))
    assert store.refs() == {"main": blob("ours").hash, "other": blob("theirs").hash}
    assert store.usage().objects == 2


def test_a_race_lost_to_the_same_ref_is_stale(kv, store):
    rival = KeyValueStore(DictKV(kv.values))
    kv.before = once("swap", lambda: put(rival, "main", blob("theirs")))
    with pytest.raises(StaleRef) as caught:
        store.write(Batch(objects=[blob("ours")], swaps=[Swap("main", None, blob("ours").hash)]))
    assert caught.value.actual == blob("theirs").hash
    assert store.refs() == {"main": blob("theirs").hash}


class Stutter(DictKV):
    """A client that repeats a swap whose answer it did not get, and so gets the wrong one."""

    after = staticmethod(lambda: None)

    def swap(self, key, old, new):
        super().swap(key, old, new)
        self.after()
        return super().swap(key, old, new)


@pytest.mark.parametrize("others", [0, 1, 20])
def test_a_swap_that_was_repeated_unasked_is_seen_to_have_happened(others):
    kv = Stutter()
    store, rival, numbers = KeyValueStore(kv), KeyValueStore(DictKV(kv.values)), count()

    def build_on_it():
        for _ in range(others):
            put(rival, "other", blob(f"theirs {next(numbers)}"))

    put(store, "main", blob("0"))
    kv.after = build_on_it
    put(store, "main", blob("1"))
    kv.after = lambda: None
    put(store, "main", blob("2"))
    assert [move.new for move in store.moves("main")] == [blob(t).hash for t in "210"]
    assert len(store.moves("other")) == others


def test_a_swap_whose_answer_was_lost_is_seen_to_have_happened(kv, store):
    real = kv.swap

    def swap(key, old, new):
        real(key, old, new)
        raise OSError("connection reset")

    kv.swap = swap
    put(store, "main", blob("a"))
    assert store.ref("main") == blob("a").hash
    assert len(store.moves("main")) == 1


def test_a_collection_whose_swap_was_repeated_unasked_goes_on():
    kv = Stutter()
    store = KeyValueStore(kv, alone=True)
    put(store, "main", blob("a"), blob("lost"))
    assert store.collect(links).dropped_objects == 1
    assert store.read([blob("a").hash, blob("lost").hash]).keys() == {blob("a").hash}


def test_one_that_always_loses_is_told_so_in_the_end(kv, store, monkeypatch):
    monkeypatch.setattr("otolith.stores.keyvalue.store._TRIES", 20)
    rival, numbers = KeyValueStore(DictKV(kv.values)), count()

    def interfere(call, key):
        if call == "swap":
            put(rival, "other", blob(str(next(numbers))))

    kv.before = interfere
    with pytest.raises(Busy):
        put(store, "main", blob("ours"))


def test_a_reader_that_misses_a_replaced_part_reads_the_new_root(kv, store):
    put(store, "main", blob("1"))
    rival = KeyValueStore(DictKV(kv.values))
    slow = DictKV(kv.values)

    def interfere(call, key):
        if key.startswith("part-") and store.ref("main") == blob("1").hash:
            put(rival, "main", blob("2"))

    slow.before = interfere
    assert KeyValueStore(slow).ref("main") == blob("2").hash


def test_two_stores_over_one_default_swap_lose_nothing_in_one_process():
    class Plain(DictKV):
        swap = KVStore.swap

    one = Plain()
    first, second = KeyValueStore(one), KeyValueStore(one)
    put(first, "a", blob("1"))
    put(second, "b", blob("2"))
    put(first, "a", blob("3"))
    assert second.refs() == {"a": blob("3").hash, "b": blob("2").hash}
    assert not first.capabilities.shared


ADD = """
import sys
from otolith import Repo
from otolith.stores import KeyValueStore
from tests.servers.redis import shown_class

store = KeyValueStore(shown_class("redis_kv.py", "RedisKV")(sys.argv[1], sys.argv[3]))
with Repo(store) as repo:
    state = repo.session("shared")
    for _ in range(int(sys.argv[2])):
        state.counter("n").add(1)
        state.commit("one more")
"""


def test_processes_that_share_a_redis_lose_no_commit(redis_url, rounds):
    each = rounds(15, 300)
    url, _, prefix = fresh(redis_url.partition("?")[0]).partition("?")
    command = [sys.executable, "-c", ADD, url, str(each), prefix]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(timeout=HANG_SECONDS) for process in processes] == [0, 0, 0]
    store = KeyValueStore(shown_class("redis_kv.py", "RedisKV")(url, prefix), alone=True)
    with Repo(store) as repo:
        assert repo.session("shared")["n"] == 3 * each
        assert verify(repo).ok
        prune(repo, expire_seconds=0)
        assert repo.session("shared")["n"] == 3 * each
        assert verify(repo).ok


# ---------------------------------------------------------------- crashes


@pytest.mark.parametrize("call", ["set", "swap"])
def test_a_crash_before_the_swap_leaves_the_last_commit(kv, store, call):
    put(store, "main", blob("first"))
    kv.before = once(call, fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        put(store, "main", blob("second"))
    again = KeyValueStore(DictKV(kv.values))
    assert again.refs() == {"main": blob("first").hash}
    assert again.usage().objects == 1
    put(again, "main", blob("second"))
    assert again.ref("main") == blob("second").hash


def test_what_a_crash_left_is_counted_and_found_once_it_is_written_again(kv, store):
    item = blob("second")
    kv.before = once("swap", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        put(store, "main", item)
    assert store.find(item.hash) == []
    put(store, "main", item)
    assert store.find(item.hash) == [item.hash]
    assert store.usage().objects == 1


def test_what_a_crash_left_is_no_ground_to_build_on(kv, store):
    item = blob("half written")
    kv.before = once("swap", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        put(store, "main", item)
    with pytest.raises(NotFound):
        store.write(Batch(needs=[item.hash]))


def test_what_a_crash_left_is_collected(kv, store):
    put(store, "main", blob("first"))
    kv.before = once("swap", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        put(store, "main", blob("second"))
    assert store.collect(links).dropped_objects == 1
    assert kv.keys("object-") == [f"object-{blob('first').hash.hex()}"]


def test_a_collection_that_was_cut_short_is_finished_by_the_next(kv, store):
    leaf = blob("leaf")
    put(store, "gone", node(leaf), leaf, time=1)
    store.write(Batch(swaps=[Swap("gone", node(leaf).hash, None)], time=2))
    kv.before = once("delete", fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        store.collect(links, forget_moves_before=3)
    assert store.usage().objects == 0
    with pytest.raises(NotFound):
        store.write(Batch(needs=[leaf.hash]))
    store.collect(links)
    assert sorted(kv.values) == ["root"]


def test_what_cannot_be_removed_after_a_commit_does_not_fail_it(kv, store):
    put(store, "main", blob("1"))
    kv.before = once("delete", fail(OSError("away")))
    put(store, "main", blob("2"))
    assert store.ref("main") == blob("2").hash


# ---------------------------------------------------------------- what it takes


def test_a_commit_does_not_rewrite_all_refs(kv, store):
    item = blob("a")
    names = [f"session/{number}" for number in range(3000)]
    store.write(Batch(objects=[item], swaps=[Swap(name, None, item.hash) for name in names]))
    everything = sum(map(len, kv.values.values()))
    before = dict(kv.values)
    put(store, names[7], blob("b"))
    written = sum(len(value) for key, value in kv.values.items() if before.get(key) != value)
    assert written < everything / 20


def test_a_commit_makes_few_calls_however_long_the_history(kv, store):
    for number in range(300):
        put(store, "main", blob(str(number)), time=number)
    kv.calls.clear()
    store.write(
        Batch(
            objects=[blob("x")],
            swaps=[Swap("main", blob("299").hash, blob("x").hash)],
        )
    )
    assert len(kv.calls) < 14


def test_replaced_parts_are_removed(kv, store):
    for number in range(300):
        put(store, "main", blob(str(number)))
    blocks, pages, segments = 300 / 16 + 1, 1, 8 * 3
    assert len(kv.keys("part-")) < blocks + pages + segments


def test_objects_are_found_among_many_writes(store):
    items = [blob(str(number)) for number in range(1200)]
    for item in items:
        store.write(Batch(objects=[item]))
    assert all(store.find(item.hash[:12]) == [item.hash] for item in items[::50])
    assert store.usage().objects == 1200
    start = items[0].hash[:2]
    assert store.find(start) == sorted(item.hash for item in items if item.hash[:2] == start)


def test_a_long_history_is_told_whole_or_in_part(store):
    for number in range(50):
        put(store, "main", blob(str(number)), time=number)
        put(store, f"other {number % 3}", blob(str(number)), time=number)
    assert [move.time for move in store.moves("main")] == list(range(50))[::-1]
    assert [move.time for move in store.moves("main", limit=20)] == list(range(30, 50))[::-1]
    assert [move.time for move in store.moves(limit=4)] == [49, 49, 48, 48]
    store.collect(links, forget_moves_before=20)
    assert [move.time for move in store.moves("main")] == list(range(20, 50))[::-1]


def test_a_limit_refuses_and_a_higher_one_lets_through(kv):
    first, second = blob("a" * 60), blob("b" * 60)
    small = KeyValueStore(kv, limit_bytes=100)
    put(small, "main", first)
    with pytest.raises(QuotaExceeded):
        put(small, "main", second)
    assert small.read([first.hash, second.hash]) == {first.hash: first.data}
    put(KeyValueStore(kv, limit_bytes=120), "main", second)
    assert small.ref("main") == second.hash


# ---------------------------------------------------------------- damage


def test_a_flipped_bit_in_an_object_is_never_an_answer(kv, store):
    put(store, "main", blob("a"))
    kv.values[f"object-{blob('a').hash.hex()}"] = b"b"
    with pytest.raises(Corrupt, match="DictKV"):
        store.read([blob("a").hash])
    with pytest.raises(Corrupt):
        store.collect(links)


def test_writing_a_damaged_object_again_mends_it(kv, store):
    put(store, "main", blob("a"))
    kv.values[f"object-{blob('a').hash.hex()}"] = b"b"
    store.write(Batch(objects=[blob("a")]))
    assert store.read([blob("a").hash]) == {blob("a").hash: b"a"}
    assert store.usage().objects == 1


@pytest.mark.parametrize("prefix", ["root", "part-"])
def test_a_flipped_bit_in_the_book_keeping_is_never_an_answer(kv, store, prefix):
    put(store, "main", blob("a"))
    for key in kv.keys(prefix):
        value = kv.values[key]
        kv.values[key] = value[:-1] + bytes([value[-1] ^ 1])
    with pytest.raises(Corrupt):
        KeyValueStore(kv).ref("main")


@pytest.mark.parametrize("ask", [lambda s: s.ref("main"), lambda s: put(s, "main", blob("b"))])
def test_a_part_that_is_gone_is_damage_and_not_an_endless_wait(kv, store, ask):
    put(store, "main", blob("a"))
    for key in kv.keys("part-"):
        del kv.values[key]
    with pytest.raises(Corrupt, match="missing"):
        ask(KeyValueStore(kv))


def test_something_else_under_its_key_is_left_alone(kv, store):
    kv.values["root"] = b"another program's"
    with pytest.raises(NotAStore):
        put(store, "main", blob("a"))
    assert kv.values["root"] == b"another program's"


def test_what_a_newer_otolith_wrote_is_refused(kv, store):
    put(store, "main", blob("a"))
    kv.values["root"] = kv.values["root"].replace(b"otolith-kv\x01", b"otolith-kv\x02")
    with pytest.raises(FormatTooNew):
        store.refs()


# ---------------------------------------------------------------- a user's class


class Away(Exception):
    """What a client library raises."""


def test_what_a_library_raises_when_it_is_away_becomes_unavailable(kv, store):
    kv.before = once("get", fail(OSError("no route")))
    with pytest.raises(Unavailable, match=r"DictKV\.get: no route"):
        store.ref("main")


def test_a_class_says_what_its_library_raises():
    class Remote(DictKV):
        failures = (Away,)

    kv = Remote()
    kv.before = once("swap", fail(Away("reset")))
    with pytest.raises(Unavailable, match="it may have landed"):
        put(KeyValueStore(kv), "main", blob("a"))


def test_other_errors_of_a_class_pass_through(kv, store):
    kv.before = once("get", fail(Away("a bug")))
    with pytest.raises(Away):
        store.ref("main")


def test_a_class_may_say_itself_that_it_is_full(kv, store):
    put(store, "main", blob("a"))
    kv.before = once("set", fail(Full("no room")))
    with pytest.raises(Full, match="no room"):
        put(store, "main", blob("b"))
    assert store.ref("main") == blob("a").hash


def test_text_instead_of_bytes_is_refused():
    class Decoded(DictKV):
        def get(self, key):
            return "text"

    with pytest.raises(Invalid, match=r"Decoded\.get returned str"):
        KeyValueStore(Decoded()).ref("main")


def test_a_swap_that_does_not_say_what_happened_is_refused():
    class Silent(DictKV):
        def swap(self, key, old, new):
            super().swap(key, old, new)

    with pytest.raises(Invalid, match="None"):
        put(KeyValueStore(Silent()), "main", blob("a"))


def test_a_class_without_get_cannot_be_made():
    class Half(KVStore):
        def set(self, key, value): ...

    with pytest.raises(TypeError, match="get"):
        Half()  # type: ignore[abstract]


def test_a_class_may_be_a_frozen_dataclass():
    @dataclass(frozen=True)
    class Frozen(KVStore):
        values: dict[str, bytes]

        def get(self, key):
            return self.values.get(key)

        def set(self, key, value):
            self.values[key] = value

    put(KeyValueStore(Frozen({})), "main", blob("a"))


def test_only_a_kvstore_is_adapted():
    with pytest.raises(Invalid, match="dict"):
        KeyValueStore({})  # type: ignore[arg-type]


def test_the_default_swap_compares(kv):
    assert KVStore.swap(kv, "key", None, b"1")
    assert not KVStore.swap(kv, "key", None, b"2")
    assert not KVStore.swap(kv, "key", b"0", b"2")
    assert KVStore.swap(kv, "key", b"1", b"2")
    assert kv.values["key"] == b"2"


def test_capabilities_say_what_a_class_can_do(kv):
    class Lasting(DictKV):
        durable = True

    shared, alone = KeyValueStore(kv).capabilities, KeyValueStore(kv, alone=True).capabilities
    assert (shared.shared, shared.collects, shared.durable) == (True, False, False)
    assert (alone.shared, alone.collects) == (False, True)
    assert KeyValueStore(Lasting()).capabilities.durable


def test_a_store_that_may_be_shared_refuses_to_collect(kv):
    with pytest.raises(Unsupported, match="alone=True"):
        KeyValueStore(kv).collect(links)


def test_a_class_that_cannot_remove_or_list_refuses_to_collect():
    class Plain(KVStore):
        get, set = DictKV.get, DictKV.set

    with pytest.raises(Unsupported, match="delete and keys"):
        KeyValueStore(Plain()).collect(links)


def test_a_collection_beside_another_writer_drops_nothing(kv, store):
    put(store, "main", blob("a"), blob("lost"))
    rival = KeyValueStore(DictKV(kv.values))
    kv.before = once("swap", lambda: put(rival, "other", blob("b")))
    with pytest.raises(Busy):
        store.collect(links)
    assert store.read([blob("lost").hash])
    assert store.refs().keys() == {"main", "other"}


def test_keys_could_be_file_names(kv, store):
    put(store, "main", blob("a"))
    assert all(len(key) <= 71 and key.replace("-", "").isalnum() for key in kv.values)
    assert all(key == key.lower() for key in kv.values)
