"""Long str and bytes: chunks cut by content, so that an insertion moves nothing but its chunk.

A chunk ends where a mixture of the last 13 bytes is zero, one place in 65,536, but not before
16 KiB and no later than 256 KiB. To mix, every byte is replaced by another (a fixed permutation),
and bytes are spread over the ones that follow by shifting and XOR; then once more. Both steps work
on whole blocks, as bytes and as one long number, so that no loop over bytes is needed: about
100 MB/s in plain Python, for any data.

A blob is a sequence (see sequence.py) whose elements are links to chunks and count their bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise

from otolith.core.trees.encoding import FSCK
from otolith.core.trees.layout import BLOB, CHUNK, Link, digest, read_link
from otolith.core.trees.objects import Buffer
from otolith.core.trees.sequence import Sequence, chunk_bytes
from otolith.errors import Corrupt, TooLarge

SHORTEST, LONGEST = 16 << 10, 256 << 10

_BLOCK = 256 << 10
_BEFORE = 16  # bytes ahead of a block that its first places depend on
_BATCH_BYTES = 1 << 20  # of a stream are cut together


def _permutation(number: int) -> bytes:
    """Rank the 256 bytes by the hash of the number and the byte."""
    ranked = sorted(range(256), key=lambda byte: digest(bytes((number, byte))))
    return bytes(ranked.index(byte) for byte in range(256))


_FIRST, _SECOND = _permutation(0), _permutation(1)


def mix(data: bytes) -> bytes:
    """Return, for each byte, the mixture of it and the twelve bytes before it."""
    spread = int.from_bytes(data.translate(_FIRST), "little")
    spread ^= (spread << 11) ^ (spread << 29) ^ (spread << 53)
    again = spread.to_bytes(len(data) + 7, "little")[: len(data)].translate(_SECOND)
    spread = int.from_bytes(again, "little")
    spread ^= (spread << 13) ^ (spread << 41)
    return spread.to_bytes(len(data) + 6, "little")[: len(data)]


def _possible_ends(data: bytes) -> list[int]:
    """Return where a chunk may end: after two bytes in a row whose mixtures are zero."""
    places: list[int] = []
    for start in range(SHORTEST, len(data), _BLOCK):
        first = start - _BEFORE
        block = mix(data[first : start + _BLOCK])
        at = block.find(b"\0\0", _BEFORE - 2)
        while at >= 0:
            places.append(first + at + 2)
            at = block.find(b"\0\0", at + 1)
    return places


def cut(data: bytes, *, final: bool = True) -> list[int]:
    """Return where the chunks of this data end. Without `final`, more data may follow."""
    places = _possible_ends(data)
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


class Blob:
    """Reads blobs, and builds new ones into a buffer of objects."""

    def __init__(self, objects: Buffer, salt: int) -> None:
        self._objects = objects
        self._links = Sequence(objects, salt, kind=BLOB, measure=chunk_bytes)

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
                raise Corrupt("a chunk is not as long as its link says", hint=FSCK)
            yield at, data[1:]
            at += item.length

    def _start_of(self, link: Link, position: int) -> int:
        """Return where the chunk that holds a position starts."""
        before = 0
        node = self._objects.node(link.hash)
        while True:
            for child in map(read_link, node.payloads):
                if position < before + child.length:
                    break
                before += child.length
            else:
                raise Corrupt("a blob is shorter than its link says", hint=FSCK)
            if node.level == 0:
                return before
            node = self._objects.node(child.hash)

    def build(self, pieces: Iterable[bytes]) -> Link | None:
        """Return the blob that these pieces make up, one after the other."""
        links: list[bytes] = []
        rest = bytearray()
        for piece in pieces:
            rest += piece
            if len(rest) >= _BATCH_BYTES:
                ends = cut(bytes(rest), final=False)
                links += self._put(bytes(rest), ends)
                del rest[: ends[-1]]
        return self._links.build(links + self._put(bytes(rest), cut(bytes(rest))))

    def splice(self, link: Link, start: int, stop: int, data: bytes) -> Link | None:
        """Return the blob with a range replaced by these bytes."""
        first = self._start_of(link, min(start, link.length - 1))
        last, tail = self._after(link, stop)
        rest = self.read(link, first, start) + data + tail
        # A chunk that ends only because the data does continues in the one that follows it.
        while last < link.length and rest and cut(rest, final=False)[-1:] != [len(rest)]:
            (_, following), *_ = self._chunks(link, last, last + 1)
            rest += following
            last += len(following)
        return self._links.splice(link, first, last, self._put(rest, cut(rest)))

    def _after(self, link: Link, position: int) -> tuple[int, bytes]:
        """Return where the chunk that holds a position ends, and its bytes from there on."""
        if position >= link.length:
            return link.length, b""
        if position and self._start_of(link, position) == position:
            return position, b""
        (at, data), *_ = self._chunks(link, position, position + 1)
        return at + len(data), data[position - at :]

    def _put(self, data: bytes, ends: list[int]) -> list[bytes]:
        """Store chunks that end at these offsets; return their links."""
        return [
            Link(self._objects.put(CHUNK + data[start:stop]), stop - start, stop - start).encode()
            for start, stop in pairwise([0, *ends])
        ]
