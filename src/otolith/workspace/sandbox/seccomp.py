"""The seccomp filter: which system calls are refused, as a program for the kernel.

The program is classic BPF. For each call the kernel runs it over `struct seccomp_data`: the number
of the call at byte 0, the architecture at 4, the arguments from 16 on, eight bytes each. All values
tested here are C ints, so the low half of an argument is all that the kernel itself looks at.

A refused call gives EPERM, which becomes a PermissionError, with two exceptions. `clone3` and
`openat2` give ENOSYS: their flags lie in memory where no filter can read them, and then programs
fall back to `clone` and `openat`, whose flags are checked. A call of a foreign architecture or of
the x32 ABI ends the process: there the numbers mean other things, and no honest program makes one.

The numbers of the system calls that this room makes or refuses, on x86_64 and on aarch64.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterable

# The kernel's own names of the architectures, as a seccomp filter sees them (linux/audit.h).
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (number on x86_64, number on aarch64); None where there is no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the memory and the open files of other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # another view of the file system, or a way to a file that needs no path
    "mount": (165, 40),
    "umount2": (166, 39),
    "mount_setattr": (442, 442),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    # namespaces, and with them every capability over a part of the kernel
    "unshare": (272, 97),
    "setns": (308, 268),
    # parts of the kernel that a worker has no use for and where most of its holes were found
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "syslog": (103, 116),
    "reboot": (169, 142),
    "vhangup": (153, 58),
    # a second door to nearly every system call, one that no filter sees
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # keys of the user
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # the clock and the name of the machine
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}

# Calls that give a file its mode: the number of the argument that is the mode.
MODE_AT = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mknod": 1,
    "mknodat": 2,
}
# Calls that do so only if they make the file: the arguments that are the flags and the mode.
FLAGS_AND_MODE_AT = {"open": (1, 2), "openat": (2, 3)}

# Calls that are looked at more closely, refused on demand, or made by this room.
OTHERS: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "personality": (135, 92),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
    "truncate": (76, 45),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "seccomp": (317, 277),
    "capset": (126, 91),
}


def machine() -> str | None:
    """Name the architecture if it is one whose numbers are above; None if it is another."""
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
# Typing into the terminal of the one who started us: TIOCSTI and TIOCLINUX.
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)
# A file of ours that makes whoever runs it one of us: it would wait outside for a helper.
_SET_ID = 0o6000
_MAKES_A_FILE = 0o20000100  # O_CREAT and the bit that is O_TMPFILE's own
_SAME, _ASK = 0, 0xFFFFFFFF  # for `personality`: the usual one, or the question which it is

Code = list[bytes]


def program(machine: str, families: Iterable[int], refused: Iterable[str] = ()) -> bytes:
    """Assemble the filter: sockets only of these families, and these calls refused as well."""
    code = _right_architecture(machine)
    for name in (*REFUSED, *refused):
        code += _when(name, machine, [_fail(errno.EPERM)])
    for name in ("clone3", "openat2"):
        code += _when(name, machine, [_fail(errno.ENOSYS)])
    code += _no_set_id(machine)
    code += _when("clone", machine, _fail_if(_IF_ANY_BIT, [_NEW_NAMESPACES]))
    code += _when("ioctl", machine, _fail_if(_IF_EQUAL, _TYPE_INTO_TERMINAL, argument=1))
    code += _when("personality", machine, _only([_SAME, _ASK]))
    # A limit of zero seconds is a signal by another name; 0 is the caller itself.
    code += _when("prlimit64", machine, _only([0]))
    code += _when("socket", machine, _only(families))
    return b"".join([*code, _do(_RETURN, _ALLOW)])


def socket_families(*, network: bool, private_files: bool) -> list[int]:
    """Return which sockets may be made; pairs of connected ones may always be.

    A Unix socket is reached by a path, and neither Landlock nor a filter sees the path that is
    connected to: where the worker sees the machine's files, that would be the door to the Docker
    daemon and the session bus. Where it has files of its own (`private_files`) there is nobody
    behind such a path; but sockets with abstract names are shared along with the network.
    """
    if network:
        return [socket.AF_INET, socket.AF_INET6]
    return [socket.AF_UNIX] if private_files else []


def _right_architecture(machine: str) -> Code:
    code = [_do(_LOAD, _ARCHITECTURE), _jump(_IF_EQUAL, ARCHITECTURES[machine], 1, 0)]
    code += [_do(_RETURN, _KILL), _do(_LOAD, _NUMBER)]
    if machine == "x86_64":
        code += [_jump(_IF_AT_LEAST, _X32_BIT, 0, 1), _do(_RETURN, _KILL)]
    return code


def _no_set_id(machine: str) -> Code:
    code: Code = []
    for name, mode in MODE_AT.items():
        code += _when(name, machine, _fail_if(_IF_ANY_BIT, [_SET_ID], argument=mode))
    for name, (flags, mode) in FLAGS_AND_MODE_AT.items():
        body = _fail_if(_IF_ANY_BIT, [_SET_ID], argument=mode)
        makes = [_do(_LOAD, _at(flags)), _jump(_IF_ANY_BIT, _MAKES_A_FILE, 1, 0)]
        code += _when(name, machine, [*makes, _do(_RETURN, _ALLOW), *body])
    return code


def _when(name: str, machine: str, body: Code) -> Code:
    """Run the body for this call and skip it for others; the body must end in a return."""
    call = number(name, machine)
    return [] if call is None else [_jump(_IF_EQUAL, call, 0, len(body)), *body]


def _only(values: Iterable[int]) -> Code:
    code = [_do(_LOAD, _at(0))]
    for value in values:
        code += [_jump(_IF_EQUAL, value, 0, 1), _do(_RETURN, _ALLOW)]
    return [*code, _fail(errno.EPERM)]


def _fail_if(test: int, values: Iterable[int], argument: int = 0) -> Code:
    code = [_do(_LOAD, _at(argument))]
    for value in values:
        code += [_jump(test, value, 0, 1), _fail(errno.EPERM)]
    return [*code, _do(_RETURN, _ALLOW)]


def _at(argument: int) -> int:
    return 16 + 8 * argument  # both architectures are little-endian: the low half comes first


def _fail(error: int) -> bytes:
    return _do(_RETURN, _FAIL | error)


def _do(operation: int, value: int) -> bytes:
    return struct.pack("=HBBI", operation, 0, 0, value)


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", test, if_true, if_false, value)
