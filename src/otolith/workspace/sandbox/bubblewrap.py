"""The sandbox for every day: namespaces made by `bwrap`, with a file system of what is needed."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from otolith.workspace.sandbox.base import (
    Environment,
    Sandbox,
    SandboxSpec,
    interpreter_files,
    minimal_cover,
    system_files,
)
from otolith.workspace.sandbox.processes import children

PROGRAM = "bwrap"

_ISOLATION = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    # Else process 1 is bwrap itself: without our filter, and with the host's environment to read.
    "--as-pid-1",
)
# Last, because bwrap has to write mount points into /, which is in memory. And a root without any
# capability still owns the settings of the kernel below /proc/sys.
_READ_ONLY = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")


class Bubblewrap(Sandbox):
    """A sandbox with its own files, processes, network and shared memory, and a call filter.

    The program is process 1 inside: orphans become its children, and of the signals from outside
    only SIGKILL ends it unless it has a handler. When it ends, all inside end.
    """

    def _wrap(
        self, argv: list[str], spec: SandboxSpec, environment: Environment, keep_fds: Sequence[int]
    ) -> list[str]:
        """Return the call of bwrap; it leaves inherited descriptors open under their numbers."""
        network = ["--share-net"] if spec.network else []
        variables = [word for pair in environment.items() for word in ("--setenv", *pair)]
        limit: list[str] = []
        if spec.disk_bytes is not None and _has_size_option():
            limit = ["--size", str(spec.disk_bytes)]
        # Before the folders, which may lie in one of these.
        own = ["--proc", "/proc", "--dev", "/dev"]
        own += [*limit, "--tmpfs", "/tmp", *limit, "--tmpfs", "/dev/shm"]  # noqa: S108
        inside = [*own, *_mounts(spec), *_READ_ONLY, "--chdir", str(spec.work)]
        program = shutil.which(PROGRAM) or PROGRAM
        return [program, *_ISOLATION, *network, *variables, *inside, "--", *argv]

    def last_processes(self, started: int) -> list[int]:
        """Return bwrap, and process 1 inside: it has ended only when all others have."""
        return [started, *children(started)]


@functools.cache
def _has_size_option() -> bool:
    """Tell whether this bwrap can limit file systems in memory: those before 0.7 cannot."""
    try:
        printed = subprocess.run(  # noqa: S603  our own command
            [shutil.which(PROGRAM) or PROGRAM, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return b"--size" in printed.stdout + printed.stderr


def _mounts(spec: SandboxSpec) -> Iterator[str]:
    """Yield options that show what may be read, and the work folder, outer folders first."""
    machine = [*system_files(network=spec.network), *interpreter_files()]
    shown = [path for path in minimal_cover([*machine, *spec.readable]) if path != spec.work]
    for path in sorted([*shown, spec.work], key=lambda path: len(path.parts)):
        if path == spec.work:
            yield from ("--bind", str(path), str(path))
        elif path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind", str(path), str(path))
