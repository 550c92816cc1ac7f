"""What all branches of a repo share: its store, its graph, and how values are kept in it."""

from __future__ import annotations

from collections.abc import Callable

from otolith.core.history.config import Config
from otolith.core.history.graph import Commit, Graph
from otolith.core.history.past import Past
from otolith.core.history.refs import Refs
from otolith.core.merging.policy import Resolver
from otolith.core.trees.cells import Cells
from otolith.core.trees.encoding import Encoding, ValueCodec
from otolith.core.trees.objects import Buffer, Objects
from otolith.stores import Batch, Store, Swap
from otolith.types import Clock, Hash


class Archive:
    """Objects, refs and commits of one store, with the clock and the author that were given."""

    def __init__(
        self,
        store: Store,
        *,
        codec: ValueCodec,
        clock: Clock,
        author: str,
        entropy: Callable[[int], bytes],
        cache_bytes: int,
    ) -> None:
        self.store = store
        self.clock = clock
        self.author = author
        self.resolvers: dict[str, Resolver] = {}
        self.encoding = Encoding(codec)
        self.objects = Objects(store, cache_bytes=cache_bytes)
        self.graph = Graph(self.objects)
        self.refs = Refs(store, self.graph)
        self.config = Config.of(store, self.encoding, entropy=entropy, now=clock)

    def cells(self) -> Cells:
        """Return a way to read values, and to write new ones into a buffer of its own."""
        return Cells(Buffer(self.objects), self.encoding, self.config.salt)

    def past(self, cells: Cells) -> Past:
        """Return what can be asked of the past."""
        return Past(cells, self.graph)

    def move(self, ref: str, old: Hash | None, new: Commit | None, *, note: str) -> None:
        """Move a ref from where it is known to be to a commit that is stored, or remove it."""
        needs = () if new is None else (new.hash,)
        swap = Swap(ref, old, new.hash if new is not None else None)
        self.store.write(Batch(swaps=[swap], needs=needs, time=self.clock(), note=note))
