"""The sandbox that needs nothing installed: Landlock for files and signals, seccomp for the rest.

The process confines itself, so there are no namespaces: it sees the machine's process list and the
names of its files. Landlock has no rules about modes and owners, and a filter cannot see paths, so
a worker can still `chmod` what the user owns. Shared memory is one folder for the whole machine,
and locks between processes live in it. `stops` says all of that.

Everything that a version of Landlock can handle is handled, so it is refused unless a rule allows
it. What a version cannot handle stays open.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from otolith.workspace.sandbox import kernel
from otolith.workspace.sandbox.base import (
    MEMORY,
    MODES,
    SEE,
    SIGNAL,
    Sandbox,
    SandboxSpec,
    interpreter_files,
    system_files,
)

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15

# How many of the rights to files each version knows; they were only ever added at the end.
_RIGHTS_IN_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_BIND_AND_CONNECT_TCP = 0b11  # since version 4
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11  # since version 6
_SIGNALS = 0b10

READ = _READ_FILE | _READ_DIR
RUN = READ | _EXECUTE
USE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
OWN = (1 << 16) - 1 - _MAKE_CHAR - _MAKE_BLOCK  # a device gives access to the whole disk

_ON_A_FILE = _EXECUTE | USE  # the kernel takes no other rights for what is not a folder
_ASK_VERSION, _RULE_PATH_BENEATH = 1, 1


def version() -> int:
    """Return the version of Landlock here; 0 if there is none."""
    try:
        return kernel.call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    except OSError:
        return 0


def restrict(allowed: Iterable[tuple[Path, int]], *, network: bool) -> None:
    """Bind this thread and its children to these paths, each with what may be done beneath it."""
    here = version()
    tcp = 0 if network else _BIND_AND_CONNECT_TCP
    fields = [_handled(here), tcp, _ABSTRACT_SOCKETS_AND_SIGNALS]
    known = 1 if here < 4 else 2 if here < 6 else 3
    wanted = struct.pack(f"={known}Q", *fields[:known])
    ruleset = kernel.call("landlock_create_ruleset", wanted, len(wanted), 0)
    try:
        for path, rights in allowed:
            _allow(ruleset, path, rights & _handled(here))
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _confine_signals() -> None:
    """Let this process signal only itself and what it starts, not the one that started it."""
    if version() >= _SIGNALS_SINCE:
        wanted = struct.pack("=3Q", 0, 0, _SIGNALS)
        ruleset = kernel.call("landlock_create_ruleset", wanted, len(wanted), 0)
        try:
            kernel.call("landlock_restrict_self", ruleset, 0)
        finally:
            os.close(ruleset)


def _handled(version: int) -> int:
    return (1 << _RIGHTS_IN_VERSION[min(version, max(_RIGHTS_IN_VERSION))]) - 1


def _allow(ruleset: int, path: Path, rights: int) -> None:
    """Add a rule for what may be done beneath a path."""
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # then the worker cannot reach it either
        return
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _ON_A_FILE
        wanted = struct.pack("=Qi", rights, beneath)
        kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, wanted, 0)
    finally:
        os.close(beneath)


_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SIGNALS_SINCE, _TRUNCATE_SINCE = 6, 3


class Landlock(Sandbox):
    """A process that confines itself."""

    def _broken_promises(self) -> Collection[str]:
        open_signals = {SIGNAL} if version() < _SIGNALS_SINCE else set()
        return {SEE, MODES, MEMORY} | open_signals

    def enter(self, spec: SandboxSpec) -> None:
        """Confine the running process by Landlock and the call filter."""
        # The order matters: the bounding set is dropped by a right that is dropped next, Landlock
        # asks for no_new_privs, and the filter comes last because it refuses much from then on.
        kernel.drop_capabilities()
        kernel.refuse_new_privileges()
        restrict(_allowed(spec), network=spec.network)
        families = kernel.socket_families(network=spec.network, private_files=False)
        is_old = version() < _TRUNCATE_SINCE  # then nothing but the filter stops `truncate`
        kernel.filter_calls(families, refused=["truncate"] if is_old else [])

    def enter_worker(self) -> None:
        """Add a second ruleset: the first one allows signals to the fork server."""
        _confine_signals()


def _allowed(spec: SandboxSpec) -> Iterator[tuple[Path, int]]:
    """Yield the paths that a worker may use, each with its rights."""
    for path in (*system_files(network=spec.network), *interpreter_files(), *spec.readable):
        yield path, RUN
    # All of it, because a rule for /proc/self would be one for the process that makes the rule, and
    # the workers are its children. Memory and environments of others stay closed: Landlock lets
    # no process look into one that is less confined.
    yield Path("/proc"), READ
    for device in _DEVICES:
        yield Path(device), USE
    yield Path("/dev/shm"), OWN  # noqa: S108  semaphores of multiprocessing live there
    yield spec.work, OWN
