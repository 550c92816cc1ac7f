"""Stores on servers: what a commit costs beside a bare statement, and what crowds of writers reach.

Postgres runs on the disk of this machine, so that a commit waits for the disk as it does elsewhere.
Writers are processes; on a machine with few cores these, not the server, are the limit.

python -m bench.remote               all rows
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from time import perf_counter

import psycopg
from blake3 import blake3

import otolith
from bench.ground import ROOT, SESSION, Changes, Ground, ground, items, tell
from bench.table import Budget, Figure, Row, compared, text
from bench.timing import Samples, alternate
from otolith.errors import StaleRef
from otolith.stores import Batch, Object, PostgresStore, Swap
from otolith.types import Hash
from tests.servers.postgres import PostgresServer, fresh, postgres_server
from tests.servers.proxy import Proxy

WRITERS = 4


def postgres_rows(ground: Ground) -> Iterator[Row]:
    tell("Postgres")
    with postgres_server(on_disk=True) as server:
        yield from _beside_bare(ground, server)
        yield from _round_trips(ground, server)
        yield from _crowds(ground, server)


def _beside_bare(ground: Ground, server: PostgresServer) -> Iterator[Row]:
    """Time commits of one change, and inserts of as many bytes into a table with a primary key."""
    sizes, url = ground.sizes, fresh(server.url)
    with ExitStack() as stack:
        repo = stack.enter_context(otolith.open(url))
        state = repo.session(SESSION)
        changes = Changes(sizes.few_keys)
        state.update(dict(items(sizes.few_keys)))
        state.commit()
        before = repo.store.usage().stored_bytes

        def commit() -> None:
            key, value = changes.next()
            state[key] = value
            state.commit()

        Samples().run(commit, sizes.block_steps)
        grown = (repo.store.usage().stored_bytes - before) // sizes.block_steps
        bare = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        bare.execute("create table bare(id bigserial primary key, data bytea)")

        def insert() -> None:
            bare.execute("insert into bare(data) values (%b)", [os.urandom(grown)])

        steps = {"ours": commit, "bare": insert}
        took = alternate(steps, blocks=sizes.blocks, times=sizes.block_steps)
    yield compared(
        "postgres-commit",
        f"commit of one change ({grown} B), Postgres",
        took["ours"],
        "bare INSERT",
        took["bare"],
        budget=Budget(1.5, "x", of="ratio"),
    )


def _round_trips(ground: Ground, server: PostgresServer) -> Iterator[Row]:
    keys, commits = ground.sizes.many_keys, 10
    url = fresh(server.url)
    with otolith.open(url, durability="fast") as repo:
        state = repo.session(SESSION)
        state.update(dict(items(keys)))
        state.commit()
    with Proxy(server.port) as proxy:
        there = url.replace(str(server.port), str(proxy.port))
        with otolith.open(there) as repo:
            state = repo.session(SESSION)
            changes = Changes(keys)
            key, value = changes.next()
            before = proxy.round_trips
            assert state[key] is not None
            cold = proxy.round_trips - before
            before = proxy.round_trips
            assert state[key] is not None
            warm = proxy.round_trips - before
            state[key] = value
            state.commit()
            before = proxy.round_trips
            for number in range(commits):
                state[key] = number
                state.commit()
            each = (proxy.round_trips - before) / commits
    yield Row(
        "postgres-trips-commit", "round trips of a commit", Figure(each, ""), budget=Budget(1, "")
    )
    work = f"round trips of a cold read, 1 of {keys} keys"
    yield Row("postgres-trips-cold", work, Figure(cold, ""))
    yield Row(
        "postgres-trips-warm", "round trips of a warm read", Figure(warm, ""), budget=Budget(0, "")
    )


def _crowds(ground: Ground, server: PostgresServer) -> Iterator[Row]:
    """Let processes swap one ref, then each its own, as fast as they can."""
    seconds = 0.5 if ground.sizes.blocks < 10 else 5.0
    url = fresh(server.url)
    one = sum(_crowd(url, ["alone"], seconds))
    same = _crowd(url, ["same"] * WRITERS, seconds)
    own = sum(_crowd(url, [f"own {number}" for number in range(WRITERS)], seconds))
    with_store = PostgresStore(url)
    chain = len(with_store.moves("same"))
    with_store.close()
    assert chain == sum(same), f"{sum(same)} swaps returned, {chain} are in the history"
    alone = Figure(one / seconds, "/s")
    together = Figure(sum(same) / seconds, "/s")
    note = "one ref: its commits are on the disk one after the other"
    budget = Budget(500, "/s", at_least=True)
    work = f"{WRITERS} writers on one ref"
    between = sum(same) / one
    yield Row("postgres-same", work, together, "one writer", alone, between, budget, note=note)
    fair = Figure(max(same) / max(1, min(same)), "x")
    work = f"{WRITERS} writers on one ref: most over fewest commits"
    yield Row("postgres-fair", work, fair, budget=Budget(2, "x"))
    budget = Budget(3, "x", of="ratio", at_least=True)
    work, apart = f"{WRITERS} writers on {WRITERS} refs", Figure(own / seconds, "/s")
    yield Row("postgres-own", work, apart, "one writer", alone, own / one, budget)


def _crowd(url: str, refs: list[str], seconds: float) -> list[int]:
    """Return how many swaps each of some processes made at the same time."""
    PostgresStore(url).close()
    command = [sys.executable, "-m", "bench.remote", url, str(seconds)]
    crowd = [
        subprocess.Popen(
            [*command, ref], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for ref in refs
    ]
    for process in crowd:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [int(json.loads(process.communicate()[0])) for process in crowd]


def swap(url: str, seconds: float, ref: str) -> None:
    """Swap a ref to new objects for some seconds, and print how often that succeeded."""
    store = PostgresStore(url)
    print("ready", flush=True)
    sys.stdin.readline()
    head, done, end = store.ref(ref), 0, perf_counter() + seconds
    while perf_counter() < end:
        objects = [Object(Hash(blake3(data).digest()), data) for data in _new()]
        try:
            store.write(Batch(objects, [Swap(ref, head, objects[-1].hash)], time=1))
        except StaleRef:
            head = store.ref(ref)
        else:
            head = objects[-1].hash
            done += 1
    store.close()
    print(json.dumps(done))


def _new() -> list[bytes]:
    return [os.urandom(60) for _ in range(4)] + [os.urandom(160)]


KINDS = {"postgres": postgres_rows}
MADE_BY = {"postgres": "postgres"}


if __name__ == "__main__":
    if len(sys.argv) > 3:
        swap(sys.argv[1], float(sys.argv[2]), sys.argv[3])
    else:
        with ground(quick="--quick" in sys.argv) as here:
            print(text([row for rows in KINDS.values() for row in rows(here)]))
