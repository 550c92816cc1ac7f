"""Commits and cold reads in a bucket: requests, bytes and round trips, against moto's server.

python3 -m bench.remote_bucket        needs nothing but `moto[s3,server]`

The server is a Python process on this machine, so times say little about a real bucket; requests
and round trips are the same there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import otolith
from bench.ground import ROOT, tell
from bench.table import Budget, Figure, Row, text
from otolith.stores import BucketStore
from tests.servers.bucket import ENVIRONMENT, BucketProxy, BucketServer, running_server

COMMITS = 300
KEYS = 100_000
WRITERS = 4
SECONDS = 5.0
DELAY_SECONDS = 0.03  # so that requests in parallel overlap in the proxy

_RACE = """
import sys, time
from otolith.errors import StaleRef
from otolith.stores import Batch, BucketStore, Swap
from tests.reference.objects import blob
url, name, ref, seconds = sys.argv[1:]
store, done = BucketStore(url), 0
print("ready", flush=True)
sys.stdin.readline()
end = time.monotonic() + float(seconds)
while time.monotonic() < end:
    head = store.ref(ref)
    new = blob(f"{name} {done} {head}")
    try:
        store.write(Batch([new], [Swap(ref, head, new.hash)], time=1))
        done += 1
    except StaleRef:
        pass
print(done)
"""


def rows(server: BucketServer, proxy: BucketProxy) -> Iterator[Row]:
    """Yield what was measured."""
    yield from _commits(server, proxy)
    yield from _cold_read(server, proxy)
    for shared in (True, False):
        yield from _writers(server, shared=shared)


def _commits(server: BucketServer, proxy: BucketProxy) -> Iterator[Row]:
    tell(f"{COMMITS} commits of one change")
    with otolith.open(server.url("counted", port=proxy.port)) as repo:
        state = repo.session("job")
        state["cell"] = -1
        state.commit()
        proxy.reset()
        for number in range(COMMITS):
            state["cell"] = number
            state.commit()
        requests, levels = len(proxy.requests) / COMMITS, proxy.levels / COMMITS
        sent = proxy.sent_bytes / COMMITS
    yield Row(
        "bucket-requests",
        f"a commit of one change, mean of {COMMITS}: requests in thousandths",
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
        for number in range(COMMITS):
            state["cell"] = number
            state.commit()
        rate = COMMITS / (perf_counter() - began)
    bare = _bare_puts(server)
    yield Row("bucket-rate", "commits of one change", Figure(rate, "/s"))
    yield Row("bucket-bare", "conditional puts of 2 KB, nothing else", Figure(bare, "/s"))


def _bare_puts(server: BucketServer) -> float:
    store = BucketStore(server.url("bare"))
    client = store._client
    version = client.swap("key", None, bytes(2000))
    began = perf_counter()
    for _ in range(COMMITS):
        version = client.swap("key", version, os.urandom(2000))
    rate = COMMITS / (perf_counter() - began)
    store.close()
    return rate


def _cold_read(server: BucketServer, proxy: BucketProxy) -> Iterator[Row]:
    tell(f"cold read of one key of {KEYS}")
    with otolith.open(server.url("cold")) as repo:
        state = repo.session("big")
        state.update({f"key{number:06d}": number for number in range(KEYS)})
        state.commit()
    proxy.reset()
    proxy.delay_seconds = DELAY_SECONDS
    with otolith.open(server.url("cold", port=proxy.port)) as repo:
        opened = proxy.levels
        state = repo.session("big")
        assert state["key054321"] == 54321
        levels, received = proxy.levels - opened, proxy.received_bytes
        again = proxy.levels
        assert state["key054321"] == 54321
        warm = proxy.levels - again
    proxy.delay_seconds = 0.0
    work = f"one key of {KEYS:,}"
    yield Row("bucket-cold", f"cold read of {work}: round trips after opening", Figure(levels, ""))
    yield Row("bucket-cold-bytes", "the same: bytes received", Figure(received, "B"))
    yield Row("bucket-warm", f"warm read of {work}: round trips", Figure(warm, ""))


def _writers(server: BucketServer, *, shared: bool) -> Iterator[Row]:
    where = "one ref" if shared else "refs of their own"
    tell(f"{WRITERS} processes on {where}")
    url = server.url()
    BucketStore(url).close()
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, url, str(n), "main" if shared else f"r{n}", str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for n in range(WRITERS)
    ]
    for process in crowd:
        assert process.stdout is not None
        process.stdout.readline()
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [int(process.communicate()[0]) for process in crowd]
    store = BucketStore(url)
    assert len(store.moves()) == sum(counts)
    store.close()
    name = f"bucket-writers-{'one' if shared else 'own'}"
    yield Row(name, f"{WRITERS} processes on {where}: all", Figure(sum(counts) / SECONDS, "/s"))
    fair = max(counts) / max(1, min(counts))
    yield Row(f"{name}-fair", "the same: most by fewest", Figure(fair, "x"), budget=Budget(2, "x"))


def main() -> None:
    """Measure, and print a table."""
    os.environ |= ENVIRONMENT
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder)) as server,
        BucketProxy(server.port) as proxy,
    ):
        sys.stdout.write(text(list(rows(server, proxy))) + "\n")


if __name__ == "__main__":
    main()
