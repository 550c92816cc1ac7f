"""Verify what refs reach, repair it from a replica, and drop what nothing reaches.

The levels of `verify`:

    quick   every ref names a commit, and every commit's parents and root exist
    full    every reachable object exists and has the bytes its hash names; what the store has
            beside objects is intact
    deep    also: every object follows the format: order, ends, counts, sizes, forms, values;
            commits come after their parents

Everything is read from the disk, past every cache of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from otolith.care.stale_values import check_repo
from otolith.codecs import InertCodecs
from otolith.core import (
    BareRepo,
    Claim,
    Commit,
    Encoding,
    Totals,
    cell_claims,
    claims,
    decode_commit,
    digest,
    flaws,
    is_commit,
    links,
    ordered_cells,
    orphans,
    root_flaws,
    totals,
)
from otolith.durations import Duration, duration_seconds
from otolith.errors import Corrupt, Invalid, StaleRef, Unsupported
from otolith.stores import (
    TIME_LIMIT,
    Batch,
    CollectionReport,
    Collector,
    Expirer,
    IntegrityChecker,
    Object,
    Store,
)
from otolith.types import Hash, short_repr

LEVELS = ("quick", "full", "deep")
TWO_WEEKS_SECONDS = 14 * 24 * 3600.0

_BATCH = 256  # objects that are read together

Progress = Callable[[str, int, int], None]
"""Called with the phase, how much is done, and how much there is (0 if that is not known)."""


def prune(
    repo: BareRepo,
    *,
    expire_seconds: float = TWO_WEEKS_SECONDS,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CollectionReport:
    """Drop objects that no ref, tag or remembered move reaches, and free their space.

    The history of a ref holds what it names for `expire_seconds`, so that an undo, or a branch
    deleted by mistake, can be taken back until then. Writers and readers continue concurrently.

    With `expire_seconds=0` what is dropped is also erased: no file of the store has a byte of it
    afterwards. `erased` of the result tells whether that was done, and `residue` why not. A file is
    rebuilt for it, during which writers wait.

    Raises:
        Unsupported: the store cannot collect.
        Invalid: `expire_seconds` is not a number from 0 on, or another argument has a wrong type.
    """
    _check_arguments("prune", repo, progress)
    is_number = type(expire_seconds) in (int, float)
    if not (is_number and 0 <= expire_seconds < float("inf")):
        raise Invalid(
            f"expire_seconds must be a number from 0 on, got {expire_seconds!r}",
            hint="0 erases everything that is unreachable; 14 * 24 * 3600 is two weeks",
        )
    store = repo.store
    if not isinstance(store, Collector) or not store.capabilities.collects:
        raise Unsupported(f"{type(store).__name__} cannot collect garbage")
    before = repo.clock() - int(expire_seconds * 1_000_000) + 1
    erase = expire_seconds == 0
    if erase:  # clocks jump: a move may have a time that is yet to come, and is erased as well
        before = TIME_LIMIT
    if not dry_run:
        _remove_attempts(repo, before)
    return store.collect(
        links, forget_moves_before=before, progress=progress, dry_run=dry_run, erase=erase
    )


def expire(repo: BareRepo, prefix: str, after: Duration | None) -> None:
    """Let states whose refs have a prefix disappear when nobody has written them for so long.

    Raises:
        Unsupported: the store does not expire states.
    """
    seconds = None if after is None else duration_seconds(after, "expire")
    store = repo.store
    if not isinstance(store, Expirer) or not store.capabilities.expires:
        raise Unsupported(
            f"{type(store).__name__} does not expire sessions",
            hint="use redis://…, or delete branches and prune",
        )
    store.expire(prefix, seconds, links=links)


def _check_arguments(verb: str, repo: object, progress: object) -> None:
    """Raise Invalid if a repo is not one, or the progress cannot be called."""
    check_repo(verb, repo)
    if progress is not None and not callable(progress):
        raise Invalid(
            f"{verb}: progress must be a function, got {type(progress).__name__}",
            hint="it is called with the phase, how much is done, and how much there is",
        )


def _remove_attempts(repo: BareRepo, before: int) -> None:
    """Remove the attempts of sessions that were deleted, once nothing remembers the session."""
    removals = orphans(repo.store, before)
    while removals:
        batch, rest = removals[:_BATCH], removals[_BATCH:]
        try:
            repo.store.write(Batch(swaps=batch, time=repo.clock(), note="delete"))
        except StaleRef as stale:  # somebody uses the name of the session again
            rest = [swap for swap in removals if swap.name != stale.name]
        removals = rest


class Problem(NamedTuple):
    """A ref or an object that is broken.

    missing     something refers to an object that the store does not have
    corrupt     the bytes are not those that were written, or cannot be read
    malformed   the bytes are those that were written, and break a rule of the format
    """

    kind: str
    name: str  # of a ref, or the hash of an object
    message: str


@short_repr("level", "commits", "objects", "problems")
@dataclass(slots=True)
class Report:
    """The result of a verification."""

    level: str
    commits: int = 0  # of the objects
    objects: int = 0  # that were read
    bytes: int = 0  # of these objects, uncompressed
    repaired: int = 0  # objects that were fetched from the replica
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken, or all of it was repaired."""
        return not self.problems


def verify(
    repo: BareRepo,
    *,
    level: str = "full",
    repair_from: Store | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check everything that refs reach; with `repair_from`, fetch what is broken from there.

    report = verify(repo, level="deep")
    assert report.ok, report.problems

    Problems are reported, not raised. What was repaired is written to the store, and is no longer a
    problem.

    Raises:
        Invalid: there is no such level, or another argument has a wrong type.
    """
    _check_arguments("verify", repo, progress)
    if repair_from is not None and not hasattr(repair_from, "read"):
        raise Invalid(
            f"verify: repair_from must be a store, got {type(repair_from).__name__}",
            hint="give the store of a copy: otolith.open(path, read_only=True).store",
        )
    if level not in LEVELS:
        raise Invalid(f"{level!r} is not a level", hint=f"use one of {', '.join(LEVELS)}")
    return _Inspection(
        repo, level, repair_from, progress or (lambda phase, done, total: None)
    ).run()


class _Inspection:
    """One walk over everything that is reachable."""

    def __init__(
        self, repo: BareRepo, level: str, replica: Store | None, progress: Progress
    ) -> None:
        self._repo = repo
        store = repo.store
        self._store = store.uncached() if isinstance(store, IntegrityChecker) else store
        self._encoding = Encoding(InertCodecs())
        self._replica = replica
        self._progress = progress
        self._report = Report(level)
        self._ref_names: dict[Hash, str] = {}
        self._order: dict[Hash, tuple[int, int, tuple[str, ...]]] = {}
        self._seen: set[Hash] = set()
        self._claims: set[Claim] = set()
        self._totals: dict[Hash, Totals] = {}
        self._ordered: dict[bytes, Hash] = {}  # dicts with an order, and the nodes they are in

    def run(self) -> Report:
        """Walk from the refs, then from where they were: those are readable once refs are."""
        self._walk(self._heads())
        self._walk(self._former_heads())
        self._check_order()
        if self._report.level != "quick" and isinstance(self._repo.store, IntegrityChecker):
            broken = self._repo.store.check()
            self._report.problems += [Problem("corrupt", *each) for each in broken]
        for claim in self._claims:
            found = self._totals.get(claim.hash)
            if found is not None and not claim.fits(found):
                self._malformed(claim.hash, "it is not what an object above it claims")
        for cell, hash in self._ordered.items():
            try:
                self._uncached_repo.backend.cells().names(cell)
            except Corrupt as error:
                self._malformed(hash, error.message)
        return self._report

    def _walk(self, tips: Iterable[Hash]) -> None:
        """Visit everything below these objects that was not visited, in batches."""
        report = self._report
        queue = self._unseen(tips)
        while queue:
            batch, queue = queue[-_BATCH:], queue[:-_BATCH]
            for hash, data in self._read(batch).items():
                report.objects += 1
                report.bytes += len(data)
                queue += self._unseen(self._visit(hash, data))
            self._progress("verifying", report.objects, 0)

    def _heads(self) -> Iterable[Hash]:
        """Return what the refs name. A list of refs that cannot be read is a problem."""
        try:
            refs = self._store.refs()
        except Corrupt as error:
            self._report.problems.append(Problem("corrupt", "refs", error.message))
            return []
        self._ref_names = {hash: name for name, hash in refs.items() if not name.startswith(".")}
        return refs.values()

    def _former_heads(self) -> Iterable[Hash]:
        """Return what refs named before, as far as their history is remembered."""
        try:
            moves = self._store.moves()
        except Corrupt as error:
            self._report.problems.append(Problem("corrupt", "history of refs", error.message))
            return []
        return [hash for move in moves for hash in (move.old, move.new) if hash is not None]

    def _unseen(self, hashes: Iterable[Hash]) -> list[Hash]:
        """Return the hashes that were not visited yet, each once, and count them as visited."""
        fresh = [hash for hash in dict.fromkeys(hashes) if hash not in self._seen]
        self._seen.update(fresh)
        return fresh

    def _visit(self, hash: Hash, data: bytes) -> list[Hash]:
        """Check one object; return the ones to check next."""
        try:
            below = list(links(data))
        except Corrupt as error:
            self._malformed(hash, error.message)
            return []
        if is_commit(data):
            self._report.commits += 1
        elif hash in self._ref_names:
            message = f"it names {hash.hex()[:12]}, which is not a commit"
            self._report.problems.append(Problem("malformed", self._ref_names[hash], message))
        elif self._report.level == "quick":
            return []
        if self._report.level == "deep":
            self._check_inside(hash, data)
        return below

    def _check_inside(self, hash: Hash, data: bytes) -> None:
        """Check that an object follows the format; collect what it claims about others.

        A claim (a size, a count) is compared when the object it is about was read too.
        """
        for message in flaws(data, self._encoding, self._repo.salt):
            self._malformed(hash, message)
        if is_commit(data):
            commit = decode_commit(hash, data)
            self._order[hash] = commit.generation, commit.time, commit.parents
            self._check_root(commit)
            return
        self._claims.update(claims(data))
        self._ordered.update(dict.fromkeys(ordered_cells(data), hash))
        found = totals(data)
        if found is not None:
            self._totals[hash] = found

    def _check_root(self, commit: Commit) -> None:
        """Check that the root of a commit is a state that can be opened."""
        self._claims.update(cell_claims(commit.cell))
        for message in root_flaws(commit.cell):
            self._malformed(commit.hash, message)
        try:
            state = self._uncached_repo.at(commit)
            len(state)
            if not state.cells.is_sorted(commit.cell):
                self._malformed(commit.hash, "the names of its state are not in key order")
        except Corrupt as error:
            self._malformed(commit.hash, f"its root is not a state: {error.message}")

    def _check_order(self) -> None:
        """Check that generations and times of commits follow those of their parents."""
        for hash, (generation, time, ids) in self._order.items():
            parents = [self._order.get(Hash(bytes.fromhex(id))) for id in ids]
            known = [parent for parent in parents if parent is not None]
            is_later = all(parent[1] < time for parent in known)
            is_next = generation == 1 + max((parent[0] for parent in known), default=0)
            if not is_later or not (is_next or len(known) < len(ids)):
                self._malformed(hash, "it does not come after its parents")

    @cached_property
    def _uncached_repo(self) -> BareRepo:
        """A repo that reads from the disk, with codecs that load no class of the user."""
        repo = self._repo
        return BareRepo(
            self._store, codec=InertCodecs(), clock=repo.clock, author="", entropy=bytes
        )

    def _malformed(self, hash: Hash, message: str) -> None:
        """Report an object whose bytes are right and break a rule of the format."""
        self._report.problems.append(Problem("malformed", hash.hex(), message))

    def _read(self, hashes: list[Hash]) -> dict[Hash, bytes]:
        """Read objects together; if one of them is broken, one by one."""
        try:
            found = self._store.read(hashes)
        except Corrupt:
            found = {}
        for hash in hashes:
            if hash not in found or digest(found[hash]) != hash:
                data = self._read_one(hash)
                found.pop(hash, None)
                if data is not None:
                    found[hash] = data
        return found

    def _read_one(self, hash: Hash) -> bytes | None:
        """Read one object, from the replica if it is broken here."""
        try:
            data = self._store.read([hash]).get(hash)
            kind, message = "missing", "the object is missing"
        except Corrupt as error:
            data, kind, message = None, "corrupt", error.message
        if data is not None:
            if digest(data) == hash:
                return data
            kind, message = "corrupt", "the object has the wrong bytes"
        repaired = self._repair(hash)
        if repaired is None:
            self._report.problems.append(Problem(kind, hash.hex(), message))
        return repaired

    def _repair(self, hash: Hash) -> bytes | None:
        """Fetch an object from the replica; its hash proves that it is the right one."""
        if self._replica is None:
            return None
        try:
            data = self._replica.read([hash]).get(hash)
        except Corrupt:
            return None
        if data is None or digest(data) != hash:
            return None
        self._repo.store.write(Batch(objects=[Object(hash, data)]))
        self._report.repaired += 1
        return data
