"""Backend: the store, graph, refs, clock and codec that all branches of a repo share.

The constants of a repo (`Config`) are a packed object under the ref `.config`, written when a store
is first opened: a map with `format`, the version of the format, and `salt`, a random number that
decides where the nodes of its trees end. A store in which nothing was ever committed may take over
the constants of another repo that is copied into it. So the first write of a backend checks that
they are still those that it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from otolith.core.history.blame import PathHistory
from otolith.core.history.commits import Commit, Graph
from otolith.core.history.refs import CONFIG, Refs
from otolith.core.merge.policies import Resolver
from otolith.core.trees.cells import ATOM_BYTES, Cells
from otolith.core.trees.encoding import Encoding, ValueCodec
from otolith.core.trees.layout import PACKED, digest
from otolith.core.trees.objects import LOAD_LIMIT_BYTES, Buffer, Objects
from otolith.errors import Corrupt, FormatTooNew, StaleRef
from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Clock, Hash, Pauses

FORMAT = 1
_COPY_CACHE_BYTES = 8 << 20


def no_pauses(limit_seconds: float) -> tuple[None, ...]:
    """Wait for nothing."""
    return ()


class Config(NamedTuple):
    """The constants of a repo: the version of its format, and its salt."""

    format: int
    salt: int

    @classmethod
    def of(
        cls, store: Store, encoding: Encoding, *, entropy: Callable[[int], bytes], now: Clock
    ) -> tuple[Config, Hash]:
        """Read the constants of a store, or write new ones to an empty store; return their hash.

        Raises:
            Corrupt: they cannot be read.
            FormatTooNew: a newer otolith wrote the store.
        """
        hash = store.ref(CONFIG)
        if hash is not None:
            return cls._read(store, encoding, hash), hash
        config = cls(FORMAT, int.from_bytes(entropy(8), "big"))
        new = pack(encoding, config._asdict())
        try:
            store.write(
                Batch(objects=[new], swaps=[Swap(CONFIG, None, new.hash)], time=now(), note="init")
            )
        except StaleRef:  # another process wrote them at the same moment
            return cls.of(store, encoding, entropy=entropy, now=now)
        return config, new.hash

    @classmethod
    def _read(cls, store: Store, encoding: Encoding, hash: Hash) -> Config:
        """Read the constants of a repo, and check their hash and format."""
        fields = unpack(store, encoding, hash, "the constants of the repo")
        if not {"format", "salt"} <= fields.keys():
            raise Corrupt("the constants of the repo cannot be read", hint="run otolith fsck")
        if fields["format"] > FORMAT:
            raise FormatTooNew(
                f"the repo has format {fields['format']}, this otolith knows up to {FORMAT}",
                hint="upgrade otolith",
            )
        return cls(fields["format"], fields["salt"])


def pack(encoding: Encoding, fields: Mapping[str, object]) -> Object:
    """Return the object of a small map that is stored under a ref of its own."""
    data = PACKED + encoding.encode(dict(fields))
    return Object(digest(data), data)


def unpack(store: Store, encoding: Encoding, hash: Hash, what: str) -> dict[str, Any]:
    """Return a small map that is stored under a ref of its own.

    Raises:
        Corrupt: it is missing, or something else.
    """
    data = store.read([hash]).get(hash)
    is_sound = data is not None and len(data) <= ATOM_BYTES and digest(data) == hash
    fields = encoding.decode(data[1:]) if data is not None and is_sound else None
    if not isinstance(fields, dict):
        raise Corrupt(f"{what} cannot be read", hint="run otolith fsck")
    return fields


class Backend:
    """Objects, refs and commits of one store, with the clock and author of new commits.

    Threads may share it. `entropy` returns random bytes, for the salt of a new repo and the
    writers of documents; `pauses` are those between questions to a store that does not answer.
    `is_used` says whether values were read or made, which depend on the constants of the repo.
    """

    def __init__(
        self,
        store: Store,
        *,
        codec: ValueCodec,
        clock: Clock,
        author: str,
        entropy: Callable[[int], bytes],
        cache_bytes: int,
        load_limit_bytes: int = LOAD_LIMIT_BYTES,
        pauses: Pauses = no_pauses,
    ) -> None:
        self._codec = codec
        self.entropy = entropy
        self.store = store
        self.clock = clock
        self.author = author
        self.pauses = pauses
        self.resolvers: dict[str, Resolver] = {}
        self.fences: Callable[[], Mapping[str, int]] = dict  # what every commit carries
        self.encoding = Encoding(codec)
        self.objects = Objects(store, cache_bytes=cache_bytes, load_limit_bytes=load_limit_bytes)
        self.graph = Graph(self.objects)
        self.is_used = False
        self.read_constants()

    def read_constants(self) -> None:
        """Read the constants of the repo; once more if they are others now, and nothing is open."""
        self.config, hash = Config.of(
            self.store, self.encoding, entropy=self.entropy, now=self.clock
        )
        self.refs = Refs(self.store, self.graph, salt=self.config.salt, config=hash)

    def cells(self) -> Cells:
        """Return cells over a new buffer, to read values and to stage new ones."""
        self.is_used = True
        return Cells(Buffer(self.objects), self.encoding, self.config.salt)

    def over(self, store: Store) -> Backend:
        """Return a backend of another store, with the same codec, clock and author."""
        return Backend(
            store,
            codec=self._codec,
            clock=self.clock,
            author=self.author,
            entropy=self.entropy,
            cache_bytes=_COPY_CACHE_BYTES,
            pauses=self.pauses,
        )

    def path_history(self, cells: Cells) -> PathHistory:
        """Return a reader of the history of single paths."""
        return PathHistory(cells, self.graph)

    def move(
        self,
        ref: str,
        old: Hash | None,
        new: Commit | None,
        *,
        note: str,
        fences: Mapping[str, int] = {},
    ) -> None:
        """Move a ref from `old` to a stored commit, or remove it.

        Raises:
            StaleRef: the ref is not at `old` any more.
            Fenced: a newer owner has written.
        """
        needs = () if new is None else (new.hash,)
        swap = Swap(ref, old, new.hash if new is not None else None)
        carried = {**self.fences(), **fences}
        batch = Batch((), [swap], carried, needs, time=self.clock(), note=note)
        self.refs.write(self.store, batch)
