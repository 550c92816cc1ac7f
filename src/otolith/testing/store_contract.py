"""The promises of the Store contract, as tests to run against your own store.

class TestMyStore(StoreContract):
    def make(self, folder):
        return MyStore(folder / "place")

Objects (what goes in comes out, by name or by prefix), refs (compare and set, all or nothing,
fenced, remembered), threads (no update is lost), collection (what is reached stays, writers lose
nothing), inventory, leases and news for stores that have them, lifetime (usage, close, reopen), and
random operations compared with `MemoryStore`.

Each test checks one promise; its docstring says what a store must do when the test fails. Every
test gets an empty store of its own. Tests of an ability skip stores that do not claim it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Protocol, cast

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import Closed, Fenced, Invalid, NotFound, StaleRef
from otolith.stores import (
    Batch,
    Collector,
    MemoryStore,
    Move,
    Object,
    Store,
    Swap,
)
from otolith.testing.ability_contract import AbilityContract
from otolith.testing.store_samples import blob, links, node, outcome, put, run_in_threads


class CollectableStore(Store, Collector, Protocol):
    """A store that can collect garbage."""


def _counts(done: object) -> tuple[object, ...]:
    """Return what a collection counted; how long it took differs from run to run."""
    names = ("kept_objects", "dropped_objects", "dropped_moves")
    return tuple(getattr(done, name) for name in names)


def _twins() -> tuple[Object, Object]:
    """Return two objects whose hashes start alike."""
    seen: dict[bytes, Object] = {}
    while True:
        item = blob(str(len(seen)))
        twin = seen.setdefault(item.hash[:2], item)
        if twin is not item:
            return twin, item


# The names, objects and hashes that random batches are made of: few, so that they collide.
_NAMES = ("main", "other/ü")
_POOL = [blob(b"head%d" % number + bytes(150) + b"%d" % number) for number in range(5)]
_hashes = st.sampled_from([None, *(item.hash for item in _POOL)])
_batches = st.builds(
    Batch,
    objects=st.lists(
        st.builds(
            lambda item, base: Object(item.hash, item.data, base), st.sampled_from(_POOL), _hashes
        ),
        max_size=3,
    ),
    swaps=st.lists(
        st.builds(Swap, st.sampled_from(_NAMES), _hashes, _hashes),
        max_size=2,
        unique_by=lambda swap: swap.name,
    ),
    fences=st.dictionaries(st.sampled_from(["lease"]), st.integers(0, 3)),
    needs=st.lists(st.sampled_from([item.hash for item in _POOL]), max_size=1),
    time=st.integers(-(2**40), 2**62),
    note=st.text(st.characters(codec="utf-8"), max_size=5),
)


def _content(store: Store) -> tuple[object, ...]:
    """Return all that the store under test can show of the pool."""
    objects = store.read([item.hash for item in _POOL])
    moves = [store.moves(name) for name in _NAMES]
    return objects, store.refs(), moves, store.usage().objects


_TIMES = count(1)


def _add_one(store: Store) -> bool:
    """Increase the number that a ref names; return False if another thread was first."""
    head = store.ref("main")
    assert head is not None
    new = blob(str(int(store.read([head])[head]) + 1))
    try:
        # Two threads may write the same number; a time tells whose move landed (`has_landed`).
        swap = Swap("main", head, new.hash)
        store.write(Batch(objects=[new], swaps=[swap], time=next(_TIMES)))
    except StaleRef:
        return False
    return True


class StoreContract(AbilityContract):
    """The promises of a store. Define `make`, and `reopen` if your store outlives its process."""

    def reopen(self, store: Store, folder: Path) -> Store | None:
        """Close a store and return it opened again, or None if it does not outlive its process."""
        store.close()
        return None

    @pytest.fixture
    def collector(self, store: Store) -> CollectableStore:
        """The same store, if it can collect; the test is skipped otherwise."""
        if not store.capabilities.collects:
            pytest.skip("this store does not collect")
        return cast("CollectableStore", store)

    # -------------------- objects are bytes named by their hash

    def test_what_was_written_is_read(self, store: Store) -> None:
        """`read` returns the bytes of each object, whatever they are, by its hash."""
        a, b = blob("a"), blob(bytes(range(256)) * 300)
        store.write(Batch(objects=[a, b]))
        assert store.read([a.hash, b.hash]) == {a.hash: a.data, b.hash: b.data}

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        """No bytes at all are an object too, and differ from an object that is absent."""
        empty = blob(b"")
        store.write(Batch(objects=[empty]))
        assert store.read([empty.hash]) == {empty.hash: b""}

    def test_what_is_absent_is_left_out(self, store: Store) -> None:
        """`read` leaves absent objects out; it does not raise."""
        a, absent = blob("a"), blob("absent")
        store.write(Batch(objects=[a]))
        assert store.read([absent.hash, a.hash]) == {a.hash: a.data}

    def test_writing_an_object_again_is_harmless(self, store: Store) -> None:
        """An object is stored once, however often it is written, also within one batch."""
        a = blob("a")
        store.write(Batch(objects=[a, a]))
        store.write(Batch(objects=[a]))
        assert store.read([a.hash]) == {a.hash: a.data}
        assert store.usage().objects == 1

    def test_an_object_that_is_not_what_its_hash_says_is_refused(self, store: Store) -> None:
        """A wrong hash is `Invalid`, and nothing of the batch is stored."""
        wrong = Object(blob("a").hash, b"b")
        with pytest.raises(Invalid):
            store.write(Batch(objects=[blob("c"), wrong]))
        assert store.read([wrong.hash, blob("c").hash]) == {}

    def test_a_base_is_only_a_hint(self, store: Store) -> None:
        """A base helps to compress. It may be absent, larger or unlike; the bytes are the same."""
        old = blob(b"head" + b"x" * 500)
        never = blob(b"never written" * 20)
        new = [
            blob(b"HEAD" + b"x" * 500 + b"more", base=old),
            blob(b"head" + b"y" * 600, base=never),
            blob(b"", base=old),
            blob(b"tiny", base=old),
        ]
        store.write(Batch(objects=[old]))
        store.write(Batch(objects=new))
        assert store.read([item.hash for item in new]) == {item.hash: item.data for item in new}

    def test_a_long_line_of_bases_reads_back(self, store: Store) -> None:
        """Deltas of deltas are readable, however long the chain is."""
        line = [blob(b"head" + bytes(400))]
        for place in range(60):
            line.append(blob(line[-1].data[:-4] + b"%04d" % place, base=line[-1]))
            store.write(Batch(objects=line[-2:]))
        assert store.read([item.hash for item in line]) == {item.hash: item.data for item in line}

    def test_objects_are_found_by_how_their_hash_starts(self, store: Store) -> None:
        """`find` returns the hashes that start with a prefix, in order.

        It may ignore the bytes of a prefix that is longer than it needs to look.
        """
        items = [blob(str(number)) for number in range(400)]
        store.write(Batch(objects=items))
        start = items[7].hash[:2]
        wanted = sorted(item.hash for item in items if item.hash.startswith(start))
        assert store.find(start) == wanted
        assert store.find(items[7].hash) == [items[7].hash]
        assert store.find(items[7].hash[:12] + b"\0") in ([], [items[7].hash])

    def test_no_more_are_found_than_asked_for(self, store: Store) -> None:
        """`limit` bounds the result of `find`."""
        twin, item = _twins()
        store.write(Batch(objects=[twin, item]))
        assert len(store.find(item.hash[:2], limit=1)) == 1
        assert len(store.find(item.hash[:2], limit=2)) == 2

    def test_a_prefix_of_one_byte_is_too_short(self, store: Store) -> None:
        """Less than two bytes would match too many objects, and are `Invalid`."""
        with pytest.raises(Invalid):
            store.find(b"\x01")

    # -------------------- refs move from the value that was seen, and leave a history

    def test_a_ref_names_what_it_was_swapped_to(self, store: Store) -> None:
        """`ref` returns the hash of the last swap, or None for a ref that does not exist."""
        a = blob("a")
        assert store.ref("main") is None
        put(store, "main", a)
        assert store.ref("main") == a.hash

    def test_a_swap_needs_the_value_it_saw(self, store: Store) -> None:
        """A swap from another value than the current one is `StaleRef`, which names both."""
        a, b = blob("a"), blob("b")
        put(store, "main", a)
        with pytest.raises(StaleRef) as caught:
            store.write(Batch(swaps=[Swap("main", b.hash, a.hash)]))
        assert (caught.value.expected, caught.value.actual) == (b.hash, a.hash)
        assert store.ref("main") == a.hash

    def test_a_new_ref_must_be_new(self, store: Store) -> None:
        """A swap from None refuses a ref that exists."""
        a, b = blob("a"), blob("b")
        put(store, "main", a)
        with pytest.raises(StaleRef):
            store.write(Batch(swaps=[Swap("main", None, b.hash)]))

    def test_a_ref_can_be_removed_and_made_again(self, store: Store) -> None:
        """A swap to None removes a ref; the name is free again."""
        a, b = blob("a"), blob("b")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, None)]))
        assert store.ref("main") is None
        assert store.refs() == {}
        put(store, "main", b)
        assert store.ref("main") == b.hash

    def test_refs_are_listed_by_prefix_in_order(self, store: Store) -> None:
        """`refs` sorts by name, and takes a prefix literally: `%` is not a wildcard."""
        a = blob("a")
        names = ["b/2", "a", "b/10", "b/é", "b", "c%"]
        store.write(Batch(objects=[a], swaps=[Swap(name, None, a.hash) for name in names]))
        assert list(store.refs()) == sorted(names)
        assert list(store.refs("b/")) == ["b/10", "b/2", "b/é"]
        assert store.refs("c%") == {"c%": a.hash}

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
    def test_a_ref_needs_a_readable_name(self, store: Store, name: str) -> None:
        """A name must not be empty, contain NUL, or be text that UTF-8 cannot encode."""
        with pytest.raises(Invalid):
            store.write(Batch(swaps=[Swap(name, None, blob("a").hash)]))

    def test_a_ref_is_swapped_once_in_a_batch(self, store: Store) -> None:
        """Two swaps of one ref in a batch have no order, and are `Invalid`."""
        a, b = blob("a").hash, blob("b").hash
        with pytest.raises(Invalid):
            store.write(Batch(swaps=[Swap("main", None, a), Swap("main", a, b)]))

    def test_a_refused_batch_leaves_nothing_behind(self, store: Store) -> None:
        """Objects, refs, history and fences of a refused batch are as before."""
        a, b = blob("a"), blob("b")
        put(store, "main", a)
        swaps = [Swap("other", None, b.hash), Swap("main", b.hash, b.hash)]
        with pytest.raises(StaleRef):
            store.write(Batch(objects=[b], swaps=swaps, fences={"lease": 5}))
        assert store.read([b.hash]) == {}
        assert store.refs() == {"main": a.hash}
        assert store.moves("other") == []
        store.write(Batch(fences={"lease": 1}))

    def test_several_refs_move_together(self, store: Store) -> None:
        """All swaps of a batch happen, or none."""
        a = blob("a")
        store.write(Batch(objects=[a], swaps=[Swap("x", None, a.hash), Swap("y", None, a.hash)]))
        assert store.refs() == {"x": a.hash, "y": a.hash}

    def test_as_many_refs_move_together_as_it_says(self, store: Store) -> None:
        """A batch may move `capabilities.most_swaps` refs, and 300 if there is no limit."""
        a, b = blob("a"), blob("b")
        names = [f"ref {number:03}" for number in range(store.capabilities.most_swaps or 300)]
        store.write(Batch(objects=[a, b], swaps=[Swap(name, None, a.hash) for name in names]))
        swaps = [Swap(name, a.hash, b.hash) for name in names]
        store.write(Batch(swaps=swaps, needs=[b.hash], fences={"lease": 1}))
        assert store.refs() == dict.fromkeys(names, b.hash)
        assert len(store.moves()) == 2 * len(names)

    def test_what_is_needed_must_be_there(self, store: Store) -> None:
        """A batch whose `needs` are absent is `NotFound`, and nothing of it is stored."""
        a, b = blob("a"), blob("b")
        with pytest.raises(NotFound):
            store.write(Batch(objects=[b], swaps=[Swap("main", None, b.hash)], needs=[a.hash]))
        assert store.read([b.hash]) == {}
        store.write(Batch(objects=[a]))
        store.write(Batch(objects=[b], swaps=[Swap("main", None, b.hash)], needs=[a.hash]))
        assert store.ref("main") == b.hash

    def test_a_lower_token_is_fenced_off(self, store: Store) -> None:
        """A batch with a lower token than the last one of the same name is `Fenced`."""
        a = blob("a")
        store.write(Batch(fences={"lease": 3}))
        with pytest.raises(Fenced):
            store.write(Batch(objects=[a], fences={"lease": 2}))
        assert store.read([a.hash]) == {}
        store.write(Batch(fences={"lease": 3}))
        store.write(Batch(fences={"other": 1}))

    def test_moves_are_listed_newest_first(self, store: Store) -> None:
        """`moves` returns old and new value, time and note of each swap, up to `limit`."""
        a, b = blob("a"), blob("b")
        store.write(Batch(objects=[a], swaps=[Swap("main", None, a.hash)], time=10, note="first ü"))
        put(store, "other", a)
        store.write(Batch(objects=[b], swaps=[Swap("main", a.hash, b.hash)], time=20, note=""))
        second = Move("main", a.hash, b.hash, 20, "")
        assert store.moves("main") == [second, Move("main", None, a.hash, 10, "first ü")]
        assert store.moves("main", limit=1) == [second]
        assert store.moves("main", limit=0) == []

    def test_history_outlives_its_ref(self, store: Store) -> None:
        """The moves of a ref stay when it is removed, so that it can be restored."""
        a = blob("a")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, None)]))
        assert [(move.old, move.new) for move in store.moves("main")] == [
            (a.hash, None),
            (None, a.hash),
        ]

    def test_a_ref_may_name_an_object_that_is_not_stored(self, store: Store) -> None:
        """A swap does not check its hash; `needs` is for that."""
        a, b = blob("a"), blob("b")
        store.write(Batch(swaps=[Swap("main", None, a.hash)]))
        store.write(Batch(swaps=[Swap("main", a.hash, b.hash)]))
        assert store.ref("main") == b.hash
        assert store.moves("main", limit=1) == [Move("main", a.hash, b.hash, 0, "")]

    def test_a_swap_to_the_same_value_is_only_a_check(self, store: Store) -> None:
        """A swap that changes nothing adds nothing to the history."""
        a = blob("a")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, a.hash)]))
        assert len(store.moves("main")) == 1

    # -------------------- several threads share one store

    def test_no_update_of_one_ref_is_lost(self, store: Store) -> None:
        """Threads that read, add one and swap count to the full number."""
        each = 12
        put(store, "main", blob("0"))

        def add() -> None:
            """Increase the number several times; repeat an update that lost a race."""
            for _ in range(each):
                while not _add_one(store):
                    pass

        run_in_threads(self.threads, add)
        head = store.ref("main")
        assert head is not None
        assert int(store.read([head])[head]) == self.threads * each
        assert len(store.moves("main")) == self.threads * each + 1

    def test_one_refused_writer_does_not_hurt_the_others(self, store: Store) -> None:
        """A store may commit batches of threads together, but refuses each alone."""
        good: list[Object] = []
        bad: list[Object] = []
        numbers = count()

        def mixed() -> None:
            """Write new objects; every second batch has a swap that must be refused."""
            for turn in range(10):
                item = blob(f"item {next(numbers)}")
                wrong = turn % 2 == 1
                old = item.hash if wrong else None
                try:
                    store.write(
                        Batch(objects=[item], swaps=[Swap(item.hash.hex(), old, item.hash)])
                    )
                    good.append(item)
                except StaleRef:
                    bad.append(item)

        run_in_threads(self.threads, mixed)
        assert len(good) == len(bad) == self.threads * 5
        assert len(store.read([item.hash for item in good])) == len(good)
        assert store.read([item.hash for item in bad]) == {}
        assert len(store.refs()) == len(good)

    # -------------------- a store is made, used, closed, and maybe opened again

    def test_usage_grows_with_what_is_stored(self, store: Store) -> None:
        """`usage` counts objects, and bytes as they are on the disk."""
        before = store.usage()
        noise = b"".join(blake3(b"%d" % number).digest() for number in range(2000))
        store.write(Batch(objects=[blob(noise)]))
        after = store.usage()
        assert after.objects == before.objects + 1
        assert after.stored_bytes >= before.stored_bytes + len(noise) // 2

    def test_closing_twice_is_harmless_and_anything_else_is_closed(self, tmp_path: Path) -> None:
        """After `close`, every other call is `Closed`."""
        store = self.make(tmp_path)
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.read([blob("a").hash]),
            lambda: store.write(Batch(objects=[blob("a")])),
            lambda: store.ref("main"),
            store.refs,
            lambda: store.moves("main"),
            lambda: store.find(b"ab"),
            store.usage,
        ]
        for call in calls:
            with pytest.raises(Closed):
                call()

    def test_a_durable_store_has_everything_after_it_is_opened_again(self, tmp_path: Path) -> None:
        """Objects, refs, moves and fences survive, if `capabilities.durable` is true."""
        store = self.make(tmp_path)
        a, b = blob("a" * 300), blob("a" * 310, base=blob("a" * 300))
        put(store, "main", a, time=1)
        put(store, "main", b, time=2)
        store.write(Batch(fences={"lease": 4}))
        moves, durable = store.moves("main"), store.capabilities.durable
        again = self.reopen(store, tmp_path)
        if again is None:
            assert not durable
            return
        assert again.read([a.hash, b.hash]) == {a.hash: a.data, b.hash: b.data}
        assert (again.ref("main"), again.moves("main")) == (b.hash, moves)
        with pytest.raises(Fenced):
            again.write(Batch(fences={"lease": 3}))
        again.close()

    # -------------------- every batch has the same effect as on a MemoryStore

    def test_it_behaves_like_the_reference(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Random batches have the same effect, or the same error, as on a `MemoryStore`."""

        @settings(max_examples=12, deadline=None)
        @given(st.lists(_batches, max_size=12))
        def compare(batches: list[Batch]) -> None:
            """Write batches into an empty store and into the reference, and compare both."""
            store, model = self.make(tmp_path_factory.mktemp("store")), MemoryStore()
            for batch in batches:
                assert outcome(store, batch) == outcome(model, batch)
                assert _content(store) == _content(model)
            store.close()

        compare()

    # -------------------- collection, for stores that can collect; the others skip these

    def test_what_no_ref_reaches_is_dropped(self, collector: CollectableStore) -> None:
        """`collect` keeps what refs reach, and drops the rest."""
        leaf, lost = blob("leaf"), blob("lost")
        top = node(leaf)
        put(collector, "main", top, leaf, lost)
        done = collector.collect(links)
        assert (done.kept_objects, done.dropped_objects) == (2, 1)
        assert collector.read([top.hash, leaf.hash, lost.hash]).keys() == {top.hash, leaf.hash}
        assert collector.usage().objects == 2

    def test_what_a_remembered_move_reaches_stays(self, collector: CollectableStore) -> None:
        """What the history of a ref names stays as long as the move is remembered."""
        a, b = blob("a"), blob("b")
        put(collector, "main", a, time=10)
        put(collector, "main", b, time=20)
        assert collector.collect(links, forget_moves_before=15).dropped_moves == 1
        assert collector.read([a.hash]) == {a.hash: a.data}
        assert collector.moves("main") == [Move("main", a.hash, b.hash, 20, "")]

    def test_what_only_forgotten_moves_reach_is_dropped(self, collector: CollectableStore) -> None:
        """Moves before the limit are forgotten, and then what only they reach is dropped."""
        a, b = blob("a" * 200), blob("a" * 201, base=blob("a" * 200))
        put(collector, "main", a, time=10)
        put(collector, "main", b, time=20)
        put(collector, "gone", a, time=10)
        collector.write(Batch(swaps=[Swap("gone", a.hash, None)], time=11))
        assert collector.collect(links, forget_moves_before=30).dropped_moves == 4
        assert collector.read([a.hash, b.hash]) == {b.hash: b.data}
        assert collector.find(a.hash) == []
        assert collector.moves("main") == collector.moves("gone") == []
        assert collector.refs() == {"main": b.hash}
        with pytest.raises(NotFound):
            collector.write(Batch(needs=[a.hash]))

    def test_what_was_dropped_can_be_written_again(self, collector: CollectableStore) -> None:
        """A dropped object, even one that was a base, is stored like a new one."""
        a, b = blob("a" * 200), blob("a" * 201, base=blob("a" * 200))
        put(collector, "main", a, time=1)
        put(collector, "main", b, time=2)
        collector.collect(links, forget_moves_before=3)
        put(collector, "main", a, time=4)
        assert collector.read([a.hash, b.hash]) == {a.hash: a.data, b.hash: b.data}
        assert collector.moves("main") == [Move("main", b.hash, a.hash, 4, "")]

    def test_a_dry_run_reports_the_same_and_changes_nothing(
        self, collector: CollectableStore
    ) -> None:
        """`dry_run` counts what `collect` would drop, and drops nothing."""
        a, b = blob("a"), blob("b")
        put(collector, "main", a, time=10)
        put(collector, "main", b, time=20)
        reported = collector.collect(links, forget_moves_before=30, dry_run=True)
        assert collector.read([a.hash]) == {a.hash: a.data}
        assert len(collector.moves("main")) == 2
        done = collector.collect(links, forget_moves_before=30)
        assert _counts(reported) == _counts(done)

    def test_a_clock_that_jumped_leaves_no_hole_in_a_history(
        self, collector: CollectableStore
    ) -> None:
        """Moves are forgotten from the oldest on, even if a later one has an earlier time."""
        for number, time in enumerate([10, 50, 20, 60]):
            put(collector, "main", blob(str(number)), time=time)
        collector.collect(links, forget_moves_before=30)
        assert [move.time for move in collector.moves("main")] == [60, 20, 50]

    def test_writers_lose_nothing_to_a_collection_beside_them(
        self, collector: CollectableStore
    ) -> None:
        """A collection never drops an object that a batch is about to make reachable."""
        heads: list[Object] = []
        numbers = count()

        def write() -> None:
            """Write heads that share leaves, and junk that may be dropped."""
            for _ in range(25):
                number = next(numbers)
                leaf = blob(f"leaf {number % 7}" * 20)
                top = node(leaf, label=str(number))
                put(collector, f"ref {number}", top, leaf, blob(f"junk {number}"))
                heads.append(top)

        def sweep() -> None:
            """Collect again and again."""
            for _ in range(5):
                collector.collect(links)

        run_in_threads(3, write, sweep)
        for top in heads:
            wanted = [top.hash, *links(top.data)]
            assert len(collector.read(wanted)) == len(wanted)
