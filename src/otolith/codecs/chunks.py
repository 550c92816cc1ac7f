"""Raw bytes as they are read back: a list of chunks, weighed before memory is made for it.

A codec that lowers to `Raw` is given a list of bytes when it lifts, or a `Piece` of memory where
somebody has put them together already. A store may have been written by anyone, so nothing is
allocated because a header says so: first the chunks are weighed, then what the header promises is
compared with their weight.
"""

from __future__ import annotations

from collections.abc import Iterable

from otolith.codecs.exact import VERIFY
from otolith.errors import Corrupt
from otolith.types import CHUNK_BYTES, Piece


def weigh(chunks: object) -> int:
    """Return how many bytes the chunks have together.

    Raises:
        Corrupt: they are not a list of bytes that is cut as raw bytes are cut.
    """
    if type(chunks) is Piece:
        return chunks.view.nbytes
    if type(chunks) is not list or any(type(chunk) is not bytes for chunk in chunks):
        raise Corrupt("raw bytes are not kept as a list of bytes", hint=VERIFY)
    if not chunks:
        return 0
    last = len(chunks[-1])
    if any(len(chunk) != CHUNK_BYTES for chunk in chunks[:-1]) or not 0 < last <= CHUNK_BYTES:
        raise Corrupt("raw bytes are cut at other places than they should be", hint=VERIFY)
    return (len(chunks) - 1) * CHUNK_BYTES + last


def gather(chunks: object, *, size: int | None = None) -> bytearray | memoryview:
    """Return the bytes of all chunks in one piece of memory that can be written to.

    Raises:
        Corrupt: they are not raw bytes, or not `size` of them.
    """
    weight = weigh(chunks)
    if size is not None and weight != size:
        raise Corrupt(f"{size} raw bytes are announced and {weight} are there", hint=VERIFY)
    if type(chunks) is Piece:
        return chunks.view
    parts: Iterable[bytes] = chunks  # type: ignore[assignment]  # weighed: a list of bytes
    return bytearray().join(parts)


def pour(chunks: object, memory: memoryview) -> None:
    """Fill memory, a view of bytes, with the bytes of all chunks.

    Raises:
        Corrupt: they are not raw bytes, or not as many as there is memory.
    """
    weight = weigh(chunks)
    if weight != memory.nbytes:
        raise Corrupt(f"{memory.nbytes} bytes are announced and {weight} are there", hint=VERIFY)
    if type(chunks) is Piece:
        memory[:] = chunks.view
        return
    parts: Iterable[bytes] = chunks  # type: ignore[assignment]  # weighed: a list of bytes
    start = 0
    for chunk in parts:
        memory[start : start + len(chunk)] = chunk
        start += len(chunk)
