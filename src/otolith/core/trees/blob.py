"""Long str and bytes: chunks cut by content, so that an insertion moves nothing but its chunk.

A chunk ends where a mixture of the last 13 bytes comes out as zero, one place in 65,536, but not
before 16 KiB and no later than 256 KiB. To mix, every byte is replaced by another (a fixed
permutation), and bytes are spread over the ones that follow by shifting and XOR; then once more.
Both steps work on whole blocks at a time, as bytes and as one long number, so that no loop over
bytes is needed: about 100 MB/s in plain Python, the same for any data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from otolith.core.trees.layout import BLOB, CHUNK, Link, digest, read_link
from otolith.core.trees.objects import Buffer, Objects
from otolith.core.trees.sequence import Sequence, SequenceReader, chunk_bytes
from otolith.errors import Corrupt, TooLarge
from otolith.types import Hash

SHORTEST, LONGEST = 16 << 10, 256 << 10

_BLOCK = 256 << 10
_BEFORE = 16  # bytes ahead of a block that its first places depend on
_TOGETHER = 1 << 20


def _permutation(number: int) -> bytes:
    """Rank the 256 bytes by the hash of the number and the byte."""
    ranked = sorted(range(256), key=lambda byte: digest(bytes((number, byte))))
    return bytes(ranked.index(byte) for byte in range(256))


_FIRST, _SECOND = _permutation(0), _permutation(1)


def mixed(data: bytes) -> bytes:
    """Return, for each byte, the mixture of it and the twelve bytes before it."""
    spread = int.from_bytes(data.translate(_FIRST), "little")
    spread ^= (spread << 11) ^ (spread << 29) ^ (spread << 53)
    again = spread.to_bytes(len(data) + 7, "little")[: len(data)].translate(_SECOND)
    spread = int.from_bytes(again, "little")
    spread ^= (spread << 13) ^ (spread << 41)
    return spread.to_bytes(len(data) + 6, "little")[: len(data)]


def _places(data: bytes) -> list[int]:
    """Return where a chunk may end: after two bytes in a row whose mixtures are zero."""
    places: list[int] = []
    for start in range(SHORTEST, len(data), _BLOCK):
        first = start - _BEFORE
        block = mixed(data[first : start + _BLOCK])
        at = block.find(b"\0\0", _BEFORE - 2)
        while at >= 0:
            places.append(first + at + 2)
            at = block.find(b"\0\0", at + 1)
    return places


def cut(data: bytes, *, final: bool = True) -> list[int]:
    """Return where the chunks of this data end. Without `final`, more data may follow."""
    places = _places(data)
    ends: list[int] = []
    start = 0
    while len(data) - start > SHORTEST:
        at = bisect_left(places, start + SHORTEST)
        end = min(places[at] if at < len(places) else len(data) + 1, start + LONGEST)
        if end > len(data):
            break
        ends.append(end)
        start = end
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
        if stop - start > self._objects.load_limit_bytes:
            raise TooLarge(
                f"{stop - start} bytes are more than {self._objects.load_limit_bytes}",
                hint="read a range of it, or open the repo with a higher load_limit_bytes",
            )
        chunks = list(self._chunks(link, start, stop))
        before = chunks[0][0]
        return b"".join(data for _, data in chunks)[start - before : stop - before]

    def _chunks(self, link: Link, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield where each chunk that overlaps a range starts, and its bytes."""
        links = [read_link(item) for item in self._links.items(link, start, stop)]
        self._objects.prefetch([item.hash for item in links])
        at = self._start_of(link, start)
        for item in links:
            data = self._objects.data(item.hash)
            if len(data) - 1 != item.length:
                raise Corrupt("a chunk is not as long as it says", hint="run otolith fsck")
            yield at, data[1:]
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
                child = _or_corrupt(next(children, None))
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
        rest = bytearray()
        for piece in pieces:
            rest += piece
            if len(rest) >= _TOGETHER:
                ends = cut(bytes(rest), final=False)
                links += self._put(bytes(rest), ends)
                del rest[: ends[-1]]
        return self._tree.build(links + self._put(bytes(rest), cut(bytes(rest))))

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


def _or_corrupt(link: Link | None) -> Link:
    if link is None:
        raise Corrupt("a blob is shorter than it says", hint="run otolith fsck")
    return link
