"""The workspace of the current session: its sandbox, limits and folder, and Ctrl-C during a step.

A step runs in another process. The first Ctrl-C interrupts it, and its changes until then are
committed. The second kills it, and nothing of it is committed. A third, or one when
no step runs, ends this process as usual.

`exec` starts a process for one step (`cold`). `run` and `shell` reuse one for all their steps
(`warm`). Both restore variables and files from the branch first, so that either can continue what
the other began.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal, NamedTuple

import click

from otolith.cli.errors import terminal_error
from otolith.cli.location import open_current
from otolith.cli.options import GlobalOptions
from otolith.errors import Invalid
from otolith.session import Versioned
from otolith.text import parse_size
from otolith.workspace import Runner, Workspace

_OPTIONS = (
    click.option(
        "--sandbox", default="auto", metavar="NAME",
        help="What confines the code: auto (the best that works here), bubblewrap, landlock, "
        "docker, podman, or limits.  [default: auto]",
    ),
    click.option("--image", metavar="IMAGE", help="The image for docker or podman."),
    click.option(
        "--wall", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
        help="Interrupt a step after so many seconds.",
    ),
    click.option("--memory", metavar="SIZE", help="Memory limit of a step: 512M, 2G, 2GiB."),
    click.option("--network", is_flag=True, help="Let the code use the network."),
    click.option(
        "--folder", metavar="DIR",
        help="The work folder.  [default: one beside the store, a temporary one for a server]",
    ),
    click.option(
        "--untracked", default="refuse", type=click.Choice(["refuse", "adopt", "discard"]),
        help="What to do with files in the folder that are in no commit.  [default: refuse]",
    ),
)  # fmt: skip


def runner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `RunnerOptions` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class RunnerOptions:
    """How code is run; the fields are the parameters that `runner_options` adds to a command."""

    sandbox: str
    image: str | None
    wall: float | None
    memory: str | None
    network: bool
    folder: str | None
    untracked: Literal["refuse", "adopt", "discard"]

    def runner(self, mode: Literal["cold", "warm"]) -> Runner:
        """Return the runner that these options describe.

        Raises:
            UsageError: a container has no image, or the memory is not a size.
        """
        limits: dict[str, Any] = {} if self.wall is None else {"wall_seconds": self.wall}
        if self.sandbox in ("docker", "podman") and self.image is None:
            hint = "name one, for instance --image python:3.12-slim"
            raise click.UsageError(f"{self.sandbox} needs an image\n{hint}")
        if self.memory is not None:
            limits["memory_bytes"] = parse_bytes(self.memory)
        return Runner(
            sandbox=self.sandbox, image=self.image, network=self.network, mode=mode, **limits
        )


def parse_bytes(size: str) -> int:
    """Return the bytes of `2G` or `512MiB`.

    Raises:
        UsageError: it is not a size.
    """
    count = parse_size(size)
    if count is None:
        hint = "write 512M, 2G, 2GiB or a number of bytes above 0"
        raise click.UsageError(f"{size!r} is not a size\n{hint}")
    return count


class OpenWorkspace(NamedTuple):
    """An open session, and its workspace."""

    state: Versioned
    workspace: Workspace


@contextmanager
def open_workspace(
    options: GlobalOptions, given: RunnerOptions, *, mode: Literal["cold", "warm"]
) -> Iterator[OpenWorkspace]:
    """Open the workspace of the current session, its work folder in the state of the branch.

    Stashed edits of the branch stay stashed: steps are committed without them.

    Raises:
        Invalid: the folder has files that are in no commit, and the options refuse them.
        RefNotFound: the session has other branches, but not this one.
    """
    options.require_session()
    runner = given.runner(mode)
    with open_current(options, unstash=False) as current:
        state = current.branch
        if state.head is None and current.heads():
            current.head()  # raises: there is no such branch
        folder = None if given.folder is None else options.directory / given.folder
        with state.workspace(runner=runner, folder=folder) as workspace:
            try:
                workspace.restore(untracked=given.untracked)
            except Invalid as error:
                hint = "`--untracked adopt` adds them to the session, "
                hint += "`--untracked discard` removes them"
                raise terminal_error(Invalid, error.message, hint) from None
            yield OpenWorkspace(state, workspace)


@contextmanager
def handle_interrupts(workspace: Workspace) -> Iterator[InterruptHandler]:
    """Send Ctrl-C to the running step instead of this process."""
    handler = InterruptHandler(workspace)
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGINT, before)


class InterruptHandler:
    """A signal handler that interrupts a step, then kills it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._count = 0

    @property
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._count > 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the step at the first signal, kill it at the second, then this process."""
        self._count += 1
        if self._count == 1 and self._workspace.interrupt():
            # Not print(): the signal may have come in the middle of a write to the stream.
            os.write(2, b"\ninterrupting; press Ctrl-C again to kill the step and lose its work\n")
        elif self._count != 2 or not self._workspace.kill():
            raise KeyboardInterrupt
