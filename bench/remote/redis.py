"""Commits to a Redis server beside a bare SET of the same bytes, and several writers on one ref.

Servers run on this machine. There a SET takes as long as some 20 lines of Python, so the same is
measured with a server that is a millisecond away.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import time

import redis

import otolith
from bench.ground import Changes, Ground, Sizes, items, tell
from bench.remote.batches import RecordedStore, batches_like
from bench.remote.crowd import race
from bench.remote.distance import FAR, far_from
from bench.table import Budget, Figure, Row, compared
from bench.timing import Step, alternate
from tests.servers.proxy import Proxy
from tests.servers.redis import RedisServer, redis_server

SYNCS = ("none", "everysec", "always")
WRITERS = 4


@contextmanager
def _server(sync: str) -> Iterator[RedisServer]:
    options = {"appendonly": "no"} if sync == "none" else {"appendonly": "yes", "appendfsync": sync}
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder), **options) as server:
        yield server


def rows(ground: Ground) -> Iterator[Row]:
    """Measure all of it."""
    for sync in SYNCS:
        yield from _commits(ground.sizes, sync, is_far=False)
    yield from _commits(ground.sizes, "always", is_far=True)
    yield _round_trips()
    for refs in ("one ref", "4 refs"):
        yield from _writers(refs, ground.sizes.commits_per_writer)


def _commits(sizes: Sizes, sync: str, *, is_far: bool) -> Iterator[Row]:
    """One-change commits, what the store takes of them, and SETs of as many bytes."""
    where = f"Redis, appendfsync {sync}{f', {FAR}' if is_far else ''}"
    tell(where)
    with ExitStack() as stack:
        server = stack.enter_context(_server(sync))
        url = stack.enter_context(far_from(server.url, server.port)) if is_far else server.url
        repo = stack.enter_context(otolith.open(url))
        recorded = RecordedStore(repo.store)
        state = otolith.Repo(recorded).session("bench")
        state.update(items(sizes.some_messages))
        state.commit()
        changes = Changes(sizes.some_messages)

        def commit() -> None:
            key, value = changes.next()
            state[key] = value
            state.commit()

        commit()
        value = bytes(sum(len(item.data) for item in recorded.last.objects))
        batches = batches_like(recorded.last, sizes.blocks * sizes.block_steps)
        client = redis.Redis.from_url(url.partition("?")[0])
        steps: dict[str, Step] = {
            "commit": commit,
            "write": lambda: repo.store.write(next(batches)),
            "bare": lambda: client.set("bench", value),
        }
        found = alternate(steps, blocks=sizes.blocks, times=sizes.block_steps)
    limit = Budget(1.5, "x", of="ratio")
    for name, what in {
        "commit": "commit of one change",
        "write": "the batch of such a commit alone",
    }.items():
        title = f"redis-{name}-{sync}{'-far' if is_far else ''}"
        work = f"{what} ({len(value)} B), {where}"
        yield compared(title, work, found[name], "SET", found["bare"], budget=limit)


def _round_trips() -> Row:
    with _server("none") as server, Proxy(server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        with otolith.open(url) as repo:
            state = repo.session("bench")
            state["n"] = 0
            state.commit()
            before = proxy.round_trips
            for number in range(100):
                state["n"] = number + 1
                state.commit()
            trips = (proxy.round_trips - before) / 100
    return Row(
        "redis-trips", "round trips of a commit, Redis", Figure(trips, ""), budget=Budget(1, "")
    )


def _writers(refs: str, each: int) -> Iterator[Row]:
    """Processes that add to a counter as fast as they can, on one branch or on one each."""
    work = f"{WRITERS} processes x {each} commits to {refs}, Redis"
    tell(f"redis, {work}")
    with _server("none") as server:
        otolith.open(server.url).close()
        names = ["shared"] * WRITERS if refs == "one ref" else [str(at) for at in range(WRITERS)]
        found = race(__name__, [[server.url, str(each), name] for name in names])
        ends = [json.loads(printed) for printed in found.printed]
        with otolith.open(server.url) as repo:
            total = sum(repo.session(name)["n"] for name in set(names))
    assert total == WRITERS * each, f"{total} commits are in the chain"
    yield Row(
        f"redis-{refs.replace(' ', '-')}-rate",
        f"{work}: per second",
        Figure(total / found.seconds, "/s"),
        budget=Budget(500, "/s", at_least=True),
    )
    until = min(end[-1] for end in ends)  # from then on somebody has less company
    turns = [sum(turn <= until for turn in end) for end in ends]
    unfair = max(turns) / max(1, min(turns))
    yield Row(
        f"redis-{refs.replace(' ', '-')}-fair",
        f"{work}: the most commits of one to the fewest of another, while all write",
        Figure(unfair, "x"),
        budget=Budget(2, "x"),
    )


def take_part(url: str, each: str, session: str) -> None:
    """Add to a counter; report when each commit was made."""
    with otolith.open(url) as repo:
        state = repo.session(session)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        turns = []
        for _ in range(int(each)):
            state.counter("n").add(1)
            state.commit()
            turns.append(time())
        sys.stdout.write(json.dumps(turns))
