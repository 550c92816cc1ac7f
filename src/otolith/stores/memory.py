"""A store in dictionaries: the reference that every other store is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TypeVar

from otolith.errors import Closed
from otolith.stores.base import (
    Batch,
    Capabilities,
    CollectionReport,
    Links,
    Move,
    Progress,
    Subscription,
    Usage,
    check_batch,
    check_conditions,
    check_limit,
    check_prefix,
    check_quota,
    count_remembered,
    newest_first,
)
from otolith.stores.news import RefNews
from otolith.types import Hash

_V = TypeVar("_V")


class MemoryStore:
    """Objects and refs for as long as the process lives.

    `limit_bytes` bounds what objects take: a write that would pass it raises QuotaExceeded.
    """

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        self._limit_bytes = check_limit(limit_bytes)
        self._lock = Lock()
        self._news: RefNews | None = None
        self._closed = False
        self._objects: dict[Hash, bytes] = {}
        self._refs: dict[str, Hash] = {}
        self._moves: dict[str, list[Move]] = {}  # oldest first
        self._fences: dict[str, int] = {}
        self._bytes = 0

    def __repr__(self) -> str:
        """Show how much it holds."""
        return f"<{type(self).__name__} {len(self._objects)} objects, {self._bytes} bytes>"

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        return Capabilities(collects=True, notifies=True)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out."""
        self._check_open()
        return {name: data for name in hashes if (data := self._objects.get(name)) is not None}

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically."""
        check_batch(batch)
        with self._lock:
            self._check_open()
            check_conditions(
                batch,
                token=lambda name: self._fences.get(name, 0),
                ref=self._refs.get,
                holds=self._objects.__contains__,
            )
            objects = {item.hash: bytes(item.data) for item in batch.objects}
            new = {name: data for name, data in objects.items() if name not in self._objects}
            check_quota(self._bytes, sum(map(len, new.values())), self._limit_bytes)
            try:
                self._apply(batch, new)
            finally:
                if self._news is not None:  # also if it was interrupted: nobody knows when
                    self._news.report({swap.name for swap in batch.swaps if swap.old != swap.new})

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        self._check_open()
        return self._refs.get(name)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        with self._lock:
            self._check_open()
            names = sorted(name for name in self._refs if name.startswith(prefix))
            return {name: self._refs[name] for name in names}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first."""
        with self._lock:
            self._check_open()
            if name is not None:
                return self._moves.get(name, [])[::-1][:limit]
            return newest_first(moves[::-1] for moves in self._moves.values())[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes."""
        check_prefix(prefix)
        with self._lock:
            self._check_open()
            return sorted(name for name in self._objects if name.startswith(prefix))[:limit]

    def usage(self) -> Usage:
        """Return how much is stored."""
        with self._lock:
            self._check_open()
            return Usage(len(self._objects), self._bytes, self._limit_bytes)

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        with self._lock:
            self._check_open()
            if self._news is None:
                self._news = RefNews()
        return self._news.subscribe(prefix)

    def close(self) -> None:
        """Drop everything."""
        with self._lock:
            self._closed = True
            if self._news is not None:
                self._news.close()
            self._objects, self._refs, self._moves, self._fences = {}, {}, {}, {}

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop what no ref and no remembered move reaches; writers wait until it is done."""
        with self._lock:
            self._check_open()
            moves = {}
            for name, past in self._moves.items():
                stay = count_remembered((move.time for move in past[::-1]), forget_moves_before)
                moves[name] = past[len(past) - stay :]
            forgotten = sum(map(len, self._moves.values())) - sum(map(len, moves.values()))
            reached = self._mark(links, moves)
            dropped = self._objects.keys() - reached
            freed = sum(len(self._objects[name]) for name in dropped)
            if progress is not None:
                progress("mark", len(reached), len(reached))
            if not dry_run:
                moves = {name: past for name, past in moves.items() if past}
                objects = {name: self._objects[name] for name in reached}
                self._moves, self._objects, self._bytes = moves, objects, self._bytes - freed
            erased = erase and not dry_run  # there is no file
            return CollectionReport(len(reached), len(dropped), forgotten, freed, 0.0, erased)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this memory store is closed", hint="open another one")

    def _apply(self, batch: Batch, new: dict[Hash, bytes]) -> None:
        """Apply a batch or nothing of it: MemoryError and Control-C can come at any point."""
        used = self._bytes
        fences = {name: self._fences.get(name) for name in batch.fences}
        lengths = {swap.name: len(self._moves.get(swap.name, ())) for swap in batch.swaps}
        try:
            self._objects.update(new)
            self._bytes = used + sum(map(len, new.values()))
            self._fences.update(batch.fences)
            for name, old, value in batch.swaps:
                if old == value:
                    continue
                _set_or_remove(self._refs, {name: value})
                move = Move(name, old, value, batch.time, batch.note)
                self._moves.setdefault(name, []).append(move)
        except BaseException:
            for hash_ in new:
                self._objects.pop(hash_, None)
            self._bytes = used
            _set_or_remove(self._fences, fences)
            _set_or_remove(self._refs, {swap.name: swap.old for swap in batch.swaps})
            for ref, length in lengths.items():
                del self._moves.get(ref, list[Move]())[length:]
            raise

    def _mark(self, links: Links, moves: dict[str, list[Move]]) -> set[Hash]:
        todo = list(self._refs.values())
        for past in moves.values():
            todo += [side for move in past for side in (move.old, move.new) if side is not None]
        reached: set[Hash] = set()
        while todo:
            name = todo.pop()
            if name not in reached and name in self._objects:
                reached.add(name)
                todo += links(self._objects[name])
        return reached


def _set_or_remove(current: dict[str, _V], values: Mapping[str, _V | None]) -> None:
    """Set names to values; None removes a name."""
    for name, value in values.items():
        if value is None:
            current.pop(name, None)
        else:
            current[name] = value
