"""A sandbox: what it promises to stop, how a program is started in it, and which files it shows.

Of the machine's files a sandbox shows those that a Python interpreter needs, and no more. Three
things are left out on purpose. The folder of the script and other entries of `sys.path` that are
not package folders: those are the user's files, and `SandboxSpec.readable` is there to show them.
`/usr/src`, where images keep the application. The folders of private keys beside certificates.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from otolith.errors import Invalid
from otolith.workspace.sandbox import kernel

WRITE = "write outside the work folder"
READ = "read the user's files"
NETWORK = "network"
SEE = "see other processes"
SIGNAL = "signal other processes"
PRIVILEGES = "new privileges"
# Two that a reader of the six above would take for granted, and that Landlock does not stop.
MODES = "change modes of files outside the work folder"
MEMORY = "share memory with other processes"

Environment: TypeAlias = Mapping[str, str]

PROMISES = (WRITE, READ, NETWORK, SEE, SIGNAL, PRIVILEGES, MODES, MEMORY)


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a worker may see; every path is the same inside as outside.

    The interpreter, its packages and otolith itself are found and need not be named. A /tmp of the
    sandbox holds `disk_bytes`, or as much as the system allows.
    """

    work: Path
    readable: tuple[Path, ...] = ()
    network: bool = False
    disk_bytes: int | None = None

    def __post_init__(self) -> None:
        for path in (self.work, *self.readable):
            if not path.is_absolute():
                raise Invalid(f"{path} is not an absolute path", hint="give Path(...).absolute()")
            if path == path.parent:
                raise Invalid(
                    "a sandbox cannot show the whole machine", hint="name the folders it needs"
                )


@dataclass(frozen=True)
class Sandbox:
    """The base of all sandboxes; what it does fits one that has its own files and processes.

    `end_seconds` is how long it may take to end by itself when its host has hung up.
    """

    name: str
    network: bool = False
    end_seconds: ClassVar[float] = 0.5

    @property
    def stops(self) -> Mapping[str, bool]:
        """The promises above, each with whether this sandbox gives it."""
        broken = {*self._broken_promises(), *([NETWORK] if self.network else [])}
        return MappingProxyType({promise: promise not in broken for promise in PROMISES})

    def _broken_promises(self) -> Collection[str]:
        """Return the promises that this sandbox does not give."""
        return ()

    def command(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        *,
        environment: Environment,
        keep_fds: Sequence[int],
    ) -> list[str]:
        """Return the command that runs `argv` inside with this environment and no other.

        Start it with `env=environment` and `pass_fds=keep_fds`: a sandbox that returns `argv` as it
        is cannot clear the environment in another way.

        Raises:
            Invalid: the spec would break a promise, or its work folder does not exist.
        """
        if spec.network and self.stops[NETWORK]:
            raise Invalid(
                f"the {self.name} sandbox was chosen without a network, the spec has one",
                hint="choose_sandbox(..., network=True)",
            )
        if not spec.work.is_dir():
            raise Invalid(f"there is no folder {spec.work} to work in", hint="make it first")
        return self._wrap(list(argv), spec, environment, keep_fds)

    def _wrap(
        self, argv: list[str], spec: SandboxSpec, environment: Environment, keep_fds: Sequence[int]
    ) -> list[str]:
        """Return the command for a spec that was checked; here, the program itself."""
        return argv

    def last_processes(self, started: int) -> list[int]:
        """Return the processes after whose end no process is left inside.

        `started` is the process that the command became, once the program inside has begun.
        """
        return [started]

    def enter(self, spec: SandboxSpec) -> None:
        """Confine the running process and all that it will start.

        Called inside, once, before there are threads and before any code of a user.
        """
        kernel.refuse_new_privileges()
        kernel.filter_calls(kernel.socket_families(network=spec.network, private_files=True))

    def enter_worker(self) -> None:
        """Keep a worker from signalling the process that has forked it, where that is possible.

        Called in the worker, before any code of a user. Where the fork server is process 1 of its
        own namespace, the kernel does it.
        """


# Files that a sandbox shows

SYSTEM = (
    *(f"/usr/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "share")),
    *(f"/usr/local/{name}" for name in ("bin", "sbin", "lib", "lib64", "share")),
    *(f"/{name}" for name in ("bin", "sbin", "lib", "lib32", "lib64")),
    *("/usr/include", "/usr/local/include", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust"),
    *("/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/fonts", "/etc/nsswitch.conf"),
)
NETWORK_NAMES = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols"),
)
PACKAGE = Path(__file__).parents[2]
_SHARED_PREFIXES = (Path("/usr"), Path("/usr/local"))  # SYSTEM names their parts


def system_files(*, network: bool) -> list[Path]:
    """Return what programs of this machine share: libraries, certificates, time zones."""
    return minimal_cover(map(Path, SYSTEM + NETWORK_NAMES if network else SYSTEM))


def interpreter_files() -> list[Path]:
    """Return where this interpreter, its packages and otolith live."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    found = {Path(prefix) for prefix in prefixes} | {Path(python_path()), PACKAGE}
    found |= {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    packages = {"site-packages", "dist-packages"}
    found |= {Path(entry) for entry in sys.path if not packages.isdisjoint(Path(entry).parts)}
    found |= {Path(sys.executable).resolve().parent.parent}
    home = _home()
    return minimal_cover(
        path
        for path in found
        # A prefix that is too wide would show a home, or more than SYSTEM shows of it.
        if path.is_absolute() and path not in _SHARED_PREFIXES and not home.is_relative_to(path)
    )


def path_inside(path: str | Path) -> Path:
    """Return a path as it can be used inside: from the root, without `..`.

    Python keeps the path that it was started by. Inside, the folders that a `..` leaves again do
    not exist, so the path would lead nowhere. The last link is not followed: beside it lies what
    makes an interpreter one of a virtual environment.
    """
    whole = Path.cwd() / path
    if ".." not in whole.parts:
        return whole
    return whole.resolve() if whole.name == ".." else whole.parent.resolve() / whole.name


def python_path() -> str:
    """Return the path of this interpreter, as it can be used inside."""
    return str(path_inside(sys.executable))


def minimal_cover(paths: Iterable[Path]) -> list[Path]:
    """Return the fewest paths that show all of these, outer ones first.

    A symbolic link is followed step by step: each step has to exist to be followed inside.
    """
    links = {step for path in paths for step in _link_steps(path)}
    chosen: list[Path] = []
    for path in sorted(links, key=lambda path: (len(path.parts), path)):
        if not any(path.is_relative_to(outer) for outer in chosen):
            chosen.append(path)
    return chosen


def _link_steps(path: Path) -> Iterator[Path]:
    """Yield a path, the targets of its links, and where it finally leads."""
    if not os.path.exists(path):  # noqa: PTH110  a Path would raise where we may not look
        return
    path = path_inside(path)
    end = path.resolve()
    yield end
    while path != end and path.is_symlink():
        yield path
        path = path_inside(path.parent / path.readlink())
    yield path


def _home() -> Path:
    """Return the user's own home; inside, the variable HOME may well name the work folder."""
    try:
        import pwd

        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # another system, or a user without a name
        return Path(os.path.expanduser("~"))  # noqa: PTH111  a Path would raise without HOME
