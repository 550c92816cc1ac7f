"""What runs tasks breaks down: a Dask scheduler is killed; a program that uses DBOS is."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

import otolith
from otolith.flows import DaskExecutor, Flow
from tests.patience import HANG_SECONDS
from tests.servers.process import free_port

flow = Flow("dask")


@flow.task
def wait(folder: str) -> str:
    """Wait until somebody says that it is over."""
    Path(folder, f"begun-{len(list(Path(folder).iterdir()))}").touch()
    until(Path(folder, "over").exists)
    return "done"


def until(is_so):
    deadline = monotonic() + HANG_SECONDS
    while not is_so():
        assert monotonic() < deadline
        sleep(0.02)


@contextmanager
def dask(kind, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"]
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_run_goes_on_when_the_scheduler_was_started_again(tmp_path):
    config = pytest.importorskip("dask").config
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = ("--host", "127.0.0.1", "--port", str(port))
    helper = (address, "--nworkers", "1", "--nthreads", "1", "--no-nanny")
    folder = tmp_path / "jobs"
    folder.mkdir()
    with ExitStack() as stack, otolith.open("memory:") as repo:
        stack.enter_context(config.set({"distributed.comm.timeouts.connect": "3s"}))
        first = stack.enter_context(dask("scheduler", *scheduler))
        stack.enter_context(dask("worker", *helper))
        executor = stack.enter_context(DaskExecutor(address, slots=1))
        run = repo.session("s").flow(flow, folder=str(folder))
        working = Thread(target=lambda: run.work(executor=executor))
        working.start()
        until(lambda: list(folder.iterdir()))
        first.kill()
        first.wait()
        until(lambda: executor._client.status == "closed")  # it has given the scheduler up
        stack.enter_context(dask("scheduler", *scheduler))
        stack.enter_context(dask("worker", *helper))
        until(lambda: len(list(folder.iterdir())) > 1)
        (folder / "over").touch()
        working.join(HANG_SECONDS)

        assert run.result("wait") == "done"
        assert run.task("wait").record.lost >= 1


PROGRAM = """
import sys
import otolith
from otolith.flows import DbosExecutor
from tests.fault.test_flow_executors import flow

if __name__ == "__main__":
    place, folder = sys.argv[1:]
    with otolith.open(f"{place}/agent.db") as repo, DbosExecutor(
        f"sqlite:///{place}/jobs.sqlite", slots=1
    ) as executor:
        run = repo.session("s").flow(flow, folder=folder)
        run.work(executor=executor)
"""


def test_a_task_of_a_killed_program_is_done_by_the_next_one_and_by_dbos_no_more(tmp_path):
    dbos = pytest.importorskip("dbos")
    folder = tmp_path / "jobs"
    folder.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path), str(folder)]
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=path) as killed:
        until(lambda: list(folder.iterdir()))
        killed.kill()
    with subprocess.Popen(command, env=path) as second:
        until(lambda: len(list(folder.iterdir())) > 1)
        found = dbos.DBOSClient(system_database_url=f"sqlite:///{tmp_path}/jobs.sqlite")
        until(lambda: [each.status for each in found.list_workflows()].count("SUCCESS") == 1)
        (folder / "over").touch()
        assert second.wait(HANG_SECONDS) == 0
        found.destroy()

    with otolith.open(tmp_path / "agent.db") as repo:
        run = repo.session("s").flow(key="dask")
        assert (run.result("wait"), run.task("wait").record.attempt) == ("done", 2)
    assert len(list(folder.iterdir())) == 3  # begun twice, and over
