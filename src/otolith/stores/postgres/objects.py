"""Objects as the Postgres store has them: a form byte, then the bytes or a zstd frame of them.

    0  the bytes
    1  a zstd frame of the bytes

Postgres itself compresses only rows of more than 2 KB, one value at a time and worse, and most
objects are smaller. So we compress, before the bytes travel, and tell the server not to try.
"""

from __future__ import annotations

from threading import local

import zstandard

from otolith.errors import Corrupt
from otolith.stores.base import HASH_BYTES, OBJECT_LIMIT_BYTES, digest
from otolith.types import Hash

_RAW, _ZSTD = b"\0", b"\1"
_ZSTD_FROM_BYTES = 64
_FSCK = "run otolith fsck"


class _Zstd(local):
    """Compressors of this thread: they are not thread safe, and making one is slow."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def encode(data: bytes) -> bytes:
    """Return the form in which an object is stored."""
    if len(data) >= _ZSTD_FROM_BYTES:
        frame = _zstd.compressor.compress(data)
        if len(frame) < len(data):
            return _ZSTD + frame
    return _RAW + data


def decode(hash: bytes, form: bytes) -> tuple[Hash, bytes]:
    """Return an object, and its name as a hash.

    Raises:
        Corrupt: these are not the bytes that were written.
    """
    try:
        data = _decode(form)
    except (zstandard.ZstdError, ValueError) as error:
        raise Corrupt(f"object {hash.hex()[:12]}: {error}", hint=_FSCK) from error
    if digest(data) != hash or len(hash) != HASH_BYTES:
        raise Corrupt(f"object {hash.hex()[:12]} has the wrong bytes", hint=_FSCK)
    return Hash(hash), data


def _decode(form: bytes) -> bytes:
    kind, body = form[:1], form[1:]
    if kind == _RAW:
        return body
    if kind != _ZSTD:
        raise ValueError(f"a form {kind!r} that is not known")
    size = zstandard.frame_content_size(body)
    if not 0 <= size <= OBJECT_LIMIT_BYTES:
        raise ValueError(f"a frame claims {size} bytes")
    return _zstd.decompressor.decompress(body)
