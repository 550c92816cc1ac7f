"""One durable step of a run: what it costs beside a commit, an INSERT and a step of DBOS.

A step of a chain is one turn of a worker: it commits what the last task returned, and that the next
one has begun, and calls it. The commit beside it writes the same three values to as deep places of
a state of the same size, cell by cell, so that its cost does not grow with what the state holds.
The INSERT writes as many bytes as a step adds to the store. All take turns, in one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from time import perf_counter, process_time
from typing import Any

import psycopg

import otolith
from bench.ground import Ground, Sizes, tell
from bench.peers import connect
from bench.table import Absent, Budget, Row, against, compared, time_of
from bench.timing import Samples, Step, alternate
from otolith.core import Branch
from otolith.flows import Flow, FlowTask, InlineExecutor, TaskRecord
from tests.servers.postgres import fresh, postgres_server

CLOCKS = {"": perf_counter, "-cpu": process_time}
_WARM_UP = 20
_TEXT = "a value of some forty-five bytes, of step %7d"


def rows(ground: Ground) -> Iterator[Row]:
    for durability in ("full", "fast"):
        yield from _sqlite(ground, durability)
    yield from _postgres(ground)


def _sqlite(ground: Ground, durability: str) -> Iterator[Row]:
    tell(f"steps of a chain, SQLite {durability}")
    sizes, where = ground.sizes, f"one step of a chain, SQLite {durability}"
    with ExitStack() as stack:
        places = [str(ground.place(name)) for name in ("steps", "commits")]
        steps: dict[str, Step] = {
            "step": stack.enter_context(chain_steps(places[0], sizes, durability)),
            "commit": stack.enter_context(same_changes(places[1], sizes, durability)),
        }
        dbos = _dbos(stack, f"sqlite:///{ground.place('dbos')}.sqlite")
        for tag, took in _measured(steps, dbos, sizes).items():
            name, what = f"step-{durability}{tag}", f"{where}{', processor' if tag else ''}"
            beside = "commit of the same change"
            commit, tenth = (Budget(limit, "x", of="ratio") for limit in (1.5, 0.1))
            yield compared(name, what, took["step"], beside, took["commit"], budget=commit)
            name = f"step-dbos-{durability}{tag}"
            yield _beside_dbos(name, what, took, dbos, tenth if tag else None)


def _postgres(ground: Ground) -> Iterator[Row]:
    tell("steps of a chain, Postgres")
    sizes, where = ground.sizes, "one step of a chain, Postgres"
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server(on_disk=True))
        url = fresh(server.url)
        step = stack.enter_context(chain_steps(url, sizes, "full"))
        grown = _stored_bytes(url, step, sizes.block_steps)
        bare = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        bare.execute("create table bare(id bigserial primary key, data bytea)")
        insert = "insert into bare(data) values (%b)"
        steps: dict[str, Step] = {
            "step": step,
            "commit": stack.enter_context(same_changes(fresh(server.url), sizes, "full")),
            "insert": lambda: bare.execute(insert, [os.urandom(grown)]),
        }
        dbos = _dbos(stack, server.url)
        for tag, took in _measured(steps, dbos, sizes).items():
            what = f"{where}{', processor' if tag else ''}"
            budget = None if tag else Budget(1.5, "x", of="ratio")
            beside = f"bare INSERT of its {grown} B"
            yield compared(
                f"step-postgres{tag}", what, took["step"], beside, took["insert"], budget=budget
            )
            yield compared(
                f"step-postgres-commit{tag}",
                what,
                took["step"],
                "commit of the same change",
                took["commit"],
            )
            yield _beside_dbos(f"step-postgres-dbos{tag}", what, took, dbos, None)


def _measured(
    steps: dict[str, Step], dbos: Step | Absent, sizes: Sizes
) -> dict[str, dict[str, Samples]]:
    """Take the time of all, and then the time of the processor."""
    every = steps | ({} if isinstance(dbos, Absent) else {"dbos": dbos})
    for step in every.values():
        for _ in range(_WARM_UP):
            step()
    return {
        tag: alternate(every, blocks=sizes.blocks, times=sizes.block_steps, clock=clock)
        for tag, clock in CLOCKS.items()
    }


def _beside_dbos(
    name: str, what: str, took: dict[str, Samples], dbos: Step | Absent, budget: Budget | None
) -> Row:
    if isinstance(dbos, Absent):
        return against(name, what, time_of(took["step"]), "DBOS, a step", dbos)
    return compared(name, what, took["step"], "DBOS, a step", took["dbos"], budget=budget)


def _dbos(stack: ExitStack, url: str) -> Step | Absent:
    """Return a step of a workflow of DBOS, or why there is none."""
    keeper = connect("dbos", url)
    if isinstance(keeper, Absent):
        return keeper
    stack.callback(keeper.close)
    numbers = count()

    def step() -> None:
        number = next(numbers)
        keeper.change(f"t{number}", _TEXT % number)

    return step


def _add_one(before: str = "") -> str:
    return _TEXT % (int(before[-7:] or 0) + 1)


def _name(number: int) -> str:
    """Return the name of a task; names are in key order, so that no map has to store another."""
    return f"t{number:05d}"


def chain(count: int) -> Flow:
    """Return a flow of tasks, each after the last."""
    flow = Flow("chain")
    first = flow.add(FlowTask(_name(0), function=_add_one))
    for number in range(1, count):
        flow.add(FlowTask(_name(number), call=first, after=_name(number - 1)))
    return flow


def _length(sizes: Sizes) -> int:
    """Return how many steps are taken, and a few more."""
    return len(CLOCKS) * sizes.blocks * sizes.block_steps + 2 * sizes.block_steps + 2 * _WARM_UP


@contextmanager
def chain_steps(url: str, sizes: Sizes, durability: str) -> Iterator[Step]:
    """Lend a function that does one step of a run."""
    with otolith.open(url, durability=durability) as repo:
        run = repo.session("bench").flow(chain(_length(sizes)))
        with run._presence(1, 3600.0) as presence:
            worker = run.worker(InlineExecutor(), presence)
            worker.turn()  # begins the first task
            yield worker.turn
            done = run.progress().done
            assert done > sizes.blocks * sizes.block_steps, f"{done} steps were done"


@contextmanager
def same_changes(url: str, sizes: Sizes, durability: str) -> Iterator[Step]:
    """Lend a function that commits what a step changes."""
    length = _length(sizes)
    names, numbers = [*map(_name, range(length + 1))], count()
    begun = TaskRecord("running", attempt=1, worker="worker-of-some-length@main", began=1 << 50)
    digests = {"memo": bytes(16), "code": bytes(8), "product": bytes(8)}
    done: dict[str, Any] = begun.after("", "return", "accept", ended=1 << 50, **digests).to_data()
    with otolith.open(url, durability=durability) as repo:
        state = Branch(repo.backend, "session/bench/main")
        put = state.cells.put
        state.write_cell(
            ("runs", "chain", "plan"),
            put({name: {"call": "t0", "after": [name]} for name in names}),
        )
        state.write_cell(("runs", "chain", "tasks"), put({}))
        state.write_cell(("runs", "chain", "results"), put({}))
        state.commit()

        def commit() -> None:
            number = next(numbers)
            ended = put({**done, "ended": (1 << 50) + number})
            state.write_cell(("runs", "chain", "tasks", names[number]), ended)
            state.write_cell(("runs", "chain", "tasks", names[number + 1]), put(begun.to_data()))
            state.write_cell(("runs", "chain", "results", names[number]), put(_TEXT % number))
            state.commit(f"t{number} returned")

        yield commit


def _stored_bytes(url: str, step: Step, times: int) -> int:
    """Return how many bytes a step adds to a store."""
    with otolith.open(url) as repo:
        before = repo.store.usage().stored_bytes
        for _ in range(times):
            step()
        return (repo.store.usage().stored_bytes - before) // times
