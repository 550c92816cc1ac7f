"""What a worker may see, what a sandbox is, and the promises that sandboxes give or do not give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from otolith.errors import Invalid

WRITE = "write outside the work folder"
READ = "read the user's files"
NETWORK = "network"
SEE = "see other processes"
SIGNAL = "signal other processes"
PRIVILEGES = "new privileges"
# Two that a reader of the six above would take for granted, and that Landlock does not stop.
MODES = "change modes of files outside the work folder"
MEMORY = "share memory with other processes"

PROMISES = (WRITE, READ, NETWORK, SEE, SIGNAL, PRIVILEGES, MODES, MEMORY)


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker may see; every path is the same inside as outside.

    The interpreter, its packages and otolith itself are found by the room and need not be named.
    Where there is a /tmp of its own it holds `disk_bytes`, or as much as the system says.
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
                raise Invalid("the whole machine is no place", hint="name the folders it needs")


class Sandbox(Protocol):
    """A rung of the ladder: how a program is started in it, and what it stops."""

    @property
    def name(self) -> str: ...

    @property
    def end_seconds(self) -> float:
        """How long it may take to end by itself when its host has hung up."""

    @property
    def stops(self) -> Mapping[str, bool]:
        """What it stops, by the promises above; an honest no is a no."""

    def command(
        self,
        argv: Sequence[str],
        place: Place,
        *,
        environment: Mapping[str, str],
        keep_fds: Sequence[int],
    ) -> list[str]:
        """Return what to start so that `argv` runs inside with this environment and no other.

        Start it with `env=environment` and `pass_fds=keep_fds`: a rung that returns `argv` as it is
        has no other way to clear the environment.
        """

    def last_processes(self, started: int) -> list[int]:
        """Return the processes after whose end nobody is left inside.

        `started` is the process that the command became, once the program inside has begun.
        """

    def enter(self, place: Place) -> None:
        """Close the doors behind the running process and all that it will start.

        Called inside, once, before there are threads and before any code of a user.
        """

    def enter_worker(self) -> None:
        """Keep a worker from signalling the process that has forked it, where that can be done.

        Called in the worker, before any code of a user.
        """


def promises(*, network: bool, broken: Iterable[str] = ()) -> Mapping[str, bool]:
    """Return every promise as kept, except those named and the network where there is one."""
    open_doors = {*broken, NETWORK} if network else set(broken)
    return MappingProxyType({promise: promise not in open_doors for promise in PROMISES})


def keep_word(sandbox: Sandbox, place: Place) -> None:
    """Refuse a place that would break what the sandbox has said that it stops."""
    if place.network and sandbox.stops[NETWORK]:
        raise Invalid(
            f"the {sandbox.name} sandbox was chosen without a network, the place has one",
            hint="choose(..., network=True)",
        )
    if not place.work.is_dir():
        raise Invalid(f"there is no folder {place.work} to work in", hint="make it first")
