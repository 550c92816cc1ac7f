"""A fork of a run: what it adds to the store, and what is done again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import otolith
from bench.ground import Ground, tell
from bench.table import Budget, Figure, Row
from bench.timing import once
from otolith.flows import Flow, FlowTask

_TASKS = 20


def rows(ground: Ground) -> Iterator[Row]:
    megabytes = ground.sizes.fork_megabytes
    tell(f"a fork of a run with {megabytes} MB of state")
    calls: Counter[int] = Counter()

    def load(number: int, before: bytes = b"") -> bytes:
        calls[number] += 1
        return os.urandom(megabytes * 1_000_000 // _TASKS)

    flow = Flow("fork")
    first = flow.add(FlowTask("t0", function=load, inputs={"number": 0}))
    for number in range(1, _TASKS):
        inputs = {"number": number}
        flow.add(FlowTask(f"t{number}", call=first, inputs=inputs, after=f"t{number - 1}"))
    with otolith.open(ground.place("fork")) as repo:
        state = repo.session("bench")
        state.flow(flow).work()
        assert calls.total() == _TASKS
        before = repo.store.usage().stored_bytes
        assert before >= megabytes * 1_000_000
        forks = []
        took = once(lambda: forks.append(state.fork("other")))
        run = forks[0].flow(flow)
        assert run.work().status == "done"
        done_again = calls.total() - _TASKS
        new = repo.store.usage().stored_bytes - before
        run.retry(f"t{_TASKS - 1}")
        run.work()
        assert calls.total() == _TASKS + done_again + 1
    work = f"fork of a run with {megabytes} MB of results, and work on it"
    yield Row("fork-bytes", f"{work}: new bytes", Figure(new, "B"), budget=Budget(64 << 10, "B"))
    yield Row(
        "fork-again", f"{work}: tasks done again", Figure(done_again, ""), budget=Budget(0, "")
    )
    yield Row("fork-time", f"fork of a run with {megabytes} MB of results", Figure(took, "s"))
