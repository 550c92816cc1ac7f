"""Promises to threads: no update is lost, and nobody pays for the mistake of another."""

from __future__ import annotations

from itertools import count
from typing import ClassVar

from otolith.errors import StaleRef
from otolith.stores import Batch, Object, Store, Swap
from otolith.testing.store_contract.making import put, thing, together


class ThreadPromises:
    """Several threads share one store."""

    threads: ClassVar[int] = 4

    def test_no_update_of_one_ref_is_lost(self, store: Store) -> None:
        each = 12
        put(store, "main", thing("0"))

        def add() -> None:
            for _ in range(each):
                while not _add_one(store):
                    pass

        together(self.threads, add)
        head = store.ref("main")
        assert head is not None
        assert int(store.read([head])[head]) == self.threads * each
        assert len(store.moves("main")) == self.threads * each + 1

    def test_one_refused_writer_does_not_hurt_the_others(self, store: Store) -> None:
        good: list[Object] = []
        bad: list[Object] = []
        numbers = count()

        def mixed() -> None:
            for turn in range(10):
                item = thing(f"item {next(numbers)}")
                wrong = turn % 2 == 1
                old = item.hash if wrong else None
                try:
                    store.write(
                        Batch(objects=[item], swaps=[Swap(item.hash.hex(), old, item.hash)])
                    )
                    good.append(item)
                except StaleRef:
                    bad.append(item)

        together(self.threads, mixed)
        assert len(good) == len(bad) == self.threads * 5
        assert len(store.read([item.hash for item in good])) == len(good)
        assert store.read([item.hash for item in bad]) == {}
        assert len(store.refs()) == len(good)


def _add_one(store: Store) -> bool:
    head = store.ref("main")
    assert head is not None
    new = thing(str(int(store.read([head])[head]) + 1))
    try:
        store.write(Batch(objects=[new], swaps=[Swap("main", head, new.hash)]))
    except StaleRef:
        return False
    return True
