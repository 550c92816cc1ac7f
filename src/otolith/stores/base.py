"""The Store contract: immutable objects, named refs, and one atomic write.

A store holds two things. *Objects* are bytes named by the BLAKE3 hash of those bytes: they never
change, so they can be cached, copied and written again freely. *Refs* are names for hashes: they
are the only thing on which processes have to agree. `write` is the only way in.

Rules for every store
1. A batch is atomic. Readers see all of it or nothing, also after a crash in the middle.
2. A batch is conditional. Its fences, swaps and needs are compared with the store in the same
   atomic step in which it is applied (`check_conditions`). A refused batch changes nothing that a
   reader can see.
3. An acknowledged batch stays. `capabilities.durable` says whether it survives the process.
4. Once a batch has landed, its objects and everything below its `needs` can be read.
5. Damage is an error, never an answer: bytes that do not have their hash raise `Corrupt`. A store
   that does not compare them says `verified=False`, and the core does.
6. Every method may be called from several threads. Calls after `close` raise `Closed`.
7. Every error of `write` means that nothing was written, except `Unavailable`: then the caller
   reads the ref to find out.

Theory of operation. All values live in objects; a commit is an object too. Committing writes the
new objects and moves one ref, in one batch. If another process was faster, the swap fails with
`StaleRef`, and the core merges and tries again. Objects that no ref reaches any more are garbage; a
store that is also a `Collector` removes them.

To write a store, find the atomic step of the database: a transaction (SQLite, Postgres), a script
(Redis), a transaction with compares (etcd). Implement the nine members of `Store` around it with
the functions at the end of this page, then run `otolith.testing.StoreContract`. `MemoryStore` is
the shortest example, `docs/how-to/write-a-store.md` a walk through another one. A database whose
only atomic step is a conditional put of one key, such as a bucket, needs less: derive from
`KVStore`, over which `KeyValueStore` is a full store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from heapq import merge
from typing import NamedTuple, Protocol, TypeAlias, TypedDict, runtime_checkable

from blake3 import blake3

from otolith.errors import BadRef, Fenced, Invalid, NotFound, QuotaExceeded, StaleRef
from otolith.types import Hash

HASH_BYTES = 32
FIND_BYTES = 2  # the shortest prefix that `find` accepts
TOKEN_LIMIT = 1 << 63
TIME_LIMIT = 1 << 63
LONGEST_LEASE_SECONDS = 10 * 365 * 24 * 3600.0
OBJECT_LIMIT_BYTES = 64 << 20  # the core cuts longer values into several objects

Links: TypeAlias = Callable[[bytes], Iterable[Hash]]
"""Given the bytes of an object, the hashes of the objects it needs."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with a phase ("mark", "sweep", ...), the work done, and the total (0: not known)."""


class Object(NamedTuple):
    """One object to write. `base` names an older object it resembles, as a hint for compression."""

    hash: Hash
    data: bytes
    base: Hash | None = None

    def __repr__(self) -> str:
        """Show the start of the hash and the length."""
        return f"<Object {self.hash.hex()[:12]} {len(self.data)} bytes>"


class Swap(NamedTuple):
    """Move a ref from the hash it is expected to have to another; None means absent."""

    name: str
    old: Hash | None
    new: Hash | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that one write does.

    `objects` are in an order in which each follows those it needs; a collector relies on it, and
    drops them in the opposite order.
    `swaps` name a ref at most once. A swap whose new hash is its old one only checks, and leaves no
    move.
    `fences` are the write permissions of the caller, by name: a batch is refused if the store has
    seen a higher token under that name, so a process that lost its lease cannot write any more.
    `needs` are objects outside of the batch that must still be there when it lands, together with
    everything below them.
    `time` (microseconds since 1970) and `note` are recorded in the history of each swapped ref.

        Batch([Object(digest(data), data)], [Swap("branch/main", old, digest(data))], time=now)
    """

    objects: Sequence[Object] = ()
    swaps: Sequence[Swap] = ()
    fences: Mapping[str, int] = field(default_factory=dict)
    needs: Sequence[Hash] = ()
    time: int = 0
    note: str = ""

    def __repr__(self) -> str:
        """Show how much it writes."""
        refs = ", ".join(swap.name for swap in self.swaps)
        return f"<Batch {len(self.objects)} objects, refs: {refs or 'none'}>"


class Move(NamedTuple):
    """One entry of a ref's history; git calls it the reflog."""

    name: str
    old: Hash | None
    new: Hash | None
    time: int
    note: str


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do, as data. Claim only what `StoreContract` has proven."""

    verified: bool = False  # read() hashes every object again, so a flipped bit is an error
    durable: bool = False  # an acknowledged write survives the process
    shared: bool = False  # other processes may have it open too
    collects: bool = False  # it is also a Collector
    notifies: bool = False  # it is also a Notifier
    leases: bool = False  # it is also a Leaser
    awaits: bool = False  # it waits for its server without a thread, inside of `otolith.greenlets`
    expires: bool = False  # it is also an Expirer
    most_swaps: int | None = None  # how many refs one batch may move; None: any number


@dataclass(frozen=True, slots=True)
class Usage:
    """How much a store holds. `stored_bytes` is what it takes at rest."""

    objects: int
    stored_bytes: int
    limit_bytes: int | None = None


class Store(Protocol):
    """Objects and refs. Safe to call from several threads."""

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do."""
        ...

    def read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return the objects that are there; absent ones are left out.

        Raises:
            Corrupt: an object is there but its bytes do not match its hash.
        """
        ...

    def write(self, batch: Batch) -> None:
        """Apply a batch atomically. Writing an object that is there already is harmless.

        Raises:
            StaleRef: a ref did not have its old value. Nothing was written.
            Fenced: the store has seen a higher token. Nothing was written.
            NotFound: one of `needs` is gone. Nothing was written.
            Invalid, BadRef: the batch is not well formed (`check_batch`). Nothing was written.
            Full, QuotaExceeded, Busy, ReadOnly, Closed: Nothing was written.
            Unavailable: the connection or the disk failed. The batch may have landed.
        """
        ...

    def ref(self, name: str) -> Hash | None:
        """Return the hash that a ref names, or None."""
        ...

    def refs(self, prefix: str = "") -> dict[str, Hash]:
        """Return all refs whose name starts with `prefix`, sorted by name."""
        ...

    def moves(self, name: str | None = None, *, limit: int | None = None) -> list[Move]:
        """Return the history of a ref, or of all refs, newest first; it outlives the ref."""
        ...

    def find(self, prefix: bytes, *, limit: int = 16) -> list[Hash]:
        """Return up to `limit` hashes of objects that start with these bytes, sorted.

        Raises:
            Invalid: the prefix is shorter than two bytes, or longer than a hash.
        """
        ...

    def usage(self) -> Usage:
        """Return how much is stored."""
        ...

    def close(self) -> None:
        """Release everything. Closing twice is harmless; any other call then raises Closed."""
        ...


# Abilities that a store may have beside these. The core asks with isinstance().


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """The result of a garbage collection."""

    kept_objects: int
    dropped_objects: int
    dropped_moves: int
    freed_bytes: int
    longest_block_seconds: float  # the longest time that a writer may have waited
    erased: bool = False  # the store's own files hold no copy of what was dropped
    residue: str = ""  # why they may, if they were to be erased and could not be


class CollectOptions(TypedDict, total=False):
    """The options of `Collector.collect`, for layers that pass them on."""

    forget_moves_before: int
    progress: Progress | None
    dry_run: bool
    erase: bool


@runtime_checkable
class Collector(Protocol):
    """A store that can drop what no ref reaches, beside readers and writers."""

    def collect(
        self,
        links: Links,
        *,
        forget_moves_before: int = 0,
        progress: Progress | None = None,
        dry_run: bool = False,
        erase: bool = False,
    ) -> CollectionReport:
        """Drop every object that no ref, and neither end of a remembered move, reaches.

        The phases have the same names in every store: *forget* old moves, *mark* what is reached,
        *sweep* the rest.

        Moves older than `forget_moves_before` (microseconds) are forgotten, from the old end of
        each history up to its first move that is young enough (`count_remembered`).
        With `erase`, no byte of what is dropped stays in the files of the store; the report says
        whether that succeeded. With `dry_run`, the report says what would be dropped.
        """
        ...


@runtime_checkable
class Preparer(Protocol):
    """A store that can encode objects ahead of the write."""

    def prepare(self, objects: Sequence[bytes]) -> list[Hash]:
        """Encode objects that will probably be written soon, and return their hashes.

        This is a hint: nothing is written, and a prepared object need not be written later.
        """
        ...


@runtime_checkable
class IntegrityChecker(Protocol):
    """A store that has caches, or that stores more than objects, refs and moves."""

    def uncached(self) -> Store:
        """Return this store without its caches: every answer comes from the disk."""
        ...

    def check(self) -> list[tuple[str, str]]:
        """Return what is damaged beside objects, refs and moves, as (place, problem)."""
        ...


@runtime_checkable
class Inventory(Protocol):
    """A store that can tell which objects it has without sending them."""

    def holds(self, hashes: Sequence[Hash]) -> set[Hash]:
        """Return those of the hashes whose objects are there."""
        ...


class Subscription(Protocol):
    """A wait for refs that move; one thread or task uses it."""

    def wait(self, timeout_seconds: float) -> set[str]:
        """Return the names of refs that may have moved since the last call.

        It blocks until there is one, or until the time-out: then it returns an empty set. A name
        can be reported although nothing has changed (after a reconnect, all names are), and never
        the other way round: the caller reads the ref to find out.

        Raises:
            Closed: the subscription or its store was closed, before or meanwhile.
            Unavailable: the store could not be asked until the time-out.
        """
        ...

    async def wait_async(self, timeout_seconds: float) -> set[str]:
        """Do as `wait` does, while other tasks of the event loop continue."""
        ...

    def close(self) -> None:
        """End the subscription. Closing twice is harmless."""
        ...


@runtime_checkable
class Notifier(Protocol):
    """A store that tells other processes at once which refs have moved."""

    def subscribe(self, prefix: str = "") -> Subscription:
        """Return a subscription to all refs whose name starts with `prefix`."""
        ...


class NewsChannel(Protocol):
    """Hints that refs may have moved, from those who have moved them; some may be lost.

    One thread uses it.
    """

    def descriptor(self) -> int | None:
        """Return what becomes readable when there is a hint; None if nothing can be heard now."""
        ...

    def drain(self) -> None:
        """Read all hints that have come."""
        ...

    def close(self) -> None:
        """Hear nothing more."""
        ...


@runtime_checkable
class HintSource(Protocol):
    """A store that cannot tell which refs move, and may have another place that hints at it."""

    def news_channel(self) -> NewsChannel | None:
        """Return the hints of all who write through such a place; None if there is none."""
        ...


class RefTurn(Protocol):
    """The place of one writer in the line for a ref."""

    def wait(self) -> None:
        """Line up after a race that was lost; the turn then lasts until its block ends."""
        ...


@runtime_checkable
class TurnKeeper(Protocol):
    """A store at which writers that race for one ref can line up.

    A turn is advice: it keeps nobody from writing. It saves work that would be done in vain, and
    lets nobody starve.
    """

    def turn(self, name: str) -> AbstractContextManager[RefTurn]:
        """Lend a turn at a ref, to a writer that is about to read and then move it.

        Without a race nobody waits. After one, entering waits for those who came before.
        """
        ...


class Lease(NamedTuple):
    """The right to be the only one for a while. Pass `fences={lease.name: lease.token}` on."""

    name: str
    holder: str
    token: int
    expires: int  # microseconds since 1970, by the clock of the store


@runtime_checkable
class Leaser(Protocol):
    """A store that grants leases by its own clock.

    The store compares tokens when a batch lands: a batch whose fence has a token of a lease that
    has run out, or that somebody else has acquired since, is `Fenced`.
    """

    def lease(self, name: str, holder: str, *, ttl_seconds: float) -> Lease | None:
        """Acquire a lease, or renew it if this holder has it; None if somebody else has it.

        Each new holder gets a higher token than all before. A lease that has run out is acquired
        anew, also by its last holder, and so gets a new token.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease back before it runs out; one that was lost already is ignored."""
        ...

    def leased(self, name: str) -> Lease | None:
        """Return the lease that somebody has now; None if nobody has it.

        `expires` is 0 if the store does not tell.
        """
        ...


@runtime_checkable
class Expirer(Protocol):
    """A store that removes refs that nobody writes any more, by its own clock.

    Refs expire in *families*, which are named as the core names refs: `session/a/main`, its other
    branches, its stash `stage/a/main` and its attempts are the family `session/a/`. A batch that
    swaps one of them, also to the hash it has, touches the family; reading does not.
    """

    def expire(self, prefix: str, seconds: float | None, *, links: Links) -> None:
        """Remove a family that was not touched for so long; None: never.

        `prefix` is a family (`session/a/`), or a scope (`session/`): then it applies to each of its
        families that has no rule of its own. Rules stay in the store and hold for all its users.
        Giving a family a rule touches it; so does a scope's rule that is not the one it had.

        From its deadline on, the refs of a family and their histories are absent. The store
        collects what they reached by itself, now and then, using `links`.
        """
        ...


class ServerRisk(NamedTuple):
    """How a server, as it is set up, can lose or delay commits, and what to do about it."""

    problem: str
    remedy: str


class ServerFacts(NamedTuple):
    """Which program a store is on, and what one must know about it."""

    software: str
    risks: tuple[ServerRisk, ...] = ()


@runtime_checkable
class ServerReporter(Protocol):
    """A store on a server that can tell what the server is, for `otolith doctor`."""

    def server_facts(self) -> ServerFacts:
        """Ask the server what it is and how it is set up; what it does not tell is left out."""
        ...


# What a store calls at the start of `write` and `find`.


def check_batch(batch: Batch) -> None:
    """Refuse a batch that no store could apply.

    Raises:
        Invalid: an object does not have its hash or is too long, a ref is swapped twice, a hash,
            token or time has the wrong size.
        BadRef: a ref has an empty name, or one that is not text.
    """
    for item in batch.objects:
        check_object(item)
    check_header(batch)


def check_object(item: Object) -> None:
    """Raise Invalid if an object does not have its hash, or is too long to be read again."""
    check_object_size(item.data)
    if digest(item.data) != item.hash:
        raise Invalid(
            f"object {item.hash.hex()[:12]} does not hash to its name",
            hint="name an object by the BLAKE3 of its bytes",
        )


def check_object_size(data: bytes) -> None:
    """Raise Invalid if an object is too long to be read again."""
    if len(data) > OBJECT_LIMIT_BYTES:
        raise Invalid(
            f"an object has {len(data)} bytes, at most {OBJECT_LIMIT_BYTES} can be read again",
            hint="cut it into several objects",
        )


def check_header(batch: Batch) -> None:
    """Check everything of a batch but its objects, as `check_batch` does."""
    if batch.swaps:
        _check_swaps(batch.swaps)
    if not _is_text(batch.note):
        raise Invalid("the note of a batch is not text", hint="leave out lone surrogates")
    for needed in batch.needs:
        _check_hash(needed)
    for name, token in batch.fences.items():
        if not name or not _is_text(name):
            raise Invalid(f"{name!r} cannot be the name of a fence", hint="use readable text")
        if type(token) is not int or not 0 <= token < TOKEN_LIMIT:
            raise Invalid(
                f"fence {name!r}: token {token} is not an int of 63 bits", hint="count up from 0"
            )
    if type(batch.time) is not int or not 0 <= batch.time < TIME_LIMIT:
        raise Invalid(
            f"the time of a batch must be microseconds since 1970, got {batch.time!r}",
            hint="give an int of 63 bits",
        )


def check_prefix(prefix: bytes) -> None:
    """Raise Invalid if a prefix of a hash is so short that it would match everything."""
    if not FIND_BYTES <= len(prefix) <= HASH_BYTES:
        raise Invalid(
            f"a prefix of {len(prefix)} bytes cannot be looked up",
            hint=f"give {FIND_BYTES} to {HASH_BYTES} bytes of the hash",
        )


def check_lease(name: str, holder: str, ttl_seconds: float) -> None:
    """Raise Invalid if a lease has no name, no holder, or no time that makes sense."""
    if not name or not holder:
        raise Invalid("a lease needs a name and a holder", hint="give both")
    if not 0 < ttl_seconds <= LONGEST_LEASE_SECONDS:
        raise Invalid(
            f"ttl_seconds must be above 0 and at most ten years, got {ttl_seconds!r}",
            hint="such as ttl_seconds=30",
        )


# What a store calls inside of the atomic step.


def check_conditions(
    batch: Batch,
    *,
    token: Callable[[str], int],
    ref: Callable[[str], Hash | None],
    holds: Callable[[Hash], bool],
) -> None:
    """Compare the conditions of a batch with the store, in the order that the contract asks for.

    `token` returns the highest token seen under a name (0: none), `ref` the hash of a ref, and
    `holds` whether an object is there with everything below it. Call this under the lock, or
    in the transaction, in which the batch is then applied.

    Raises:
        Fenced, StaleRef, NotFound: as `Store.write` says.
    """
    for name, given in batch.fences.items():
        if given < token(name):
            raise Fenced(f"a newer holder of {name} has written", hint="stop, and acquire it again")
    for name, old, _ in batch.swaps:
        actual = ref(name)
        if actual != old:
            raise StaleRef(name, expected=old, actual=actual)
    for needed in batch.needs:
        if not holds(needed):
            raise NotFound(f"object {needed.hex()[:12]} is gone", hint="write it again")


def check_limit(limit: object, name: str = "limit_bytes") -> int | None:
    """Return the limit of a store: a number of bytes, or None for no limit.

    Raises:
        Invalid: it is neither.
    """
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise Invalid(
        f"{name} must be a number of bytes, at least 1, got {limit!r}",
        hint="leave it out for no limit",
    )


def check_quota(used_bytes: int, new_bytes: int, limit_bytes: int | None) -> None:
    """Raise QuotaExceeded if new objects would pass the limit of a store."""
    if limit_bytes is not None and new_bytes and used_bytes + new_bytes > limit_bytes:
        raise QuotaExceeded(
            f"{new_bytes} more bytes would pass the limit of {limit_bytes}",
            hint="prune, or open it with a higher limit_bytes",
        )


# What a caller of `write` uses after `Unavailable`.


def has_landed(store: Store, batch: Batch) -> bool:
    """Tell whether a batch whose reply was lost has landed, by the history of its refs.

    The move has a time and leads to the hash of a new commit, so no other batch made the same. Two
    batches that move a ref alike, with one time and one note, are not told apart: who writes other
    things than commits gives each batch a time or a note of its own. A batch that moves no ref
    counts as not landed: writing it again is harmless.
    """
    for name, old, new in batch.swaps:
        if old != new:
            return Move(name, old, new, batch.time, batch.note) in store.moves(name)
    return False


def held_by(store: Store, hashes: Sequence[Hash]) -> set[Hash]:
    """Return those of the hashes whose objects are in a store."""
    if isinstance(store, Inventory):
        return store.holds(hashes)
    return set(store.read(hashes))


class _FreeTurn:
    """The turn at a ref of a store that keeps none: it waits for nobody."""

    def wait(self) -> None:
        """Wait for nobody."""


FREE_TURN: AbstractContextManager[RefTurn] = nullcontext(_FreeTurn())
"""A turn that waits for nobody."""


def turn_at(store: Store, name: str) -> AbstractContextManager[RefTurn]:
    """Lend a turn at a ref; at a store without turns it waits for nobody."""
    keeper = getattr(store, "turn", None)  # isinstance() would take longer than a turn does
    return FREE_TURN if keeper is None else keeper(name)


# What a store uses for its answers.


def digest(data: bytes) -> Hash:
    """Return the hash that names an object."""
    return Hash(blake3(data).digest())


def newest_first(histories: Iterable[Sequence[Move]]) -> list[Move]:
    """Merge the histories of several refs, each newest first, into one."""
    return list(merge(*histories, key=lambda move: -move.time))


def count_remembered(times: Iterable[int], before: int) -> int:
    """Return how many moves of a history stay, given their times, newest first.

    Clocks jump, so times need not descend. All moves down to the oldest one that is young enough
    stay: a history never gets a hole.
    """
    return max((place for place, time in enumerate(times, 1) if time >= before), default=0)


def ignore_progress(phase: str, done: int, total: int) -> None:
    """Do nothing; the default for `progress`."""


def _check_swaps(swaps: Sequence[Swap]) -> None:
    names: set[str] = set()
    for name, old, new in swaps:
        if not name or "\0" in name or not _is_text(name):
            raise BadRef(f"{name!r} cannot be the name of a ref", hint="use readable text")
        if name in names:
            raise Invalid(f"{name} is swapped twice in one batch", hint="swap it once")
        names.add(name)
        for side in (old, new):
            if side is not None:
                _check_hash(side)


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_hash(value: bytes) -> None:
    if len(value) != HASH_BYTES:
        raise Invalid(f"{value.hex()[:16]!r} is not a hash of {HASH_BYTES} bytes")
