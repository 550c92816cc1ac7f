"""Executors of this machine: processes that die, programs that end, and executors by text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest

from otolith.errors import Invalid, MissingExtra, Unavailable
from otolith.flows import (
    DaskExecutor,
    DbosExecutor,
    Flow,
    InlineExecutor,
    ProcessExecutor,
    TaskJob,
    ThreadExecutor,
    open_executor,
)
from tests.patience import HANG_SECONDS

flow = Flow("processes")


@flow.task
def where(folder: str) -> int:
    return os.getpid()


@flow.task
def hang_with_child(folder: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(folder, "pids.new").write_text(f"{os.getpid()} {child.pid}")
    Path(folder, "pids.new").rename(Path(folder, "pids"))
    child.wait()


@flow.task
def leave(folder: str) -> None:
    os._exit(3)


def job(task, folder):
    return TaskJob("run", task.name, 1, "key", task, inputs={"folder": str(folder)}, results={})


def until(is_so):
    deadline = monotonic() + HANG_SECONDS
    while not is_so():
        assert monotonic() < deadline
        sleep(0.01)


def is_gone(pid):
    """Tell whether a process has ended, and somebody has taken note of it: it is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def begun_with_child(executor, folder):
    """Begin a job that hangs, as does a process that it has started; return the handle and both."""
    handle = executor.submit(job(hang_with_child, folder), lambda: None)
    until((folder / "pids").exists)
    return handle, [int(each) for each in (folder / "pids").read_text().split()]


def ended_of(executor, handle):
    until(lambda: executor.poll(handle) is not None)
    return executor.poll(handle)


def ended(executor, task, folder):
    wake = Event()
    handle = executor.submit(job(task, folder), wake.set)
    assert wake.wait(HANG_SECONDS)
    return executor.poll(handle)


def test_a_job_whose_process_is_killed_is_lost(tmp_path):
    with ProcessExecutor(1) as executor:
        handle, (pid, _) = begun_with_child(executor, tmp_path)
        os.kill(pid, signal.SIGKILL)
        end = ended_of(executor, handle)

        assert end.how == "lost"
        assert "exit code -9" in end.text
        assert ended(executor, where, tmp_path).how == "returned"
    assert is_gone(pid)


def test_a_job_that_ends_its_process_is_lost(tmp_path):
    with ProcessExecutor(1) as executor:
        assert ended(executor, leave, tmp_path).how == "lost"


def test_a_cancelled_job_ends_with_all_that_it_has_started(tmp_path):
    with ProcessExecutor(1) as executor:
        handle, pids = begun_with_child(executor, tmp_path)
        executor.cancel(handle)

        until(lambda: is_gone(pids[0]))  # while the executor goes on
        until(lambda: not is_running(pids[1]))


def is_running(pid):
    """Tell whether a process runs; one that nobody has taken note of does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_processes_are_used_again_and_gone_after_closing(tmp_path):
    with ProcessExecutor(2) as executor:
        pids = {ended(executor, where, tmp_path).result for _ in range(5)}
        assert len(pids) == 1
    assert all(map(is_gone, pids))


def test_the_start_of_a_process_is_not_part_of_the_time_of_a_job(tmp_path):
    with ProcessExecutor(1) as executor:
        submitted = monotonic()
        handle = executor.submit(job(where, tmp_path), lambda: None)
        end = ended_of(executor, handle)
        assert handle.began is not None
        started = handle.began - submitted
    assert started > 0.01  # no Python starts sooner
    assert end.seconds < monotonic() - submitted - started


class BusyAtFirst(ThreadExecutor):
    """Threads that take no jobs for a while."""

    refusals = 3

    def submit(self, job, wake):
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("no workers yet", hint="wait")
        return super().submit(job, wake)


def test_a_worker_waits_for_an_executor_that_takes_no_jobs(state):
    run = state.flow(flow, folder="", key="k")
    run.cancel("hang_with_child")
    run.cancel("leave")
    with BusyAtFirst(2) as executor:
        run.work(executor=executor)

    assert executor.refusals == 0
    assert (run.result("where"), run.task("where").record.attempt) == (os.getpid(), 1)


def test_a_task_that_always_ends_its_process_is_given_up(state, tmp_path):
    run = state.flow(flow, folder=str(tmp_path), key="k")
    run.cancel("hang_with_child")
    with ProcessExecutor(1) as executor:
        assert run.work(executor=executor).status == "failed"

    record = run.task("leave").record
    said = f"its worker died {record.attempt} times: its process has ended, exit code 3"
    assert record.error == said


# -------------------- programs

PROGRAM = """
from pathlib import Path
from threading import Event
from time import sleep
import otolith
from otolith.flows import Flow, TaskJob, {executor}

place = Path(__file__).parent

flow = Flow("program")

@flow.task
def add(a: int, b: int) -> int:
    return a + b

@flow.task(after=add)
def wait(add: int) -> None:
    (place / "waits").touch()
    Event().wait()
{rest}
"""
GUARDED = """
if __name__ == "__main__":
    with otolith.open("memory:") as repo:
        run = repo.session("s").flow(flow, a=1, b=2)
        run.cancel("wait")
        with {executor}(2) as executor:
            print(run.work(executor=executor).status, run.result("add"))
"""
UNGUARDED = """
with otolith.open("memory:") as repo:
    run = repo.session("s").flow(flow, a=1, b=2)
    run.work(executor={executor}(2))
    print(run.progress().failures["add"])
"""
ENDS = """
if __name__ == "__main__":
    executor = {executor}(2)  # nobody closes it
    job = TaskJob("run", "wait", 1, "key", wait, inputs={{"add": 1}}, results={{}})
    executor.submit(job, lambda: None)
    while not (place / "waits").exists():
        sleep(0.01)
"""


def program(tmp_path, rest, executor):
    place = tmp_path / "program.py"
    rest = rest.format(executor=executor)
    place.write_text(PROGRAM.format(executor=executor, rest=rest))
    return [sys.executable, str(place)]


def printed(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=True)
    return done.stdout.splitlines()


def test_tasks_of_a_program_run_in_processes(tmp_path):
    assert printed(program(tmp_path, GUARDED, "ProcessExecutor")) == ["cancelled 3"]


def test_a_program_without_a_guard_is_told_what_it_lacks(tmp_path):
    lines = printed(program(tmp_path, UNGUARDED, "ProcessExecutor"))
    assert len(lines) == 1
    assert "a program that uses processes needs a guard, if __name__ == '__main__'" in lines[0]


@pytest.mark.parametrize("executor", ["ThreadExecutor", "ProcessExecutor"])
def test_a_job_that_hangs_holds_up_the_end_of_no_program(tmp_path, executor):
    assert printed(program(tmp_path, ENDS, executor)) == []


WORKER = """
import sys
from tests.unit.flows.test_executors import hang_with_child, job
from otolith.flows import ProcessExecutor

if __name__ == "__main__":
    executor = ProcessExecutor(1)
    executor.submit(job(hang_with_child, sys.argv[1]), lambda: None)
    sys.stdin.read()
"""


def test_a_job_ends_with_the_worker_that_is_killed(tmp_path):
    place = tmp_path / "worker.py"
    place.write_text(WORKER)
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, str(place), str(tmp_path)],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": root},
    ) as worker:
        until((tmp_path / "pids").exists)
        pids = [int(each) for each in (tmp_path / "pids").read_text().split()]
        worker.kill()
        until(lambda: not any(map(is_running, pids)))


# -------------------- by text


@pytest.mark.parametrize(
    ("text", "kind", "slots"),
    [
        ("inline", InlineExecutor, 1),
        ("threads", ThreadExecutor, 4),
        ("threads:7", ThreadExecutor, 7),
        ("processes:3", ProcessExecutor, 3),
        ("processes", ProcessExecutor, os.cpu_count()),
    ],
)
def test_an_executor_has_a_text(text, kind, slots):
    with open_executor(text) as executor:
        assert (type(executor), executor.slots) == (kind, slots)


def test_slots_count_where_the_text_does_not_say_them():
    assert open_executor("threads", slots=9).slots == 9
    assert open_executor("threads:2", slots=9).slots == 2


@pytest.mark.parametrize(
    "text", ["", "thread", "threads:", "threads:0", "threads:-1", "threads:x", "inline:2",
             "dask", "dask:", "dask://", "dask:4"],
)  # fmt: skip
def test_a_text_that_names_no_executor_is_refused(text):
    with pytest.raises(Invalid) as refused:
        open_executor(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("module", "make", "command"),
    [
        ("distributed", lambda: DaskExecutor("tcp://127.0.0.1:1"), "pip install 'otolith[dask]'"),
        ("dbos", DbosExecutor, "pip install 'otolith[dbos]'"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_command(monkeypatch, module, make, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f"needs the package {module}") as missing:
        make()
    assert missing.value.hint == command


def test_a_dbos_that_nobody_has_launched_is_asked_for():
    pytest.importorskip("dbos")
    with pytest.raises(Invalid, match="DBOS was not launched"):
        open_executor("dbos")
