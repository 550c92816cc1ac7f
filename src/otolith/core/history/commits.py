"""Commits and their ancestry: encode, decode, log, common ancestors, reachability.

Layout. A commit is the letter C and a MessagePack array: the root cell, the parents, the
generation, the time (microseconds), author, message, kind, the commits of other refs that it
depends on (`reads`, by ref), and a dict of more (`meta`).

The generation is one more than the highest of the parents; the time is later than theirs, even if
the clock went back. So ancestors always sort before descendants, by either.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from otolith.core.trees.encoding import FSCK
from otolith.core.trees.layout import COMMIT, cell_links, check_cells, digest, is_link, object_links
from otolith.core.trees.objects import Objects
from otolith.errors import BadValue, CommitNotFound, Corrupt, Invalid
from otolith.stores import Object
from otolith.types import Hash, short_repr

_LEFT, _RIGHT, _STALE = 1, 2, 4
_END_OF_TIME = 1 << 62
COMMIT_LIMIT_BYTES = 16 << 20
_DEEPEST_META = 50


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """The fields of a commit, in the order they are stored and hashed."""

    cell: bytes
    parents: list[bytes]
    generation: int
    time: int
    author: str
    message: str
    kind: str
    reads: dict[str, bytes]
    meta: dict[str, Any]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


@dataclass(frozen=True, slots=True)
class CommitStats:
    """The objects and bytes a commit added to the store, before compression."""

    objects: int
    bytes: int


@short_repr("short", "message", "author")
@dataclass(frozen=True, slots=True)
class Commit:
    """A state with its parents: who made it, when and why.

    `time` is in microseconds since 1970; `stats` is known only to the process that committed.
    """

    id: str
    cell: bytes = field(repr=False)
    parents: tuple[str, ...]
    generation: int
    time: int
    author: str
    message: str
    kind: str = "step"
    reads: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    stats: CommitStats | None = field(default=None, compare=False)

    @property
    def hash(self) -> Hash:
        """The id as bytes."""
        return Hash(bytes.fromhex(self.id))

    @property
    def root(self) -> str:
        """The hash of the state itself: equal states have equal roots."""
        return next(cell_links(self.cell)).hex()

    @property
    def short(self) -> str:
        """The first ten digits of the id."""
        return self.id[:10]


def make_commit(
    cell: bytes,
    parents: tuple[Commit, ...],
    *,
    now: int,
    author: str,
    message: str,
    kind: str = "step",
    reads: Mapping[str, Hash] | None = None,
    meta: Mapping[str, Any] | None = None,
    objects: Sequence[Object] = (),
) -> tuple[Commit, bytes]:
    """Return a new commit and its bytes; `objects` are those that it adds.

    Raises:
        BadValue: the message, author, kind or meta cannot be stored, or is too long.
        Invalid: the clock returned something else than microseconds.
    """
    _check_fields(now, author=author, message=message, kind=kind)
    more: object = meta or {}
    if not isinstance(more, Mapping) or not is_plain(dict(more)):
        raise BadValue(
            "the meta of a commit is not plain data",
            hint="use None, bool, numbers, str, bytes, and lists and str-keyed dicts of them",
        )
    record = _Record(
        cell=cell,
        parents=[parent.hash for parent in parents],
        generation=1 + max((parent.generation for parent in parents), default=0),
        time=max([now, *(parent.time + 1 for parent in parents)]),
        author=author,
        message=message,
        kind=kind,
        reads=dict(sorted((reads or {}).items())),
        meta=dict(more),
    )
    try:
        data = COMMIT + _encode(record)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadValue(
            f"the message, author or meta of a commit cannot be stored: {error}",
            hint="use plain data there, and text without lone surrogates",
        ) from None
    if len(data) > COMMIT_LIMIT_BYTES:
        raise BadValue(
            f"the message and meta of a commit take {len(data)} bytes, at most"
            f" {COMMIT_LIMIT_BYTES}",
            hint="store what is long in the state, and name it in the message",
        )
    stats = CommitStats(len(objects) + 1, sum(len(new.data) for new in objects) + len(data))
    return _commit(digest(data), record, stats), data


def _check_fields(now: object, **texts: object) -> None:
    """Check the types of the texts and of the time of a commit."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise BadValue(f"the {name} of a commit must be a str, got {type(text).__name__}")
    if type(now) is not int or not 0 <= now < _END_OF_TIME:
        raise Invalid(
            f"the clock returned {now!r}", hint="a clock returns microseconds since 1970, an int"
        )


def is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether a value is made of types that MessagePack reads back unchanged."""
    if depth > _DEEPEST_META:
        return False
    if type(value) is dict:
        return all(type(key) is str and is_plain(part, depth + 1) for key, part in value.items())
    if type(value) is list:
        return all(is_plain(part, depth + 1) for part in value)
    return value is None or type(value) in (bool, int, float, str, bytes)


def decode_commit(hash: Hash, data: bytes) -> Commit:
    """Return the commit these bytes encode."""
    if data[:1] != COMMIT:
        raise Corrupt(f"object {hash.hex()[:12]} is not a commit", hint=FSCK)
    return _commit(hash, _record(data))


def is_commit(data: bytes) -> bool:
    """Tell whether an object is a commit."""
    return data[:1] == COMMIT


def links(data: bytes) -> Iterable[Hash]:
    """Return the hashes of the objects that an object of any kind needs."""
    if data[:1] != COMMIT:
        return object_links(data)
    record = _record(data)
    return [*cell_links(record.cell), *map(Hash, record.parents), *map(Hash, record.reads.values())]


def _record(data: bytes) -> _Record:
    """Decode the record of a commit and check its root."""
    try:
        record = _decode(data[1:])
    except msgspec.MsgspecError as error:
        raise Corrupt(f"a commit cannot be decoded: {error}", hint=FSCK) from None
    check_cells([record.cell])
    if not is_link(record.cell):
        raise Corrupt("a commit has no root", hint=FSCK)
    return record


def _commit(hash: Hash, record: _Record, stats: CommitStats | None = None) -> Commit:
    """Return the public form of a record."""
    return Commit(
        id=hash.hex(),
        cell=record.cell,
        parents=tuple(parent.hex() for parent in record.parents),
        generation=record.generation,
        time=record.time,
        author=record.author,
        message=record.message,
        kind=record.kind,
        reads={name: read.hex() for name, read in record.reads.items()},
        meta=record.meta,
        stats=stats,
    )


class Graph:
    """The commits of a repo."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def commit(self, hash: Hash) -> Commit:
        """Return a commit."""
        return decode_commit(hash, self._objects.data(hash))

    def parents(self, commit: Commit) -> list[Commit]:
        """Return the parents of a commit."""
        return [self.commit(Hash(bytes.fromhex(parent))) for parent in commit.parents]

    def log(self, *tips: Commit) -> Iterator[Commit]:
        """Yield commits and their ancestors, the latest first."""
        heap = [(-tip.time, tip.id, tip) for tip in tips]
        heapq.heapify(heap)
        seen = {tip.id for tip in tips}
        while heap:
            commit = heapq.heappop(heap)[2]
            yield commit
            for parent in self.parents(commit):
                if parent.id not in seen:
                    seen.add(parent.id)
                    heapq.heappush(heap, (-parent.time, parent.id, parent))

    def origin(self, commit: Commit) -> Commit:
        """Return the commit that made a state: a rollback has the state of the one it went back to.

        Raises:
            CommitNotFound: that commit was deleted.
        """
        while commit.kind == "rollback" and isinstance(commit.meta.get("to"), str):
            try:
                commit = self.commit(Hash(bytes.fromhex(commit.meta["to"])))
            except (Corrupt, ValueError):
                raise CommitNotFound(
                    f"commit {commit.short} rolled back to one that was deleted",
                    hint="name the commit to go to",
                ) from None
        return commit

    def earlier(self, tip: Commit, steps: int, *, branch: str) -> Commit:
        """Return the commit so many steps back; what was rolled back does not count.

        Raises:
            CommitNotFound: there are not so many steps.
        """
        goal = self.origin(tip)
        for step in range(steps):
            parents = self.parents(goal)
            if not parents:
                raise CommitNotFound(
                    f"{steps} steps back from {branch} is before its first commit",
                    hint=f"there are {step} steps to go back; undo() takes the first commit away",
                )
            goal = self.origin(parents[0])
        return goal

    def is_ancestor(self, old: Commit, new: Commit) -> bool:
        """Tell whether `old` is `new` or comes before it."""
        queue, seen = [new], {new.id}
        while queue:
            commit = queue.pop()
            if commit.id == old.id:
                return True
            if commit.generation > old.generation:
                fresh = [parent for parent in self.parents(commit) if parent.id not in seen]
                seen.update(parent.id for parent in fresh)
                queue += fresh
        return False

    def bases(self, left: Iterable[Commit], right: Iterable[Commit]) -> list[Commit]:
        """Return all lowest common ancestors of two sets of commits, the earliest first.

        Commits are visited from the highest generation down, so all descendants of a commit are
        known when it is visited: one that both sides reach is a base unless another base does.
        """
        marks: dict[str, int] = {}
        heap: list[tuple[int, str, Commit]] = []

        def mark(commit: Commit, side: int) -> None:
            if commit.id not in marks:
                heapq.heappush(heap, (-commit.generation, commit.id, commit))
            marks[commit.id] = marks.get(commit.id, 0) | side

        for commit in left:
            mark(commit, _LEFT)
        for commit in right:
            mark(commit, _RIGHT)
        found: list[Commit] = []
        while any(not marks[id] & _STALE for _, id, _ in heap):
            commit = heapq.heappop(heap)[2]
            sides = marks[commit.id]
            if sides == _LEFT | _RIGHT:
                found.append(commit)
                sides |= _STALE
            for parent in self.parents(commit):
                mark(parent, sides)
        return sorted(found, key=lambda commit: (commit.time, commit.id))
