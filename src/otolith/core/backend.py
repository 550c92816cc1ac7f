"""The constants of a repo: an object like any other, under the ref `.config`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from otolith.core.history.refs import CONFIG
from otolith.core.trees.encoding import Encoding
from otolith.core.trees.hashing import digest
from otolith.core.trees.layout import PACKED
from otolith.errors import Corrupt, FormatTooNew, StaleRef
from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Clock, Hash

FORMAT = 1


class Config(NamedTuple):
    """Format version, and the salt that decides where nodes end."""

    format: int
    salt: int

    @classmethod
    def of(
        cls, store: Store, encoding: Encoding, *, entropy: Callable[[int], bytes], now: Clock
    ) -> Config:
        """Read the constants of a store; give an empty one its own."""
        hash = store.ref(CONFIG)
        if hash is not None:
            return cls._read(store, encoding, hash)
        config = cls(FORMAT, int.from_bytes(entropy(8), "big"))
        data = PACKED + encoding.encode({"format": config.format, "salt": config.salt})
        new = Object(digest(data), data)
        try:
            store.write(
                Batch(objects=[new], swaps=[Swap(CONFIG, None, new.hash)], time=now(), note="init")
            )
        except StaleRef:  # another process made it at the same moment
            return cls.of(store, encoding, entropy=entropy, now=now)
        return config

    @classmethod
    def _read(cls, store: Store, encoding: Encoding, hash: Hash) -> Config:
        data = store.read([hash]).get(hash)
        fields = encoding.decode(data[1:]) if data is not None and digest(data) == hash else None
        if not isinstance(fields, dict) or not {"format", "salt"} <= fields.keys():
            raise Corrupt("the constants of the repo cannot be read", hint="run otolith fsck")
        if fields["format"] > FORMAT:
            raise FormatTooNew(
                f"the repo has format {fields['format']}, this otolith knows up to {FORMAT}",
                hint="upgrade otolith",
            )
        return cls(fields["format"], fields["salt"])
