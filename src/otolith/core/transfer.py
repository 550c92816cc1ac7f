"""Transfer: copies commits, and everything they need, from one store to another.

Rules
1. Only what the target lacks is copied. An object that it has, it has with everything below, so
   nothing below is looked at.
2. Objects go from the leaves up, and refs (which the caller moves) last. So a transfer that was cut
   off leaves no ref without its objects, and the next one continues where it stopped.
3. Each batch names what its objects link to outside of it in `needs`. So rule 1 stays true beside a
   collection, which may drop objects that have arrived and that no ref reaches yet: the batch is
   then refused, and what is missing is looked for again.
4. Every object is hashed on its way.

Theory of operation. First the missing commits are found, from the tips back to commits that the
target has; `hints`, hashes that the history of a ref names, are looked up many at a time, because
parents could only be found one after the other. Then the commits are copied in groups, the oldest
first: the trees of a group are walked level by level, so that a level costs one question to the
target and one read from the source, however many commits are in the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from otolith.core.history.commits import decode_commit, is_commit, links
from otolith.core.trees.layout import digest
from otolith.errors import Corrupt, NotFound
from otolith.stores import Batch, Object, Progress, Store, held_by
from otolith.types import Hash

_HASHES_AT_ONCE = 1024
_READ_AT_ONCE = 256
_WRITTEN_AT_ONCE = 1024
_BYTES_AT_ONCE = 4 << 20
_COMMITS_AT_ONCE = 256
_HELD_BYTES = 64 << 20  # what is read ahead of being sent; beyond it, objects are read twice
_TRIES = 4  # each further one means that a collection dropped what had just arrived


class CopyTotals(NamedTuple):
    """How much was copied."""

    commits: int = 0
    objects: int = 0
    bytes: int = 0


class Transfer:
    """Copies from one store to another; one object for one direction, used once."""

    def __init__(self, source: Store, target: Store, progress: Progress | None = None) -> None:
        self._source = source
        self._target = target
        self._progress = progress or (lambda phase, done, total: None)
        self._data: dict[Hash, bytes] = {}
        self._data_bytes = 0
        self._held: set[Hash] = set()  # of the target, as far as it was asked
        self.copied = CopyTotals()

    def copy(self, tips: Iterable[Hash], hints: Iterable[Sequence[Hash]] = ()) -> CopyTotals:
        """Copy the objects of tips, and all they need; return how much was copied.

        `hints` are hashes that are probably commits on the way, for each tip the newest first.

        Raises:
            Corrupt: the source lacks an object, or has one with wrong bytes.
        """
        wanted = list(dict.fromkeys(tips))
        for tries_left in reversed(range(_TRIES)):
            try:
                self._copy(wanted, hints)
            except NotFound:
                if not tries_left:
                    raise
                self.ask_again()
            else:
                break
        return self.copied

    def ask_again(self) -> None:
        """Ask the target again what it has, since a collection may have dropped something."""
        self._held.clear()

    def is_in_target(self, hashes: Iterable[Hash]) -> bool:
        """Tell whether the target has all of these objects."""
        return not self._missing(hashes)

    def _copy(self, tips: list[Hash], hints: Iterable[Sequence[Hash]]) -> None:
        for history in hints:
            self._look_ahead(history)
        commits = self._missing_commits(tips)
        done = 0
        for some in _slices(commits, _COMMITS_AT_ONCE):
            self._send(some)
            done += len(some)
            self._progress("copy", done, len(commits))

    def _look_ahead(self, history: Sequence[Hash]) -> None:
        """Read commits of a history, the newest first, down to those that the target has."""
        for some in _slices(history, _READ_AT_ONCE):
            missing = self._missing(some)
            for hash, data in self._source.read(missing).items():  # some may have been collected
                if digest(data) == hash:  # others are read again, and are an error then
                    self._hold(hash, data)
            if not missing:
                return

    def _missing_commits(self, tips: list[Hash]) -> list[Hash]:
        """Return the commits that the target lacks, ancestors first.

        A tip that is not a commit is returned as well.
        """
        generations: dict[Hash, int] = {}
        queue = tips
        while queue:
            queue = self._missing(hash for hash in queue if hash not in generations)
            parents: list[Hash] = []
            for hash, data in self._read(queue).items():
                generations[hash] = 0
                if is_commit(data):
                    commit = decode_commit(hash, data)
                    generations[hash] = commit.generation
                    above = (*commit.parents, *commit.reads.values())
                    parents += [Hash(bytes.fromhex(each)) for each in above]
            queue = list(dict.fromkeys(parents))
            self._progress("compare", len(generations), 0)
        return sorted(generations, key=generations.__getitem__)

    def _send(self, commits: list[Hash]) -> None:
        """Copy commits whose parents the target has, or that are among them."""
        below: dict[Hash, list[Hash]] = {}  # the links of each missing object
        sizes: dict[Hash, int] = {}
        queue = commits
        while queue:
            for some in _slices(queue, _READ_AT_ONCE):
                found = self._read(some)
                below |= {hash: list(links(data)) for hash, data in found.items()}
                sizes |= {hash: len(data) for hash, data in found.items()}
            children = (child for hash in queue for child in below[hash])
            queue = self._missing(child for child in children if child not in below)
        batch: list[Hash] = []
        size = 0
        for hash in _leaves_first(commits, below):
            if batch and (len(batch) >= _WRITTEN_AT_ONCE or size + sizes[hash] > _BYTES_AT_ONCE):
                self._write(batch, below)
                batch, size = [], 0
            batch.append(hash)
            size += sizes[hash]
        self._write(batch, below)
        self.copied = self.copied._replace(commits=self.copied.commits + len(commits))

    def _write(self, hashes: list[Hash], below: dict[Hash, list[Hash]]) -> None:
        found = self._read(hashes)
        objects = [Object(hash, found[hash]) for hash in hashes]
        needs = dict.fromkeys(child for hash in hashes for child in below[hash])
        needed = [child for child in needs if child not in found]
        if objects:
            self._target.write(Batch(objects=objects, needs=needed))
        for hash, data, _ in objects:
            self._held.add(hash)
            if self._data.pop(hash, None) is not None:
                self._data_bytes -= len(data)
        count, size = len(objects), sum(len(item.data) for item in objects)
        self.copied = self.copied._replace(
            objects=self.copied.objects + count, bytes=self.copied.bytes + size
        )

    def _missing(self, hashes: Iterable[Hash]) -> list[Hash]:
        """Return those of the hashes that the target lacks, each once."""
        unknown = [hash for hash in dict.fromkeys(hashes) if hash not in self._held]
        for some in _slices(unknown, _HASHES_AT_ONCE):
            self._held |= held_by(self._target, some)
        return [hash for hash in unknown if hash not in self._held]

    def _read(self, hashes: Sequence[Hash]) -> dict[Hash, bytes]:
        """Return objects of the source, all of them."""
        found = {hash: self._data[hash] for hash in hashes if hash in self._data}
        rest = [hash for hash in hashes if hash not in found]
        for some in _slices(rest, _READ_AT_ONCE):
            objects = self._source.read(some)
            for hash in some:
                data = objects.get(hash)
                if data is None or digest(data) != hash:
                    what = "is missing" if data is None else "has the wrong bytes"
                    raise Corrupt(
                        f"object {hash.hex()[:12]} of the source {what}", hint="run otolith fsck"
                    )
                found[hash] = data
                self._hold(hash, data)
        return found

    def _hold(self, hash: Hash, data: bytes) -> None:
        """Keep an object until it is sent, as long as there is room."""
        if hash not in self._data and self._data_bytes + len(data) <= _HELD_BYTES:
            self._data[hash] = data
            self._data_bytes += len(data)


def _slices(items: Sequence[Hash], length: int) -> Iterator[list[Hash]]:
    for start in range(0, len(items), length):
        yield list(items[start : start + length])


def _leaves_first(tips: Sequence[Hash], below: dict[Hash, list[Hash]]) -> Iterator[Hash]:
    """Yield everything in `below` that tips reach, each after all it links to."""
    done: set[Hash] = set()
    for tip in tips:
        stack = [(tip, iter(below[tip]))] if tip not in done else []
        done.add(tip)
        while stack:
            hash, children = stack[-1]
            child = next((each for each in children if each in below and each not in done), None)
            if child is None:
                yield hash
                stack.pop()
            else:
                done.add(child)
                stack.append((child, iter(below[child])))
