"""A store at the other end of a line: what a worker reads comes from its host.

Long objects are handed to the host while the rest is still being captured (`HandingBuffer`). The
host hashes and compresses them beside that; what turns out not to be needed is dropped there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from otolith.core import Buffer, digest, is_leaf
from otolith.errors import Invalid, ReadOnly
from otolith.stores import Batch, Capabilities, Move, Object, Usage
from otolith.types import Hash
from otolith.workspace.protocol import (
    CheckSignature,
    EarlyObjects,
    FromWorker,
    Host,
    Map,
    MemoryReply,
    ObjectsReply,
    Read,
    SignatureReply,
    ToWorker,
)
from otolith.workspace.wire import Wire, seal


class RemoteHost:
    """The host at the other end of a line, asked one question at a time."""

    def __init__(self, wire: Wire[ToWorker]) -> None:
        self.wire = wire

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there."""
        found: dict[Hash, bytes] = {}
        rest = list(hashes)
        while rest:  # an answer has a limit
            answer, _ = self._ask(Read(list(rest)))
            if not isinstance(answer, ObjectsReply) or not answer.found:
                raise _unexpected(answer)
            pairs = zip(rest, answer.found, strict=False)
            found |= {hash: data for hash, data in pairs if data is not None}
            found |= {Hash(digest(data)): data for data in answer.more}
            rest = rest[len(answer.found) :]
        return found

    def map(self, cell: bytes) -> tuple[int, int] | None:
        """Return a descriptor of raw bytes in one piece, and how many; None if that is refused."""
        answer, fds = self._ask(Map(cell))
        if not isinstance(answer, MemoryReply):
            raise _unexpected(answer)
        return (fds[0], answer.size_bytes) if fds else None

    def is_signed(self, place: str, cell: bytes, signature: bytes) -> bool:
        """Tell whether a pickle was signed by the host."""
        answer, _ = self._ask(CheckSignature(place, cell, signature))
        if not isinstance(answer, SignatureReply):
            raise _unexpected(answer)
        return answer.is_signed

    def send_early(self, objects: Sequence[bytes]) -> bool:
        """Hand over objects ahead of the rest; tell whether that can be done here."""
        if not hasattr(os, "memfd_create"):
            return False
        descriptor, _ = seal([objects])
        try:
            self.wire.send(EarlyObjects(list(map(len, objects))), [descriptor])
        finally:
            os.close(descriptor)
        return True

    def _ask(self, question: FromWorker) -> tuple[ToWorker, list[int]]:
        self.wire.send(question)
        return self.wire.receive()


class RemoteStore:
    """The objects of a host, and one ref: that of the constants of its repo."""

    def __init__(self, host: Host, config: bytes) -> None:
        self._host = host
        self._config = Hash(digest(config))
        self._along = {self._config: config}  # what came unasked, and will be asked for

    def know(self, objects: Sequence[bytes]) -> None:
        """Take objects that came unasked."""
        self._along |= {Hash(digest(data)): data for data in objects}

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        known = {hash: self._along[hash] for hash in hashes if hash in self._along}
        missing = [hash for hash in hashes if hash not in known]
        if missing:
            found = self._host.read(missing)
            known |= {hash: found.pop(hash) for hash in missing if hash in found}
            self._along |= found
        return known

    def ref(self, name: str) -> Hash | None:
        return self._config if name == ".config" else None

    def write(self, batch: Batch) -> None:
        raise ReadOnly("a worker does not write", hint="hand it over")

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        return {}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        return []

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        return []

    def usage(self) -> Usage:
        return Usage(0, 0)

    def close(self) -> None:
        return


def _unexpected(answer: object) -> Invalid:
    return Invalid(f"the host answered {type(answer).__name__}", hint="this is a bug of otolith")


_LONG_BYTES = 16 << 10
_BATCH_BYTES = 2 << 20
_FEW_BYTES = 1 << 20


class HandingBuffer(Buffer):
    """New objects, of which the long ones are handed over as soon as there are enough."""

    host: Host | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._waiting: list[Object] = []
        self._waiting_bytes = 0
        self._handed: set[Hash] = set()

    def put(self, data: bytes, *, base: Hash | None = None) -> Hash:
        count = len(self.fresh)
        hash = super().put(data, base=base)
        if len(data) >= _LONG_BYTES and len(self.fresh) > count and is_leaf(data):
            self._waiting.append(self.fresh[hash])
            self._waiting_bytes += len(data)
            if self._waiting_bytes >= _BATCH_BYTES:
                self._hand()
        return hash

    def rest(self, needed: list[Object]) -> list[Object]:
        """Return those of some objects that were not handed over."""
        if self._waiting_bytes >= _FEW_BYTES:
            self._hand()
        return [new for new in needed if new.hash not in self._handed]

    def clear(self) -> None:
        super().clear()
        self._waiting, self._waiting_bytes, self._handed = [], 0, set()

    def _hand(self) -> None:
        some, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if self.host is not None and self.host.send_early([new.data for new in some]):
            self._handed.update(new.hash for new in some)
