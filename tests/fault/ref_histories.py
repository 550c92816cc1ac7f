"""Recorded histories of refs: writers that read and swap, each over a connection that fails.

What each of them asked and was answered is a history, which `check_linearizable` judges. A reply
that was lost is an operation without a return: it may have happened, then or later, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from threading import Barrier, Thread
from time import monotonic_ns
from typing import Literal

from otolith.errors import Busy, StaleRef, Unavailable
from otolith.stores import Batch, Store, Swap
from otolith.testing import (
    Fault,
    FaultyStore,
    Operation,
    RegisterRead,
    RegisterSwap,
    blob,
)
from otolith.types import Hash


class RefWriter:
    """One writer: its chance, its connection, what it last saw of each ref, what it recorded."""

    def __init__(self, name: str, store: Store, refs: Sequence[str], seed: str) -> None:
        self.name = name
        self.chance = Random(f"{seed} {name}")
        self.store = FaultyStore(store, list(map(self._fault, range(12))))
        self.seen: dict[str, Hash | None] = dict.fromkeys(refs)
        self.history: list[Operation] = []

    def run(self, count: int) -> None:
        """Read and swap refs at random."""
        for number in range(count):
            ref = self.chance.choice(sorted(self.seen))
            if self.chance.random() < 0.4:
                self._read(ref)
            else:
                self._swap(ref, number)

    def _fault(self, _: int) -> Fault:
        kinds: list[Literal["refuse", "lose", "delay"]] = ["lose", "lose", "refuse", "delay"]
        kind = self.chance.choice(kinds)
        call = self.chance.choice(["write", "write", "ref"])
        delay_seconds = self.chance.uniform(0, 0.003)
        return Fault(call, self.chance.randrange(1, 12), kind, delay_seconds=delay_seconds)

    def _read(self, ref: str) -> None:
        called = monotonic_ns()
        try:
            self.seen[ref] = self.store.ref(ref)
        except Unavailable:
            return  # a read without an answer says nothing
        given = RegisterRead(ref)
        self.history.append(Operation(self.name, given, self.seen[ref], called, monotonic_ns()))

    def _swap(self, ref: str, number: int) -> None:
        """Swap a ref from what was last seen of it, mostly to something new."""
        item = blob(f"{self.name} {number}")
        old = self.seen[ref]
        new = None if old and self.chance.random() < 0.1 else item.hash
        given = RegisterSwap(old, new, ref)
        called = monotonic_ns()
        try:
            self.store.write(Batch([item], [Swap(ref, old, new)], note=f"{self.name} {number}"))
        except StaleRef as stale:
            self.seen[ref] = Hash(stale.actual) if stale.actual else None
            self.history.append(Operation(self.name, given, False, called, monotonic_ns()))
        except Busy:
            return  # nothing was written
        except Unavailable:
            self.history.append(Operation(self.name, given, None, called))
        else:
            self.seen[ref] = new
            self.history.append(Operation(self.name, given, True, called, monotonic_ns()))


def record_refs(
    opener: Callable[[], Store],
    *,
    seed: str,
    refs: Sequence[str] = ("main", "side"),
    count: int = 12,
) -> list[Operation]:
    """Let 4 to 8 writers work on the same refs at the same time, and return what they recorded.

    A read of each ref follows, so that what was acknowledged last is looked at too.
    """
    names = [f"w{number}" for number in range(Random(seed).randrange(4, 9))]
    refs = [f"{ref} {seed}" for ref in refs]
    stores = [opener() for _ in names]
    writers = [RefWriter(*pair, refs, seed) for pair in zip(names, stores, strict=True)]
    barrier = Barrier(len(writers))
    errors: list[BaseException] = []

    def run(writer: RefWriter) -> None:
        try:
            barrier.wait()
            writer.run(count)
        except BaseException as error:  # noqa: BLE001 - it is raised again below
            errors.append(error)

    threads = [Thread(target=run, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    history = [each for writer in writers for each in writer.history]
    for ref in refs:
        called = monotonic_ns()
        found = stores[0].ref(ref)
        history.append(Operation("end", RegisterRead(ref), found, called, monotonic_ns()))
    if stores[0] is not stores[1]:  # all share one handle otherwise
        for store in stores:
            store.close()
    return history
