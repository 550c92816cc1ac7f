"""Roots in the store for objects: refs there that make it keep what refs in etcd name.

The store for objects collects by its own refs, so each hash that a ref in etcd is moved to becomes
a ref there first, in the same atomic write as its objects: `keep/<id>/<epoch>/<hash>`. The epoch is
the one that the write compares in etcd. `gc.py` removes those of older epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otolith.errors import StaleRef
from otolith.stores.base import Batch, Object, Store, Swap
from otolith.types import Hash

_AT_ONCE = 500


class Roots:
    """The refs of one etcd store in its store for objects."""

    def __init__(self, objects: Store, identity: str) -> None:
        self.objects = objects
        self.all = f"keep/{identity}/"

    def name(self, epoch: int, hash_: Hash) -> str:
        """Return the name of a root."""
        return f"{self.all}{epoch:016x}/{hash_.hex()}"

    def add(
        self,
        epoch: int,
        hashes: Iterable[Hash],
        objects: Sequence[Object] = (),
        needs: Sequence[Hash] = (),
    ) -> None:
        """Write objects, and make hashes roots, in one atomic step. A root may be there already."""
        wanted = {self.name(epoch, hash_): hash_ for hash_ in hashes}
        actual: dict[str, Hash | None] = {}
        while True:
            swaps = [Swap(name, actual.get(name), hash_) for name, hash_ in wanted.items()]
            try:
                self.objects.write(Batch(objects, swaps, needs=needs))
            except StaleRef as stale:
                actual[stale.name] = self.objects.ref(stale.name)
            else:
                return

    def add_many(self, epoch: int, hashes: Iterable[Hash]) -> None:
        """Make many hashes roots; those that are already are left alone."""
        present = self.objects.refs(f"{self.all}{epoch:016x}/")
        missing = [each for each in sorted(set(hashes)) if self.name(epoch, each) not in present]
        for start in range(0, len(missing), _AT_ONCE):
            self.add(epoch, missing[start : start + _AT_ONCE])

    def remove_before(self, epoch: int) -> None:
        """Remove the roots of older epochs; another collection may be at it too."""
        first = f"{self.all}{epoch:016x}/"
        old = [item for item in self.objects.refs(self.all).items() if item[0] < first]
        for start in range(0, len(old), _AT_ONCE):
            some = dict(old[start : start + _AT_ONCE])
            while some:
                swaps = [Swap(name, hash_, None) for name, hash_ in some.items()]
                try:
                    self.objects.write(Batch(swaps=swaps))
                except StaleRef as stale:
                    del some[stale.name]
                else:
                    break
