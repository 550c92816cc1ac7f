"""Whether a rung works here, found out by running a program in it that tests the walls.

The ladder of rungs, and which one a worker gets: the best that works, or the one asked for.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from otolith.errors import Invalid, Unsupported
from otolith.workspace.sandbox import limits
from otolith.workspace.sandbox.base import READ, Place, Sandbox
from otolith.workspace.sandbox.bubblewrap import PROGRAM, Bubblewrap, plain_path, python_path
from otolith.workspace.sandbox.container import PROGRAMS, Container
from otolith.workspace.sandbox.landlock import Bare, Landlock
from otolith.workspace.sandbox.seccomp import machine

_TIMEOUT_SECONDS = 30.0
_HOLDS, _LEAKS = "the walls hold", "it does not keep a file outside the work folder from being read"

# It writes into its folder, which must be possible, and reads what lies beside it, which must not.
_PROGRAM = f"""
import json, sys
from pathlib import Path
told = json.loads(sys.argv[1])
sys.path[:] = told["path"]
from otolith.workspace.sandbox import Place, by_name
work = Path(told["work"])
by_name(told["name"]).enter(Place(work, network=told["network"]))
(work / "written").write_text("by the probe")
try:
    (work.parent / "secret").read_text()
except OSError:
    print({_HOLDS!r})
else:
    print({_LEAKS!r})
"""


def missing(name: str) -> str | None:
    """Say what a rung lacks before it could even be tried; None if nothing."""
    if name == "limits":
        return None if limits.available() else "this system has no resource limits"
    if sys.platform != "linux":
        return f"{name} walls are made by Linux, and this is {sys.platform}"
    if machine() is None:
        return "there is no system call filter for this architecture"
    if name == "bubblewrap" and shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed"
    return _no_server(name) if name in PROGRAMS else None


def failure(sandbox: Sandbox, *, network: bool) -> str | None:
    """Run the program in the sandbox; return what went wrong, or None."""
    if not sandbox.stops[READ]:
        return None  # it claims no walls, so there is nothing to test
    with tempfile.TemporaryDirectory(prefix="otolith-probe-") as folder:
        (Path(folder) / "secret").write_text("of the host", encoding="ascii")
        work = Path(folder) / "work"
        work.mkdir()
        said = _run(_command(sandbox, Place(work, network=network)))
    return None if said == _HOLDS else said


def _command(sandbox: Sandbox, place: Place) -> list[str]:
    told = {
        "name": sandbox.name,
        "work": str(place.work),
        "network": place.network,
        "path": [str(plain_path(entry)) for entry in sys.path if entry],
    }
    argv = [python_path(), "-I", "-c", _PROGRAM, json.dumps(told)]
    return sandbox.command(argv, place, environment={}, keep_fds=())


def _no_server(program: str) -> str | None:
    if shutil.which(program) is None:
        return f"{program} is not installed"
    said = _run([program, "version", "--format", _HOLDS])
    return None if said == _HOLDS else said


def _run(command: list[str]) -> str:
    """Return the last line that a command printed, of its errors if it printed any."""
    try:
        done = subprocess.run(  # noqa: S603  our own command
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer in {_TIMEOUT_SECONDS:g} seconds"
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    said = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace")
    lines = said.strip().splitlines()
    return lines[-1] if lines else f"{Path(command[0]).name} ended with {done.returncode}"


# Best first, each with the next move for somebody who asked for it and cannot have it.
_LADDER = {
    "docker": "install and start docker, check the image with `docker run`, or choose 'auto'",
    "podman": "install podman, check the image with `podman run`, or choose 'auto'",
    "bubblewrap": (
        "apt-get install bubblewrap (or dnf, pacman, apk); if it is there, allow user namespaces: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0; or choose 'landlock'"
    ),
    "landlock": "use Linux 5.13 or newer started with lsm=landlock,...; or choose 'auto'",
    "limits": "run workers on Linux",
}


def choose(name: str = "auto", *, network: bool = False, image: str | None = None) -> Sandbox:
    """Return the best rung that works here, or the one of this name.

    A container is considered only when there is an image to run. A rung that was asked for and
    does not work is an error, never replaced by another. With "auto", one that is there and does
    not work is a warning.
    """
    if name != "auto":
        return _asked_for(name, network=network, image=image)
    broken: list[str] = []
    for rung in _LADDER:
        if rung in PROGRAMS and image is None:
            continue
        reason = why_not(rung, network=network, image=image)
        if reason is None:
            _tell_of(broken, rung)
            return by_name(rung, network=network, image=image)
        if rung in PROGRAMS or missing(rung) is None:
            broken.append(f"{rung}: {reason}")
    raise Unsupported("no sandbox works here", hint="run workers on Linux, or in WSL")


def _tell_of(broken: list[str], chosen: str) -> None:
    """Warn that something better is installed, or was asked for, and does not work.

    Of two containers one is enough. That something is not installed is told by `otolith doctor`.
    """
    if broken and chosen not in PROGRAMS:
        warnings.warn(
            f"steps run in the {chosen} sandbox, because better ones do not work here:"
            f" {'; '.join(broken)}",
            RuntimeWarning,
            stacklevel=2,
        )


def ladder() -> list[tuple[str, str | None]]:
    """Return every rung, best first, and None if it works here, else why it does not."""
    return [(rung, why_not(rung, network=False, image=None)) for rung in _LADDER]


def by_name(name: str, *, network: bool = False, image: str | None = None) -> Sandbox:
    """Return the rung of this name without asking whether it works."""
    match name:
        case "docker" | "podman":
            return Container(name, image, network)
        case "bubblewrap":
            return Bubblewrap(network)
        case "landlock":
            return Landlock(network)
        case "limits":
            return Bare(network)
        case _:
            known = ", ".join(_LADDER)
            raise Invalid(f"there is no sandbox {name!r}", hint=f"choose 'auto' or one of {known}")


@functools.cache
def why_not(name: str, *, network: bool, image: str | None) -> str | None:
    """Say why a rung does not work here; None if it was tried and does.

    Of a container without an image only its server can be tried.
    """
    reason = missing(name)
    if reason is not None or (name in PROGRAMS and image is None):
        return reason
    return failure(by_name(name, network=network, image=image), network=network)


def _asked_for(name: str, *, network: bool, image: str | None) -> Sandbox:
    sandbox = by_name(name, network=network, image=image)
    reason = why_not(name, network=network, image=image)
    if reason is not None:
        raise Unsupported(f"the {name} sandbox does not work here: {reason}", hint=_LADDER[name])
    if name in PROGRAMS and image is None:
        raise Invalid(
            f"{name} needs an image to run",
            hint="choose(..., image=...), for instance image='python:3.12-slim'",
        )
    return sandbox
