"""Workers of flows that are killed or frozen: what was done stays done, and nothing is done twice.

`--long` kills some hundred of them, on SQLite and on Postgres.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import otolith
from otolith.flows import Flow, FlowTask
from tests.fault.flow_worker import CHAIN, TASKS, WIDTH
from tests.fault.killing import killed_and_ended
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh

WORKER = Path(__file__).with_name("flow_worker.py")
SLOTS, KILLS = 2, 6
MOST_KILLS, LEAST_KILLS = 8, 300


def check(url, log, *, lost_at_most, counted):
    """Check that each task was done once, and the tasks in flight at a kill at most once more."""
    began: Counter[str] = Counter()
    keys: dict[str, set[str]] = defaultdict(set)
    for line in Path(log).read_text().splitlines():
        what, name, key = line.split()
        if what == "begin":
            began[name] += 1
            keys[name].add(key)
    with otolith.open(url) as repo:
        state = repo.session("s")
        run = state.flow(key="run")
        views = {each.name: each for each in run.tasks()}
        assert run.progress().counts == {"done": TASKS}
        assert state.get("counted", 0) == counted
    assert set(began) == set(views)
    assert sum(began.values()) - TASKS <= lost_at_most
    for name, view in views.items():
        assert began[name] <= view.record.attempt
        assert len(keys[name]) == 1  # every attempt is the same piece of work


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_worker_that_is_killed_again_and_again(tmp_path, executor):
    url, log = str(tmp_path / "run.db"), tmp_path / "log"
    kills = KILLS if executor == "threads" else KILLS // 2  # for those take long to begin
    killed = killed_and_ended(
        WORKER, url, log, SLOTS, executor, kills=kills, chance=random.Random(1)
    )
    counted = TASKS // 2 if executor == "threads" else 0
    check(url, log, lost_at_most=killed * SLOTS, counted=counted)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_many_kills(tmp_path, store, request, record_property):
    """Only kills count that a worker did not come before: so runs are begun until there are 300."""
    killed = runs = 0
    while killed < LEAST_KILLS:
        folder = tmp_path / f"run-{runs}"
        folder.mkdir()
        url = str(folder / "run.db")
        if store == "postgres":
            url = fresh(request.getfixturevalue("postgres_url"))
        chance = random.Random(runs)
        found = killed_and_ended(
            WORKER, url, folder / "log", SLOTS, "threads", kills=MOST_KILLS, chance=chance
        )
        check(url, folder / "log", lost_at_most=found * SLOTS, counted=TASKS // 2)
        killed, runs = killed + found, runs + 1
    record_property(f"kills of workers, {store}", killed)
    record_property(f"runs in which workers were killed, {store}", runs)

    assert killed >= LEAST_KILLS


def started(url, log, slots=SLOTS):
    command = [sys.executable, str(WORKER), url, str(log), str(slots), "threads"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_several_workers_of_which_some_die(tmp_path):
    url, log, chance = str(tmp_path / "run.db"), tmp_path / "log", random.Random(7)
    first = [started(url, log) for _ in range(3)]
    for process in first[:2]:
        time.sleep(chance.random() * 0.02)
        process.kill()
    said, _ = first[2].communicate(timeout=HANG_SECONDS)
    for process in first[:2]:
        process.communicate()

    assert said.endswith("done\n")
    check(url, log, lost_at_most=2 * SLOTS, counted=TASKS // 2)


def test_a_frozen_worker_that_comes_back_is_refused(tmp_path):
    url, log = str(tmp_path / "run.db"), tmp_path / "log"
    frozen = started(url, log)
    assert frozen.stdout is not None
    frozen.stdout.readline()  # the first task is done, others run
    frozen.send_signal(signal.SIGSTOP)
    try:
        other = started(url, log)
        said, _ = other.communicate(timeout=HANG_SECONDS)
        assert said.endswith("done\n")
        check(url, log, lost_at_most=SLOTS, counted=TASKS // 2)
    finally:
        frozen.send_signal(signal.SIGCONT)
    said, _ = frozen.communicate(timeout=HANG_SECONDS)

    assert said.endswith("done\n")
    check(url, log, lost_at_most=SLOTS, counted=TASKS // 2)


def until(is_so):
    deadline = time.monotonic() + HANG_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_a_worker_returns_that_lost_its_task_is_refused_while_another_works_on_it(tmp_path):
    """The first is frozen past its lease, and comes back in the middle of the next attempt."""
    url, folder = str(tmp_path / "run.db"), tmp_path / "said"
    folder.mkdir()
    program = Path(__file__).with_name("fence_worker.py")
    command = [sys.executable, str(program), url, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as late:
        until((folder / f"begun-{late.pid}").exists)
        late.send_signal(signal.SIGSTOP)
        try:
            other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            until((folder / f"begun-{other.pid}").exists)
            (folder / f"go-{late.pid}").touch()
        finally:
            late.send_signal(signal.SIGCONT)
        assert late.stdout is not None
        assert [late.stdout.readline() for _ in range(2)] == ["ready\n", "refused 1\n"]
        with otolith.open(url) as repo:
            record = repo.session("s").flow(key="run").task("hold").record
            assert (record.status, record.attempt) == ("running", 2)
        (folder / f"go-{other.pid}").touch()
        assert other.communicate(timeout=HANG_SECONDS)[0] == "ready\nended\n"
        late.communicate(timeout=HANG_SECONDS)

    with otolith.open(url) as repo:
        assert repo.session("s").flow(key="run").result("hold") == other.pid


def test_the_shape_is_what_it_says():
    assert TASKS == 1 + WIDTH + 1 + CHAIN


class Clock:
    """A clock that can be set."""

    def __init__(self):
        self.shift = 0

    def __call__(self):
        return time.time_ns() // 1000 + self.shift * 1_000_000


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_holds_no_pause_up(hours):
    clock, tries = Clock(), []
    with otolith.open("memory:", clock=clock) as repo:
        flow = Flow("f")

        @flow.task(retries=2, pause="20ms")
        def flaky():
            tries.append(1)
            clock.shift = 3600 * hours if len(tries) == 1 else 0
            if len(tries) < 3:
                raise ConnectionError("not yet")
            return "done"

        run = repo.session("s").flow(flow)
        began = time.monotonic()
        assert run.work().status == "done"
        assert time.monotonic() - began < HANG_SECONDS
    assert len(tries) == 3


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_holds_no_rate_up(hours):
    clock, calls = Clock(), []
    with otolith.open("memory:", clock=clock) as repo:
        flow = Flow("f", resources={"api": 9}, rates={"api": "3/100ms"})

        @flow.subtask
        def ask():
            calls.append(1)
            clock.shift = 3600 * hours if len(calls) in (2, 3) else 0

        for number in range(9):
            flow.add(FlowTask(f"t{number}", call=ask, needs={"api": 1}))
        began = time.monotonic()
        progress = (
            repo.session("s")
            .flow(flow)
            .work(is_stopped=lambda: time.monotonic() - began > HANG_SECONDS)
        )
    assert progress.status == "done"


def test_tasks_of_a_worker_on_another_branch_are_taken_over(tmp_path):
    with otolith.open("memory:") as repo:
        state = repo.session("s")
        flow = Flow("f")
        forked: list[Any] = []

        @flow.task
        def one(task):
            if not forked:
                other = repo.session("s")
                forked.append(other.fork("try"))
            return task.attempt

        flow.add(FlowTask("two", call="one", after="one"))
        state.flow(flow).work()
        run = forked[0].flow(flow)

        assert run.task("one").status == "running"
        assert run.work().status == "done"
        assert run.result("one") == 2
        assert state.flow(key="f").result("one") == 1
