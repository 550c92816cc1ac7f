"""The choice of a sandbox: the best one that works here, or the one that the user names.

Whether a sandbox works is found out by running a program in it that tries to break out.
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
from otolith.workspace.sandbox.base import READ, Sandbox, SandboxSpec, path_inside, python_path
from otolith.workspace.sandbox.bubblewrap import PROGRAM, Bubblewrap
from otolith.workspace.sandbox.container import PROGRAMS, Container
from otolith.workspace.sandbox.kernel import machine
from otolith.workspace.sandbox.landlock import Landlock

_TIMEOUT_SECONDS = 30.0
_HOLDS, _LEAKS = "it holds", "it does not keep a file outside the work folder from being read"

# It writes into its folder, which must be possible, and reads what lies beside it, which must not.
_PROBE = f"""
import json, sys
from pathlib import Path
job = json.loads(sys.argv[1])
sys.path[:] = job["path"]
from otolith.workspace.sandbox import SandboxSpec, sandbox_by_name
work = Path(job["work"])
sandbox_by_name(job["name"]).enter(SandboxSpec(work, network=job["network"]))
(work / "written").write_text("by the probe")
try:
    (work.parent / "secret").read_text()
except OSError:
    print({_HOLDS!r})
else:
    print({_LEAKS!r})
"""

# Best first, each with what to do for a user who has named it and cannot have it.
_HINTS = {
    "docker": "install and start docker, check the image with `docker run`, or choose 'auto'",
    "podman": "install podman, check the image with `podman run`, or choose 'auto'",
    "bubblewrap": (
        "apt-get install bubblewrap (or dnf, pacman, apk); if it is there, allow user namespaces: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0; or choose 'landlock'"
    ),
    "landlock": "use Linux 5.13 or newer started with lsm=landlock,...; or choose 'auto'",
    "limits": "run workers on Linux",
}


def choose_sandbox(
    name: str = "auto", *, network: bool = False, image: str | None = None
) -> Sandbox:
    """Return the best sandbox that works here, or the one of this name.

    A container is considered only when there is an image to run. A named sandbox that does not work
    is an error, never replaced by another. With "auto", a better one that is installed and does not
    work is a warning; that it is not installed is reported by `otolith doctor`.

    Raises:
        Unsupported: the named sandbox does not work here, or none does.
        Invalid: the name is unknown, or a container has no image.
    """
    if name != "auto":
        return _named(name, network=network, image=image)
    broken: list[str] = []
    for each in _HINTS:
        if each in PROGRAMS and image is None:
            continue
        reason = failure_reason(each, network=network, image=image)
        if reason is None:
            if broken and each not in PROGRAMS:  # of two containers one is enough
                better = "; ".join(broken)
                warnings.warn(
                    f"steps run in the {each} sandbox, because better ones do not work: {better}",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return sandbox_by_name(each, network=network, image=image)
        if each in PROGRAMS or _missing(each) is None:
            broken.append(f"{each}: {reason}")
    raise Unsupported("no sandbox works here", hint="run workers on Linux, or in WSL")


def _named(name: str, *, network: bool, image: str | None) -> Sandbox:
    """Return the named sandbox, or raise why it does not work here."""
    sandbox = sandbox_by_name(name, network=network, image=image)
    reason = failure_reason(name, network=network, image=image)
    if reason is not None:
        raise Unsupported(f"the {name} sandbox does not work here: {reason}", hint=_HINTS[name])
    if name in PROGRAMS and image is None:
        raise Invalid(
            f"{name} needs an image to run",
            hint="choose_sandbox(..., image=...), for instance image='python:3.12-slim'",
        )
    return sandbox


def sandbox_status() -> list[tuple[str, str | None]]:
    """Return every sandbox, best first, with why it does not work here, or None if it does."""
    return [(name, failure_reason(name, network=False, image=None)) for name in _HINTS]


def sandbox_by_name(name: str, *, network: bool = False, image: str | None = None) -> Sandbox:
    """Return the sandbox of this name, whether or not it works.

    Raises:
        Invalid: the name is unknown.
    """
    match name:
        case "docker" | "podman":
            return Container(name, network, image)
        case "bubblewrap":
            return Bubblewrap(name, network)
        case "landlock":
            return Landlock(name, network)
        case "limits":
            return limits.LimitsOnly(name, network)
    known = ", ".join(_HINTS)
    raise Invalid(f"there is no sandbox {name!r}", hint=f"choose 'auto' or one of {known}")


@functools.cache
def failure_reason(name: str, *, network: bool, image: str | None) -> str | None:
    """Return why a sandbox does not work here; None if it was tried and works.

    Of a container without an image only its server can be tried.
    """
    reason = _missing(name)
    if reason is not None or (name in PROGRAMS and image is None):
        return reason
    sandbox = sandbox_by_name(name, network=network, image=image)
    if not sandbox.stops[READ]:
        return None  # it does not promise to hide files, so there is nothing to test
    with tempfile.TemporaryDirectory(prefix="otolith-probe-") as folder:
        (Path(folder) / "secret").write_text("of the host", encoding="ascii")
        work = Path(folder) / "work"
        work.mkdir()
        job = {
            "name": name,
            "work": str(work),
            "network": network,
            "path": [str(path_inside(entry)) for entry in sys.path if entry],
        }
        argv = [python_path(), "-I", "-c", _PROBE, json.dumps(job)]
        spec = SandboxSpec(work, network=network)
        printed = _run(sandbox.command(argv, spec, environment={}, keep_fds=()))
    return None if printed == _HOLDS else printed


def _missing(name: str) -> str | None:
    """Return what a sandbox lacks before it can be tried; None if nothing."""
    if name == "limits":
        return None if limits.available() else "this system has no resource limits"
    if sys.platform != "linux":
        return f"{name} needs Linux, and this is {sys.platform}"
    if machine() is None:
        return "there is no system call filter for this architecture"
    program = PROGRAM if name == "bubblewrap" else name
    if name != "landlock" and shutil.which(program) is None:
        return f"{program} is not installed"
    if name in PROGRAMS:
        printed = _run([program, "version", "--format", _HOLDS])  # its server has to answer
        return None if printed == _HOLDS else printed
    return None


def _run(command: list[str]) -> str:
    """Return the last line that a command printed, of its errors if it failed."""
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
    printed = (done.stdout if done.returncode == 0 else done.stderr).decode(errors="replace")
    lines = printed.strip().splitlines()
    return lines[-1] if lines else f"{Path(command[0]).name} ended with {done.returncode}"
