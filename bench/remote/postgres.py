"""Postgres: what a commit costs beside a bare statement, and what crowds of writers reach.

Postgres runs on the disk of this machine, so that a commit waits for the disk as it does elsewhere.
Writers are processes; on a machine with few cores these, not the server, are the limit. So bare
INSERTs are made by as many in the same rounds, and the same is measured with a server that is a
millisecond away, where all of them mostly wait.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
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
_BARE = "create table if not exists bare(id bigserial primary key, data bytea)"
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
    batches = batches_like(recorded.last, sizes.blocks * sizes.block_steps)
    bare = stack.enter_context(psycopg.connect(url, autocommit=True))
    bare.execute(_BARE)

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
    """Let one process, several on one ref, and several on their own, swap as fast as they can."""
    tell(f"Postgres, crowds{', far' if is_far else ''}")
    seconds = ground.sizes.race_seconds / ground.sizes.races
    found = _rounds(server, ground.sizes.races, seconds, is_far=is_far)
    rounds = ground.sizes.races
    note = f"median of {rounds} rounds in turns; one ref: commits reach the disk one by one"
    tag, where = ("-far", f"Postgres {FAR}") if is_far else ("", "Postgres")

    def compared_with(
        alone: list[int], name: str, work: str, done: list[int], budget: Budget | None
    ) -> Row:
        ours, theirs = (Figure(median(each) / seconds, "/s") for each in (done, alone))
        between, name = median(map(truediv, done, alone)), f"postgres-{name}{tag}"
        return Row(
            name,
            f"{WRITERS} processes {work}, {where}",
            ours,
            "one process",
            theirs,
            between,
            budget,
            note=note,
        )

    budget = None if is_far else Budget(500, "/s", at_least=True)
    yield compared_with(found.one, "same", "on one ref", found.same, budget)
    work = f"{WRITERS} processes on one ref, {where}: most over fewest commits"
    fair = Figure(median(found.unfair), "x")
    yield Row(f"postgres-fair{tag}", work, fair, budget=Budget(2, "x"), note=note)
    budget = Budget(3, "x", of="ratio", at_least=True)
    yield compared_with(found.one, "own", "on refs of their own", found.own, budget)
    yield compared_with(found.bare_one, "bare", "with bare INSERTs", found.bare, None)
    work = f"CPU time of such a swap in one process and the server, {where}"
    yield Row(f"postgres-cpu{tag}", work, Figure(found.cpu_seconds / sum(found.one), "s"))


@dataclass
class Rounds:
    """How often processes swapped or inserted in each round."""

    one: list[int] = field(default_factory=list)
    same: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    bare_one: list[int] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    unfair: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0  # of the one process and the server


def _rounds(server: PostgresServer, rounds: int, seconds: float, *, is_far: bool) -> Rounds:
    """Let all take turns, so that a disk that is busy with others disturbs all alike."""
    place = fresh(server.url)
    PostgresStore(place).close()
    server.ask(_BARE)
    found = Rounds()
    with ExitStack() as stack:
        urls = [place] * WRITERS
        if is_far:
            urls = [stack.enter_context(far_from(place, server.port)) for _ in range(WRITERS)]
        for turn in range(rounds):
            before = _server_cpu_seconds(server)
            alone = _crowd("swap", urls, [f"alone {turn}"], seconds)
            found.cpu_seconds += alone.cpu_seconds + _server_cpu_seconds(server) - before
            found.one.append(sum(alone.done))
            counts = _crowd("swap", urls, [f"same {turn}"] * WRITERS, seconds).done
            found.same.append(sum(counts))
            found.unfair.append(max(counts) / max(1, min(counts)))
            refs = [f"own {turn} {at}" for at in range(WRITERS)]
            found.own.append(sum(_crowd("swap", urls, refs, seconds).done))
            found.bare_one.append(sum(_crowd("insert", urls, refs[:1], seconds).done))
            found.bare.append(sum(_crowd("insert", urls, refs, seconds).done))
    with closing(PostgresStore(place)) as store:
        chains = [len(store.moves(f"same {turn}")) for turn in range(rounds)]
    assert chains == found.same, f"{found.same} swaps returned, {chains} are in the histories"
    return found


class Crowd(NamedTuple):
    """How much each of some processes has done, and the CPU time of all of them."""

    done: list[int]
    cpu_seconds: float


def _crowd(work: str, urls: list[str], refs: list[str], seconds: float) -> Crowd:
    """Let processes work at the same time."""
    each = [[work, url, str(seconds), ref] for url, ref in zip(urls, refs, strict=False)]
    found = [json.loads(printed) for printed in race(__name__, each).printed]
    return Crowd([done for done, _ in found], sum(cpu for _, cpu in found))


def _server_cpu_seconds(server: PostgresServer) -> float:
    """Return the CPU time of all connections that were closed."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def take_part(work: str, url: str, seconds: str, ref: str) -> None:
    """Do some work for some seconds; print how often, and the CPU time it took."""
    with {"swap": _swaps, "insert": _inserts}[work](url, ref) as step:
        print("ready", flush=True)
        sys.stdin.readline()
        done, end, began = 0, perf_counter() + float(seconds), process_time()
        while perf_counter() < end:
            done += step()
        cpu_seconds = process_time() - began
    print(json.dumps([done, cpu_seconds]))


@contextmanager
def _swaps(url: str, ref: str) -> Iterator[Callable[[], bool]]:
    """Return a step that swaps a ref to new objects, and whether nobody else was faster."""
    with closing(PostgresStore(url)) as store:
        head = store.ref(ref)

        def swap() -> bool:
            nonlocal head
            objects = [Object(Hash(blake3(data).digest()), data) for data in _new()]
            try:
                store.write(Batch(objects, [Swap(ref, head, objects[-1].hash)], time=1))
            except StaleRef:
                head = store.ref(ref)
                return False
            head = objects[-1].hash
            return True

        yield swap


@contextmanager
def _inserts(url: str, _: str) -> Iterator[Callable[[], bool]]:
    """Return a step that inserts as many bytes as such a swap, into a table that all share."""
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:

        def insert() -> bool:
            connection.execute("insert into bare(data) values (%b)", [b"".join(_new())])
            return True

        yield insert


def _new() -> list[bytes]:
    return [os.urandom(60) for _ in range(4)] + [os.urandom(160)]
