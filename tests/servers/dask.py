"""A Dask cluster of two processes on this machine, for all tests that ask for it.

It runs in a process of its own: in that of the tests, its threads would open and close files while
other tests count them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import Server, free_port

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys, threading
from distributed import LocalCluster
if __name__ == "__main__":
    LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", scheduler_port=int(sys.argv[1]),
        dashboard_address=None,
    )
    threading.Event().wait()
"""


@pytest.fixture(scope="session")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster whose processes are started again when they die."""
    pytest.importorskip("distributed")
    folder, port = tmp_path_factory.mktemp("dask"), free_port()
    (folder / "cluster.py").write_text(_PROGRAM)
    command: list[str | Path] = [sys.executable, folder / "cluster.py", str(port)]
    server = Server(command, folder, port=port, environment={"PYTHONPATH": str(_ROOT)})
    server.start()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        server.stop()
