"""Long objects handed to the host while the rest is still being captured.

The host hashes and compresses them beside that. What turns out not to be needed is dropped there.
"""

from __future__ import annotations

from otolith.agent.workspace.worker.remote import Host
from otolith.core import Buffer, is_leaf
from otolith.stores import Object
from otolith.types import Hash

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
        if self.host is not None and self.host.hand([new.data for new in some]):
            self._handed.update(new.hash for new in some)
