"""A worker of a run that is killed somewhere, and started again.

python flow_worker.py URL LOG SLOTS EXECUTOR

The flow has the shape of a public trace: one task, ten beside each other, one that joins them, and
a chain. Each task writes a line to the log when it begins and when it ends; half of them count in
the state, which lands with their result.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import otolith
from otolith.flows import Flow, FlowTask, ProcessExecutor, ThreadExecutor, WorkerPresence

WIDTH, CHAIN = 10, 4
TASKS = WIDTH + CHAIN + 2
TTL_SECONDS = 1.0


def note(*words: object) -> None:
    """Write a line to the log, at once and whole."""
    descriptor = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    os.close(descriptor)


flow = Flow("trace")


@flow.subtask
def count(task: Any) -> str:
    """Work, and count in the state."""
    note("begin", task.name, task.key)
    task.state.counter("counted").add(1)
    time.sleep(0.004)
    note("end", task.name, task.key)
    return f"{task.name} done"


@flow.subtask
def plain(number: int) -> int:
    """Work without the state, as in another process."""
    note("begin", f"p{number}", "-")
    time.sleep(0.004)
    note("end", f"p{number}", "-")
    return number


def made(executor: str) -> Flow:
    """Return the flow, with tasks that the executor can run."""

    def task(number: int, *after: int) -> None:
        name = f"p{number}"
        counts = executor == "threads" and number % 2
        flow.add(
            FlowTask(
                name,
                call=count if counts else plain,
                after=[f"p{each}" for each in after],
                inputs={} if counts else {"number": number},
                retries=50,
                pause="1ms",
            )
        )

    task(0)
    for number in range(1, WIDTH + 1):
        task(number, 0)
    task(WIDTH + 1, *range(1, WIDTH + 1))
    for number in range(WIDTH + 2, TASKS):
        task(number, number - 1)
    return flow


def main() -> None:
    """Work on the run until it is over; say each turn in which something ended."""
    url, _, slots, executor = sys.argv[1:]
    with otolith.open(url) as repo:
        run = repo.session("s").flow(made(executor), key="run")
        print("ready", flush=True)
        maker: Any = ThreadExecutor if executor == "threads" else ProcessExecutor
        seen = [0]

        def say(board: Any) -> None:
            if board.counts["done"] > seen[0]:
                seen[0] = board.counts["done"]
                print(f"{seen[0]} done", flush=True)

        with (
            maker(int(slots)) as chosen,
            WorkerPresence(
                repo.backend, "session/s/main", slots=chosen.slots, ttl_seconds=TTL_SECONDS
            ) as presence,
        ):
            run.worker(chosen, presence).work(on_turn=say)
        assert run.status == "done", run.progress()
        print("done", flush=True)


if __name__ == "__main__":
    main()
