"""The seccomp filter: which system calls are refused, as a program for the kernel.

The program is classic BPF. For each call the kernel runs it over `struct seccomp_data`: the number
of the call at byte 0, the architecture at 4, the arguments from 16 on, eight bytes each. All values
tested here are C ints, so the low half of an argument is all that the kernel itself looks at.

A refused call gives EPERM, which becomes a PermissionError, with two exceptions. `clone3` and
`openat2` give ENOSYS: their flags lie in memory where no filter can read them, and then programs
fall back to `clone` and `openat`, whose flags are checked. A call of a foreign architecture or of
the x32 ABI ends the process: there the numbers mean other things, and no honest program makes one.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable

from otolith.agent.workspace.sandbox.syscalls import (
    ARCHITECTURES,
    FLAGS_AND_MODE_AT,
    MODE_AT,
    REFUSED,
    number,
)

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
