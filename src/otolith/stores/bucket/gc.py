"""Garbage collection of a bucket, beside readers and writers of any process.

Theory of operation. *Forget* and *mark* only read, from one root. Then what is alive in packs with
garbage is copied into new packs, and one swap of the root replaces the old runs. If others have
written meanwhile, what they made reachable is marked too: objects among the garbage that a new
commit uses are rescued into the new runs. So writers never wait, and a writer that relies on a
dropped object is checked against the new root, in which it is not there. The swap lands if nobody
else writes between the root that it is made from and itself, so only what is new is looked at then.

*Sweep* removes what the new root does not name: packs that were replaced, and keys that a crash has
left. It lists keys before the swap, and the swap counts `collections`: a writer that has uploaded a
pack but not named it yet uploads it again, since the count has changed (rule 5 of `root.py`). So
nothing that is listed can be named later. Keys younger than a grace period, by the clock of the
bucket, are spared all the same: most belong to an upload under way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from time import monotonic

import msgspec

from otolith.errors import Busy, Unavailable
from otolith.stores.base import (
    CollectionReport,
    Links,
    Progress,
    count_remembered,
    ignore_progress,
)
from otolith.stores.bucket.client import BucketClient, StoredKey
from otolith.stores.bucket.packs import (
    PACK,
    PACK_BYTES,
    IndexRun,
    PackBuilder,
    PackEntry,
    PackName,
    pack_key,
)
from otolith.stores.bucket.root import PROBE, ROOT, BucketRoot, BucketSnapshot, RootRegister
from otolith.stores.bucket.upkeep import flush, remove
from otolith.stores.ref_pages import PART, RefBuilder, RefEntry, StaleRoot, part_key
from otolith.types import Hash

_OBJECTS_AT_ONCE = 1024
_TRIES = 20


class BucketCollector:
    """One garbage collection."""

    def __init__(
        self,
        register: RootRegister,
        links: Links,
        *,
        forget_before: int,
        grace: timedelta,
        progress: Progress | None,
    ) -> None:
        self._register = register
        self._client = register.client
        self._links = links
        self._forget_before = forget_before
        self._grace = grace
        self._report: Progress = progress if progress is not None else ignore_progress

    def run(self, *, dry_run: bool) -> CollectionReport:
        """Forget, mark and sweep; with `dry_run`, only count.

        Raises:
            Busy: others changed what was to be collected, each time.
        """
        for _ in range(_TRIES):
            try:
                report = self._collect(self._register.refresh(), dry_run=dry_run)
            except StaleRoot:
                continue
            if report is not None:
                return report
        raise Busy(
            f"{self._client.name} changes faster than it can be collected",
            hint="nothing was dropped; try again",
        )

    def _collect(self, snapshot: BucketSnapshot, *, dry_run: bool) -> CollectionReport | None:
        """Collect as of one root; None if it has changed too much meanwhile."""
        if not dry_run and (snapshot.root.recent_objects or snapshot.root.recent_refs):
            flushed = flush(self._register, snapshot)
            if flushed is None:
                return None
            snapshot = flushed
        root = snapshot.root
        forgotten, tips = self._forget(snapshot, with_recent=dry_run)
        moves = sum(forgotten.values())
        reached: set[Hash] = set()
        self._mark(snapshot, tips, reached)
        sweep = _Sweep(self._client, snapshot, reached)
        if dry_run:
            dead = [name for name in root.recent_objects if name not in reached]
            freed = sweep.dead_bytes + sum(len(root.recent_objects[name]) for name in dead)
            count = len(sweep.dead) + len(dead)
            return CollectionReport(root.objects - count, count, moves, freed, 0.0)
        named = self._named(snapshot)
        listed = self._client.list_keys()
        sweep.rewrite({each.key: each.size for each in listed}, self._report)
        sweep.new_pages = self._forget_moves(snapshot, sweep, forgotten)
        begun = monotonic()
        after = self._register.change(
            lambda current: self._next_root(current, sweep, tips, forgotten)
        )
        seconds = monotonic() - begun
        if after is None:
            remove(self._client, sweep.uploaded)
            return None
        self._remove_garbage(named, after, listed)
        freed = max(0, root.stored_bytes - after.root.stored_bytes)
        return CollectionReport(after.root.objects, len(sweep.dead), moves, freed, seconds)

    def _forget(
        self, snapshot: BucketSnapshot, *, with_recent: bool = False
    ) -> tuple[dict[str, int], set[Hash]]:
        """Return how many moves of each ref to forget, and the hashes from which to mark."""
        refs, recent = snapshot.all_refs(), snapshot.root.recent_refs
        forgotten: dict[str, int] = {}
        tips = {tip for tip in refs.values() if tip is not None}
        for name, moves in snapshot.histories(refs).items():
            stay = count_remembered((move.time for move in moves), self._forget_before)
            if name in recent and not with_recent:
                stay = max(stay, len(recent[name].moves))
            if stay < len(moves):
                forgotten[name] = len(moves) - stay
            sides = {side for move in moves[:stay] for side in (move.old, move.new)}
            tips.update(side for side in sides if side is not None)
        return forgotten, tips

    def _mark(
        self, snapshot: BucketSnapshot, tips: Iterable[Hash], reached: set[Hash]
    ) -> set[Hash]:
        """Add what is reached and there to `reached`; return what is new in it."""
        todo = [tip for tip in tips if tip not in reached]
        seen, new = set(todo), set[Hash]()
        while todo:
            some, todo = todo[-_OBJECTS_AT_ONCE:], todo[:-_OBJECTS_AT_ONCE]
            for name, data in snapshot.read(some).items():
                reached.add(name)
                new.add(name)
                more = {
                    each for each in self._links(data) if each not in seen and each not in reached
                }
                seen |= more
                todo += more
            self._report("mark", len(reached), 0)
        return new

    def _next_root(
        self, current: BucketSnapshot, sweep: _Sweep, tips: set[Hash], forgotten: dict[str, int]
    ) -> BucketRoot | None:
        """Return the current root without the garbage, but with what others use of it."""
        root = current.root
        if root.collections != sweep.collections or not sweep.old_runs <= set(root.runs):
            return None
        try:
            now = _recent_tips(current.root)
            if root.pages != sweep.pages:  # somebody has moved recent refs into them
                _, now = self._forget(current)
            sweep.rescue(current, self._mark(current, now - tips, sweep.reached))
            if root.pages != sweep.pages:
                sweep.new_pages = self._forget_moves(current, sweep, forgotten)
                sweep.pages = root.pages
        except StaleRoot:
            return None
        untouched = [run for run in root.runs if run not in sweep.old_runs]
        return msgspec.structs.replace(
            root,
            collections=root.collections + 1,
            objects=root.objects - len(sweep.dead),
            pages=sweep.new_pages,
            runs=[*untouched, *sweep.new_runs],
        )

    def _forget_moves(
        self, current: BucketSnapshot, sweep: _Sweep, forgotten: dict[str, int]
    ) -> dict[int, Hash]:
        """Return the pages of the current root with shorter histories."""
        builder = RefBuilder(current.refs)
        for name, count in forgotten.items():
            entry = current.refs.entry(name)
            stay = max(0, entry.moves - count)
            builder.put(name, RefEntry(entry.hash, entry.block if stay else None, stay))
        pages = builder.finish()
        sweep.upload({part_key(part): value for part, value in builder.parts.items()})
        return pages

    def _named(self, snapshot: BucketSnapshot) -> set[str]:
        """Return every key that a root names."""
        root = snapshot.root
        entries = snapshot.refs.entries()
        parts = [*root.pages.values(), *(part for _, part, _ in snapshot.refs.blocks(entries))]
        packs = {run.pack for run in root.runs}
        packs.update(entry.pack for run in root.runs for entry in snapshot.packs.entries(run))
        return {*map(part_key, parts), *map(pack_key, packs)}

    def _remove_garbage(
        self, before: set[str], after: BucketSnapshot, listed: list[StoredKey]
    ) -> None:
        """Remove keys that the new root does not name any more, and those that none ever did."""
        with suppress(Unavailable, StaleRoot):  # they only take space, the next run removes them
            named = self._named(after)
            now = self._client.modified(ROOT)
            orphans = {
                each.key
                for each in listed
                if each.key.startswith((PACK, PART, PROBE))
                and each.key not in before
                and now - each.modified >= self._grace
            }
            garbage = sorted((before | orphans) - named)
            self._client.delete_many(garbage)
            self._report("sweep", len(garbage), len(garbage))


def _recent_tips(root: BucketRoot) -> set[Hash]:
    """Return what the refs in a root itself name, and what their moves do."""
    recent = root.recent_refs.values()
    found = {ref.hash for ref in recent}
    found.update(side for ref in recent for move in ref.moves for side in (move.old, move.new))
    return {name for name in found if name is not None}


class _Sweep:
    """The runs with garbage of one root, and the runs that replace them."""

    def __init__(self, client: BucketClient, snapshot: BucketSnapshot, reached: set[Hash]) -> None:
        self._client = client
        self._packs = snapshot.packs
        self.collections = snapshot.root.collections
        self.pages, self.new_pages = snapshot.root.pages, dict[int, Hash]()
        self.reached = reached
        self.old_runs: set[IndexRun] = set()
        self.new_runs: list[IndexRun] = []
        self.dead: set[Hash] = set()
        self.dead_bytes = 0
        self.uploaded: list[str] = []
        for run in snapshot.root.runs:
            garbage = [entry for entry in self._packs.entries(run) if entry.hash not in reached]
            if garbage:
                self.old_runs.add(run)
                self.dead.update(entry.hash for entry in garbage)
                self.dead_bytes += sum(entry.size for entry in garbage)

    def rewrite(self, sizes: Mapping[str, int], report: Progress) -> None:
        """Make new runs of what is alive: packs without garbage stay, others are copied."""
        for done, run in enumerate(self.old_runs, 1):
            by_pack: dict[PackName, list[PackEntry]] = defaultdict(list)
            for entry in self._packs.entries(run):
                by_pack[entry.pack].append(entry)
            builder = PackBuilder()
            for pack, entries in by_pack.items():
                alive = [entry for entry in entries if entry.hash not in self.dead]
                if len(alive) == len(entries):
                    builder.carry(alive, sizes.get(pack_key(pack), 0))
                else:
                    builder = self._copy(alive, builder)
            self._finish(builder)
            report("sweep", done, len(self.old_runs))

    def rescue(self, current: BucketSnapshot, names: set[Hash]) -> None:
        """Copy objects that were garbage, and that a new commit uses."""
        rescued = self.dead & names
        builder = PackBuilder()
        for name, data in current.read(rescued).items():
            builder.add(name, data)
        self._finish(builder)
        self.dead -= rescued

    def upload(self, values: Mapping[str, bytes]) -> None:
        """Store values that no root names yet."""
        if values:
            self._client.put_many(values)
            self.uploaded += values

    def _copy(self, entries: list[PackEntry], builder: PackBuilder) -> PackBuilder:
        """Copy objects; return the builder for those that follow."""
        ordered = sorted(entries, key=lambda entry: (entry.frame_start, entry.start))
        for start in range(0, len(ordered), _OBJECTS_AT_ONCE):
            found = self._packs.read(ordered[start : start + _OBJECTS_AT_ONCE])
            for name, data in found.items():
                builder.add(name, data)
            if builder.size > PACK_BYTES:
                self._finish(builder)
                builder = PackBuilder()
        return builder

    def _finish(self, builder: PackBuilder) -> None:
        if builder.entries:
            self.new_runs.append(builder.finish())
            self.upload({pack_key(name): value for name, value in builder.packs.items()})
