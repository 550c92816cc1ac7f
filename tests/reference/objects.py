"""Small objects for tests of stores: blobs, and nodes that refer to others."""

from __future__ import annotations

from collections.abc import Iterable

from blake3 import blake3

from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Hash

_NODE = b"node"


def blob(data: bytes | str) -> Object:
    """Return an object with these bytes, named by their hash."""
    raw = data.encode() if isinstance(data, str) else data
    return Object(Hash(blake3(raw).digest()), raw)


def node(*children: Object, label: str = "") -> Object:
    """Return an object that refers to others; `links` reads which."""
    return blob(_NODE + b"".join(child.hash for child in children) + label.encode())


def links(data: bytes) -> Iterable[Hash]:
    """Return the hashes that an object of `node` refers to."""
    body = data[len(_NODE) :] if data.startswith(_NODE) else b""
    return [Hash(body[at : at + 32]) for at in range(0, len(body) // 32 * 32, 32)]


def put(store: Store, name: str, new: Object, *others: Object, time: int = 0) -> None:
    """Write objects and point a ref at the first."""
    swap = Swap(name, store.ref(name), new.hash)
    store.write(Batch(objects=[*others, new], swaps=[swap], time=time))
