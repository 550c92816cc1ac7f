"""The workspace at hand: which session, in what sandbox, within which limits, in which folder.

Ctrl-C while a step runs: once interrupts the step and keeps what it did, twice ends it.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, NamedTuple

import click

from otolith.cli.errors import worded
from otolith.cli.location import OpenBranch, StoreLocation, find, only_session, opened
from otolith.cli.options import GlobalOptions
from otolith.errors import Invalid
from otolith.session import Repo, Versioned
from otolith.workspace import Runner, Workspace

_BYTES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

_OPTIONS = (
    click.option(
        "--sandbox", default="auto", metavar="NAME",
        help="What confines the code: auto (the best that works here), bubblewrap, landlock, "
        "docker, podman, or limits.  [default: auto]",
    ),
    click.option("--image", metavar="IMAGE", help="What docker or podman run."),
    click.option(
        "--wall", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
        help="Interrupt a step after so long.",
    ),
    click.option("--memory", metavar="SIZE", help="How much a step may use: 512M, 2G, 2GiB."),
    click.option("--network", is_flag=True, help="Let the code use the network."),
    click.option(
        "--folder", metavar="DIR", help="The work folder.  [default: one beside the store]"
    ),
    click.option(
        "--strangers", default="refuse", type=click.Choice(["refuse", "adopt", "discard"]),
        help="What to do with files in the folder that are in no commit.  [default: refuse]",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What the options say about how code is run; the fields are named as `options` names them."""

    sandbox: str
    image: str | None
    wall: float | None
    memory: str | None
    network: bool
    folder: str | None
    strangers: Literal["refuse", "adopt", "discard"]

    def runner(self, mode: Literal["cold", "warm"]) -> Runner:
        """Return what runs steps like this."""
        given: dict[str, Any] = {} if self.wall is None else {"wall_seconds": self.wall}
        if self.sandbox in ("docker", "podman") and self.image is None:
            hint = "say which, for instance --image python:3.12-slim"
            raise click.UsageError(f"{self.sandbox} needs an image to run\n{hint}")
        if self.memory is not None:
            given["memory_bytes"] = bytes_of(self.memory)
        return Runner(
            sandbox=self.sandbox, image=self.image, network=self.network, mode=mode, **given
        )


class OpenWorkspace(NamedTuple):
    """An open store, with the workspace of the session at hand."""

    place: StoreLocation
    repo: Repo
    state: Versioned
    workspace: Workspace


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options that say how code is run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def bytes_of(size: str) -> int:
    """Return how many bytes `2G` or `512MiB` are."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?", size.strip().lower())
    if found is None:
        raise click.UsageError(f"{size!r} is not a size\nwrite 512M, 2G, 2GiB or a number of bytes")
    return int(float(found[1]) * _BYTES[found[2]])


@contextmanager
def bench_at(
    asked: GlobalOptions, session: str | None, limits: Limits, *, mode: Literal["cold", "warm"]
) -> Iterator[OpenWorkspace]:
    """Open the workspace of a session, the one at hand by default.

    Edits that are staged on the branch stay there: steps are committed without them.
    """
    place = find(asked if session is None else asked._replace(session=session))
    runner = limits.runner(mode)
    with opened(place.url) as repo:
        name = place.session if place.session is not None else only_session(repo)
        state = repo.session(name, branch=place.branch)
        if state.head is None and repo.branches(name):
            OpenBranch(place, repo, state).head()  # says that there is no such branch
        folder = None if limits.folder is None else asked.directory / limits.folder
        with state.workspace(runner=runner, folder=folder) as workspace:
            _restore(workspace, limits)
            yield OpenWorkspace(place, repo, state, workspace)


def _restore(workspace: Workspace, limits: Limits) -> None:
    try:
        workspace.restore(strangers=limits.strangers)
    except Invalid as error:
        hint = "`--strangers adopt` keeps them and makes them part of the session, "
        hint += "`--strangers discard` removes them"
        raise worded(Invalid(error.message, hint=hint)) from None


_SAID = b"\ninterrupting; once more ends the step and keeps nothing of it\n"


@contextmanager
def stopping(workspace: Workspace) -> Iterator[Stop]:
    """Pass interrupts on to the step that runs, for as long as this lasts."""
    stop = Stop(workspace)
    before = signal.signal(signal.SIGINT, stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class Stop:
    """What is done about an interrupt."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._count = 0

    @property
    def was_asked(self) -> bool:
        """Whether there was one."""
        return self._count > 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1 and self._workspace.interrupt():
            os.write(2, _SAID)  # a stream may be in the middle of something else
        elif self._count != 2 or not self._workspace.kill():
            raise KeyboardInterrupt
