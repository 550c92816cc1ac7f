"""`otolith worker`: works on the runs of a store, alone and beside others, until it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import otolith
from otolith.cli import program
from tests.patience import HANG_SECONDS

FLOWS = """
import os, time
from pathlib import Path
from otolith.flows import Flow

greet = Flow("greet")

@greet.task
def hello(name: str = "you") -> str:
    return f"hello {name}"

@greet.task(after=hello)
def shout(hello):
    return hello.upper()

fails = Flow("fails")

@fails.task
def broken():
    raise ValueError("no\\x1b[31m seats")

asks = Flow("asks")

@asks.task
def seat(task):
    return task.ask("Aisle?")

gated = Flow("gated")

@gated.task
def wait(folder: str):
    with open(Path(folder) / "begun", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while not (Path(folder) / "open").exists():
        time.sleep(0.01)
    return os.getpid()

def made():
    return greet
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"flows_{tmp_path.name.replace('-', '_')}"  # a module of its own for each test
    (tmp_path / f"{name}.py").write_text(FLOWS)
    return Place(tmp_path, name)


class Place:
    """A folder with a store and a file of flows."""

    def __init__(self, folder: Path, module: str) -> None:
        self.folder = folder
        self.module = module
        self.file = f"{module}.py"

    def begin(
        self, flow: str, *, session: str = "s", key: str | None = None, **inputs: Any
    ) -> None:
        with otolith.open("a.db") as repo:
            found = getattr(import_module(self.module), flow)
            repo.session(session).flow(found, key=key, **inputs)

    def task(self, key: str, task: str, session: str = "s") -> Any:
        with otolith.open("a.db") as repo:
            return repo.session(session).flow(key=key).task(task)

    def result(self, key: str, task: str, session: str = "s") -> Any:
        with otolith.open("a.db") as repo:
            return repo.session(session).flow(key=key).result(task)


def work(*words: str) -> Result:
    return CliRunner().invoke(program, ["worker", "a.db", "--once", *words])


@contextmanager
def worker(*words: str) -> Iterator[Lines]:
    """Start a worker as a user does; it is ended at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "otolith.cli", "worker", "a.db", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Lines(process)
    finally:
        process.kill()
        process.communicate()


class Lines:
    """What a worker prints, as JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, **fields: Any) -> dict[str, Any]:
        """Return the next line with these fields."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if fields.items() <= found.items():
                return found
        assert self.process.stderr is not None
        raise AssertionError((fields, self.process.stderr.read()))

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; return the exit code, and what was printed as an error."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=HANG_SECONDS)
        return self.process.returncode, error


# ---------------------------------------------------------------- once


def test_all_runs_of_a_store_are_done(place):
    place.begin("greet", session="a", name="ann")
    place.begin("greet", session="b", key="second")

    result = work("--code", f"{place.file}:greet")

    assert result.exit_code == 0, result.output
    assert place.result("greet", "shout", "a") == "HELLO ANN"
    assert place.result("second", "shout", "b") == "HELLO YOU"
    assert "a/greet  done  2 of 2 tasks done" in result.stdout.splitlines()
    assert result.stderr == "Works on greet, 4 tasks at once.\n"


def test_code_is_named_as_a_file_or_a_module_or_a_function_that_makes_a_flow(place):
    for at, code in enumerate(
        [place.file, f"{place.module}:greet", f"{place.file}:made", place.module]
    ):
        place.begin("greet", key=f"run {at}")
        assert work("--code", code).exit_code == 0
        assert place.result(f"run {at}", "hello") == "hello you"


def test_the_exit_code_says_how_the_runs_ended(place):
    place.begin("asks")
    result = work("--code", place.file)
    assert (
        result.exit_code,
        "s/asks  waiting  0 of 1 task done  seat: Aisle?" in result.stdout,
    ) == (
        8,
        True,
    )
    place.begin("fails")
    result = work("--code", place.file)
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert "s/fails  failed  0 of 1 task done  broken: ValueError: no" in result.stdout
    assert work("--code", place.file).exit_code == 0  # nothing was left that could go on


def test_a_run_of_a_flow_that_the_code_has_not_is_told(place):
    place.begin("fails")
    place.begin("greet")

    result = work("--code", f"{place.file}:greet")

    assert "s/fails  unknown  this worker does not have the flow 'fails'" in result.stdout
    assert place.task("fails", "broken").status == "pending"
    assert place.result("greet", "hello") == "hello you"


def test_every_change_is_a_line_of_json(place):
    place.begin("greet")
    lines = [json.loads(line) for line in work("--code", place.file, "--json").stdout.splitlines()]

    for each in lines:
        assert {"kind", "session", "key", "flow", "status"} <= each.keys()
        assert (each["session"], each["key"], each["flow"]) == ("s", "greet", "greet")
    assert [(each["kind"], each["status"]) for each in lines if each["kind"] == "run"] == [
        ("run", "running"),
        ("run", "done"),
    ]
    last = {each["task"]["name"]: each["task"] for each in lines if each["kind"] == "task"}
    assert {name: task["status"] for name, task in last.items()} == {
        "hello": "done",
        "shout": "done",
    }
    assert lines[-1]["run"]["done"] == 2


def test_tasks_run_in_other_processes(place):
    (place.folder / "open").touch()
    place.begin("gated", folder=str(place.folder))

    for code in (place.file, place.module):
        result = work("--code", code, "--executor", "processes", "--slots", "1")
        assert result.exit_code == 0, result.output
        pid = place.result("gated", "wait")
        with otolith.open("a.db") as repo:
            repo.session("s").flow(key="gated").retry("wait")
        assert pid != os.getpid()


# ---------------------------------------------------------------- until it is stopped


def test_what_runs_is_given_back_at_ctrl_c(place):
    place.begin("gated", folder=str(place.folder))
    with worker("--code", place.file) as lines:
        lines.until(kind="task", status="running")
        assert lines.end(signal.SIGINT) == (130, "")

    task = place.task("gated", "wait")
    assert (task.status, task.record.worker) == ("pending", "")


def test_a_supervisor_ends_it_without_an_error(place):
    place.begin("gated", folder=str(place.folder))
    with worker("--code", place.file, "--executor", "processes") as lines:
        lines.until(kind="task", status="running")
        assert lines.end(signal.SIGTERM) == (0, "")

    assert place.task("gated", "wait").status == "pending"


def test_ctrl_c_ends_what_runs_in_other_processes_quietly(place):
    place.begin("gated", folder=str(place.folder))
    with worker("--code", place.file, "--executor", "processes", "--slots", "2") as lines:
        lines.until(kind="task", status="running")
        os.killpg(lines.process.pid, signal.SIGINT)  # as a terminal does
        _, error = lines.process.communicate(timeout=HANG_SECONDS)
        assert (lines.process.returncode, error) == (130, "")


def test_a_run_that_begins_later_is_taken_up(place):
    place.begin("greet")
    with worker("--code", place.file) as lines:
        lines.until(kind="run", status="done")
        place.begin("greet", session="later")
        lines.until(kind="run", status="done", session="later")
        assert lines.end(signal.SIGINT)[0] == 130


def test_what_a_killed_worker_had_is_done_by_another(place):
    place.begin("gated", folder=str(place.folder))
    with worker("--code", place.file) as first, worker("--code", place.file) as second:
        task = first.until(kind="task", status="running")["task"]
        killed, other = first, second
        if f"/{second.process.pid}/" in task["worker"]:
            killed, other = second, first
        else:
            other.until(kind="run", status="running")
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait(HANG_SECONDS)
        (place.folder / "open").touch()
        other.until(kind="run", status="done")

    record = place.task("gated", "wait").record
    assert (record.attempt, record.lost) == (2, 1)
    assert place.result("gated", "wait") == other.process.pid


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "error: missing option '--code'."),
        (["--code", "none.py"], 2, "error: there is no file none.py"),
        (["--code", "no_such_module"], 2, "error: there is no module no_such_module"),
        (["--code", "FILE:x"], 2, "x is not a flow in FILE\nhint: its flows are greet, fails"),
        (["--code", "FILE", "--slots", "0"], 2, "0 is not in the range x>=1"),
        (["--code", "FILE", "--slots", "-1"], 2, "-1 is not in the range x>=1"),
        (["--code", "FILE", "--executor", "thread"], 2, "there is no executor 'thread'"),
        (["--code", "empty.py"], 2, "empty.py has no flow\nhint: name it as "),
        (
            ["--code", "FILE", "--code", "twice.py"],
            2,
            "two flows have the name 'greet': in FILE and",
        ),
        (["--code", "raises.py"], 1, "raises.py raised ZeroDivisionError"),
    ],
)
def test_bad_input_is_told_with_what_to_do(place, words, code, told):
    place.begin("greet")
    (place.folder / "empty.py").write_text("x = 1\n")
    (place.folder / "raises.py").write_text("1 / 0\n")
    (place.folder / "twice.py").write_text(FLOWS)
    result = work(*(word.replace("FILE", place.file) for word in words))

    assert (result.exit_code, result.stdout) == (code, "")
    assert told.replace("FILE", place.file) in result.stderr
    assert "hint: " in result.stderr


def test_a_worker_is_of_a_whole_store_that_is_there(place):
    place.begin("greet")
    assert "no store at" in CliRunner().invoke(
        program, ["worker", "other.db", "--code", place.file]
    ).stderr  # fmt: skip
    result = CliRunner().invoke(program, ["-s", "s", "worker", "a.db", "--code", place.file])
    assert (result.exit_code, "a worker works on all sessions" in result.stderr) == (2, True)
    result = CliRunner().invoke(
        program, ["--store", "b.db", "worker", "a.db", "--code", place.file]
    )
    assert (result.exit_code, "the store is named twice: b.db and a.db" in result.stderr) == (
        2,
        True,
    )


def test_edited_code_is_told_with_what_to_do(place):
    place.begin("asks")
    work("--code", place.file)
    with otolith.open("a.db") as repo:
        repo.session("s").flow(key="asks").answer("seat", "yes")
        (place.folder / "more.py").write_text(FLOWS)
    place.begin("greet")
    work("--code", place.file)
    (place.folder / "edited.py").write_text(
        FLOWS.replace('f"hello {name}"', 'f"hi {name}"')
        + "\n@greet.task(after=shout)\ndef sing(shout):\n    return shout\n"
    )
    with otolith.open("a.db") as repo:
        edited = import_module("edited").greet
        repo.session("s").flow(edited, key="greet")

    result = work("--code", "edited.py:greet")
    assert result.exit_code == 8
    assert "hello of run greet were done by code that was edited" in result.stdout
    assert "`otolith worker --edited keep` keeps the results" in result.stdout
    assert work("--code", "edited.py:greet", "--edited", "rerun").exit_code == 0
    assert place.result("greet", "sing") == "HI YOU"
