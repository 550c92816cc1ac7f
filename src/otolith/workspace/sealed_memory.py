"""Memory that is handed from process to process, sealed so that nobody can change it any more.

Whoever takes such memory from a process that it does not trust checks it first: that it is memory
and no pipe, file or folder; that it is sealed, so that it stays as it is while it is read; that it
is as long as was said; and that all of it is there. A memory that was only made long costs its
maker nothing, and a reader all of it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
from collections.abc import Iterable, Sequence

_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # nobody seals, shrinks, grows or writes to it any more
_ADD_SEALS, _GET_SEALS = 1033, 1034
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system
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


def check_sealed(descriptor: int, size: int) -> None:
    """Refuse what is not sealed memory of this size, before anything is mapped or copied.

    Raises:
        ValueError: it is something else, is not sealed, or is not as long as was said.
    """
    status = os.fstat(descriptor)
    try:
        seals = fcntl.fcntl(descriptor, _GET_SEALS) if stat.S_ISREG(status.st_mode) else None
    except OSError:  # a file of a file system that knows no seals
        seals = None
    if seals is None:
        raise ValueError("what was handed over is not memory")
    if seals & _SEALS != _SEALS:
        raise ValueError("memory that was handed over can still be written to")
    if size < 1 or status.st_size != size:
        raise ValueError("memory that was handed over has another size than was said")
    if status.st_blocks * _BLOCK_BYTES < size:
        raise ValueError("memory that was handed over is mostly not there")


def mapped(descriptor: int, size: int) -> mmap.mmap:
    """Return sealed memory to read from. It must have been checked: other memory can vanish."""
    return mmap.mmap(descriptor, size, prot=mmap.PROT_READ)


def cut(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes in memory that somebody has sealed, cut into pieces.

    Raises:
        ValueError: it is not sealed, or is not as long as the pieces are together.
    """
    size = sum(sizes)
    check_sealed(descriptor, size if min(sizes, default=0) > 0 else 0)
    pieces, at = [], 0
    with mapped(descriptor, size) as memory:
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
