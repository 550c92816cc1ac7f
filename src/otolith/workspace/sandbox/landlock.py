"""The rung that needs nothing installed: Landlock for files and signals, seccomp for the rest.

The process confines itself, so there are no namespaces: it sees the machine's process list and the
names of its files. Landlock has no rules about modes and owners, and a filter cannot see paths, so
a worker can still `chmod` what the user owns. Shared memory is one folder for the whole machine,
and locks between processes live in it. All of that is said in `stops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otolith.agent.workspace.sandbox import bpf, kernel, rules, visible
from otolith.agent.workspace.sandbox.place import (
    MEMORY,
    MODES,
    SEE,
    SIGNAL,
    Place,
    keep_word,
    promises,
)

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
    def stops(self) -> Mapping[str, bool]:
        broken = {SEE, MODES, MEMORY}
        if rules.version() < _SIGNALS_SINCE:
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

    def enter(self, place: Place) -> None:
        # The order matters: the bounding set is dropped by a right that is dropped next, Landlock
        # asks for no_new_privs, and the filter comes last because it refuses much from then on.
        kernel.drop_capabilities()
        kernel.refuse_new_privileges()
        rules.restrict(_allowed(place), network=place.network)
        families = bpf.socket_families(network=place.network, private_files=False)
        old = rules.version() < _TRUNCATE_SINCE  # then nothing but the filter stops `truncate`
        kernel.filter_calls(families, refused=["truncate"] if old else [])


def _allowed(place: Place) -> Iterator[tuple[Path, int]]:
    for path in (*visible.system(network=place.network), *visible.interpreter(), *place.readable):
        yield path, rules.RUN
    # All of it, because a rule for /proc/self would be one for the process that makes the rule, and
    # the workers are its children. Memory and environments of others stay closed: Landlock lets
    # nobody look into a process that is less confined.
    yield Path("/proc"), rules.READ
    for device in _DEVICES:
        yield Path(device), rules.USE
    yield Path("/dev/shm"), rules.OWN  # noqa: S108  semaphores of multiprocessing live there
    yield place.work, rules.OWN
