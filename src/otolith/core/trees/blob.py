"""Long str and bytes: chunks cut by content, so that an insertion moves nothing but its chunk.

A chunk ends after four bytes that fall into four fixed classes of 16 values each, one place in
65,536 on average, but not before 16 KiB and no later than 256 KiB. The regular-expression engine
looks for that place at memory speed, which no loop in Python could.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from otolith.core.trees.hashing import digest
from otolith.core.trees.layout import BLOB, CHUNK, Link, read_link
from otolith.core.trees.objects import Buffer, Objects
from otolith.core.trees.sequence import Sequence, SequenceReader, chunk_bytes
from otolith.types import Hash

SHORTEST, LONGEST = 16 << 10, 256 << 10


def _class(number: int) -> bytes:
    """Return 16 of the 256 bytes, spread so that text and binary data meet each as often."""
    members = [byte for byte in range(256) if digest(bytes((byte,)))[number] < 16]
    return b"[" + b"".join(b"\\x%02x" % byte for byte in members) + b"]"


_END = re.compile(b"".join(map(_class, range(4))), re.DOTALL)


def cut(data: bytes, *, final: bool = True) -> list[int]:
    """Return where the chunks of this data end. Without `final`, more data may follow."""
    ends: list[int] = []
    start = 0
    while len(data) - start > SHORTEST:
        found = _END.search(data, start + SHORTEST - 4, start + LONGEST)
        if found is None and len(data) - start < LONGEST:
            break
        start = found.end() if found else start + LONGEST
        ends.append(start)
    if final and start < len(data):
        ends.append(len(data))
    return ends


class BlobReader:
    """Reads blobs."""

    def __init__(self, objects: Objects | Buffer) -> None:
        self._objects = objects
        self._links = SequenceReader(objects, measure=chunk_bytes)

    def read(self, link: Link, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes of a range."""
        stop = link.length if stop is None else min(stop, link.length)
        if start >= stop:
            return b""
        chunks = list(self._chunks(link, start, stop))
        before = chunks[0][0]
        return b"".join(data for _, data in chunks)[start - before : stop - before]

    def _chunks(self, link: Link, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield where each chunk that overlaps a range starts, and its bytes."""
        links = [read_link(item) for item in self._links.items(link, start, stop)]
        self._objects.prefetch([item.hash for item in links])
        at = self._start_of(link, start)
        for item in links:
            yield at, self._objects.data(item.hash)[1:]
            at += item.length

    def _start_of(self, link: Link, position: int) -> int:
        """Return where the chunk that holds a position starts."""
        before = 0
        node = self._objects.node(link.hash)
        while True:
            children = map(read_link, node.payloads)
            child = next(children)
            while position >= before + child.length:
                before += child.length
                child = next(children)
            if node.level == 0:
                return before
            node = self._objects.node(child.hash)


class Blob(BlobReader):
    """Builds and edits blobs into a buffer of new objects."""

    def __init__(self, objects: Buffer, salt: int) -> None:
        super().__init__(objects)
        self._buffer = objects
        self._tree = Sequence(objects, salt, kind=BLOB, measure=chunk_bytes)

    def build(self, pieces: Iterable[bytes]) -> Link | None:
        """Return the blob that these pieces make up, one after the other."""
        links: list[bytes] = []
        rest = b""
        for piece in pieces:
            rest += piece
            ends = cut(rest, final=False)
            links += self._put(rest, ends)
            rest = rest[ends[-1] :] if ends else rest
        return self._tree.build(links + self._put(rest, cut(rest)))

    def splice(self, link: Link, start: int, stop: int, data: bytes) -> Link | None:
        """Return the blob with a range replaced by these bytes."""
        first = self._start_of(link, min(start, link.length - 1))
        last, tail = self._after(link, stop)
        rest = self.read(link, first, start) + data + tail
        while last < link.length and _is_open(rest):
            (_, following), *_ = self._chunks(link, last, last + 1)
            rest += following
            last += len(following)
        return self._tree.splice(link, first, last, self._put(rest, cut(rest)))

    def _after(self, link: Link, position: int) -> tuple[int, bytes]:
        """Return where the chunk that holds a position ends, and its bytes from there on."""
        if position >= link.length:
            return link.length, b""
        if position and self._start_of(link, position) == position:
            return position, b""
        (at, data), *_ = self._chunks(link, position, position + 1)
        return at + len(data), data[position - at :]

    def _put(self, data: bytes, ends: list[int]) -> list[bytes]:
        return [
            Link(self._chunk(data[start:stop]), stop - start, stop - start).encode()
            for start, stop in pairwise([0, *ends])
        ]

    def _chunk(self, data: bytes) -> Hash:
        return self._buffer.put(CHUNK + data)


def _is_open(data: bytes) -> bool:
    """Tell whether the last chunk ends only because the data does."""
    return bool(data) and cut(data, final=False)[-1:] != [len(data)]
