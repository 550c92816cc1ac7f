"""A store that fails when told to: refused calls, lost replies, flipped bits, delays.

store = FaultyStore(MemoryStore(), [Fault("write", at=3, kind="lose")])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import sleep
from typing import Literal, TypeVar

from otolith.errors import Error, Unavailable
from otolith.stores import Batch, Capabilities, Move, Store, Usage
from otolith.types import Hash

Kind = Literal["refuse", "lose", "flip", "delay"]
_T = TypeVar("_T")


def _broken() -> Error:
    return Unavailable("the connection broke", hint="read back, then try again")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and when.

    refuse  the call fails and nothing happens
    lose    the call happens, but the caller gets an error instead of the reply
    flip    one bit of what is read is wrong
    delay   the call waits first
    """

    call: str
    at: int = 0  # which call of this name, from 1; 0 is every one
    kind: Kind = "refuse"
    error: Callable[[], Error] = field(default=_broken)
    delay_seconds: float = 0.0

    def strikes(self, call: str, number: int) -> bool:
        return self.call == call and self.at in {0, number}


class FaultyStore:
    """A layer that follows a plan of faults. `calls` counts what was asked for."""

    def __init__(self, inner: Store, plan: Sequence[Fault] = ()) -> None:
        self.inner = inner
        self.plan = list(plan)
        self.calls: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        faults = self._meet("read")
        found = self._after(faults, lambda: self.inner.read(hashes))
        if any(fault.kind == "flip" for fault in faults):
            return {name: _flipped(data) for name, data in found.items()}
        return found

    def write(self, batch: Batch) -> None:
        self._after(self._meet("write"), lambda: self.inner.write(batch))

    def ref(self, name: str) -> Hash | None:
        return self._after(self._meet("ref"), lambda: self.inner.ref(name))

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        return self._after(self._meet("refs"), lambda: self.inner.refs(prefix))

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        return self._after(self._meet("moves"), lambda: self.inner.moves(name, limit=limit))

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        return self._after(self._meet("find"), lambda: self.inner.find(prefix, limit=limit))

    def usage(self) -> Usage:
        return self._after(self._meet("usage"), self.inner.usage)

    def close(self) -> None:
        self.inner.close()

    def _meet(self, call: str) -> list[Fault]:
        """Count a call; fail or wait before it happens, if that is the plan."""
        with self._lock:
            self.calls[call] += 1
            faults = [fault for fault in self.plan if fault.strikes(call, self.calls[call])]
        for fault in faults:
            if fault.kind == "delay":
                sleep(fault.delay_seconds)
            elif fault.kind == "refuse":
                raise fault.error()
        return faults

    def _after(self, faults: list[Fault], call: Callable[[], _T]) -> _T:
        reply = call()
        for fault in faults:
            if fault.kind == "lose":
                raise fault.error()
        return reply


def _flipped(data: bytes) -> bytes:
    if not data:
        return b"\x01"
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
