"""Every promise of the Store contract as a test: subclass it, and say how to make your store.

class TestMyStore(StoreContract):
    def make(self, folder):
        return MyStore(folder / "place")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otolith.stores import Store
from otolith.testing.store_contract.collection import CollectionPromises
from otolith.testing.store_contract.lifetime import LifetimePromises
from otolith.testing.store_contract.making import links, node, put, thing
from otolith.testing.store_contract.objects import ObjectPromises
from otolith.testing.store_contract.reference import ReferencePromise
from otolith.testing.store_contract.refs import RefPromises
from otolith.testing.store_contract.threads import ThreadPromises

__all__ = ["StoreContract", "links", "node", "put", "thing"]


class StoreContract(
    ObjectPromises,
    RefPromises,
    ThreadPromises,
    LifetimePromises,
    ReferencePromise,
    CollectionPromises,
):
    """The promises. `make` returns an empty store; `reopen` the same one again, if it can last."""

    def make(self, folder: Path) -> Store:
        raise NotImplementedError

    def reopen(self, store: Store, folder: Path) -> Store | None:
        store.close()
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = self.make(tmp_path)
        yield store
        store.close()
