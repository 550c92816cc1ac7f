"""Requests to the Linux kernel that Python has no words for, through ctypes.

Those of sandboxes are one-way: they bind the calling process and whatever it starts.
ctypes is loaded with the first request, so that whoever only chooses a sandbox does not pay for it.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from otolith.errors import Unsupported
from otolith.workspace.sandbox import seccomp
from otolith.workspace.sandbox.seccomp import machine, number

if TYPE_CHECKING:
    import ctypes

_SET_NO_NEW_PRIVS = 38
_SET_CHILD_SUBREAPER = 36
_SET_PARENT_DEATH_SIGNAL = 1
_DROP_FROM_BOUNDING_SET = 24
_SET_MODE_FILTER = 1
_ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
_CAPABILITY_VERSION_3 = 0x20080522


def call(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call; bytes are passed as their address, and a failure is an OSError."""
    found = machine()
    which = None if found is None else number(name, found)
    if which is None:
        raise OSError(errno.ENOSYS, f"no system call {name} is known for this machine")
    return _checked(name, "syscall", which, *arguments)


def refuse_new_privileges() -> None:
    """From now on no set-user-id program and no file capability raises anybody."""
    _checked("no_new_privs", "prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def adopt_orphans() -> None:
    """From now on whoever below this process loses its parent becomes its child."""
    _checked("child_subreaper", "prctl", _SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """Let this process be killed when the one that forked it ends."""
    _checked("pdeathsig", "prctl", _SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def drop_capabilities() -> None:
    """Give up every capability, and the right to get one back by starting a program as root."""
    for capability in range(64):
        try:
            _checked("capbset_drop", "prctl", _DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
        except OSError:  # past the last one; or EPERM, when we have none to drop
            break
    call("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24))


def filter_calls(families: Iterable[int], refused: Iterable[str] = ()) -> None:
    """Install the filter of `seccomp.py` for every thread of this process and all its children."""
    import ctypes

    here = machine()
    if here is None:
        raise Unsupported(
            f"there is no system call filter for {os.uname().machine}", hint="use x86_64 or aarch64"
        )
    code = seccomp.program(here, families, refused)
    held = ctypes.create_string_buffer(code, len(code))  # the kernel reads it during the call
    wanted = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    if call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, wanted) != 0:
        raise OSError(errno.EBUSY, "seccomp: a thread has a filter of its own")


def _checked(what: str, function: str, *arguments: int | bytes | None) -> int:
    import ctypes

    # As longs: ctypes would pass an int as 32 bits, and the kernel looks at all 64.
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = getattr(_libc(), function)(*passed)
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
