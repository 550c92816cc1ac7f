"""Garbage collection: refs are in etcd, garbage is in another store, and writers do not wait.

The store for objects drops what its own refs do not reach. So everything that a ref in etcd, or a
remembered move, names is a ref there too, a *root* (`roots.py`), and the only dangerous step is to
remove a root. Roots have an epoch in their name, and this is the argument that none is missed:

1. A write reads the epoch `e` from etcd, then makes its objects and the root `keep/<id>/<e>/<hash>`
   in one atomic step, then commits in etcd if the epoch is still `e`.
2. A collection first raises the epoch to `E`. From then on, no write with an older epoch commits:
   it begins again, and makes a root of `E`.
3. It then reads all refs and moves. These are all the commits of older epochs. It makes each hash a
   root of `E`, and only then removes the roots of epochs before `E`.
4. So at every moment, each hash that etcd names has a root, of the epoch in which it was committed,
   or of a later one. The store for objects may collect at any time, and does so in the end.

A collection that is killed leaves too many roots, which the next one removes. One that was frozen
and wakes up after others have run only removes roots that are older than its own epoch, which
nobody needs any more, and adds some that the next one removes. Two at once do both.

The record of a removed ref goes with its last move, if it was removed before the epoch was raised.
So a ref that a write has found absent is not made and removed again within the epoch of that write,
and an attempt of it that arrives late still fails (rule 3 of `commit.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from otolith.errors import Unsupported
from otolith.stores.base import (
    CollectionReport,
    Collector,
    Links,
    Progress,
    Store,
    count_remembered,
    ignore_progress,
)
from otolith.stores.etcd.cluster import Cluster
from otolith.stores.etcd.gateway import KeyEntry
from otolith.stores.etcd.key_layout import (
    EpochRecord,
    EtcdMove,
    RefRecord,
    decode,
    delete,
    end_of,
    put,
    unchanged,
)
from otolith.stores.etcd.roots import Roots
from otolith.types import Hash

_AT_ONCE = 256


class EtcdCollector:
    """One garbage collection."""

    def __init__(self, cluster: Cluster, roots: Roots, links: Links) -> None:
        self._cluster = cluster
        self._roots = roots
        self._links = links
        self._raised = 0  # the revision that raised the epoch

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool, erase: bool
    ) -> CollectionReport:
        """Forget moves, renew roots, then let the store for objects collect."""
        objects = self._roots.objects
        if not isinstance(objects, Collector) or not objects.capabilities.collects:
            raise Unsupported(f"{objects!r} cannot collect", hint="store objects elsewhere")
        report = progress if progress is not None else ignore_progress
        epoch = 0 if dry_run else self._raise_epoch()
        histories = self._histories()
        stay = {
            name: count_remembered((move.time for _, move in moves), forget_before)
            for name, moves in histories.items()
        }
        forgotten = sum(map(len, histories.values())) - sum(stay.values())
        report("forget", forgotten, forgotten)
        if dry_run:
            remembered = {name: moves[: stay[name]] for name, moves in histories.items()}
            return self._estimate(objects, self._named(remembered), forgotten)
        for name, moves in histories.items():
            self._forget(name, moves[stay[name] :])
        self._roots.add_many(epoch, self._named(self._histories()))
        self._roots.remove_before(epoch)
        done = objects.collect(self._links, forget_moves_before=1, progress=progress, erase=erase)
        return CollectionReport(
            done.kept_objects,
            done.dropped_objects,
            forgotten,
            done.freed_bytes,
            done.longest_block_seconds,
            done.erased and not forgotten,
            done.residue or (_HISTORY if erase and forgotten else ""),
        )

    def _raise_epoch(self) -> int:
        key = self._cluster.keys.epoch
        while True:
            (now,) = self._cluster.read([key])
            epoch = decode(now.value, EpochRecord).epoch + 1
            changed = self._cluster.transact(
                [unchanged(key, now.mod_revision)], [put(key, EpochRecord(epoch))]
            )
            if changed.body.succeeded:
                self._raised = changed.body.header.revision
                return epoch

    def _histories(self) -> dict[str, list[tuple[KeyEntry, EtcdMove]]]:
        """Return the moves of all refs, newest first."""
        keys = self._cluster.keys
        found: dict[str, list[tuple[KeyEntry, EtcdMove]]] = defaultdict(list)
        for entry in self._cluster.scan(keys.moves):
            found[keys.name_of_move(entry.key)].append((entry, decode(entry.value, EtcdMove)))
        return found

    def _forget(self, name: str, old: list[tuple[KeyEntry, EtcdMove]]) -> None:
        """Remove moves from the old end of a history, and with the last a ref that was removed."""
        if not old:
            return
        keys = self._cluster.keys
        oldest = end_of(keys.history(name))
        self._cluster.transact([], [delete(old[0][0].key, oldest)])
        (ref,) = self._cluster.read([keys.ref(name)])
        was_removed = 0 < ref.mod_revision < self._raised
        is_gone = was_removed and decode(ref.value, RefRecord).hash is None
        if is_gone and not self._cluster.scan(keys.history(name), limit=1):
            is_same = unchanged(ref.key, ref.mod_revision)
            self._cluster.transact([is_same], [delete(ref.key)])

    def _named(self, histories: dict[str, list[tuple[KeyEntry, EtcdMove]]]) -> set[Hash]:
        """Return all that refs and these moves name."""
        refs = self._cluster.scan(self._cluster.keys.refs)
        named = {decode(entry.value, RefRecord).hash for entry in refs}
        for moves in histories.values():
            named |= {side for _, move in moves for side in (move.old, move.new)}
        return {Hash(each) for each in named if each is not None}

    def _estimate(self, objects: Store, named: set[Hash], forgotten: int) -> CollectionReport:
        """Count what is reached; bytes are estimated as if all objects were of one size."""
        reached = _reached(objects, named, self._links)
        usage = objects.usage()
        dropped = max(0, usage.objects - len(reached))
        freed = usage.stored_bytes * dropped // max(1, usage.objects)
        return CollectionReport(len(reached), dropped, forgotten, freed, 0.0)


_HISTORY = "etcd has the notes and times of forgotten moves until it is compacted"


def _reached(objects: Store, named: Iterable[Hash], links: Links) -> set[Hash]:
    reached: set[Hash] = set()
    todo = list(named)
    seen = set(todo)
    while todo:
        some = [todo.pop() for _ in range(min(_AT_ONCE, len(todo)))]
        for name, data in objects.read(some).items():
            reached.add(name)
            new = set(links(data)) - seen
            seen |= new
            todo += new
    return reached
