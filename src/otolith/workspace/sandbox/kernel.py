"""Requests to the Linux kernel: privileges, capabilities, and the filter of system calls (seccomp).

The requests are made through ctypes, for Python has no functions for them. They are one-way: they
bind the calling process and whatever it starts. ctypes is loaded with the first request, so that
choosing a sandbox does not load it.

The filter is a program in classic BPF. For each call the kernel runs it over `struct seccomp_data`:
the number of the call at byte 0, the architecture at 4, the arguments from 16 on, eight bytes each.
All values tested here are C ints, so the low half of an argument is all that the kernel itself
looks at.

A refused call gives EPERM, which becomes a PermissionError, with two exceptions. `clone3` and
`openat2` give ENOSYS: their flags lie in memory where no filter can read them, and then programs
fall back to `clone` and `openat`, whose flags are checked. A call of a foreign architecture or of
the x32 ABI ends the process: there the numbers mean other things, and no honest program makes one.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from otolith.errors import Unsupported

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
    """Let no set-user-id program and no file capability give this process more privileges."""
    _checked("no_new_privs", "prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def adopt_orphans() -> None:
    """Make every descendant of this process that loses its parent a child of this process."""
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
    """Install the filter for every thread of this process and all its children."""
    import ctypes

    here = machine()
    if here is None:
        raise Unsupported(
            f"there is no system call filter for {os.uname().machine}", hint="use x86_64 or aarch64"
        )
    code = filter_program(here, families, refused)
    held = ctypes.create_string_buffer(code, len(code))  # the kernel reads it during the call
    wanted = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    if call("seccomp", _SET_MODE_FILTER, _ALL_THREADS, wanted) != 0:
        raise OSError(errno.EBUSY, "seccomp: a thread already has another filter")


def _checked(what: str, function: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library; raise OSError if it returns -1."""
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


# The kernel's own names of the architectures, as a seccomp filter sees them (linux/audit.h).
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (number on x86_64, number on aarch64); None where there is no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the memory and the open files of other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    # another view of the file system, or a way to a file that needs no path
    "mount": (165, 40), "umount2": (166, 39), "mount_setattr": (442, 442), "open_tree": (428, 428),
    "open_tree_attr": (467, 467), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89),
    # namespaces, and with them every capability over a part of the kernel
    "unshare": (272, 97), "setns": (308, 268),
    # parts of the kernel that no worker needs and where most of its holes were found
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "syslog": (103, 116), "reboot": (169, 142),
    "vhangup": (153, 58),
    # a second way to nearly every system call, which no filter sees
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # keys of the user
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    # the clock and the name of the machine
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
}  # fmt: skip

# Calls that give a file its mode: the number of the argument that is the mode.
MODE_AT = {
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2,
}  # fmt: skip
# Calls that do so only if they make the file: the arguments that are the flags and the mode.
FLAGS_AND_MODE_AT = {"open": (1, 2), "openat": (2, 3)}

# Calls whose arguments are checked, that are refused on demand, or made by this package.
OTHERS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "creat": (85, None), "mknod": (133, None), "mknodat": (259, 33), "open": (2, None),
    "openat": (257, 56), "openat2": (437, 437), "clone": (56, 220), "clone3": (435, 435),
    "socket": (41, 198), "personality": (135, 92), "prlimit64": (302, 261), "ioctl": (16, 29),
    "truncate": (76, 45), "landlock_create_ruleset": (444, 444), "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446), "seccomp": (317, 277), "capset": (126, 91),
}  # fmt: skip


def machine() -> str | None:
    """Return the architecture if its numbers are in the tables above, else None."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    name = os.uname().machine
    return name if name in ARCHITECTURES else None


def number(name: str, machine: str) -> int | None:
    """Return the number of a call on an architecture; None where there is no such call."""
    numbers = REFUSED.get(name) or OTHERS[name]
    return numbers[list(ARCHITECTURES).index(machine)]


_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_X32_BIT = 0x40000000

# Every CLONE_NEW* that `clone` knows: mount, cgroup, uts, ipc, user, pid, net.
_NEW_NAMESPACES = 0x7E020000
# Typing into the terminal of the process that started this one: TIOCSTI and TIOCLINUX.
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)
# A file that gives its owner's rights to the user who runs it: a helper outside could use it.
_SET_ID = 0o6000
_MAKES_A_FILE = 0o20000100  # O_CREAT and the bit that is O_TMPFILE's own
_SAME, _ASK = 0, 0xFFFFFFFF  # for `personality`: the usual one, or the question which it is

Code = list[bytes]


def filter_program(machine: str, families: Iterable[int], refused: Iterable[str] = ()) -> bytes:
    """Assemble the filter: sockets only of these families, and these calls refused as well."""
    code = _check_architecture(machine)
    for name in (*REFUSED, *refused):
        code += _for_call(name, machine, [_fail(errno.EPERM)])
    for name in ("clone3", "openat2"):
        code += _for_call(name, machine, [_fail(errno.ENOSYS)])
    code += _refuse_set_id(machine)
    code += _for_call("clone", machine, _fail_if(_IF_ANY_BIT, [_NEW_NAMESPACES]))
    code += _for_call("ioctl", machine, _fail_if(_IF_EQUAL, _TYPE_INTO_TERMINAL, argument=1))
    code += _for_call("personality", machine, _allow_only([_SAME, _ASK]))
    # A limit of zero seconds is a signal by another name; 0 is the caller itself.
    code += _for_call("prlimit64", machine, _allow_only([0]))
    code += _for_call("socket", machine, _allow_only(families))
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def socket_families(*, network: bool, private_files: bool) -> list[int]:
    """Return which sockets may be made; pairs of connected ones may always be.

    A Unix socket is reached by a path, and neither Landlock nor a filter sees the path that is
    connected to: where the worker sees the machine's files, that would be a way to the Docker
    daemon and the session bus. In a sandbox with its own files (`private_files`) no process listens
    behind such a path; but sockets with abstract names are shared along with the network.
    """
    if network:
        return [socket.AF_INET, socket.AF_INET6]
    return [socket.AF_UNIX] if private_files else []


def _check_architecture(machine: str) -> Code:
    """End a process that calls by another architecture or by the x32 ABI."""
    code = [_instruction(_LOAD, _ARCHITECTURE), _jump(_IF_EQUAL, ARCHITECTURES[machine], 1, 0)]
    code += [_instruction(_RETURN, _KILL), _instruction(_LOAD, _NUMBER)]
    if machine == "x86_64":
        code += [_jump(_IF_AT_LEAST, _X32_BIT, 0, 1), _instruction(_RETURN, _KILL)]
    return code


def _refuse_set_id(machine: str) -> Code:
    """Refuse modes with a set-user-id or set-group-id bit."""
    code: Code = []
    for name, mode in MODE_AT.items():
        code += _for_call(name, machine, _fail_if(_IF_ANY_BIT, [_SET_ID], argument=mode))
    for name, (flags, mode) in FLAGS_AND_MODE_AT.items():
        body = _fail_if(_IF_ANY_BIT, [_SET_ID], argument=mode)
        makes = [
            _instruction(_LOAD, _argument_offset(flags)),
            _jump(_IF_ANY_BIT, _MAKES_A_FILE, 1, 0),
        ]
        code += _for_call(name, machine, [*makes, _instruction(_RETURN, _ALLOW), *body])
    return code


def _for_call(name: str, machine: str, body: Code) -> Code:
    """Run the body for this call and skip it for others; the body must end in a return."""
    call = number(name, machine)
    return [] if call is None else [_jump(_IF_EQUAL, call, 0, len(body)), *body]


def _allow_only(values: Iterable[int]) -> Code:
    """Allow a call if its first argument is one of these values."""
    code = [_instruction(_LOAD, _argument_offset(0))]
    for value in values:
        code += [_jump(_IF_EQUAL, value, 0, 1), _instruction(_RETURN, _ALLOW)]
    return [*code, _fail(errno.EPERM)]


def _fail_if(test: int, values: Iterable[int], argument: int = 0) -> Code:
    """Refuse a call if an argument passes the test with one of these values."""
    code = [_instruction(_LOAD, _argument_offset(argument))]
    for value in values:
        code += [_jump(test, value, 0, 1), _fail(errno.EPERM)]
    return [*code, _instruction(_RETURN, _ALLOW)]


def _argument_offset(argument: int) -> int:
    return 16 + 8 * argument  # both architectures are little-endian: the low half comes first


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL | error)


def _instruction(operation: int, value: int) -> bytes:
    return struct.pack("=HBBI", operation, 0, 0, value)


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", test, if_true, if_false, value)
