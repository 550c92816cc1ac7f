"""The numbers of the system calls that this room makes or refuses, on x86_64 and on aarch64."""

from __future__ import annotations

import os
import sys

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
