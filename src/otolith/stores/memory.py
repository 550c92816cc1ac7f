"""A store in dictionaries: the reference that every other store is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TypeVar

from otolith.errors import Closed, Fenced, NotFound, QuotaExceeded, StaleRef
from otolith.stores.base import (
    Batch,
    Capabilities,
    Collected,
    Links,
    Move,
    Usage,
    check_batch,
    check_prefix,
    newest_first,
)
from otolith.types import Hash

_V = TypeVar("_V")


class MemoryStore:
    """Objects and refs for as long as the process lives."""

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._lock = Lock()
        self._closed = False
        self._objects: dict[Hash, bytes] = {}
        self._refs: dict[str, Hash] = {}
        self._moves: dict[str, list[Move]] = {}
        self._fences: dict[str, int] = {}
        self._bytes = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(collects=True)

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        self._check_open()
        return {name: data for name in hashes if (data := self._objects.get(name)) is not None}

    def write(self, batch: Batch) -> None:
        check_batch(batch)
        with self._lock:
            self._check_open()
            self._check_batch(batch)
            objects = {item.hash: bytes(item.data) for item in batch.objects}
            new = {name: data for name, data in objects.items() if name not in self._objects}
            self._check_room(new)
            self._apply(batch, new)

    def ref(self, name: str) -> Hash | None:
        self._check_open()
        return self._refs.get(name)

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        with self._lock:
            self._check_open()
            names = sorted(name for name in self._refs if name.startswith(prefix))
            return {name: self._refs[name] for name in names}

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        with self._lock:
            self._check_open()
            if name is not None:
                return self._moves.get(name, [])[::-1][:limit]
            return newest_first(moves[::-1] for moves in self._moves.values())[:limit]

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        check_prefix(prefix)
        with self._lock:
            self._check_open()
            return sorted(name for name in self._objects if name.startswith(prefix))[:limit]

    def usage(self) -> Usage:
        with self._lock:
            self._check_open()
            return Usage(len(self._objects), self._bytes, self._limit_bytes)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._objects, self._refs, self._moves, self._fences = {}, {}, {}, {}

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Callable[[str, int, int], None] | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> Collected:
        with self._lock:
            self._check_open()
            moves = {name: _since(past, forget_moves_before) for name, past in self._moves.items()}
            forgotten = sum(map(len, self._moves.values())) - sum(map(len, moves.values()))
            kept = self._reach(links, moves)
            dropped = self._objects.keys() - kept
            freed = sum(len(self._objects[name]) for name in dropped)
            if progress is not None:
                progress("mark", len(kept), len(kept))
            if not dry_run:
                moves = {name: past for name, past in moves.items() if past}
                objects = {name: self._objects[name] for name in kept}
                self._moves, self._objects, self._bytes = moves, objects, self._bytes - freed
            erased = erase and not dry_run  # there is no file
            return Collected(len(kept), len(dropped), forgotten, freed, 0.0, erased)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this memory store is closed", hint="open another one")

    def _check_batch(self, batch: Batch) -> None:
        for name, token in batch.fences.items():
            if token < self._fences.get(name, 0):
                raise Fenced(f"a newer holder of {name} has written", hint="stop, and take it anew")
        for swap in batch.swaps:
            actual = self._refs.get(swap.name)
            if actual != swap.old:
                raise StaleRef(swap.name, expected=swap.old, actual=actual)
        for needed in batch.needs:
            if needed not in self._objects:
                raise NotFound(f"object {needed.hex()[:12]} is gone", hint="write it again")

    def _check_room(self, new: dict[Hash, bytes]) -> None:
        if self._limit_bytes is None:
            return
        size = sum(map(len, new.values()))
        if size and self._bytes + size > self._limit_bytes:
            raise QuotaExceeded(
                f"{size} more bytes would pass the limit of {self._limit_bytes}",
                hint="prune, or open it with a higher limit_bytes",
            )

    def _apply(self, batch: Batch, new: dict[Hash, bytes]) -> None:
        """Do all that a batch says, or nothing: want of memory and Control-C come at any point."""
        used = self._bytes
        fences = {name: self._fences.get(name) for name in batch.fences}
        pasts = {swap.name: len(self._moves.get(swap.name, ())) for swap in batch.swaps}
        try:
            self._objects.update(new)
            self._bytes = used + sum(map(len, new.values()))
            self._fences.update(batch.fences)
            self._swap(batch)
        except BaseException:
            for name in new:
                self._objects.pop(name, None)
            self._bytes = used
            _put_back(self._fences, fences)
            _put_back(self._refs, {swap.name: swap.old for swap in batch.swaps})
            for ref, length in pasts.items():
                del self._moves.get(ref, list[Move]())[length:]
            raise

    def _swap(self, batch: Batch) -> None:
        for name, old, new in batch.swaps:
            if old == new:
                continue
            if new is None:
                del self._refs[name]
            else:
                self._refs[name] = new
            self._moves.setdefault(name, []).append(Move(name, old, new, batch.time, batch.note))

    def _reach(self, links: Links, moves: dict[str, list[Move]]) -> set[Hash]:
        todo = list(self._refs.values())
        for past in moves.values():
            todo += [side for move in past for side in (move.old, move.new) if side is not None]
        kept: set[Hash] = set()
        while todo:
            name = todo.pop()
            if name not in kept and name in self._objects:
                kept.add(name)
                todo += links(self._objects[name])
        return kept


def _put_back(now: dict[str, _V], before: Mapping[str, _V | None]) -> None:
    """Give names the values they had; None for none."""
    for name, value in before.items():
        if value is None:
            now.pop(name, None)
        else:
            now[name] = value


def _since(past: list[Move], time: int) -> list[Move]:
    """Drop the old end of a history, up to its first move that is young enough.

    Clocks jump, so times need not ascend; a history stays whole and never gets a hole.
    """
    for place, move in enumerate(past):
        if move.time >= time:
            return past[place:]
    return []
