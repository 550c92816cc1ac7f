"""The strongest simple peer: every cell in a forked process, all variables kept by cloudpickle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SCRIPT = Path(__file__).with_name("forking.py")


@dataclass(frozen=True)
class Told:
    """What became of a cell."""

    error: str | None = None
    is_over: bool = False  # it took too much and was ended, or could not load the state
    stored_bytes: int = 0
    run_seconds: float = 0.0
    lost: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)


class Forked:
    """A process that forks one for each cell, and imports what cells have imported."""

    def __init__(self, place: Path, environment: Mapping[str, str] | None = None) -> None:
        work = place / "work"
        work.mkdir(parents=True)
        self._known: set[str] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(SCRIPT), str(place / "state")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=work,
            env=os.environ | dict(environment or {}),
            text=True,
        )

    def run(self, cell: str) -> Told:
        """Run one cell in a new process.

        Raises:
            EOFError: the process that forks is gone.
        """
        told = Told(**self._ask({"cell": cell}))
        new = [name for name in told.modules if name not in self._known]
        if new:
            self._known.update(new)
            self._send({"learn": new})
        return told

    def _ask(self, order: dict[str, object]) -> dict[str, Any]:
        self._send(order)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError("the process that forks is gone")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _send(self, order: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                end.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
