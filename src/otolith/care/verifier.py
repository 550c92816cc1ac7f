"""Re-hash what is stored, say what is broken, and mend it from a replica.

quick   every ref names a commit, every commit's parents and root are there
full    every reachable object is there and has the bytes its hash says; what the store keeps
        beside objects is whole
deep    also: every object follows the format: order, ends, counts, sizes, places, values; commits
        come after their parents

Everything is read from where it is stored, past all that this process remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from otolith.codecs import AsStored
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
    root_flaws,
    totals,
)
from otolith.errors import Corrupt, Invalid
from otolith.stores import Batch, IntegrityChecker, Object, Store
from otolith.types import Hash

LEVELS = ("quick", "full", "deep")
_TOGETHER = 256

Progress = Callable[[str, int, int], None]


class Problem(NamedTuple):
    """Something that is broken: a ref or an object."""

    kind: str  # missing, corrupt or malformed
    name: str
    message: str


@dataclass(slots=True)
class Report:
    """What a verification found."""

    level: str
    commits: int = 0
    objects: int = 0
    bytes: int = 0
    repaired: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken, or all of it was mended."""
        return not self.problems


def verify(
    repo: BareRepo,
    *,
    level: str = "full",
    repair_from: Store | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check everything that refs reach; with `repair_from`, fetch what is broken from there."""
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
        self._encoding = Encoding(AsStored())
        self._named: dict[Hash, str] = {}
        self._order: dict[Hash, tuple[int, int, tuple[str, ...]]] = {}
        self._replica = replica
        self._progress = progress
        self._report = Report(level)
        self._seen: set[Hash] = set()
        self._claims: set[Claim] = set()
        self._found: dict[Hash, Totals] = {}

    def run(self) -> Report:
        """Walk from the refs, then from where they were: that can be read once heads are mended."""
        self._walk(self._heads())
        self._walk(self._remembered())
        self._look_at_order()
        if self._report.level != "quick" and isinstance(self._repo.store, IntegrityChecker):
            broken = self._repo.store.check()
            self._report.problems += [Problem("corrupt", *each) for each in broken]
        for claim in self._claims:
            found = self._found.get(claim.hash)
            if found is not None and not claim.fits(found):
                self._malformed(claim.hash, "it is not what an object above it says it is")
        return self._report

    def _walk(self, tips: Iterable[Hash]) -> None:
        report = self._report
        queue = self._unseen(tips)
        while queue:
            some, queue = queue[-_TOGETHER:], queue[:-_TOGETHER]
            for hash, data in self._read(some).items():
                report.objects += 1
                report.bytes += len(data)
                queue += self._unseen(self._visit(hash, data))
            self._progress("verifying", report.objects, 0)

    def _heads(self) -> Iterable[Hash]:
        try:
            refs = self._store.refs()
        except Corrupt as error:
            self._report.problems.append(Problem("corrupt", "refs", error.message))
            return []
        self._named = {hash: name for name, hash in refs.items() if not name.startswith(".")}
        return refs.values()

    def _remembered(self) -> Iterable[Hash]:
        try:
            moves = self._store.moves()
        except Corrupt as error:
            self._report.problems.append(Problem("corrupt", "history of refs", error.message))
            return []
        return [hash for move in moves for hash in (move.old, move.new) if hash is not None]

    def _unseen(self, hashes: Iterable[Hash]) -> list[Hash]:
        fresh = [hash for hash in dict.fromkeys(hashes) if hash not in self._seen]
        self._seen.update(fresh)
        return fresh

    def _visit(self, hash: Hash, data: bytes) -> list[Hash]:
        """Look at one object; return the ones to look at next."""
        try:
            below = list(links(data))
        except Corrupt as error:
            self._malformed(hash, error.message)
            return []
        if is_commit(data):
            self._report.commits += 1
        elif hash in self._named:
            message = f"it names {hash.hex()[:12]}, which is no commit"
            self._report.problems.append(Problem("malformed", self._named[hash], message))
        elif self._report.level == "quick":
            return []
        if self._report.level == "deep":
            self._look_inside(hash, data)
        return below

    def _look_inside(self, hash: Hash, data: bytes) -> None:
        for message in flaws(data, self._encoding, self._repo.salt):
            self._malformed(hash, message)
        if is_commit(data):
            commit = decode_commit(hash, data)
            self._order[hash] = commit.generation, commit.time, commit.parents
            self._look_at_root(commit)
            return
        self._claims.update(claims(data))
        found = totals(data)
        if found is not None:
            self._found[hash] = found

    def _look_at_order(self) -> None:
        for hash, (generation, time, ids) in self._order.items():
            parents = [self._order.get(Hash(bytes.fromhex(id))) for id in ids]
            known = [parent for parent in parents if parent is not None]
            is_later = all(parent[1] < time for parent in known)
            is_next = generation == 1 + max((parent[0] for parent in known), default=0)
            if not is_later or not (is_next or len(known) < len(ids)):
                self._malformed(hash, "it does not come after its parents")

    def _look_at_root(self, commit: Commit) -> None:
        self._claims.update(cell_claims(commit.cell))
        for message in root_flaws(commit.cell):
            self._malformed(commit.hash, message)
        try:
            len(self._fresh.at(commit))
        except Corrupt as error:
            self._malformed(commit.hash, f"its root is no state: {error.message}")

    @cached_property
    def _fresh(self) -> BareRepo:
        """The repo, over a store without memory."""
        repo = self._repo
        return BareRepo(self._store, codec=AsStored(), clock=repo.clock, author="", entropy=bytes)

    def _malformed(self, hash: Hash, message: str) -> None:
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
        try:
            data = self._store.read([hash]).get(hash)
            kind, message = "missing", "the object is missing"
        except Corrupt as error:
            data, kind, message = None, "corrupt", error.message
        if data is not None and digest(data) == hash:
            return data
        mended = self._mend(hash)
        if mended is None:
            self._report.problems.append(Problem(kind, hash.hex(), message))
        return mended

    def _mend(self, hash: Hash) -> bytes | None:
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
