"""otolith's workspaces as anybody opens them: on a Disk, and synced at every step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from otolith import Disk, Versioned, workspace

Step: TypeAlias = workspace.Step
Workspace: TypeAlias = workspace.Workspace

SYNCED = "otolith syncs the disk at every step; of the others, only Kishu does."


class Failed(Exception):
    """A step of ours did not do what it should."""


@contextmanager
def opened(place: Path, **runner: Any) -> Iterator[Workspace]:
    """Lend the workspace in a directory, which is made if it is not there."""
    place.mkdir(exist_ok=True)
    how = workspace.Runner(**runner)
    with (
        Versioned(Disk(place / "agent.db")) as state,
        state.workspace(runner=how, folder=place / "work") as here,
    ):
        yield here


def stored_bytes(place: Path) -> int:
    """Return the size of the store of a workspace that is closed; it holds the files too."""
    return sum(path.stat().st_size for path in place.glob("agent.db*") if path.is_file())


def run(here: Workspace, code: str) -> tuple[Step, float]:
    """Run a step; return it, and the seconds it took on the whole.

    Raises:
        Failed: the code raised something, or its process ended.
    """
    began = perf_counter()
    step = here.run(code)
    took = perf_counter() - began
    if not step.ok:
        raise Failed(f"{code.strip()[:60]!r}: {step.error}")
    return step, took


def overhead(here: Workspace, code: str) -> float:
    """Run a step; return the seconds it took beyond those of the code itself."""
    step, took = run(here, code)
    return took - step.timing["run"]
