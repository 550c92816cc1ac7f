"""Postgres: what a commit costs beside a bare statement, and what crowds of writers reach.

Postgres runs on the disk of this machine, so that a commit waits for the disk as it does elsewhere.
Writers are processes; on a machine with few cores these, not the server, are the limit. So the same
is measured with a server that is a millisecond away, where all of them mostly wait.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple

import psycopg
from blake3 import blake3

import otolith
from bench.ground import SESSION, Changes, Ground, Sizes, items, tell
from bench.peers import ServerKeeper, connect
from bench.remote.batches import RecordedStore, batches_like, levels_of
from bench.remote.crowd import race
from bench.remote.distance import FAR, far_from
from bench.table import Absent, Budget, Figure, Row, against, compared, time_of
from bench.timing import Step, alternate
from otolith.errors import StaleRef
from otolith.stores import Batch, Object, PostgresStore, Swap
from otolith.types import Hash
from tests.servers.postgres import PostgresServer, fresh, postgres_server
from tests.servers.proxy import Proxy

WRITERS = 4
PEERS = {"LangGraph PostgresSaver": "langgraph_postgres", "DBOS, a step": "dbos"}


def rows(ground: Ground) -> Iterator[Row]:
    tell("Postgres")
    with postgres_server(on_disk=True) as server:
        for keys in (ground.sizes.few_keys, ground.sizes.some_keys):
            yield from _commits(ground.sizes, server, keys, is_far=False)
        yield from _commits(ground.sizes, server, ground.sizes.few_keys, is_far=True)
        yield from _round_trips(ground, server)
        for is_far in (False, True):
            yield from _crowds(ground, server, is_far=is_far)


def _commits(sizes: Sizes, server: PostgresServer, keys: int, *, is_far: bool) -> Iterator[Row]:
    """Time commits of one change beside inserts of as many bytes, and beside peers."""
    tell(f"Postgres, commits of 1 of {keys} keys{', far' if is_far else ''}")
    with ExitStack() as stack:
        url = stack.enter_context(far_from(server.url, server.port)) if is_far else server.url
        steps, grown = _our_steps(stack, url, sizes, keys)
        peers = {} if is_far else _peers(stack, url, keys)
        steps |= {name: step for name, step in peers.items() if not isinstance(step, Absent)}
        took = alternate(steps, blocks=sizes.blocks, times=sizes.block_steps)
    where = f"1 of {keys:,} keys ({grown} B), Postgres{f' {FAR}' if is_far else ''}"
    tag = f"{keys}{'-far' if is_far else ''}"
    for name, what in {"commit": "commit", "write": "the batch of such a commit alone"}.items():
        work, budget = f"{what}, {where}", Budget(1.5, "x", of="ratio")
        title, bare = f"postgres-{name}-{tag}", took["bare"]
        yield compared(title, work, took[name], "bare INSERT", bare, budget=budget)
    for peer, step in peers.items():
        title, work = f"postgres-peer-{PEERS[peer]}-{tag}", f"commit, {where}"
        if isinstance(step, Absent):
            yield against(title, work, time_of(took["commit"]), peer, step)
        else:
            yield compared(title, work, took["commit"], peer, took[peer])


def _our_steps(stack: ExitStack, url: str, sizes: Sizes, keys: int) -> tuple[dict[str, Step], int]:
    """Return a commit, its batch alone and a bare insert of as many bytes, and how many."""
    repo = stack.enter_context(otolith.open(fresh(url)))
    recorded = RecordedStore(repo.store)
    state, changes = otolith.Repo(recorded).session(SESSION), Changes(keys)
    state.update(dict(items(keys)))
    state.commit()

    def commit() -> None:
        key, value = changes.next()
        state[key] = value
        state.commit()

    grown = _stored_bytes(repo, commit, sizes.block_steps)
    batches = batches_like(recorded.last)
    bare = stack.enter_context(psycopg.connect(url, autocommit=True))
    bare.execute("create table if not exists bare(id bigserial primary key, data bytea)")

    def insert() -> None:
        bare.execute("insert into bare(data) values (%b)", [os.urandom(grown)])

    return {
        "commit": commit,
        "write": lambda: repo.store.write(next(batches)),
        "bare": insert,
    }, grown


def _peers(stack: ExitStack, url: str, keys: int) -> dict[str, Step | Absent]:
    """Return a step of each peer, or why there is none."""
    found: dict[str, Step | Absent] = {}
    changes = Changes(keys)
    for peer, name in PEERS.items():
        keeper = connect(name, url)
        if isinstance(keeper, Absent):
            found[peer] = keeper
            continue
        stack.callback(keeper.close)
        keeper.fill(items(keys))
        found[peer] = partial(_change, keeper, changes)
    return found


def _change(keeper: ServerKeeper, changes: Changes) -> None:
    keeper.change(*changes.next())


def _stored_bytes(repo: otolith.Repo, commit: Step, times: int) -> int:
    """Return how many bytes a commit adds."""
    before = repo.store.usage().stored_bytes
    for _ in range(times):
        commit()
    return (repo.store.usage().stored_bytes - before) // times


def _round_trips(ground: Ground, server: PostgresServer) -> Iterator[Row]:
    keys, commits = ground.sizes.server_keys, 10
    tell(f"Postgres, round trips, {keys} keys")
    url = fresh(server.url)
    with otolith.open(url, durability="fast") as repo:
        state = repo.session(SESSION)
        state.update(dict(items(keys)))
        state.commit()
        levels = levels_of(repo, state)
    with Proxy(server.port) as proxy:
        there = url.replace(str(server.port), str(proxy.port))
        with otolith.open(there) as repo:
            before = proxy.round_trips
            state = repo.session(SESSION)
            session = proxy.round_trips - before
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
    yield Row(
        "postgres-trips-session", "round trips of opening a session, Postgres", Figure(session, "")
    )
    yield Row(
        "postgres-trips-cold",
        f"round trips of a cold read in an open session, one of {keys:,} keys, Postgres",
        Figure(cold, ""),
        "levels of its tree",
        Figure(levels, ""),
        cold / levels,
        Budget(1, "x", of="ratio"),
    )
    yield Row(
        "postgres-trips-warm",
        "round trips of a warm read, Postgres",
        Figure(warm, ""),
        budget=Budget(0, ""),
    )


def _crowds(ground: Ground, server: PostgresServer, *, is_far: bool) -> Iterator[Row]:
    """Let one process, several on one ref, and several on their own, swap as fast as they can.

    They do so in turns, so that a disk that is busy with others disturbs all alike.
    """
    tell(f"Postgres, crowds{', far' if is_far else ''}")
    rounds = ground.sizes.races
    seconds = ground.sizes.race_seconds / rounds
    place = fresh(server.url)
    PostgresStore(place).close()
    one, same, own, unfair = [], [], [], []
    cpu = 0.0
    with ExitStack() as stack:
        urls = [place] * WRITERS
        if is_far:
            urls = [stack.enter_context(far_from(place, server.port)) for _ in range(WRITERS)]
        for turn in range(rounds):
            before = _server_cpu_seconds(server)
            alone = _crowd(urls, [f"alone {turn}"], seconds)
            cpu += alone.cpu_seconds + _server_cpu_seconds(server) - before
            one.append(sum(alone.swaps))
            counts = _crowd(urls, [f"same {turn}"] * WRITERS, seconds).swaps
            same.append(sum(counts))
            unfair.append(max(counts) / max(1, min(counts)))
            refs = [f"own {turn} {at}" for at in range(WRITERS)]
            own.append(sum(_crowd(urls, refs, seconds).swaps))
    with closing(PostgresStore(place)) as store:
        chains = [len(store.moves(f"same {turn}")) for turn in range(rounds)]
    assert chains == same, f"{same} swaps returned, {chains} are in the histories"
    single, together, apart = (Figure(median(each) / seconds, "/s") for each in (one, same, own))
    note = f"median of {rounds} rounds in turns; one ref: commits reach the disk one by one"
    tag, where = ("-far", f"Postgres {FAR}") if is_far else ("", "Postgres")
    budget = None if is_far else Budget(500, "/s", at_least=True)
    work, between = f"{WRITERS} processes on one ref, {where}", median(map(truediv, same, one))
    yield Row(
        f"postgres-same{tag}", work, together, "one process", single, between, budget, note=note
    )
    work, fair = f"{work}: most over fewest commits", Figure(median(unfair), "x")
    yield Row(f"postgres-fair{tag}", work, fair, budget=Budget(2, "x"), note=note)
    budget = Budget(3, "x", of="ratio", at_least=True)
    work = f"{WRITERS} processes on refs of their own, {where}"
    between = median(map(truediv, own, one))
    yield Row(f"postgres-own{tag}", work, apart, "one process", single, between, budget, note=note)
    work = f"CPU time of such a swap in one process and the server, {where}"
    yield Row(f"postgres-cpu{tag}", work, Figure(cpu / sum(one), "s"))


class Crowd(NamedTuple):
    """How many swaps each of some processes made, and the CPU time of all of them."""

    swaps: list[int]
    cpu_seconds: float


def _crowd(urls: list[str], refs: list[str], seconds: float) -> Crowd:
    """Let processes swap at the same time."""
    each = [[url, str(seconds), ref] for url, ref in zip(urls, refs, strict=False)]
    found = [json.loads(printed) for printed in race(__name__, each).printed]
    return Crowd([swaps for swaps, _ in found], sum(cpu for _, cpu in found))


def _server_cpu_seconds(server: PostgresServer) -> float:
    """Return the CPU time of all connections that were closed."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def take_part(url: str, seconds: str, ref: str) -> None:
    """Swap a ref to new objects for some seconds; print how often, and the CPU time it took."""
    store = PostgresStore(url)
    print("ready", flush=True)
    sys.stdin.readline()
    head, done, end = store.ref(ref), 0, perf_counter() + float(seconds)
    began = process_time()
    while perf_counter() < end:
        objects = [Object(Hash(blake3(data).digest()), data) for data in _new()]
        try:
            store.write(Batch(objects, [Swap(ref, head, objects[-1].hash)], time=1))
        except StaleRef:
            head = store.ref(ref)
        else:
            head = objects[-1].hash
            done += 1
    cpu_seconds = process_time() - began
    store.close()
    print(json.dumps([done, cpu_seconds]))


def _new() -> list[bytes]:
    return [os.urandom(60) for _ in range(4)] + [os.urandom(160)]
