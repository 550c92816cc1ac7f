"""The rung that needs nothing installed: Landlock for files and signals, seccomp for the rest.

The process confines itself, so there are no namespaces: it sees the machine's process list and the
names of its files. Landlock has no rules about modes and owners, and a filter cannot see paths, so
a worker can still `chmod` what the user owns. Shared memory is one folder for the whole machine,
and locks between processes live in it. All of that is said in `stops`.

Landlock: the rules that the kernel keeps about files, TCP ports and signals of a process.

Everything a version of Landlock can handle is handled, so it is refused unless a rule allows it.
What a version cannot handle stays open; `landlock.py` says what that means for the promises.

The lowest rung: no walls, only the limits of `limits.py` and no way up to new privileges.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otolith.workspace.sandbox import bubblewrap, kernel, seccomp
from otolith.workspace.sandbox.base import (
    MEMORY,
    MODES,
    PRIVILEGES,
    PROMISES,
    SEE,
    SIGNAL,
    Place,
    keep_word,
    promises,
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
OWN = (1 << 16) - 1 - _MAKE_CHAR - _MAKE_BLOCK  # a device is a door to the whole disk

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
    ruleset = _make(here, network=network)
    try:
        for path, rights in allowed:
            _allow(ruleset, path, rights & _handled(here))
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def keep_signals_below() -> None:
    """From now on this process signals itself and what it starts, not who has started it."""
    if version() >= _SIGNALS_SINCE:
        wanted = struct.pack("=3Q", 0, 0, _SIGNALS)
        ruleset = kernel.call("landlock_create_ruleset", wanted, len(wanted), 0)
        try:
            kernel.call("landlock_restrict_self", ruleset, 0)
        finally:
            os.close(ruleset)


def _make(version: int, *, network: bool) -> int:
    tcp = 0 if network else _BIND_AND_CONNECT_TCP
    fields = [_handled(version), tcp, _ABSTRACT_SOCKETS_AND_SIGNALS]
    known = 1 if version < 4 else 2 if version < 6 else 3
    wanted = struct.pack(f"={known}Q", *fields[:known])
    return kernel.call("landlock_create_ruleset", wanted, len(wanted), 0)


def _handled(version: int) -> int:
    return (1 << _RIGHTS_IN_VERSION[min(version, max(_RIGHTS_IN_VERSION))]) - 1


def _allow(ruleset: int, path: Path, rights: int) -> None:
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


@dataclass(frozen=True, slots=True)
class Landlock:
    """A process that shuts the doors behind itself."""

    network: bool = False

    @property
    def name(self) -> str:
        return "landlock"

    @property
    def end_seconds(self) -> float:
        return 0.5

    @property
    def stops(self) -> Mapping[str, bool]:
        broken = {SEE, MODES, MEMORY}
        if version() < _SIGNALS_SINCE:
            broken.add(SIGNAL)
        return promises(network=self.network, broken=broken)

    def command(
        self,
        argv: Sequence[str],
        place: Place,
        *,
        environment: Mapping[str, str],
        keep_fds: Sequence[int],
    ) -> list[str]:
        keep_word(self, place)
        return list(argv)

    def last_processes(self, started: int) -> list[int]:
        return [started]  # it ends all that it has forked first

    def enter(self, place: Place) -> None:
        # The order matters: the bounding set is dropped by a right that is dropped next, Landlock
        # asks for no_new_privs, and the filter comes last because it refuses much from then on.
        kernel.drop_capabilities()
        kernel.refuse_new_privileges()
        restrict(_allowed(place), network=place.network)
        families = seccomp.socket_families(network=place.network, private_files=False)
        old = version() < _TRUNCATE_SINCE  # then nothing but the filter stops `truncate`
        kernel.filter_calls(families, refused=["truncate"] if old else [])

    def enter_worker(self) -> None:
        """Go behind a second wall: the first one has the fork server on this side of it."""
        keep_signals_below()


def _allowed(place: Place) -> Iterator[tuple[Path, int]]:
    for path in (
        *bubblewrap.system(network=place.network),
        *bubblewrap.interpreter(),
        *place.readable,
    ):
        yield path, RUN
    # All of it, because a rule for /proc/self would be one for the process that makes the rule, and
    # the workers are its children. Memory and environments of others stay closed: Landlock lets
    # nobody look into a process that is less confined.
    yield Path("/proc"), READ
    for device in _DEVICES:
        yield Path(device), USE
    yield Path("/dev/shm"), OWN  # noqa: S108  semaphores of multiprocessing live there
    yield place.work, OWN


@dataclass(frozen=True, slots=True)
class Bare:
    """Code in it can do whatever the user can; it is for code that is trusted but may run away."""

    network: bool = False

    @property
    def name(self) -> str:
        return "limits"

    @property
    def end_seconds(self) -> float:
        return 0.5

    @property
    def stops(self) -> Mapping[str, bool]:
        kept = {PRIVILEGES} if sys.platform == "linux" else set()
        return promises(network=self.network, broken=set(PROMISES) - kept)

    def command(
        self,
        argv: Sequence[str],
        place: Place,
        *,
        environment: Mapping[str, str],
        keep_fds: Sequence[int],
    ) -> list[str]:
        keep_word(self, place)
        return list(argv)

    def last_processes(self, started: int) -> list[int]:
        return [started]  # it ends all that it has forked first

    def enter(self, place: Place) -> None:
        if sys.platform == "linux":
            kernel.refuse_new_privileges()

    def enter_worker(self) -> None:
        return
