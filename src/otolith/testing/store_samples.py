"""Objects to write into a store under test, and threads to write them with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Barrier, Thread

from blake3 import blake3

from otolith.errors import Error
from otolith.stores import Batch, Object, Store, Swap
from otolith.types import Hash

_NODE = b"node"


def blob(data: bytes | str, *, base: Object | None = None) -> Object:
    """Return an object with these bytes, named by their hash."""
    raw = data.encode() if isinstance(data, str) else data
    return Object(Hash(blake3(raw).digest()), raw, base.hash if base is not None else None)


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


def run_in_threads(threads: int, *works: Callable[[], None]) -> None:
    """Run functions in threads that start together; raise the first error of any."""
    todo = [works[min(number, len(works) - 1)] for number in range(threads)]
    barrier = Barrier(threads)
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        """Wait for the others, then work."""
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


def outcome(store: Store, batch: Batch) -> type[Error] | None:
    """Write a batch; return the class of its error, or None."""
    try:
        store.write(batch)
    except Error as error:
        return type(error)
    return None
