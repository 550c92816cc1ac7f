"""Runs a program in one namespace of one fresh process: what every other way is compared with."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.patience import HANG_SECONDS
from tests.traces.corpus import Program
from tests.traces.likeness import describe

ROOT = Path(__file__).resolve().parents[2]
# A process of its own, and the workers, compute with the same kernels: those that the environment
# chooses, if it does, give other last digits.
_KERNELS = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
ENVIRONMENT = {**_KERNELS, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""What a program needs to end in the same state each time."""

# The folder comes first on the path, as in a notebook: cells may import what cells have written.
_CHILD = "import sys; sys.path.append({root!r}); from tests.traces.alone import main; main({job!r})"


@dataclass(frozen=True)
class Outcome:
    """The end of a run: what is held, which cells raised what, and what each cell printed."""

    description: dict[str, str]
    errors: list[tuple[int, str]]
    outputs: list[str]


def run_alone(program: Program, folder: Path) -> Outcome:
    """Run all cells of a program in `folder`; a cell that raises does not stop the others."""
    with tempfile.TemporaryDirectory() as place:
        job = Path(place) / "job.json"
        job.write_text(json.dumps({"cells": program.cells, "lost": sorted(program.lost)}))
        _in_a_process(job, folder)
        return _outcome(json.loads(job.read_text()))


def run_cells(cells: Sequence[str], *, lost: frozenset[str] = frozenset()) -> Outcome:
    """Run cells here, in the namespace of a new `__main__`, and say where they end."""
    session = types.ModuleType("__main__")
    sys.modules["__main__"] = session
    errors, outputs = [], []
    for number, cell in enumerate(cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            failure = _run(cell, f"<cell {number}>", session)
        outputs.append(printed.getvalue())
        if failure is not None:
            errors.append((number, f"{type(failure).__qualname__}: {failure}"))
    return Outcome(describe(vars(session), lost=lost), errors, outputs)


def main(path: str) -> None:
    """Be the child: read the job, run it, and leave the outcome in its place."""
    job = json.loads(Path(path).read_text())
    outcome = run_cells(job["cells"], lost=frozenset(job["lost"]))
    Path(path).write_text(json.dumps(asdict(outcome)))


def _run(cell: str, name: str, session: types.ModuleType) -> Exception | None:
    try:
        exec(compile(cell, name, "exec", dont_inherit=True), vars(session))
    except Exception as failure:  # noqa: BLE001 - a notebook goes on after any
        return failure
    return None


def _in_a_process(job: Path, folder: Path) -> None:
    code = _CHILD.format(root=str(ROOT), job=str(job))
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the process ended with {done.returncode}: {done.stderr[-2000:]}")


def _outcome(told: dict[str, list[list[str]]]) -> Outcome:
    errors = [(int(number), text) for number, text in told["errors"]]
    return Outcome(**(told | {"errors": errors}))  # type: ignore[arg-type]
