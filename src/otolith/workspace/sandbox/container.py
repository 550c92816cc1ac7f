"""The strongest sandbox: a container of Docker or Podman, from an image that the user chooses.

The image brings the system; this interpreter, its packages and otolith are mounted into it at their
own paths, so the image needs a C library they can run with and nothing else. A daemon does not
inherit descriptors, and killing its client does not stop a container: `container_init.py` does
both.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from otolith.errors import Invalid
from otolith.workspace.sandbox.base import (
    Environment,
    Sandbox,
    SandboxSpec,
    interpreter_files,
    minimal_cover,
    python_path,
)

PROGRAMS = ("docker", "podman")

_INIT = Path(__file__).with_name("container_init.py")
_ISOLATION = (
    *("run", "--rm", "--interactive", "--pull=never", "--read-only"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges", "--pids-limit=1024"),
    # Otherwise SELinux hides the mounted folders, and the cure for that relabels the user's files.
    "--security-opt=label=disable",
)
# Of the user's environment, for the client; no more, because every user can see a command line.
_CLIENT_VARIABLES = (
    *("PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "DBUS_SESSION_BUS_ADDRESS"),
)


@dataclass(frozen=True)
class Container(Sandbox):
    """A container that lives as long as the program that was started for it."""

    image: str | None = None
    # There is a server in between, and a client that must not be killed before.
    end_seconds: ClassVar[float] = 10.0

    def _wrap(
        self, argv: list[str], spec: SandboxSpec, environment: Environment, keep_fds: Sequence[int]
    ) -> list[str]:
        """Return the call of the program that starts the container and passes descriptors in."""
        job = {
            "work": str(spec.work),
            "client": self._client(spec, environment),
            "client_environment": {
                name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ
            },
            "fds": [fd for fd in keep_fds if fd > 2],  # the client carries the first three itself
            "argv": argv,
        }
        return [python_path(), "-I", "-S", str(_INIT), "outside", json.dumps(job)]

    def _client(self, spec: SandboxSpec, environment: Environment) -> list[str]:
        """Return the command of the client that starts the container."""
        if self.image is None:
            raise Invalid(
                f"{self.name} needs an image to run",
                hint="choose_sandbox(..., image=...), for instance image='python:3.12-slim'",
            )
        # As the user outside, so that the files in the work folder are the user's.
        user = [f"--user={os.getuid()}:{os.getgid()}"]
        if self.name == "podman" and os.getuid() != 0:
            user.append("--userns=keep-id")
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        program = shutil.which(self.name) or self.name
        start = [f"--entrypoint={python_path()}", self.image, "-I", "-S", str(_INIT)]
        return [program, *_ISOLATION, *user, *_mounts(spec), *variables, *start]


def _mounts(spec: SandboxSpec) -> Iterator[str]:
    """Yield options for network, /tmp and the folders that are shown."""
    if not spec.network:
        yield "--network=none"
    yield "--tmpfs=/tmp" if spec.disk_bytes is None else f"--tmpfs=/tmp:size={spec.disk_bytes}"
    yield f"--workdir={spec.work}"
    for path in minimal_cover([*interpreter_files(), *spec.readable]):
        if path != spec.work:
            yield f"{_mount(path)},readonly"
    yield _mount(spec.work)


def _mount(path: Path) -> str:
    """Return the option in the quotes of CSV, for a path may have a comma in it."""
    quoted = str(path).replace('"', '""')
    return f'--mount=type=bind,"src={quoted}","dst={quoted}"'
