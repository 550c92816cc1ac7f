"""Postgres behind PgBouncer, which gives each transaction another connection."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event
from time import monotonic

import pytest

import otolith
from otolith import aio
from otolith.care import prune, verify
from otolith.errors import Fenced
from otolith.stores import Batch, PostgresStore
from otolith.testing import blob, put
from tests.patience import HANG_SECONDS
from tests.servers.pgbouncer import CONNECTIONS
from tests.servers.postgres import fresh


@pytest.fixture
def url(pooler_url):
    return fresh(pooler_url, pool=3 * CONNECTIONS)


@pytest.fixture
def direct_url(url, pooler_url, postgres_url):
    """The same store, at the address of the server itself."""
    return url.replace(pooler_url, postgres_url)


def test_writers_that_share_few_connections_lose_nothing_beside_a_collection(url):
    writers, steps = 2 * CONNECTIONS, 6
    is_done = Event()

    def write(number):
        with otolith.open(url, durability="fast") as repo:
            state = repo.session("job")
            for step in range(steps):
                state.counter("total").add(1)
                state.list("log").append([number, step])
                state.commit(f"{number} {step}")

    def collect():
        with otolith.open(url) as repo:
            while not is_done.is_set():
                prune(repo)

    otolith.open(url).close()
    with ThreadPoolExecutor(writers + 1) as threads:
        collecting = threads.submit(collect)
        written = [threads.submit(write, number) for number in range(writers)]
        try:
            for each in written:
                each.result(HANG_SECONDS)
        finally:
            is_done.set()
        collecting.result(HANG_SECONDS)
    with otolith.open(url) as repo:
        state = repo.session("job")
        assert state["total"] == len(state["log"]) == writers * steps
        assert verify(repo, level="full").ok


@pytest.mark.parametrize("is_pooled", [False, True])
def test_a_subscriber_is_told_by_a_writer_on_the_other_side(url, direct_url, is_pooled):
    places = (url, direct_url) if is_pooled else (direct_url, url)
    with closing(PostgresStore(places[0])) as reader, closing(PostgresStore(places[1])) as writer:
        subscription = reader.subscribe("session/")
        put(writer, "session/a/main", blob("a"))
        names: set[str] = set()
        deadline = monotonic() + HANG_SECONDS
        while "session/a/main" not in names and monotonic() < deadline:
            names |= subscription.wait(5)
        assert names == {"session/a/main"}
        assert subscription.wait(0) == set()
        subscription.close()


def test_a_lease_that_is_lost_refuses_a_late_commit(url):
    with closing(PostgresStore(url)) as first, closing(PostgresStore(url)) as second:
        mine = first.lease("job", "first", ttl_seconds=600)
        assert mine is not None
        assert second.lease("job", "second", ttl_seconds=600) is None
        first.release(mine)
        theirs = second.lease("job", "second", ttl_seconds=600)
        assert theirs is not None
        second.write(Batch(objects=[blob("b")], fences={"job": theirs.token}))
        with pytest.raises(Fenced):
            first.write(Batch(objects=[blob("a")], fences={"job": mine.token}))


def test_many_awaited_sessions_share_few_connections(url):
    async def commit(repo, number):
        state = await repo.session(f"s{number}")
        await state.set("n", number)
        await state.commit("first")

    async def main():
        async with aio.open(url) as repo:
            await asyncio.gather(*(commit(repo, number) for number in range(50)))
            return [await (await repo.session(f"s{number}"))["n"] for number in range(50)]

    assert asyncio.run(main()) == list(range(50))
