"""The rung for every day: namespaces made by `bwrap`, with a file system of only what is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otolith.agent.workspace.sandbox import bpf, kernel, visible
from otolith.agent.workspace.sandbox.place import Place, keep_word, promises

PROGRAM = "bwrap"

_WALLS = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    # Else process 1 is bwrap itself: without our filter, and with the host's environment to read.
    "--as-pid-1",
)
# Before the folders, which may lie in one of these.
_OF_ITS_OWN = ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108
# After them, because bwrap needed to write mount points into /, which is in memory. And a root with
# no capability left still owns the settings of the kernel below /proc/sys.
_READ_ONLY = ("--remount-ro", "/proc", "--remount-ro", "/")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Files, processes, network and shared memory of its own, and a filter on top.

    The program is process 1 inside: orphans become its children, and of the signals from outside
    only SIGKILL ends it unless it has a handler. When it ends, all inside end.
    """

    network: bool = False

    @property
    def name(self) -> str:
        return "bubblewrap"

    @property
    def stops(self) -> Mapping[str, bool]:
        return promises(network=self.network)

    def command(
        self,
        argv: Sequence[str],
        place: Place,
        *,
        environment: Mapping[str, str],
        keep_fds: Sequence[int],
    ) -> list[str]:
        """Return the call of bwrap; it leaves inherited descriptors open under their numbers."""
        keep_word(self, place)
        network = ["--share-net"] if place.network else []
        variables = [word for pair in environment.items() for word in ("--setenv", *pair)]
        inside = [*_OF_ITS_OWN, *_mounts(place), *_READ_ONLY, "--chdir", str(place.work)]
        program = shutil.which(PROGRAM) or PROGRAM
        return [program, *_WALLS, *network, *variables, *inside, "--", *argv]

    def enter(self, place: Place) -> None:
        kernel.refuse_new_privileges()
        kernel.filter_calls(bpf.socket_families(network=place.network, private_files=True))


def _mounts(place: Place) -> Iterator[str]:
    """Show what may be read, then the work folder, outer folders first."""
    machine = [*visible.system(network=place.network), *visible.interpreter()]
    shown = [path for path in visible.cover([*machine, *place.readable]) if path != place.work]
    for path in sorted([*shown, place.work], key=lambda path: len(path.parts)):
        yield from _bind(path, writable=path == place.work)


def _bind(path: Path, *, writable: bool) -> tuple[str, str, str]:
    if writable:
        return "--bind", str(path), str(path)
    if path.is_symlink():
        return "--symlink", str(path.readlink()), str(path)
    return "--ro-bind", str(path), str(path)
