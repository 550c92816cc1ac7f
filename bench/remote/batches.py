"""Parts of a commit: its batch, again and again with other bytes; the tree it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from blake3 import blake3

import otolith
from otolith.stores import Batch, Layer, Object, Swap
from otolith.types import Hash

REF = "bench/batches"


class RecordedStore(Layer):
    """A store that remembers the last batch."""

    last = Batch()

    def write(self, batch: Batch) -> None:
        """Write a batch, and remember it."""
        self.last = batch
        self.inner.write(batch)


def batches_like(batch: Batch, count: int) -> Iterator[Batch]:
    """Yield batches with new objects of the same sizes, which move a ref of their own.

    They are made before the first is yielded, for the time that this takes is not the store's.
    """
    return iter([*_batches(batch, count)])


def _batches(batch: Batch, count: int) -> Iterator[Batch]:
    head: Hash | None = None
    for number in range(count):
        salt = b"%016d" % number
        found = [salt + item.data[len(salt) :] for item in batch.objects]
        objects = [Object(Hash(blake3(data).digest()), data) for data in found]
        yield Batch(objects, [Swap(REF, head, objects[-1].hash)], time=number)
        head = objects[-1].hash


def levels_of(repo: otolith.Repo, state: otolith.Versioned) -> int:
    """Return how many levels of nodes the tree of a committed state has."""
    root = state.cell_at(())
    tree = state.cells.tree(root) if root is not None else None
    if tree is None:
        return 1  # a small state is one object
    return repo.store.read([tree.hash])[tree.hash][1] + 1  # its second byte is the root's level
