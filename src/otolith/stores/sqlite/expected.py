"""Rows of objects that will probably be written soon, made ready ahead of the write."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from otolith.stores.base import Object
from otolith.stores.sqlite.objects import Draft
from otolith.types import Hash

_LIMIT_BYTES = 256 << 20


class Expected:
    """Drafts by their hash, within a limit: the oldest are dropped, and made again if needed."""

    def __init__(self, *, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._drafts: OrderedDict[Hash, Draft] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def put(self, draft: Draft) -> None:
        """Keep a draft for a while."""
        with self._lock:
            if draft.hash in self._drafts:
                return
            self._drafts[draft.hash] = draft
            self._bytes += _size(draft)
            while self._bytes > self._limit:
                _, dropped = self._drafts.popitem(last=False)
                self._bytes -= _size(dropped)

    def take(self, item: Object) -> Draft | None:
        """Return the draft of an object, if there is one, and let go of it."""
        with self._lock:
            draft = self._drafts.pop(item.hash, None)
            if draft is None:
                return None
            self._bytes -= _size(draft)
        return draft if draft.data == item.data else None

    def forget(self) -> None:
        """Let go of all drafts."""
        self._drafts, self._bytes, self._lock = OrderedDict(), 0, Lock()


def _size(draft: Draft) -> int:
    return len(draft.data) + len(draft.row)
