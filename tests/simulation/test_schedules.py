"""A thousand schedules of processes, threads, collectors, kills, forks and faults.

With --long a million, from seeds that are new each time.

Each is decided by its seed alone. To look at one that failed:
`.venv/bin/python -m tests.simulation WORKLOAD SEED`.
"""

from __future__ import annotations

import random

import pytest

from otolith.errors import Error
from tests.conftest import is_random
from tests.simulation import joins, workloads
from tests.simulation.linearizability import Call, LookCall, SwapCall, is_linearizable, step_of_ref
from tests.simulation.mutants import MUTANTS

TIMES_LONG = 1000
SCHEDULES = [
    *((workloads.Teamwork, 30 * part, 30) for part in range(10)),
    (workloads.Templates, 0, 100),
    (workloads.Tags, 0, 100),
    (workloads.Forks, 0, 80),
    (workloads.Undoing, 0, 80),
    (workloads.Stashes, 0, 80),
    (workloads.Rot, 0, 60),
    (joins.Crossings, 0, 60),
    (joins.Migrating, 0, 50),
    (joins.Limits, 0, 40),
    (joins.Neighbours, 0, 30),
    (joins.Held, 0, 16),
    (joins.Circles, 0, 4),
]


def test_the_default_run_has_a_thousand_schedules():
    assert sum(count for _, _, count in SCHEDULES) == 1000


@pytest.mark.parametrize(
    ("workload", "first", "count"),
    SCHEDULES,
    ids=[f"{workload.__name__}-{first}" for workload, first, _ in SCHEDULES],
)
def test_every_schedule_ends_as_promised(workload, first, count, rounds, request, tmp_path):
    start = random.SystemRandom().randrange(1 << 40) if is_random(request.config) else first
    for seed in range(start, start + rounds(count, count * TIMES_LONG)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            workload(seed, folder).run()
        except BaseException as error:
            error.add_note(f"to repeat it: python -m tests.simulation {workload.__name__} {seed}")
            raise
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_fault_that_was_mended_is_found_when_it_is_put_back(mutant, tmp_path):
    for seed in range(400):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            with mutant.break_it():
                mutant.workload(seed, folder).run()
        except (AssertionError, Error):
            return
    pytest.fail(f"400 schedules of {mutant.workload.__name__} did not find it")


def test_the_same_seed_does_the_same_again(tmp_path):
    def calls(folder):
        folder.mkdir()
        work = workloads.Teamwork(11, folder)
        work.run()
        return {ref: [(c.who, c.called, c.answered) for c in some] for ref, some in work.calls()}

    assert calls(tmp_path / "one") == calls(tmp_path / "two")


A, B, C = b"a", b"b", b"c"


@pytest.mark.parametrize(
    ("calls", "is_right"),
    [
        ([Call("p", SwapCall(None, A), 1, 2, True), Call("q", LookCall(), 3, 4, A)], True),
        ([Call("p", SwapCall(None, A), 1, 2, True), Call("q", LookCall(), 3, 4, None)], False),
        ([Call("p", SwapCall(None, A), 1, 5, True), Call("q", LookCall(), 2, 3, None)], True),
        ([Call("p", SwapCall(None, A), 1), Call("q", LookCall(), 2, 3, A)], True),
        ([Call("p", SwapCall(None, A), 1), Call("q", LookCall(), 2, 3, None)], True),
        (
            [
                Call("p", SwapCall(None, A), 1),
                Call("q", LookCall(), 2, 3, A),
                Call("q", LookCall(), 4, 5, None),
            ],
            False,
        ),
        (
            [
                Call("p", SwapCall(A, B), 1, 9, True),
                Call("q", SwapCall(A, C), 2, 8, True),
            ],
            False,
        ),
        (
            [
                Call("p", SwapCall(A, B), 1, 9, True),
                Call("q", SwapCall(A, C), 2, 8, False),
                Call("r", LookCall(), 3, 4, B),
            ],
            True,
        ),
    ],
)
def test_the_checker_finds_an_order_or_says_that_there_is_none(calls, is_right):
    start = A if calls[0].what.old == A else None
    assert is_linearizable(calls, start, step_of_ref) is is_right
