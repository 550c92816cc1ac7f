"""Garbage collection over keys and values, while no other process writes.

A value that a writer in another process has set but not yet named by a swap looks like garbage, and
nothing tells the two apart. So a store that could be shared collects only with `alone=True`.

Theory of operation. *Forget* shortens histories, *mark* walks over everything that is reached; both
only read. Then one swap of the root makes the dropped objects and moves unknown, and only then does
*sweep* remove keys. A crash in between leaves values that the next run removes.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from otolith.errors import Busy, Corrupt, Unsupported
from otolith.stores.base import (
    CollectionReport,
    Links,
    Progress,
    count_remembered,
    digest,
    ignore_progress,
)
from otolith.stores.keyvalue.kv import KVClient
from otolith.stores.keyvalue.root import (
    OBJECT,
    RootBuilder,
    RootView,
    encode_root,
    object_key,
    swap_root,
)
from otolith.stores.ref_pages import PART, PartCache, RefEntry, part_key
from otolith.types import Hash

_KEYS_AT_ONCE = 256


def check_collects(client: KVClient, *, shared: bool) -> None:
    """Raise Unsupported if this KVStore cannot be collected, or not safely."""
    lacks = [name for name, has in (("delete", client.deletes), ("keys", client.lists)) if not has]
    if lacks:
        raise Unsupported(
            f"{client.name} cannot collect without {' and '.join(lacks)}",
            hint="define them in your KVStore",
        )
    if shared:
        raise Unsupported(
            f"{client.name} may be in use by other processes, and what they write would be dropped",
            hint="stop them, then open it with KeyValueStore(…, alone=True)",
        )


class KeyValueCollector:
    """One garbage collection. The caller holds the lock of the store."""

    def __init__(self, client: KVClient, parts: PartCache, view: RootView, links: Links) -> None:
        self._client = client
        self._parts = parts
        self._view = view
        self._links = links
        self._started = monotonic()

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool
    ) -> CollectionReport:
        """Forget, mark and sweep; with `dry_run`, only count."""
        report = progress if progress is not None else ignore_progress
        before = self._view.refs.entries()
        entries, forgotten, roots = self._forget(before, forget_before)
        reached = self._mark(roots, report)
        dead = self._client.keys(OBJECT) - {object_key(name) for name in reached}
        freed = max(0, self._view.root.stored_bytes - sum(reached.values()))
        if not dry_run:
            self._swap(before, entries, reached)
            self._sweep(sorted(dead), entries, report)
        seconds = 0.0 if dry_run else monotonic() - self._started
        return CollectionReport(len(reached), len(dead), forgotten, freed, seconds)

    def _forget(
        self, entries: dict[str, RefEntry], before: int
    ) -> tuple[dict[str, RefEntry], int, set[Hash]]:
        """Return refs with shorter histories, the number of moves forgotten, and all roots left."""
        roots = {entry.hash for entry in entries.values()}
        shorter, forgotten = {}, 0
        for name, moves in self._view.refs.histories(entries).items():
            stay = count_remembered((move.time for move in moves), before)
            forgotten += len(moves) - stay
            roots.update(side for move in moves[:stay] for side in (move.old, move.new))
            entry = entries[name]
            shorter[name] = RefEntry(entry.hash, entry.block if stay else None, stay)
        return shorter, forgotten, {root for root in roots if root is not None}

    def _mark(self, roots: Iterable[Hash], report: Progress) -> dict[Hash, int]:
        """Return everything that is reached and there, with its size."""
        reached: dict[Hash, int] = {}
        todo = list(roots)
        seen = set(todo)
        while todo:
            some = [todo.pop() for _ in range(min(_KEYS_AT_ONCE, len(todo)))]
            found = self._client.get_many([object_key(name) for name in some])
            for name in some:
                data = found.get(object_key(name))
                if data is None:
                    continue
                if digest(data) != name:
                    raise Corrupt(
                        f"object {name.hex()[:12]} has the wrong bytes", hint="run otolith fsck"
                    )
                reached[name] = len(data)
                new = [link for link in self._links(data) if link not in seen]
                seen.update(new)
                todo += new
            report("mark", len(reached), 0)
        return reached

    def _swap(
        self, before: dict[str, RefEntry], after: dict[str, RefEntry], reached: dict[Hash, int]
    ) -> None:
        """Replace the root by one that knows only what is reached."""
        builder = RootBuilder(self._view, self._parts)
        builder.rebuild_index(reached)
        for name, entry in after.items():
            if entry != before[name]:
                builder.refs.put(name, entry)
        root = builder.finish()
        self._client.set_many({part_key(name): value for name, value in builder.parts.items()})
        if not swap_root(self._client, self._view, root):
            raise Busy(
                f"{self._client.name}: another process wrote during the collection",
                hint="nothing was dropped; try again when it is not in use",
            )
        self._view = RootView(encode_root(root), self._client, self._parts)

    def _sweep(self, dead: list[str], entries: dict[str, RefEntry], report: Progress) -> None:
        """Delete the keys of dropped objects, and parts that no root names."""
        root = self._view.root
        blocks = [part for _, part, _ in self._view.refs.blocks(entries)]
        segments = [segment.part for segment in root.segments]
        named = set(map(part_key, [*root.pages.values(), *segments, *blocks]))
        garbage = dead + sorted(self._client.keys(PART) - named)
        for start in range(0, len(garbage), _KEYS_AT_ONCE):
            some = garbage[start : start + _KEYS_AT_ONCE]
            self._client.delete_many(some)
            report("sweep", start + len(some), len(garbage))
