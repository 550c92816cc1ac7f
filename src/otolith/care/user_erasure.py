"""Erasure of a person: all branches of their state, its history, and what was stored beside it.

What goes: the branches and stashes of the state, also those that were fetched from other stores;
tags that name one of its commits; what was begun and agreed on for it. A receipt without the name
takes their place (`core/history/refs.py`), and refuses whoever would write the state again.

What stays: sessions that are linked to the person, unless they are to be deleted. Their commits
name those of the person that they are based on, so these can be read as long as the sessions are
there; the receipt says so. Other stores of this repo, backups and exported files are not reached.
Caches in front of the store drop what they have when they need the room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from otolith.care.maintenance import prune
from otolith.core import (
    ERASED,
    Backend,
    BareRepo,
    attempts_ref,
    erased_ref,
    is_branch_ref,
    is_tag_ref,
    pack,
    receipt_ref,
    scope_ref,
    shared_ref,
    stage_ref,
)
from otolith.errors import Invalid, RefNotFound, StaleRef, Unavailable
from otolith.stores import (
    Batch,
    CollectionReport,
    Collector,
    Object,
    Progress,
    Store,
    Swap,
    has_landed,
)
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
    receipt = erased_ref(repo.backend.config.salt, "user", user)
    links = _links(repo, user)
    linked, refs = tuple(links), _refs_of(repo, user)
    if not refs and not linked and repo.store.ref(receipt) is None:
        raise RefNotFound(f"there is no user {user}", hint="repo.sessions(scope='user') lists them")
    if linked and sessions is None:
        raise Invalid(
            f"sessions are linked to {user}: {', '.join(linked[:5])}; {len(linked)} in all",
            hint="sessions='delete' deletes them, sessions='keep' leaves them as they are",
        )
    commits = _history(repo, refs).union(*links.values())
    count = _remove_user(repo, user, receipt)
    deleted: dict[str, None] = {}
    while linked and sessions == "delete":  # one may have been linked until the receipt was there
        for id in linked:
            count += _remove_all(repo, partial(_refs_of, repo, id, scope="session"))
        deleted |= dict.fromkeys(linked)
        linked = tuple(_links(repo, user))
    when = datetime.fromtimestamp(repo.clock() / 1_000_000, UTC)
    report, residue = _pruned(repo, progress) if rebuild else (None, "the store was not pruned")
    left = len(repo.store.read([*commits])) if report is not None else 0
    if left:
        named = f": {', '.join(linked[:5])}" if linked else ""
        residue = f"{left} of its commits are part of other histories{named}"
    return ErasureReceipt(
        when,
        count,
        tuple(deleted),
        linked,
        erased=report is not None and report.erased and not left,
        residue=residue,
        collection=report,
    )


def _pruned(repo: BareRepo, progress: Progress | None) -> tuple[CollectionReport | None, str]:
    """Prune a store; return its report, and why something may be left."""
    if not isinstance(repo.store, Collector) or not repo.store.capabilities.collects:
        return None, f"{type(repo.store).__name__} removes unreachable objects by itself, later"
    found = prune(repo, expire_seconds=0, progress=progress)
    return found, found.residue


def _links(repo: BareRepo, user: str) -> dict[str, set[Hash]]:
    """Return the sessions with commits that are based on those of a user, and on which of them."""
    prefix = scope_ref("user", user, "x")[:-1]
    found: dict[str, set[Hash]] = {}
    clean: set[Hash] = set()
    for session in repo.sessions():
        heads = [each.hash for each in repo.branches(session.id).values()]
        new = walked(repo.backend, heads, known=clean)
        reads = (pair for hash in new for pair in repo.backend.graph.commit(hash).reads.items())
        based_on = {Hash(bytes.fromhex(id)) for ref, id in reads if ref.startswith(prefix)}
        if based_on:
            found[session.id] = based_on
        else:
            clean |= new
    return found


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
    known = _history(repo, found) if tags else ()
    return found | {ref: hash for ref, hash in tags.items() if hash in known}


def _history(repo: BareRepo, refs: dict[str, Hash]) -> set[Hash]:
    """Return the commits that branches reach, or reached before, as far as they are there."""
    names = [ref for ref in refs if not ref.startswith(".")]
    moves = [move for ref in names for move in repo.store.moves(ref)]
    former = [hash for move in moves for hash in (move.old, move.new) if hash is not None]
    heads = [refs[ref] for ref in names]
    return walked(repo.backend, [*heads, *repo.store.read(former)])


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


# Histories


def brings_back(backend: Backend, source: Store, target: Store, refs: dict[str, Hash]) -> set[str]:
    """Return those refs of a source that would bring back a person who was erased in the target.

    Those are the refs of the person, and every branch and tag that reaches a commit of the person,
    or one that is based on such a commit.
    """
    receipts = target.refs(ERASED)
    if not receipts:
        return set()
    salt, there = backend.config.salt, backend if source is backend.store else backend.over(source)

    def is_of_erased(ref: str) -> bool:
        return receipt_ref(salt, ref) in receipts

    found = {ref for ref in refs if is_of_erased(ref)}
    theirs = {ref: head for ref, head in source.refs().items() if is_of_erased(ref)}
    tainted, clean = walked(there, theirs.values()), set[Hash]()
    for ref, head in refs.items():
        if ref in found or not (is_branch_ref(ref) or is_tag_ref(ref)):
            continue
        new = walked(there, [head], known=clean)
        commits = map(there.graph.commit, new)
        if new & tainted or any(is_of_erased(read) for each in commits for read in each.reads):
            found.add(ref)
        else:
            clean |= new
    return found


def walked(
    backend: Backend, heads: Iterable[Hash], *, known: Collection[Hash] = frozenset()
) -> set[Hash]:
    """Return commits and all their ancestors, down to those that are known."""
    seen: set[Hash] = set()
    queue = list(heads)
    while queue:
        hash = queue.pop()
        if hash not in seen and hash not in known:
            seen.add(hash)
            parents = backend.graph.commit(hash).parents
            queue += [Hash(bytes.fromhex(parent)) for parent in parents]
    return seen
