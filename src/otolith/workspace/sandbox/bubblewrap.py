"""The rung for every day: namespaces made by `bwrap`, with a file system of only what is needed.

Which files of the machine a Python interpreter needs to see, and no more of them.

Three things are left out on purpose. The folder of the script and other entries of `sys.path` that
are not package folders: those are the user's files, and `Place.readable` is there to show them.
`/usr/src`, where images keep the application. The folders of private keys beside certificates.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otolith.workspace.sandbox import kernel, seccomp
from otolith.workspace.sandbox.base import Place, keep_word, promises
from otolith.workspace.sandbox.processes import children

SYSTEM = (
    *(f"/usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "share")),
    *(f"/usr/local/{name}" for name in ("bin", "sbin", "lib", "lib64", "share")),
    *(f"/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64")),
    *("/usr/include", "/usr/local/include", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust"),
    *("/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/fonts", "/etc/nsswitch.conf"),
)
NAMES_OF_THE_NETWORK = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols"),
)
_PACKAGE = Path(__file__).parents[2]
_SHARED_PREFIXES = (Path("/usr"), Path("/usr/local"))  # SYSTEM names their parts


def system(*, network: bool) -> list[Path]:
    """Return what programs of this machine share: libraries, certificates, time zones."""
    names = SYSTEM + NAMES_OF_THE_NETWORK if network else SYSTEM
    return cover(map(Path, names))


def plain_path(path: str | Path) -> Path:
    """Return a path from the root, without `..`; of links, the last one is not followed.

    Python keeps the path that it was started by. Inside, the folders that a `..` leaves again are
    not there, so the path would lead nowhere. The last link stays: beside it lies what makes an
    interpreter one of a virtual environment.
    """
    whole = Path.cwd() / path
    if ".." not in whole.parts:
        return whole
    return whole.resolve() if whole.name == ".." else whole.parent.resolve() / whole.name


def python_path() -> str:
    """Return the path of this interpreter, as it can be used inside."""
    return str(plain_path(sys.executable))


def interpreter() -> list[Path]:
    """Return where this interpreter, its packages and otolith live."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    found = {Path(prefix) for prefix in prefixes} | {Path(python_path()), _PACKAGE}
    found |= {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    found |= {Path(entry) for entry in sys.path if _holds_packages(Path(entry))}
    found |= {Path(sys.executable).resolve().parent.parent}
    return cover(path for path in found if path.is_absolute() and not _too_wide(path))


def cover(paths: Iterable[Path]) -> list[Path]:
    """Return the fewest paths that show all of these, outer ones first.

    A symbolic link is followed hop by hop, for each hop has to be there to be followed inside.
    """
    hops = {hop for path in paths for hop in _hops(path)}
    chosen: list[Path] = []
    for path in sorted(hops, key=_depth_first):
        if not any(path.is_relative_to(outer) for outer in chosen):
            chosen.append(path)
    return chosen


def _hops(path: Path) -> Iterator[Path]:
    if not os.path.exists(path):  # noqa: PTH110  a Path would raise where we may not look
        return
    path = plain_path(path)
    end = path.resolve()
    yield end
    while path != end and path.is_symlink():
        yield path
        path = plain_path(path.parent / path.readlink())
    yield path


def _depth_first(path: Path) -> tuple[int, Path]:
    return len(path.parts), path


def _holds_packages(entry: Path) -> bool:
    return entry.is_absolute() and not {"site-packages", "dist-packages"}.isdisjoint(entry.parts)


def _too_wide(path: Path) -> bool:
    """Whether showing this would show a home, or what the system list shows with more care."""
    return path in _SHARED_PREFIXES or _home().is_relative_to(path)


def _home() -> Path:
    """Return the user's own home; inside, the variable HOME may well name the work folder."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # another system, or a user without a name
        return Path(os.path.expanduser("~"))  # noqa: PTH111  a Path would raise without HOME


PROGRAM = "bwrap"

_WALLS = (
    *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
    # Else process 1 is bwrap itself: without our filter, and with the host's environment to read.
    "--as-pid-1",
)
# After them, because bwrap needed to write mount points into /, which is in memory. And a root with
# no capability left still owns the settings of the kernel below /proc/sys.
_READ_ONLY = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")


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
    def end_seconds(self) -> float:
        return 0.5

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
        inside = [*_of_its_own(place), *_mounts(place), *_READ_ONLY, "--chdir", str(place.work)]
        program = shutil.which(PROGRAM) or PROGRAM
        return [program, *_WALLS, *network, *variables, *inside, "--", *argv]

    def last_processes(self, started: int) -> list[int]:
        """Return bwrap, and process 1 inside: it has ended only when all others have."""
        return [started, *children(started)]

    def enter(self, place: Place) -> None:
        kernel.refuse_new_privileges()
        kernel.filter_calls(seccomp.socket_families(network=place.network, private_files=True))

    def enter_worker(self) -> None:
        return  # the kernel lets nobody inside signal process 1, which has forked it


def _of_its_own(place: Place) -> list[str]:
    """Return what is mounted before the folders, which may lie in one of these."""
    limit: list[str] = []
    if place.disk_bytes is not None and _knows_sizes():
        limit = ["--size", str(place.disk_bytes)]
    memory = [*limit, "--tmpfs", "/tmp", *limit, "--tmpfs", "/dev/shm"]  # noqa: S108
    return ["--proc", "/proc", "--dev", "/dev", *memory]


@functools.cache
def _knows_sizes() -> bool:
    """Whether this bwrap limits what is in memory: those before 0.7 do not."""
    try:
        said = subprocess.run(  # noqa: S603  our own command
            [shutil.which(PROGRAM) or PROGRAM, "--help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return b"--size" in said.stdout + said.stderr


def _mounts(place: Place) -> Iterator[str]:
    """Show what may be read, then the work folder, outer folders first."""
    machine = [*system(network=place.network), *interpreter()]
    shown = [path for path in cover([*machine, *place.readable]) if path != place.work]
    for path in sorted([*shown, place.work], key=lambda path: len(path.parts)):
        yield from _bind(path, writable=path == place.work)


def _bind(path: Path, *, writable: bool) -> tuple[str, str, str]:
    if writable:
        return "--bind", str(path), str(path)
    if path.is_symlink():
        return "--symlink", str(path.readlink()), str(path)
    return "--ro-bind", str(path), str(path)
