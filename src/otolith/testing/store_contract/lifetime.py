"""Promises about a store as a whole: how much it holds, its end, and its return."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from otolith.errors import Closed, Fenced
from otolith.stores import Batch, Store
from otolith.testing.store_contract.making import put, thing


class LifetimePromises:
    """A store is made, used, closed, and maybe opened again."""

    def make(self, folder: Path) -> Store:
        raise NotImplementedError

    def reopen(self, store: Store, folder: Path) -> Store | None:
        raise NotImplementedError

    def test_usage_grows_with_what_is_stored(self, store: Store) -> None:
        before = store.usage()
        noise = b"".join(blake3(b"%d" % number).digest() for number in range(2000))
        store.write(Batch(objects=[thing(noise)]))
        after = store.usage()
        assert after.objects == before.objects + 1
        assert after.stored_bytes >= before.stored_bytes + len(noise) // 2

    def test_closing_twice_is_harmless_and_anything_else_is_closed(self, tmp_path: Path) -> None:
        store = self.make(tmp_path)
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.read([thing("a").hash]),
            lambda: store.write(Batch(objects=[thing("a")])),
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
        store = self.make(tmp_path)
        a, b = thing("a" * 300), thing("a" * 310, base=thing("a" * 300))
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
