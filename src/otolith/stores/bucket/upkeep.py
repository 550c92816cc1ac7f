"""Upkeep of a bucket: what was stored in the root moves into packs, and packs are merged.

Theory of operation. Both steps store something new that has the same content, and then replace the
root. They commute with commits: if others have written meanwhile, the same replacement is made in
their root, as long as what it replaces is still there. If it is not, somebody else was faster, and
nothing is lost but the work. So upkeep never delays a writer in another process, and a crash leaves
only keys that no root names.

Runs merge like those of an LSM tree: eight of one size become one of the next size. Their frames
are copied as they are, up to 16 MiB; frames beyond that stay in their packs, and the new index
names them there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from otolith.errors import Error, Unavailable
from otolith.stores.bucket.client import BucketClient
from otolith.stores.bucket.packs import (
    PACK_BYTES,
    IndexRun,
    PackBuilder,
    PackEntry,
    PackName,
    pack_key,
)
from otolith.stores.bucket.root import BucketRoot, BucketSnapshot, RecentRef, RootRegister
from otolith.stores.ref_pages import RefBuilder, StaleRoot, part_key

RECENT_BYTES = 128 << 10  # what the root may hold of objects and moves

_MOVE_BYTES = 120
_FANOUT = 8
_FANOUT_BITS = 3
_TOP_LEVEL = 6  # an index of 8**6 entries, which takes 16 MiB, is not merged any more


def is_due(root: BucketRoot) -> bool:
    """Whether the root should be emptied or runs merged."""
    return _recent_bytes(root) > RECENT_BYTES or bool(mergeable(root.runs))


def keep_up(register: RootRegister) -> None:
    """Do what is due. Somebody else may do it at the same time."""
    # The commit before it has landed, whatever fails here; the next writer tries again.
    with suppress(StaleRoot, Error):
        snapshot = register.newest()
        if _recent_bytes(snapshot.root) > RECENT_BYTES:
            snapshot = flush(register, snapshot) or register.newest()
        while runs := mergeable(snapshot.root.runs):
            merged = merge(register, snapshot, runs)
            if merged is None:
                return
            snapshot = merged


def flush(register: RootRegister, snapshot: BucketSnapshot) -> BucketSnapshot | None:
    """Move what was stored in the root into a pack and into pages; None if others did."""
    seen = snapshot.root
    packs = PackBuilder()
    for name, data in seen.recent_objects.items():
        packs.add(name, data)
    run = packs.finish() if seen.recent_objects else None
    refs = RefBuilder(snapshot.refs)
    for ref, recent in seen.recent_refs.items():
        refs.move(ref, recent.hash, recent.moves)
    for fence, token in seen.recent_fences.items():
        refs.raise_fence(fence, token)
    pages = refs.finish()
    values = {part_key(name): value for name, value in refs.parts.items()}
    values |= {pack_key(name): value for name, value in packs.packs.items()}
    register.client.put_many(values)

    def flushed(current: BucketSnapshot) -> BucketRoot | None:
        root = current.root
        if (
            root.collections != seen.collections
            or root.pages != seen.pages
            or not seen.recent_objects.keys() <= root.recent_objects.keys()
            or not seen.recent_refs.keys() <= root.recent_refs.keys()
        ):
            return None
        return msgspec.structs.replace(
            root,
            pages=pages,
            runs=[*root.runs, run] if run is not None else root.runs,
            recent_refs=_since(seen, root),
            recent_fences={
                name: token
                for name, token in root.recent_fences.items()
                if token != seen.recent_fences.get(name)
            },
            recent_objects={
                name: data
                for name, data in root.recent_objects.items()
                if name not in seen.recent_objects
            },
        )

    done = register.change(flushed)
    remove(register.client, map(part_key, refs.replaced) if done is not None else values)
    return done


def _since(seen: BucketRoot, root: BucketRoot) -> dict[str, RecentRef]:
    """Return the refs that moved since a root was seen, with their moves since then."""
    lengths = {name: len(recent.moves) for name, recent in seen.recent_refs.items()}
    moved = {
        name: RecentRef(recent.hash, recent.moves[lengths.get(name, 0) :])
        for name, recent in root.recent_refs.items()
    }
    return {name: recent for name, recent in moved.items() if recent.moves}


def mergeable(runs: Iterable[IndexRun]) -> list[IndexRun]:
    """Return runs of one size that are so many that they should be one."""
    levels: dict[int, list[IndexRun]] = defaultdict(list)
    for run in runs:
        levels[(run.entries.bit_length() - 1) // _FANOUT_BITS].append(run)
    full = [level for level, some in levels.items() if len(some) >= _FANOUT and level < _TOP_LEVEL]
    return levels[min(full)] if full else []


def merge(
    register: RootRegister, snapshot: BucketSnapshot, runs: list[IndexRun]
) -> BucketSnapshot | None:
    """Replace runs by one; None if others did."""
    builder, replaced = merged_packs(snapshot, runs)
    run = builder.finish()
    values = {pack_key(name): value for name, value in builder.packs.items()}
    register.client.put_many(values)
    seen = snapshot.root.collections

    def replace(current: BucketSnapshot) -> BucketRoot | None:
        root = current.root
        if root.collections != seen or not set(runs) <= set(root.runs):
            return None
        others = [each for each in root.runs if each not in runs]
        return msgspec.structs.replace(root, runs=[*others, run])

    done = register.change(replace)
    remove(register.client, map(pack_key, replaced) if done is not None else values)
    return done


def merged_packs(
    snapshot: BucketSnapshot, runs: list[IndexRun]
) -> tuple[PackBuilder, list[PackName]]:
    """Return one run for several, and which packs it replaces."""
    entries: dict[PackName, list[PackEntry]] = defaultdict(list)
    for run in runs:
        for entry in snapshot.packs.entries(run):
            entries[entry.pack].append(entry)
    copied: dict[PackName, int] = {}
    size = 0
    for run in sorted(runs, key=lambda run: run.index_start):
        if size + run.index_start <= PACK_BYTES:
            copied[run.pack] = run.index_start
            size += run.index_start
    builder = PackBuilder()
    for name, frames in snapshot.packs.read_frames(copied).items():
        builder.copy(entries.pop(name, []), frames)
    stored = sum(run.stored_bytes for run in runs)
    stored -= sum(run.pack_bytes for run in runs if run.pack in copied)
    builder.carry((entry for some in entries.values() for entry in some), stored)
    return builder, list(copied)


def remove(client: BucketClient, keys: Iterable[str]) -> None:
    """Remove keys that nobody needs. They only take space, so a failure changes nothing."""
    with suppress(Unavailable):
        client.delete_many(keys)


def _recent_bytes(root: BucketRoot) -> int:
    moves = [move for recent in root.recent_refs.values() for move in recent.moves]
    size = sum(_MOVE_BYTES + len(move.note) for move in moves)
    return size + sum(map(len, root.recent_objects.values()))
