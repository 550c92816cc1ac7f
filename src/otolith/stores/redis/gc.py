"""Garbage collection beside readers and writers, on any number of machines.

Rules
1. What is reached from a ref, or from either end of a remembered move, stays. So does every object
   that was written, written again or needed since the start (*young*), with all it reaches.
2. While an object counts as there, everything below it is there. So a writer that needs an object
   need not look further.
3. One collector works at a time. The claim (`gc`) has a time to live that every step renews; each
   step checks it first, so a collector that stood still for too long does nothing more.

Theory of operation. From the claim on, commits add what they write and need to `young`. The
collector lists all objects, reads all roots, and follows their links; then it follows those of the
young, again and again. The listed objects that it has not met are `building`. One script, CONDEMN,
compares the two sets and, if they have nothing in common, renames `building` to `doomed`. At that
moment all of these are gone at once: no need is satisfied by one (COMMIT, HOLDS), and one that is
written again is taken out of the set. *Sweep* then deletes them in small steps, in any order.

Why that is safe. The objects that are not doomed must be closed under links (rule 2). Those that
were followed are. One that was not followed yet is young and not doomed; it landed after the roots
were read. Its batch vouches for its links: they lead to objects of the same batch or to needs,
which are young too, and so not doomed; or to what the ref had before, which is a root, or landed
after them and is young itself. Followed to the end, no link leads to a doomed object. Deleting a
ref or a history only makes fewer objects necessary.

If the sets do have something in common, these objects are followed and taken out of `building`,
which shrinks each time; so this ends. A collector that dies before CONDEMN leaves nothing but its
claim, which runs out. One that dies after it leaves `doomed`, which the next one sweeps first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from otolith.errors import Busy, Error
from otolith.stores.base import (
    CollectionReport,
    Links,
    Move,
    Progress,
    count_remembered,
    ignore_progress,
)
from otolith.stores.redis import scripts
from otolith.stores.redis.client import Client, Word
from otolith.stores.redis.refs import decode_move, entries, parts, ref_names
from otolith.types import Hash

_TOGETHER = 500
_LISTED_TOGETHER = 5000
_WAIT_SECONDS = 0.02
_RENEW_SECONDS = scripts.CLAIM_MILLISECONDS / 1000 / 6
_RESIDUE = (
    "the append-only file, snapshots and replicas of the server have what was dropped until they"
    " are written anew (BGREWRITEAOF, BGSAVE)"
)

Read = Callable[[Sequence[Hash]], dict[Hash, bytes]]


class RedisCollector:
    """One garbage collection."""

    def __init__(self, client: Client, read: Read, links: Links) -> None:
        self._client = client
        self._marker = _Marker(read, links)
        self._claim = token_hex(16)
        self._longest_seconds = 0.0
        self._renewed = monotonic()

    def run(
        self, forget_before: int, *, progress: Progress | None, dry_run: bool, erase: bool
    ) -> CollectionReport:
        """Forget, mark and sweep; with `dry_run`, only count."""
        report = progress if progress is not None else ignore_progress
        if dry_run:
            return self._count(forget_before, report)
        self._acquire()
        try:
            self._sweep(report)  # what a collector that died has left
            self._purge()
            forgotten = self._forget(forget_before, report)
            listed = self._listed()
            roots = self._roots(ref_names(self._client), 0)
            self._purge()  # a family that expired in between is not among the roots
            self._mark(roots, report)
            self._condemn(listed - self._marker.seen, report)
            dropped, freed = self._sweep(report)
        except BaseException:
            with suppress(Error):
                self._yield_claim()
            raise
        self._yield_claim()
        return CollectionReport(
            self._marker.reached,
            dropped,
            forgotten,
            freed,
            self._longest_seconds,
            residue=_RESIDUE if erase else "",
        )

    def _count(self, forget_before: int, report: Progress) -> CollectionReport:
        """Return what a collection would do, without a claim."""
        listed = self._listed()
        names = ref_names(self._client)
        before = sum(map(len, entries(self._client, names).values()))
        roots = self._roots(names, forget_before)
        self._mark(roots, report)
        dead = [Hash(name) for name in listed - self._marker.seen]
        freed = sum(
            sum(map(len, self._marker.read(list(some)).values())) for some in parts(dead, _TOGETHER)
        )
        stay = sum(len(_remembered(past, forget_before)) for past in self._histories(names))
        return CollectionReport(self._marker.reached, len(dead), before - stay, freed, 0.0)

    def _acquire(self) -> None:
        """Wait until no other collector works."""
        while not self._client.run(scripts.CLAIM, self._claim, scripts.CLAIM_MILLISECONDS):
            sleep(_WAIT_SECONDS)

    def _yield_claim(self) -> None:
        self._client.run(scripts.YIELD, self._claim)

    def _step(self, script: scripts.LuaScript, *words: Word) -> Any:
        """Run a script under the claim.

        Raises:
            Busy: another collector has it now.
        """
        began = monotonic()
        reply = self._client.run(script, self._claim, *words)
        self._renewed = monotonic()
        self._longest_seconds = max(self._longest_seconds, self._renewed - began)
        if reply == b"lost":
            raise Busy(
                "the collection stood still for too long, and another one took over",
                hint="nothing is lost; try again",
            )
        return reply

    def _purge(self) -> None:
        """Remove what has expired: once its objects are gone, no clock set back may show it."""
        while self._step(scripts.PURGE, self._client.channel, _TOGETHER):
            pass

    def _histories(self, names: list[str]) -> Iterable[list[Move]]:
        for some in parts(names, _TOGETHER):
            for name, past in entries(self._client, some).items():
                yield [decode_move(name, entry) for entry in past]

    def _forget(self, before: int, report: Progress) -> int:
        """Drop old moves from the old end of each history; return how many."""
        names = ref_names(self._client) if before > 0 else []
        forgotten = done = 0
        for some in parts(names, _TOGETHER):
            words: list[Word] = []
            for name, past in entries(self._client, some).items():
                moves = [decode_move(name, entry) for entry in past]
                excess = len(moves) - len(_remembered(moves, before))
                if excess:
                    words += (name, past[0], excess)
                    forgotten += excess
            if words:
                self._step(scripts.FORGET, *words)
            done += len(some)
            report("forget", done, len(names))
        return forgotten

    def _listed(self) -> set[Hash]:
        """Return the hashes of all objects."""
        index = self._client.key("index")
        found: set[Hash] = set()
        last = b"-"
        while True:
            some = self._client.call("ZRANGEBYLEX", index, last, "+", "LIMIT", 0, _LISTED_TOGETHER)
            if not some:
                return found
            found.update(map(Hash, some))
            last = b"(" + some[-1]

    def _roots(self, names: list[str], forget_before: int) -> set[Hash]:
        """Return all that refs name and remembered moves mention; refs first, see above."""
        refs = self._client.run(scripts.REFS, "", "")
        roots = set(map(Hash, refs[1::2]))
        for past in self._histories(names):
            for move in _remembered(past, forget_before):
                roots.update(side for side in (move.old, move.new) if side is not None)
        return roots

    def _mark(self, roots: Iterable[Hash], report: Progress) -> None:
        self._marker.add(roots)
        while self._marker.walk():
            report("mark", self._marker.reached, 0)
            if monotonic() - self._renewed > _RENEW_SECONDS:
                self._follow_young()
        report("mark", self._marker.reached, self._marker.reached)

    def _follow_young(self) -> bool:
        """Add young objects to those that are to be followed; return whether there were any."""
        young = self._step(scripts.YOUNG, _TOGETHER)
        self._marker.add(map(Hash, young))
        return bool(young)

    def _condemn(self, dead: set[Hash], report: Progress) -> None:
        """Make dead objects doomed, all at once, unless writers use them again."""
        self._change_building("SADD", dead)
        while True:
            while self._follow_young():
                self._mark((), report)
            alive = dead & self._marker.seen
            self._change_building("SREM", alive)
            dead -= alive
            if self._step(scripts.CONDEMN):
                return

    def _change_building(self, command: str, hashes: Iterable[Hash]) -> None:
        for some in parts(list(hashes), _TOGETHER):
            self._step(scripts.BUILD, command, *some)

    def _sweep(self, report: Progress) -> tuple[int, int]:
        """Delete what is doomed; return how many objects and bytes."""
        total = self._client.call("SCARD", self._client.key("doomed"))
        dropped = freed = 0
        while True:
            count, size = self._step(scripts.SWEEP, _TOGETHER)
            dropped, freed = dropped + count, freed + size
            if not count:
                return dropped, freed
            report("sweep", dropped, total)


def _remembered(moves: list[Move], before: int) -> list[Move]:
    """Return the moves of a history that stay; oldest first, as they were given."""
    stay = count_remembered((move.time for move in reversed(moves)), before)
    return moves[len(moves) - stay :]


class _Marker:
    """A walk over objects and their links, level by level."""

    def __init__(self, read: Read, links: Links) -> None:
        self.read = read
        self._links = links
        self._todo: list[Hash] = []
        self.seen: set[Hash] = set()
        self.reached = 0

    def add(self, hashes: Iterable[Hash]) -> None:
        """Add objects that are to be followed."""
        new = set(hashes) - self.seen
        self.seen |= new
        self._todo += new

    def walk(self) -> bool:
        """Follow some of them; return whether there were any."""
        some = self._todo[-_TOGETHER:]
        del self._todo[-_TOGETHER:]
        for data in self.read(some).values():
            self.reached += 1
            self.add(self._links(data))
        return bool(some)
