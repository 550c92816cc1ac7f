"""Memory that is handed from process to process, sealed so that nobody can change it any more."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterable, Sequence

_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # nobody seals, shrinks, grows or writes to it any more
_ADD_SEALS, _GET_SEALS = 1033, 1034
_AT_ONCE = 512  # the system takes up to 1,024 pieces in one call


def seal(parts: Iterable[Sequence[bytes]]) -> tuple[int, int]:
    """Return a descriptor of memory with these bytes, and how many there are.

    Raises:
        OSError: there is no memory to be had.
    """
    descriptor = os.memfd_create("otolith", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        size = sum(_write(descriptor, some) for some in parts)
        fcntl.fcntl(descriptor, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, size


def cut(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes in memory that somebody has sealed, cut into pieces.

    Raises:
        ValueError: it is not sealed, or is not as long as the pieces are together.
    """
    size = sum(sizes)
    if fcntl.fcntl(descriptor, _GET_SEALS) & _SEALS != _SEALS:
        raise ValueError("memory that was handed over can still be written to")
    if min(sizes, default=0) < 1 or os.fstat(descriptor).st_size != size:
        raise ValueError("memory that was handed over has another size than was said")
    pieces, at = [], 0
    with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as memory:
        for each in sizes:
            pieces.append(memory[at : at + each])
            at += each
    return pieces


def _write(descriptor: int, parts: Sequence[bytes]) -> int:
    for start in range(0, len(parts), _AT_ONCE):
        some = parts[start : start + _AT_ONCE]
        written, whole = os.writev(descriptor, some), sum(map(len, some))
        if written < whole:  # more than the system takes in one call
            rest = memoryview(b"".join(some))[written:]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
    return sum(map(len, parts))
