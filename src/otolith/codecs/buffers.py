"""Raw bytes as they are read back, and many strings as a few buffers.

A codec that lowers to `Raw` is given a list of chunks when it lifts, or a `Piece` of memory where
the chunks were joined already. A store may have been written by anyone, so nothing is allocated
because a header says so: first the chunks are counted, then the header is compared with the count.

Strings (the form never changes, see `docs/reference/format-v1.md`)

    lengths   array of uint32             bytes of each string, 0 where one is missing
    missing   None, or array of uint8     0 for a string, or a number for what is in its place
    groups    list of raw bytes           the UTF-8 of each 8,192 strings, joined

A list of a million strings would be a million values; this is about a hundred. Rows are grouped so
that a string that grows moves only the strings of its group. A lone surrogate is encoded as if it
were a character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from otolith.codecs.base import VERIFY, Form, require
from otolith.errors import BadValue, Corrupt
from otolith.types import CHUNK_BYTES, Piece, Raw


def count_bytes(chunks: object) -> int:
    """Return how many bytes the chunks have together.

    Raises:
        Corrupt: they are not a list of bytes that is cut as raw bytes are cut.
    """
    if type(chunks) is Piece:
        return chunks.view.nbytes
    if type(chunks) is not list or any(type(chunk) is not bytes for chunk in chunks):
        raise Corrupt("raw bytes are not stored as a list of bytes", hint=VERIFY)
    if not chunks:
        return 0
    last = len(chunks[-1])
    if any(len(chunk) != CHUNK_BYTES for chunk in chunks[:-1]) or not 0 < last <= CHUNK_BYTES:
        raise Corrupt("raw bytes are not cut into chunks of the right size", hint=VERIFY)
    return (len(chunks) - 1) * CHUNK_BYTES + last


def join_chunks(chunks: object, *, size: int | None = None) -> bytearray | memoryview:
    """Return the bytes of all chunks in one piece of memory that can be written to.

    Raises:
        Corrupt: they are not raw bytes, or not `size` of them.
    """
    found = count_bytes(chunks)
    if size is not None and found != size:
        raise Corrupt(f"{size} raw bytes are announced and {found} are there", hint=VERIFY)
    if type(chunks) is Piece:
        return chunks.view
    parts: Iterable[bytes] = chunks  # type: ignore[assignment]  # counted: a list of bytes
    return bytearray().join(parts)


def copy_chunks(chunks: object, memory: memoryview) -> None:
    """Fill memory, a view of bytes, with the bytes of all chunks.

    Raises:
        Corrupt: they are not raw bytes, or not as many as there is memory.
    """
    found = count_bytes(chunks)
    if found != memory.nbytes:
        raise Corrupt(f"{memory.nbytes} bytes are announced and {found} are there", hint=VERIFY)
    if type(chunks) is Piece:
        memory[:] = chunks.view
        return
    parts: Iterable[bytes] = chunks  # type: ignore[assignment]  # counted: a list of bytes
    start = 0
    for chunk in parts:
        memory[start : start + len(chunk)] = chunk
        start += len(chunk)


GROUP_ROWS = 8192
_LENGTHS = np.dtype("<u4")
_LONGEST = 2**32 - 1


def pack_strings(strings: Sequence[str], missing: npt.NDArray[np.uint8] | None = None) -> Form:
    """Return strings as buffers; where one is missing there is "" among them."""
    lengths = np.empty(len(strings), np.int64)
    groups = []
    for start in range(0, len(strings), GROUP_ROWS):
        group = strings[start : start + GROUP_ROWS]
        data, sizes = _encode_group(group)
        lengths[start : start + len(group)] = sizes
        groups.append(Raw(data))
    return _string_form(lengths, np.zeros(0, np.uint8) if missing is None else missing, groups)


def _encode_group(group: Sequence[str]) -> tuple[bytes, list[int]]:
    """Return the UTF-8 of strings, joined, and the length of each."""
    text = "".join(group)
    if text.isascii():
        return text.encode("ascii"), list(map(len, group))
    encoded = [each.encode("utf-8", "surrogatepass") for each in group]
    return b"".join(encoded), list(map(len, encoded))


def pack_string_buffer(
    offsets: npt.NDArray[np.integer[Any]], data: memoryview, missing: npt.NDArray[np.uint8]
) -> Form:
    """Return strings that lie one after the other in one buffer, without copying it."""
    ends = [*offsets[:-1:GROUP_ROWS].tolist(), int(offsets[-1])]
    groups = [Raw(data[start:stop]) for start, stop in pairwise(ends)]
    return _string_form(np.diff(offsets), missing, groups)


def _string_form(
    lengths: npt.NDArray[np.integer[Any]], missing: npt.NDArray[np.uint8], groups: list[Raw]
) -> Form:
    """Return the form of strings of which the buffers are known."""
    if lengths.size and lengths.max() > _LONGEST:
        raise BadValue("cannot store a string of 4 GiB in an array", hint="store it as a value")
    gaps = missing if missing.any() else None
    return {"groups": groups, "lengths": lengths.astype(_LENGTHS), "missing": gaps}


def unpack_strings(form: Form, *, gaps: int) -> tuple[list[str], npt.NDArray[np.uint8] | None]:
    """Return the strings, "" where one is missing, and what is missing: a number up to `gaps`.

    Raises:
        Corrupt: the buffers do not fit together.
    """
    ends, missing = string_ends(form, gaps=gaps)
    if type(form["groups"]) is Piece:
        return _split_text(bytes(form["groups"].view), ends), missing
    strings: list[str] = []
    for number, group in enumerate(form["groups"]):
        rows = ends[number * GROUP_ROWS : (number + 1) * GROUP_ROWS + 1]
        strings += _split_text(bytes(join_chunks(group)), rows - rows[0])
    return strings, missing


def string_ends(
    form: Form, *, gaps: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8] | None]:
    """Return where each string ends, after a 0, and what is missing. The groups are not read.

    Raises:
        Corrupt: they do not fit together.
    """
    lengths, missing, groups = form["lengths"], form["missing"], form["groups"]
    require(_is_column(lengths, _LENGTHS), "the lengths of strings are not an array of uint32")
    if missing is not None:
        fits = _is_column(missing, np.dtype(np.uint8)) and len(missing) == len(lengths)
        require(fits and 0 < missing.max() <= gaps, "what is missing among strings is unclear")
        require(not lengths[missing != 0].any(), "a missing string has a length")
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if type(groups) is Piece:  # all of them, put together
        require(count_bytes(groups) == ends[-1], "strings and their lengths do not fit")
        return ends, missing
    require(type(groups) is list, "the groups of strings are not a list")
    bounds = [*ends[:-1:GROUP_ROWS].tolist(), int(ends[-1])]
    sizes = [stop - start for start, stop in pairwise(bounds)]
    require(list(map(count_bytes, groups)) == sizes, "strings and their lengths do not fit")
    return ends, missing


def with_gaps(
    strings: list[str], missing: npt.NDArray[np.uint8] | None, gap: Callable[[int], object]
) -> npt.NDArray[np.object_]:
    """Return the strings as an array of objects, with a value in the place of each missing one."""
    values = np.fromiter(strings, np.object_, len(strings))
    if missing is not None:
        for kind in np.unique(missing[missing != 0]).tolist():
            values[missing == kind] = gap(kind)
    return values


def _is_column(array: object, dtype: np.dtype[Any]) -> bool:
    return type(array) is np.ndarray and array.dtype == dtype and array.ndim == 1


def _split_text(data: bytes, ends: npt.NDArray[np.int64]) -> list[str]:
    """Return the strings that end at these places."""
    places = ends.tolist()
    if data.isascii():
        text = data.decode("ascii")
        return [text[start:stop] for start, stop in pairwise(places)]
    return [data[start:stop].decode("utf-8", "surrogatepass") for start, stop in pairwise(places)]
