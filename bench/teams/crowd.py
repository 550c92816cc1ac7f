"""Members of a team that change its state at the same time: nothing is lost, and nobody starves.

Each member is a process that runs its transactions one after the other: each adds to one counter,
appends to one list and sets a key of its own. *Wrong* are transactions that were lost, counted
twice or raised. How fair it is, is measured at the moment when the first member is done: until then
all were writing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import NamedTuple

import otolith
from bench.ground import Ground, tell
from bench.remote.crowd import race
from bench.table import Budget, Figure, Row
from otolith.errors import Error
from tests.servers.postgres import fresh, postgres_server

TEAM = "bench"


def rows(ground: Ground) -> Iterator[Row]:
    for durability in ("full", "fast"):
        place = str(ground.place(f"crowd-{durability}"))
        yield from _crowd(ground, f"sqlite-{durability}", f"SQLite, {durability}", place)
    with postgres_server(on_disk=True) as server:
        yield from _crowd(ground, "postgres", "Postgres", fresh(server.url))


class Member(NamedTuple):
    """What one member has done: when each of its transactions was over, and what it took."""

    ends: list[float]
    raised: int
    calls: int


def _crowd(ground: Ground, tag: str, where: str, url: str) -> Iterator[Row]:
    members, each = ground.sizes.members, ground.sizes.transactions_per_member
    work = f"{members} processes x {each} transactions of one team, {where}"
    tell(work)
    durability = "fast" if tag.endswith("fast") else "full"
    _begin(url, durability)
    arguments = [[url, durability, str(number), str(each)] for number in range(members)]
    found = [Member(*json.loads(line)) for line in race(__name__, arguments).printed]
    first, last = (pick(member.ends[-1] for member in found) for pick in (min, max))
    counts = [sum(end <= first for end in member.ends) for member in found]
    wrong = _wrong(url, members, each) + sum(member.raised for member in found)
    done = members * each
    yield Row(
        f"crowd-wrong-{tag}",
        f"{work}: lost, counted twice or raised",
        Figure(wrong, ""),
        budget=Budget(0, ""),
    )
    yield Row(
        f"crowd-fair-{tag}",
        f"{work}: most over fewest of a member while all write",
        Figure(max(counts) / max(1, min(counts)), "x"),
        budget=Budget(2, "x"),
    )
    yield Row(f"crowd-rate-{tag}", f"{work}: per second", Figure(done / last, "/s"))
    yield Row(
        f"crowd-calls-{tag}",
        f"{work}: calls of its function for each transaction",
        Figure(sum(member.calls for member in found) / done, "x"),
    )


def _begin(url: str, durability: str) -> None:
    with otolith.open(url, durability=durability) as repo:
        team = repo.team(TEAM, member="0")
        team.transact(lambda state: state.update(count=0, log=[], own={}))


def _wrong(url: str, members: int, each: int) -> int:
    """Return how many transactions are not there exactly once."""
    with otolith.open(url) as repo:
        state = repo.team(TEAM).state
        logged = Counter(state["log"])
        wanted = {f"{number} {turn}" for number in range(members) for turn in range(each)}
        lost = len(wanted - logged.keys())
        doubled = logged.total() - len(logged)
        own = sum(state[f"own/{number}"] != each - 1 for number in range(members))
        miscounted = abs(state["count"] - logged.total())
        return int(lost + doubled + own + miscounted)


def take_part(url: str, durability: str, number: str, each: str) -> None:
    """Run transactions; print when each was over, how many raised, and how many calls it took."""
    repo = otolith.open(url, durability=durability)
    team = repo.team(TEAM, member=number)
    team.add(number)
    calls: list[int] = []

    def add(turn: int, state: otolith.Branch) -> None:
        calls.append(turn)
        state["count"] += 1
        state.list("log").append(f"{number} {turn}")
        state[f"own/{number}"] = turn

    print("ready", flush=True)
    sys.stdin.readline()
    began, ends, raised = perf_counter(), list[float](), 0
    for turn in range(int(each)):
        try:
            team.transact(partial(add, turn))
        except Error:
            raised += 1
        ends.append(perf_counter() - began)
    repo.close()
    print(json.dumps([ends, raised, len(calls)]))
