"""Whether a rung works here, found out by running a program in it that tests the walls."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from otolith.agent.workspace.sandbox import limits
from otolith.agent.workspace.sandbox.bubblewrap import PROGRAM
from otolith.agent.workspace.sandbox.container import PROGRAMS
from otolith.agent.workspace.sandbox.place import READ, Place, Sandbox
from otolith.agent.workspace.sandbox.syscalls import machine

_TIMEOUT_SECONDS = 30.0
_HOLDS, _LEAKS = "the walls hold", "it does not keep a file outside the work folder from being read"

# It writes into its folder, which must be possible, and reads what lies beside it, which must not.
_PROGRAM = f"""
import json, sys
from pathlib import Path
told = json.loads(sys.argv[1])
sys.path[:] = told["path"]
from otolith.agent.workspace.sandbox import Place, by_name
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
        "path": sys.path,
    }
    argv = [sys.executable, "-I", "-c", _PROGRAM, json.dumps(told)]
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
