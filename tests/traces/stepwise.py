"""Runs a program a cell at a time in a workspace, each cell in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

from otolith import Disk, Versioned
from otolith.workspace import Runner, Step, Workspace
from tests.traces.alone import ENVIRONMENT, Outcome
from tests.traces.corpus import Program

_REPO = Path(__file__).resolve().parents[2]

_LOOK = """
def _look(lost):
    import sys
    sys.path.append({repo!r})
    from tests.traces.likeness import describe
    everything = globals()
    names = [*everything.unloaded, *everything.loaded()]
    kept = [name for name in names if not name.startswith("_") and name not in lost]
    return describe({{name: everything[name] for name in kept}}, lost=lost)
_look(frozenset({lost!r}))
"""


def run_in_steps(program: Program, folder: Path, *, sandbox: str = "limits") -> Outcome:
    """Run a program with a new process for each cell."""
    with Versioned(Disk(folder / "agent.db", durability="fast")) as state:
        runner = Runner(sandbox=sandbox, environment=ENVIRONMENT)
        with state.workspace(runner=runner, folder=folder / "work") as workspace:
            return _outcome(program, workspace, [workspace.run(cell) for cell in program.cells])


def run_with_kills(program: Program, folder: Path, *, every: int) -> Outcome:
    """Run a program whose processes are killed after every so many cells, one process until then.

    Now and then its folder is gone as well.
    """
    steps: list[Step] = []
    for number, start in enumerate(range(0, len(program.cells), every)):
        with Versioned(Disk(folder / "agent.db", durability="fast")) as state:
            runner = Runner(sandbox="limits", mode="warm", environment=ENVIRONMENT)
            workspace = state.workspace(runner=runner, folder=folder / "work")
            steps += map(workspace.run, program.cells[start : start + every])
            _kill(workspace)
            workspace.close()
        if number % 3 == 1:
            shutil.rmtree(folder / "work")
    with Versioned(Disk(folder / "agent.db", durability="fast")) as state:
        runner = Runner(sandbox="limits", environment=ENVIRONMENT)
        with state.workspace(runner=runner, folder=folder / "work") as workspace:
            return _outcome(program, workspace, steps)


def _kill(workspace: Workspace) -> None:
    """Kill the worker and the nursery, as a machine that is switched off would."""
    pool = workspace._steps.pool  # nothing public names the processes
    if pool is not None and pool._process is not None:
        os.killpg(pool._process.pid, signal.SIGKILL)


def _outcome(program: Program, workspace: Workspace, steps: list[Step]) -> Outcome:
    errors = [
        (number, step.error.type + ": " + step.error.message)
        for number, step in enumerate(steps, 1)
        if step.error is not None
    ]
    look = workspace.run(_LOOK.format(repo=str(_REPO), lost=sorted(program.lost)))
    assert look.ok, look.error and look.error.traceback
    return Outcome(look.value, errors, [step.stdout for step in steps])
