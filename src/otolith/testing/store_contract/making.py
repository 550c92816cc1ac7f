"""Making objects for tests: leaves, nodes that need others, and what points at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Barrier, Thread

from blake3 import blake3

from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Hash

_NODE = b"node"


def thing(data: bytes | str, *, base: Object | None = None) -> Object:
    """Return an object with these bytes."""
    raw = data.encode() if isinstance(data, str) else data
    return Object(Hash(blake3(raw).digest()), raw, base.hash if base is not None else None)


def node(*children: Object, label: str = "") -> Object:
    """Return an object that needs others; `links` can tell which."""
    return thing(_NODE + b"".join(child.hash for child in children) + label.encode())


def links(data: bytes) -> Iterable[Hash]:
    """Return what an object made by `node` needs."""
    body = data[len(_NODE) :] if data.startswith(_NODE) else b""
    return [Hash(body[at : at + 32]) for at in range(0, len(body) // 32 * 32, 32)]


def put(store: Store, name: str, new: Object, *others: Object, time: int = 0) -> None:
    """Write objects and point a ref at the first."""
    swap = Swap(name, store.ref(name), new.hash)
    store.write(Batch(objects=[*others, new], swaps=[swap], time=time))


def together(threads: int, *works: Callable[[], None]) -> None:
    """Run works in several threads that start at once; an error in one is an error here."""
    todo = [works[min(number, len(works) - 1)] for number in range(threads)]
    barrier = Barrier(threads)
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    started = [Thread(target=run, args=(work,)) for work in todo]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]
