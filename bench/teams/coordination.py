"""What it costs to do something alone, in turn, or together: leases, queues, proposals.

The commits beside them change one of a hundred values of the same team, synced. A lease is acquired
and given back around one commit, or held around many. In the queue, eight processes ask for one
slot; one of them has a hundred requests waiting whenever another has one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from threading import Thread
from typing import Any

import otolith
from bench.ground import Ground, items, tell
from bench.remote.crowd import race
from bench.table import Budget, Figure, Row, compared
from bench.timing import Step, alternate
from tests.servers.postgres import fresh, postgres_server

TEAM, QUEUE = "bench", "gpu"
MEMBERS, WINDOW = 8, 100


def rows(ground: Ground) -> Iterator[Row]:
    yield from _costs(ground, "sqlite", "SQLite", str(ground.place("costs")))
    yield from _fairness(ground, str(ground.place("queue")))
    with postgres_server(on_disk=True) as server:
        yield from _costs(ground, "postgres", "Postgres", fresh(server.url))


def _costs(ground: Ground, tag: str, where: str, url: str) -> Iterator[Row]:
    """Time a commit with a lease, and a proposal with three votes, beside a commit."""
    tell(f"leases and proposals, {where}")
    sizes, numbers = ground.sizes, count()
    with ExitStack() as stack:
        repo = stack.enter_context(otolith.open(url))
        team, holder = (repo.team(name, member="a") for name in (TEAM, f"{TEAM}-held"))
        for each in (team, holder):
            each.state.update(dict(items(sizes.few_keys)))
            each.state.commit()
        for member in ("b", "c"):
            team.add(member)

        def commit(by: Any) -> None:
            by.state["key"] = next(numbers)
            by.state.commit()

        def leased() -> None:
            with holder.lease("one"):
                commit(holder)

        def propose() -> None:
            number = next(numbers)
            proposal = team.propose("bench", lambda state: state.update(plan=number), quorum=3)
            for member in "abc":
                proposal.approve(member)

        stack.enter_context(holder.lease("many"))
        steps: dict[str, Step] = {
            "plain": lambda: commit(team),
            "held": lambda: commit(holder),
            "leased": leased,
            "proposal": propose,
        }
        took = alternate(steps, blocks=sizes.blocks // 2, times=sizes.block_steps // 3)
    plain = took["plain"]
    yield compared(
        f"lease-held-{tag}",
        f"commit that carries the token of a lease, {where}",
        took["held"],
        "commit",
        plain,
        budget=Budget(1.3, "x", of="ratio"),
    )
    yield compared(
        f"lease-each-{tag}",
        f"acquire a lease, commit, give it back, {where}",
        took["leased"],
        "commit",
        plain,
        budget=Budget(1.3, "x", of="ratio"),
    )
    yield compared(
        f"proposal-{tag}",
        f"proposal with 3 votes, landed, {where}",
        took["proposal"],
        "commit",
        plain,
        budget=Budget(5, "x", of="ratio"),
    )


def _fairness(ground: Ground, url: str) -> Iterator[Row]:
    """Let members take turns, one of which asks a hundred times as often."""
    tell("fair queue")
    turns, greed = ground.sizes.turns_per_member, ground.sizes.greedy_threads
    with otolith.open(url, durability="fast") as repo:
        repo.team(TEAM, member="0").transact(lambda state: state.update(order=[]))
    threads = [greed, *[1] * (MEMBERS - 1)]
    arguments = [[url, str(n), str(each), str(turns)] for n, each in enumerate(threads)]
    taken = [json.loads(line) for line in race(__name__, arguments).printed]
    order = [member for _, member in sorted(each for found in taken for each in found)]
    # While everybody asks: until the first member has had all its turns.
    last = min(max(at for at, each in enumerate(order) if each == n) for n in range(1, MEMBERS))
    shares = [
        max(held.values()) / min(held[n] for n in range(MEMBERS))
        for start in range(last - WINDOW)
        for held in [Counter(order[start : start + WINDOW])]
        if min(held[n] for n in range(MEMBERS))
    ]
    starved = sum(len({*order[start : start + WINDOW]}) < MEMBERS for start in range(last - WINDOW))
    work = f"queue of one slot, {MEMBERS} processes, one asks {greed} times as often, SQLite"
    yield Row(
        "queue-fair",
        f"{work}: most by fewest grants in any {WINDOW}",
        Figure(max(shares, default=0.0), "x"),
        budget=Budget(1.2, "x"),
    )
    yield Row(
        "queue-starved",
        f"{work}: windows of {WINDOW} grants without one of them",
        Figure(starved, ""),
        budget=Budget(0, ""),
    )


def take_part(url: str, number: str, threads: str, turns: str) -> None:
    """Take turns at the queue, and print the number of each grant."""
    grants: list[tuple[int, int]] = []
    with otolith.open(url, durability="fast") as repo:
        team = repo.team(TEAM, member=number)
        team.transact(lambda state: None)

        def ask() -> None:
            queue = repo.team(TEAM, member=number).queue(QUEUE)
            for _ in range(int(turns)):
                if len(grants) >= int(turns):
                    return
                with queue as slot:
                    grants.append((slot.token, int(number)))

        asking = [Thread(target=ask) for _ in range(int(threads))]
        print("ready", flush=True)
        sys.stdin.readline()
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    print(json.dumps(grants))
