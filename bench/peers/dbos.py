"""DBOS: each step of a workflow stores what it returned.

A step returns the key and the value that it changed, and no more: DBOS has no state of its own. One
workflow runs all the time, in a thread, and executes a step whenever it is asked to.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

from dbos import DBOS

Change = tuple[str, object]


@DBOS.step()
def store(key: str, value: object) -> Change:
    return key, value


@DBOS.workflow()
def run_steps() -> None:
    while (change := _asked.get()) is not None:
        _done.put(store(*change))


_asked: SimpleQueue[Change | None] = SimpleQueue()
_done: SimpleQueue[Change] = SimpleQueue()


class Workflow:
    """One workflow, one step for each change."""

    def __init__(self, url: str) -> None:
        config: Any = {
            "name": "bench",
            "system_database_url": url,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
        self._dbos = DBOS(config=config)
        DBOS.launch()
        self._handle = DBOS.start_workflow(run_steps)

    def fill(self, items: dict[str, object]) -> None:
        """Start with nothing: only what changes is stored."""

    def change(self, key: str, value: object) -> None:
        _asked.put((key, value))
        _done.get()

    def close(self) -> None:
        _asked.put(None)
        self._handle.get_result()
        DBOS.destroy()


def make():
    return Workflow
