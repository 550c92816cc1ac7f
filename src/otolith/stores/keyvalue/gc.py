"""Garbage collection over keys and values, while nobody else writes.

What a writer in another process has set but not yet named by a swap looks like garbage, and there
is no way to ask. So a store that could be shared collects only if it was told that it is alone.

Theory of operation. Everything is marked first. Then one swap makes the dropped objects and moves
unknown; only then are keys removed. A crash in between leaves values that the next run removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from otolith.errors import Busy, Corrupt, Unsupported
from otolith.stores.base import Collected, Links, Move, digest
from otolith.stores.keyvalue.kv import Calls
from otolith.stores.keyvalue.root import (
    OBJECT,
    PART,
    Draft,
    Entry,
    Parts,
    View,
    encode_root,
    object_key,
    part_key,
    swap_root,
)
from otolith.types import Hash

Progress = Callable[[str, int, int], None]
_AT_ONCE = 256


def check_collects(calls: Calls, *, shared: bool) -> None:
    """Refuse a collection that cannot be done, or not safely.

    Raises:
        Unsupported: it is so.
    """
    lacks = [name for name, has in (("delete", calls.deletes), ("keys", calls.lists)) if not has]
    if lacks:
        raise Unsupported(
            f"{calls.name} cannot collect without {' and '.join(lacks)}",
            hint="define them in your KVStore",
        )
    if shared:
        raise Unsupported(
            f"{calls.name} may be in use by other processes, and what they are writing would go",
            hint="stop them, then open it with KeyValueStore(…, alone=True)",
        )


class Collection:
    """One run of the collector."""

    def __init__(self, calls: Calls, parts: Parts, view: View, links: Links) -> None:
        self._calls = calls
        self._parts = parts
        self._view = view
        self._links = links
        self._started = monotonic()

    def run(self, forget_before: int, *, progress: Progress | None, dry_run: bool) -> Collected:
        tell = progress if progress is not None else _quiet
        before = self._view.entries()
        entries, forgotten, roots = self._shorten(before, forget_before)
        kept = self._mark(roots, tell)
        dead = self._calls.keys(OBJECT) - {object_key(name) for name in kept}
        freed = max(0, self._view.root.stored_bytes - sum(kept.values()))
        if not dry_run:
            self._land(before, entries, kept)
            self._sweep(sorted(dead), entries, tell)
        seconds = 0.0 if dry_run else monotonic() - self._started
        return Collected(len(kept), len(dead), forgotten, freed, seconds)

    def _shorten(
        self, entries: dict[str, Entry], before: int
    ) -> tuple[dict[str, Entry], int, set[Hash]]:
        """Return the refs with shorter histories, how many moves went, and what the rest names."""
        roots = {entry.hash for entry in entries.values()}
        shorter, forgotten = {}, 0
        for name, moves in self._view.histories(entries).items():
            young = _young(moves, before)
            forgotten += len(moves) - young
            roots.update(side for move in moves[:young] for side in (move.old, move.new))
            entry = entries[name]
            shorter[name] = Entry(entry.hash, entry.block if young else None, young)
        return shorter, forgotten, {root for root in roots if root is not None}

    def _mark(self, roots: Iterable[Hash], tell: Progress) -> dict[Hash, int]:
        """Return everything that is reached and there, with its size."""
        kept: dict[Hash, int] = {}
        todo = list(roots)
        seen = set(todo)
        while todo:
            some = [todo.pop() for _ in range(min(_AT_ONCE, len(todo)))]
            found = self._calls.get_many([object_key(name) for name in some])
            for name in some:
                data = found.get(object_key(name))
                if data is None:
                    continue
                kept[name] = len(_sound(name, data))
                new = [link for link in self._links(data) if link not in seen]
                seen.update(new)
                todo += new
            tell("mark", len(kept), 0)
        return kept

    def _land(
        self, before: dict[str, Entry], after: dict[str, Entry], kept: dict[Hash, int]
    ) -> None:
        draft = Draft(self._view, self._parts)
        draft.index(kept)
        for name, entry in after.items():
            if entry != before[name]:
                draft.put(name, entry)
        root = draft.finish()
        self._calls.set_many({part_key(name): value for name, value in draft.parts.items()})
        if not swap_root(self._calls, self._view, root):
            raise Busy(
                f"{self._calls.name}: somebody else wrote during the collection",
                hint="nothing was dropped; try again when it is not in use",
            )
        self._view = View(encode_root(root), self._calls, self._parts)

    def _sweep(self, dead: list[str], entries: dict[str, Entry], tell: Progress) -> None:
        doomed = dead + sorted(self._calls.keys(PART) - set(self._named_parts(entries)))
        for start in range(0, len(doomed), _AT_ONCE):
            some = doomed[start : start + _AT_ONCE]
            self._calls.delete_many(some)
            tell("sweep", start + len(some), len(doomed))

    def _named_parts(self, entries: dict[str, Entry]) -> Iterable[str]:
        root = self._view.root
        blocks = [part for _, part, _ in self._view.blocks(entries)]
        segments = [segment.part for segment in root.segments]
        return map(part_key, [*root.pages.values(), *segments, *blocks])


def _young(moves: list[Move], before: int) -> int:
    """Return how many of the newest moves stay: up to the last that is young enough."""
    keep = 0
    for place, move in enumerate(moves):
        if move.time >= before:
            keep = place + 1
    return keep


def _sound(name: Hash, data: bytes) -> bytes:
    if digest(data) != name:
        raise Corrupt(f"object {name.hex()[:12]} has the wrong bytes", hint="run otolith fsck")
    return data


def _quiet(phase: str, done: int, total: int) -> None:
    """Tell nobody."""
