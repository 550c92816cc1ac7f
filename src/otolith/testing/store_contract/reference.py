"""The promise that covers the rest: whatever is written, it behaves like the reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otolith.errors import Error
from otolith.stores import Batch, MemoryStore, Object, Store, Swap
from otolith.testing.store_contract.making import thing

_NAMES = ("main", "other/ü")
_POOL = [thing(b"head%d" % number + bytes(150) + b"%d" % number) for number in range(5)]
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


class ReferencePromise:
    """Every batch has the same outcome and the same effect as on a MemoryStore."""

    def make(self, folder: Path) -> Store:
        raise NotImplementedError

    def test_it_behaves_like_the_reference(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        @settings(max_examples=12, deadline=None)
        @given(st.lists(_batches, max_size=12))
        def compare(batches: list[Batch]) -> None:
            store, model = self.make(tmp_path_factory.mktemp("store")), MemoryStore()
            for batch in batches:
                assert _outcome(store, batch) == _outcome(model, batch)
                assert _content(store) == _content(model)
            store.close()

        compare()


def _outcome(store: Store, batch: Batch) -> type[Error] | None:
    try:
        store.write(batch)
    except Error as error:
        return type(error)
    return None


def _content(store: Store) -> tuple[object, ...]:
    objects = store.read([item.hash for item in _POOL])
    moves = [store.moves(name) for name in _NAMES]
    return objects, store.refs(), moves, store.usage().objects
