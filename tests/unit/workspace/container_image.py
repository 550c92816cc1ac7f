"""An image to test containers with: a shell, and the libraries that this interpreter needs."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from tests.patience import HANG_SECONDS

_NAME = "localhost/otolith-test"
# Inside a container or a small virtual machine there may be no cgroup that crun likes, and no right
# to raise limits. None of this weakens a wall that is tested.
_SETTINGS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""


@functools.cache
def image(program: str) -> str:
    """Return the name of an image that docker or podman can run; it is made if none is given.

    Raises:
        OSError, subprocess.CalledProcessError: it cannot be made here.
    """
    if given := os.environ.get("OTOLITH_TEST_IMAGE"):
        return given
    if program == "podman" and "CONTAINERS_CONF" not in os.environ:
        settings = Path(tempfile.mkdtemp(prefix="otolith-test-")) / "containers.conf"
        settings.write_text(_SETTINGS)
        os.environ["CONTAINERS_CONF"] = str(settings)
    name = f"{_NAME}:{os.getpid()}"
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(file.name, "w") as tar:
            for path in _files():
                tar.add(Path(path).resolve(), arcname=path)
        _run(program, "import", file.name, name)
    return name


def remove(program: str) -> None:
    """Remove what `image` has made, if it made anything."""
    if image.cache_info().currsize and not os.environ.get("OTOLITH_TEST_IMAGE"):
        _run(program, "rmi", "--force", image(program))
        image.cache_clear()


def _files() -> set[str]:
    """Return programs, and the libraries that they, this interpreter and its modules need."""
    programs = ["/bin/sh", "/bin/true"]
    places = (sysconfig.get_path(name) for name in ("stdlib", "platlib"))
    modules = [module for place in places for module in Path(place).glob("*/*.so")]
    said = _run("ldd", str(Path(sys.executable).resolve()), *programs, *map(str, modules))
    return {*programs, *re.findall(r"\s(/(?:usr/)?lib\S+) \(0x", said)}


def _run(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=HANG_SECONDS
    ).stdout
