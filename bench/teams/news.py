"""How soon a process knows that another one has committed, and what it costs to wait.

A process waits for news of a branch, and notes when it has some; another one notes when its commit
has returned. Both read the same clock of the machine.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import monotonic, process_time, sleep

import otolith
from bench.ground import ROOT, Ground, tell
from bench.table import Budget, Figure, Row
from otolith.stores import news_of
from tests.servers.postgres import fresh as fresh_postgres
from tests.servers.postgres import postgres_server
from tests.servers.redis import fresh as fresh_redis
from tests.servers.redis import redis_server

SESSION = "team"
WAIT_SECONDS = 60.0
_RUN = "import sys; from bench.teams.news import take_part; take_part(*sys.argv[1:])"


def rows(ground: Ground) -> Iterator[Row]:
    yield from _latency(ground, "sqlite", "SQLite", str(ground.place("news")), limit=0.05)
    yield _idle(ground, str(ground.place("idle")))
    with postgres_server(on_disk=True) as postgres:
        yield from _latency(
            ground, "postgres", "Postgres", fresh_postgres(postgres.url), limit=0.01
        )
    folder = ground.place("redis")
    folder.mkdir()
    with redis_server(folder, appendonly="yes", appendfsync="always") as redis:
        yield from _latency(ground, "redis", "Redis", fresh_redis(redis.url), limit=0.01)


def _latency(ground: Ground, tag: str, where: str, url: str, *, limit: float) -> Iterator[Row]:
    tell(f"news, {where}")
    chance, began, count = random.Random(1), list[float](), ground.sizes.moves
    with otolith.open(url) as repo:
        state = repo.session(SESSION)
        state["number"] = -1
        state.commit()
        with _listener("listen", url, str(count)) as process:
            for number in range(count):
                sleep(chance.random() * 0.03)  # at any time between two looks
                state["number"] = number
                state.commit()
                began.append(monotonic())
                _line(process)
            heard = json.loads(_line(process))
    waits = sorted(heard[number] - began[number] for number in range(count))
    middle, tenths = median(waits), (waits[count // 10], waits[count * 9 // 10])
    yield Row(
        f"news-{tag}",
        f"from a commit until another process knows, {where}",
        Figure(middle, "s", *tenths),
        budget=Budget(limit, "s"),
        note="below zero: the other process knew before the commit had returned here",
    )


def _idle(ground: Ground, url: str) -> Row:
    tell("a process that waits, SQLite")
    with (
        otolith.open(url) as repo,
        _listener("rest", url, str(ground.sizes.idle_seconds)) as process,
    ):
        assert repo.store.capabilities.notifies
        share = float(_line(process))
    return Row(
        "news-idle",
        "a process that waits while nothing happens, SQLite: share of a core",
        Figure(share * 100, "%"),
        budget=Budget(1, "%"),
    )


@contextmanager
def _listener(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that is subscribed."""
    command = [sys.executable, "-c", _RUN, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        _line(process)
        yield process


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def take_part(work: str, url: str, amount: str) -> None:
    """Wait for news, and print when there was some; or for nothing, and print the CPU time."""
    with otolith.open(url) as repo:
        news = news_of(repo.store, f"session/{SESSION}/")
        print("ready", flush=True)
        if work == "listen":
            times = []
            for _ in range(int(amount)):
                assert news.wait(WAIT_SECONDS)
                times.append(monotonic())
                print("heard", flush=True)
            print(json.dumps(times), flush=True)
        else:
            began, used = monotonic(), process_time()
            assert news.wait(float(amount)) == set()
            print((process_time() - used) / (monotonic() - began), flush=True)
        news.close()
