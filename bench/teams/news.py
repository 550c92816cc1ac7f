"""How soon a member knows what another one has committed, and what it costs to wait.

A process watches the state of a team, and notes when it has a change; another one notes when its
transaction has returned. Both read the same clock of the machine.
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
from typing import Any

import otolith
from bench.ground import ROOT, Ground, tell
from bench.table import Budget, Figure, Row
from otolith.teams import Team
from tests.servers.postgres import fresh as fresh_postgres
from tests.servers.postgres import postgres_server
from tests.servers.redis import fresh as fresh_redis
from tests.servers.redis import redis_server

TEAM = "bench"
WAIT_SECONDS = 60.0
_RUN = "import sys; from bench.teams.news import take_part; take_part(*sys.argv[1:])"


def rows(ground: Ground) -> Iterator[Row]:
    yield from _on(ground, "sqlite", "SQLite", str(ground.place("news")), limit=0.05)
    with postgres_server(on_disk=True) as postgres:
        yield from _on(ground, "postgres", "Postgres", fresh_postgres(postgres.url), limit=0.01)
    folder = ground.place("redis")
    folder.mkdir()
    with redis_server(folder, appendonly="yes", appendfsync="always") as redis:
        yield from _on(ground, "redis", "Redis", fresh_redis(redis.url), limit=0.01)


def _on(ground: Ground, tag: str, where: str, url: str, *, limit: float) -> Iterator[Row]:
    yield _latency(ground, tag, where, url, limit)
    yield _idle(ground, tag, where, url)


def _latency(ground: Ground, tag: str, where: str, url: str, limit: float) -> Row:
    tell(f"news, {where}")
    chance, began, count = random.Random(1), list[float](), ground.sizes.moves
    with otolith.open(url) as repo:
        team = repo.team(TEAM, member="writer")
        _put(team, -1)
        with _listener("listen", url, str(count)) as process:
            for number in range(count):
                sleep(chance.random() * 0.03)  # at any time between two looks
                _put(team, number)
                began.append(monotonic())
                _line(process)
            heard = json.loads(_line(process))
    waits = sorted(heard[number] - began[number] for number in range(count))
    middle, tenths = median(waits), (waits[count // 10], waits[count * 9 // 10])
    return Row(
        f"news-{tag}",
        f"from a commit until another process has the change, {where}",
        Figure(middle, "s", *tenths),
        budget=Budget(limit, "s"),
        note="below zero: the other process had it before the commit had returned here",
    )


def _put(team: Team[Any], number: int) -> None:
    team.transact(lambda state: state.update(number=number))


def _idle(ground: Ground, tag: str, where: str, url: str) -> Row:
    tell(f"a process that waits, {where}")
    with (
        otolith.open(url) as repo,
        _listener("rest", url, str(ground.sizes.idle_seconds)) as process,
    ):
        assert repo.store.capabilities.notifies
        share = float(_line(process))
    return Row(
        f"news-idle-{tag}",
        f"a process that watches while nothing happens, {where}: share of a core",
        Figure(share * 100, "%"),
        budget=Budget(1, "%"),
    )


@contextmanager
def _listener(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that watches."""
    command = [sys.executable, "-c", _RUN, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        _line(process)
        yield process


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def take_part(work: str, url: str, amount: str) -> None:
    """Watch, and print when there were changes; or wait for none, and print the CPU time."""
    with otolith.open(url) as repo, repo.team(TEAM).watch("number") as watch:
        watch.next(0.05)  # which subscribes
        print("ready", flush=True)
        if work == "listen":
            times = []
            for _ in range(int(amount)):
                assert watch.next(WAIT_SECONDS)
                times.append(monotonic())
                print("heard", flush=True)
            print(json.dumps(times), flush=True)
        else:
            began, used = monotonic(), process_time()
            assert watch.next(float(amount)) is None
            print((process_time() - used) / (monotonic() - began), flush=True)
