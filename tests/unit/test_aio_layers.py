"""Layers under awaited sessions: none of them stops the sessions beside the one that waits."""

from __future__ import annotations

import asyncio
from threading import Event

import pytest

from otolith import aio
from otolith.errors import Unavailable
from otolith.stores import (
    CachedStore,
    Layer,
    MemoryCache,
    MirroredStore,
    PostgresStore,
    RetryingStore,
    TieredStore,
)
from tests.patience import HANG_SECONDS
from tests.servers.postgres import fresh


@pytest.fixture
def open_store(postgres_url):
    return lambda: PostgresStore(fresh(postgres_url, pool=5))


def run(main):
    return asyncio.run(asyncio.wait_for(main, HANG_SECONDS))


async def begun(state, *names):
    """Commit to a state, and return branches of it."""
    await state.set("n", 0)
    await state.commit("begun")
    return [await state.fork(name) for name in names]


async def commits(state, branches=8, rounds=5):
    """Commit to several branches at once."""

    async def work(branch):
        for step in range(rounds):
            await branch.set("n", step + 1)
            await branch.commit(f"{step}")

    names = [f"b{number}" for number in range(branches)]
    await asyncio.gather(*map(work, await begun(state, *names)))


def test_a_layer_of_a_user_is_not_said_to_wait_for_its_server(open_store):
    store = open_store()
    assert store.capabilities.awaits
    assert not Layer(store).capabilities.awaits
    store.close()


def test_sessions_over_a_mirrored_store_all_get_on(open_store):
    store = MirroredStore(open_store(), open_store())
    assert not store.capabilities.awaits  # it holds a lock while it writes to the replica

    async def main():
        async with aio.Versioned.open(store) as state:
            await commits(state)
            return store.lag

    assert run(main()) == 0


def test_sessions_over_a_cached_store_share_one_thread(open_store):
    store = CachedStore(open_store())
    assert store.capabilities.awaits

    async def main():
        async with aio.Versioned.open(store) as state:
            await commits(state)

    run(main())


class Flaky(Layer):
    """A store that cannot tell one ref for a while."""

    awaits = True
    bad = ""

    def __init__(self, inner):
        super().__init__(inner)
        self.asked = Event()

    def ref(self, name):
        if self.bad and self.bad in name:
            self.asked.set()
            raise Unavailable("down")
        return super().ref(name)


def test_a_session_that_tries_again_keeps_nobody_waiting(open_store):
    flaky = Flaky(open_store())
    store = RetryingStore(flaky, patience_seconds=HANG_SECONDS)
    assert store.capabilities.awaits

    async def main():
        async with aio.Versioned.open(store) as state:
            bad, good = await begun(state, "bad", "good")
            flaky.bad = "/bad"
            trying = asyncio.create_task(bad.refresh())
            assert await asyncio.to_thread(flaky.asked.wait, HANG_SECONDS)
            for number in range(5):
                await good.set("n", -number)
                await good.commit(f"{number}")
            assert not trying.done()
            flaky.bad = ""
            await trying

    run(main())


class StalledCache:
    """A cache on a server that answers nobody while it is not released."""

    errors = 0

    def __init__(self):
        self.asked, self.released = Event(), Event()
        self.released.set()

    def get_many(self, hashes):
        self.asked.set()
        assert self.released.wait(HANG_SECONDS)
        return {}

    def put_many(self, objects):
        return self.get_many(objects) or None

    def close(self):
        """Release nothing."""


def test_a_tier_that_stalls_keeps_only_those_waiting_who_ask_it(open_store):
    stalled = StalledCache()
    store = TieredStore(open_store(), [MemoryCache(limit_bytes=1 << 20), stalled])
    assert store.capabilities.awaits

    async def main():
        async with aio.Versioned.open(store) as state:
            writer, reader = await begun(state, "writer", "reader")
            stalled.asked.clear()
            stalled.released.clear()
            await writer.set("n", 1)
            waiting = asyncio.create_task(writer.commit("one"))
            assert await asyncio.to_thread(stalled.asked.wait, HANG_SECONDS)
            for _ in range(5):
                await reader.refresh()
            assert not waiting.done()
            stalled.released.set()
            await waiting

    run(main())
