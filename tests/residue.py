"""What is left of a text in the files of a store: as it is, in rows, and in compressed frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import zstandard

_FRAME = zstandard.FRAME_HEADER  # the four bytes that every frame starts with
_RAW = zstandard.DICT_TYPE_RAWCONTENT
_MOST_BYTES = 1 << 20


def residue(path: Path, needles: Iterable[str]) -> set[str]:
    """Return the needles of which something can be found in a store that nobody has open."""
    files = [file.read_bytes() for file in path.parent.iterdir() if file.is_file()]
    found = [piece for data in files for piece in (data, *frames(data))]
    found += objects(path).values()
    return {needle for needle in needles if any(_has(piece, needle) for piece in found)}


def _has(data: bytes, needle: str) -> bool:
    """A needle may be cut by the end of a page, so each half of it counts."""
    text = needle.encode()
    middle = len(text) // 2
    return text[:middle] in data or text[middle:] in data


def frames(data: bytes) -> Iterator[bytes]:
    """Yield what can be decompressed of every frame in some bytes, also of those cut short."""
    at = data.find(_FRAME)
    while at >= 0:
        with suppress(zstandard.ZstdError):
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[at : at + 70_000])
        at = data.find(_FRAME, at + 1)


def objects(path: Path) -> dict[int, bytes]:
    """Return the bytes of every row of the object table, whether it is an object or not.

    Raises:
        AssertionError: a row is not as the format says.
    """
    with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        found: Any = connection.execute("select id, data from object order by id").fetchall()
    rows: dict[int, bytes] = dict(found)
    plain: dict[int, bytes] = {}
    for number, row in rows.items():
        plain[number] = _plain(number, row, rows, plain)
    return plain


def _plain(number: int, row: bytes, rows: dict[int, bytes], plain: dict[int, bytes]) -> bytes:
    kind, depth = row[0] & 7, row[0] >> 3
    if kind in (2, 3):
        base = int.from_bytes(row[1:6], "little")
        assert base < number
        assert rows[base][0] >> 3 == depth - 1
        if kind == 3:
            words = zstandard.ZstdCompressionDict(plain[base], dict_type=_RAW)
            return zstandard.ZstdDecompressor(dict_data=words).decompress(row[6:])
        first, last = (int.from_bytes(row[at : at + 2], "little") for at in (6, 8))
        end = len(plain[base]) - last
        return row[10:14] + plain[base][4 : 4 + first] + row[14:] + plain[base][end:]
    assert depth == 0
    if kind == 0:
        return row[1:]
    data = zstandard.ZstdDecompressor().decompress(row[1:], max_output_size=_MOST_BYTES)
    if kind == 1:
        return data
    assert kind == 4
    order = sorted(range(len(data)), key=lambda at: at % 8)
    return bytes(byte for _, byte in sorted(zip(order, data, strict=True)))
