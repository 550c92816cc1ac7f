"""The top rung: a container of Docker or Podman, from an image that somebody has chosen.

The image brings the system; this interpreter, its packages and otolith are mounted into it at their
own paths, so the image needs a C library they can run with and nothing else. A daemon inherits no
descriptors and a killed client stops no container; `container_init.py` makes up for both.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from otolith.errors import Invalid
from otolith.workspace.sandbox import bubblewrap, kernel, seccomp
from otolith.workspace.sandbox.base import Place, keep_word, promises

PROGRAMS = ("docker", "podman")

_HANDOVER = Path(__file__).with_name("container_init.py")
_WALLS = (
    *("run", "--rm", "--interactive", "--pull=never", "--read-only"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=1024"),
    # Otherwise SELinux hides the mounted folders, and the cure for that relabels the user's files.
    "--security-opt=label=disable",
)
# Of the user's environment, for the client; no more, because a command line is seen by everybody.
_TO_FIND_THE_SERVER = (
    *("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DBUS_SESSION_BUS_ADDRESS"),
)


@dataclass(frozen=True, slots=True)
class Container:
    """A container that lives as long as the program that was started for it."""

    name: str
    image: str | None
    network: bool = False

    @property
    def end_seconds(self) -> float:
        return 10.0  # there is a server in between, and a client that must not be killed before

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
        """Return the call of the launcher that starts the container and hands descriptors in."""
        keep_word(self, place)
        job = {
            "work": str(place.work),
            "client": self._client(place, environment),
            "client_environment": {
                name: os.environ[name] for name in _TO_FIND_THE_SERVER if name in os.environ
            },
            "fds": [fd for fd in keep_fds if fd > 2],  # the client carries the first three itself
            "argv": list(argv),
        }
        return [bubblewrap.python_path(), "-I", "-S", str(_HANDOVER), "outside", json.dumps(job)]

    def last_processes(self, started: int) -> list[int]:
        return [started]  # it waits for the container

    def enter(self, place: Place) -> None:
        kernel.refuse_new_privileges()
        kernel.filter_calls(seccomp.socket_families(network=place.network, private_files=True))

    def enter_worker(self) -> None:
        return

    def _client(self, place: Place, environment: Mapping[str, str]) -> list[str]:
        if self.image is None:
            raise Invalid(
                f"{self.name} needs an image to run",
                hint="choose(..., image=...), for instance image='python:3.12-slim'",
            )
        program = shutil.which(self.name) or self.name
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        started = [
            f"--entrypoint={bubblewrap.python_path()}",
            self.image,
            "-I",
            "-S",
            str(_HANDOVER),
        ]
        return [program, *_WALLS, *self._who(), *_where(place), *variables, *started]

    def _who(self) -> Iterator[str]:
        """Run as the user outside, so that the files in the work folder are the user's."""
        yield f"--user={os.getuid()}:{os.getgid()}"
        if self.name == "podman" and os.getuid() != 0:
            yield "--userns=keep-id"


def _where(place: Place) -> Iterator[str]:
    if not place.network:
        yield "--network=none"
    yield "--tmpfs=/tmp" if place.disk_bytes is None else f"--tmpfs=/tmp:size={place.disk_bytes}"
    yield f"--workdir={place.work}"
    for path in bubblewrap.cover([*bubblewrap.interpreter(), *place.readable]):
        if path != place.work:
            yield f"{_mount(path)},readonly"
    yield _mount(place.work)


def _mount(path: Path) -> str:
    """Return the option in the quotes of CSV, for a path may have a comma in it."""
    quoted = str(path).replace('"', '""')
    return f'--mount=type=bind,"src={quoted}","dst={quoted}"'
