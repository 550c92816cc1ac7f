"""The ladder of rungs, and which one a worker gets: the best that works, or the one asked for."""

from __future__ import annotations

import functools

from otolith.agent.workspace.sandbox import probe
from otolith.agent.workspace.sandbox.bare import Bare
from otolith.agent.workspace.sandbox.bubblewrap import Bubblewrap
from otolith.agent.workspace.sandbox.container import PROGRAMS, Container
from otolith.agent.workspace.sandbox.landlock import Landlock
from otolith.agent.workspace.sandbox.place import Sandbox
from otolith.errors import Invalid, Unsupported

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
    does not work is an error, never replaced by another.
    """
    if name != "auto":
        return _asked_for(name, network=network, image=image)
    for rung in _LADDER:
        needs_image = rung in PROGRAMS and image is None
        if not needs_image and why_not(rung, network=network, image=image) is None:
            return by_name(rung, network=network, image=image)
    raise Unsupported("no sandbox works here", hint="run workers on Linux, or in WSL")


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
    reason = probe.missing(name)
    if reason is not None or (name in PROGRAMS and image is None):
        return reason
    return probe.failure(by_name(name, network=network, image=image), network=network)


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
