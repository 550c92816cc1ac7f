"""What a worker does first, how long it pauses, and what it records of who did what when."""

from __future__ import annotations

from itertools import pairwise

import pytest

import otolith
from otolith.flows import Flow, FlowTask, InlineExecutor

SECOND = 1_000_000


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 1_000 * SECOND

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(clock):
    with otolith.open("memory:", clock=clock) as repo:
        yield repo.session("trip")


def test_what_has_most_work_after_it_goes_first(state):
    """On one slot, by upward rank: the head of the longer chain before that of the shorter."""
    flow, order = Flow("ranks"), []

    @flow.subtask
    def note(task):
        order.append(task.name)

    chains = {"lone": 1, "short": 2, "long": 4, "middle": 3}
    for name, length in chains.items():
        for number in range(length):
            after = [f"{name}{number - 1}"] if number else []
            flow.add(FlowTask(f"{name}{number}", call=note, after=after))
    state.flow(flow).work()

    heads = [each for each in order if each.endswith("0")]
    assert heads == ["long0", "middle0", "short0", "lone0"]
    assert order.index("long1") < order.index("short0")


def paused(state, clock, monkeypatch, retries):
    """Return the pauses after each failure of a task, in seconds."""
    monkeypatch.setattr("otolith.flows.run_worker.monotonic", lambda: clock.now / SECOND)
    flow = Flow("fails")
    flow.task(lambda: 1 / 0, name="one", retries=retries, pause="1s")
    found: list[float] = []
    run = state.flow(flow)
    with run._presence(1, 3600.0) as presence:
        worker = run.worker(InlineExecutor(), presence)
        while run.task("one").status != "failed":
            worker.turn()
            record = run.task("one").record
            if record.failures > len(found) and record.status == "pending":
                assert record.not_before == pytest.approx(clock.now + record.pause, abs=99)
                found.append(record.pause / SECOND)
                clock.now += record.pause + 1
    return found


def test_each_pause_is_twice_as_long_up_to_a_minute(state, clock, monkeypatch):
    monkeypatch.setattr("otolith.flows.run_worker.random", lambda: 0.5)

    assert paused(state, clock, monkeypatch, 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_pauses_vary_so_that_not_all_come_back_at_once(state, clock, monkeypatch):
    pauses = paused(state, clock, monkeypatch, 5)
    shares = [each / 2**number for number, each in enumerate(pauses)]

    assert all(0.75 <= each <= 1.25 for each in shares)
    assert len(set(shares)) > 1


def test_who_ran_a_task_and_how_long_it_waited_is_recorded(state, clock):
    flow = Flow("waits")

    @flow.subtask
    def work():
        clock.now += 5 * SECOND

    for name in ("a", "b", "c"):
        flow.add(FlowTask(name, call=work))
    names: list[str] = []
    run = state.flow(flow)
    clock.now += 2 * SECOND
    for _ in range(2):
        with run._presence(1, 3600.0) as presence:
            worker, began = run.worker(InlineExecutor(), presence), len(names)
            while run.progress().counts.get("done", 0) <= began and run.status != "done":
                worker.turn()
            worker.give_back()
            names.append(presence.worker)
    run.work()

    tasks = [run.task(name).record for name in ("a", "b", "c")]
    assert [each.waited / SECOND for each in tasks[:1]] == pytest.approx([2], abs=0.1)
    assert all(two.waited - one.waited >= 4.9 * SECOND for one, two in pairwise(tasks))
    assert all(each.ran < SECOND for each in tasks)  # by the clock of the process
    assert tasks[0].worker == names[0]
    assert len({each.worker for each in tasks}) == 3


@pytest.mark.parametrize("needs", [{}, {"mail": 1}])
def test_a_resource_limits_how_many_short_tasks_are_in_flight(state, needs):
    flow, most = Flow("short", resources={"mail": 1}), []
    for number in range(200):
        flow.task(lambda: 1, name=f"t{number}", needs=needs)
    run = state.flow(flow)
    with run._presence(1, 3600.0) as presence:
        run.worker(InlineExecutor(), presence).work(
            on_turn=lambda board: most.append(len(board.held))
        )

    assert run.status == "done"
    assert max(most) == 1 if needs else max(most) > 1
