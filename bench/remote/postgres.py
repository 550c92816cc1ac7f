"""Postgres: what a commit costs beside a bare statement, and what crowds of writers reach.

Postgres runs on the disk of this machine, so that a commit waits for the disk as it does elsewhere.
Writers are processes; on a machine with few cores these, not the server, are the limit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from operator import truediv
from statistics import median
from time import perf_counter

import psycopg
from blake3 import blake3

import otolith
from bench.ground import SESSION, Changes, Ground, items, tell
from bench.remote.crowd import race
from bench.table import Budget, Figure, Row, compared
from bench.timing import Samples, alternate
from otolith.errors import StaleRef
from otolith.stores import Batch, Object, PostgresStore, Swap
from otolith.types import Hash
from tests.servers.postgres import PostgresServer, fresh, postgres_server
from tests.servers.proxy import Proxy

WRITERS = 4


def rows(ground: Ground) -> Iterator[Row]:
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
    keys, commits = ground.sizes.server_keys, 10
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
        "postgres-trips-commit",
        "round trips of a commit, Postgres",
        Figure(each, ""),
        budget=Budget(1, ""),
    )
    work = f"round trips of a cold read, one of {keys:,} keys, Postgres"
    yield Row("postgres-trips-cold", work, Figure(cold, ""))
    yield Row(
        "postgres-trips-warm",
        "round trips of a warm read, Postgres",
        Figure(warm, ""),
        budget=Budget(0, ""),
    )


def _crowds(ground: Ground, server: PostgresServer) -> Iterator[Row]:
    """Let one process, several on one ref, and several on their own, swap as fast as they can.

    They do so in turns, so that a disk that is busy with others disturbs all alike.
    """
    rounds = ground.sizes.races
    seconds = ground.sizes.race_seconds / rounds
    url = fresh(server.url)
    one, same, own, unfair = [], [], [], []
    for turn in range(rounds):
        one.append(sum(_crowd(url, [f"alone {turn}"], seconds)))
        counts = _crowd(url, [f"same {turn}"] * WRITERS, seconds)
        same.append(sum(counts))
        unfair.append(max(counts) / max(1, min(counts)))
        own.append(sum(_crowd(url, [f"own {turn} {at}" for at in range(WRITERS)], seconds)))
    with closing(PostgresStore(url)) as store:
        chains = [len(store.moves(f"same {turn}")) for turn in range(rounds)]
    assert chains == same, f"{same} swaps returned, {chains} are in the histories"
    alone, together, apart = (Figure(median(each) / seconds, "/s") for each in (one, same, own))
    note = f"median of {rounds} rounds in turns; one ref: commits reach the disk one by one"
    budget = Budget(500, "/s", at_least=True)
    work, between = f"{WRITERS} processes on one ref, Postgres", median(map(truediv, same, one))
    yield Row("postgres-same", work, together, "one process", alone, between, budget, note=note)
    work, fair = f"{work}: most over fewest commits", Figure(median(unfair), "x")
    yield Row("postgres-fair", work, fair, budget=Budget(2, "x"), note=note)
    budget = Budget(3, "x", of="ratio", at_least=True)
    work, between = (
        f"{WRITERS} processes on refs of their own, Postgres",
        median(map(truediv, own, one)),
    )
    yield Row("postgres-own", work, apart, "one process", alone, between, budget, note=note)


def _crowd(url: str, refs: list[str], seconds: float) -> list[int]:
    """Return how many swaps each of some processes made at the same time."""
    PostgresStore(url).close()
    found = race(__name__, [[url, str(seconds), ref] for ref in refs])
    return [int(json.loads(each)) for each in found.printed]


def take_part(url: str, seconds: str, ref: str) -> None:
    """Swap a ref to new objects for some seconds, and print how often that succeeded."""
    store = PostgresStore(url)
    print("ready", flush=True)
    sys.stdin.readline()
    head, done, end = store.ref(ref), 0, perf_counter() + float(seconds)
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
