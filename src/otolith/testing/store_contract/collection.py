"""Promises about collection: what is reached stays, the rest goes, and writers lose nothing."""

from __future__ import annotations

from itertools import count
from typing import Protocol, cast

import pytest

from otolith.errors import NotFound
from otolith.stores import Batch, Collector, Move, Object, Store, Swap
from otolith.testing.store_contract.making import links, node, put, thing, together


class Collecting(Store, Collector, Protocol):
    """A store that is also a collector."""


class CollectionPromises:
    """For stores that can collect; the others skip them."""

    def test_what_no_ref_reaches_is_dropped(self, collector: Collecting) -> None:
        leaf, lost = thing("leaf"), thing("lost")
        top = node(leaf)
        put(collector, "main", top, leaf, lost)
        done = collector.collect(links)
        assert (done.kept_objects, done.dropped_objects) == (2, 1)
        assert collector.read([top.hash, leaf.hash, lost.hash]).keys() == {top.hash, leaf.hash}
        assert collector.usage().objects == 2

    def test_what_a_remembered_move_reaches_stays(self, collector: Collecting) -> None:
        a, b = thing("a"), thing("b")
        put(collector, "main", a, time=10)
        put(collector, "main", b, time=20)
        assert collector.collect(links, forget_moves_before=15).dropped_moves == 1
        assert collector.read([a.hash]) == {a.hash: a.data}
        assert collector.moves("main") == [Move("main", a.hash, b.hash, 20, "")]

    def test_what_only_forgotten_moves_reach_is_dropped(self, collector: Collecting) -> None:
        a, b = thing("a" * 200), thing("a" * 201, base=thing("a" * 200))
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

    def test_what_was_dropped_can_be_written_again(self, collector: Collecting) -> None:
        a, b = thing("a" * 200), thing("a" * 201, base=thing("a" * 200))
        put(collector, "main", a, time=1)
        put(collector, "main", b, time=2)
        collector.collect(links, forget_moves_before=3)
        put(collector, "main", a, time=4)
        assert collector.read([a.hash, b.hash]) == {a.hash: a.data, b.hash: b.data}
        assert collector.moves("main") == [Move("main", b.hash, a.hash, 4, "")]

    def test_a_rehearsal_tells_the_same_and_changes_nothing(self, collector: Collecting) -> None:
        a, b = thing("a"), thing("b")
        put(collector, "main", a, time=10)
        put(collector, "main", b, time=20)
        told = collector.collect(links, forget_moves_before=30, dry_run=True)
        assert collector.read([a.hash]) == {a.hash: a.data}
        assert len(collector.moves("main")) == 2
        done = collector.collect(links, forget_moves_before=30)
        assert _counts(told) == _counts(done)

    def test_a_clock_that_jumped_leaves_no_hole_in_a_history(self, collector: Collecting) -> None:
        for number, time in enumerate([10, 50, 20, 60]):
            put(collector, "main", thing(str(number)), time=time)
        collector.collect(links, forget_moves_before=30)
        assert [move.time for move in collector.moves("main")] == [60, 20, 50]

    def test_writers_lose_nothing_to_a_collection_beside_them(self, collector: Collecting) -> None:
        heads: list[Object] = []
        numbers = count()

        def write() -> None:
            for _ in range(25):
                number = next(numbers)
                leaf = thing(f"leaf {number % 7}" * 20)
                top = node(leaf, label=str(number))
                put(collector, f"ref {number}", top, leaf, thing(f"junk {number}"))
                heads.append(top)

        def sweep() -> None:
            for _ in range(5):
                collector.collect(links)

        together(3, write, sweep)
        for top in heads:
            wanted = [top.hash, *links(top.data)]
            assert len(collector.read(wanted)) == len(wanted)

    @pytest.fixture
    def collector(self, store: Store) -> Collecting:
        if not store.capabilities.collects:
            pytest.skip("this store does not collect")
        return cast("Collecting", store)


def _counts(done: object) -> tuple[object, ...]:
    names = ("kept_objects", "dropped_objects", "dropped_moves")
    return tuple(getattr(done, name) for name in names)
