"""A worker of a run with one task, which goes on when it is told to.

python fence_worker.py URL FOLDER

It says `ready`, then `refused N` when a result of its task came too late, and `ended` at its end.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import otolith
from otolith.flows import Flow, ThreadExecutor, WorkerPresence

TTL_SECONDS = 1.0

flow = Flow("fence")


@flow.task
def hold(folder: str) -> int:
    """Wait for a word to this process, and return its number."""
    Path(folder, f"begun-{os.getpid()}").touch()
    while not Path(folder, f"go-{os.getpid()}").exists():
        time.sleep(0.005)
    return os.getpid()


def main() -> None:
    """Work on the run until it is over."""
    url, folder = sys.argv[1:]
    with otolith.open(url) as repo:
        run = repo.session("s").flow(flow, key="run", folder=folder)
        print("ready", flush=True)
        said = [0]
        with (
            ThreadExecutor(1) as executor,
            WorkerPresence(
                repo.backend, "session/s/main", slots=1, ttl_seconds=TTL_SECONDS
            ) as presence,
        ):
            worker = run.worker(executor, presence)

            def say(_: Any) -> None:
                if worker.refused > said[0]:
                    said[0] = worker.refused
                    print(f"refused {said[0]}", flush=True)

            worker.work(on_turn=say)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
