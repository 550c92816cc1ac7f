"""Commits and cold reads in a bucket: requests, bytes and round trips, against moto's server.

The server is a Python process on this machine, so times say little about a real bucket; requests
and round trips are the same there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from statistics import median
from time import perf_counter

import otolith
from bench.ground import Ground, Sizes, tell
from bench.remote.batches import levels_of
from bench.remote.crowd import race
from bench.table import Budget, Figure, Row, against
from otolith.errors import StaleRef
from otolith.stores import Batch, BucketStore, Swap
from otolith.testing import blob
from tests.servers.bucket import ENVIRONMENT, BucketProxy, BucketServer, running_server

WRITERS = 4
DELAY_SECONDS = 0.03  # so that requests in parallel overlap in the proxy


def rows(ground: Ground) -> Iterator[Row]:
    """Yield what was measured."""
    os.environ |= ENVIRONMENT
    folder, sizes = ground.place("bucket"), ground.sizes
    folder.mkdir()
    with running_server(folder) as server, BucketProxy(server.port) as proxy:
        yield from _commits(server, proxy, sizes.server_commits)
        yield from _cold_read(server, proxy, sizes.server_keys // 10)
        for shared in (True, False):
            yield from _writers(server, sizes, shared=shared)


def _commits(server: BucketServer, proxy: BucketProxy, commits: int) -> Iterator[Row]:
    tell(f"{commits} commits of one change")
    with otolith.open(server.url("counted", port=proxy.port)) as repo:
        state = repo.session("job")
        state["cell"] = -1
        state.commit()
        proxy.reset()
        for number in range(commits):
            state["cell"] = number
            state.commit()
        requests, levels = len(proxy.requests) / commits, proxy.levels / commits
        sent = proxy.sent_bytes / commits
    yield Row(
        "bucket-requests",
        f"commit of one change, bucket, mean of {commits}: requests in thousandths",
        Figure(1000 * requests, ""),
        budget=Budget(1200, ""),
    )
    yield Row(
        "bucket-levels",
        "the same: round trips in thousandths",
        Figure(1000 * levels, ""),
        budget=Budget(1200, ""),
    )
    yield Row("bucket-bytes", "the same: bytes sent", Figure(sent, "B"))
    with otolith.open(server.url("timed")) as repo:
        state = repo.session("job")
        began = perf_counter()
        for number in range(commits):
            state["cell"] = number
            state.commit()
        rate = commits / (perf_counter() - began)
    bare = _bare_puts(server, commits)
    figures = Figure(rate, "/s"), Figure(bare, "/s")
    work, peer = "commits of one change, bucket", "bare puts of 2 KB, with a condition"
    yield against("bucket-rate", work, figures[0], peer, figures[1])


def _bare_puts(server: BucketServer, commits: int) -> float:
    store = BucketStore(server.url("bare"))
    client = store._client
    version = client.swap("key", None, bytes(2000))
    began = perf_counter()
    for _ in range(commits):
        version = client.swap("key", version, os.urandom(2000))
    rate = commits / (perf_counter() - began)
    store.close()
    return rate


def _cold_read(server: BucketServer, proxy: BucketProxy, keys: int) -> Iterator[Row]:
    tell(f"cold read of one key of {keys}")
    some = keys * 54321 // 100_000
    with otolith.open(server.url("cold")) as repo:
        state = repo.session("big")
        state.update({f"key{number:06d}": number for number in range(keys)})
        state.commit()
        depth = levels_of(repo, state)
    proxy.reset()
    proxy.delay_seconds = DELAY_SECONDS
    with otolith.open(server.url("cold", port=proxy.port)) as repo:
        state = repo.session("big")
        opened = proxy.levels
        assert state[f"key{some:06d}"] == some
        levels, received = proxy.levels - opened, proxy.received_bytes
        again = proxy.levels
        assert state[f"key{some:06d}"] == some
        warm = proxy.levels - again
    proxy.delay_seconds = 0.0
    work = f"one key of {keys:,}"
    yield Row(
        "bucket-cold",
        f"cold read of {work}, bucket: round trips after opening its session",
        Figure(levels, ""),
        "levels of its tree",
        Figure(depth, ""),
        levels / depth,
        Budget(1, "x", of="ratio"),
    )
    yield Row("bucket-cold-bytes", "the same: bytes received", Figure(received, "B"))
    yield Row("bucket-warm", f"warm read of {work}, bucket: round trips", Figure(warm, ""))


def _writers(server: BucketServer, sizes: Sizes, *, shared: bool) -> Iterator[Row]:
    where = "one ref" if shared else "refs of their own"
    tell(f"{WRITERS} processes on {where}")
    rates, unfair = [], []
    for _ in range(sizes.races):
        counts = _race(server, sizes.race_seconds, shared=shared)
        rates.append(sum(counts) / sizes.race_seconds)
        unfair.append(max(counts) / max(1, min(counts)))
    name = f"bucket-writers-{'one' if shared else 'own'}"
    note = f"median of {sizes.races} rounds"
    work, fair = f"{WRITERS} processes on {where}, bucket", Figure(median(unfair), "x")
    yield Row(name, work, Figure(median(rates), "/s"), note=note)
    budget = Budget(2, "x")
    yield Row(f"{name}-fair", "the same: most by fewest", fair, budget=budget, note=note)


def _race(server: BucketServer, seconds: float, *, shared: bool) -> list[int]:
    """Return how many swaps each of some processes made at the same time."""
    url = server.url()
    BucketStore(url).close()
    refs = ["main" if shared else f"r{number}" for number in range(WRITERS)]
    found = race(__name__, [[url, str(seconds), ref, str(at)] for at, ref in enumerate(refs)])
    counts = list(map(int, found.printed))
    with closing(BucketStore(url)) as store:
        assert len(store.moves()) == sum(counts)
    return counts


def take_part(url: str, seconds: str, ref: str, name: str) -> None:
    """Swap a ref to new objects for some seconds, and print how often that succeeded."""
    store, done = BucketStore(url), 0
    print("ready", flush=True)
    sys.stdin.readline()
    end = perf_counter() + float(seconds)
    while perf_counter() < end:
        head = store.ref(ref)
        new = blob(f"{name} {done} {head!r}".encode())
        try:
            store.write(Batch([new], [Swap(ref, head, new.hash)], time=1))
            done += 1
        except StaleRef:
            pass
    print(done)
