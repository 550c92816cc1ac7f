"""Promises about refs: compare and set, all or nothing, fenced, and remembered."""

from __future__ import annotations

import pytest

from otolith.errors import Fenced, Invalid, NotFound, StaleRef
from otolith.stores import Batch, Move, Store, Swap
from otolith.testing.store_contract.making import put, thing


class RefPromises:
    """Refs move from the value that was seen, and leave a history."""

    def test_a_ref_names_what_it_was_swapped_to(self, store: Store) -> None:
        a = thing("a")
        assert store.ref("main") is None
        put(store, "main", a)
        assert store.ref("main") == a.hash

    def test_a_swap_needs_the_value_it_saw(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        put(store, "main", a)
        with pytest.raises(StaleRef) as caught:
            store.write(Batch(swaps=[Swap("main", b.hash, a.hash)]))
        assert (caught.value.expected, caught.value.actual) == (b.hash, a.hash)
        assert store.ref("main") == a.hash

    def test_a_new_ref_must_be_new(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        put(store, "main", a)
        with pytest.raises(StaleRef):
            store.write(Batch(swaps=[Swap("main", None, b.hash)]))

    def test_a_ref_can_be_removed_and_made_again(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, None)]))
        assert store.ref("main") is None
        assert store.refs() == {}
        put(store, "main", b)
        assert store.ref("main") == b.hash

    def test_refs_are_listed_by_prefix_in_order(self, store: Store) -> None:
        a = thing("a")
        names = ["b/2", "a", "b/10", "b/é", "b", "c%"]
        store.write(Batch(objects=[a], swaps=[Swap(name, None, a.hash) for name in names]))
        assert list(store.refs()) == sorted(names)
        assert list(store.refs("b/")) == ["b/10", "b/2", "b/é"]
        assert store.refs("c%") == {"c%": a.hash}

    @pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
    def test_a_ref_needs_a_readable_name(self, store: Store, name: str) -> None:
        with pytest.raises(Invalid):
            store.write(Batch(swaps=[Swap(name, None, thing("a").hash)]))

    def test_a_ref_is_swapped_once_in_a_batch(self, store: Store) -> None:
        a, b = thing("a").hash, thing("b").hash
        with pytest.raises(Invalid):
            store.write(Batch(swaps=[Swap("main", None, a), Swap("main", a, b)]))

    def test_a_refused_batch_leaves_nothing_behind(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        put(store, "main", a)
        swaps = [Swap("other", None, b.hash), Swap("main", b.hash, b.hash)]
        with pytest.raises(StaleRef):
            store.write(Batch(objects=[b], swaps=swaps, fences={"lease": 5}))
        assert store.read([b.hash]) == {}
        assert store.refs() == {"main": a.hash}
        assert store.moves("other") == []
        store.write(Batch(fences={"lease": 1}))

    def test_several_refs_move_together(self, store: Store) -> None:
        a = thing("a")
        store.write(Batch(objects=[a], swaps=[Swap("x", None, a.hash), Swap("y", None, a.hash)]))
        assert store.refs() == {"x": a.hash, "y": a.hash}

    def test_what_is_needed_must_be_there(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        with pytest.raises(NotFound):
            store.write(Batch(objects=[b], swaps=[Swap("main", None, b.hash)], needs=[a.hash]))
        assert store.read([b.hash]) == {}
        store.write(Batch(objects=[a]))
        store.write(Batch(objects=[b], swaps=[Swap("main", None, b.hash)], needs=[a.hash]))
        assert store.ref("main") == b.hash

    def test_a_lower_token_is_fenced_off(self, store: Store) -> None:
        a = thing("a")
        store.write(Batch(fences={"lease": 3}))
        with pytest.raises(Fenced):
            store.write(Batch(objects=[a], fences={"lease": 2}))
        assert store.read([a.hash]) == {}
        store.write(Batch(fences={"lease": 3}))
        store.write(Batch(fences={"other": 1}))

    def test_moves_are_told_newest_first(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        store.write(Batch(objects=[a], swaps=[Swap("main", None, a.hash)], time=10, note="first ü"))
        put(store, "other", a)
        store.write(Batch(objects=[b], swaps=[Swap("main", a.hash, b.hash)], time=20, note=""))
        second = Move("main", a.hash, b.hash, 20, "")
        assert store.moves("main") == [second, Move("main", None, a.hash, 10, "first ü")]
        assert store.moves("main", limit=1) == [second]
        assert store.moves("main", limit=0) == []

    def test_history_outlives_its_ref(self, store: Store) -> None:
        a = thing("a")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, None)]))
        assert [(move.old, move.new) for move in store.moves("main")] == [
            (a.hash, None),
            (None, a.hash),
        ]

    def test_a_ref_may_name_an_object_that_is_not_stored(self, store: Store) -> None:
        a, b = thing("a"), thing("b")
        store.write(Batch(swaps=[Swap("main", None, a.hash)]))
        store.write(Batch(swaps=[Swap("main", a.hash, b.hash)]))
        assert store.ref("main") == b.hash
        assert store.moves("main", limit=1) == [Move("main", a.hash, b.hash, 0, "")]

    def test_a_swap_to_the_same_value_is_only_a_check(self, store: Store) -> None:
        a = thing("a")
        put(store, "main", a)
        store.write(Batch(swaps=[Swap("main", a.hash, a.hash)]))
        assert len(store.moves("main")) == 1
