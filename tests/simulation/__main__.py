"""Run schedules by hand: `python -m tests.simulation Teamwork 13`, or `Teamwork 0 1000`."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation import joins, workloads


def main(name: str, first: str, last: str | None = None) -> None:
    """Run the schedules from one seed up to another; the first that fails ends it."""
    workload = getattr(workloads, name, None) or getattr(joins, name)
    for seed in range(int(first), int(last or first) + 1):
        with TemporaryDirectory() as folder:
            print(f"{name} {seed}", flush=True)
            workload(seed, Path(folder)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
