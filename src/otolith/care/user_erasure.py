"""Erasure of a person: all branches of their state, its history, and what was stored beside it.

What goes: the branches and stashes of the state, also those that were fetched from other stores;
tags that name one of its commits; what was begun and agreed on for it. A receipt without the name
takes their place (`core/history/refs.py`), and refuses whoever would write the state again.

What stays, and is reported: sessions that are linked to the person, unless they are to be deleted;
other stores of this repo, backups and exported files. Redis and other caches in front of the store
drop what they have when they need the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from otolith.care.maintenance import prune
from otolith.core import (
    BareRepo,
    attempts_ref,
    erased_ref,
    is_branch_ref,
    is_tag_ref,
    pack,
    scope_ref,
    shared_ref,
    stage_ref,
)
from otolith.errors import Invalid, RefNotFound, StaleRef, Unavailable
from otolith.stores import Batch, CollectionReport, Collector, Object, Progress, Swap, has_landed
from otolith.types import Hash, short_repr

Find: TypeAlias = Callable[[], dict[str, Hash]]


@short_repr("refs", "sessions", "kept_sessions", "erased")
@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What was erased of a person, and what may be left."""

    when: datetime
    refs: int
    """How many branches, stashes and tags were removed."""
    sessions: tuple[str, ...]
    """The linked sessions that were deleted."""
    kept_sessions: tuple[str, ...]
    """The linked sessions that are there still."""
    erased: bool
    """Whether the files of the store have no byte of it any more."""
    residue: str = ""
    """Why they may have some."""
    collection: CollectionReport | None = None

    def __str__(self) -> str:
        state = "no byte of it is left in the store" if self.erased else self.residue
        lines = [f"erased: {self.refs} refs; {state}"]
        if self.sessions:
            lines.append(f"deleted sessions: {', '.join(self.sessions)}")
        if self.kept_sessions:
            lines.append(f"linked sessions that stay: {', '.join(self.kept_sessions)}")
        return "\n".join(lines)


def erase(
    repo: BareRepo,
    user: str,
    *,
    sessions: Literal["delete", "keep"] | None = None,
    rebuild: bool = True,
    progress: Progress | None = None,
) -> ErasureReceipt:
    """Erase the state of a user, for good.

    Sessions that are linked to the user may hold copies of what it had: `sessions` says whether
    they are deleted as well. With `rebuild` the store is pruned at once, and forgets all that was
    deleted and undone, also of others; without, `prune(repo, expire_seconds=0)` does it later. A
    call that was cut off is repeated as it was.

    Raises:
        RefNotFound: there is no such user.
        Invalid: there are linked sessions, and `sessions` does not say what to do with them.
    """
    if sessions not in ("delete", "keep", None):
        raise Invalid(f"sessions must be 'delete' or 'keep', got {sessions!r}", hint="choose one")
    backend = repo.backend
    receipt = erased_ref(backend.config.salt, "user", user)
    linked = tuple(_linked_sessions(repo, user))
    refs = _refs_of(repo, user)
    if not refs and repo.store.ref(receipt) is None:
        raise RefNotFound(f"there is no user {user}", hint="repo.sessions(scope='user') lists them")
    if linked and sessions is None:
        raise Invalid(
            f"{len(linked)} sessions are linked to {user}: {', '.join(linked[:5])}",
            hint="sessions='delete' deletes them, sessions='keep' leaves them as they are",
        )
    count = _remove_user(repo, user, receipt)
    deleted = linked if sessions == "delete" else ()
    for id in deleted:
        count += _remove_all(repo, partial(_refs_of, repo, id, scope="session"))
    when = datetime.fromtimestamp(repo.clock() / 1_000_000, UTC)
    kept = () if sessions == "delete" else linked
    if not rebuild:
        residue = "the store was not pruned: prune with expire_seconds=0"
        return ErasureReceipt(when, count, deleted, kept, erased=False, residue=residue)
    if not isinstance(repo.store, Collector) or not repo.store.capabilities.collects:
        residue = f"{type(repo.store).__name__} removes unreachable objects by itself, later"
        return ErasureReceipt(when, count, deleted, kept, erased=False, residue=residue)
    found = prune(repo, expire_seconds=0, progress=progress)
    return ErasureReceipt(
        when, count, deleted, kept, erased=found.erased, residue=found.residue, collection=found
    )


def _linked_sessions(repo: BareRepo, user: str) -> Iterator[str]:
    """Yield the sessions one of whose branches was last committed with a link to a user."""
    prefix = scope_ref("user", user, "x")[:-1]
    for session in repo.sessions():
        heads = repo.branches(session.id).values()
        if any(ref.startswith(prefix) for head in heads for ref in head.reads):
            yield session.id


def _refs_of(repo: BareRepo, id: str, *, scope: str = "user") -> dict[str, Hash]:
    """Return all refs of a state, and of copies of it that were fetched."""
    branch = scope_ref(scope, id, "x")
    family, attempts = branch[:-1], attempts_ref(branch)
    prefixes = (family, stage_ref(branch)[:-1], shared_ref(branch, ""))
    found, tags = {}, {}
    for ref, hash in repo.store.refs().items():
        is_fetched = ref.startswith("remote/") and f"/{family}" in ref
        if ref.startswith(prefixes) or ref == attempts or is_fetched:
            found[ref] = hash
        elif is_tag_ref(ref):
            tags[ref] = hash
    if tags and found:
        known = _history(repo, found)
        found |= {ref: hash for ref, hash in tags.items() if hash in known}
    return found


def _history(repo: BareRepo, refs: dict[str, Hash]) -> set[Hash]:
    """Return the commits that branches reach."""
    graph = repo.backend.graph
    seen: set[Hash] = set()
    queue = [
        hash
        for ref, hash in refs.items()
        if not ref.startswith(".") and (is_branch_ref(ref) or ref.startswith(("stage", "remote/")))
    ]
    while queue:
        hash = queue.pop()
        if hash not in seen:
            seen.add(hash)
            queue += [Hash(bytes.fromhex(parent)) for parent in graph.commit(hash).parents]
    return seen


def _remove_user(repo: BareRepo, user: str, receipt: str) -> int:
    """Remove all refs of a user, with a receipt in the first batch; return how many there were."""
    find, count = partial(_refs_of, repo, user), 0
    while repo.store.ref(receipt) is None:
        data: dict[str, Any] = {"time": repo.clock()}
        note = pack(repo.backend.encoding, data)
        found = _some(repo, find)
        if _write(repo, found, [note], [Swap(receipt, None, note.hash)]):
            count += len(found)
    return count + _remove_all(repo, find)


def _remove_all(repo: BareRepo, find: Find) -> int:
    """Remove refs until none is found; return how many there were."""
    count = 0
    while found := _some(repo, find):
        count += len(found) if _write(repo, found) else 0
    return count


def _some(repo: BareRepo, find: Find) -> dict[str, Hash]:
    """Return as many refs as one batch may remove beside the receipt."""
    found, most = [*find().items()], repo.store.capabilities.most_swaps
    return dict(found if most is None else found[: most - 1])


def _write(
    repo: BareRepo,
    found: dict[str, Hash],
    objects: Sequence[Object] = (),
    swaps: Sequence[Swap] = (),
) -> bool:
    """Remove refs; return False if one of them has moved meanwhile."""
    removals = [Swap(ref, hash, None) for ref, hash in found.items()]
    batch = Batch(objects, [*removals, *swaps], time=repo.clock(), note="erase")
    try:
        repo.store.write(batch)
    except StaleRef:
        return False
    except Unavailable:
        if not has_landed(repo.store, batch):
            raise
    return True
